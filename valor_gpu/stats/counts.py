"""Numbers of tables of counts, resampled from the cells of the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import Floats, Resampled

Counts = NDArray[np.int64]
Proportions = Mapping[str, tuple[int, int]]

_NUMBERS_AT_A_TIME = 1 << 20  # counts of all replicates of a portion: 8 MB
_MOST_AT_A_TIME = 64


class ResampledCounts(Resampled):
    """Tables of counts as the bootstrap asks them.

    Each table parts the rows of the data into cells. Rows of a cell are alike, so that to draw cells is to draw rows.
    Several tables part the same rows in several ways, such as each class against the rest: a number of one table has an
    interval, one of several has none.

    Args:
        tables: int64 ``[G, K]``, the counts of the K cells of G tables.
        numbers: computes numbers by name of a replicate, float64 ``[G, K]``: the function that the metric computes its
            own numbers with. None: there are none.
        family: see :class:`Resampled`; likewise ``supports`` and ``refused``.
        proportions: successes and trials by the names of numbers that are proportions of rows.
        keeps: see :class:`Resampled`.
    """

    def __init__(
        self,
        tables: Counts,
        numbers: Callable[[Floats], Mapping[str, float]] | None,
        family: str = "ratio",
        supports: Mapping[str, int] | None = None,
        refused: Mapping[str, str] | None = None,
        proportions: Proportions | None = None,
        keeps: str = "",
    ) -> None:
        self.keeps = keeps
        self.family, self._tables, self._numbers = family, tables, numbers
        self._supports, self._refused, self._proportions = supports or {}, refused or {}, proportions or {}
        self._rows = tables.sum(1)
        self.units = int(self._rows.max(initial=0))
        self._held = np.nonzero(tables)
        self.chunk = max(1, min(_MOST_AT_A_TIME, _NUMBERS_AT_A_TIME // max(1, len(self._held[0]))))

    def supports(self, clusters: Counts | None = None) -> Mapping[str, int]:
        """Returns the rows that hold a truth of a number."""
        return self._supports

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers that have no interval."""
        return self._refused

    def proportions(self) -> Proportions:
        """Returns successes and trials of the numbers that are proportions of rows."""
        return self._proportions

    @property
    def has_numbers(self) -> bool:
        """Whether the cells give numbers."""
        return self._numbers is not None

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the numbers of replicates."""
        return replicates_of([self], draws)

    def numbers_of(self, cells: Counts) -> Mapping[str, Floats]:
        """Computes the numbers of counts ``[cells, L]`` of the cells that hold rows, table by table."""
        assert self._numbers is not None
        table, replicates = np.zeros(self._tables.shape), cells.shape[1]
        found: dict[str, Floats] = {}
        for column in range(replicates):
            table[self._held] = cells[:, column]
            for name, number in self._numbers(table).items():
                found.setdefault(name, np.empty(replicates))[column] = number
        return found

    def numbers_of_cells(self, places: Counts, counts: Counts) -> Mapping[str, float]:
        """Computes the numbers of counts of cells.

        Args:
            places: of the cells in the tables, one after the other; several may be of one cell.
            counts: likewise.
        """
        assert self._numbers is not None
        size = self._tables.size
        return self._numbers(np.bincount(places, counts, size).astype(np.float64).reshape(self._tables.shape))

    @property
    def cells(self) -> tuple[NDArray[Any], Counts]:
        """The table and the count of each cell that holds rows, table by table."""
        return self._held[0], self._tables[self._held]


def replicates_of(parts: Sequence[ResampledCounts], draws: Draws) -> dict[str, Floats]:
    """Computes the numbers of replicates of several states, all of which find a row that is drawn in their cells."""
    parts = [part for part in parts if part.has_numbers]
    if not parts:
        return {}
    groups, counts = zip(*(part.cells for part in parts))
    ends = np.cumsum([len(each) for each in counts])[:-1]
    numbered = [each + (place << 40) for place, each in enumerate(groups)]
    cells = _drawn(np.unique(np.concatenate(numbered), return_inverse=True)[1], np.concatenate(counts), draws)
    found = zip(parts, np.split(cells, ends))
    return {name: numbers for part, mine in found for name, numbers in part.numbers_of(mine).items()}


def _drawn(groups: NDArray[Any], counts: Counts, draws: Draws) -> Counts:
    """Resampled counts ``[cells, L]``; tables of as many rows share their draws.

    Args:
        groups: the table of each cell; ascends from 0.
        counts: of the cells, above 0.
        draws: the replicates.
    """
    found = np.empty((len(counts), draws.count), np.int64)
    of_table = np.bincount(groups, counts).astype(np.int64)[groups]
    for rows in np.unique(of_table):
        inside = of_table == rows
        ends = _ends(groups[inside], counts[inside])
        limits = np.unique(ends)
        drawn = replace(draws, units=int(rows), clusters=None).cells(np.diff(limits, prepend=0))
        below = np.concatenate((np.zeros((1, draws.count), np.int64), drawn.cumsum(0)))
        places = np.searchsorted(limits, np.stack((ends, ends - counts[inside])))
        found[inside] = below[places[0] + 1] - below[np.where(ends == counts[inside], 0, places[1] + 1)]
    return found


def _ends(groups: NDArray[Any], counts: Counts) -> Counts:
    """Cumulative counts within each group; groups ascend."""
    total = np.cumsum(counts)
    first = np.flatnonzero(np.diff(groups, prepend=-1))
    before = total[first] - counts[first]
    ends: Counts = total - np.repeat(before, np.diff(first, append=len(groups)))
    return ends


class ResampledParts(Resampled):
    """Tables whose numbers have different names, as one state.

    Args:
        parts: of one family and of the same rows; at least one.
        keeps: see :class:`ResampledCounts`.
    """

    def __init__(self, parts: Sequence[ResampledCounts], keeps: str = "") -> None:
        self._parts, self.keeps = parts, keeps
        self.family, self.unit = parts[0].family, parts[0].unit
        self.units, self.chunk = max(part.units for part in parts), min(part.chunk for part in parts)

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the numbers of replicates."""
        return replicates_of(self._parts, draws)

    def supports(self, clusters: Counts | None = None) -> Mapping[str, int]:
        """Returns the units that hold a truth of a number."""
        return {name: count for part in self._parts for name, count in part.supports().items()}

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers that have no interval."""
        return {name: reason for part in self._parts for name, reason in part.refused().items()}

    def proportions(self) -> Proportions:
        """Returns successes and trials of the numbers that are proportions of units."""
        return {name: trials for part in self._parts for name, trials in part.proportions().items()}
