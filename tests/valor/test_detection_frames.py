"""Frames of detections: rows of one annotation, columns of several lengths, boxes that lack a number."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas
import pytest

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import evaluate_detection

ROWS: dict[str, Any] = {
    "datum_uid": ["x", "x", "y"],
    "label_key": ["k"] * 3,
    "label_value": ["a"] * 3,
    "xmin": [0.0, 20.0, 0.0],
    "ymin": [0.0] * 3,
    "xmax": [10.0, 30.0, 10.0],
    "ymax": [10.0] * 3,
}


def counts(columns: dict[str, Any]) -> dict[str, int]:
    """tp, fp and fn of rows that are compared with themselves, scores 0.9, 0.8 and 0.7."""
    asked: Any = {"metrics_to_return": ["Counts"], "iou_thresholds_to_return": [0.5]}
    found = evaluate_detection({**ROWS, **columns}, {**ROWS, **columns, "score": [0.9, 0.8, 0.7]}, **asked)  # type: ignore[arg-type]
    value: dict[str, int] = found.metrics[0]["value"]
    return value


@pytest.mark.parametrize(
    "ids", [[0, 1, 0], [0, 1, 1], [None] * 3, [float("nan")] * 3, [pandas.NA] * 3, ["0", None, None]]
)
def test_annotation_ids_count_in_their_datum_and_missing_ones_join_nothing(ids: list[Any]) -> None:
    assert counts({"annotation_id": ids}) == {"tp": 3, "fp": 0, "fn": 0}


def test_rows_of_a_datum_with_one_annotation_id_are_one_annotation() -> None:
    joined = {"xmin": [0.0] * 3, "xmax": [10.0] * 3, "annotation_id": [5, 5, 5]}
    assert counts(joined) == {"tp": 2, "fp": 0, "fn": 0}


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("ymax", [10.0, 10.0]),
        ("annotation_id", [1, 2]),
        ("annotation_id", [1, 2, 3, 4]),
        ("is_instance", [True]),
        ("implied_task_types", [None] * 5),
        ("datum_metadata.night", [True] * 4),
        ("annotation_metadata", [{}]),
    ],
)
def test_columns_of_another_length_are_rejected(column: str, values: list[Any]) -> None:
    match = rf"^groundtruths must have columns of one length but '{column}' has {len(values)}, not 3$"
    with pytest.raises(InputError, match=match):
        counts({column: values})


@pytest.mark.parametrize("flags", [[True] * 3, [1, 1, 1], np.ones(3), pandas.array([True, None, True], "boolean")])
def test_flags_of_instances_are_truth_values(flags: Any) -> None:
    present = sum(flag is not pandas.NA for flag in flags)
    assert counts({"is_instance": flags}) == {"tp": present, "fp": 0, "fn": 0}


@pytest.mark.parametrize("flag", ["False", "no", 2, 0.5, []])
def test_texts_are_no_flags_of_instances(flag: Any) -> None:
    message = rf"^groundtruths column 'is_instance' must hold True or False but row 1 has {re.escape(repr(flag))}$"
    with pytest.raises(InputTypeError, match=message):
        counts({"is_instance": [True, flag, None]})


def test_scores_of_another_length_are_rejected() -> None:
    with pytest.raises(InputError, match=r"^predictions must have columns of one length but 'score' has 2, not 3$"):
        evaluate_detection(ROWS, {**ROWS, "score": [0.9, 0.8]})  # type: ignore[arg-type]


@pytest.mark.parametrize("column", ["xmin", "ymin", "xmax", "ymax"])
def test_a_box_that_lacks_one_number_is_rejected_and_not_left_out(column: str) -> None:
    values = [float("nan"), *ROWS[column][1:]]
    with pytest.raises(InputError, match=r"^groundtruths must have finite xmin <= xmax .* but row 0 has"):
        counts({column: values})
