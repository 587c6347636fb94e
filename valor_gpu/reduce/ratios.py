"""Ratios of counts of classes and of pairs of them, and averages over classes: float64 in and out, on any device.

A ratio is a function of :class:`Outcomes` that gives a :class:`Ratio`; a new one needs nothing else. Where these hold
NumPy arrays, so do the values; a pooled class is then a Python float. For the few numbers of a small state that takes a
tenth of the time of tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

AVERAGES = ("micro", "macro", "weighted", "none", None)
_ROUNDING = 1e-12


def where(condition: Any, value: Any, other: Any) -> Any:
    """``value`` where the condition holds, else ``other``: of tensors, arrays or single numbers."""
    if isinstance(condition, Tensor):
        return torch.where(condition, value, other)
    return np.where(condition, value, other) if isinstance(condition, np.ndarray) else value if condition else other


class Ratio(NamedTuple):
    """A numerator and a denominator, float64 of one shape: tensors, arrays or floats."""

    numerator: Any
    denominator: Any

    def value(self, zero_division: float = math.nan) -> Tensor:
        """The quotient, ``zero_division`` where the denominator is 0; of arrays an array, of floats a float.

        Example:
            >>> Ratio(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0])).value()
            tensor([0.5000,    nan])
        """
        numerator, denominator = self
        if isinstance(denominator, Tensor):
            return torch.where(denominator != 0, numerator / denominator, zero_division)
        if isinstance(denominator, float):
            return cast(Tensor, numerator / denominator if denominator != 0 else zero_division)
        quotient = np.full(denominator.shape, zero_division)
        return cast(Tensor, np.divide(numerator, denominator, out=quotient, where=denominator != 0))


class Outcomes(NamedTuple):
    """What a classifier did with each class, all float64 ``[C]`` or all ``[]``; counts or sums of weights.

    Tensors, or on the CPU NumPy arrays or floats.

    Attributes:
        tp: true positives.
        predicted: true and false positives.
        true: true positives and false negatives, the support.
        total: everything that counts for the class.
    """

    tp: Any
    predicted: Any
    true: Any
    total: Any

    @property
    def fp(self) -> Any:
        """False positives."""
        return self._rest(self.predicted, self.tp)

    @property
    def fn(self) -> Any:
        """False negatives."""
        return self._rest(self.true, self.tp)

    @property
    def negatives(self) -> Any:
        """False positives and true negatives."""
        return self._rest(self.total, self.true)

    @property
    def tn(self) -> Any:
        """True negatives."""
        return self._rest(self.negatives, self.fp)

    def _rest(self, whole: Any, part: Any) -> Any:
        """``whole - part``; sums of weights in different orders differ by rounding, which must not count as a sample.

        Counts up to 1e12 are not touched.
        """
        rest = whole - part
        return where(rest > _ROUNDING * self.total, rest, 0.0)

    def pooled(self) -> Outcomes:
        """All classes as one."""
        pooled = (counts.sum() for counts in self)
        return Outcomes(*(pooled if isinstance(self.tp, Tensor) else map(float, pooled)))


def precision(o: Outcomes) -> Ratio:
    """``tp / (tp + fp)``: the fraction of positive predictions that are correct."""
    return Ratio(o.tp, o.predicted)


def recall(o: Outcomes) -> Ratio:
    """``tp / (tp + fn)``: the fraction of true samples that were predicted."""
    return Ratio(o.tp, o.true)


def specificity(o: Outcomes) -> Ratio:
    """``tn / (tn + fp)``: the recall of the negatives."""
    return Ratio(o.tn, o.negatives)


def negative_predictive_value(o: Outcomes) -> Ratio:
    """``tn / (tn + fn)``: the fraction of negative predictions that are correct."""
    return Ratio(o.tn, o.tn + o.fn)


def f_beta(o: Outcomes, beta: float = 1.0) -> Ratio:
    """``(1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp)``: recall counts beta times as much as precision."""
    return Ratio((1 + beta**2) * o.tp, beta**2 * o.true + o.predicted)


def jaccard(o: Outcomes) -> Ratio:
    """``tp / (tp + fp + fn)``: intersection over union."""
    return Ratio(o.tp, o.tp + o.fp + o.fn)


def agreement(o: Outcomes) -> Ratio:
    """``(tp + tn) / (tp + fp + fn + tn)``: the fraction of elements that are right."""
    return Ratio(o.tp + o.tn, o.total)


def disagreement(o: Outcomes) -> Ratio:
    """``(fp + fn) / (tp + fp + fn + tn)``: the fraction of elements that are wrong."""
    return Ratio(o.fp + o.fn, o.total)


def miss_rate(o: Outcomes) -> Ratio:
    """``fn / (tp + fn)``: how much of what is true was not predicted."""
    return Ratio(o.fn, o.true)


def matthews(matrix: Tensor) -> Ratio:
    """Covariance of truth and prediction over the square root of their variances, of counts ``[C, C]``.

    With c right of s samples, t_k true and p_k predicted ones of class k: (c s - sum t_k p_k) /
    sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)). Source: Gorodkin, Computational Biology and Chemistry 28, 2004.
    """
    true, predicted = matrix.sum(1), matrix.sum(0)
    samples = true.sum()
    spread = (true * (samples - true)).sum() * (predicted * (predicted.sum() - predicted)).sum()
    return Ratio(matrix.trace() * samples - true @ predicted, spread.sqrt())


def cohen_kappa(matrix: Tensor, power: int = 0) -> Ratio:
    """1 - observed / expected disagreement, of counts ``[C, C]``; the disagreement of i and j is ``|i - j|^power``.

    Power 0: all that differ are equally far apart. Source: Cohen, Psychological Bulletin 70 (4), 1968.
    """
    true, predicted = matrix.sum(1), matrix.sum(0)
    samples = true.sum()
    if power == 0:
        observed = matrix.sum() - matrix.trace()
        expected = (true * (predicted.sum() - predicted)).sum() / samples
    else:
        index = torch.arange(len(matrix), dtype=matrix.dtype, device=matrix.device)
        distance = (index[:, None] - index).abs_().pow_(power)
        observed = (distance * matrix).sum()
        expected = true @ distance @ predicted / samples
    return Ratio(expected - observed, expected)


def normalized(matrix: Tensor, by: str | None) -> Tensor:
    """Shares of ``[..., C, C]`` among those that are ``true`` (rows), ``pred`` (columns) or ``all``; NaN is 0 / 0."""
    if by in ("none", None):
        return matrix
    dims = {"true": (-1,), "pred": (-2,), "all": (-2, -1)}[str(by)]
    return Ratio(matrix, matrix.sum(dims, keepdim=True)).value()


def mean(scores: Any, weights: Any, empty: float = math.nan) -> Tensor:
    """Weighted mean of the scores ``[C]`` that are numbers, ``[]``; ``empty`` where the weights sum to 0.

    Example:
        >>> mean(torch.tensor([0.5, 1.0, torch.nan]), torch.tensor([1.0, 3.0, 1.0]))
        tensor(0.8750)
    """
    exists = scores == scores
    weights = where(exists, weights, 0.0)
    return Ratio((weights * where(exists, scores, 0.0)).sum(), weights.sum()).value(empty)


def average_ratio(
    ratio: Callable[[Outcomes], Ratio],
    outcomes: Outcomes,
    average: str | None,
    counted: Any,
    zero_division: float = 0.0,
    empty: float | None = None,
) -> Any:
    """One number of all classes, ``[]``, or with average ``none`` (or None) one of each, ``[C]``.

    ``micro`` pools the counts; ``macro`` is the mean over the counted classes, ``weighted`` that by support.

    Args:
        ratio: one of this module.
        outcomes: of C classes.
        average: ``micro``, ``macro``, ``weighted``, ``none`` or None.
        counted: bool ``[C]``, the classes that ``macro`` takes.
        zero_division: the score of a class whose denominator is 0; NaN leaves it out of means.
        empty: the value where nothing counts; default: ``zero_division`` where no class that counts has a denominator,
            and 0 where the weights of a mean sum to 0, as in torchmetrics.
    """
    no_weight, empty = (0.0, zero_division) if empty is None else (empty, empty)
    if average == "micro":
        return ratio(outcomes.pooled()).value(empty)
    result = ratio(outcomes)
    scores = result.value(zero_division)
    if average in ("none", None):
        return scores
    taken = counted.to(scores.dtype) if isinstance(counted, Tensor) else counted.astype(np.float64)
    weights = outcomes.true if average == "weighted" else taken
    exists = ((result.denominator != 0) & (weights > 0)).any()
    weightless = where(weights.sum() > 0, empty, no_weight)
    return where(exists, mean(scores, weights), weightless)
