"""Rows that the bootstrap draws anew: means of their scores, and numbers of their counts added up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.stats.clusters import codes_by_place
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import Resampled
from valor_gpu.stats.weighted_sums import weighted_sums

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@frozen
class Pooled:
    """Counts of rows, and the numbers of their sums.

    Attributes:
        counts: int64 ``[N, M]``; a row without counts has zeros.
        numbers: gives the numbers by name from the sums of M counts.
    """

    counts: Ints
    numbers: Callable[[list[int]], Mapping[str, float]]


class RowSample(Resampled):
    """Rows with scores and counts, in the order of their content, so that no order or split of the rows changes a bit.

    Args:
        scores: name to float64 ``[N]``, NaN where a row has no score: the mean is over the others.
        pooled: counts that are added up before anything is divided.
        scale: of the means.
        ranges: the least and the largest value of a number, by its name; of others nothing is known.

    Example:
        >>> from valor_gpu.stats.intervals import Bootstrap
        >>> from valor_gpu.stats.resample import intervals_of
        >>> sample = RowSample({"score": np.repeat([0.0, 1.0], 50)})
        >>> found = intervals_of({"score": 0.5}, sample, Bootstrap(200))
        >>> 0.04 < found["score"].standard_error < 0.06
        True
    """

    def __init__(
        self,
        scores: Mapping[str, Floats],
        pooled: Sequence[Pooled] = (),
        scale: float = 1.0,
        ranges: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        columns = [*scores.values(), *(column for part in pooled for column in part.counts.T)]
        self.units = len(columns[0]) if columns else 0
        self._order = np.lexsort(columns[::-1]) if columns else np.zeros(0, np.int64)
        self._names, self._scale, self._ranges = tuple(scores), scale, dict(ranges or {})
        self._places = _places([column[self._order] for column in columns])
        self._columns: Floats | None = None  # scores, then whether they are there: one draw serves both
        if scores:
            table = np.stack([column[self._order] for column in scores.values()], 1)
            there = ~np.isnan(table)
            self._columns = np.concatenate((np.where(there, table, 0.0), there[:, :1] if there.all() else there), 1)
        self._pooled = [Pooled(np.ascontiguousarray(part.counts[self._order]), part.numbers) for part in pooled]
        self._corpus = {name for part in pooled for name in part.numbers(part.counts.sum(0).tolist())}

    def family_of(self, name: str) -> str:
        """``rows`` for a mean, ``corpus`` for a number of sums."""
        return "corpus" if name in self._corpus else "rows"

    def range_of(self, name: str) -> tuple[float, float]:
        """Returns the least and the largest value that a number can have; see :meth:`Resampled.range_of`."""
        return self._ranges.get(name) or super().range_of(name)

    def replicates(self, draws: Draws) -> dict[str, Floats]:
        """Computes means and numbers of sums of every replicate; see :meth:`Resampled.replicates`."""
        found: dict[str, Floats] = {}
        if self._columns is not None:
            names, sums = len(self._names), weighted_sums(self._columns, draws)
            with np.errstate(invalid="ignore"):
                means = sums[:names] / sums[names:]
            found = dict(zip(self._names, self._scale * means))
        for part in self._pooled:
            rows = [part.numbers(sums) for sums in weighted_sums(part.counts, draws).T.tolist()]
            found |= {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}
        return found

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> Ints:
        """Returns the codes of the clusters of the rows.

        Args:
            given: the cluster of every row, in the order in which the rows came; or row number to cluster.

        Raises:
            InputError: a row has no cluster, or there are more clusters than rows.
        """
        if isinstance(given, Mapping):
            missing = next((row for row in range(self.units) if row not in given), None)
            if missing is not None:
                raise InputError(
                    f"clusters must have one for each of the {self.units} rows but has none for row {missing}"
                )
            given = [given[row] for row in range(self.units)]
        if len(given) != self.units:
            raise InputError(f"clusters must have one for each of the {self.units} rows but has {len(given)}")
        return codes_by_place([given[row] for row in self._order.tolist()], self._places)


def _places(columns: Sequence[NDArray[Any]]) -> list[int]:
    """Places of sorted rows; equal rows have one."""
    another: Any = False
    for column in columns:
        both = np.isnan(column[1:]) & np.isnan(column[:-1])
        another = another | ((column[1:] != column[:-1]) & ~both)
    return [0, *np.cumsum(another).tolist()] if len(columns) and len(columns[0]) else []
