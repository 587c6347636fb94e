"""Boxes of integer dtypes are read as the numbers that they are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torchmetrics.detection as tm

from tests.contents import content
from valor_gpu.detection import AP, MeanAveragePrecision

INTEGERS = [torch.uint8, torch.int16, torch.int32, torch.int64]
FORMATS = ["xyxy", "xywh", "cxcywh"]


def images(seed: int, box_format: str, count: int = 5) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Whole numbers in float64; odd sizes, so that centres lie between pixels."""
    generator = torch.Generator().manual_seed(seed)

    def boxes(rows: int) -> torch.Tensor:
        corner = torch.randint(20, 60, (rows, 2), generator=generator)
        size = torch.randint(5, 19, (rows, 2), generator=generator)
        return torch.cat((corner, corner + size if box_format == "xyxy" else size), 1).double()

    preds, target = [], []
    for _ in range(count):
        scores = torch.rand(6, generator=generator)
        true = boxes(6)
        found = torch.where(torch.rand(6, 1, generator=generator) < 0.7, true + 1, boxes(6))
        labels = torch.randint(2, (6,), generator=generator)
        preds.append({"boxes": found, "scores": scores, "labels": labels})
        target.append({"boxes": true, "labels": labels.flip(0) if len(preds) == 2 else labels})
    return preds, target


def cast(items: list[dict[str, Any]], *dtypes: torch.dtype) -> list[dict[str, Any]]:
    """The boxes of image i in dtype i, in turn."""
    return [{**item, "boxes": item["boxes"].to(dtypes[i % len(dtypes)])} for i, item in enumerate(items)]


def value(metric: Any, preds: Any, target: Any) -> Any:
    metric.update(preds, target)
    return content(metric.compute())


@pytest.mark.parametrize("box_format", FORMATS)
@pytest.mark.parametrize("extended", [False, True])
def test_every_integer_dtype_gives_the_value_of_float64(box_format: str, extended: bool) -> None:
    preds, target = images(0, box_format)

    def found(*items: Any) -> Any:
        return value(MeanAveragePrecision(box_format, extended_summary=extended), *items)

    expected = found(preds, target)
    for dtype in INTEGERS:
        assert found(cast(preds, dtype), cast(target, dtype)) == expected
        assert found(cast(preds, dtype), target) == expected
        assert found(preds, cast(target, dtype)) == expected
        assert found(cast(preds, dtype, torch.float64), cast(target, torch.float32, dtype)) == expected
        assert found(cast(preds, dtype, torch.int64, torch.uint8), target) == expected
        ids = [{**item, "image_id": i} for i, item in enumerate(cast(target, dtype))]
        if not extended:
            padded = [{key: torch.stack([item[key] for item in side]) for key in side[0]}
                      for side in (cast(preds, dtype), cast(target, dtype))]  # fmt: skip
            assert found(*padded) == expected
            assert found(cast(preds, dtype), ids) == found(preds, [{**t, "image_id": i} for i, t in enumerate(target)])


def test_integers_that_float32_does_not_hold_are_kept() -> None:
    """A box 2^25 from the origin, one wide: in float32 both corners are the same number."""
    box = torch.tensor([[2**25 + 1, 0, 2**25 + 2, 10]])
    preds = [{"boxes": box, "scores": torch.tensor([0.5]), "labels": torch.tensor([0])}]
    metric = MeanAveragePrecision()
    metric.update(preds, [{"boxes": box, "labels": torch.tensor([0])}])
    assert float(metric.compute()["map"]) == 1
    assert metric.result().counts["ground_truths"] == 1


def test_the_value_is_that_of_torchmetrics() -> None:
    preds, target = images(1, "xyxy")
    grids: dict[str, Any] = dict(iou_thresholds=[0.5, 0.75], rec_thresholds=[i / 64 for i in range(65)])  # in float32
    ours = MeanAveragePrecision(tie_order="arrival", **grids)
    theirs = tm.MeanAveragePrecision(**grids)
    for metric in (ours, theirs):
        metric.update(cast(preds, torch.int64), cast(target, torch.int32))
    for name in ("map", "map_50", "map_75", "mar_100"):
        assert float(ours.compute()[name]) == pytest.approx(float(theirs.compute()[name]), abs=1e-6)


def test_metrics_by_valors_rules_take_integers() -> None:
    preds, target = images(2, "xyxy")
    assert value(AP(), cast(preds, torch.int64), cast(target, torch.uint8)) == value(AP(), preds, target)


def test_empty_integer_boxes_need_no_dtype() -> None:
    preds, target = images(3, "xyxy", 2)
    empty = {"boxes": torch.zeros((0, 4), dtype=torch.int64), "scores": torch.zeros(0), "labels": torch.zeros(0).long()}
    metric = MeanAveragePrecision()
    metric.update([empty, *preds], [target[0], *target])
    assert metric.result().counts["images"] == 3
