"""Managers: an interrupt at any line of add_data adds all of a part or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.valor import (
    Annotation,
    Box,
    Datum,
    GroundTruth,
    Label,
    Prediction,
    ValorClassificationManager,
    ValorDetectionManager,
)

BOX = Box.from_extrema(xmin=0, xmax=10, ymin=0, ymax=10)
Manager = ValorClassificationManager | ValorDetectionManager
Sides = tuple[list[GroundTruth], list[Prediction]]


def classified() -> Manager:
    return ValorClassificationManager(metrics_to_return=["Recall"])


def detected() -> Manager:
    return ValorDetectionManager(metrics_to_return=["Counts"], iou_thresholds_to_return=[0.5])


def sides(found: bool) -> Sides:
    place: dict[str, Any] = {"bounding_box": BOX, "is_instance": True} if found else {}
    datum = Datum("a")
    truth, prediction = (Annotation(labels=[Label("k", "x", score)], **place) for score in (None, 1.0))
    return [GroundTruth(datum, [truth])], [Prediction(datum, [prediction])]


def add_interrupted(manager: Manager, data: Sides, step: int) -> bool:
    """Adds the data; whether an interrupt came, before the line number ``step`` that add_data and _keep run."""
    seen = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_name not in ("add_data", "_keep"):
            return None
        seen += event == "line"
        if event == "line" and seen == step:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        manager.add_data(*data)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("make", [classified, detected])
def test_an_interrupted_part_is_added_once_by_the_next_call(make: Callable[[], Manager]) -> None:
    step, data = 1, sides(make is detected)
    while True:
        manager = make()
        if not add_interrupted(manager, data, step):
            break
        assert not manager.datum_uids and not manager.unique_annotation_ids, step
        manager.add_data(*data)
        assert manager.evaluate().metrics[0]["value"] == ({"tp": 1, "fp": 0, "fn": 0} if make is detected else 1.0), (
            step
        )
        assert len(manager._parts) == 1, step
        step += 1
    assert step > 12
    with pytest.raises(InputError, match="once with each datum but got 'a' again"):
        manager.add_data(*data)
