"""Mean average precision of keypoints: as pycocotools has it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from testing.keypoint_scenes import random_keypoints, random_sigmas
from testing.oracles import pycocotools
from tests.coco.comparison import quietly
from tests.fuzz import seeds
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError, SyncError
from valor_gpu.ops.keypoints.cpu import COCO_SIGMAS

STATS = ("map", "map_50", "map_75", "map_medium", "map_large", "mar_20", "mar_medium", "mar_large")


def peer(data: Any, results: Any, sigmas: Any = COCO_SIGMAS) -> Any:
    """pycocotools on the same objects, whose ``num_keypoints`` are those that are visible."""
    ground_truth = pycocotools("coco").COCO()
    ground_truth.dataset = copy.deepcopy(data)
    for at, row in enumerate(ground_truth.dataset["annotations"], 1):
        row.update(id=at, num_keypoints=sum(v > 0 for v in row["keypoints"][2::3]))
    quietly(ground_truth.createIndex)
    found = quietly(ground_truth.loadRes, copy.deepcopy(results))[0]
    evaluation = pycocotools("cocoeval").COCOeval(ground_truth, found, "keypoints")
    evaluation.params.kpt_oks_sigmas = np.array(sigmas)
    for step in (evaluation.evaluate, evaluation.accumulate, evaluation.summarize):
        quietly(step)
    return evaluation


def inputs(
    data: Any, results: Any, boxes: bool = True, joints: int = 17
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The objects as users hand them over, float64."""

    def columns(rows: list[Any], keys: dict[str, tuple[str, tuple[int, ...], torch.dtype]]) -> dict[str, Any]:
        return {
            name: torch.tensor([row[key] for row in rows], dtype=dtype).reshape(len(rows), *shape)
            for name, (key, shape, dtype) in keys.items()
        }

    double, integer = torch.float64, torch.int64
    common = {"keypoints": ("keypoints", (joints, 3), double), "labels": ("category_id", (), integer)}
    extra = {"boxes": ("bbox", (4,), double)} if boxes else {}
    preds, target = [], []
    for image in data["images"]:
        found = [row for row in results if row["image_id"] == image["id"]]
        true = [row for row in data["annotations"] if row["image_id"] == image["id"]]
        shown = {"boxes": ("bbox", (4,), double)} if "bbox" in results[0] else {}
        preds.append(columns(found, {**common, **shown, "scores": ("score", (), double)}))
        truth = {**common, **extra, "area": ("area", (), double), "iscrowd": ("iscrowd", (), integer)}
        target.append({**columns(true, truth), "image_id": image["id"]})
    return preds, target


def fed(batch: Any, size: int = 2, **choices: Any) -> MeanAveragePrecision:
    metric = MeanAveragePrecision("xywh", iou_type="keypoints", **choices)
    metric.warn_on_many_detections = False
    for at in range(0, len(batch[0]), size):
        metric.update(batch[0][at : at + size], batch[1][at : at + size])
    return metric


@pytest.mark.parametrize("seed", seeds(6))
def test_ids_give_the_numbers_of_pycocotools(seed: int) -> None:
    """Bit by bit; :func:`test_similarities_are_those_of_pycocotools` says what the exponential may change."""
    data, results = random_keypoints(seed, classes=2)
    data["annotations"] = [row for row in data["annotations"] if row["area"] > 0]
    expected = peer(data, results)
    preds, target = inputs(data, results)
    order = np.random.default_rng(seed).permutation(len(preds))
    metric = fed(([preds[i] for i in order], [target[i] for i in order]), extended_summary=True)
    values = metric.result().values
    for name, stat in zip(STATS, (*expected.stats[:6], *expected.stats[8:])):
        assert values[name] == stat or (stat == -1 and np.isnan(values[name])), name
    assert "map_small" not in values
    whole = metric.compute()
    assert float(whole["map_small"]) == float(whole["mar_small"]) == -1
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(whole[name].numpy(), expected.eval[name]), name
    for cell, table in expected.ious.items():
        mine = np.asarray(whole["ious"][cell]).reshape(np.shape(table))  # torchmetrics squeezes tables of one number
        np.testing.assert_allclose(mine, np.asarray(table, np.float32), rtol=1e-6, atol=1e-300)


@pytest.mark.parametrize("joints", [5, 133, 241, 294, 478, 1000])
def test_any_number_of_keypoints_gives_the_numbers_of_pycocotools(joints: int) -> None:
    (data, results), sigmas = random_keypoints(3, joints, classes=2), random_sigmas(joints).tolist()
    data["annotations"] = [row for row in data["annotations"] if row["area"] > 0]
    expected = peer(data, results, sigmas)
    metric = fed(inputs(data, results, joints=joints), sigmas=sigmas, extended_summary=True)
    values = metric.result().values
    assert [values[name] for name in STATS[:3]] == expected.stats[:3].tolist() and 0 < expected.stats[0] < 1
    whole = metric.compute()
    for name in ("precision", "recall", "scores"):
        assert np.array_equal(whole[name].numpy(), expected.eval[name]), name


def test_without_boxes_the_extent_stands_for_them() -> None:
    """They matter to ground truths without visible keypoints alone."""
    data, results = random_keypoints(3)
    for row in data["annotations"]:
        points = np.array(row["keypoints"]).reshape(-1, 3)
        low, high = points[:, :2].min(0), points[:, :2].max(0)
        row.update(bbox=[*low.tolist(), *(high - low).tolist()], area=max(row["area"], 1.0))
    with_boxes = fed(inputs(data, results)).compute()
    without = fed(inputs(data, results, boxes=False)).compute()
    assert all(torch.equal(value, without[name]) for name, value in with_boxes.items())


@pytest.mark.parametrize("seed", seeds(3))
def test_boxes_of_detections_are_their_sizes(seed: int) -> None:
    data, results = random_keypoints(seed, classes=2)
    data["annotations"] = [row for row in data["annotations"] if row["area"] > 0]
    plain = fed(inputs(data, results)).result().values
    sizes = np.random.default_rng(seed).uniform(5, 200, (len(results), 2)).tolist()
    results = [{**row, "bbox": [3.0, 4.0, *size]} for row, size in zip(results, sizes)]
    expected = peer(data, results).stats
    batch = inputs(data, results)
    values = fed(batch).result().values
    for name, stat in zip(STATS, (*expected[:6], *expected[8:])):
        assert values[name] == stat or (stat == -1 and np.isnan(values[name])), name
    assert any(values[name] != plain[name] for name in STATS) or seed  # of the first seed
    for changed, need in (
        (torch.tensor([0.0, 0, float("inf"), 1]), "be finite"),
        (torch.tensor([0.0, 0, -1, 1]), "have a width and a height of at least 0"),
    ):
        place = next(i for i, item in enumerate(batch[0]) if len(item["boxes"]) > 1)
        bad = copy.deepcopy(batch)
        bad[0][place]["boxes"][1] = changed
        with pytest.raises(InputError, match=rf"preds\[{place}\]\['boxes'\]\[1\] must {need}"):
            fed(bad, size=len(bad[0]))
    first = batch[0][0]
    without = {name: value for name, value in first.items() if name != "boxes"}
    with pytest.raises(InputError, match=r"preds\[0\] must have key 'boxes'"):
        fed(([without, first], [batch[1][0]] * 2))


def test_other_keypoints_have_other_sigmas() -> None:
    truth = {"keypoints": torch.tensor([[[10.0, 10, 2], [20, 20, 2]]]), "labels": torch.tensor([0])}
    found = {"keypoints": truth["keypoints"] + 1, "labels": torch.tensor([0]), "scores": torch.ones(1)}
    values = {}
    for sigmas in ((0.2, 0.2), (0.01, 0.2), (0.01, 0.01)):
        metric = MeanAveragePrecision(iou_type="keypoints", sigmas=sigmas)
        metric.update([found], [{**truth, "area": torch.tensor([900.0])}])
        values[sigmas] = round(float(metric.compute()["map"]), 2)
    assert values == {(0.2, 0.2): 1.0, (0.01, 0.2): 0.1, (0.01, 0.01): 0.0}
    with pytest.raises(SyncError, match="sigmas"):
        metric.merge_state(MeanAveragePrecision(iou_type="keypoints").to_bytes())


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_pooled_classes_and_dtypes(dtype: torch.dtype) -> None:
    preds, target = inputs(*random_keypoints(4, classes=3))
    target = [{**item, "area": item["area"].clamp(min=1).to(dtype)} for item in target]
    sides = [[{**item, "keypoints": item["keypoints"].to(dtype)} for item in side] for side in (preds, target)]
    pooled = fed(sides, average="micro", class_metrics=True).compute()
    plain = fed(sides, class_metrics=True).compute()
    assert torch.equal(pooled["map_per_class"], plain["map_per_class"])
    assert torch.equal(pooled["mar_20_per_class"], plain["mar_20_per_class"])
    one = [[{**item, "labels": item["labels"] * 0} for item in side] for side in sides]
    assert torch.equal(pooled["map"], fed(one).compute()["map"])


def test_states_merge_and_travel() -> None:
    data, results = random_keypoints(5)
    batch = inputs(data, [row for row in results])
    for item in batch[1]:
        item["area"] = item["area"].clamp(min=1)
    metric = fed(batch, extended_summary=True)
    other = MeanAveragePrecision("xywh", iou_type="keypoints", extended_summary=True)
    other.merge_state(pickle.loads(pickle.dumps(metric)).to_bytes())
    mine, expected = other.compute(), metric.compute()
    assert all(torch.equal(mine[name], value) for name, value in expected.items() if name != "ious")


_ONE = {"keypoints": torch.ones(1, 17, 3), "labels": torch.tensor([1]), "scores": torch.ones(1)}
_GT = {**_ONE, "area": torch.ones(1)}


@pytest.mark.parametrize(
    ("pred", "gt", "message"),
    [
        ({"keypoints": torch.ones(1, 16, 3)}, {}, r"preds\[1\]\['keypoints'\] must have shape \[1, 17, 3\], .*16, 3\]"),
        ({"keypoints": torch.ones(1, 17, 3).long()}, {}, r"preds\[1\]\['keypoints'\] must be floating point"),
        ({"keypoints": 1}, {}, r"preds\[1\]\['keypoints'\] must be Tensor or ndarray or list or tuple but got int"),
        ({"keypoints": torch.full((1, 17, 3), np.nan)}, {}, r"preds\[1\]\['keypoints'\]\[0\] must be finite"),
        ({"scores": torch.tensor([np.nan])}, {}, r"preds\[1\]\['scores'\]\[0\] must not be NaN"),
        ({}, {"keypoints": torch.full((1, 17, 3), np.inf)}, r"target\[1\]\['keypoints'\]\[0\] must be finite"),
        ({}, {"area": torch.zeros(1)}, r"target\[1\]\['area'\]\[0\] must be finite and above 0"),
        ({}, {"area": torch.tensor([np.inf])}, r"target\[1\]\['area'\]\[0\] must be finite and above 0"),
        ({}, {"area": None}, r"target\[1\] must have key 'area' but has"),
        ({}, {"iscrowd": torch.tensor([2])}, r"target\[1\]\['iscrowd'\]\[0\] must be 0 or 1"),
        ({}, {"boxes": torch.ones(1, 4)}, r"target\[0\] must have key 'boxes' but has"),
        ({"keypoints": torch.ones(1, 17, 3, device="meta")}, {}, r"preds\[1\]\['keypoints'\] must be dense and on cpu"),
    ],
)  # fmt: skip
def test_bad_inputs(pred: dict[str, Any], gt: dict[str, Any], message: str) -> None:
    metric = MeanAveragePrecision(iou_type="keypoints")
    target = {k: v for k, v in {**_GT, **gt}.items() if v is not None}
    with pytest.raises(InputError, match=message):
        metric.update([_ONE, {**_ONE, **pred}], [_GT, target])
    assert not metric.detections


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"iou_type": "bbox", "sigmas": COCO_SIGMAS}, "sigmas must be None but got .*: only iou_type='keypoints'"),
        ({"iou_type": "keypoints", "sigmas": [0.1, -1]}, "sigmas must be above 0 and finite but got -1.0 at index 1"),
        ({"iou_type": ("bbox", "keypoints")}, "iou_type must be one name, or different ones of"),
        ({"iou_type": ("segm", "segm")}, "iou_type must be one name, or different ones of"),
        ({"iou_type": ()}, r"iou_type must be one name, or different ones of .* but got \[\]"),
    ],
)
def test_bad_choices(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MeanAveragePrecision(**choices)
