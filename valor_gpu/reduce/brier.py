"""The parts of a Brier score, from sums over bins of probability. Imports no torch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Sums = NDArray[np.float64]


def brier_parts(score: float, count: Sums, probability: Sums, true: Sums) -> dict[str, float]:
    """Computes the parts of a Brier score, whose sum is the score, and its skill.

    It is ``reliability - resolution + uncertainty + within_bins``: of each class, with o_k the fraction of samples of
    bin k that are of the class, p_k their mean probability and o the fraction of all, reliability is the mean of
    ``(p_k - o_k)^2``, resolution of ``(o_k - o)^2``, and uncertainty is ``o (1 - o)``; all are summed over the classes.
    What lies within bins is 0 where the probabilities of a bin are equal.

    Source: Murphy, A new vector partition of the probability score (1973); Stephenson, Coelho and Jolliffe, Two extra
    components in the Brier score decomposition (2008).

    Args:
        score: the score.
        count: ``[C, B]`` samples, or the sum of their weights, of each class and bin.
        probability: ``[C, B]`` sums of probabilities.
        true: ``[C, B]`` samples that are of the class.

    Example:
        >>> parts = brier_parts(0.125, np.array([[2.0, 2.0]]), np.array([[0.5, 1.5]]), np.array([[0.0, 2.0]]))
        >>> parts["reliability"], parts["resolution"], parts["uncertainty"], parts["within_bins"], parts["skill"]
        (0.0625, 0.25, 0.25, 0.0625, 0.5)
    """
    names = ("reliability", "resolution", "uncertainty", "within_bins", "skill")
    samples = count[:1].sum()
    if not samples > 0:
        return dict.fromkeys(names, math.nan)
    held = np.where(count > 0, count, 1.0)
    rate, mean = true / held, probability / held
    every = true.sum(1, keepdims=True) / samples
    reliability = float((count * (mean - rate) ** 2).sum() / samples)
    resolution = float((count * (rate - every) ** 2).sum() / samples)
    uncertainty = uncertainty_of(every[:, 0])
    within = score - (reliability - resolution + uncertainty)
    skill = 1 - score / uncertainty if uncertainty > 0 else math.nan
    return dict(zip(names, (reliability, resolution, uncertainty, within, skill)))


def uncertainty_of(rates: Sums) -> float:
    """The Brier score of who gives every sample the fractions of the classes.

    Args:
        rates: ``[C]`` fractions of the classes; ``[1]`` of class 1 in the binary task.

    Example:
        >>> uncertainty_of(np.array([0.5])), uncertainty_of(np.array([0.5, 0.5]))
        (0.25, 0.5)
    """
    return float((rates * (1 - rates)).sum())
