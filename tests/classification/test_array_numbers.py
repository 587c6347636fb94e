"""Numbers of a classifier from arrays are those of the metrics, bit for bit, with every option, and load no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from valor_gpu import native
from valor_gpu.classification.array_numbers import Choices, results_of
from valor_gpu.errors import InputError
from valor_gpu.inputs.predictions import IGNORED, Predictions
from valor_gpu.report.classify import PICTURES, evaluate, results_by_torch
from valor_gpu.result import Result

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu"))

SHOWN = {"roc", "pr", "confusion_matrix", "calibration_error"}  # results that are drawn or saved as a whole


def predictions(kind: str, rows: int, classes: int = 4, weighted: bool = False, seed: int = 0) -> Predictions:
    """Rows with ignored targets, ties, scores of 0 and 1, and a class that is never true."""
    random = np.random.default_rng(seed)
    names = tuple(f"c{c}" for c in range(2 if kind == "binary" else classes))
    target = random.integers(0, max(2, len(names) - 1), rows)
    target[random.random(rows) < 0.1] = IGNORED
    weight = random.random(rows) * 3 if weighted else None
    if kind == "classes":
        labels = np.where(random.random(rows) < 0.6, np.maximum(target, 0), random.integers(0, len(names), rows))
        return Predictions(names, target, labels=labels, weight=weight)
    scores = random.random(rows if kind == "binary" else (rows, classes))
    scores[: rows // 2] = np.round(scores[: rows // 2] * 5) / 5  # on the edges of bins, and ties
    return Predictions(names, target, scores, weight=weight)


def same(found: Any, expected: Any) -> bool:
    """Whether two values are equal to the last bit, NaN to NaN."""
    if isinstance(expected, dict) or hasattr(expected, "items"):
        return list(found) == list(expected) and all(same(found[key], expected[key]) for key in expected)
    left, right = np.asarray(found), np.asarray(expected)
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def check_same(found: Result, expected: Result, whole: bool) -> None:
    """All that a result shows, or the number, its classes and the reasons for what is missing."""
    names = list(expected.values) if whole else [expected.signature["metric"], "per_class"]
    for name in [name for name in names if name in expected.values and (whole or name in found.values)]:
        assert same(found.values[name], expected.values[name]), name
        assert found.reason(name) == expected.reason(name), name
    if whole:
        assert list(found.values) == names and str(found.signature) == str(expected.signature)
        assert found.counts == expected.counts and found.plotter is expected.plotter


@pytest.mark.parametrize(
    ("average", "thresholds"), [("macro", None), ("micro", None), ("weighted", None), ("micro", 11), ("weighted", 11)]
)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["binary", "multiclass", "classes"])
def test_every_result_has_the_bits_of_the_metrics(
    kind: str, weighted: bool, average: str, thresholds: int | None
) -> None:
    for rows in (3, 90):
        data = predictions(kind, rows, weighted=weighted, seed=rows)
        found = results_of(data, Choices(average, thresholds), PICTURES)
        expected = results_by_torch(data, average, thresholds, "cpu", PICTURES)
        assert set(found) == set(expected)
        for name, result in expected.items():
            check_same(found[name], result, name in SHOWN)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("rows", "classes"), [(50, 300), (5000, 12)])
def test_many_classes_and_rows(rows: int, classes: int, weighted: bool) -> None:
    data = predictions("multiclass", rows, classes, weighted)
    found, expected = (run(data) for run in (by_arrays, by_metrics))
    for name, result in expected.items():
        check_same(found[name], result, name in SHOWN)


def test_columns_of_matrices() -> None:
    data = predictions("binary", 30, weighted=True)
    apart = [np.stack((np.asarray(part), np.zeros(30)), 1)[:, 0] for part in (data.scores, data.weight)]
    strided = by_arrays(replace(data, scores=apart[0], weight=apart[1]))
    for name, result in by_arrays(data).items():
        check_same(strided[name], result, whole=True)


def by_arrays(data: Predictions) -> dict[str, Result]:
    return results_of(data, Choices("weighted", None), ())


def by_metrics(data: Predictions) -> dict[str, Result]:
    return results_by_torch(data, "weighted", None, "cpu", ())


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_data_of_one_class_and_ignored_rows_alone(kind: str) -> None:
    data = predictions(kind, 6)
    for target in (np.zeros(6, np.int64), np.full(6, IGNORED)):
        one = Predictions(data.names, target, data.scores)
        found, expected = evaluate(one, "macro", None, "cpu").result, by_metrics(one)
        assert found.reason("roc_auc") == expected["roc_auc"].reason("ROCAUC")
        assert same(found.values["calibration_error"], expected["calibration_error"].values["CalibrationError"])
        assert same(found.values["cohen_kappa"], expected["cohen_kappa"].values["CohenKappa"])
        assert found.reason("cohen_kappa") == expected["cohen_kappa"].reason("CohenKappa")


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
@pytest.mark.parametrize(("average", "thresholds"), [("macro", None), ("micro", None), ("weighted", 11)])
def test_logits(kind: str, average: str, thresholds: int | None) -> None:
    data = predictions(kind, 120, weighted=average == "weighted")
    for logits in (np.array(data.scores) * 9 - 5, np.array(data.scores) * 2000 - 900):  # saturated ones too
        given = replace(data, scores=logits)
        found = results_of(given, Choices(average, thresholds), PICTURES)
        for name, result in results_by_torch(given, average, thresholds, "cpu", PICTURES).items():
            check_same(found[name], result, name in SHOWN)


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_ignored_rows_make_no_logits(kind: str) -> None:
    data = predictions(kind, 40)
    scores = np.array(data.scores)
    scores[data.target == IGNORED] = -3.0
    given = replace(data, scores=scores)
    found = by_arrays(given)
    assert same(found["calibration_error"].values, by_arrays(data)["calibration_error"].values)
    for name, result in by_metrics(given).items():
        check_same(found[name], result, name in SHOWN)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "classes"])
def test_bad_values_are_the_errors_of_the_metrics(kind: str) -> None:
    data = predictions(kind, 9, weighted=True)
    weight = np.array(data.weight)
    weight[5] = 2e60
    data.target[5] = 0
    heavy = Predictions(data.names, data.target, data.scores, data.labels, weight)
    for run in (by_arrays, by_metrics):
        with pytest.raises(InputError, match=r"sample_weight\[5\] must be from 0 to 1e60"):
            run(heavy)
    if kind != "classes":
        with pytest.raises(InputError, match=r"at most 2\^24\), or ascending numbers, but got 16777217"):
            results_of(data, Choices("macro", 2**24 + 1), ())
