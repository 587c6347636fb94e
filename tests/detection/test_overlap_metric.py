"""Pairs that Valor's metrics keep, against pairs counted one by one, for every way in which images come."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection

from tests.contract_boxes import boxes_batch, drawn, turned
from tests.reduce.overlap_scenes import Scene, overlaps_of
from valor_gpu import detection
from valor_gpu.detection import overlap_metric, ranked_metric
from valor_gpu.detection.overlap_metric import OverlapMetric
from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.errors import InputError, SyncError
from valor_gpu.ops import box_iou, rotated_box_iou
from valor_gpu.ops.assign.match_batch import AGNOSTIC, GROUP_OF, MatchBatch, MatchRule, Pairs
from valor_gpu.ops.box_pairs.op import box_pairs
from valor_gpu.ops.overlaps.op import Overlaps

Batch = tuple[list[dict[str, Any]], list[dict[str, Any]]]


class PairCount(OverlapMetric):
    """How many pairs overlap, and how far they do together."""

    def compute(self) -> dict[str, Tensor]:
        state = self.state()
        return {"pairs": torch.tensor(len(state.ious)), "overlap": state.ious.sort().values.sum()}


class LabelCount(OverlapMetric):
    """How many labels detections have."""

    def compute(self) -> Tensor:
        return torch.tensor(len(self.state().labels.unique()))


def plain_batch(seed: int, images: int = 4, ids: bool = False) -> Batch:
    preds, target = boxes_batch(seed, images, ids)
    return preds, [{key: value for key, value in item.items() if key not in ("iscrowd", "area")} for item in target]


def expected(batch: Batch, iou: Any) -> Overlaps:
    """The overlaps of images whose IoUs come from ``iou(pred, target)``."""
    scenes = []
    for pred, target in zip(*batch):
        table = (
            iou(pred, target).tolist() if len(pred["labels"]) and len(target["labels"]) else [[]] * len(pred["labels"])
        )
        scores = pred["scores"].double().tolist()
        scenes.append(Scene(pred["labels"].tolist(), scores, target["labels"].tolist(), table))
    return overlaps_of(scenes)


def upright(pred: dict[str, Any], target: dict[str, Any]) -> Tensor:
    return box_iou(pred["boxes"], target["boxes"])


def rotated(pred: dict[str, Any], target: dict[str, Any]) -> Tensor:
    return rotated_box_iou(pred["boxes"], target["boxes"])


def masks(pred: dict[str, Any], target: dict[str, Any]) -> Tensor:
    sides = [item["masks"].flatten(1).double() for item in (pred, target)]
    both = sides[0] @ sides[1].T
    return torch.nan_to_num(both / (sides[0].sum(1)[:, None] + sides[1].sum(1) - both))


def assert_same(found: Overlaps, other: Overlaps) -> None:
    for ours, theirs in zip(found.columns(), other.columns()):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours.cpu(), theirs.cpu())


def overlaps_in(metric: OverlapMetric) -> Overlaps:
    state = metric.state()
    state.check(None)
    return state.overlaps()


@pytest.mark.parametrize("seed", range(6))
def test_boxes(seed: int) -> None:
    metric, parts = PairCount(), [plain_batch(seed), plain_batch(seed + 50, images=1), plain_batch(seed + 90)]
    for part in parts:
        metric.update(*part)
    whole = [dict(item) for part in parts for item in part[0]], [dict(item) for part in parts for item in part[1]]
    assert_same(overlaps_in(metric), expected(whole, upright))
    other = PairCount()
    other.update(*whole)
    assert_same(overlaps_in(other), overlaps_in(metric))


def test_rotated_boxes_and_masks() -> None:
    batch = plain_batch(1)
    metric = PairCount(iou_type="rotated", box_format="cxcywha")
    metric.update(*turned(batch))
    assert_same(overlaps_in(metric), expected(turned(batch), rotated))  # type: ignore[arg-type]
    metric = PairCount(iou_type="segm")
    metric.update(*drawn(batch))
    assert_same(overlaps_in(metric), expected(drawn(batch), masks))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_scores_keep_their_value(dtype: torch.dtype) -> None:
    preds, target = plain_batch(2)
    scores = [torch.rand(len(item["labels"])).to(dtype) for item in preds]
    metric = PairCount()
    metric.update([dict(item, scores=s) for item, s in zip(preds, scores)], target)
    assert torch.equal(metric.state().scores, torch.cat(scores).double())


def test_padded_tensors() -> None:
    preds, target = plain_batch(3)
    sides = []
    for items in (preds, target):
        room = max(len(item["labels"]) for item in items) + 2
        side = {"counts": torch.tensor([len(item["labels"]) for item in items])}
        for key in items[0]:
            rows = [item[key].reshape(len(item["labels"]), -1) for item in items]
            blank = torch.nan if rows[0].is_floating_point() else 77
            padded = [torch.cat((x, x.new_full((room - len(x), x.shape[1]), blank))) for x in rows]
            side[key] = torch.stack(padded) if key == "boxes" else torch.stack(padded)[..., 0]
        sides.append(side)
    metric = PairCount()
    metric.update(*sides)
    assert_same(overlaps_in(metric), expected((preds, target), upright))


def test_image_ids() -> None:
    metric = PairCount()
    metric.update(*plain_batch(4, ids=True))
    metric.update(*plain_batch(5))
    rows = metric.state().images.tolist()
    assert [row[:2] for row in rows] == [[1, 4000 + i] for i in range(4)] + [[0, 0]] * 4
    assert sum(row[2] for row in rows) == len(metric.state().labels)
    assert sum(row[3] for row in rows) == len(metric.state().gt_labels)


def test_no_images_and_empty_ones() -> None:
    metric = PairCount()
    metric.update([], [])
    assert metric.compute() == {"pairs": 0, "overlap": 0}
    none = {"boxes": torch.zeros(0, 4), "labels": torch.zeros(0, dtype=torch.int64)}
    metric.update([dict(none, scores=torch.zeros(0))], [none])
    assert metric.state().images.tolist() == [[0, 0, 0, 0]]
    assert metric.compute() == {"pairs": 0, "overlap": 0}
    assert overlaps_in(metric).sizes.tolist() == [[0], [0]]


def test_only_pairs_that_share_an_area() -> None:
    """Boxes that touch or have no area overlap nothing; of other labels, and however little, they do."""
    boxes = torch.tensor([[0.0, 0, 10, 10], [10, 0, 20, 10], [5, 5, 5, 9], [9.999, 9.999, 30, 30]], dtype=torch.float64)
    metric = PairCount()
    found = dict(boxes=boxes, scores=torch.ones(4), labels=torch.arange(4))
    metric.update([found], [dict(boxes=boxes[:1], labels=torch.tensor([9]))])
    assert metric.state().counts.tolist() == [1, 0, 0, 1]
    assert 0 < float(metric.state().ious[1]) < 1e-8


@pytest.mark.parametrize(
    ("side", "changed", "message"),
    [
        (0, {"scores": [0.5, float("nan")]}, r"preds\[1\]\['scores'\]\[1\] must be finite"),
        (0, {"scores": [float("inf"), 0.5]}, r"preds\[1\]\['scores'\]\[0\] must be finite"),
        (0, {"boxes": [[0.0, 0, 1, 1], [0, 0, float("nan"), 1]]}, r"preds\[1\]\['boxes'\]\[1\] must be finite"),
        (1, {"boxes": [[0.0, 0, float("inf"), 1]] * 2}, r"target\[1\]\['boxes'\]\[0\] must be finite"),
        (1, {"iscrowd": [0, 1]}, r"target\[1\]\['iscrowd'\]\[1\] must be 0, since Valor's metrics have no crowds"),
    ],
)
def test_bad_values(side: int, changed: dict[str, Any], message: str) -> None:
    def image(**others: Any) -> dict[str, Any]:
        return {"boxes": torch.rand(2, 4).cumsum(1), "labels": torch.tensor([0, 1]), **others}

    preds, target = (
        [image(scores=torch.rand(2)) for _ in range(2)],
        [image(iscrowd=torch.zeros(2).int()) for _ in range(2)],
    )
    metric = PairCount()
    metric.update(preds, target)
    before = metric.to_bytes()
    (preds, target)[side][1] |= {key: torch.tensor(value) for key, value in changed.items()}
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)
    assert metric.to_bytes() == before


def test_arguments() -> None:
    with pytest.raises(InputError, match=r"iou_type must be one of 'bbox', .* but got 'keypoints'"):
        PairCount(iou_type="keypoints")
    with pytest.raises(
        InputError, match=r"box_format must be one of .* but got 'cxcywha': that needs iou_type='rotated'"
    ):
        PairCount(box_format="cxcywha")


def test_a_collection_updates_once_for_each_geometry(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    of = OverlapRecords.of
    monkeypatch.setattr(OverlapRecords, "of", lambda *batch: calls.append(1) or of(*batch))
    collection = MetricCollection({"pairs": PairCount(), "labels": LabelCount(), "wide": LabelCount(box_format="xywh")})
    for seed in range(3):
        collection.update(*plain_batch(seed))
    assert len(calls) == 3 + 2 + 2 and len(collection.compute_groups) == 2
    alone = PairCount()
    for seed in range(3):
        alone.update(*plain_batch(seed))
    assert collection.compute()["pairs"] == alone.compute()["pairs"]


def test_a_collection_ranks_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    ranked = ranked_metric.rank_overlaps
    monkeypatch.setattr(ranked_metric, "rank_overlaps", lambda *given: calls.append(1) or ranked(*given))
    names = ("DetectionCounts", "AP", "DetectionF1", "AR", "mAP")
    metrics = MetricCollection({name: getattr(detection, name)() for name in names})
    alone = {name: getattr(detection, name)() for name in names}
    for seed in range(3):
        batch = plain_batch(seed)
        metrics.update(*batch)
        found = metrics.compute()
        assert len(calls) == 1
        found["DetectionCounts_tp"].fill_(-1)  # what one metric gives is nobody else's
        for name, metric in alone.items():
            metric.update(*batch)
            for key, value in metric.compute().items():
                if key != "tp":
                    assert torch.equal(torch.nan_to_num(value, -1), torch.nan_to_num(found[f"{name}_{key}"], -1))
        calls.clear()


def test_a_collection_counts_duplicates_where_they_are_asked_for() -> None:
    box = torch.tensor([[0.0, 0, 10, 10]])
    preds = [dict(boxes=box.repeat(2, 1), scores=torch.tensor([0.9, 0.8]), labels=torch.tensor([0, 0]))]
    kind = detection.DetectionDetailedPrecisionRecallCurve
    for order in ((True, False), (False, True)):
        metrics = MetricCollection({str(each): kind(score_thresholds=[0.5], duplicates=each) for each in order})
        metrics.update(preds, [dict(boxes=box, labels=torch.tensor([0]))])
        found = {
            name: int(value) for name, value in metrics.compute().items() if "_fp/" in name and "example" not in name
        }
        assert found == {
            "True_fp/misclassifications": 0, "True_fp/hallucinations": 0, "True_fp/duplicates": 1,
            "False_fp/misclassifications": 0, "False_fp/hallucinations": 1,
        }  # fmt: skip


@pytest.mark.parametrize("batches", [1, 2])
def test_what_was_derived_goes_with_the_data(batches: int) -> None:
    metric = detection.AP()
    for seed in range(batches):
        metric.update(*plain_batch(seed))
    metric.compute()
    assert overlap_metric._last["state"].state.derived
    metric.reset()
    assert not overlap_metric._last


def test_metrics_of_one_geometry_merge() -> None:
    one, other, whole = PairCount(), LabelCount(), PairCount()
    one.update(*plain_batch(0))
    other.update(*plain_batch(1))
    whole.update(*plain_batch(0))
    whole.update(*plain_batch(1))
    one.merge_state(other.to_bytes())
    assert_same(overlaps_in(one), overlaps_in(whole))
    for choices in ({"iou_type": "segm"}, {"box_format": "xywh"}):
        with pytest.raises(SyncError, match="another config"):
            one.merge_state(PairCount(**choices))


def padded_batch(room: int, gt_room: int) -> tuple[MatchBatch, Batch]:
    """Images as they come on a GPU: rows that are padding are told by counts on the device alone."""
    preds, target = plain_batch(6)
    columns: dict[str, list[Tensor]] = {}
    for items, size, prefix in ((preds, room, ""), (target, gt_room, "gt_")):
        for key in items[0]:
            rows = [item[key].reshape(len(item["labels"]), -1) for item in items]
            blank = torch.nan if rows[0].is_floating_point() else 77
            padded = torch.cat([torch.cat((x, x.new_full((size - len(x), x.shape[1]), blank))) for x in rows])
            columns[prefix + key] = [padded if key == "boxes" else padded[:, 0]]
    counts, gt_counts = (torch.tensor([len(item["labels"]) for item in items]) for items in (preds, target))
    lengths = torch.tensor([[room] * len(preds), [gt_room] * len(preds)])
    return MatchBatch(lengths, **columns, counts=counts, gt_counts=gt_counts), (preds, target)


def in_rooms(pairs: Pairs, room: int) -> Pairs:
    """The same pairs with room for ``room`` of each detection, as kernels of a GPU leave them."""
    size = len(pairs.counts)
    places = torch.arange(size) * room - pairs.offsets[:-1]
    places = places.repeat_interleave(pairs.counts) + torch.arange(len(pairs.similarities))
    ground_truths, similarities = torch.full((size * room,), -9).int(), torch.full((size * room,), torch.nan).double()
    ground_truths[places], similarities[places] = pairs.ground_truths, pairs.similarities
    return Pairs(torch.arange(size + 1) * room, pairs.counts, ground_truths, similarities)


@pytest.mark.parametrize("rooms", [(13, 14), (40, 12)])
def test_padding_and_rooms_of_a_gpu(rooms: tuple[int, int]) -> None:
    batch, given = padded_batch(*rooms)
    rule = MatchRule.make([1e-300], [(0, 1)], [9], AGNOSTIC, GROUP_OF)
    stored, found = box_pairs(batch, rule)
    assert stored.pairs is not None
    records = OverlapRecords.of(replace(stored, pairs=in_rooms(stored.pairs, rooms[1])), found)
    records.check(None)
    assert_same(records.overlaps(), expected(given, upright))
    assert len(batch.scores[0]) > len(records.labels) and len(batch.gt_labels[0]) > len(records.gt_labels)


def test_errors_of_padded_images() -> None:
    """Padding is no error, whatever it holds."""
    batch, _ = padded_batch(20, 15)
    stored, found = box_pairs(batch, MatchRule.make([1e-300], [(0, 1)], [9], AGNOSTIC, GROUP_OF))
    assert batch.scores[0].isnan().any()
    OverlapRecords.of(stored, found)
    scores, counts = batch.scores[0].clone(), batch.counts.clone()
    scores[2 * 20 + 1], counts[3] = torch.inf, -1
    with pytest.raises(InputError, match=re.escape("preds[2]['scores'][1] must be finite")):
        OverlapRecords.of(replace(stored, scores=[scores]), found)
    with pytest.raises(InputError, match=re.escape("preds[3]['counts'] must lie between 0 and the padded length")):
        OverlapRecords.of(replace(stored, counts=counts), found)
    with pytest.raises(InputError, match=re.escape("target[0]['counts'] must lie between 0 and the padded length")):
        OverlapRecords.of(replace(stored, gt_counts=batch.gt_counts + 99), found)


def put(field: str, place: Any, value: float) -> Any:
    return lambda state: state[field].__setitem__(place, value)


def cut(field: str, rows: int) -> Any:
    return lambda state: state.update({field: state[field][:rows]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("images", (0, 0), 2), r"images\[0\] must say by 0 or 1 whether it has an id"),
        (put("images", (0, 2), -1), r"images\[0\] must count from 0 to 4 rows of labels"),
        (put("images", (1, 3), 9), r"images\[1\] must count from 0 to 4 rows of gt_labels"),
        (put("images", (0, 2), 1), "labels must have 3 rows, as images says, but has 4"),
        (cut("scores", 1), "scores must have 4 rows, as labels says, but has 1"),
        (cut("counts", 1), "counts must have 4 rows, as labels says, but has 1"),
        (put("scores", 0, float("nan")), r"scores\[0\] must be finite"),
        (put("counts", 1, -2), r"counts\[1\] must count from 0 to 8 pairs"),
        (put("counts", 1, 1), "ious must have 7 rows, as counts says, but has 8"),
        (cut("ground_truths", 3), "ground_truths must have 8 rows, as ious says, but has 3"),
        (put("ious", 0, 0.0), r"ious\[0\] must be above 0 and finite"),
        (put("ious", 0, math.inf), r"ious\[0\] must be above 0 and finite"),
        (put("ious", 1, 1.0), r"ious\[1\] must descend in a detection, of equal ones the later ground truth first"),
        (put("ground_truths", 0, 2), r"ground_truths\[0\] must be a place in the image"),
        (put("ground_truths", 0, -1), r"ground_truths\[0\] must be a place in the image"),
        (put("ground_truths", 1, 0), "ground_truths must hold one once for each detection but repeats one"),
    ],
)
def test_states_that_contradict_themselves(change: Any, message: str) -> None:
    """Two images of two detections, each of which overlaps both ground truths by 0.8 and 0.5."""
    boxes, gt_boxes = torch.tensor([[0.0, 0, 10, 10]] * 2), torch.tensor([[0.0, 0, 10, 8], [0, 0, 10, 5]])
    labels = torch.tensor([0, 1])
    preds, target = dict(boxes=boxes, scores=torch.ones(2), labels=labels), dict(boxes=gt_boxes, labels=labels)
    metric, other = PairCount(), PairCount()
    metric.update([preds, preds], [target, target])
    state = {name: (torch.cat(x) if isinstance(x, list) else x).clone() for name, x in metric.metric_state.items()}
    other.merge_state(state)
    change(state)
    with pytest.raises(InputError, match=message):
        PairCount().merge_state(state)


def test_inputs_are_not_shared() -> None:
    """What the user does with the tensors of a batch afterwards changes nothing."""
    labels, scores = torch.tensor([1]), torch.tensor([0.5], dtype=torch.float64)
    box = torch.tensor([[0.0, 0, 1, 1]], dtype=torch.float64)
    metric = PairCount()
    ids = torch.tensor([5])
    metric.update([dict(boxes=box, scores=scores, labels=labels)], [dict(boxes=box, labels=labels, image_id=ids)])
    for tensor in (labels, scores, box, ids):
        tensor.fill_(7)
    state = metric.state()
    assert (state.labels, state.gt_labels, state.scores, state.images[:, 1]) == (1, 1, 0.5, 5)


def test_empty_records() -> None:
    assert OverlapRecords.none().schema() == PairCount().state().schema()
    OverlapRecords.none().check(None)
