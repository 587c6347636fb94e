"""What people say about rows, as it is kept."""

from __future__ import annotations

import sqlite3
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.store.records import Feedback

_INSERT = """INSERT INTO feedback (run, row, evaluator, author, value, passed, note, created)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, row, evaluator, author) DO UPDATE SET
    value = excluded.value, passed = excluded.passed, note = excluded.note, created = excluded.created"""
_SELECT = """SELECT row, evaluator, author, value, passed, note, created FROM feedback
    WHERE run = ? AND row BETWEEN ? AND ? ORDER BY row, evaluator, author"""


def add(connection: sqlite3.Connection, bound: tuple[Any, ...], run: str) -> None:
    """Keeps feedback, as it is bound to a statement."""
    try:
        connection.execute(_INSERT, bound)
    except sqlite3.IntegrityError as error:
        raise InputError(f"feedback must be on a stored row but row {bound[1]} is not in run {run}") from error


def between(connection: sqlite3.Connection, run: int, first: int, last: int) -> list[Feedback]:
    """Returns the feedback on rows from ``first`` to ``last``."""
    return [Feedback.kept(row) for row in connection.execute(_SELECT, (run, first, last))]
