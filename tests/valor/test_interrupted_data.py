"""ValorDetectionManager: an interrupt at any line of add_data adds all of a part or nothing."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from valor_gpu.errors import InputError
from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, Prediction, ValorDetectionManager

BOX = Box.from_extrema(xmin=0, xmax=10, ymin=0, ymax=10)
TRUTHS = [GroundTruth(Datum("a"), [Annotation(labels=[Label("k", "x")], bounding_box=BOX, is_instance=True)])]
FOUND = [Prediction(Datum("a"), [Annotation(labels=[Label("k", "x", 0.9)], bounding_box=BOX, is_instance=True)])]


def add_interrupted(manager: ValorDetectionManager, step: int) -> bool:
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
        manager.add_data(TRUTHS, FOUND)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupted_part_is_added_once_by_the_next_call() -> None:
    step = 1
    while True:
        manager = ValorDetectionManager(metrics_to_return=["Counts"], iou_thresholds_to_return=[0.5])  # type: ignore[list-item]
        if not add_interrupted(manager, step):
            break
        assert not manager.datum_uids and not manager.unique_annotation_ids, step
        manager.add_data(TRUTHS, FOUND)
        counts = manager.evaluate().metrics[0]["value"]
        assert counts == {"tp": 1, "fp": 0, "fn": 0}, step
        step += 1
    assert step > 15
    with pytest.raises(InputError, match="once with each datum but got 'a' again"):
        manager.add_data(TRUTHS, FOUND)
