"""Slices of a detection: every one equals a fresh evaluation of the data that a filter keeps."""

from __future__ import annotations

import copy
import itertools
import pickle
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.valor import (
    Annotation,
    Box,
    Datum,
    GroundTruth,
    Label,
    Prediction,
    evaluate_detection,
)
from valor_gpu.valor.detection import slice_numbers
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.filters import (
    And,
    Expression,
    Filter,
    annotation_box,
    annotation_metadata,
    datum_metadata,
    label_value,
    score,
)

WEATHER = ("rain", "sun", None, 3, True, "missing")
FAST = ["AP", "AR", "mAP", "mAR", "APAveragedOverIOUs", "mAPAveragedOverIOUs", "Counts", "Precision", "Recall", "F1"]
ALL = [*FAST, "PrecisionRecallCurve", "DetailedPrecisionRecallCurve", "ConfusionMatrix", "Examples"]


def _annotations(generator: np.random.Generator, scored: bool) -> list[Annotation]:
    found = []
    for _ in range(int(generator.integers(0, 6))):
        x, y = generator.integers(0, 8, 2).tolist()
        width, height = generator.integers(2, 7, 2).tolist()
        label = Label("kl"[int(generator.integers(0, 5)) // 4], "xyz"[int(generator.integers(0, 3))])
        if scored:
            label.score = float(generator.integers(0, 6)) / 5
        metadata = {"pose": "ab"[int(generator.integers(0, 2))]} if generator.random() < 0.8 else None
        box = Box.from_extrema(x, x + width, y, y + height)
        found.append(Annotation(labels=[label], bounding_box=box, is_instance=True, metadata=metadata))
    return found


def _sides(seed: int, datums: int = 40) -> tuple[list[GroundTruth], list[Prediction]]:
    generator = np.random.default_rng(seed)
    truths, predictions = [], []
    for number in range(datums):
        weather = WEATHER[int(generator.integers(len(WEATHER)))]
        metadata = {"day": {"type": "date", "value": f"2024-05-0{1 + number % 4}"}, "hour": int(generator.integers(24))}
        datum = Datum(f"{number}", metadata=metadata if weather == "missing" else {**metadata, "weather": weather})
        truths.append(GroundTruth(datum, _annotations(generator, scored=False)))
        predictions.append(Prediction(datum, _annotations(generator, scored=True)))
    return truths, predictions


def _joined(*expressions: Expression | None) -> Expression | None:
    """All of those that are there."""
    given = [expression for expression in expressions if expression is not None]
    return And(*given) if given else None


def _equal(shown: dict[str, Any], fresh: Any) -> None:
    assert shown["metrics"] == fresh.metrics
    assert (shown["confusion_matrices"] or None) == (fresh.confusion_matrices or None)
    assert shown["ignored_pred_labels"] == fresh.ignored_pred_labels
    assert shown["missing_pred_labels"] == fresh.missing_pred_labels
    assert shown["reasons"] == {name: why for name, why in fresh.meta["reasons"].items() if name != "filters"}


@pytest.mark.parametrize("compat", [None, "valor-api", "valor-core", "valor-lite", "coco"])
@pytest.mark.parametrize("also", [Filter(), Filter(datum_metadata["hour"] < 12, label_value != "z", score >= 0.3)])
def test_slices_of_datums(compat: str | None, also: Filter) -> None:
    sides = _sides(3, datums=30)
    choices: dict[str, Any] = {"compat": compat, "iou_thresholds_to_compute": [0.3, 0.5, 0.75]}
    whole = evaluate_detection(*sides, filters=also, **choices)
    slices = whole.by("metadata.weather")
    assert list(slices) == [True, 3, "rain", "sun", None]
    weather = datum_metadata["weather"]
    total = np.zeros(3, np.int64)
    for value, row in slices.items():
        wanted = weather.isnull() if value is None else weather == value
        if value is True:
            wanted &= ~weather.isin([3])
        fresh = evaluate_detection(*sides, filters=replace(also, datums=_joined(wanted, also.datums)), **choices)
        _equal(row, fresh)
        assert row["slice"] == value
        assert row["datums"] == fresh.meta["datums"]
        total += [row["datums"], row["groundtruths"], row["predictions"]]
    assert total[0] == whole.meta["datums"]
    assert total[1] + total[2] == whole.meta["annotations"]


@pytest.mark.parametrize("metrics", [FAST, ALL])
def test_all_metrics(metrics: list[str]) -> None:
    sides = _sides(4, datums=12)
    choices: dict[str, Any] = {
        "metrics_to_return": metrics,
        "score_thresholds": [0.2, 0.6],
        "recall_score_threshold": 0.3,
    }
    day = datum_metadata["day"]
    slices = evaluate_detection(*sides, **choices).by(day)
    assert [value.date() for value in slices] == [date(2024, 5, number) for number in (1, 2, 3, 4)]
    for value, row in slices.items():
        _equal(row, evaluate_detection(*sides, filters=Filter(day == value), **choices))


def test_blocks_of_slices_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluation = evaluate_detection(*_sides(5, datums=20), metrics_to_return=FAST)
    expected = list(evaluation.by("datum.uid").rows())
    rows = list(evaluation.by("annotation.metadata.pose").rows())
    monkeypatch.setattr(slice_numbers, "_CELLS", 200)
    assert list(evaluation.by("datum.uid").rows()) == expected
    assert list(evaluation.by("annotation.metadata.pose").rows()) == rows


def test_bins_of_numbers() -> None:
    sides = _sides(6, datums=20)
    slices = evaluate_detection(*sides).by("metadata.hour", edges=[6, 12, 18])
    hour = datum_metadata["hour"]
    assert list(slices) == [(None, 6), (6, 12), (12, 18), (18, None)]
    for (low, high), row in slices.items():
        kept = _joined(None if low is None else hour >= low, None if high is None else hour < high)
        _equal(row, evaluate_detection(*sides, filters=Filter(kept)))
    assert list(evaluate_detection(*sides).by(datum_metadata["day"], edges=[date(2024, 5, 3)])) == [
        (None, _utc(3)), (_utc(3), None)
    ]  # fmt: skip


def _utc(day: int) -> Any:
    return datetime(2024, 5, day, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("metrics", "side", "also"),
    [
        (FAST, "both", Filter()),
        (FAST, "groundtruths", Filter(datum_metadata["hour"] < 15, predictions=score >= 0.3)),
        (FAST, "predictions", Filter(datum_metadata["hour"] < 15, predictions=score >= 0.3)),
        (["mAP", "ConfusionMatrix", "Examples"], None, Filter(datum_metadata["hour"] < 15, predictions=score >= 0.3)),
        (["mAP", "ConfusionMatrix", "Examples"], "predictions", Filter()),
    ],
)
def test_slices_of_annotations(metrics: list[str], side: str | None, also: Filter) -> None:
    sides = _sides(7, datums=12)
    evaluation = evaluate_detection(*sides, metrics_to_return=metrics, filters=also)
    pose, area = annotation_metadata["pose"], annotation_box.area
    for slices, conditions in (
        (evaluation.by("annotation.metadata.pose", side=side),
         {"a": pose == "a", "b": pose == "b", None: pose.isnull()}),
        (evaluation.by(label_value, side=side), {value: label_value == value for value in "xyz"}),
        (evaluation.by("annotation.bounding_box.area", [9, 16], side),
         {(None, 9): area < 9, (9, 16): (area >= 9) & (area < 16), (16, None): area >= 16}),
    ):  # fmt: skip
        assert list(slices) == list(conditions)
        for value, condition in conditions.items():
            truths = condition if side != "predictions" else None
            rows = _joined(None if side == "groundtruths" else condition, also.predictions)
            fresh = evaluate_detection(*sides, metrics_to_return=metrics, filters=Filter(also.datums, truths, rows))
            _equal(slices[value], fresh)
            counts = slices[value]["groundtruths"] + slices[value]["predictions"]
            assert counts == fresh.meta["annotations"]  # each has one label here


def test_scores_slice_the_predictions() -> None:
    sides = _sides(8, datums=15)
    slices = evaluate_detection(*sides).by("score", edges=[0.3, 0.7])
    for (low, high), row in slices.items():
        kept = (score >= (low or 0)) & (score < (high or 2))
        _equal(row, evaluate_detection(*sides, filters=Filter(predictions=kept)))
    assert len({row["groundtruths"] for row in slices.rows()}) == 1


def test_random_slices() -> None:
    """Many datasets and slices of each datum alone, against the datum's own evaluation."""
    for seed in range(20, 24):
        sides = _sides(seed, datums=8)
        slices = evaluate_detection(*sides, metrics_to_return=FAST).by("datum.uid")
        for truth, prediction in zip(*sides):
            if not truth.annotations and not prediction.annotations:
                assert truth.datum.uid not in slices
                continue
            fresh = evaluate_detection([truth], [prediction], metrics_to_return=FAST)
            shown = slices[truth.datum.uid]
            assert sorted(map(str, shown["metrics"])) == sorted(map(str, fresh.metrics))
            assert (shown["groundtruths"], shown["predictions"]) == (
                len(truth.annotations),
                len(prediction.annotations),
            )


def test_slices_are_a_mapping() -> None:
    slices = evaluate_detection(*_sides(3)).by("metadata.weather")
    assert len(slices) == 5
    assert repr(slices) == "DetectionSlices([True, 3, 'rain', 'sun', None])"
    assert "rain" in slices
    assert 1 not in slices  # True is another value
    assert [] not in slices
    with pytest.raises(KeyError, match="snow"):
        slices["snow"]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (("metadata.wether",), r"datum\.metadata 'wether' must be a key that some datum has .*; there is 'weather'"),
        (("annotation.metadata.pse",), r"annotation\.metadata 'pse' must be a key .*; there is 'pose'"),
        (("label.vlaue",), r"field must be one of .* but got 'label\.vlaue'; did you mean 'label\.value'"),
        (
            ("annotation.geometry",),
            "field must be one of .* but got 'annotation.geometry'; did you mean 'ann",
        ),
        (("metadata.hour", [3, 1]), r"edges must be one or more numbers or moments that ascend but got \[3, 1\]"),
        (("metadata.hour", []), r"edges must be one or more numbers or moments that ascend but got \[\]"),
        (("metadata.hour", [3, "a"]), r"edges must be .* that ascend but got \[3, 'a'\]"),
        (("metadata.weather", [3]), r"datum\.metadata weather must compare with edges \(3,\) but holds '(rain|sun)'"),
        (("metadata.hour", None, "both"), "side must be None with a field of datums, .* but got 'both'"),
        (("score", None, "both"), "side must be 'predictions' with score, .* but got 'both'"),
        (("label.value", None, "all"), "side must be one of None, 'both', .* but got 'all'"),
        ((3,), "field must be Field or str but got int"),
    ],
)
def test_what_cannot_be_sliced(choices: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate_detection(*_sides(3)).by(*choices)


def test_lists_are_no_names_of_slices() -> None:
    truths, predictions = _sides(3, datums=3)
    for side in itertools.chain(truths, predictions):
        assert side.datum.metadata is not None
        side.datum.metadata["tags"] = ["a"]
    with pytest.raises(InputError, match=r"datum\.metadata tags must hold numbers, .* to slice by but holds \['a'\]"):
        evaluate_detection(truths, predictions).by("metadata.tags")


def test_copies_hold_no_data() -> None:
    evaluation = evaluate_detection(*_sides(3, datums=3), metrics_to_return=[MetricType.mAP])
    for other in (copy.copy(evaluation), pickle.loads(pickle.dumps(evaluation))):
        assert other == evaluation
        with pytest.raises(InputError, match="by needs the data of the evaluation, which a copied or loaded one"):
            other.by("metadata.weather")
