"""Values of one evaluator as columns, a number a row: what summaries and comparisons are computed from.

The repeats of a row are averaged first. 100,000 rows take 8 bytes each for every column of numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from valor_gpu.stats.means import exact_mean
from valor_gpu.store.columns import Columns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class RowValues:
    """What one evaluator says about the rows of a run.

    Attributes:
        rows: numbers of the rows with a value, increasing.
        values: the mean over the repeats of each row.
        counts: how many repeats of each row have a value.
        repeated: the values of all repeats, by row; None where no row has more than one.
        failed_rows: number of the row of every score without a value.
        failed_statuses: of these scores.
    """

    rows: Ints
    values: Floats
    counts: Ints
    repeated: Floats | None
    failed_rows: Ints
    failed_statuses: Sequence[str]

    @property
    def judged(self) -> Ints:
        """Numbers of the rows that have a score, with a value or without, increasing."""
        if not len(self.failed_rows):
            return self.rows  # spares the import of numpy.ma, 15 ms, which union1d begins with
        found: Ints = np.union1d(self.rows, self.failed_rows)
        return found

    def chosen(self, numbers: Ints) -> RowValues:
        """The values of these rows alone; ``numbers`` increases."""
        kept, failed = within(self.rows, numbers), within(self.failed_rows, numbers)
        repeated = None if self.repeated is None else self.repeated[np.repeat(kept, self.counts)]
        statuses = [status for status, one in zip(self.failed_statuses, failed) if one]
        return RowValues(
            self.rows[kept], self.values[kept], self.counts[kept], repeated, self.failed_rows[failed], statuses
        )

    def failures(self) -> dict[str, int]:
        """How many scores have no value, by status."""
        return dict(sorted(Counter(self.failed_statuses).items()))

    def by_row(self) -> list[list[float]]:
        """The values of the repeats of each row."""
        if self.repeated is None:
            return [[value] for value in self.values.tolist()]
        return [part.tolist() for part in np.split(self.repeated, np.cumsum(self.counts)[:-1])]


def within(rows: Ints, numbers: Ints) -> Mask:
    """Which of ``rows`` are among ``numbers``, which increase."""
    places = np.searchsorted(numbers, rows)
    found: Mask = np.zeros(len(rows), bool)
    inside = places < len(numbers)
    found[inside] = numbers[places[inside]] == rows[inside]
    return found


def read_row_values(columns: Columns, evaluator: str) -> RowValues:
    """Reads the values of one evaluator of a run.

    Args:
        columns: of the run.
        evaluator: name.
    """
    found = columns.values(evaluator)
    rows, repeats, values = (np.array(each) for each in found)
    order = np.lexsort((repeats, rows))
    rows, values = rows[order], values[order]
    different, starts, counts = np.unique(rows, return_index=True, return_counts=True)
    means = group_means(values, starts, counts)
    repeated = values if len(values) > len(different) else None
    failed_rows, statuses = columns.failures(evaluator)
    return RowValues(different, means, counts, repeated, np.array(failed_rows, np.int64), statuses)


def group_means(values: Floats, starts: Ints, counts: Ints) -> Floats:
    """Mean of each group of values that stand together, see :func:`~valor_gpu.stats.means.exact_mean`.

    Args:
        values: ``[n]`` finite numbers.
        starts: ``[groups]`` place of the first value of each.
        counts: ``[groups]`` how many values each has; their sum is n.
    """
    if len(starts) == len(values):
        return values
    found = values.tolist()
    ends = (starts + counts).tolist()
    return np.array([exact_mean(found[start:end]) for start, end in zip(starts.tolist(), ends)])


def read_counts(columns: Columns, evaluator: str) -> tuple[Ints, Ints]:
    """Reads the counts of a pooled evaluator.

    Returns:
        Numbers of the rows ``[n]`` that have counts, increasing, and their counts ``[n, places]``.
    """
    rows, tables = [], []
    for row, _, details in columns.details(evaluator):
        counts = (details or {}).get("counts")
        if counts is not None:
            rows.append(row)
            tables.append(np.array(counts, np.int64))
    return np.array(rows, np.int64), np.stack(tables) if tables else np.zeros((0, 0), np.int64)
