"""Metadata of datums that one side has and the other lacks; numbers and maps that stand for two things."""

from __future__ import annotations

from typing import Any

import pytest

from valor_gpu.compat.valor.labels import read_label_map
from valor_gpu.errors import InputError
from valor_gpu.valor import (
    Annotation,
    Box,
    Datum,
    GroundTruth,
    Label,
    Polygon,
    Prediction,
    ValorDetectionManager,
    evaluate_detection,
)

COUNTS: Any = {"metrics_to_return": ["Counts"], "iou_thresholds_to_return": [0.5]}


def cat(score: float | None = None) -> Annotation:
    return Annotation(labels=[Label("k", "cat", score)], bounding_box=Box.from_extrema(0, 9, 0, 9), is_instance=True)


def sides() -> tuple[list[GroundTruth], list[Prediction]]:
    truths = [
        GroundTruth(Datum("a", metadata={"weather": "rain", "hour": None}), [cat()]),
        GroundTruth(Datum("b", metadata={"weather": "rain"}), []),
    ]
    found = [
        Prediction(Datum("a", metadata={"weather": "sun", "hour": 7}), [cat(0.9)]),
        Prediction(Datum("b"), [cat(0.8)]),
    ]
    return truths, found


def test_metadata_of_an_empty_datum_is_that_of_its_predictions() -> None:
    slices = evaluate_detection(*sides(), **COUNTS).by("metadata.weather")
    assert {name: part["metrics"][0]["value"] for name, part in slices.items()} == {"rain": {"tp": 1, "fp": 1, "fn": 0}}


def test_names_that_ground_truths_lack_come_from_predictions() -> None:
    assert list(evaluate_detection(*sides(), **COUNTS).by("metadata.hour")) == [7, None]


def test_parts_of_a_manager_and_frames_read_the_same_metadata() -> None:
    manager = ValorDetectionManager(**COUNTS)
    for truth, found in zip(*sides()):
        manager.add_data([truth], [found])
    assert list(manager.evaluate().by("metadata.weather")) == ["rain"]
    box = {"xmin": [0, 0], "ymin": [0, 0], "xmax": [9, 9], "ymax": [9, 9], "datum_uid": ["a", "b"]}
    truths = {**box, "label_key": ["k", None], "label_value": ["cat", None], "datum_metadata.weather": ["rain"] * 2}
    rows = {**box, "label_key": ["k", "k"], "label_value": ["cat", "cat"], "score": [0.9, 0.8]}
    slices = evaluate_detection(truths, rows, **COUNTS).by("metadata.weather")  # type: ignore[arg-type]
    assert {name: part["metrics"][0]["value"] for name, part in slices.items()} == {"rain": {"tp": 1, "fp": 1, "fn": 0}}


def test_numbers_that_no_float_holds_are_rejected() -> None:
    with pytest.raises(InputError, match=r"^Polygon.value must be a number of at most 1.8e308 but got a larger one$"):
        Polygon([[(0, 0), (10**400, 0), (0, 1), (0, 0)]])
    with pytest.raises(InputError, match=r"^Label.score must be a number of at most 1.8e308 but got a larger one$"):
        Label("k", "v", 10**400)


@pytest.mark.parametrize("end", [1e200, 1.5e308])
def test_boxes_whose_area_overflows_are_rejected_instead_of_never_found(end: float) -> None:
    wide = Annotation(labels=[Label("k", "v")], bounding_box=Box.from_extrema(-end, end, -end, end), is_instance=True)
    match = r"^groundtruths annotation 0 of datum 'a' must have a box of an area of at most 1.8e308 but got \[-1"
    with pytest.raises(InputError, match=match):
        evaluate_detection([GroundTruth(Datum("a"), [wide])], [Prediction(Datum("a"), [cat(0.5)])], **COUNTS)


def test_a_label_map_names_each_label_once() -> None:
    pairs = [[("k", "a"), ("k", "b")], [("k", "a"), ("k", "c")]]
    with pytest.raises(InputError, match=r"^label_map must map k: a once but maps it to k: b and k: c$"):
        read_label_map(pairs)
    assert read_label_map([pairs[0], pairs[0]]) == {Label("k", "a"): Label("k", "b")}
