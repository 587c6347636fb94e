"""Results of curve metrics of ``valor_gpu.classification`` as the values of Valor's curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.compat.valor.curve_keys import curve_with_names
from valor_gpu.errors import InputError
from valor_gpu.result import Result

_COUNTS = ("tp", "fp", "fn", "tn")
_RATIOS = ("precision", "recall", "accuracy", "f1_score")
_KINDS = ("tp/all", "tn/all", "fp/misclassifications", "fn/misclassifications", "fn/no_predictions")


def threshold_curve(result: Result, labels: Sequence[str] | None = None) -> dict[str, dict[float, dict[str, Any]]]:
    """The value of Valor's PrecisionRecallCurve: ``{label: {threshold: {"tp": ..., "f1_score": ...}}}``.

    A ratio that does not exist is -1; so is an F1 score without true positives, as in Valor.

    Args:
        result: of :class:`valor_gpu.classification.ThresholdCounts`, of C classes.
        labels: C names; default: the class indices.

    Raises:
        InputError: a result of another metric, or another number of labels.

    Example:
        >>> import torch
        >>> from valor_gpu.classification import ThresholdCounts
        >>> metric = ThresholdCounts(num_classes=2, thresholds=[0.4, 0.6])
        >>> metric.update(torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1, 0]))
        >>> threshold_curve(metric.result(), ["cat", "dog"])["dog"][0.6]
        {'tp': 0, 'fp': 1, 'fn': 1, 'tn': 1, 'precision': 0.0, 'recall': 0.0, 'accuracy': 0.3333333333333333, \
'f1_score': -1}
    """
    _check(result, (*_COUNTS, *_RATIOS))
    columns = {name: _table(result, name) for name in (*_COUNTS, *_RATIOS)}
    thresholds = result.values["thresholds"].tolist()

    def point(c: int, t: int) -> dict[str, Any]:
        numbers = {name: float(column[c, t]) for name, column in columns.items()}
        counts = {name: int(number) if number.is_integer() else number for name, number in numbers.items()}
        ratios = {name: -1 if numbers[name] != numbers[name] else numbers[name] for name in _RATIOS}
        if not numbers["tp"] > 0:
            ratios["f1_score"] = -1
        return {**{name: counts[name] for name in _COUNTS}, **ratios}

    names = _names(labels, len(columns["tp"]))
    curves = {name: {key: point(c, t) for t, key in enumerate(thresholds)} for c, name in enumerate(names)}
    return curve_with_names(curves)


def detailed_curve(
    result: Result, labels: Sequence[str] | None = None, samples: Sequence[Any] | None = None
) -> dict[str, dict[float, dict[str, Any]]]:
    """The value of Valor's DetailedPrecisionRecallCurve.

    Args:
        result: of :class:`valor_gpu.classification.DetailedPrecisionRecallCurve`, of C classes and N samples.
        labels: C names; default: the class indices.
        samples: what is given as the example of each sample, N of them; default: the running index.

    Returns:
        ``{label: {threshold: {"tp" | "tn" | "fp" | "fn": {"total": n, "observations": {name: {"count": n, "examples":
        [...]}}}}}}``.

    Raises:
        InputError: a result of another metric, or another number of labels or samples.

    Example:
        >>> import torch
        >>> from valor_gpu.classification import DetailedPrecisionRecallCurve
        >>> metric = DetailedPrecisionRecallCurve(num_classes=2, thresholds=[0.4, 0.6])
        >>> metric.update(torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1, 0]))
        >>> detailed_curve(metric.result(), ["cat", "dog"], ["a.jpg", "b.jpg", "c.jpg"])["cat"][0.6]["fn"]
        {'total': 1, 'observations': {'misclassifications': {'count': 1, 'examples': ['c.jpg']}, \
'no_predictions': {'count': 0, 'examples': []}}}
    """
    _check(result, _KINDS)
    total = result.counts["samples"]
    shown = range(total) if samples is None else samples
    if len(shown) != total:
        raise InputError(f"samples must have {total} entries, one per sample, but got {len(shown)}")
    counts = {kind: result.values[kind] for kind in _KINDS}
    examples = {kind: result.values[f"{kind}/examples"] for kind in _KINDS}

    def cell(c: int, t: int) -> dict[str, Any]:
        groups: dict[str, Any] = {}
        for kind in _KINDS:
            side, name = kind.split("/")
            group = groups.setdefault(side, {"total": 0, "observations": {}})
            count = int(counts[kind][c, t])
            group["total"] += count
            rows = [row for row in examples[kind][c, t].tolist() if row >= 0]
            group["observations"][name] = {"count": count, "examples": [shown[row] for row in rows]}
        return groups

    names = _names(labels, len(counts["tp/all"]))
    thresholds = result.values["thresholds"].tolist()
    curves = {name: {key: cell(c, t) for t, key in enumerate(thresholds)} for c, name in enumerate(names)}
    return curve_with_names(curves)


def _check(result: Result, needed: Sequence[str]) -> None:
    if not {*needed, "thresholds"} <= set(result.values):
        raise InputError(f"result must have {', '.join(needed)} and thresholds but has {', '.join(result.values)}")


def _table(result: Result, name: str) -> NDArray[np.float64]:
    """``[C, T]``; results of the binary task are of one class."""
    return np.atleast_2d(np.asarray(result.values[name], np.float64))


def _names(labels: Sequence[str] | None, classes: int) -> Sequence[str]:
    """A name for each class."""
    if labels is not None and len(labels) != classes:
        raise InputError(f"labels must have {classes} names, one per class, but got {len(labels)}")
    return [str(c) for c in range(classes)] if labels is None else labels
