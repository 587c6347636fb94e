"""Boundaries of masks: equal to scipy's erosion, and to golden numbers of cv2 as boundary-iou-api calls it."""

from __future__ import annotations

import json
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.ndimage import minimum_filter  # type: ignore[import-untyped]

from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.boundary import op as boundary
from valor_gpu.ops.boundary.cpu import boundary_runs, distances
from valor_gpu.ops.boundary.op import mask_boundary
from valor_gpu.ops.runs.cpu import from_masks, to_masks
from valor_gpu.ops.runs.op import Runs

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "boundary_cv2.json").read_text())
Array = NDArray[np.uint8]


def boundary_of(masks: Array, ratio: float) -> Array:
    """The definition."""
    if masks.size == 0:
        return masks
    d = max(1, round(ratio * float(np.sqrt(masks.shape[1] ** 2 + masks.shape[2] ** 2))))
    inner: Array = minimum_filter(masks, (1, 2 * d + 1, 2 * d + 1), mode="constant", cval=0)  # erosion by a square
    return masks & (1 - inner)


def random_masks(seed: int, count: int, height: int, width: int) -> Array:
    """Rectangles, noise, empty and full masks, holes of one pixel."""
    rng = np.random.default_rng(seed)
    out = np.zeros((count, height, width), np.uint8)
    for k, mask in enumerate(out):
        for _ in range(k % 4):
            y, x = np.sort(rng.integers(0, height + 1, 2)), np.sort(rng.integers(0, width + 1, 2))
            mask[y[0] : y[1], x[0] : x[1]] = 1
        if k % 5 == 0:
            mask[:] = 1
        mask[rng.random(mask.shape) < (0, 0.002, 0.3)[k % 3]] ^= 1
    return out


@pytest.mark.smoke
@pytest.mark.parametrize("size", [(1, 1), (3, 5), (64, 9), (65, 130), (128, 3), (200, 70), (0, 4)])
@pytest.mark.parametrize("ratio", [0.02, 0.1])
def test_equal_to_the_definition(size: tuple[int, int], ratio: float) -> None:
    masks = random_masks(sum(size), 12, *size)
    got = boundary_runs(from_masks(masks), ratio)
    expected = from_masks(boundary_of(masks, ratio))
    for name in ("counts", "offsets", "sizes"):
        assert np.array_equal(getattr(got, name), getattr(expected, name)), name


@pytest.mark.parametrize("seed", seeds(4))
def test_random_sizes_and_ratios(seed: int) -> None:
    rng = np.random.default_rng([seed, 3])
    masks = random_masks(seed, 10, *rng.integers(1, 150, 2).tolist())
    ratio = float(rng.choice([0.0, 0.01, 0.02, 0.05, 0.3, 1.0]))
    got = boundary_runs(from_masks(masks), ratio)
    assert np.array_equal(to_masks(got), boundary_of(masks, ratio))


def test_sizes_may_differ_and_runs_may_be_empty() -> None:
    parts = [from_masks(random_masks(k, 3, *size)) for k, size in enumerate([(40, 30), (7, 90), (33, 64)])]
    got = boundary_runs(Runs.join(parts))
    assert got.counts.tolist() == [c for part in parts for c in boundary_runs(part).counts.tolist()]
    # runs of length 0 between, and none at all
    odd = Runs(np.array([6, 1, 0, 2, 2, 3, 2, 3, 6], np.int32), np.array([0, 9, 9]), np.full((2, 2), 5, np.int32))
    assert boundary_runs(odd).counts.tolist() == [6, 3, 2, 1, 1, 1, 2, 3, 6, 25]


@pytest.mark.parametrize("size", [(1, 2**31 - 1), (2**31 - 1, 1), (20, 10**8)])
def test_thin_masks_of_many_pixels_cost_no_memory(size: tuple[int, int]) -> None:
    pixels = size[0] * size[1]
    counts = np.array([5, 3, 7, pixels - 15], np.int32)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), limits[1]))  # bits of them take 4 GB and more
    try:
        found = boundary_runs(Runs(counts, np.array([0, 4]), np.array([size], np.int32)))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
    assert found.counts.tolist() == counts.tolist()


def test_equal_to_cv2() -> None:
    """Made once by cv2 5.0: ``m - erode(copyMakeBorder(m, 1, 1, 1, 1, BORDER_CONSTANT), ones(3, 3), iterations=d)``."""
    for case in GOLDEN:
        runs = from_masks(random_masks(case["seed"], case["count"], *case["size"]))
        found = boundary_runs(runs, case["ratio"])
        assert found.counts.tolist() == case["counts"] and found.offsets.tolist() == case["offsets"]


def test_distances_round_as_python_does() -> None:
    rng = np.random.default_rng(5)
    sizes = np.concatenate([rng.integers(1, 3000, (500, 2)), [[30, 40], [90, 120], [3, 4], [150, 200]]])
    for ratio in (0.02, 0.05, 0.01, 0.5):
        expected = [max(1, round(ratio * float(np.sqrt(h**2 + w**2)))) for h, w in sizes.tolist()]
        assert distances(sizes, ratio).tolist() == expected


# --------------------------------------------------------------------------------------------------------- dense masks


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return kernel(request.param, "mask_boundary", boundary._on_cuda)


SHAPES = [(2, 1, 1), (6, 20, 33), (6, 33, 64), (4, 70, 9), (3, 9, 70), (0, 4, 4), (2, 0, 5), (2, 5, 0), (1, 40, 1100)]


@pytest.mark.smoke
@pytest.mark.parametrize("shape", SHAPES)
def test_every_kernel_of_dense_masks(op: Callable[..., Any], shape: tuple[int, int, int]) -> None:
    masks = torch.from_numpy(random_masks(sum(shape), *shape))
    for distance in (1, 3, 16, 40):
        expected = _library.reference("mask_boundary")(masks, distance)
        assert torch.equal(op(masks * 3, distance), expected)
        assert torch.equal(op(masks != 0, distance), expected != 0)


@pytest.mark.smoke
@pytest.mark.parametrize("width", [1, 15, 31, 64, 97, 4127])
def test_dense_masks_may_begin_at_any_byte(op: Callable[..., Any], width: int) -> None:
    shape = (2, 11, width) if width > 100 else (5, 21, width)
    made = torch.from_numpy(random_masks(width, *shape))
    for offset in (1, 7, 15):
        masks = torch.full((made.numel() + 32,), 255, dtype=torch.uint8)[offset : offset + made.numel()].view(shape)
        masks.copy_(made)
        for distance in (1, 4, 5):  # squares of 3, 9 and 11 rows
            assert torch.equal(op(masks, distance), _library.reference("mask_boundary")(masks, distance))


@pytest.mark.parametrize("seed", seeds(3))
def test_wide_masks_have_long_runs(op: Callable[..., Any], seed: int) -> None:
    """Squares from below to above 32 pixels, which end in later words, some of these in words of another round."""
    rng = np.random.default_rng([seed, 4])
    height, width = int(rng.integers(40, 100)), int(rng.integers(1000, 2500))
    masks = (rng.random((2, height, width)) < 0.99995).astype(np.uint8)
    masks[1] = np.repeat(rng.random((height, width)) < 0.9995, 40, axis=1)[:, :width]
    for distance in (15, 16, 17, height // 2 - 1, width // 2):
        inner = minimum_filter(masks, (1, 2 * distance + 1, 2 * distance + 1), mode="constant", cval=0)
        assert np.array_equal(op(torch.from_numpy(masks), distance).numpy(), masks & (1 - inner))


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_lanes_changes_nothing(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    masks = torch.from_numpy(random_masks(5, 4, 45, 77))
    got = kernel("simulated", "mask_boundary", boundary._on_cuda)(masks, 4)
    assert torch.equal(got, _library.reference("mask_boundary")(masks, 4))


def test_dense_masks_have_the_boundary_of_their_runs() -> None:
    masks = random_masks(8, 7, 90, 61)
    expected = to_masks(boundary_runs(from_masks(masks), 0.05))
    strided = torch.from_numpy(np.ascontiguousarray(masks.transpose(2, 0, 1))).permute(1, 2, 0)
    assert torch.equal(mask_boundary(strided, 0.05), torch.from_numpy(expected.copy()))
    torch.library.opcheck(torch.ops.valor_gpu.mask_boundary.default, (strided, 2))


def test_bad_masks_are_named() -> None:
    with pytest.raises(InputError, match=r"masks must have dtype .* but got"):
        mask_boundary(torch.zeros(1, 2, 2))
    with pytest.raises(InputError, match=r"masks must have shape \[N, N, N\] but got \[2, 2\]"):
        mask_boundary(torch.zeros(2, 2, dtype=torch.bool))


def test_bad_ratios_are_named() -> None:
    runs = Runs.empty([[4, 4]])
    for ratio in (-0.1, 1.5, float("nan")):
        with pytest.raises(InputError, match=r"ratio must be in \[0, 1\] but got"):
            boundary_runs(runs, ratio)
    with pytest.raises(InputError, match="ratio must be a number but got 'x'"):
        boundary_runs(runs, "x")  # type: ignore[arg-type]
