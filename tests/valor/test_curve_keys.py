"""Keys of curves under both of their names, and all else as with a plain dict."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from valor_gpu.valor import (
    Annotation,
    Datum,
    GroundTruth,
    Label,
    Prediction,
    enums,
    evaluate_classification,
    evaluate_detection,
    metrics,
    schemas,
)

CURVES = [enums.MetricType.PrecisionRecallCurve, enums.MetricType.DetailedPrecisionRecallCurve]


def classified() -> list[Any]:
    truth = [GroundTruth(Datum("a"), [Annotation(labels=[Label("k", "cat")])])]
    scores = [Label("k", "cat", 0.6), Label("k", "dog", 0.4)]
    found = evaluate_classification(
        truth, [Prediction(Datum("a"), [Annotation(labels=scores)])], metrics_to_return=CURVES
    )
    return [each["value"] for each in found.metrics]


def detected() -> list[Any]:
    box, other = (schemas.Box.from_extrema(x, x + 10, 0, 10) for x in (0, 20))
    image = Datum("a", metadata={"height": 50, "width": 50})
    truth = [GroundTruth(image, [Annotation(labels=[Label("k", "cat")], bounding_box=box, is_instance=True)])]
    scored = Annotation(labels=[Label("k", "cat", 0.6)], bounding_box=other, is_instance=True)
    found = evaluate_detection(truth, [Prediction(image, [scored])], metrics_to_return=CURVES)
    return [each["value"] for each in found.metrics]


@pytest.mark.parametrize("evaluated", [classified, detected])
def test_thresholds_answer_as_texts_and_as_numbers(evaluated: Any) -> None:
    for value in evaluated():
        points = value["cat"]
        assert len(points) == 19 and all(isinstance(threshold, float) for threshold in points)
        for threshold in list(points):
            text = str(threshold)
            assert points[text] is points[threshold] is points.get(text) and text in points and threshold in points
        for missing in ("0.06", "0.050", "x", "", 0.06, None, ("0.05",), True):
            assert missing not in points and points.get(missing, 3) == 3
            with pytest.raises(KeyError, match=r".*"):
                points[missing]
        read = json.loads(json.dumps(value))
        assert "0.05" in read["cat"] and 0.05 not in read["cat"]
        again = metrics.PrecisionRecallCurve("k", read, None)
        assert again.value == read and again.value["cat"][0.05] is again.value["cat"]["0.05"] and 1 not in read["cat"]


@pytest.mark.parametrize("evaluated", [classified, detected])
def test_missed_detections_are_no_predictions(evaluated: Any) -> None:
    _, value = evaluated()
    kinds = value["cat"]["0.65"]["fn"]["observations"]
    assert kinds["missed_detections"] is kinds["no_predictions"] is kinds.get("missed_detections")
    assert kinds["missed_detections"]["count"] == 1 and "missed_detections" in kinds
    assert list(kinds) == ["misclassifications", "no_predictions"]
    assert "missed_detections" not in value["cat"][0.65]["fp"]["observations"] and "missed" not in kinds
    read = json.loads(json.dumps(value).replace("no_predictions", "missed_detections"))
    named = metrics.DetailedPrecisionRecallCurve("k", read, None).value["cat"][0.65]["fn"]["observations"]
    assert named["no_predictions"]["count"] == 1 and kinds.get("other") is None


def test_all_else_is_as_with_a_plain_dict() -> None:
    for value in (*classified(), *detected()):
        plain = eval(repr(value))
        assert plain == value and type(plain["cat"]) is dict and json.dumps(plain) == json.dumps(value)
        for other in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert other == value and other["cat"]["0.5"] == value["cat"][0.5]
        points = value["cat"].copy()
        assert points == value["cat"] and points["0.5"] is value["cat"][0.5]
        assert "0.5" in pickle.loads(pickle.dumps(points)) and list(points) == list(plain["cat"])


def test_what_is_given_stays_as_it_is() -> None:
    given: dict[str, Any] = {"cat": {0.05: {"tp": 1}}, "odd": None}
    curve = metrics.PrecisionRecallCurve("k", given, 0.5)
    assert curve.value == given and curve.to_dict()["value"] == given and type(given["cat"]) is dict
    assert curve.value["cat"]["0.05"] == {"tp": 1}
    odd = {"cat": {0.05: 3, 0.1: {"fn": {"total": 1}, "tp": {"observations": []}}}}
    assert metrics.DetailedPrecisionRecallCurve("k", odd, 0.5).value == odd
