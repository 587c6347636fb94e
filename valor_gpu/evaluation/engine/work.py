"""Rows on their way through a run. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from valor_gpu.evaluation.rows.data import DataSource, SourceRow
from valor_gpu.evaluation.rows.keys import RowKeys
from valor_gpu.store import Run, StoredRow

INVALID_ROW = "invalid_row"
OK = "ok"
PORTION = 1000  # rows of a transaction, and of a call of an evaluator that computes
_PAGE = 500  # rows that are looked up in the store at once


@dataclass(slots=True)
class Work:
    """A row, and what of it is done.

    Attributes:
        number: of the row in the run, from 1.
        key: of the row.
        inputs: columns.
        outputs: what the target returned.
        status: ``ok``, ``invalid_row``, or why the target gave no answer.
        error: message of a failure.
        answered: whether ``outputs`` and ``status`` are final; False: the target is to answer.
        stored: whether the store has the row as it is.
        done: (evaluator, repeat) of the scores that are there.
        fields: of the evaluators, once they are made.
    """

    number: int
    key: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any] = field(default_factory=dict)
    status: str = OK
    error: str = ""
    answered: bool = False
    stored: bool = False
    done: frozenset[tuple[str, int]] = frozenset()
    fields: Mapping[str, Any] | None = None

    def row(self) -> StoredRow:
        """The row as the store keeps it."""
        return StoredRow(self.number, self.key, self.inputs, self.outputs, self.status, self.error)


def rows_of(source: DataSource, keys: RowKeys, limit: int | None, epochs: int, has_target: bool) -> Iterator[Work]:
    """The rows of the data, each as often as the target answers it.

    Epoch 1 has the key of the row, epoch 2 ``key@2``.
    """
    for row in islice(source, limit):
        key = keys.next(row)
        for epoch in range(1, epochs + 1):
            yield _work(
                row, key if epoch == 1 else keys.epoch(key, epoch), (row.number - 1) * epochs + epoch, has_target
            )


def _work(row: SourceRow, key: str, number: int, has_target: bool) -> Work:
    if row.error:
        return Work(number, key, {}, status=INVALID_ROW, error=row.error, answered=True)
    return Work(number, key, row.values, answered=not has_target)


def remaining(works: Iterator[Work], run: Run) -> Iterator[Work]:
    """Rows with what the store has of them: answers, and scores that are done.

    Args:
        works: as :func:`rows_of` gives them.
        run: whose rows are taken.
    """
    while page := list(islice(works, _PAGE)):
        stored = {row.number: row for row in run.rows(numbers=[work.number for work in page])}
        if stored:
            done = _done(run, min(stored), max(stored))
            for work in page:
                if (row := stored.get(work.number)) is not None and row.status == OK:
                    _take(work, row, done.get(work.number, frozenset()))
        yield from page


def stored_rows(run: Run, again: bool = False) -> Iterator[Work]:
    """The rows of a run, with their scores that are done.

    Args:
        run: whose rows are taken.
        again: also those to which the target gave no answer, for another try; otherwise rows with an answer alone.
    """
    after = 0
    while page := run.rows(after, _PAGE, None if again else OK):
        done = _done(run, page[0].number, page[-1].number)
        for row in page:
            work = Work(row.number, row.key, row.inputs)
            if row.status == OK:
                _take(work, row, done.get(row.number, frozenset()))
            if row.status != INVALID_ROW:
                yield work
        after = page[-1].number


def _take(work: Work, row: StoredRow, done: frozenset[tuple[str, int]]) -> None:
    work.outputs, work.status, work.error = row.outputs, row.status, row.error
    work.answered = work.stored = True
    work.done = done


ASKED_AGAIN = frozenset(
    ("bad_request", "cancelled", "connection_error", "quota", "rate_limited", "server_error", "timeout", "unauthorized")
)
"""Statuses of scores that are asked for again: what failed then may work now."""


def _done(run: Run, first: int, last: int) -> dict[int, frozenset[tuple[str, int]]]:
    found: dict[int, set[tuple[str, int]]] = {}
    for score in run.scores(first=first, last=last):
        if score.value is not None or score.status not in ASKED_AGAIN:
            found.setdefault(score.row, set()).add((score.evaluator, score.repeat))
    return {number: frozenset(done) for number, done in found.items()}
