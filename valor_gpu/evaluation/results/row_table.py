"""The rows of a run as columns: numbers, statuses, clusters, slices, and what the target spent on them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from valor_gpu.evaluation.results.row_values import Ints, Mask
from valor_gpu.evaluation.results.spending import Spending
from valor_gpu.store.columns import Columns, RowFacts
from valor_gpu.store.records import OK

MOST_SLICES = 1000


@dataclass(frozen=True)
class RowTable:
    """The rows of a run.

    Attributes:
        numbers: of the rows, increasing.
        ok: which of them have an answer.
        statuses: how many rows have each status but ``ok``.
        epochs: how often each question was answered.
        slices: column to its slices.
        target: what the target spent.
    """

    numbers: Ints
    ok: Mask
    statuses: Mapping[str, int]
    epochs: int
    slices: Mapping[str, SliceColumn]
    target: Spending

    @property
    def answered(self) -> Ints:
        """Numbers of the rows with an answer."""
        found: Ints = self.numbers[self.ok]
        return found

    def clusters(self, rows: Ints) -> Ints | None:
        """Number of the question of each row; None where each was answered once."""
        return None if self.epochs == 1 else question_numbers(rows, self.epochs)

    def counts(self) -> dict[str, Any]:
        """Counts of rows, as JSON."""
        found = {"n": len(self.numbers), "ok": int(self.ok.sum()), "failed": dict(sorted(self.statuses.items()))}
        if self.epochs > 1:
            found["n_questions"] = len(np.unique(question_numbers(self.numbers, self.epochs)))
        return found


@dataclass
class SliceColumn:
    """Slices by the values of one input column.

    Attributes:
        codes: of the rows, an index into ``values``.
        values: JSON texts; a row without the column counts as null.
        reason: why there are no slices; empty where there are.
    """

    codes: list[int] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)
    reason: str = ""

    def add(self, cell: Any, name: str) -> None:
        """Adds the cell of the next row."""
        if self.reason:
            return
        whole = isinstance(cell, float) and cell.is_integer()  # columns of frames with gaps have 1.0 for 1
        text = json.dumps(int(cell) if whole else cell, sort_keys=True)
        self.codes.append(self.values.setdefault(text, len(self.values)))
        if len(self.values) > MOST_SLICES:
            self.codes, self.values = [], {}
            self.reason = f"column {name!r} has more than {MOST_SLICES} values"

    def rows(self, numbers: Ints) -> Iterator[tuple[Any, Ints]]:
        """Yields every value, in the order of their JSON, with the numbers of its rows."""
        codes = np.array(self.codes, np.int32)
        for text in sorted(self.values):
            yield json.loads(text), numbers[codes == self.values[text]]


def question_numbers(rows: Ints, epochs: int) -> Ints:
    """Number of the data row behind each row of a run in which every data row has ``epochs`` rows."""
    found: Ints = (rows - 1) // epochs + 1
    return found


def read_row_table(columns: Columns, config: Mapping[str, Any]) -> RowTable:
    """Reads the rows of a run, a page at a time.

    Args:
        columns: of the run.
        config: of the run.
    """
    names: Sequence[str] = config.get("slice_by") or ()
    found = _Reading({name: SliceColumn() for name in names})
    if names or config.get("target") is not None:
        for row in columns.rows(inputs=bool(names), outputs=config.get("target") is not None):
            found.add(row)
    else:
        found.add_plain(columns)
    numbers, ok = np.array(found.numbers, np.int64), np.array(found.ok, bool)
    return RowTable(numbers, ok, found.statuses, config.get("epochs") or 1, found.slices, found.target)


class _Reading:
    def __init__(self, slices: dict[str, SliceColumn]) -> None:
        self.slices, self.target = slices, Spending()
        self.numbers: list[int] = []
        self.ok: list[bool] = []
        self.statuses: Counter[str] = Counter()

    def add(self, row: RowFacts) -> None:
        self.numbers.append(row.number)
        self.ok.append(row.status == OK)
        if row.status != OK:
            self.statuses[row.status] += 1
        for name, column in self.slices.items():
            column.add(row.inputs.get(name), name)
        outputs = row.outputs
        self.target.add(outputs.get("_usage"), outputs.get("_seconds"), outputs.get("_cost"))
        if row.status == OK:
            self.target.calls.add(outputs.get("_seconds"))

    def add_plain(self, columns: Columns) -> None:
        """Adds all rows of a run without slices and without a target: their numbers and statuses alone."""
        for numbers, statuses in columns.statuses():
            self.numbers += numbers
            self.ok += [status == OK for status in statuses]
            self.statuses.update(status for status in statuses if status != OK)
