"""Distances between boundaries: equal to scipy.ndimage and numpy.percentile by bits, every kernel to the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage  # type: ignore[import-untyped]
from torch import library

from testing.examples_surface import arguments
from testing.parity import differences
from testing.registry import ROWS
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.surface import op as surface
from valor_gpu.ops.surface.op import LARGEST, METRICS, NEAR, PERCENTILE, PIXELS, SUM, surface_distances
from valor_gpu.ops.surface.reference import boundary, lane_sum

Mask = NDArray[np.bool_]
NAME = "surface_distances"


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return kernel(request.param, NAME, surface._on_cuda)


def edge_of(mask: Mask) -> Mask:
    edge: Mask = mask & ~ndimage.binary_erosion(mask)
    return edge


def distances_of(here: Mask, there: Mask, metric: str, spacing: list[float] | None = None) -> NDArray[np.float64]:
    """scipy's distances from one boundary to the other."""
    if metric == "euclidean":
        field = ndimage.distance_transform_edt(~edge_of(there), sampling=spacing)
    else:
        field = ndimage.distance_transform_cdt(~edge_of(there), metric=metric)
    found: NDArray[np.float64] = field[edge_of(here)].astype(np.float64)
    return found


def shapes_of(seed: int, size: tuple[int, ...]) -> Mask:
    """Blocks, holes and specks in a mask that is not empty."""
    rng = np.random.default_rng([seed, *size])
    mask = np.zeros(size, bool)
    for fill in (True, True, False, True):
        begins = [int(rng.integers(0, n)) for n in size]
        mask[tuple(slice(b, b + 1 + int(rng.integers(n))) for b, n in zip(begins, size))] = fill
    mask[rng.random(size) < 0.02] ^= True
    mask[tuple(int(rng.integers(0, n)) for n in size)] = True
    return mask


SIZES = [(1, 1), (1, 37), (37, 1), (20, 31), (64, 64), (9, 130), (5, 6, 7), (1, 9, 8), (12, 20, 17)]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("size", SIZES)
def test_equal_to_scipy_and_numpy_by_bits(size: tuple[int, ...], metric: str) -> None:
    for seed in seeds(6):
        masks = shapes_of(seed, size), shapes_of(seed + 1000, size)
        sides = [torch.from_numpy(mask)[None, None] for mask in masks]
        for percentile in (0.0, 50.0, 95.0, 99.3, 100.0):
            found = surface_distances(*sides, 1, metric=metric, percentile=percentile, tolerance=2.5)
            for side in range(2):
                expected = distances_of(masks[side], masks[1 - side], metric)
                got = found.statistics[0, 0, side].numpy()
                assert got[LARGEST] == expected.max()
                assert got[PERCENTILE] == np.percentile(expected, percentile)
                assert got[SUM] == float(lane_sum(torch.from_numpy(expected)))
                assert got[SUM] == pytest.approx(expected.sum(), rel=1e-14)
                counts = found.counts[0, 0, side]
                assert counts.tolist() == [len(expected), (expected <= 2.5).sum()]


@pytest.mark.parametrize("size", [(20, 31), (6, 9, 7)])
def test_spacing_is_that_of_scipy(size: tuple[int, ...]) -> None:
    spacing = [0.7, 2.5, 1.3][: len(size)]
    for seed in seeds(6):
        masks = shapes_of(seed, size), shapes_of(seed + 1000, size)
        sides = [torch.from_numpy(mask)[None, None] for mask in masks]
        found = surface_distances(*sides, 1, spacing=spacing, percentile=90.0).statistics[0, 0, 0]
        expected = distances_of(*masks, "euclidean", spacing)
        numbers = [expected.sum(), expected.max(), np.percentile(expected, 90.0)]
        assert found.tolist() == pytest.approx(numbers, rel=1e-14)


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (4, 7), (3, 1, 5), (4, 5, 6)])
def test_boundary_is_what_erosion_takes_away(size: tuple[int, ...]) -> None:
    for seed in range(5):
        mask = shapes_of(seed, size)
        assert boundary(torch.from_numpy(mask)).numpy().tolist() == edge_of(mask).tolist()


@pytest.mark.smoke
def test_small_images_on_every_kernel(op: Callable[..., Any]) -> None:
    rng = np.random.default_rng(1)
    for size in ((1, 1), (3, 35), (9, 4), (2, 3, 5)):
        for unit in (True, False):
            given = arguments(rng, size, unit)
            assert differences(op(*given), _library.reference(NAME)(*given)) == ""
    here, there = torch.ones(1, 1, 3, 40, dtype=torch.bool), torch.zeros(1, 1, 3, 40, dtype=torch.bool)
    there[..., -1] = True  # far from most of a row, whose envelope is made
    for metric in range(3):
        given = (here, there, [metric, 0, 1], [1.0, 1.0, 0.95, 2.0])
        assert differences(op(*given), _library.reference(NAME)(*given)) == ""


def test_every_kernel_equals_the_definition(op: Callable[..., Any]) -> None:
    for example in ROWS[NAME].examples(True):
        expected = _library.reference(NAME)(*example.arguments)
        assert differences(op(*example.arguments), expected) == "", example.name


@pytest.mark.parametrize("seed", seeds(40))
def test_random_images_and_choices(seed: int) -> None:
    rng = np.random.default_rng([seed, 15])
    axes = 3 if seed % 3 == 0 else 2
    size = tuple(rng.integers(1, 9 if axes == 3 else 28, axes).tolist())
    given = arguments(rng, size, bool(seed % 2))
    expected = _library.reference(NAME)(*given)
    assert differences(torch.ops.valor_gpu.surface_distances.default(*given), expected) == ""


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    monkeypatch.setattr(surface, "_WORKSPACE_BYTES", 100_000)  # images and classes take turns
    rng = np.random.default_rng(int(seed))
    simulated = kernel("simulated", NAME, surface._on_cuda)
    for size in ((23, 70), (4, 9, 33)):
        given = arguments(rng, size, seed == "1")
        assert differences(simulated(*given), _library.reference(NAME)(*given)) == ""


def test_rows_with_few_and_with_many_visits_agree() -> None:
    """Searching a row and its envelope are two ways: a boundary far away asks for the second."""
    rng = np.random.default_rng(4)
    for metric in METRICS:
        for size in ((60, 400), (5, 20, 200)):
            here, there = rng.random(size) < 0.5, np.zeros(size, bool)
            there[..., rng.integers(0, 3, 4)] = rng.random((*size[:-1], 4)) < 0.1
            there[..., -1] |= rng.random(size[:-1]) < 0.05
            there[0, ..., 0] = True
            sides = [torch.from_numpy(mask)[None, None] for mask in (here, there)]
            found = surface_distances(*sides, 1, metric=metric, percentile=30.0).statistics[0, 0, 0]
            expected = distances_of(here, there, metric)
            assert found.tolist()[1:] == [expected.max(), np.percentile(expected, 30.0)]


def test_a_column_of_more_rows_than_16_bits_count() -> None:
    here, there = torch.zeros(2, 1, 1, 70_000, 2, dtype=torch.bool)
    here[0, 0, 0, 0], there[0, 0, 69_999, 1] = True, True
    assert float(surface_distances(here, there, 1).statistics[0, 0, 0, LARGEST]) == float(np.sqrt(69_999**2 + 1))


def test_labels_masks_and_strides_say_the_same() -> None:
    rng = np.random.default_rng(3)
    labels = [torch.from_numpy(rng.integers(0, 4, (2, 19, 23)).astype(np.int32)) for _ in range(2)]
    masks = [(side[:, None] == torch.arange(4)[:, None, None]) for side in labels]
    expected = surface_distances(*labels, 4, first_class=1)
    for preds, target in ((masks[0], labels[1]), (labels[0], masks[1]), masks):
        assert differences(surface_distances(preds, target, 4, first_class=1), expected) == ""
    turned = [side.transpose(1, 2).contiguous().transpose(1, 2) for side in labels]
    assert differences(surface_distances(*turned, 4, first_class=1), expected) == ""
    library.opcheck(torch.ops.valor_gpu.surface_distances.default, (*labels, [0, 1, 4], [1.0, 1.0, 0.95, 0.0]))


def test_threads_change_nothing() -> None:
    rng = np.random.default_rng(3)
    labels = [torch.from_numpy(rng.integers(0, 40, (3, 50, 60)).astype(np.int32)) for _ in range(2)]
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 4):
            torch.set_num_threads(threads)
            found.append(surface_distances(*labels, 40))
    finally:
        torch.set_num_threads(before)
    assert differences(*found) == ""


def test_cases_worked_by_hand() -> None:
    # A square of 3 x 3 pixels and the same two columns further: of its 8 boundary pixels the left three are 2 and
    # the middle two 1 or 1 away: columns 0, 1, 2 against 2, 3, 4.
    preds, target = torch.zeros(2, 1, 5, 7, dtype=torch.int32)
    preds[0, 1:4, 0:3], target[0, 1:4, 2:5] = 1, 1
    found = surface_distances(preds, target, 2, first_class=1, tolerance=1.0, percentile=100.0)
    # to column 2 (rows 1, 2, 3): three pixels at 2, two at 1, three at 0
    assert found.statistics[0, 0].tolist() == [[8.0, 2.0, 2.0], [8.0, 2.0, 2.0]]
    assert found.counts[0, 0].tolist() == [[8, 5], [8, 5]]
    # a single pixel at 3 rows and 4 columns from another
    preds, target = torch.zeros(2, 1, 5, 7, dtype=torch.int32)
    preds[0, 0, 0], target[0, 3, 4] = 1, 1
    for metric, far in (("euclidean", 5.0), ("chessboard", 4.0), ("taxicab", 7.0)):
        assert surface_distances(preds, target, 2, metric=metric).statistics[0, 1, 0, LARGEST] == far
    assert surface_distances(preds, target, 2, spacing=[2.0, 0.5]).statistics[0, 1, 0, LARGEST] == np.sqrt(36 + 4)


def test_whole_images_and_empty_ones() -> None:
    whole, none = torch.ones(1, 1, 4, 5, dtype=torch.bool), torch.zeros(1, 1, 4, 5, dtype=torch.bool)
    found = surface_distances(whole, whole, 1)
    assert found.counts[0, 0, :, PIXELS].tolist() == [14, 14]  # outside of the image nothing is set
    assert found.statistics[0, 0].tolist() == [[0.0, 0.0, 0.0]] * 2
    for preds, target, pixels in ((whole, none, [14, 0]), (none, whole, [0, 14]), (none, none, [0, 0])):
        found = surface_distances(preds, target, 1)
        assert found.counts[0, 0, :, PIXELS].tolist() == pixels and found.counts[0, 0, :, NEAR].tolist() == [0, 0]
        assert bool(found.statistics.isnan().all())
    assert surface_distances(whole[:0], whole[:0], 1).counts.shape == (0, 1, 2, 2)
    assert surface_distances(whole[..., :0], whole[..., :0], 1).counts.tolist() == [[[[0, 0], [0, 0]]]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(preds=torch.zeros(1, 4, 4)), r"preds must have dtype torch.int32 or torch.bool but got torch.float32"),
        (dict(preds=torch.zeros(4, 4, dtype=torch.int32)), r"preds must have shape \[B, H, W\] or \[B, D, H, W\] but"),
        (
            dict(target=torch.zeros(1, 3, 4, 4, dtype=torch.bool)),
            r"target must have shape \[B, 2, H, W\] or .* but got",
        ),
        (
            dict(target=torch.zeros(1, 4, 5, dtype=torch.int32)),
            "preds and target must have images of one shape but got",
        ),
        (dict(first_class=2), "first_class must be below num_classes=2 but got 2"),
        (dict(metric="l2"), "metric must be one of 'euclidean', 'chessboard', 'taxicab' but got 'l2'"),
        (dict(percentile=101), r"percentile must be in \[0, 100\] but got 101"),
        (dict(tolerance=-1.0), r"tolerance must be in \[0, inf\] but got -1.0"),
        (dict(spacing=[1.0]), r"spacing must have 2 numbers, one of each axis, but got \[1.0\]"),
        (dict(spacing=[1.0, 0.0]), "spacing must be above 1e-100 and below 1e100 but got 0.0"),
    ],
)
def test_bad_arguments_are_named(change: dict[str, Any], message: str) -> None:
    labels = torch.zeros(1, 4, 4, dtype=torch.int32)
    given = dict(preds=labels, target=labels, num_classes=2) | change
    with pytest.raises(InputError, match=message):
        surface_distances(**given)
