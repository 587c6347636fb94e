"""COCO's summary numbers from precision and recall arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.ops.curves import Curves
from valor_gpu.ops.means import Pick, present_means
from valor_gpu.reduce.averages import ABSENT, mean_present_rows

_NO_TRUTH = "no ground truth counts for it"


@dataclass(frozen=True)
class CocoSummary:
    """Precision and recall arrays with the names of their axes.

    Attributes:
        full: the arrays as accumulated, wherever they lie; -1 where nothing counts.
        iou_thresholds: T numbers.
        limits: M max-detection limits.
        areas: A names of area ranges, ``all`` first.
    """

    full: Curves
    iou_thresholds: Sequence[float]
    limits: Sequence[int]
    areas: Sequence[str]

    @cached_property
    def precision(self) -> NDArray[np.float64]:
        """float64 ``[T, R, K, A]`` at the last max-detection limit."""
        array: NDArray[np.float64] = self.full.precision[..., -1].cpu().numpy()
        return array

    @cached_property
    def recall(self) -> NDArray[np.float64]:
        """float64 ``[T, K, A, M]``."""
        array: NDArray[np.float64] = self.full.recall.cpu().numpy()
        return array

    def _at(self, values: NDArray[np.float64], iou: float | None) -> NDArray[np.float64]:
        """Of ``[T, ...]`` what belongs to one IoU threshold, or all."""
        return values if iou is None else values[np.asarray(self.iou_thresholds) == iou]

    def scalars(self) -> dict[str, float]:
        """``map``, ``map_50``, ``map_75``, by area, then ``mar`` by limit and by area: the names of torchmetrics.

        Means of precision over IoU thresholds (or at one alone), recall samples and classes, and of final recall over
        thresholds and classes; NaN where nothing counts.
        """
        every = range(len(self.iou_thresholds))
        at = {name: [t for t in every if self.iou_thresholds[t] == iou] for name, iou in (("50", 0.5), ("75", 0.75))}
        sizes = dict(enumerate(self.areas[1:], 1))
        picks = {
            "map": Pick("precision", 0, -1, every),
            **{f"map_{name}": Pick("precision", 0, -1, rows) for name, rows in at.items()},
            **{f"map_{name}": Pick("precision", a, -1, every) for a, name in sizes.items()},
            **{f"mar_{limit}": Pick("recall", 0, m, every) for m, limit in enumerate(self.limits)},
            **{f"mar_{name}": Pick("recall", a, -1, every) for a, name in sizes.items()},
        }
        return dict(zip(picks, present_means(self.full, list(picks.values())).tolist()))

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
        present = values[0, 0] > ABSENT
        return values[:, :, present].mean(axis=2) if present.any() else np.full(values.shape[:2], np.nan)


def absent_reasons(values: Mapping[str, Any]) -> dict[str, str]:
    """Why each number of a summary that is NaN does not exist."""
    reasons = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            nested = {f"{name}/{key}" for key, number in value.items() if math.isnan(number)}
            reasons.update(dict.fromkeys(nested, _NO_TRUTH))
        elif isinstance(value, float) and math.isnan(value):
            fixed = {"map_50": "0.5", "map_75": "0.75"}.get(name)
            absent = fixed is not None and not math.isnan(values["map"])
            reasons[name] = f"{fixed} is not among the iou_thresholds" if absent else _NO_TRUTH
    return reasons
