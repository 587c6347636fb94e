"""The rows that two runs share, by their keys. Answers to one question, of several epochs, are one row here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError
from valor_gpu.evaluation.results.row_table import question_numbers
from valor_gpu.evaluation.results.row_values import Floats, Ints, RowValues, group_means, read_counts, read_row_values
from valor_gpu.store import StoredRow
from valor_gpu.store.columns import Columns
from valor_gpu.store.runs import Run

Marks = NDArray[np.uint64]


@dataclass(frozen=True)
class Side:
    """One of two runs that are compared.

    Attributes:
        run: of a store.
        questions: number of the data row behind each shared key, in the order of the keys.
        n: data rows of the run.
    """

    run: Run
    questions: Ints
    n: int

    @property
    def epochs(self) -> int:
        """How often each question was answered."""
        return int(self.run.config.get("epochs") or 1)

    def values(self, evaluator: str) -> Floats:
        """The value of each shared row, mean over its epochs; NaN without any."""
        found: RowValues = read_row_values(Columns(self.run), evaluator)
        questions, starts, times = np.unique(
            question_numbers(found.rows, self.epochs), return_index=True, return_counts=True
        )
        means = group_means(found.values, starts, times)
        aligned, _ = self._aligned((questions - 1) * self.epochs + 1, means[:, None])
        return aligned[:, 0]

    def cells(self, column: str) -> list[Any]:
        """The value of a column of the data of each shared row, of its first epoch.

        Raises:
            InputError: a shared row has no such value.
        """
        first = {(question - 1) * self.epochs + 1: place for place, question in enumerate(self.questions.tolist())}
        found: list[Any] = [None] * len(first)
        for row in Columns(self.run).rows(inputs=True):
            place = first.get(row.number)
            if place is None:
                continue
            found[place] = row.inputs.get(column)
            if found[place] is None:
                raise InputError(
                    f"cluster_column must be a column that every row of {_named(self.run)} has a value in, but row"
                    f" {row.key!r} has none in {column!r}{near_names(column, row.inputs)}"
                )
        return found

    def counts(self, evaluator: str) -> tuple[Floats, Ints]:
        """The counts ``[rows, places]`` of each shared row, added up over its epochs, and the number of these.

        NaN, and 0 epochs, where a row has none.
        """
        rows, counts = read_counts(Columns(self.run), evaluator)
        return self._aligned(rows, counts.astype(np.float64))

    def _aligned(self, rows: Ints, table: Floats) -> tuple[Floats, Ints]:
        """Sums over the epochs of each shared row, and how many there are."""
        found: Floats = np.full((len(self.questions), table.shape[1]), np.nan)
        epochs = np.zeros(len(self.questions), np.int64)
        if not len(rows):
            return found, epochs
        questions, starts, times = np.unique(question_numbers(rows, self.epochs), return_index=True, return_counts=True)
        sums = np.add.reduceat(table, starts, axis=0)
        order = np.argsort(self.questions)
        places = np.searchsorted(self.questions[order], questions)
        inside = places < len(order)
        inside[inside] = self.questions[order[places[inside]]] == questions[inside]
        found[order[places[inside]]] = sums[inside]
        epochs[order[places[inside]]] = times[inside]
        return found, epochs

    def row_numbers(self, index: int) -> list[int]:
        """Numbers of the rows of a shared row, one of each epoch."""
        first = (int(self.questions[index]) - 1) * self.epochs
        return [first + epoch for epoch in range(1, self.epochs + 1)]

    def first_rows(self, questions: Iterable[int]) -> dict[int, StoredRow]:
        """The row of the first epoch that is stored, by the number of the data row.

        A run that has not ended may have the second epoch of a row without the first one.

        Args:
            questions: numbers of data rows, at most some thousands.
        """
        numbers = [(int(each) - 1) * self.epochs + epoch for each in questions for epoch in range(1, self.epochs + 1)]
        found: dict[int, StoredRow] = {}
        for row in self.run.rows(numbers=numbers):
            found.setdefault((row.number - 1) // self.epochs + 1, row)
        return found


def join_rows(run: Run, baseline: Run) -> tuple[Side, Side]:
    """Joins two runs by the keys of their rows.

    Returns:
        Both sides, with their shared rows in the order of the run.

    Raises:
        InputError: they share no row.
    """
    sides = [_questions(each) for each in (run, baseline)]
    _, *places = np.intersect1d(sides[0][0], sides[1][0], assume_unique=True, return_indices=True)
    if not len(places[0]):
        raise InputError(
            f"runs must share rows to be compared but none of the keys of {_named(run)}, such as {_example(run)}, "
            f"is a key of {_named(baseline)}, such as {_example(baseline)}"
        )
    chosen = [questions[place] for (_, questions), place in zip(sides, places)]
    order = np.argsort(chosen[0])
    found = [
        Side(one, questions[order], len(whole)) for one, questions, (whole, _) in zip((run, baseline), chosen, sides)
    ]
    return found[0], found[1]


def _named(run: Run) -> str:
    return f"run {run.id}, {run.name!r}," if run.name else f"run {run.id}"


def _questions(run: Run) -> tuple[Marks, Ints]:
    """A hash of the key of every data row, 8 bytes each, and its number."""
    epochs = int(run.config.get("epochs") or 1)
    marks: list[bytes] = []
    numbers: list[int] = []
    for rows, keys in Columns(run).row_keys():
        for row, key in zip(rows, keys):
            question = (row - 1) // epochs + 1
            if not numbers or numbers[-1] != question:
                epoch = (row - 1) % epochs + 1
                marks.append(_mark(key if epoch == 1 else key.removesuffix(f"@{epoch}")))
                numbers.append(question)
    return np.frombuffer(b"".join(marks), np.uint64), np.array(numbers, np.int64)


def _mark(key: str) -> bytes:
    return hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest()


def _example(run: Run) -> str:
    page = run.rows(limit=1)
    return repr(page[0].key) if page else "(it has no rows)"
