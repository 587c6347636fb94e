"""Purposes of a score threshold, and the threshold of a ranking that serves one best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.analysis.rows import Floats, Ints
from valor_gpu.analysis.score_rankings import Kept
from valor_gpu.checks import check_number
from valor_gpu.errors import InputError, InputTypeError

NOTHING = -1
"""In place of a threshold: to keep no detection."""


@frozen
class Purpose:
    """A purpose of a score threshold.

    Attributes:
        name: ``beta``, ``precision``, ``recall`` or ``cost``.
        number: beta, the least precision or the least recall; of ``cost`` the cost of a false positive.
        missed: the cost of a missed ground truth.
    """

    name: str
    number: float
    missed: float = 0.0

    @classmethod
    def of(cls, beta: Any = None, precision: Any = None, recall: Any = None, cost: Any = None) -> Purpose:
        """Returns the purpose that the arguments name, the largest F1 by default.

        Raises:
            InputError: there are several, or one is out of range.
        """
        given = {"beta": beta, "precision": precision, "recall": recall, "cost": cost}
        named = {name: value for name, value in given.items() if value is not None}
        if len(named) > 1:
            raise InputError(
                f"one of beta, precision, recall and cost must be given, since each chooses a threshold of its own, but"
                f" got {' and '.join(named)}"
            )
        name, value = next(iter(named.items()), ("beta", 1))
        if name == "cost":
            return cls(name, *_costs(value))
        check_number(name, value, 0, np.inf if name == "beta" else 1)
        if not 0 < value < np.inf:
            raise InputError(f"{name} must be above 0{'' if name == 'beta' else ' and at most 1'} but got {value}")
        return cls(name, float(value))

    @property
    def beta(self) -> float:
        """Beta of the F that is reported: 1 unless it is the purpose."""
        return self.number if self.name == "beta" else 1.0

    def choices(self) -> dict[str, Any]:
        """Returns the purpose as a signature shows it."""
        return {self.name: [self.number, self.missed] if self.name == "cost" else self.number}

    def best(self, kept: Kept) -> Ints:
        """Returns the place of the threshold that serves the purpose best.

        Of thresholds that serve it alike the highest is taken, which keeps the fewest detections and has the highest
        precision; of those with the same precision, where a recall is asked for, the one of the highest recall.

        Returns:
            int64 ``[...]``; ``NOTHING`` where no threshold reaches the number, gives an F above 0, or costs less than
            to keep no detection.
        """
        positives = np.asarray(kept.positives)
        if not kept.tp.shape[-1]:
            return np.full(positives.shape, NOTHING)
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._best(kept.tp, kept.fp, positives[..., None])

    def _best(self, tp: NDArray[Any], fp: NDArray[Any], positives: NDArray[Any]) -> Ints:
        if self.name == "cost":
            costs = self.costs(tp, fp, positives)
            return np.where(costs.min(-1) < self.missed * positives[..., 0], costs.argmin(-1), NOTHING)
        if self.name == "beta":
            served, allowed = f_beta(self.number, tp, fp, positives), tp > 0
        elif self.name == "precision":
            served, allowed = tp, (tp > 0) & (tp / (tp + fp) >= self.number)
        else:
            precision = tp / (tp + fp)
            allowed = (tp > 0) & (tp / positives >= self.number)
            highest = np.where(allowed, precision, -1).max(-1, keepdims=True)
            served, allowed = tp, allowed & (precision == highest)
        return np.where(allowed.any(-1), np.where(allowed, served, -1).argmax(-1), NOTHING)

    def costs(self, tp: NDArray[Any], fp: NDArray[Any], positives: NDArray[Any]) -> Floats:
        """Returns the cost of false positives and missed ground truths."""
        found: Floats = self.number * fp + self.missed * (positives - tp)
        return found

    def numbers(self, kept: Kept, places: Ints) -> dict[str, NDArray[Any]]:
        """Returns the numbers at chosen thresholds, float64 ``[...]`` by name.

        Args:
            kept: what thresholds keep of the images that are reported.
            places: of :meth:`best`, chosen on the same images or on others.
        """
        reached = (places != NOTHING) | (self.name in ("beta", "cost"))
        positives = np.asarray(kept.positives)
        tp, fp = (np.where(places != NOTHING, at(part, places), 0) for part in (kept.tp, kept.fp))
        with np.errstate(invalid="ignore", divide="ignore"):
            found = {"precision": tp / (tp + fp), "recall": tp / positives}
            found[self.f_name] = np.where(positives > 0, f_beta(self.beta, tp, fp, positives), np.nan)
        if self.name == "cost":
            found["cost"] = self.costs(tp, fp, positives)
        return {name: np.where(reached, number, np.nan) for name, number in found.items()}

    @property
    def f_name(self) -> str:
        """Name of the F that is reported, such as ``f1``."""
        return f"f{self.beta:g}"


def f_beta(beta: float, tp: Any, fp: Any, positives: Any) -> Any:
    """Returns F_beta, (1 + beta^2) TP / (beta^2 positives + TP + FP)."""
    square = beta * beta
    return (1 + square) * tp / (square * positives + tp + fp)


def at(table: NDArray[Any], places: Ints) -> NDArray[Any]:
    """Returns the number at one place of each row, ``[...]`` of ``[..., G]``; 0 of an empty row."""
    if not table.shape[-1]:
        return np.zeros(table.shape[:-1], table.dtype)
    return np.asarray(table[places] if table.ndim == 1 else table[np.arange(len(table)), places])


def _costs(given: Any) -> tuple[float, float]:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise InputTypeError(
            f"cost must be a pair, of a false positive and of a missed ground truth, but got {given!r}"
        )
    for number in given:
        check_number("cost", number, 0)
    false_positive, missed = map(float, given)
    if not 0 < false_positive + missed < np.inf:
        raise InputError(f"cost must be two finite numbers of which one is above 0 but got {given}")
    return false_positive, missed
