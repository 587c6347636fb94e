"""Slices of metrics that are updated: those of a metric that saw the images of the slice alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from valor_gpu.detection import (
    AP,
    DetectionConfusionMatrix,
    DetectionCounts,
    DetectionDetailedPrecisionRecallCurve,
    DetectionExamples,
    DetectionF1,
    DetectionPrecisionRecallCurve,
    MeanAveragePrecision,
    mAP,
)
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of

IMAGES = 30


def image(number: int, with_id: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    rng = np.random.default_rng(number)
    corners = rng.integers(0, 40, (4, 2))
    boxes = np.concatenate((corners, corners + rng.integers(8, 40, (4, 2))), 1).astype(np.float32)
    found = boxes[:3] + rng.integers(-4, 4, (3, 4)).astype(np.float32)
    target = {"boxes": torch.from_numpy(boxes), "labels": torch.from_numpy(rng.integers(0, 3, 4))}
    preds = {
        "boxes": torch.from_numpy(found),
        "labels": target["labels"][:3],
        "scores": torch.from_numpy(rng.random(3)),
    }
    return preds, target | ({"image_id": number + 100} if with_id else {})


def updated(make: Callable[[], Any], numbers: Sequence[int], with_id: bool = True) -> Any:
    metric = make()
    sides = [image(number, with_id) for number in numbers]
    metric.update([preds for preds, _ in sides], [target for _, target in sides])
    return metric.result()


@pytest.mark.parametrize("make", [MeanAveragePrecision, mAP], ids=["MeanAveragePrecision", "mAP"])
def test_slices_have_the_bits_of_fresh_metrics(make: Callable[[], Any]) -> None:
    kinds = np.random.default_rng(0).choice(["rain", "sun"], IMAGES).tolist()
    table = {"image_id": [str(number + 100) for number in range(IMAGES)], "weather": kinds}
    result = updated(make, range(IMAGES))
    found = result.by(table, "weather", "crowding", numbers=None)
    assert "crowding" in found["column"] and sum(found["images"]) == 2 * IMAGES
    for row in found.rows():
        if row["column"] == "weather":
            numbers = [number for number, kind in enumerate(kinds) if kind == row["value"]]
            fresh = dict(numbers_of(updated(make, numbers).values))
            assert row["images"] == len(numbers) and row["ground_truths"] == 4 * len(numbers)
            assert [repr(float(row[name])) for name in found.numbers] == [repr(fresh[name]) for name in found.numbers]
    without = updated(make, range(IMAGES), with_id=False).by({"image_id": range(IMAGES), "weather": kinds}, "weather")
    rows = [row for row in found.rows() if row["column"] == "weather"]
    assert [row[found.numbers[0]] for row in without.rows()] == [row[found.numbers[0]] for row in rows]


def test_rows_without_ids_are_images_as_they_came() -> None:
    kinds = np.random.default_rng(0).choice(["rain", "sun"], IMAGES).tolist()
    result = updated(MeanAveragePrecision, range(IMAGES), with_id=False)
    found, expected = (result.by(table, "weather") for table in (
        {"weather": kinds}, {"image_id": list(range(IMAGES)), "weather": kinds}
    ))  # fmt: skip
    assert repr(found.rows()) == repr(expected.rows())


def test_numbers_of_arrays_have_the_names_of_classes_and_thresholds() -> None:
    """A slice without a class has no number of it; a place in an array would be that of another class."""
    boxes = torch.tensor([[0.0, 0, 10, 10], [20, 0, 30, 10]])
    of_preds, of_target = ([1, 3], [3, 3], []), ([1, 1], [3, 3], [])
    preds = [
        {
            "boxes": boxes[: len(labels)],
            "scores": torch.tensor([0.9, 0.6])[: len(labels)],
            "labels": torch.tensor(labels).long(),
        }
        for labels in of_preds
    ]
    target = [{"boxes": boxes[: len(labels)], "labels": torch.tensor(labels).long()} for labels in of_target]

    def slices(make: Callable[[], Any]) -> list[dict[str, Any]]:
        metric = make()
        metric.update(preds, target)
        found = metric.result().by({"image_id": [0, 1, 2], "place": ["a", "b", "nowhere"]}, "place").rows()
        numbers = [value for name, value in found[2].items() if name.startswith(("f1", "ap")) and "reason" not in name]
        assert np.isnan(numbers).all()
        return list(found[:2])

    first, second = slices(lambda: DetectionF1(iou_thresholds=[0.5], score_thresholds=[0.5, 0.8]))
    assert first["f1/1/iou 0.5/score 0.5"] == pytest.approx(2 / 3) and second["f1/3/iou 0.5/score 0.5"] == 1
    assert second["f1/3/iou 0.5/score 0.8"] == pytest.approx(2 / 3) and np.isnan(second["f1/1/iou 0.5/score 0.5"])
    first, second = slices(DetectionCounts)
    assert first["tp/1/iou 0.5/score 0.5"] == 1 == first["fp/3/iou 0.75/score 0.5"] and first["ground_truths/1"] == 2
    first, _ = slices(DetectionConfusionMatrix)
    assert first["confusion_matrix/iou 0.5/score 0.5/1/3"] == 1 == first["confusion_matrix/iou 0.5/score 0.5/1/1"]
    assert first["unmatched_predictions/iou 0.5/score 0.5/3"] == 0
    first, _ = slices(lambda: DetectionPrecisionRecallCurve(score_thresholds=[0.5, 0.8]))
    assert first["recall/1/score 0.5"] == 0.5 and first["fp/3/score 0.5"] == 1
    first, _ = slices(lambda: DetectionDetailedPrecisionRecallCurve(score_thresholds=[0.5]))
    assert first["fp/misclassifications/3/score 0.5"] == 1 and not any("examples" in name for name in first)
    first, _ = slices(AP)
    assert "ap_50/1" in first and not any(name.startswith(("precision", "recall", "iou")) for name in first)
    with pytest.raises(
        InputError, match=r"by\(\) and worst_slices\(\) are not defined for results of DetectionExamples"
    ):
        slices(DetectionExamples)
