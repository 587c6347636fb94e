"""What failed in a run, grouped by cause, and which of its rows are the worst: by SQL, whatever the number of rows."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from valor_gpu.checks import check_choice, check_number
from valor_gpu.errors import DamageError, InputError
from valor_gpu.store.checksums import fetched, kind, placed, real, whole
from valor_gpu.store.records import CHECKED_ROW, CHECKED_SCORE, check_count, checked_row, checked_score
from valor_gpu.store.runs import Run
from valor_gpu.store.totals import check_rows, check_values
from valor_gpu.store.values import packed, unpacked

LONGEST = 200
"""Characters of a reason by which failures are grouped: longer ones often end in what is of one row alone."""
MOST_CAUSES = 10_000
"""Different causes that are told apart: memory is bounded where the reason of every row reads differently."""

_NAME = r"[\"'`][a-z_][a-z0-9_.\[\]]{0,39}[\"'`]"
_OF_A_ROW = re.compile(
    # A name in quotes is often the cause itself: 'temperature'. A code of HTTP is, too.
    rf"(?P<kept>{_NAME}|HTTP \d{{3}}\b)"
    r"""|(?<!\w)(?P<quote>["'`])(?:\\.|(?!(?P=quote))[^\\])*(?:(?P=quote)|$)|\u201c[^\u201d]*(?:\u201d|$)"""
    r"|(?<![\w.+-])[\w.+-]*\d[\w.+-]*"
)
_AROUND_FIELDS = re.compile(r"""\{\s?["']|["']:\s?(?:[\[{]\s?)*["']?|["'],\s?["']|,\s?["'](?=\w+["']:)|["']\s?[}\]]""")

_ROWS = """SELECT '', status, substr(error, 1, :longest) AS why, count(*), min(number) FROM rows
    WHERE run = :run AND status <> 'ok' GROUP BY status, why ORDER BY 4 DESC, 5"""
_SCORES = """SELECT evaluator, status, substr(reason, 1, :longest) AS why, count(*), min(row)
    FROM scores INDEXED BY scores_failed WHERE run = :run AND value IS NULL
    GROUP BY evaluator, status, why ORDER BY 4 DESC, 5, 1"""


@dataclass(frozen=True)
class FailureGroup:
    """Failures of one cause.

    Args:
        evaluator: whose scores failed; empty where the rows themselves have no answer.
        status: of the rows or scores.
        reason: the first :data:`LONGEST` characters of the most frequent wording.
        n: how many rows or scores.
        first_row: number of the first row.
    """

    evaluator: str
    status: str
    reason: str
    n: int
    first_row: int


def failed_rows(run: Run, limit: int = 100) -> tuple[list[FailureGroup], int]:
    """Groups the rows without an answer by status and message, as :func:`wording` reads it.

    Args:
        run: the run.
        limit: at most so many groups, the largest.

    Returns:
        Groups, and how many rows are in none of them because of ``limit``.
    """
    total = sum(n for status, n in run.counts().items() if status != "ok")
    return _groups(run, _ROWS, limit, total)


def failed_scores(run: Run, limit: int = 100) -> tuple[list[FailureGroup], int]:
    """Groups the scores without a value by evaluator, status and reason; arguments as of :func:`failed_rows`.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow, StoredScore
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     _ = run.add_rows([StoredRow(1, "a", {}), StoredRow(2, "b", {})])
        ...     failed = (0, None, "missing_field", "no answer")
        ...     _ = run.add_scores([StoredScore(row, "f1_score", *failed) for row in (1, 2)])
        ...     failed_scores(run)
        ([FailureGroup(evaluator='f1_score', status='missing_field', reason='no answer', n=2, first_row=1)], 0)
    """
    with run._database.read() as connection:
        check_values(connection, run._number, least=True)
        sql = "SELECT count(*) FROM scores INDEXED BY scores_failed WHERE run = ? AND value IS NULL"
        total = connection.execute(sql, (run._number,)).fetchone()[0]
    return _groups(run, _SCORES, limit, total)


def failed_totals(run: Run) -> dict[tuple[str, str], int]:
    """How many rows have no answer and scores no value, by evaluator (empty for rows) and status."""
    sql = """SELECT '', status, count(*) FROM rows WHERE run = :run AND status <> 'ok' GROUP BY status
        UNION ALL SELECT evaluator, status, count(*) FROM scores INDEXED BY scores_failed
        WHERE run = :run AND value IS NULL GROUP BY evaluator, status"""
    with run._database.read() as connection:
        check_rows(connection, run._number)
        check_values(connection, run._number, least=True)
        found = fetched(connection, sql, {"run": run._number})
        with placed("statuses of run ", run._number):
            return {(unpacked(evaluator), unpacked(status)): n for evaluator, status, n in found}


def failed_numbers(run: Run, evaluator: str, after: int = 0, limit: int = 100) -> list[int]:
    """Numbers of the rows behind ``after`` that have a score of this evaluator without a value, in their order."""
    check_count("after", after)
    check_count("limit", limit, 1)
    sql = """SELECT DISTINCT row FROM scores INDEXED BY scores_failed
        WHERE run = ? AND evaluator = ? AND value IS NULL AND row > ? ORDER BY row LIMIT ?"""
    with run._database.read() as connection, placed("scores without a value of run ", run._number):
        check_values(connection, run._number, evaluator, least=True)
        return [whole(row) for (row,) in fetched(connection, sql, (run._number, packed(evaluator), after, limit))]


def _groups(run: Run, sql: str, limit: int, total: int) -> tuple[list[FailureGroup], int]:
    check_count("limit", limit, 1)
    values: dict[str, Any] = {"run": run._number, "longest": LONGEST}
    with run._database.read() as connection, placed("reasons of failures of run ", run._number):
        _check_failures(connection, run._number, sql)
        found = _joined(
            FailureGroup(unpacked(evaluator), unpacked(status), _text(reason), n, first)
            for evaluator, status, reason, n, first in fetched(connection, sql, values)
        )
    found = sorted(found, key=lambda group: (-group.n, group.first_row, group.evaluator))[:limit]
    return found, total - sum(group.n for group in found)


def _joined(groups: Iterable[FailureGroup]) -> Iterable[FailureGroup]:
    """The groups with those of one wording joined; beyond the limit those of further wordings are left out."""
    found: dict[tuple[str, str, str], FailureGroup] = {}
    for each in groups:
        key = each.evaluator, each.status, wording(each.reason)
        if (known := found.get(key)) is not None:
            found[key] = replace(known, n=known.n + each.n, first_row=min(known.first_row, each.first_row))
        elif len(found) < MOST_CAUSES:
            found[key] = each
    return found.values()


def wording(reason: str) -> str:
    """A reason without what it may quote of one row: numbers, and quoted texts that are no names.

    Example:
        >>> wording("row 17: answer must be a text but is 'Paris, of course'")
        'row #: answer must be a text but is …'
        >>> wording("HTTP 400: 'temperature' is not supported")
        "HTTP 400: 'temperature' is not supported"
    """
    if "{" in reason:  # JSON: the quotes around its fields are no quotation
        reason = _AROUND_FIELDS.sub(" ", reason)
    return _OF_A_ROW.sub(_placeholder, reason)


def _placeholder(found: re.Match[str]) -> str:
    return found["kept"] or ("…" if found["quote"] or found[0][0] == "\u201c" else "#")


def _check_failures(connection: sqlite3.Connection, run: int, sql: str) -> None:
    """Compares the failures whose reasons are grouped with their checksums."""
    if sql is _ROWS:
        which = f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND status <> 'ok'"
        for kept in connection.execute(which, (run,)):
            checked_row(kept, run)
    else:
        which = f"SELECT {CHECKED_SCORE} FROM scores INDEXED BY scores_failed WHERE run = ? AND value IS NULL"
        for kept in connection.execute(which, (run,)):
            checked_score(kept, run)


def _text(kept: str | bytes) -> str:
    """A text that was cut; SQLite cuts one with a lone surrogate between bytes."""
    if isinstance(kept, str):
        return kept
    if type(kept) is not bytes:
        raise DamageError("", f"a text is kept as {kind(kept)}")
    return kept.decode(errors="replace")


def worst_rows(
    run: Run, scales: Mapping[str, tuple[float, float]], limit: int = 100, which: str = "worst"
) -> list[tuple[int, float]]:
    """The rows whose scores are lowest on average, each score counted on the scale of its evaluator.

    Args:
        run: the run.
        scales: evaluator to the value that counts as 0 and the one that counts as 1; where less is better, the first
            one is the larger. Scores of other evaluators are not counted, and values beyond a scale count as its end.
        limit: at most so many rows.
        which: "worst" first or "best" first.

    Returns:
        Number of the row and its average from 0 (worst) to 1 (best); equal ones by their numbers. Rows without any
        counted score are left out.

    Raises:
        InputError: both ends of a scale are equal.
    """
    check_count("limit", limit, 1)
    check_choice("which", which, ("worst", "best"))
    parts, values = [], []
    for name, (zero, one) in scales.items():
        for end in (zero, one):
            check_number(f"scales[{name!r}]", end)
        if zero == one:
            raise InputError(f"scales[{name!r}] must have two ends that differ but both are {zero}")
        parts.append(
            """SELECT row, min(max((avg(value) - ?) / (? - ?), 0.0), 1.0) AS mark
            FROM scores INDEXED BY scores_value WHERE run = ? AND evaluator = ? AND value IS NOT NULL GROUP BY row"""
        )
        values += [float(zero), float(one), float(zero), run._number, packed(name)]
    if not parts:
        return []
    sql = f"""SELECT row, avg(mark) AS mean FROM ({" UNION ALL ".join(parts)}) GROUP BY row
        ORDER BY mean {"ASC" if which == "worst" else "DESC"}, row LIMIT ?"""
    with run._database.read() as connection, placed("numbers of rows of run ", run._number):
        for name in scales:
            check_values(connection, run._number, name)
        return [(whole(number), real(mean)) for number, mean in fetched(connection, sql, (*values, limit))]
