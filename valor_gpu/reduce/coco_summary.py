"""COCO's summary numbers from precision and recall arrays. No torch import."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.ops.accumulate.cpu import present_means
from valor_gpu.ops.accumulate.types import Curves, Pick
from valor_gpu.reduce.averages import ABSENT, mean_present_rows

_NO_GROUND_TRUTH = "no ground truth counts for it"


def summary_picks(iou_thresholds: Sequence[float], limits: Sequence[int], areas: Sequence[str]) -> dict[str, Pick]:
    """What each number of a summary is a mean of: the names of torchmetrics.

    Means of precision over IoU thresholds (or at one alone), recall samples and classes, and of final recall over
    thresholds and classes.

    Args:
        iou_thresholds: T numbers.
        limits: M max-detection limits.
        areas: A names of area ranges, ``all`` first.

    Returns:
        ``map``, ``map_50``, ``map_75``, by area, then ``mar`` by limit and by area.
    """
    return dict(_picks(tuple(iou_thresholds), tuple(limits), tuple(areas)))


@lru_cache(maxsize=64)
def _picks(iou_thresholds: Sequence[float], limits: Sequence[int], areas: Sequence[str]) -> Mapping[str, Pick]:
    every = range(len(iou_thresholds))
    at = {name: [t for t in every if iou_thresholds[t] == iou] for name, iou in (("50", 0.5), ("75", 0.75))}
    sizes = dict(enumerate(areas[1:], 1))
    return {
        "map": Pick("precision", 0, -1, every),
        **{f"map_{name}": Pick("precision", 0, -1, rows) for name, rows in at.items()},
        **{f"map_{name}": Pick("precision", a, -1, every) for a, name in sizes.items()},
        **{f"mar_{limit}": Pick("recall", 0, m, every) for m, limit in enumerate(limits)},
        **{f"mar_{name}": Pick("recall", a, -1, every) for a, name in sizes.items()},
    }


def _on_host(array: Any) -> NDArray[np.float64]:
    values: NDArray[np.float64] = array if isinstance(array, np.ndarray) else array.cpu().numpy()
    return values


@frozen
class CocoSummary:
    """Precision and recall arrays with the names of their axes.

    Attributes:
        curves: the arrays as accumulated, numpy arrays or tensors on any device; -1 where nothing counts.
        iou_thresholds: T numbers.
        limits: M max-detection limits.
        areas: A names of area ranges, ``all`` first.
        means: float64 ``[P]``, the means of :func:`summary_picks` where they are already taken.
    """

    curves: Curves
    iou_thresholds: Sequence[float]
    limits: Sequence[int]
    areas: Sequence[str]
    means: NDArray[np.float64] | None = None

    @cached_property
    def precision(self) -> NDArray[np.float64]:
        """float64 ``[T, R, K, A]`` at the last max-detection limit."""
        return _on_host(self.curves.precision[..., -1])

    @cached_property
    def recall(self) -> NDArray[np.float64]:
        """float64 ``[T, K, A, M]``."""
        return _on_host(self.curves.recall)

    def _at(self, values: NDArray[np.float64], iou: float | None) -> NDArray[np.float64]:
        """Of ``[T, ...]`` what belongs to one IoU threshold, or all."""
        return values if iou is None else values[np.asarray(self.iou_thresholds) == iou]

    def scalars(self) -> dict[str, float]:
        """The numbers of :func:`summary_picks`; NaN where nothing counts."""
        picks, means = summary_picks(self.iou_thresholds, self.limits, self.areas), self.means
        if means is None:
            means = present_means(Curves(self.precision[..., None], self.recall, None), list(picks.values()))
        return dict(zip(picks, means.tolist()))

    def average_precision(self, iou: float | None = None) -> NDArray[np.float64]:
        """float64 ``[K]``: AP of every class (at ``iou`` alone if given), NaN where no ground truth counts."""
        values = self._at(self.precision[..., 0], iou)
        thresholds, recalls, classes = values.shape
        return mean_present_rows(values.transpose(2, 0, 1).reshape(classes, thresholds * recalls))

    def average_recall(self) -> NDArray[np.float64]:
        """float64 ``[K]``: AR of every class at the last limit, NaN where no ground truth counts."""
        return mean_present_rows(self.recall[:, :, 0, -1].T)

    def mean_precision(self) -> NDArray[np.float64]:
        """float64 ``[T, R]``: precision at every recall sample, averaged over the classes with ground truth."""
        values = self.precision[..., 0]
        present = (values > ABSENT).all(axis=(0, 1))  # of no samples too
        return values[:, :, present].mean(axis=2) if present.any() else np.full(values.shape[:2], np.nan)


def absent_reasons(values: Mapping[str, Any]) -> dict[str, str]:
    """Why each number of a summary that is NaN does not exist."""
    reasons = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            nested = {f"{name}/{key}" for key, number in value.items() if math.isnan(number)}
            reasons.update(dict.fromkeys(nested, _NO_GROUND_TRUTH))
        elif isinstance(value, float) and math.isnan(value):
            fixed = {"map_50": "0.5", "map_75": "0.75"}.get(name)
            absent = fixed is not None and not math.isnan(values["map"])
            reasons[name] = f"{fixed} is not among the iou_thresholds" if absent else _NO_GROUND_TRUTH
    return reasons
