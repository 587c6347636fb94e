"""Numbers of a classifier from NumPy arrays on the CPU, without torch: bit for bit those of the metrics here.

Counts come from the kernels that serve the metrics, numbers from the same reducers; only what ``valor-gpu classify``
shows is computed.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.classification.curve_results import PRECISION_RECALL_AXES, ROC_AXES, curve_result
from valor_gpu.classification.reliability_plot import plot_reliability
from valor_gpu.errors import InputError
from valor_gpu.inputs.predictions import IGNORED, Predictions
from valor_gpu.ops.activation.cpu import activated
from valor_gpu.ops.labels.cpu import LabelRows, count_labels, count_pairs
from valor_gpu.ops.score_histogram.cpu import ScoreRows, auroc_and_ap, rank_curves, score_histogram
from valor_gpu.reduce import ratios
from valor_gpu.reduce.confusion_plot import plot_confusion
from valor_gpu.reduce.curve_points import (
    CurveCounts,
    ascending_precision_recall,
    counts_at_thresholds,
    distinct_points,
    exact_roc,
    last_of,
    roc_points,
)
from valor_gpu.reduce.histogram_metrics import (
    MAX_EVEN_THRESHOLDS,
    average_precision_value,
    pooled,
    reversed_last,
    roc_auc_values,
    totals,
)
from valor_gpu.reduce.ranking import AP_NEEDS, ROC_NEEDS, no_ranking
from valor_gpu.reduce.ratios import NO_KAPPA, NO_MATTHEWS, NO_SAMPLE, Outcomes, Ratio
from valor_gpu.reduce.reliability import NO_CONFIDENCE, STEPS, bin_edges, missing_values, reliability_values
from valor_gpu.result import Result, Signature, grid_choice

Numbers = NDArray[np.float64]

N_BINS = 15
"""Bins of the calibration error."""


class Choices(NamedTuple):
    """How the numbers are made.

    Attributes:
        average: ``macro``, ``micro`` or ``weighted``, over the classes; a single column of scores has none.
        thresholds: how many evenly spaced ones ROC AUC, average precision and curves are read at; None is exact.
    """

    average: str
    thresholds: int | None


def results_of(predictions: Predictions, choices: Choices, pictures: Collection[str]) -> dict[str, Result]:
    """The result of each metric by its name, those that have a picture with all that it shows.

    Args:
        predictions: classes or scores; these are logits if one that counts lies outside [0, 1].
        choices: how the numbers are made.
        pictures: which of ``roc`` and ``pr`` are wanted.

    Raises:
        InputError: a weight is above 1e60, or there are more thresholds than 2^24.
    """
    if predictions.weight is not None:  # perhaps a column of a matrix
        predictions = replace(predictions, weight=np.ascontiguousarray(predictions.weight))
    probable = _probable(predictions)
    ranks = _Ranks(predictions, probable, choices)
    found = _Decisions(probable, choices.average).results()
    if predictions.scores is not None:
        found |= ranks.areas()
        found["calibration_error"] = _calibration(probable)
        found |= ranks.curves([name for name in _CURVES if name in pictures])
    return found


_RATIOS: dict[str, Callable[[Outcomes], Ratio]] = {
    "precision": ratios.precision,
    "recall": ratios.recall,
    "f1": ratios.f_beta,
}
_METRICS = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "BalancedAccuracy",
    "precision": "Precision",
    "recall": "Recall",
    "f1": "F1Score",
}
_OF_MATRIX: dict[str, tuple[str, Callable[[Any], Ratio], str]] = {
    "matthews_corrcoef": ("MatthewsCorrCoef", ratios.matthews, NO_MATTHEWS),
    "cohen_kappa": ("CohenKappa", ratios.cohen_kappa, NO_KAPPA),
}


def decided_numbers(o: Outcomes, matrix: Numbers, binary: bool, average: str) -> dict[str, tuple[float, Any]]:
    """Computes the numbers of predicted and true classes.

    Args:
        o: of each class; of class 1 alone in the binary task.
        matrix: true and predicted classes.
        binary: whether there is one score per row.
        average: over the classes.

    Returns:
        Name to the number and those of each class, None where the number has none.
    """
    average = "micro" if binary else average
    counted = o.true >= 0 if binary else o.true + o.predicted > 0

    def of_ratio(ratio: Callable[[Outcomes], Ratio], average: str) -> tuple[float, Any]:
        value = ratios.average_ratio(ratio, o, average, counted, 0.0, math.nan)
        return float(value), None if binary else ratio(o).value()

    balanced = ratios.balanced(o, sides=binary)
    found = {"accuracy": of_ratio(ratios.agreement if binary else ratios.recall, "micro")}
    found["balanced_accuracy"] = float(ratios.plain_mean(balanced)), None if binary else balanced
    found |= {name: of_ratio(ratio, average) for name, ratio in _RATIOS.items()}
    return found | {name: (float(ratio(matrix).value()), None) for name, (_, ratio, _) in _OF_MATRIX.items()}


class _Decisions:
    """Metrics of predicted and true classes."""

    def __init__(self, predictions: Predictions, average: str) -> None:
        self._of, self._binary = predictions, predictions.binary
        self._average = "micro" if self._binary else average
        self._outcomes, self._matrix = self._count_scores() if self._binary else self._count_classes()

    def results(self) -> dict[str, Result]:
        numbers = decided_numbers(self._outcomes, self._matrix, self._binary, self._average)
        found = {}
        for name, (value, per_class) in numbers.items():
            if name in _OF_MATRIX:
                found[name] = _single(_OF_MATRIX[name][0], value, _OF_MATRIX[name][2])
            else:
                found[name] = self._of_counts(_METRICS[name], value, per_class)
        return {**found, "confusion_matrix": self._confusion()}

    def _of_counts(self, metric: str, value: Any, per_class: Any) -> Result:
        values: dict[str, Any] = {metric: float(value)}
        if not self._binary:
            values["per_class"] = per_class
        return Result(values, Signature({"metric": metric}), {}, dict.fromkeys(missing_values(values), NO_SAMPLE))

    def _confusion(self) -> Result:
        task = _task(self._of)
        activation = task.pop("activation")
        kind = {"activation": activation, "threshold": 0.5} if self._binary else {}
        choices = {"metric": "ConfusionMatrix", **task, **kind, "max_examples": 0, "normalize": None}
        values = {"confusion_matrix": self._matrix}
        return Result(values, Signature(choices), _counts(self._of), plotter=plot_confusion)

    def _count_classes(self) -> tuple[Outcomes, Numbers]:
        of = self._of
        predicted = of.labels if of.scores is None else of.scores.argmax(1)
        rows = LabelRows(np.ascontiguousarray(predicted), of.target, len(of.names), IGNORED, of.weight)
        counts = count_labels(rows).astype(np.float64)
        total = np.full(len(of.names), counts[2].sum())
        return Outcomes(counts[0], counts[1], counts[2], total), count_pairs(rows).astype(np.float64)

    def _count_scores(self) -> tuple[Outcomes, Numbers]:
        above = np.nextafter(np.array([0.5]), 1.0)
        positives, every = score_histogram(_score_rows(self._of), above).astype(np.float64)
        o = Outcomes(positives[:, 1], every[:, 1], positives.sum(1), every.sum(1))
        return o, np.stack((o.tn, o.fp, o.fn, o.tp), 1).reshape(2, 2)


class _Ranks:
    """Metrics of scores that are ranked, or counted between thresholds."""

    def __init__(self, predictions: Predictions, probable: Predictions, choices: Choices) -> None:
        self._of, self._choices = probable, choices
        # a sigmoid keeps the order of scores, but makes ties of those far from 0
        self._ranked = predictions if predictions.binary else probable
        self._micro = choices.average == "micro"
        if choices.thresholds is not None and choices.thresholds > MAX_EVEN_THRESHOLDS:
            need = "an int of at least 2 (and at most 2^24), or ascending numbers,"
            raise InputError(f"thresholds must be {need} but got {choices.thresholds}")

    def areas(self) -> dict[str, Result]:
        """ROC AUC and average precision."""
        if self._choices.thresholds is None:
            rows = _score_rows(self._ranked)
            values, sums = auroc_and_ap(_pooled_rows(rows) if self._micro else rows)
            positives = sums[0].astype(np.float64)
        else:
            counts = pooled(self._histogram) if self._micro else self._histogram
            values = np.stack((roc_auc_values(counts)[0], average_precision_value(counts)))
            positives = totals(counts)[0]
        return {
            "roc_auc": self._area("ROCAUC", values[0], positives, ROC_NEEDS),
            "average_precision": self._area("AveragePrecision", values[1], positives, AP_NEEDS),
        }

    def _area(self, metric: str, values: Any, positives: Any, needs: str) -> Result:
        if len(values) == 1:
            found: dict[str, Any] = {metric: float(values[0])}
        else:
            weighted = self._choices.average == "weighted"
            average = ratios.mean(values, positives) if weighted else ratios.plain_mean(values)
            found = {metric: float(average), "per_class": values}
        reason = no_ranking(needs, len(values) == 1)
        return Result(found, Signature({"metric": metric}), {}, dict.fromkeys(missing_values(found), reason))

    @cached_property
    def _grid(self) -> Numbers:
        return np.linspace(0.0, 1.0, self._choices.thresholds or 0)

    @cached_property
    def _histogram(self) -> Numbers:
        return score_histogram(_score_rows(self._of), self._grid).astype(np.float64)

    def curves(self, names: Collection[str]) -> dict[str, Result]:
        """The curves ``roc`` and ``pr`` of each class, those of ``names``, from one ranking of the scores."""
        exact = self._choices.thresholds is None
        found: dict[str, list[list[Numbers]]] = {name: [] for name in names}
        for thresholds, counts in self._counts_by_class() if found else ():
            for name, curves in found.items():
                points = _CURVES[name].points(thresholds, counts, exact)
                curves.append([part.astype(np.float64) for part in points])
        return {name: self._curve(_CURVES[name], points) for name, points in found.items()}

    def _curve(self, kind: _Curve, points: list[list[Numbers]]) -> Result:
        thresholds = self._grid.tolist()
        choices = {"bins": None, "score_dtype": "float64", "hardmax": False}
        chosen = {"thresholds": grid_choice(thresholds) if thresholds else None, **choices}
        signature = Signature({"metric": kind.metric, **_task(self._of), **chosen, "average": "none"})
        return curve_result(kind.axes, points, self._of.binary, signature, _counts(self._of))

    def _counts_by_class(self) -> Iterator[tuple[Any, CurveCounts]]:
        if self._choices.thresholds is None:
            logits = self._ranked is not self._of
            for scores, tp, fp in rank_curves(_score_rows(self._ranked)):
                if logits:
                    scores, tp, fp = distinct_points(activated(scores[:, None], "sigmoid")[:, 0], tp, fp)
                yield scores, CurveCounts(tp, fp, last_of(tp), last_of(fp))
            return
        for parts in zip(*counts_at_thresholds(self._histogram)):
            yield reversed_last(self._grid), CurveCounts(*parts)


def _roc(thresholds: Any, counts: CurveCounts, exact: bool) -> tuple[Any, Any, Any]:
    return exact_roc(thresholds, counts) if exact else (*roc_points(*counts), thresholds)


def _precision_recall(thresholds: Any, counts: CurveCounts, exact: bool) -> tuple[Any, Any, Any]:
    return *ascending_precision_recall(counts), reversed_last(thresholds)


class _Curve(NamedTuple):
    """How a curve is made and drawn."""

    metric: str
    axes: tuple[str, str]
    points: Callable[[Any, CurveCounts, bool], tuple[Any, Any, Any]]


_CURVES = {
    "roc": _Curve("ROC", ROC_AXES, _roc),
    "pr": _Curve("PrecisionRecallCurve", PRECISION_RECALL_AXES, _precision_recall),
}


def _calibration(of: Predictions) -> Result:
    """The calibration error, and the bins that its picture shows."""
    scores = np.asarray(of.scores)
    if of.binary:
        confidence, correct = scores, of.target == 1
    else:
        confidence, correct = scores.max(1).astype(np.float32), scores.argmax(1) == of.target
    cells = np.searchsorted(bin_edges(N_BINS, confidence.dtype), confidence, side="right") - 1
    cells[of.target == IGNORED] = IGNORED
    rounded = np.rint(confidence.astype(np.float64) * STEPS) / STEPS
    weight = np.ones(len(scores)) if of.weight is None else of.weight
    count, sure, right = (
        count_labels(LabelRows(cells, cells, N_BINS + 1, IGNORED, weight * of_each))[2]
        for of_each in (np.ones(len(scores)), rounded, correct.astype(np.float64))
    )
    values = reliability_values(count, sure, right, "l1")
    signature = Signature({"metric": "CalibrationError", **_task(of), "n_bins": N_BINS, "norm": "l1"})
    reasons = dict.fromkeys(missing_values(values), NO_CONFIDENCE)
    return Result(values, signature, _counts(of), reasons, plot_reliability)


def decided_classes(of: Predictions) -> NDArray[np.int64]:
    """Returns the predicted classes ``[N]`` of rows of scores."""
    scores = np.asarray(_probable(of).scores)
    return (scores > 0.5).astype(np.int64) if of.binary else scores.argmax(1)


class Areas:
    """ROC AUC and average precision of some of the rows of a file.

    Args:
        choices: how they are made.
        of: all rows, which decide whether scores are logits.
    """

    def __init__(self, choices: Choices, of: Predictions) -> None:
        self._choices, self._logits = choices, _are_logits(of)

    @property
    def exact(self) -> bool:
        """Whether scores are compared themselves, not by thresholds."""
        return self._choices.thresholds is None

    def __call__(self, rows: Predictions) -> dict[str, Result]:
        """Returns the results of rows."""
        return _Ranks(rows, _probable(rows, self._logits), self._choices).areas()

    def ranked(self, rows: Predictions) -> Predictions:
        """Returns rows with mid-ranks within class for scores, as fractions; rows of several models have one scale."""
        from valor_gpu.stats.ranks import mid_ranks

        scores = np.asarray((rows if rows.binary else _probable(rows, self._logits)).scores)
        if rows.binary or self._choices.average == "micro":
            return replace(rows, scores=mid_ranks(scores).reshape(scores.shape))
        return replace(rows, scores=np.stack([mid_ranks(column) for column in scores.T], 1))

    def of_ranks(self) -> Areas:
        """Returns what computes the results of rows of :meth:`ranked`, which are no logits."""
        found = copy.copy(self)
        found._logits = False
        return found


def _are_logits(of: Predictions) -> bool:
    """Whether a score that counts lies outside [0, 1]."""
    if of.scores is None:
        return False
    counted = of.scores[of.target != IGNORED]
    return counted.size > 0 and not (counted.min() >= 0 and counted.max() <= 1)


def _probable(of: Predictions, logits: bool | None = None) -> Predictions:
    """The predictions with probabilities for scores: of logits their softmax, of a single column their sigmoid."""
    if not (_are_logits(of) if logits is None else logits):
        return of
    assert of.scores is not None
    how = "sigmoid" if of.binary else "softmax"
    return replace(of, scores=activated(of.scores.reshape(len(of.target), -1), how).reshape(of.scores.shape))


def _score_rows(of: Predictions) -> ScoreRows:
    """Rows of scores as kernels take them; a single column has one class."""
    scores, target = np.ascontiguousarray(of.scores), of.target
    if of.binary:
        scores, target = scores[:, None], target[:, None]
    return ScoreRows(scores, target, IGNORED, of.weight)


def _pooled_rows(rows: ScoreRows) -> ScoreRows:
    """Every element as a sample of one class."""
    target, classes = rows.target, rows.scores.shape[1]
    if target.ndim == 1:
        hot = (target[:, None] == np.arange(classes)).astype(np.int64)
        target = np.where((target == IGNORED)[:, None], IGNORED, hot)
    weight = None if rows.weight is None else rows.weight.repeat(classes)
    return ScoreRows(rows.scores.reshape(-1, 1), target.reshape(-1, 1), IGNORED, weight)


def _single(metric: str, value: float, reason: str) -> Result:
    values = {metric: value}
    return Result(values, Signature({"metric": metric}), {}, dict.fromkeys(missing_values(values), reason))


def _task(of: Predictions) -> dict[str, Any]:
    """What signatures say of the task."""
    kind, classes = ("binary", 1) if of.binary else ("multiclass", len(of.names))
    return {"task": kind, "classes": classes, "ignore_index": IGNORED, "activation": "auto"}


def _counts(of: Predictions) -> dict[str, int]:
    return {"samples": len(of.target), "ignored": int((of.target == IGNORED).sum())}
