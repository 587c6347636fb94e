"""Slices of metrics that are updated: those of a metric that saw the images of the slice alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from valor_gpu.detection import MeanAveragePrecision, mAP
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
