"""What a user may give an evaluation of detections by mistake, and what the message says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.valor import Polygon, evaluate_detection
from valor_gpu.valor.frames import scores

TRIANGLE = Polygon([[(0, 0), (10, 0), (0, 10), (0, 0)]])
LABELS: dict[str, Any] = {"datum_uid": ["a", "b"], "label_key": ["k", "k"], "label_value": ["x", "x"]}
CORNERS: dict[str, Any] = {"xmin": [0, 0], "ymin": [0, 0], "xmax": [10, 10], "ymax": [10, 10]}
TRUTHS = {**LABELS, **CORNERS}
FOUND = {**TRUTHS, "score": [0.9, 0.8]}

evaluate: Any = evaluate_detection


def average_recall(truths: Any, found: Any, **choices: Any) -> Any:
    return evaluate(truths, found, metrics_to_return=["AR"], **choices).metrics[0]["value"]


def test_columns_of_geojson_may_be_text() -> None:
    texts = {"polygon": [TRIANGLE.to_json()] * 2}
    assert average_recall({**LABELS, **texts}, {**LABELS, **texts, "score": [0.9, 0.8]}) == 1.0


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("polygon", '{"type": "Po', "column 'polygon' row 1 must be GeoJSON but got '.*', which is no JSON: Unterm"),
        ("polygon", "[1, 2]", r"row 1 must be a Polygon or MultiPolygon of GeoJSON but got \[1, 2\]"),
        ("geometry", json.dumps({"type": "Point", "coordinates": [1, 2]}), "row 1 must be .* but got type 'Point'"),
        ("polygon", {"type": ["Polygon"], "coordinates": []}, "row 1 must be .* but got type .'Polygon'."),
        (
            "polygon",
            {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1]]]},
            "row 1: Polygon.value must",
        ),
        ("polygon", {"type": "Polygon"}, "row 1: geojson must have the keys type and coordinates"),
        ("bounding_box", TRIANGLE.to_dict(), "column 'bounding_box' row 1: Box.value must"),
    ],
)
def test_geojson_that_cannot_be_read_names_its_row(column: str, value: Any, message: str) -> None:
    good = json.dumps({"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]})
    with pytest.raises(InputError, match=message):
        average_recall({**LABELS, column: [good, value]}, FOUND)


@pytest.mark.parametrize("column", CORNERS)
def test_a_box_without_one_of_its_numbers_is_an_error(column: str) -> None:
    with pytest.raises(InputError, match=f"must have finite xmin <= xmax .* but row 1 has .*{column} nan"):
        average_recall({**TRUTHS, column: [0, None]}, FOUND)


def test_float32_scores_of_a_frame_reach_the_thresholds_that_they_equal() -> None:
    grid = [step / 20 for step in range(1, 20)]
    rows = {name: [column[0]] * 19 for name, column in TRUTHS.items()} | {"datum_uid": list(range(19))}
    counts = []
    for dtype in (np.float32, np.float64):
        curve = evaluate(rows, {**rows, "score": np.array(grid, dtype)}, metrics_to_return=["PrecisionRecallCurve"])
        counts.append([point["tp"] for point in curve.metrics[0]["value"]["x"].values()])
    assert counts[0] == counts[1] == list(range(19, 0, -1))


def test_other_float32_scores_stay_what_they_are() -> None:
    given = np.array([1e-9, 1 / 3, np.nan, np.inf, 0.1, 3.3e38], np.float32)
    assert np.array_equal(scores("predictions", {"score": given}).astype(np.float32), given, equal_nan=True)
    assert scores("predictions", {"score": given})[4] == 0.1


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("graphics", "device must be cpu, cuda or cuda:N but got 'graphics'"),
        ("cuda:99", "device must be available but got 'cuda:99' and torch .* finds"),
        ("meta", "device must be a CPU or CUDA device but got 'meta'"),
    ],
)
def test_devices_that_are_not_there(device: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        average_recall(TRUTHS, FOUND, device=device)


def test_a_frame_without_geometry_is_an_error() -> None:
    with pytest.raises(
        InputError, match="groundtruths must have columns xmin, ymin, xmax, ymax, or one of bounding_box"
    ):
        average_recall(LABELS, FOUND)
