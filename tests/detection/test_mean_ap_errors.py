"""MeanAveragePrecision with errors=True: pairs against pycocotools, matching against records, subsets of images."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing.oracles import pycocotools
from tests.contract_boxes import LOW, Batch, boxes_batch, drawn, drawn_batch, turned_batch
from tests.ddp import WORLD, run_ranks
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.detection.error_records import Links, stored_by_class
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.exports.leaves import leaves, numbers_of
from valor_gpu.ops.assign.match_batch import MatchBatch, Pairs

GEOMETRIES: dict[str, tuple[dict[str, Any], Callable[[int], Batch]]] = {
    "bbox": ({"box_format": "xywh"}, lambda seed: boxes_batch(seed, 5, ids=True)),
    "rotated": ({"box_format": "cxcywha", "iou_type": "rotated"}, lambda seed: turned_batch(seed, 5)),
    "segm": ({"iou_type": "segm"}, lambda seed: drawn_batch(seed, 5)),
    "boundary": ({"iou_type": "boundary"}, lambda seed: drawn_batch(seed, 5)),
    "polygon": ({"iou_type": "polygon"}, lambda seed: drawn_batch(seed, 5)),
}
KINDS = {
    "macro": {},
    "micro": {"average": "micro"},
    "micro-classes": {"average": "micro", "class_metrics": True},
    "extended": {"extended_summary": True},
}


def fed(batches: list[Batch], **choices: Any) -> MeanAveragePrecision:
    metric = MeanAveragePrecision(**choices)
    metric.warn_on_many_detections = False
    for batch in batches:
        metric.update(*batch)
    return metric


def boxes(images: int = 12, ids: bool = True, seed: int = 0) -> Batch:
    """Images whose ids descend, so that the order of ties is not that of arrival."""
    preds, target = boxes_batch(seed, images, ids=True)
    for i, item in enumerate(target):
        item["image_id"] = 100 - 3 * i
    if not ids:
        target = [{key: value for key, value in item.items() if key != "image_id"} for item in target]
    return preds, target


def split(batch: Batch, size: int) -> list[Batch]:
    return [tuple(side[at : at + size] for side in batch) for at in range(0, len(batch[0]), size)]


def analysis(metric: MeanAveragePrecision, iou_type: str | None = None) -> Any:
    return metric.result()._asked("errors", iou_type)


def pairs_of(found: Any) -> list[Any]:
    return [column.tolist() for column in (found.pairs.counts, found.pairs.ground_truths, found.pairs.ious)]


def expected_pairs(batch: Batch, lowest: float) -> tuple[list[int], list[int], list[float]]:
    """Pairs of xywh boxes, image by image in the order of ids, by pycocotools."""
    counts, places, ious, first = [], [], [], 0
    for pred, true in sorted(zip(*batch), key=lambda item: item[1]["image_id"]):
        sides = (pred["boxes"].reshape(-1, 4).double().numpy(), true["boxes"].reshape(-1, 4).double().numpy())
        table = np.zeros((len(sides[0]), len(sides[1])))
        if table.size:
            table = pycocotools("mask").iou(*sides, true["iscrowd"].tolist())
        for row in table:
            found = [j for j in range(len(row)) if row[j] >= lowest]
            found.sort(key=lambda j: (-row[j], -j))
            counts.append(len(found))
            places += [first + j for j in found]
            ious += [min(row[j], 1.0) for j in found]
        first += table.shape[1]
    return counts, places, ious


@pytest.mark.parametrize(("errors", "lowest"), [(True, 0.1), (0.35, 0.35)])
@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_those_of_pycocotools(seed: int, errors: bool | float, lowest: float) -> None:
    batch = boxes(seed=seed)
    found = analysis(fed(split(batch, 5), box_format="xywh", errors=errors))
    counts, places, ious = expected_pairs(batch, lowest)
    assert found.pairs.lowest == lowest and len(ious) > 10
    assert pairs_of(found) == [counts, places, ious]
    assert any(flag for item in batch[1] for flag in item["iscrowd"])


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_change_no_record_and_match_as_the_records(geometry: str, kind: str) -> None:
    choices, make = GEOMETRIES[geometry]
    batches = [make(seed) for seed in range(3)]
    plain, metric = (fed(batches, **choices, **KINDS[kind], errors=errors) for errors in (False, True))
    for name, tensor in plain.state().tensors().items():
        np.testing.assert_array_equal(tensor, getattr(metric.state(), name), err_msg=name)
    for name, value in plain.compute().items():
        if isinstance(value, Tensor):
            assert torch.equal(value, metric.compute()[name]), name
    by_bits, by_pairs = analysis(plain), analysis(metric)
    assert plain.result().signature == metric.result().signature
    hits = 0
    for iou in metric.iou_thresholds:
        bits, pairs = by_bits.matching(iou), by_pairs.matching(iou)
        assert bits.partners is None and bits.ious is None and bits.found is None
        assert bits.hits.tolist() == pairs.hits.tolist()
        assert bits.false_positives.tolist() == pairs.false_positives.tolist()
        assert pairs.found.sum() == pairs.hits.sum() and (pairs.ious[pairs.hits] >= iou).all()
        labels = by_pairs.rows.labels[pairs.hits], by_pairs.rows.gt_labels[pairs.partners[pairs.hits]]
        assert np.array_equal(*labels)
        hits += int(pairs.hits.sum())
    assert hits and by_bits.rows.gt_counts.tolist() == by_pairs.rows.gt_counts.tolist()
    assert (by_pairs.rows.classes == ["all"]) == ("micro" in kind)


def test_several_types_have_their_own_pairs() -> None:
    types = ("bbox", "segm", "boundary")
    batches = [drawn(boxes(6, seed=seed)) for seed in range(2)]
    for i, item in enumerate(batches[1][1]):
        item["image_id"] = 500 + i
    choices = {"box_format": "xywh", "errors": True, "iou_thresholds": LOW}
    joint = fed(batches, iou_type=types, **choices)
    together = joint.result()
    for name in types:
        alone = fed(batches, iou_type=name, **choices)
        found, expected = together._asked("errors", name), analysis(alone)
        assert pairs_of(found) == pairs_of(expected) and len(found.pairs.ious)
        assert found.choices["iou_type"] == expected.choices["iou_type"] == name
        if name != "bbox":  # with masks, areas of boxes are those of masks
            assert found.matching(0.5).hits.tolist() == expected.matching(0.5).hits.tolist()
            assert found.result_of(np.array([0, 3])).values["map"] == expected.result_of(np.array([0, 3])).values["map"]
    with pytest.raises(InputError, match="iou_type must be one of 'bbox', 'segm', 'boundary', which the result has"):
        together.errors()


def test_batches_merging_files_and_copies_keep_the_pairs() -> None:
    batch = boxes()
    choices = {"box_format": "xywh", "errors": True}
    whole = pairs_of(analysis(fed([batch], **choices)))
    parts = [fed([part], **choices) for part in split(batch, 5)]
    merged = MeanAveragePrecision(**choices)
    merged.merge_state(parts[2])
    merged.merge_state(parts[0].to_bytes())
    merged.merge_state(dict(parts[1].metric_state))
    pickled = pickle.loads(pickle.dumps(merged))
    for metric in (merged, pickled, copy.deepcopy(merged), merged.clone()):
        assert pairs_of(analysis(metric)) == whole
    pickled.reset()
    assert pickled.state().pair_counts.shape == (0, 1) and analysis(pickled).images == 0
    assert pairs_of(analysis(pickled)) == [[], [], []]


def test_padded_images_have_the_pairs_of_lists() -> None:
    batch = boxes()
    sides = []
    for items in batch:
        room = max(len(item["labels"]) for item in items) + 2
        padded = {"counts": torch.tensor([len(item["labels"]) for item in items])}
        for key in items[0]:
            if key == "image_id":
                padded[key] = torch.tensor([item[key] for item in items])
                continue
            padded[key] = items[0][key].new_zeros((len(items), room, *([4] if key == "boxes" else [])))
            for row, item in zip(padded[key], items):
                row[: len(item["labels"])] = item[key].reshape(-1, *row.shape[1:])
        sides.append(padded)
    choices = {"box_format": "xywh", "errors": True}
    found, expected = analysis(fed([tuple(sides)], **choices)), analysis(fed([batch], **choices))
    assert pairs_of(found) == pairs_of(expected)
    for name in ("lengths", "scores", "labels", "kept", "gt_labels", "gt_flags"):
        np.testing.assert_array_equal(getattr(found.rows, name), getattr(expected.rows, name), err_msg=name)


def _with_padding(state: dict[str, Any]) -> dict[str, Any]:
    """The state with two rows of padding after the detections of each image, and one after its ground truths."""
    sizes = state["images"][:, 4:6].tolist()
    parts: dict[str, list[Tensor]] = {"detections": [], "ground_truths": [], "pair_counts": []}
    first, gt_first = 0, 0
    for size, gt_size in sizes:
        for name, start, count, more in (
            ("detections", first, size, 2),
            ("pair_counts", first, size, 2),
            ("ground_truths", gt_first, gt_size, 1),
        ):
            rows = state[name][start : start + count]
            padding = rows.new_zeros((more, rows.shape[1]))
            if name == "detections":
                padding[:, 12] = 255
            parts[name] += [rows, padding]
        first, gt_first = first + size, gt_first + gt_size
    images = state["images"].clone()
    images[:, 4:6] += torch.tensor([2, 1])
    return {**state, **{name: torch.cat(rows) for name, rows in parts.items()}, "images": images}


def test_rows_of_padding_which_states_of_cuda_hold_are_left_out() -> None:
    choices = {"box_format": "xywh", "errors": True}
    metric, padded = fed(split(boxes(), 5), **choices), MeanAveragePrecision(**choices)
    state = {name: torch.cat(now) if isinstance(now, list) else now for name, now in metric.metric_state.items()}
    padded.merge_state(_with_padding(state))
    found, expected = analysis(padded), analysis(metric)
    assert pairs_of(found) == pairs_of(expected)
    for name in ("lengths", "scores", "labels", "kept", "unmatched_ignored", "gt_labels", "gt_flags"):
        np.testing.assert_array_equal(getattr(found.rows, name), getattr(expected.rows, name), err_msg=name)
    for iou in (0.2, 0.5):
        assert found.matching(iou).partners.tolist() == expected.matching(iou).partners.tolist()
    part = np.array([0, 3, 4])
    assert pairs_of(found.part(part)) == pairs_of(expected.part(part))
    assert dict(numbers_of(found.result_of(part).values)) == pytest.approx(
        dict(numbers_of(expected.result_of(part).values)), abs=0, nan_ok=True
    )


def test_rows_are_those_of_the_images_in_the_order_of_ids() -> None:
    batch = boxes()
    found = analysis(fed(split(batch, 5), box_format="xywh", max_detection_thresholds=[1, 3], errors=True))
    images = sorted(zip(*batch), key=lambda item: item[1]["image_id"])
    assert found.image_ids == list(found.rows.image_ids) == [true["image_id"] for _, true in images]
    names = found.rows.classes
    assert names == [str(n) for n in sorted({int(k) for side in batch for item in side for k in item["labels"]})]
    assert [names[k] for k in found.rows.labels] == [str(int(k)) for pred, _ in images for k in pred["labels"]]
    assert [names[k] for k in found.rows.gt_labels] == [str(int(k)) for _, true in images for k in true["labels"]]
    assert found.rows.scores.tolist() == [float(s) for pred, _ in images for s in pred["scores"]]
    assert (found.rows.gt_flags == 1).tolist() == [bool(c) for _, true in images for c in true["iscrowd"]]
    kept = []
    for pred, _ in images:
        ranked = sorted(range(len(pred["labels"])), key=lambda i: -float(pred["scores"][i]))
        for i, label in enumerate(pred["labels"]):
            kept.append([j for j in ranked if pred["labels"][j] == label].index(i) < 3)
    assert found.rows.kept.tolist() == kept and not all(kept)


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("tie_order", ["image", "arrival"])
@pytest.mark.parametrize("errors", [True, False])
def test_some_images_have_the_result_of_a_metric_that_saw_no_others(ids: bool, tie_order: str, errors: bool) -> None:
    batch = boxes(ids=ids)
    choices = {"box_format": "xywh", "tie_order": tie_order, "errors": errors}
    found = analysis(fed(split(batch, 5), **choices))
    rng = np.random.default_rng(3)
    arrival = [100 - 3 * i for i in range(12)]
    for size in (0, 1, 5, 12):
        images = np.sort(rng.choice(12, size, replace=False))
        places = [arrival.index(found.image_ids[i]) if ids else found.rows.image_ids[i] for i in images]
        fresh = fed([tuple([side[i] for i in sorted(places)] for side in batch)], **choices).result()
        part = found.result_of(images)
        assert part.counts == fresh.counts and part.signature == fresh.signature and part.reasons == fresh.reasons
        assert dict(numbers_of(part.values)).keys() == dict(numbers_of(fresh.values)).keys()
        for name, value in leaves(fresh.values):
            np.testing.assert_array_equal(dict(leaves(part.values))[name], value, err_msg=name)
        one, other = found.part(images), fresh._asked("errors", None)
        assert one.matching(0.5).hits.tolist() == other.matching(0.5).hits.tolist()
        if errors:
            assert pairs_of(one) == pairs_of(other)


def test_classes_matched_on_their_own_follow_the_images() -> None:
    batch = boxes()
    choices = {"box_format": "xywh", "average": "micro", "class_metrics": True, "errors": True}
    images = np.array([1, 4, 5])
    part = analysis(fed([batch], **choices)).result_of(images)
    fresh = fed([tuple([side[11 - i] for i in images] for side in batch)], **choices).result()
    assert dict(part.values["map_per_class"]) == pytest.approx(dict(fresh.values["map_per_class"]), abs=0, nan_ok=True)


def test_a_copy_of_an_image_brings_no_pairs() -> None:
    preds, target = boxes()
    choices = {"box_format": "xywh", "errors": True}
    once = fed([(preds, target)], **choices)
    other = dict(preds[1], boxes=preds[1]["boxes"] + 1)
    twice = fed([([preds[0], other], target[:2]), (preds[2:], target[2:]), (preds[:2], target[:2])], **choices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found, counts = analysis(twice), twice.result().counts
    assert counts["repeated_images"] == 2 and found.images == 12
    copies = {int(i[0]): int(i[3]) for i in torch.cat(twice.images[:1])}
    if int(once.images[0][1, 3]) < copies[97]:
        assert pairs_of(found) == pairs_of(analysis(once))
    else:
        assert pairs_of(found) == pairs_of(analysis(fed([([preds[0], other, *preds[2:]], target)], **choices)))


def _pairs_of_rank(rank: int, world: int) -> Any:
    preds, target = boxes()
    data = torch.utils.data.DistributedSampler(range(12), num_replicas=world, rank=rank, shuffle=True, seed=3)
    order = [*data, 0] if rank == 1 else list(data)
    metric = fed([([preds[i] for i in order], [target[i] for i in order])], box_format="xywh", errors=True)
    found = analysis(metric)
    return pairs_of(found), found.matching(0.3).hits.tolist()


def test_ranks_change_no_pair(tmp_path: Any) -> None:
    found = analysis(fed([boxes()], box_format="xywh", errors=True))
    assert run_ranks(_pairs_of_rank, tmp_path) == [(pairs_of(found), found.matching(0.3).hits.tolist())] * WORLD


@pytest.mark.parametrize("errors", [True, False])
def test_a_result_stays_as_it_was(errors: bool) -> None:
    first, second = split(boxes(), 6)
    metric = fed([first], box_format="xywh", errors=errors)
    result, before = metric.result(), metric.result()._asked("errors", None)
    expected = before.matching(0.5).hits.tolist(), before.result_of(np.arange(4)).values["map"]
    metric.update(*second)
    metric.iou_thresholds, metric.rec_thresholds = [0.9], [0.0]
    found = result._asked("errors", None)
    metric.reset()
    assert found.images == 6
    assert (found.matching(0.5).hits.tolist(), found.result_of(np.arange(4)).values["map"]) == expected
    if errors:
        assert pairs_of(found) == pairs_of(before)


def test_questions_say_what_they_need() -> None:
    result = fed([boxes()], box_format="xywh").result()
    for name in ("errors", "olrp"):
        needed = rf"{name}\(\) needs the pairs of detections and ground truths of any class: make the metric with err"
        with pytest.raises(InputError, match=needed):
            getattr(result, name)()
    found = result._asked("errors", None)
    with pytest.raises(InputError, match="this question needs the pairs of detections"):
        _ = found.pairs
    with pytest.raises(InputError, match=r"iou must be one of iou_thresholds, 0.5, 0.55, .*, but got 0.3: make the me"):
        found.matching(0.3)
    with pytest.raises(InputError, match=r"iou must be in \[0, 1\] but got 1.5"):
        found.matching(1.5)
    assert 0.9 not in result.values["iou_thresholds"]  # numpy.linspace has 0.8999999999999999
    assert found.matching(0.9) is found.matching(0.8999999999999999)
    with_pairs = analysis(fed([boxes()], box_format="xywh", errors=0.25))
    assert with_pairs.matching(0.9) is with_pairs.matching(0.8999999999999999)
    with pytest.raises(InputError, match=r"iou and background must be at least 0.25, from which on .*, but got 0.2"):
        with_pairs.matching(0.2)


def test_keypoints_are_matched_by_their_records() -> None:
    preds, target = drawn_batch(1, 6)
    preds = [{key: value for key, value in item.items() if key != "boxes"} for item in preds]
    metric = fed([(preds, target)], iou_type="keypoints", sigmas=(0.2, 0.3, 0.1))
    found = analysis(metric)
    for index, iou in enumerate(metric.iou_thresholds):
        bits = metric.state().detections[:, 13 + index // 8].numpy() >> index % 8 & 1
        assert int(found.matching(iou).hits.sum()) <= int(bits.sum())
    assert found.matching(0.5).hits.any() and set(found.rows.gt_flags.tolist()) <= {0, 2}
    with pytest.raises(InputError, match=r"errors\(\) is not defined for keypoints .*, as TIDE is about IoU"):
        metric.result().errors()
    for question in (metric.result().olrp, metric.result().matches):
        with pytest.raises(InputError, match=r"is not defined for keypoints .* no pairs of them: ask a COCOeval"):
            question()


def test_detections_out_of_the_range_of_areas_are_no_false_positives() -> None:
    side, box = torch.tensor([[0.0, 0.0, 2e5, 2e5]]), torch.tensor([[0.0, 0.0, 4.0, 4.0]])
    preds = [dict(boxes=torch.cat((side, box)), scores=torch.tensor([0.9, 0.8]), labels=torch.tensor([0, 0]))]
    target = [dict(boxes=box + 50, labels=torch.tensor([0]), image_id=1)]
    for errors in (False, True):
        found = analysis(fed([(preds, target)], errors=errors))
        assert found.matching(0.5).false_positives.tolist() == [False, True]
        assert found.rows.unmatched_ignored.tolist() == [True, False]


@pytest.mark.parametrize(
    ("choices", "error", "message"),
    [
        (
            {"errors": 0.6},
            InputError,
            "errors must be True, False or a number above 0 and at most 0.5, the lowest of iou_thresholds, but got 0",
        ),
        (
            {"errors": 0.0},
            InputError,
            "errors must be True, False or a number above 0 and at most 0.5, the lowest of iou_thresholds, but got 0",
        ),
        ({"errors": True, "iou_thresholds": [0.0]}, InputError, "errors must be False where iou_thresholds has 0 but"),
        ({"errors": "yes"}, InputTypeError, "errors must be True, False or a number above 0 .* 0.5, .*, but got 'yes'"),
        ({"errors": None}, InputTypeError, "errors must be True, False or a number above 0 .*, but got None"),
        ({"errors": np.nan}, InputError, "errors must be True, False or a number above 0 .*, but got nan"),
        (
            {"errors": np.float64(0.75)},
            InputError,
            "errors must be True, .* the lowest of iou_thresholds, but got 0.75",
        ),
        ({"errors": True, "iou_type": "keypoints"}, InputError, "kinds of errors are not defined for keypoints"),
    ],
)
def test_what_errors_may_be(choices: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        MeanAveragePrecision(**choices)


@pytest.mark.parametrize(
    ("given", "plain"),
    [(np.True_, True), (np.False_, False), (np.float32(0.25), 0.25), (np.float64(0.3), 0.3), (np.int64(1), 1.0)],
)
def test_bools_and_numbers_of_numpy_are_those_of_python(given: Any, plain: bool | float) -> None:
    thresholds = [1.0] if plain == 1.0 else [0.5]
    got, expected = (MeanAveragePrecision(iou_thresholds=thresholds, errors=each) for each in (given, plain))
    assert got._config() == expected._config() and got._lowest == expected._lowest
    assert str(got.result().signature) == str(expected.result().signature)


def test_the_lowest_threshold_bounds_the_pairs() -> None:
    assert analysis(MeanAveragePrecision(iou_thresholds=[0.05, 0.5], errors=True)).reductions.lowest == 0.05
    assert analysis(MeanAveragePrecision(iou_thresholds=[1.0], errors=1.0)).reductions.lowest == 1 - 1e-10


def test_memory_is_twelve_bytes_a_pair_and_four_a_detection() -> None:
    batch = boxes()
    plain, kept = (MeanAveragePrecision("xywh", errors=errors).memory_plan(*batch) for errors in (False, True))
    counts, _, ious = expected_pairs(batch, 0.1)
    assert kept.per_update - plain.per_update == 12 * len(ious) + 4 * len(counts)
    assert kept.update > plain.update and kept.fixed == plain.fixed


def _put(field: str, place: Any, value: float) -> Any:
    return lambda state: state[field].__setitem__(place, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_put("pair_counts", (0, 0), -1), r"pair_counts\[0, 0\] must count from 0 to 4 pairs"),
        (_put("pair_counts", (0, 0), 2), "pair_ious must have 5 rows, as pair_counts says, but has 4"),
        (_put("pair_ious", 2, 0.05), r"pair_ious\[2\] must be finite and at least 0.1"),
        (_put("pair_ious", 0, torch.nan), r"pair_ious\[0\] must be finite and at least 0.1"),
        (_put("pair_ground_truths", 1, 1), r"pair_ground_truths\[1\] must be a place in the image"),
        (lambda state: state.update(pair_counts=state["pair_counts"][:3]), "pair_counts must have 4 rows, as detect"),
        (
            lambda state: state.update(pair_ground_truths=state["pair_ground_truths"][:3]),
            "pair_ground_truths must have",
        ),
    ],
)
@pytest.mark.parametrize("iou_type", ["bbox", ("bbox", "segm")])
def test_pairs_that_contradict_themselves_are_rejected(change: Any, message: str, iou_type: Any) -> None:
    choices = {"iou_type": iou_type, "errors": True}
    metric, box, mask = MeanAveragePrecision(**choices), torch.tensor([[0.0, 0, 4, 4]]), torch.ones(1, 4, 4).bool()
    label = torch.tensor([0])
    for image in range(4):
        found = dict(boxes=box, masks=mask, scores=torch.tensor([0.5]), labels=label)
        metric.update([found], [dict(boxes=box, masks=mask, labels=label, image_id=image)])
    state = {
        name: torch.cat(now).clone() if isinstance(now, list) else now for name, now in metric.metric_state.items()
    }
    change(state)
    if iou_type != "bbox":
        message = message.replace("to 4 pairs", "to 8 pairs").replace("5 rows", "9 rows").replace("has 4", "has 8")
        message = message.split(r"\[")[0] if "pair_counts" not in message else message  # of one geometry
    with pytest.raises(InputError, match=message):
        MeanAveragePrecision(**choices).merge_state(state)


def test_room_that_no_pair_uses_is_left_out() -> None:
    """Kernels of CUDA write the pairs of a detection into room for all ground truths of its image."""
    offsets, counts = torch.tensor([0, 3, 6, 9, 11]), torch.tensor([2, 0, 3, 1], dtype=torch.int32)
    places = torch.tensor([2, 0, 9, 9, 9, 9, 1, 2, 0, 1, 9], dtype=torch.int32)
    ious = torch.tensor([0.75, 0.5, -1, -1, -1, -1, 0.5, 0.25, 0.125, 0.375, -1], dtype=torch.float64)
    links = Links.of(Pairs(offsets, counts, places, ious))
    assert links.ground_truths.tolist() == [2, 0, 1, 2, 0, 1]
    assert links.ious.tolist() == [0.75, 0.5, 0.5, 0.25, 0.125, 0.375]
    lengths = torch.tensor([[3, 1], [3, 2]])
    labels = {"labels": [torch.tensor([7, 7, 8]), torch.tensor([8])]}
    batch = MatchBatch(
        lengths, gt_labels=[torch.tensor([7, 7, 8]), torch.tensor([7, 8])], pairs=links.stored(), **labels
    )
    ((found, _),) = stored_by_class({"bbox": (batch, torch.tensor(0))}).values()
    assert found.pairs.counts.tolist() == [1, 0, 1, 1] and found.pairs.offsets.tolist() == [0, 2, 2, 5, 6]
    first = found.pairs.offsets[:-1][found.pairs.counts > 0]
    assert found.pairs.ground_truths[first].tolist() == [0, 2, 1]
    assert found.pairs.similarities[first].tolist() == [0.5, 0.25, 0.375]


def test_no_graph_captures_the_update(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = MeanAveragePrecision("xywh", errors=True)
    monkeypatch.setattr("valor_gpu.ops._launch.capturing", lambda: True)
    with pytest.raises(InputError, match="errors=True waits for the device and must not run inside the capture of a C"):
        metric.update(*boxes_batch(1, 2))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_device_finds_the_pairs_of_the_host(geometry: str) -> None:
    def moved(item: dict[str, Any]) -> dict[str, Any]:
        return {key: value.cuda() if isinstance(value, Tensor) else value for key, value in item.items()}

    choices, make = GEOMETRIES[geometry]
    there = MeanAveragePrecision(**choices, errors=True).to("cuda")
    batches = [make(seed) for seed in range(3)]
    for batch in batches:
        there.update(*([moved(item) for item in side] for side in batch))
    here = fed(batches, **choices, errors=True)
    found, expected = analysis(there), analysis(here)
    assert pairs_of(found) == pairs_of(expected)
    assert found.matching(0.5).hits.tolist() == expected.matching(0.5).hits.tolist()
    part = np.array([0, 2, 3])
    assert found.result_of(part).scalars() == pytest.approx(expected.result_of(part).scalars(), abs=0, nan_ok=True)
