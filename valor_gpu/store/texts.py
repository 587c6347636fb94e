"""Rows with their scores as the store keeps them, JSON as text: what files of a run are put together from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from valor_gpu.store.records import ROW_COLUMNS, SCORE_COLUMNS
from valor_gpu.store.runs import Run

PAGE = 500  # rows whose scores are in memory at once
_ROWS = f"SELECT {ROW_COLUMNS} FROM rows WHERE run = ? AND number > ? ORDER BY number LIMIT ?"
_SCORES = f"""SELECT {SCORE_COLUMNS} FROM scores
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
            rows = connection.execute(_ROWS, (number, after, PAGE)).fetchall()
            if not rows:
                return
            after = rows[-1][0]
            scores = connection.execute(_SCORES, (number, rows[0][0], after)).fetchall()
        found: dict[int, list[Kept]] = {}
        for score in scores:
            found.setdefault(score[0], []).append(score)
        for row in rows:
            yield row, found.get(row[0], ())
