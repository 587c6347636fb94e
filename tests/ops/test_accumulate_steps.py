"""order_records and precision_recall: equal to pycocotools by bytes, and to their references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pytest
import torch

from testing.coco_scenes import dataset, evaluated, flags, scored_scene
from tests.fuzz import seeds
from valor_gpu.coco import Params
from valor_gpu.errors import InputError
from valor_gpu.ops._library import reference
from valor_gpu.ops.accumulate import cpu as _accumulate_cpu
from valor_gpu.ops.accumulate.op import count_ground_truths, order_records, precision_recall
from valor_gpu.ops.accumulate.record_rows import detection_scores
from valor_gpu.ops.accumulate.types import TIE_ORDERS, Curves, Ordered, RecordShape
from valor_gpu.ops.assign.match_batch import AGNOSTIC, Matched, MatchRule
from valor_gpu.ops.assign.op import assign

FAR = [[0, 1e10], [5e8, 1e9]]
SETTINGS = {
    "default": {},
    "eleven_recalls": dict(recThrs=np.linspace(0, 1, 11)),
    "recalls_outside_and_repeated": dict(recThrs=np.array([-0.5, 0, 0.3, 0.3, 0.3000001, 1.0, 1.5])),
    "no_recall_zero": dict(recThrs=np.array([0.1, 0.5])),
    "unsorted_recalls": dict(recThrs=np.array([0.5, 0.1, 1.0, 0.0, 0.3])),
    "float32_recalls": dict(recThrs=np.linspace(0, 1, 101, dtype=np.float32)),
    "limits_unsorted": dict(maxDets=[31, 2, 7]),
    "limit_zero": dict(maxDets=[0, 5]),
    "thresholds_unsorted": dict(iouThrs=np.array([0.75, 0.5, 0.5, 0.3])),
    "threshold_zero": dict(iouThrs=np.array([0.0, 0.5])),
    "threshold_one_and_above": dict(iouThrs=np.array([0.5, 1.0, 1.5])),
    "many_settings": dict(iouThrs=np.linspace(0.1, 0.9, 17)),
    "empty_area_range": dict(areaRng=FAR, areaRngLbl=["all", "none"]),
    "class_agnostic": dict(useCats=0),
}


@dataclass
class Case:
    """A matched scene, and what pycocotools makes of it."""

    matched: Matched
    lengths: torch.Tensor
    labels: torch.Tensor
    recalls: torch.Tensor
    shape: RecordShape
    params: Params
    agnostic: bool
    by_pycocotools: Callable[[], Any]

    @cached_property
    def expected(self) -> dict[str, np.ndarray]:
        return self.by_pycocotools().eval  # type: ignore[no-any-return]

    def ordered(self) -> Ordered:
        lengths = self.lengths
        labels = self.labels[:1] if self.agnostic else self.labels
        starts = lengths.cumsum(0) - lengths
        return order_records(self.matched.detections, starts, lengths, labels, self.shape.limits, self.agnostic)

    def positives(self) -> torch.Tensor:
        labels = self.labels[:1] if self.agnostic else self.labels
        return count_ground_truths(self.matched.ground_truths, labels, self.shape.areas, self.agnostic)


def case(name: str, seed: int) -> Case:
    scene = scored_scene(seed, most=260 if seed % 4 == 0 else 25)
    first = 0 if seed % 3 == 0 else 1
    truth, results = dataset(scene, first)
    if SETTINGS[name].get("useCats") == 0:  # cocoeval pools the classes of an image in the order of their ids
        truth["annotations"].sort(key=lambda a: (a["image_id"], a["category_id"]))
        results.sort(key=lambda a: (a["image_id"], a["category_id"]))
        scene = sorted_by_label(scene)
        first = 1
        for i, annotation in enumerate(truth["annotations"]):
            annotation["id"] = i + 1
    p = Params("bbox")
    for field, value in SETTINGS[name].items():
        setattr(p, field, value)
    limits, agnostic = sorted(p.maxDets), not p.useCats
    rule = MatchRule.make(p.iouThrs, p.areaRng, limits, AGNOSTIC if agnostic else 0)
    batch = scene.batch(gt_flags=flags(scene, first))
    labels = torch.tensor(sorted({(c["id"] - 1) // 3 for c in truth["categories"]}))
    shape = RecordShape(len(p.iouThrs), len(p.areaRng), len(limits))
    recalls = torch.tensor(np.asarray(p.recThrs, np.float64))
    theirs = partial(evaluated, truth, results, **SETTINGS[name])
    return Case(assign(batch, rule), batch.lengths[0], labels, recalls, shape, p, agnostic, theirs)


def sorted_by_label(scene):
    own = [torch.sort(x, stable=True).indices for x in scene.labels]
    true = [torch.sort(x, stable=True).indices for x in scene.gt_labels]
    pick = lambda rows, order: [r[o] for r, o in zip(rows, order)]  # noqa: E731
    return type(scene)(
        pick(scene.boxes, own), pick(scene.scores, own), pick(scene.labels, own), pick(scene.gt_boxes, true),
        pick(scene.gt_labels, true), pick(scene.crowds, true), pick(scene.areas, true),
    )  # fmt: skip


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("name", SETTINGS)
def test_arrays_equal_pycocotools_by_bytes(name: str, seed: int) -> None:
    c = case(name, 100 * list(SETTINGS).index(name) + seed)
    curves = precision_recall(c.matched.detections, c.ordered(), c.positives(), c.recalls, c.shape, full=True)
    for array in Curves._fields:
        assert getattr(curves, array).numpy().tobytes() == c.expected[array].tobytes(), array


@pytest.mark.parametrize("ties", TIE_ORDERS)
@pytest.mark.parametrize("full", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", SETTINGS)
def test_kernel_equals_reference(name: str, full: bool, ties: str) -> None:
    c = case(name, 7)
    ordered, positives = c.ordered(), c.positives()
    ours = precision_recall(c.matched.detections, ordered, positives, c.recalls, c.shape, full, ties)
    sizes = [c.shape.thresholds, c.shape.areas, c.shape.limits]
    rest = (c.recalls, sizes, full, TIE_ORDERS.index(ties))
    theirs = Curves(*reference("precision_recall")(c.matched.detections, *ordered, positives, *rest))
    assert torch.equal(ours.precision, theirs.precision) and torch.equal(ours.recall, theirs.recall)
    if ties == "given":
        assert torch.equal(ours.scores, theirs.scores)


def test_last_limit_is_a_slice_of_the_full_arrays() -> None:
    c = case("default", 3)
    arguments = (c.matched.detections, c.ordered(), c.positives(), c.recalls, c.shape)
    full, last = precision_recall(*arguments, full=True), precision_recall(*arguments)
    assert torch.equal(full.precision[..., -1:], last.precision) and torch.equal(full.recall, last.recall)
    assert last.scores.numel() == 0


@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("labels", [[], [1], [0, 1, 2, 3], [-5, 2, 2**40]])
def test_order_equals_reference(labels: list[int], agnostic: bool) -> None:
    c = case("default", 5)
    permuted = torch.randperm(len(c.lengths), generator=torch.Generator().manual_seed(1))
    starts = (c.lengths.cumsum(0) - c.lengths)[permuted]
    arguments = (starts, c.lengths[permuted], torch.tensor(labels, dtype=torch.int64), 2, agnostic and bool(labels))
    ours = order_records(c.matched.detections, *arguments)
    theirs = Ordered(*reference("order_records")(c.matched.detections, *arguments))
    assert torch.equal(ours.order, theirs.order) and torch.equal(ours.offsets, theirs.offsets)


def test_order_is_stable_for_many_tied_scores_of_any_sign() -> None:
    rng = np.random.default_rng(0)
    scores = rng.choice([-np.inf, -1.5, -0.0, 0.0, 1e-300, 0.5, np.inf, np.nan], 3000)
    rows = torch.zeros((3000, 23), dtype=torch.uint8)
    rows[:, :8] = torch.tensor(scores).view(torch.uint8).reshape(-1, 8)
    one = torch.tensor([3000])
    ordered = order_records(rows, one - 3000, one, torch.tensor([0]), 3)
    key = np.where(np.isnan(scores), np.inf, -(scores + 0.0))
    order = np.lexsort((np.arange(3000), np.isnan(scores), key))
    assert ordered.order.tolist() == order.tolist()
    assert np.array_equal(detection_scores(rows[ordered.order]).numpy(), scores[order], equal_nan=True)


def test_no_record_and_no_ground_truth() -> None:
    rows, none = torch.empty((0, 23), dtype=torch.uint8), torch.empty(0, dtype=torch.int64)
    ordered = order_records(rows, none, none, none, 3)
    curves = precision_recall(rows, ordered, torch.empty((0, 4), dtype=torch.int64), torch.tensor([0.5]).double(),
                              RecordShape(10, 4, 3))  # fmt: skip
    assert ordered.offsets.tolist() == [0] and curves.precision.shape == (10, 1, 0, 4, 1)


def test_ground_truths_without_detections_have_recall_zero() -> None:
    rows, none = torch.empty((0, 15), dtype=torch.uint8), torch.empty(0, dtype=torch.int64)
    ordered = order_records(rows, none, none, torch.tensor([4]), 1)
    grid = torch.tensor([0.0, 0.5], dtype=torch.float64)
    curves = precision_recall(rows, ordered, torch.tensor([[3]]), grid, RecordShape(1, 1, 1), full=True)
    assert [x.reshape(-1).tolist() for x in curves] == [[0.0, 0.0], [0.0], [0.0, 0.0]]


def test_ties_argument_is_checked() -> None:
    c = case("default", 3)
    with pytest.raises(InputError, match="ties must be one of 'given', 'highest', 'lowest'"):
        precision_recall(c.matched.detections, c.ordered(), c.positives(), c.recalls, c.shape, ties="best")


def test_opcheck() -> None:
    c = case("default", 3)
    starts = c.lengths.cumsum(0) - c.lengths
    ordered = c.ordered()
    torch.library.opcheck(torch.ops.valor_gpu.order_records.default,
                          (c.matched.detections, starts, c.lengths, c.labels, 3, False))  # fmt: skip
    torch.library.opcheck(torch.ops.valor_gpu.precision_recall.default,
                          (c.matched.detections, *ordered, c.positives(), c.recalls, [10, 4, 3], True, 0))  # fmt: skip


@pytest.mark.parametrize("agnostic", [False, True])
@pytest.mark.parametrize("labels", [[], [1], [0, 1, 2, 3], [-5, 2, 2**40]])
@pytest.mark.parametrize("areas", [1, 4])
def test_counts_equal_reference(labels: list[int], areas: int, agnostic: bool) -> None:
    ground_truths = case("default", 8).matched.ground_truths
    names = torch.tensor(labels, dtype=torch.int64)
    ours = count_ground_truths(ground_truths, names, areas, agnostic)
    assert torch.equal(ours, reference("count_ground_truths")(ground_truths, names, areas, agnostic))
    torch.library.opcheck(torch.ops.valor_gpu.count_ground_truths.default, (ground_truths, names, areas, agnostic))


@pytest.mark.parametrize("largest", [0, 250_000])
@pytest.mark.parametrize("low", [0.0, 0.1])
def test_rows_split_among_threads_keep_their_order(largest: int, low: float) -> None:
    rng = np.random.default_rng(largest)
    lengths = rng.integers(0, 90, 6000)
    lengths[4000] += largest  # one image with more than a thread's part
    rows = np.zeros((int(lengths.sum()), 13 + 2), np.uint8)
    scores = rng.integers(0, 2000, len(rows)).astype(np.float32).astype(np.float64) / 2048 + low
    labels = rng.integers(-3, 5, len(rows)).astype(np.int32)
    rows[:, :8], rows[:, 8:12] = scores[:, None].view(np.uint8), labels[:, None].view(np.uint8)
    rows[:, 12] = rng.choice([0, 1, 2, 255], len(rows))
    images = rng.permutation(len(lengths))
    starts = (lengths.cumsum() - lengths)[images]
    wanted = np.array([-3, -1, 0, 4, 9])
    place = np.repeat(images.argsort(), lengths)
    kept = np.flatnonzero(np.isin(labels, wanted) & (rows[:, 12] < 2))
    expected = kept[np.lexsort((kept, place[kept], -scores[kept], labels[kept]))]
    for threads in (1, 2, 3, 8):
        order, offsets = _accumulate_cpu.order_records(rows, starts, lengths[images], wanted, 2, threads=threads)
        assert np.array_equal(order, expected)
        assert np.array_equal(np.diff(offsets), [(labels[kept] == label).sum() for label in wanted])
