"""What people say about rows, as it is kept."""

from __future__ import annotations

import sqlite3
from typing import Any

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.store.checksums import fetched, placed, whole
from valor_gpu.store.database import RunHandle
from valor_gpu.store.records import CHECKED_FEEDBACK, LARGEST, Feedback, check_count
from valor_gpu.store.totals import check_count_of, check_rows, check_values
from valor_gpu.store.values import packed

_INSERT = f"""INSERT INTO feedback (run, {CHECKED_FEEDBACK})
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, row, evaluator, author) DO UPDATE SET
    value = excluded.value, passed = excluded.passed, note = excluded.note, created = excluded.created,
    checksum = excluded.checksum"""
_SELECT = f"""SELECT {CHECKED_FEEDBACK} FROM feedback
    WHERE run = ? AND row BETWEEN ? AND ? ORDER BY row, evaluator, author"""

# Both are answered by an index alone: the status of a row stands behind its texts, which would all be read.
_NUMBERS = "SELECT number FROM rows WHERE run = ? ORDER BY number"
_FAILED = "SELECT number FROM rows WHERE run = ? AND status <> 'ok'"


def add(connection: sqlite3.Connection, bound: tuple[Any, ...], run: str) -> None:
    """Keeps feedback, as it is bound to a statement."""
    try:
        connection.execute(_INSERT, bound)
    except sqlite3.IntegrityError as error:
        raise InputError(f"feedback must be on a stored row but row {bound[1]} is not in run {run}") from error


def between(connection: sqlite3.Connection, run: int, first: int, last: int) -> list[Feedback]:
    """Returns the feedback on rows from ``first`` to ``last``."""
    check_count_of(connection, "feedback", run)
    return [Feedback.kept(row, run) for row in fetched(connection, _SELECT, (run, first, last))]


def withdraw(run: RunHandle, row: int, evaluator: str = "", author: str = "") -> bool:
    """Takes back what an author said about a row, or about an evaluator's score of it.

    Returns:
        Whether there was anything to take back.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(1, "a", {})])
        ...     run.add_feedback(Feedback(1, "gpt_fluency", "ana", value=2))
        ...     withdraw(run, 1, "gpt_fluency", "ana"), run.feedback()
        (True, [])
    """
    check_count("row", row, 1)
    for name, value in (("evaluator", evaluator), ("author", author)):
        check_type(name, value, str)
    sql = "DELETE FROM feedback WHERE run = ? AND row = ? AND evaluator = ? AND author = ?"
    with run._database.write() as connection:
        return bool(connection.execute(sql, (run._number, row, packed(evaluator), packed(author))).rowcount)


def labelled_rows(run: RunHandle, evaluator: str, author: str) -> list[int]:
    """Returns the numbers of the rows to which an author gave a score or a verdict; a note alone is no label.

    Args:
        run: of a store.
        evaluator: whose scores are meant; empty for rows as a whole.
        author: who says it.
    """
    return [each.row for each in labels_of(run) if (each.evaluator, each.author) == (evaluator, author)]


def labels_of(run: RunHandle) -> list[Feedback]:
    """Returns the feedback of a run that has a score or a verdict, by row, evaluator and author."""
    with run._database.read() as connection:
        found = between(connection, run._number, 1, LARGEST)
    return [each for each in found if each.value is not None or each.passed is not None]


def answered_rows(run: RunHandle) -> list[int]:
    """Returns the numbers of the rows with an answer, in their order."""
    with run._database.read() as connection, placed("numbers of rows of run ", run._number):
        check_rows(connection, run._number)
        failed = {number for (number,) in connection.execute(_FAILED, (run._number,))}
        return [whole(number) for (number,) in connection.execute(_NUMBERS, (run._number,)) if number not in failed]


def rows_by_score(run: RunHandle, evaluator: str, descending: bool = False) -> list[int]:
    """Returns the numbers of the rows with a score of an evaluator by their mean over repeats, equal ones by number.

    Args:
        run: of a store.
        evaluator: whose scores.
        descending: the highest mean first.
    """
    sql = f"""SELECT row FROM scores INDEXED BY scores_value WHERE run = ? AND evaluator = ? AND value IS NOT NULL
        GROUP BY row ORDER BY avg(value) {"DESC" if descending else "ASC"}, row"""
    with run._database.read() as connection, placed(f"scores by {evaluator!r} in run ", run._number):
        check_values(connection, run._number, evaluator)
        return [whole(row) for (row,) in connection.execute(sql, (run._number, packed(evaluator)))]
