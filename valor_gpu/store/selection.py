"""Numbers of the rows of a run that hold a condition, read from the indexes alone: integers, whatever the rows hold.

Numbers come as one text per statement, or per value: SQLite joins 100,000 of them in 10 ms, and hands out as many
tuples in 40.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from valor_gpu.store import search
from valor_gpu.store.checksums import placed, whole
from valor_gpu.store.opinions import labels_of
from valor_gpu.store.runs import Run
from valor_gpu.store.totals import check_rows, check_values
from valor_gpu.store.values import packed

Bounds = Sequence[tuple[str, float]]
"""Comparisons that a value must hold: ``>=``, ``<=``, ``<``, ``>`` or ``=``, and a finite number."""

COMPARISONS = (">=", "<=", "<", ">", "=")
_SCORES = "FROM scores INDEXED BY scores_value WHERE run = ? AND evaluator = ? AND value IS NOT NULL"


def row_numbers(run: Run) -> array[int] | range:
    """Returns the numbers of all rows in their order; a range where none is missing in between."""
    sql = """SELECT (SELECT count(*) FROM rows WHERE run = :run), (SELECT min(number) FROM rows WHERE run = :run),
        (SELECT max(number) FROM rows WHERE run = :run)"""
    with run._database.read() as connection, placed("numbers of rows of run ", run._number):
        check_rows(connection, run._number)
        n, first, last = connection.execute(sql, {"run": run._number}).fetchone()
        if n:
            whole(first), whole(last)
        if not n or n == last - first + 1:
            return range(first, last + 1) if n else range(0)
        sql = "SELECT number FROM rows WHERE run = ?"
        return array("q", sorted(search.joined_numbers(connection, sql, (run._number,))))


def rows_unanswered(run: Run, status: str = "") -> array[int]:
    """Returns the numbers of the rows without an answer, in no order.

    Args:
        run: of a store.
        status: of these rows; empty for any but "ok".
    """
    sql = "SELECT number FROM rows WHERE run = ? AND status <> 'ok'"
    with run._database.read() as connection:
        check_rows(connection, run._number)
    return _joined(run, f"{sql} AND status = ?", packed(status)) if status else _joined(run, sql)


def is_repeated(run: Run, evaluator: str) -> bool:
    """Returns whether any row has a score of a repeat after the first by an evaluator, with a value."""
    with run._database.read() as connection:
        check_values(connection, run._number, evaluator, least=True)
        sql = f"SELECT 1 {_SCORES} AND repeat > 0 LIMIT 1"
        return connection.execute(sql, (run._number, packed(evaluator))).fetchone() is not None


def rows_between(run: Run, evaluator: str, bounds: Bounds) -> array[int]:
    """Returns the numbers of the rows that have a score of an evaluator within bounds, in no order.

    Args:
        run: of a store.
        evaluator: that judges no row repeatedly, see :func:`is_repeated`.
        bounds: all of them hold.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow, StoredScore
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(n, str(n), {}) for n in (1, 2, 3)])
        ...     _ = run.add_scores([StoredScore(n, "f1_score", 0, n / 4) for n in (1, 2, 3)])
        ...     list(rows_between(run, "f1_score", [(">=", 0.5)]))
        [2, 3]
    """
    tests = []
    for sign, _ in bounds:
        if sign not in COMPARISONS:
            raise ValueError(f"comparison must be one of {COMPARISONS} but is {sign!r}")
        tests.append(f" AND value {sign} ?")
    with run._database.read() as connection:
        check_values(connection, run._number, evaluator)
    return _joined(run, f"SELECT row {_SCORES}{''.join(tests)}", packed(evaluator), *(bound for _, bound in bounds))


def rows_by_value(run: Run, evaluator: str, descending: bool) -> array[int]:
    """Returns the numbers of the rows with a score of an evaluator by its value, equal ones by number.

    Args:
        run: of a store.
        evaluator: that judges no row repeatedly, see :func:`is_repeated`.
        descending: the highest value first, and equal ones from the last row.
    """
    sql = f"SELECT group_concat(row) {_SCORES} GROUP BY value ORDER BY value"
    found = array("q")
    with run._database.read() as connection:
        check_values(connection, run._number, evaluator)
        for (joined,) in connection.execute(sql, (run._number, packed(evaluator))):
            if "," in joined:
                found.extend(sorted(search.split_numbers(joined)))  # SQLite joins in no order
            else:
                found.extend(search.split_numbers(joined))
    return found[::-1] if descending else found


def rows_failed(run: Run, evaluator: str, status: str = "") -> array[int]:
    """Returns the numbers of the rows that have a score of an evaluator without a value, in no order.

    Args:
        run: of a store.
        evaluator: whose scores.
        status: of these scores; empty for any.
    """
    sql = "SELECT DISTINCT row FROM scores INDEXED BY scores_failed WHERE run = ? AND evaluator = ? AND value IS NULL"
    values = [packed(evaluator)]
    with run._database.read() as connection:
        check_values(connection, run._number, evaluator, least=True)
    return _joined(run, f"{sql} AND status = ?" if status else sql, *values, *([packed(status)] if status else []))


def rows_labelled(run: Run, evaluator: str = "") -> array[int]:
    """Returns the numbers of the rows that somebody gave a score or a verdict, in their order.

    Args:
        run: of a store.
        evaluator: whose score is meant; empty for any, and for the row as a whole.
    """
    found = (each.row for each in labels_of(run) if not evaluator or each.evaluator == evaluator)
    return array("q", sorted(set(found)))


def rows_with_text(run: Run, text: str) -> tuple[array[int], str]:
    """Returns the numbers of the rows that hold a text, in no order, and how it was looked for.

    Args:
        run: of a store.
        text: see :meth:`valor_gpu.store.Run.search`, which says what "words" and "substring" mean.
    """
    with run._database.read() as connection:
        check_rows(connection, run._number)
        return search.numbers(connection, run._number, text)


class TextScan(NamedTuple):
    """The rows of a run that goes on that hold a text, as far as they were read.

    Attributes:
        numbers: of the rows, in no order.
        last: position behind which rows are new.
    """

    numbers: array[int]
    last: int


def scan_text(run: Run, text: str, before: TextScan | None = None) -> TextScan | None:
    """Returns the rows of a run that hold a text, reading only those that came or changed since another scan.

    Args:
        run: of a store.
        text: see :meth:`valor_gpu.store.Run.search`; it is looked for as "substring".
        before: scan of the same text; None: all rows are read.

    Returns:
        None where the run has an index, which :func:`rows_with_text` asks.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(1, "fr", {"question": "France?"})])
        ...     first = scan_text(run, "fr")
        ...     _ = run.add_rows([StoredRow(2, "gr", {"question": "Greece?"}), StoredRow(3, "af", {"is": "Africa"})])
        ...     list(scan_text(run, "fr", first).numbers)
        [1, 3]
    """
    numbers, last = before if before is not None else TextScan(array("q"), 0)
    with run._database.read() as connection:
        came = search.scan(connection, run._number, text, last)
    if came is None:
        return None
    if not came:
        return TextScan(numbers, last)
    read = {number for _, number, _ in came}
    kept = array("q", (number for number in numbers if number not in read))
    kept.extend(number for _, number, holds in came if holds)
    return TextScan(kept, came[-1][0])


def _joined(run: Run, sql: str, *values: Any) -> array[int]:
    with run._database.read() as connection:
        return search.joined_numbers(connection, sql, (run._number, *values))
