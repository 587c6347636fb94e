"""resampled_means: replicates equal accumulation, and pycocotools, over adjacent copies of images by bytes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.coco_scenes import FIRST_ID, ID_STEP, dataset, evaluated, scored_scene
from testing.examples_records import accumulate_arguments
from testing.scenes import COCO_AREAS
from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.ops._library import reference
from valor_gpu.ops.accumulate import reference as _accumulate_reference
from valor_gpu.ops.accumulate.op import accumulate
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick, RecordShape
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS, Matched, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.resampled_means.op import ResampledMeans, ResampledRecords, resampled_means, resampled_records
from valor_gpu.reduce.coco_summary import CocoSummary, summary_picks

Tables = tuple[Tensor, Tensor, Tensor]
AREAS = ["all", "small", "medium", "large"]
IDS = (4, None, -3, 11, 5, None, 0)
GRIDS = {
    "ascending": np.linspace(0, 1, 11),
    "unsorted, repeated, unreachable": np.array([0.5, 0.0, 1.0, 0.5, 1.5, 0.25, np.nan, np.inf, -1.0]),
    "empty": np.empty(0),
}
SHAPES = {"2 x 3 x 2": (2, 3, 2), "one setting": (1, 1, 1), "COCO": (10, 4, 3), "60 thresholds": (60, 1, 1)}


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


def random_weights(records: ResampledRecords, replicates: int, seed: int, most: int = 7) -> Tensor:
    """Half of the units have weight 0, and all of the first replicate."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, most + 1, (records.units, replicates)) * (rng.random((records.units, replicates)) < 0.5)
    weights[:, :1] = 0
    return torch.from_numpy(weights.astype(np.uint8))


def by_reference(records: ResampledRecords, weights: Tensor) -> ResampledMeans:
    chosen, shape = records.choices, list(records.choices.shape)
    fields = ("detections", "order", "offsets", "record_units", "truths", "truth_offsets", "truth_units")
    rest = torch.from_numpy(chosen.recall_thresholds), shape, *map(torch.from_numpy, chosen.pick_table()), [chosen.full]
    return ResampledMeans(*reference("resampled_means")(*(getattr(records, name) for name in fields), weights, *rest))


def check(records: ResampledRecords, weights: Tensor) -> ResampledMeans:
    """The kernel, on one thread and on several, gives the bytes of the reference."""
    expected, before = by_reference(records, weights), torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found = resampled_means(records, weights)
            for name, mine, other in zip(found._fields, found, expected):
                assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
                assert mine.numpy().tobytes() == other.numpy().tobytes(), name
    finally:
        torch.set_num_threads(before)
    return found


def copied(given: Tables, records: ResampledRecords, column: Tensor) -> Tables:
    """The tables with each unit's image as often as its weight says, without ids."""
    ends = [np.cumsum(given[2][:, IMAGE_COLUMNS.index(name)].numpy()) for name in ("DETECTIONS", "GROUND_TRUTHS")]
    rows: tuple[list[Tensor], ...] = ([], [], [])
    for image, weight in zip(records.images.tolist(), column.tolist()):
        for part, table, end in zip(rows, given, ends):
            part.extend([table[end[image - 1] if image else 0 : end[image]]] * weight)
        rows[2].extend([given[2][image : image + 1]] * weight)
    whole = [torch.cat([table[:0], *part]) for part, table in zip(rows, given)]
    whole[2] = whole[2].clone()
    whole[2][:, IMAGE_COLUMNS.index("HAS_ID")] = 0
    return whole[0], whole[1], whole[2]


def check_copies(given: Tables, wanted: AccumulateChoices, records: ResampledRecords, weights: Tensor) -> None:
    found, shape = resampled_means(records, weights), wanted.shape
    for index in range(weights.shape[1]):
        copies = copied(given, records, weights[:, index])
        own = replace(wanted, images=np.arange(len(copies[2])), labels=records.labels.numpy())
        expected = _accumulate_reference.accumulate(*copies, own)
        assert found.means[index].numpy().tobytes() == expected.means[0].numpy().tobytes()
        names = [0.5] * shape.thresholds, [1] * shape.limits, ["all"] * shape.areas
        summary = CocoSummary(expected.curves, *names)
        assert found.class_precision[index].numpy().tobytes() == summary.average_precision().tobytes()
        assert found.class_recall[index].numpy().tobytes() == summary.average_recall().tobytes()


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("sizes", SHAPES)
@pytest.mark.parametrize("seed", seeds(2))
def test_kernel_equals_reference(seed: int, sizes: str, grid: str) -> None:
    few = SHAPES[sizes][0] > 2
    wanted = choices(SHAPES[sizes], grid, full=seed % 2 == 1)
    records = resampled_records(*tables(seed, 120 if few else 300, SHAPES[sizes]), wanted)
    check(records, random_weights(records, 3 if few else 18, seed))


@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("seed", seeds(4))
def test_replicates_equal_accumulation_over_copies_of_images(seed: int, agnostic: bool) -> None:
    given = tables(seed, 200, SHAPES["2 x 3 x 2"])
    wanted = choices(SHAPES["2 x 3 x 2"], full=seed % 2 == 0, agnostic=agnostic)
    records = resampled_records(*given, wanted)
    check_copies(given, wanted, records, random_weights(records, 4, seed, 3))


def evaluated_copies(truth: dict[str, Any], results: list[dict[str, Any]], column: dict[int, int]) -> Any:
    """A plain loop of COCOeval over a data set with copies of images, each with an id of its own."""
    images, annotations, found = [], [], []
    for image in truth["images"]:
        for number in range(column[image["id"]]):
            name = 100 * image["id"] + number
            images.append({**image, "id": name})
            annotations += [{**a, "image_id": name} for a in truth["annotations"] if a["image_id"] == image["id"]]
            found += [{**r, "image_id": name} for r in results if r["image_id"] == image["id"]]
    for number, annotation in enumerate(annotations, 1):
        annotation["id"] = number
    return evaluated({**copy.deepcopy(truth), "images": images, "annotations": annotations}, found)


@pytest.mark.parametrize("seed", seeds(3))
def test_replicates_equal_pycocotools_over_copies_of_images(seed: int) -> None:
    scene = scored_scene(seed)
    truth, results = dataset(scene)
    rule = MatchRule.make(np.linspace(0.5, 0.95, 10), COCO_AREAS, [1, 10, 100], 0)
    batch = scene.batch()
    ids = [FIRST_ID + ID_STEP * i for i in range(len(scene.labels))]
    matched: Matched = assign(batch, rule)
    images = matched.images.clone()
    images[:, 0], images[:, 1] = torch.tensor(ids), 1
    picks = summary_picks(np.linspace(0.5, 0.95, 10).tolist(), [1, 10, 100], AREAS)
    labels = np.array(sorted({(c["id"] - 1) // 3 for c in truth["categories"]}))
    wanted = AccumulateChoices(RecordShape(10, 4, 3), np.linspace(0, 1, 101), tuple(picks.values()), labels=labels)
    records = resampled_records(matched.detections, matched.ground_truths, images, wanted)
    assert records.keys.tolist() == ids
    weights = random_weights(records, 4, seed, 3)
    weights[:, 0] = 1
    found = check(records, weights)
    for index in range(4):
        column = dict(zip(ids, weights[:, index].tolist()))
        if not any(column[r["image_id"]] for r in results):
            continue
        theirs = evaluated_copies(truth, results, column)
        means = np.where(np.isnan(found.means[index].numpy()), -1.0, found.means[index].numpy())
        assert means.tobytes() == theirs.stats.tobytes()


@pytest.mark.smoke
def test_all_weights_one_are_the_evaluation_itself() -> None:
    given, wanted = tables(1, 300, SHAPES["2 x 3 x 2"]), choices(SHAPES["2 x 3 x 2"])
    records = resampled_records(*given, wanted)
    found = resampled_means(records, torch.ones((records.units, 1), dtype=torch.uint8))
    assert found.means.numpy().tobytes() == accumulate(*given, wanted).means.numpy().tobytes()


def test_copies_of_an_image_id_are_one_unit_and_images_without_id_are_not() -> None:
    detections, ground_truths, images = tables(2, 210, SHAPES["2 x 3 x 2"])
    images[5, 0] = images[1, 0]  # equal content hashes
    images[3, :4] = images[0, :4]  # one id
    records = resampled_records(detections, ground_truths, images, choices(SHAPES["2 x 3 x 2"]))
    assert records.units == 6 and sorted(records.images.tolist()) == [0, 1, 2, 4, 5, 6]
    assert records.keys.tolist() == sorted(records.keys.tolist())
    check(records, random_weights(records, 2, 0))


@pytest.mark.smoke
def test_copies_of_tied_detections_of_one_image_alternate() -> None:
    """A true and a false positive with one score, twice: precision 1/1, 1/2, 2/3, 2/4 and never 2/2."""
    detections = torch.zeros((2, 15), dtype=torch.uint8)
    detections[0, 13] = 1  # matched
    ground_truths = torch.tensor([[0, 0, 0, 0, 0b011]], dtype=torch.uint8)
    images = torch.tensor([[7, 1, 0, 0, 2, 1, 0, 0]])
    wanted = AccumulateChoices(RecordShape(1, 1, 1), np.array([0.5, 1.0]), (Pick("precision", 0, -1, [0]),))
    found = check(resampled_records(detections, ground_truths, images, wanted), torch.tensor([[1, 2]]).byte())
    torch.testing.assert_close(found.means[:, 0], torch.tensor([1.0, (1 + 2 / 3) / 2]).double())


@pytest.mark.smoke
@pytest.mark.parametrize("classes", [[], [99], [-4, -1, 99]])
@pytest.mark.parametrize("count", [0, 40])
def test_no_class_no_detection_and_classes_without_rows(count: int, classes: list[int]) -> None:
    wanted = choices(SHAPES["2 x 3 x 2"], labels=np.array(classes, np.int64))
    records = resampled_records(*tables(3, count, SHAPES["2 x 3 x 2"]), wanted)
    assert records.classes == len(classes)
    found = check(records, random_weights(records, 3, 3))
    assert found.class_precision[:, len(classes) - 1 :].isnan().all()  # of label 99
    check(records, random_weights(records, 0, 3))


@pytest.mark.parametrize("replicates", [1, 15, 16, 17, 40])
def test_a_replicate_does_not_depend_on_its_portion(replicates: int) -> None:
    records = resampled_records(*tables(4, 300, SHAPES["2 x 3 x 2"]), choices(SHAPES["2 x 3 x 2"]))
    weights = random_weights(records, 40, 4)
    whole, part = resampled_means(records, weights), resampled_means(records, weights[:, -replicates:])
    for mine, other in zip(part, whole):
        assert mine.numpy().tobytes() == other[-replicates:].numpy().tobytes()


def test_a_wide_table_of_samples_is_taken_a_few_replicates_at_a_time() -> None:
    """So many classes that 44 MB hold the samples of three replicates only."""
    labels, grid = np.arange(-4, 12_000, 1), np.linspace(0, 1, 101)
    wanted = replace(choices((1, 1, 1), labels=labels), recall_thresholds=grid)
    records = resampled_records(*tables(5, 60, (1, 1, 1)), wanted)
    weights = random_weights(records, 9, 5)
    found = resampled_means(records, weights)
    few = resampled_means(resampled_records(*tables(5, 60, (1, 1, 1)), replace(wanted, labels=labels[:20])), weights)
    assert found.means.numpy().tobytes() == few.means.numpy().tobytes()


def test_arguments_are_checked() -> None:
    given, wanted = tables(6, 30, (1, 1, 1)), choices((1, 1, 1))
    records = resampled_records(*given, wanted)
    for weights, message in (
        (torch.ones((3, 2), dtype=torch.uint8), r"weights must have shape \[7, N\] but got \[3, 2\]"),
        (torch.ones((7, 2)), "weights must .*uint8"),
    ):
        with pytest.raises(InputError, match=message):
            resampled_means(records, weights)
    with pytest.raises(InputError, match=r"choices\.ties must begin with given but begins with lowest"):
        resampled_records(*given, replace(wanted, ties=("lowest", "given")))


def test_opcheck() -> None:
    """Without a number that is NaN, which equals none."""
    plain = choices((1, 1, 1), labels=np.array([-4, -1, 2]))
    records = resampled_records(*tables(7, 100, (1, 1, 1)), replace(plain, picks=plain.picks[:2]))
    chosen = records.choices
    fields = ("detections", "order", "offsets", "record_units", "truths", "truth_offsets", "truth_units")
    rest = torch.from_numpy(chosen.recall_thresholds), [1, 1, 1], *map(torch.from_numpy, chosen.pick_table()), [False]
    arguments = *(getattr(records, name) for name in fields), torch.ones((7, 2), dtype=torch.uint8), *rest
    torch.library.opcheck(torch.ops.valor_gpu.resampled_means.default, arguments)
