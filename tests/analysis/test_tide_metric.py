"""TIDE of MeanAveragePrecision(errors=True): the numbers of COCOeval on the same data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from tests.analysis.tide_cases import Objects, evaluated, few, random_data, yolact
from valor_gpu.analysis.confusion import class_confusion
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.result import Result

CASES: dict[str, Any] = {
    "yolact": lambda: few(*yolact(images=100), 40),
    **{f"random {seed}": lambda seed=seed: random_data(seed) for seed in range(4)},
}


def columns(objects: Objects, names: dict[str, str]) -> dict[str, torch.Tensor]:
    floats = ("bbox", "score")
    return {
        name: torch.tensor(
            [each[key] for each in objects], dtype=torch.float64 if key in floats else torch.int64
        ).reshape((-1, 4) if key == "bbox" else (-1,))
        for name, key in names.items()
    }  # fmt: skip


def updated(truth: dict[str, Any], detections: Objects, **choices: Any) -> Result:
    """The result of a metric that saw the images as the file has them."""
    metric = MeanAveragePrecision(box_format="xywh", errors=True, **choices)
    metric.warn_on_many_detections = False
    for image in truth["images"]:
        found, true = (
            [each for each in side if each["image_id"] == image["id"]] for side in (detections, truth["annotations"])
        )
        preds = columns(found, {"boxes": "bbox", "scores": "score", "labels": "category_id"})
        target = columns(true, {"boxes": "bbox", "labels": "category_id", "iscrowd": "iscrowd", "area": "area"})
        metric.update([preds], [{**target, "image_id": torch.tensor([image["id"]])}])
    return metric.result()


@pytest.mark.parametrize("protocol", ["coco", "tidecv"])
@pytest.mark.parametrize("name", CASES)
def test_gains_are_those_of_cocoeval(name, protocol):
    truth, detections = CASES[name]()
    numbers = {category["name"]: str(category["id"]) for category in truth["categories"]}
    ours = updated(truth, detections).errors([0.5, 0.75], protocol=protocol)
    theirs = evaluated(truth, detections).errors([0.5, 0.75], protocol=protocol)
    for iou in ("0.5", "0.75"):
        for value in ("ap", "gains", "counts"):
            assert ours.values[iou][value] == theirs.values[iou][value], (iou, value)
        for kind, counts in theirs.values[iou]["counts_per_class"].items():
            mine = ours.values[iou]["counts_per_class"][kind]
            assert {numbers[own]: count for own, count in counts.items() if count} == {
                own: count for own, count in mine.items() if count
            }
    assert theirs.signature["of"] == "COCOeval" and ours.signature["of"] == "MeanAveragePrecision"


def test_limit_of_the_metric_has_no_part_in_tidecv():
    truth, detections = random_data(5)
    small = updated(truth, detections, max_detection_thresholds=[1])
    whole = updated(truth, detections)
    assert small.errors(protocol="tidecv").values["gains"] == whole.errors(protocol="tidecv").values["gains"]
    assert small.errors().values["ap"] != whole.errors().values["ap"]


def just_below_nine_tenths() -> tuple[dict[str, Any], Objects]:
    """Two objects, and detections whose IoU is 0.8999999999999999, as the threshold of COCO."""
    box, near = [0.0, 0.0, 2.6999999999999997, 0.3], [0.0, 0.0, 3.0, 0.3]
    truth = {
        "images": [{"id": 1, "width": 9, "height": 9}, {"id": 2, "width": 9, "height": 9}],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [
            {"id": n, "image_id": n, "category_id": 1, "bbox": box, "area": 0.81, "iscrowd": 0} for n in (1, 2)
        ],
    }
    found = [(1, 1, 0.9), (1, 1, 0.8), (2, 2, 0.7)]  # a hit, a duplicate, a wrong class
    return truth, [{"image_id": i, "category_id": k, "bbox": near, "score": s} for i, k, s in found]


@pytest.mark.parametrize("run", [evaluated, updated])
def test_a_rounded_number_is_the_threshold_of_the_result(run):
    result = run(*just_below_nine_tenths())
    assert 0.9 not in np.linspace(0.5, 0.95, 10)
    errors = result.errors(0.9)
    counts = {kind: errors.counts[kind] for kind in ("hits", "duplicate", "classification", "missed")}
    assert counts == {"hits": 1, "duplicate": 1, "classification": 1, "missed": 0}
    assert errors.values["ap"] == pytest.approx(51 / 101)
    assert result.images(0.9)["true_positives"].tolist() == [1, 0]
    assert result.matches(0.9)["kind"].tolist() == [None, "duplicate", "classification", "classification"]
    assert result.operating_points(iou=0.9).values["recall"] == 0.5
    assert result.olrp(0.9).values["olrp_localization"] == pytest.approx(0.1)
    cells = class_confusion(result._asked("errors", None), 0.9)
    assert list(zip(cells.truths, cells.guesses, cells.counts)) == [(0, 0, 1), (0, 1, 1), (2, 0, 1)]
