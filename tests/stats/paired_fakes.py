"""A small state of rows for tests of comparisons: means of columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import Resampled
from valor_gpu.stats.units import Units


class Means(Resampled):
    """Rows with ids 0 .. U - 1; the mean of each column is a number, NaN in a row counts for nothing."""

    chunk = 17

    def __init__(self, columns: Mapping[str, Any], **choices: Any) -> None:
        self.columns = {name: np.asarray(column, np.float64) for name, column in columns.items()}
        self.units = len(next(iter(self.columns.values())))
        self.family = choices.pop("family", "rows")
        self.choices = choices

    def values(self) -> dict[str, float]:
        return {name: self.mean(column, np.ones((self.units, 1)))[0] for name, column in self.columns.items()}

    @staticmethod
    def mean(column: Any, weights: Any) -> Any:
        there = ~np.isnan(column)
        count = weights[there].sum(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            return column[there] @ weights[there] / count

    def replicates(self, draws: Draws) -> dict[str, Any]:
        weights = draws.array().astype(np.float64)
        return {
            name: self.mean(column, weights)
            for name, column in self.columns.items()
            if name not in self.choices.get("unsampled", ())
        }

    def supports(self, clusters: Any = None) -> Mapping[str, int]:
        return self.choices.get("supports", {})

    def refused(self) -> Mapping[str, str]:
        return self.choices.get("refused", {})

    def range_of(self, name: str) -> tuple[float, float]:
        return self.choices.get("range", (-math.inf, math.inf))

    def identities(self) -> Units:
        return Units("rows", list(range(self.units)), None, self.units, np.arange(self.units))

    def swapping(self, other: Resampled) -> Resampled | None:
        assert isinstance(other, Means)
        if not self.choices.get("joins", True):
            return None
        names = [name for name in self.columns if name in other.columns]
        both = {name: np.concatenate((self.columns[name], other.columns[name])) for name in names}
        return Means(both, **self.choices)
