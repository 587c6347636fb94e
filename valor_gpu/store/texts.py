"""Rows with their scores as the store keeps them, JSON as text: what files of a run are put together from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from valor_gpu.store.checksums import fetched
from valor_gpu.store.records import CHECKED_ROW, CHECKED_SCORE, whole_rows, whole_scores
from valor_gpu.store.runs import Run
from valor_gpu.store.totals import check_scores

PAGE = 500  # rows whose scores are in memory at once
_ROWS = f"SELECT {CHECKED_ROW} FROM rows WHERE run = ? AND number > ? ORDER BY number LIMIT ?"
_SCORES = f"""SELECT {CHECKED_SCORE} FROM scores
    WHERE run = ? AND row BETWEEN ? AND ? ORDER BY row, evaluator, repeat"""

Kept = tuple[Any, ...]


def kept_rows(run: Run) -> Iterator[tuple[Kept, Sequence[Kept]]]:
    """Yields every row in the order of the numbers, with its scores by evaluator and repeat, a page at a time.

    Args:
        run: of a store.

    Yields:
        Values that :meth:`StoredRow.kept` takes, and a sequence of values that :meth:`StoredScore.kept` takes.

    Example:
        >>> import tempfile
        >>> from valor_gpu.store import Store, StoredRow, StoredScore
        >>> with tempfile.TemporaryDirectory() as folder, Store(folder + "/store.sqlite") as store:
        ...     run = store.create_run("capitals", {})
        ...     added = run.add_rows([StoredRow(1, "fr", {"question": "France?"})])
        ...     added = run.add_scores([StoredScore(1, "exact_match", 0, 1.0)])
        ...     list(kept_rows(run))[0][0]
        (1, 'fr', '{"question": "France?"}', '{}', 'ok', '')
    """
    database, number, after = run._database, run._number, 0
    while True:
        with database.read() as connection:  # rows and scores of one state
            check_scores(connection, number)
            rows = whole_rows(fetched(connection, _ROWS, (number, after, PAGE)), number)
            if not rows:
                return
            after = rows[-1][0]
            scores = whole_scores(fetched(connection, _SCORES, (number, rows[0][0], after)), number)
        found: dict[int, list[Kept]] = {}
        for score in scores:
            found.setdefault(score[0], []).append(score[:-1])
        for row in rows:
            yield row[:-1], found.get(row[0], ())
