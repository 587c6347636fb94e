"""grouped_means: the numbers of each group equal accumulation over its images alone by bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.examples_grouped import grouped_examples, random_arguments
from testing.examples_records import accumulate_arguments, labels
from tests.fuzz import seeds
from tests.numpy_sums import needs_recorded_order
from valor_gpu.errors import InputError
from valor_gpu.ops._library import reference
from valor_gpu.ops.accumulate import reference as _accumulate_reference
from valor_gpu.ops.accumulate.op import accumulate
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick, RecordShape
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.ops.grouped_means import cpu as _grouped_means_cpu
from valor_gpu.ops.grouped_means.op import grouped_means
from valor_gpu.ops.grouped_means.reference import each_group
from valor_gpu.ops.grouped_means.types import GroupedMeans
from valor_gpu.reduce.coco_summary import CocoSummary

Tables = tuple[Tensor, Tensor, Tensor]
SHAPES = {"2 x 3 x 2": (2, 3, 2), "one setting": (1, 1, 1), "COCO": (10, 4, 3), "60 thresholds": (60, 1, 1)}
GRIDS = {
    "ascending": np.linspace(0, 1, 11),
    "unsorted, repeated, unreachable": np.array([0.5, 0.0, 1.0, 0.5, 1.5, 0.25, np.nan, np.inf, -1.0]),
    "empty": np.empty(0),
}
IDS = (4, None, -3, 11, 5, None, 0)
_ROWS = [IMAGE_COLUMNS.index(name) for name in ("DETECTIONS", "GROUND_TRUTHS")]


def tables(seed: int, count: int, sizes: tuple[int, int, int]) -> Tables:
    """Rows with many ties of scores, in seven images of which two have no id."""
    detections, ground_truths, images = accumulate_arguments(np.random.default_rng(seed), count, IDS, sizes)[:3]
    return detections, ground_truths, images


def choices(sizes: tuple[int, int, int], grid: str = "ascending", **changes: object) -> AccumulateChoices:
    thresholds, areas, limits = sizes
    picks = (
        Pick("precision", 0, -1, range(thresholds)), Pick("precision", areas - 1, -1, [thresholds - 1]),
        Pick("precision", 0, 0, [thresholds - 1, 0]), Pick("precision", 0, 0, []),
        Pick("recall", 0, limits - 1, range(thresholds)), Pick("recall", areas - 1, 0, [0]),
    )  # fmt: skip
    return replace(AccumulateChoices(RecordShape(*sizes), GRIDS[grid], picks), **changes)


def class_picks(shape: RecordShape) -> list[Pick]:
    every = range(shape.thresholds)
    return [Pick("precision", 0, -1, every), Pick("recall", 0, -1, every), Pick("precision", 0, -1, [0])]


def alone(given: Tables, images: list[int]) -> Tables:
    """The rows of some images, in the order in which they are named."""
    lengths = given[2][:, _ROWS].tolist()
    ends = np.cumsum([[0, 0], *lengths], 0).tolist()
    cut = [
        torch.cat([rows[:0], *(rows[ends[i][s] : ends[i + 1][s]] for i in images)]) for s, rows in enumerate(given[:2])
    ]
    return cut[0], cut[1], given[2][images]


def check_groups(given: Tables, wanted: AccumulateChoices, groups: list[list[int]]) -> GroupedMeans:
    """Each group has the bytes of an accumulation of tables that hold nothing but its images."""
    shape = wanted.shape
    arrays = [np.array(group, np.int64) for group in groups]
    found = grouped_means(*given, arrays, wanted, class_picks(shape))
    order = _accumulate_reference.choose_images(given[2].numpy(), wanted.by_key)
    plain = _grouped_means_cpu.grouped_means(*(table.numpy() for table in given), arrays, wanted, class_picks(shape))
    for mine, other in zip(plain, found):
        assert mine.tobytes() == other.numpy().tobytes()
    names = [0.5] * shape.thresholds, [1] * shape.limits, ["all"] * shape.areas
    for index, group in enumerate(groups):
        own = replace(wanted, labels=found.labels.numpy(), images=np.arange(len(group)))
        expected = _accumulate_reference.accumulate(*alone(given, order[group].tolist()), own)
        assert found.means[index].numpy().tobytes() == expected.means[0].numpy().tobytes(), group
        summary = CocoSummary(expected.curves, *names)
        numbers = [summary.average_precision(), summary.average_recall()]
        assert found.class_means[index, :, :2].numpy().tobytes() == np.stack(numbers, 1).tobytes(), group
    return found


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("seed", seeds(2))
def test_groups_equal_accumulation_of_their_images(seed: int, sizes: str, grid: str) -> None:
    rng = np.random.default_rng(seed)
    groups = [sorted(rng.choice(7, rng.integers(0, 5), replace=False).tolist()) for _ in range(4)]
    wanted = choices(SHAPES[sizes], grid, full=seed % 2 == 1, agnostic=seed % 3 == 2, by_key=seed % 2 == 0)
    check_groups(tables(seed, 120 if SHAPES[sizes][0] > 2 else 300, SHAPES[sizes]), wanted, groups)


def examples() -> list[Any]:
    """Names of the examples; the numbers of the one with most thresholds are means of large arrays."""
    large = {"60 thresholds": needs_recorded_order}
    return [pytest.param(name, id=name, marks=large.get(name, ())) for name, _ in grouped_examples(True)]


@pytest.mark.parametrize("example", examples())
def test_kernel_equals_reference(example: str) -> None:
    """On one thread and on several; by the accumulation of CPU tensors too, as CUDA tensors go."""
    arguments, before = dict(grouped_examples(True))[example], torch.get_num_threads()
    expected = reference("grouped_means")(*arguments)
    ways = [torch.ops.valor_gpu.grouped_means.default, lambda *given: each_group(accumulate, *given)]
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            for way in ways:
                for mine, other in zip(way(*arguments), expected):
                    assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
                    assert mine.numpy().tobytes() == other.numpy().tobytes()
    finally:
        torch.set_num_threads(before)


@pytest.mark.smoke
def test_a_group_of_all_images_is_the_evaluation_itself() -> None:
    given, wanted = tables(1, 300, SHAPES["2 x 3 x 2"]), choices(SHAPES["2 x 3 x 2"])
    found = grouped_means(*given, [np.arange(7), np.arange(0), np.array([2])], wanted, class_picks(wanted.shape))
    whole = accumulate(*given, wanted)
    assert found.labels.tolist() == whole.labels.tolist()
    assert found.means[0].numpy().tobytes() == whole.means[0].numpy().tobytes()
    assert found.means[1].isnan().all() and found.class_means[1].isnan().all()


@pytest.mark.smoke
@pytest.mark.parametrize("grid", GRIDS)
def test_grids_by_small_examples(grid: str) -> None:
    arguments = random_arguments(np.random.default_rng(3), 80, [[0, 2], [1]], (3, 2, 2), GRIDS[grid], full=True)
    for mine, other in zip(
        torch.ops.valor_gpu.grouped_means.default(*arguments), reference("grouped_means")(*arguments)
    ):
        assert mine.numpy().tobytes() == other.numpy().tobytes()


def test_a_class_without_a_ground_truth_in_a_group_has_no_part_in_its_means() -> None:
    """Two images, each with its own class: found with a score of 0.9, and missed."""
    detections = torch.zeros((1, 15), dtype=torch.uint8)
    detections[0, :8] = torch.from_numpy(np.array([0.9]).view(np.uint8))
    detections[0, 13] = 1  # matched
    ground_truths = torch.tensor([[0, 0, 0, 0, 0b011], [1, 0, 0, 0, 0b011]], dtype=torch.uint8)
    images = torch.tensor([[7, 1, 0, 0, 1, 1, 0, 0], [8, 1, 0, 0, 0, 1, 0, 0]])
    wanted = AccumulateChoices(RecordShape(1, 1, 1), np.array([0.5, 1.0]), (Pick("precision", 0, -1, [0]),))
    found = check_groups((detections, ground_truths, images), wanted, [[0], [1], [0, 1]])
    assert found.means[:, 0].tolist() == pytest.approx([1.0, 0.0, 0.5])
    assert found.class_means[:, :, 0].isnan().tolist() == [[False, True], [True, False], [False, False]]


def test_copies_of_an_image_id_are_no_images_of_their_own() -> None:
    detections, ground_truths, images = tables(2, 210, SHAPES["2 x 3 x 2"])
    images[3, :4] = images[0, :4]  # one id
    check_groups((detections, ground_truths, images), choices(SHAPES["2 x 3 x 2"]), [[0, 1, 2, 3, 4, 5], [5]])
    with pytest.raises(InputError, match="groups must hold positions from 0 to 5 but one has others"):
        grouped_means(detections, ground_truths, images, [np.array([6])], choices(SHAPES["2 x 3 x 2"]))


def test_arguments_are_checked() -> None:
    given, wanted = tables(6, 30, (1, 1, 1)), choices((1, 1, 1))
    for groups, message in (
        ([[0], [3, 3]], r"groups\[1\] must have ascending positions, each once, but has not"),
        ([[4, 5], [], [2, 1]], r"groups\[2\] must have ascending positions"),
        ([[-1]], "groups must hold positions from 0 to 6 but one has others"),
        ([[7]], "groups must hold positions from 0 to 6 but one has others"),
        ([[0.5]], "groups must hold int64 positions of images but hold float64"),
    ):
        with pytest.raises(InputError, match=message):
            grouped_means(*given, [np.array(group) if group else np.zeros(0, np.int64) for group in groups], wanted)
    with pytest.raises(InputError, match=r"choices\.ties must begin with given but begins with lowest"):
        grouped_means(*given, [], replace(wanted, ties=("lowest", "given")))
    with pytest.raises(InputError, match=r"choices\.images must be rows from 0 to 6 of images but has others"):
        grouped_means(*given, [], replace(wanted, images=np.array([7])))


def test_opcheck() -> None:
    """Without a number that is NaN, which equals none."""
    given = accumulate_arguments(np.random.default_rng(8), 200, IDS, (1, 1, 1))[:3]
    numbers = map(torch.from_numpy, (np.arange(7), np.array([0, 7]), np.arange(7)))
    picks = torch.tensor([[0, 0, 0, 0, 1]]), torch.tensor([0])
    arguments = (
        *given,
        *numbers,
        labels(),
        torch.tensor([0.5, 1.0]).double(),
        [1, 1, 1],
        *picks,
        *picks,
        [False, False],
    )
    torch.library.opcheck(torch.ops.valor_gpu.grouped_means.default, arguments)
