"""Two scores of the same rows: how they are joined, counted and drawn."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from valor_gpu.evaluation.results.row_table import question_numbers
from valor_gpu.evaluation.results.row_values import read_row_values, within
from valor_gpu.stats.correlations import METHODS, Correlation, correlation
from valor_gpu.store import Run
from valor_gpu.store.columns import Columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POINTS = 500
"""Positions up to which each is drawn by itself."""
GRID = (24, 16)
"""Columns and rows of counted cells; a score of whole numbers has a cell for each."""
_WHOLE = 11


@dataclass(frozen=True)
class Pairs:
    """The rows of a run that have both scores.

    Attributes:
        rows: ``[n]`` numbers of these rows.
        x: ``[n]`` the first score of each, the mean of its repeats.
        y: ``[n]`` the second score, likewise.
        n_x_only: rows that lack the second score alone.
        n_y_only: rows that lack the first score alone.
        n_neither: rows that lack both.
        correlations: Pearson's and Spearman's.
    """

    rows: Ints
    x: Floats
    y: Floats
    n_x_only: int
    n_y_only: int
    n_neither: int
    correlations: tuple[Correlation, ...]


@dataclass(frozen=True)
class Scale:
    """An axis.

    Attributes:
        low: its lower end.
        high: its upper end.
        values: the whole numbers of a score that has few of them; empty for others.
        end: upper end of the evaluator's scale, None without one; rows from a number to it are found with both ends.
    """

    low: float
    high: float
    values: tuple[float, ...]
    end: float | None

    def edges(self, most: int) -> Floats:
        """Returns the edges of its cells, one more than there are."""
        if self.values:
            return np.array([value - 0.5 for value in self.values] + [self.values[-1] + 0.5])
        width = self.high - self.low
        if math.isfinite(width * most):
            found = self.low + width * np.arange(most + 1) / most
        else:
            found = self.low * (1 - np.arange(most + 1) / most) + self.high * (np.arange(most + 1) / most)
        found[-1] = self.high if self.high == self.end else math.nextafter(self.high, math.inf)
        found[:-1][found[:-1] == self.end] = math.nextafter(self.high if self.end is None else self.end, math.inf)
        return np.unique(found)


def read_pairs(run: Run, x: str, y: str) -> Pairs:
    """Reads two scores of a run and joins them by row.

    Args:
        run: of a store.
        x: evaluator of the first score.
        y: evaluator of the second score.
    """
    columns = Columns(run)
    first, second = (read_row_values(columns, name) for name in (x, y))
    kept, other = within(first.rows, second.rows), within(second.rows, first.rows)
    rows = first.rows[kept]
    epochs = run.config.get("epochs") or 1
    clusters = question_numbers(rows, epochs) if epochs > 1 else None
    values = first.values[kept], second.values[other]
    n_x_only, n_y_only = int((~kept).sum()), int((~other).sum())
    n_neither = sum(run.counts().values()) - len(rows) - n_x_only - n_y_only
    found = tuple(correlation(*values, clusters, method=method) for method in METHODS)
    return Pairs(rows, *values, n_x_only, n_y_only, n_neither, found)


def scale_of(values: Floats, info: Mapping[str, Any]) -> Scale:
    """Returns the axis of a score: its scale, as far as it has one, and never less than its values.

    Args:
        values: ``[n]``, n at least 1.
        info: of the evaluator, with ``low`` and ``high``.
    """
    least, most = float(values.min()), float(values.max())
    low = least if info.get("low") is None else min(float(info["low"]), least)
    high = most if info.get("high") is None else max(float(info["high"]), most)
    is_whole = bool((values == np.floor(values)).all()) and low == math.floor(low) and high == math.floor(high)
    if is_whole and high - low < _WHOLE:
        return Scale(low, high, tuple(low + k for k in range(int(high - low) + 1)), info.get("high"))
    return Scale(low, high, (), info.get("high"))


def positions(pairs: Pairs) -> tuple[Floats, Ints, Ints]:
    """Returns the different pairs of scores ``[m, 2]``, how many rows each has, and the first row of each."""
    found, first, counts = np.unique(np.stack([pairs.x, pairs.y], 1), axis=0, return_index=True, return_counts=True)
    return found, counts, pairs.rows[first]


def are_few(pairs: Pairs) -> bool:
    """Returns whether the different pairs of scores are at most :data:`POINTS`."""
    values = np.unique(pairs.x), np.unique(pairs.y)
    if max(map(len, values)) > POINTS:
        return False
    places = np.searchsorted(values[0], pairs.x) * len(values[1]) + np.searchsorted(values[1], pairs.y)
    return len(np.unique(places)) <= POINTS


def grid_counts(pairs: Pairs, x_edges: Floats, y_edges: Floats) -> Ints:
    """Counts the rows of each cell, the lower edge within it, the last edge too.

    Returns:
        int64 ``[rows, columns]``, from the lower left.
    """
    places = [
        np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(edges) - 2)
        for values, edges in ((pairs.x, x_edges), (pairs.y, y_edges))
    ]
    size = len(y_edges) - 1, len(x_edges) - 1
    found: Ints = np.bincount(places[1] * size[1] + places[0], minlength=size[0] * size[1]).reshape(size)
    return found


def condition(metric: str, low: float, high: float | None = None) -> str:
    """Returns the part of an address that keeps the rows of a cell: of one value, or from ``low`` to ``high``.

    Example:
        >>> condition("f1_score", 0.5, 0.75), condition("a&b", 4.0)
        ('if=f1_score%3Abetween%3A0.5..0.75', 'if=a%26b%3Aequals%3A4')
    """
    ends = [number_text(each) for each in (low, high) if each is not None]
    return urlencode({"if": f"{metric}:{'equals' if high is None else 'between'}:{'..'.join(ends)}"})


def number_text(value: float) -> str:
    """Returns all digits of a number, whole ones without a point.

    Example:
        >>> number_text(4.0), number_text(0.1), number_text(1e300)
        ('4', '0.1', '1e+300')
    """
    return str(int(value)) if value == math.floor(value) and abs(value) < 1e15 else repr(float(value))


def decimals_between(edges: Sequence[float]) -> int:
    """Returns decimals by which neighbouring edges are told apart, at most six."""
    step = min((b - a for a, b in itertools.pairwise(edges)), default=1.0)
    return min(max(1 - math.floor(math.log10(step)), 0), 6) if step > 0 else 6
