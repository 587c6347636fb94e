"""The point of a curve that is best for a purpose, and cost curves. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Rates(NamedTuple):
    """Rates at thresholds that descend; NaN where there is nothing to divide by.

    Attributes:
        precision: ``[T]``, tp / (tp + fp).
        recall: ``[T]``, tp / (tp + fn).
        specificity: ``[T]``, tn / (tn + fp).
    """

    precision: Floats
    recall: Floats
    specificity: Floats


def rates_of(tp: Floats, fp: Floats, positives: float, negatives: float) -> Rates:
    """The rates at thresholds, from positives and negatives at or above each, and all of them.

    Example:
        >>> rates_of(np.array([1.0, 2.0]), np.array([0.0, 2.0]), 2.0, 2.0)
        Rates(precision=array([1. , 0.5]), recall=array([0.5, 1. ]), specificity=array([1., 0.]))
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        recall, specificity = tp / np.float64(positives), (negatives - fp) / np.float64(negatives)
        return Rates(tp / (tp + fp), recall, specificity)


def objective_of(name: str, tp: Floats, fp: Floats, positives: float, negatives: float, beta: float) -> Floats:
    """What is maximised at each threshold, ``[T]``; NaN where it does not exist.

    Args:
        name: ``precision``, ``recall``, ``specificity``, ``fbeta`` or ``youden`` (recall + specificity - 1).
        tp: ``[T]`` positives at or above thresholds.
        fp: ``[T]`` negatives at or above thresholds.
        positives: all positives.
        negatives: all negatives.
        beta: weight of recall in ``fbeta``.

    Example:
        >>> objective_of("youden", np.array([1.0, 2.0]), np.array([0.0, 1.0]), 2.0, 4.0, 1.0)
        array([0.5 , 0.75])
    """
    denominator: Floats | np.float64
    if name == "youden":
        numerator, denominator = tp * negatives - fp * positives, np.float64(positives * negatives)
    elif name == "fbeta":
        numerator = (1 + beta**2) * tp
        denominator = numerator + beta**2 * (positives - tp) + fp
        denominator = denominator if positives > 0 else np.zeros_like(tp)
    else:
        found: Floats = getattr(rates_of(tp, fp, positives, negatives), name)
        return found
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.nan)


def best_point(values: Floats, recall: Floats, limited: Mapping[str, Floats], limits: Mapping[str, float]) -> int:
    """Returns the place of the largest value among the points whose rates reach their limits; -1 where none does.

    Of equal values it is that of the largest recall, then the first.

    Example:
        >>> best_point(np.array([1.0, 0.5, 0.5]), np.array([0.0, 0.5, 1.0]), {"recall": np.array([0.0, 0.5, 1.0])},
        ...            {"recall": 0.25})
        2
    """
    fits = ~np.isnan(values)
    for name, limit in limits.items():
        fits &= limited[name] >= limit
    if not fits.any():
        return -1
    kept = np.where(fits, values, -math.inf)
    best = kept == kept.max()
    return int(np.where(best, np.nan_to_num(recall), -1.0).argmax())


def cost_curve(tp: Floats, fp: Floats, positives: float, negatives: float, points: int) -> tuple[Floats, Floats]:
    """The least normalised expected cost of all thresholds, at evenly spaced probability costs from 0 to 1.

    Thresholds that are best for one probability cost lie before those for a larger one, so that each half of the rest
    is searched alone.

    Args:
        tp: ``[T]`` positives at or above thresholds that descend, the first above all scores.
        fp: ``[T]`` negatives at or above thresholds.
        positives: all positives.
        negatives: all negatives.
        points: how many, at least 2.

    Returns:
        Probability costs and costs, ``[points]``; costs are NaN without positives or without negatives.

    Example:
        >>> cost_curve(np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 2.0]), 2.0, 2.0, 5)[1].tolist()
        [0.0, 0.125, 0.25, 0.25, 0.0]
    """
    across = np.linspace(0.0, 1.0, points)
    found = np.full(points, np.nan)
    if not (positives > 0 and negatives > 0):
        return across, found
    missed, alarms = (positives - tp) / positives, fp / negatives
    todo = [(0, points - 1, 0, len(tp) - 1)]
    while todo:
        low, high, first, last = todo.pop()
        middle = (low + high) // 2
        costs = missed[first : last + 1] * across[middle] + alarms[first : last + 1] * (1 - across[middle])
        place = first + int(costs.argmin())
        found[middle] = costs[place - first]
        if low < middle:
            todo.append((low, middle - 1, first, place))
        if middle < high:
            todo.append((middle + 1, high, place, last))
    return across, found


def area_below(across: Floats, up: Floats) -> float:
    """The area below straight lines between points.

    Example:
        >>> area_below(np.array([0.0, 0.5, 1.0]), np.array([0.0, 0.5, 0.0]))
        0.25
    """
    return float((np.diff(across) * (up[1:] + up[:-1]) / 2).sum())
