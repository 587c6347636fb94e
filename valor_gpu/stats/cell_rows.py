"""Rows that fall into the cells of tables of counts, kept one by one: their numbers are resampled and paired."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.stats.clusters import codes_by_name
from valor_gpu.stats.counts import Counts, ResampledCounts, ResampledParts
from valor_gpu.stats.resample import Floats, Resampled
from valor_gpu.stats.units import Units

if TYPE_CHECKING:
    from valor_gpu.stats.draws import Draws

Ints = NDArray[np.int64]
Places = Callable[[Ints], Ints]


class CellRows(Resampled):
    """Rows of cells as the bootstrap asks them.

    Args:
        codes: int64 ``[N]``, what each row holds; -1: it is left out.
        parts: the tables of the same rows.
        places: for each table, what gives the cells of codes.
        truths: what gives the truths of codes.
        swaps: whether numbers have a permutation test; False where they depend on the data of their model otherwise,
            such as by the groups that they compare.
    """

    def __init__(
        self,
        codes: Ints,
        parts: Sequence[ResampledCounts],
        places: Sequence[Places],
        truths: Places,
        swaps: bool = True,
    ) -> None:
        self._swaps = swaps
        self._counted = codes >= 0
        self._parts, self._places, self._truths = parts, places, truths
        self._cells: Resampled = parts[0] if len(parts) == 1 else ResampledParts(parts)
        self.family, self.unit, self.chunk = self._cells.family, self._cells.unit, self._cells.chunk
        self._set_codes(codes[self._counted])
        self._swapped = False

    def _set_codes(self, codes: Ints) -> None:
        self.units = len(codes)
        self._kinds, kind_of = np.unique(codes, return_inverse=True)
        self._kind_of = kind_of.reshape(-1)

    def range_of(self, name: str) -> tuple[float, float]:
        """Returns the least and the largest value that a number can have."""
        return self._cells.range_of(name)

    def supports(self, clusters: Ints | None = None) -> Mapping[str, int]:
        """Returns the rows that hold a truth of a number; of clusters it is not known."""
        return self._cells.supports() if clusters is None else {}

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers that have no interval."""
        return self._cells.refused()

    def proportions(self) -> Mapping[str, tuple[int, int]]:
        """Returns successes and trials of the numbers that are proportions of rows."""
        return self._cells.proportions()

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> Ints:
        """Returns the codes of the clusters of the rows.

        Args:
            given: the cluster of every row, in the order of updates (and of ranks), or by the index of the row.

        Raises:
            InputError: a row has no cluster, or there are more of them than rows.
        """
        rows = len(self._counted)
        if isinstance(given, Mapping):
            if missing := [row for row in range(rows) if row not in given]:
                raise InputError(f"clusters must name that of each of {rows} rows but lacks row {missing[0]}")
            given = [given[row] for row in range(rows)]
        if len(given) != rows:
            raise InputError(f"clusters must have one for each of {rows} rows but has {len(given)}")
        return codes_by_name(given)

    def identities(self) -> Units:
        """Returns the rows that count by the place at which they came, with their truths."""
        truths = self._truths(self._kinds)[self._kind_of]
        return Units("rows", None, np.flatnonzero(self._counted), len(self._counted), self._kind_of, truths, "target")

    def swapping(self, other: Resampled) -> CellRows | None:
        """Returns the rows of both models; see :meth:`Resampled.swapping`."""
        if not (self._swaps and isinstance(other, CellRows)):
            return None
        found = copy.copy(self)
        found._swapped = True
        found._set_codes(np.concatenate([side._kinds[side._kind_of] for side in (self, other)]))
        return found

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the numbers of replicates; without clusters, cells are drawn in place of rows."""
        if draws.clusters is None and not self._swapped:
            return self._cells.replicates(draws)
        counts, found = self._drawn(draws), dict[str, Floats]()
        for part, places in zip(self._parts, self._places):
            cells = places(self._kinds)
            for column in range(draws.count):
                for name, number in part.numbers_of_cells(cells, counts[:, column]).items():
                    found.setdefault(name, np.empty(draws.count))[column] = number
        return found

    def _drawn(self, draws: Draws) -> Counts:
        """How often rows of each kind are drawn, int64 ``[kinds, L]``."""
        of = np.arange(self.units) if draws.clusters is None else draws.clusters
        of = of if len(of) == self.units else of[self._counted]
        drawn = replace(draws, units=draws.drawn, clusters=None).array()
        weights = np.ascontiguousarray(drawn.T)
        size = len(self._kinds)
        each = [np.bincount(self._kind_of, weights[column][of], size) for column in range(draws.count)]
        return np.stack(each, 1).astype(np.int64) if each else np.zeros((size, 0), np.int64)
