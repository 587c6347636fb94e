"""Ratios of counts of classes and of pairs of them, and averages over classes: float64 in and out, on any device.

A ratio is a function of :class:`Outcomes` that gives a :class:`Ratio`; a new one needs nothing else. Where these hold
NumPy arrays, so do the values; a pooled class is then a Python float. For the few numbers of a small state that takes a
tenth of the time of tensors, and no torch is imported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

AVERAGES = ("micro", "macro", "weighted", "none", None)
NO_SAMPLE = "its denominator is 0, since no sample counts for it"
"""Why a ratio does not exist."""

NO_MATTHEWS = "fewer than two classes are true, or predicted"
NO_KAPPA = "chance alone agrees on every sample"

_ROUNDING = 1e-12
_NUMBERS = (float, int, np.generic)  # a bool is an int


def where(condition: Any, value: Any, other: Any) -> Any:
    """``value`` where the condition holds, else ``other``: of tensors, arrays or single numbers."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, value, other)
    if isinstance(condition, _NUMBERS):
        return value if condition else other
    import torch

    return torch.where(condition, value, other)


def root(value: Any) -> Any:
    """The square root of a tensor, an array or a single number."""
    return np.sqrt(value) if isinstance(value, (np.ndarray, *_NUMBERS)) else value.sqrt()


def quotient(values: Tensor, number: float) -> Tensor:
    """Returns ``values / number``, rounded once on every device.

    On CUDA torch multiplies by the reciprocal of a Python number, which rounds twice.

    Args:
        values: floating point, any shape.
        number: the divisor.

    Example:
        >>> import torch
        >>> quotient(torch.tensor([3.0], dtype=torch.float64), 10).item()
        0.3
    """
    return values / values.new_full((), number)


class Ratio(NamedTuple):
    """A numerator and a denominator, float64 of one shape: tensors, arrays or floats."""

    numerator: Any
    denominator: Any

    def value(self, zero_division: float = math.nan) -> Tensor:
        """The quotient, ``zero_division`` where the denominator is 0; of arrays an array, of floats a float.

        Example:
            >>> import torch
            >>> Ratio(torch.tensor([1.0, 0.0]), torch.tensor([2.0, 0.0])).value()
            tensor([0.5000,    nan])
        """
        numerator, denominator = self
        if isinstance(denominator, float):
            return cast("Tensor", numerator / denominator if denominator != 0 else zero_division)
        if isinstance(denominator, np.ndarray):
            quotient = np.full(denominator.shape, zero_division)
            return cast("Tensor", np.divide(numerator, denominator, out=quotient, where=denominator != 0))
        import torch

        return torch.where(denominator != 0, numerator / denominator, zero_division)


class Outcomes(NamedTuple):
    """What a classifier did with each class, all float64 ``[C]`` or all ``[]``; counts or sums of weights.

    Several rows ``[..., C]`` are reduced each on its own.

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
        pooled = (counts.sum(-1) for counts in self)
        return Outcomes(*(map(float, pooled) if isinstance(self.tp, np.ndarray) and self.tp.ndim == 1 else pooled))


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
    tn = o.tn
    return Ratio(tn, tn + o.fn)


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


def balanced(o: Outcomes, sides: bool) -> Any:
    """Recall of each class; with ``sides`` the mean of recall and specificity of each, of those that exist."""
    positive = recall(o).value()
    if not sides:
        return positive
    negative = specificity(o).value()
    mean_of_both = where(negative == negative, (positive + negative) / 2, positive)
    return where(positive == positive, mean_of_both, negative)


def matthews(matrix: Any) -> Ratio:
    """Covariance of truth and prediction over the square root of their variances, of counts ``[C, C]``.

    With c right of s samples, t_k true and p_k predicted ones of class k: (c s - sum t_k p_k) /
    sqrt((s^2 - sum p_k^2) (s^2 - sum t_k^2)). Source: Gorodkin, Computational Biology and Chemistry 28, 2004.
    """
    true, predicted = matrix.sum(1), matrix.sum(0)
    samples = true.sum()
    spread = (true * (samples - true)).sum() * (predicted * (predicted.sum() - predicted)).sum()
    return Ratio(matrix.trace() * samples - (true * predicted).sum(), root(spread))


def cohen_kappa(matrix: Any, power: int = 0) -> Ratio:
    """1 - observed / expected disagreement, of counts ``[C, C]``; the disagreement of i and j is ``|i - j|^power``.

    Power 0: all that differ are equally far apart. Source: Cohen, Psychological Bulletin 70 (4), 1968.
    """
    true, predicted = matrix.sum(1), matrix.sum(0)
    samples = true.sum()
    if power == 0:
        observed = matrix.sum() - matrix.trace()
        expected = (true * (predicted.sum() - predicted)).sum()
    else:
        distance = _distances(matrix) ** power
        observed = (distance * matrix).sum()
        expected = (distance * (true[:, None] * predicted)).sum()
    with np.errstate(invalid="ignore"):  # 0 / 0 without samples
        expected = expected / samples
    return Ratio(expected - observed, expected)


def _distances(matrix: Any) -> Any:
    """``|i - j|`` of every cell, float64."""
    if isinstance(matrix, np.ndarray):
        places = np.arange(len(matrix), dtype=np.float64)
        return abs(places[:, None] - places)
    import torch

    index = torch.arange(len(matrix), dtype=matrix.dtype, device=matrix.device)
    return (index[:, None] - index).abs()


def normalized(matrix: Tensor, by: str | None) -> Tensor:
    """Shares of ``[..., C, C]`` among those that are ``true`` (rows), ``pred`` (columns) or ``all``; NaN is 0 / 0."""
    if by in ("none", None):
        return matrix
    dims = {"true": (-1,), "pred": (-2,), "all": (-2, -1)}[str(by)]
    return Ratio(matrix, matrix.sum(dims, keepdim=True)).value()


def mean(scores: Any, weights: Any, empty: float = math.nan) -> Tensor:
    """Weighted mean of the scores ``[C]`` that are numbers, ``[]``; ``empty`` where the weights sum to 0.

    Example:
        >>> import torch
        >>> mean(torch.tensor([0.5, 1.0, torch.nan]), torch.tensor([1.0, 3.0, 1.0]))
        tensor(0.8750)
    """
    exists = scores == scores
    weights = where(exists, weights, 0.0)
    return Ratio((weights * where(exists, scores, 0.0)).sum(-1), weights.sum(-1)).value(empty)


def plain_mean(scores: Any) -> Any:
    """:func:`mean` of equal weights."""
    return mean(scores, np.ones(scores.shape) if isinstance(scores, np.ndarray) else scores.new_ones(scores.shape))


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
    taken = counted.astype(np.float64) if isinstance(counted, np.ndarray) else counted.to(scores.dtype)
    weights = outcomes.true if average == "weighted" else taken
    exists = ((result.denominator != 0) & (weights > 0)).any(-1)
    weightless = where(weights.sum(-1) > 0, empty, no_weight)
    return where(exists, mean(scores, weights), weightless)
