"""TIDE of MeanAveragePrecision(errors=True): the numbers of COCOeval on the same data."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.analysis.tide_cases import Objects, evaluated, few, random_data, yolact
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
    small = updated(truth, detections, max_detection_thresholds=[1, 2, 3])
    whole = updated(truth, detections)
    assert small.errors(protocol="tidecv").values["gains"] == whole.errors(protocol="tidecv").values["gains"]
    assert small.errors().values["ap"] != whole.errors().values["ap"]
