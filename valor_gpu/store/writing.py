"""Statements that write rows and scores of a run, within a transaction of the caller."""

from __future__ import annotations

import sqlite3
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.store import search
from valor_gpu.store.clashes import check_row_keys, clash
from valor_gpu.store.records import CHECKED_ROW, OK, SCORE_COLUMNS
from valor_gpu.store.replaced import keep_spending, seal_replaced
from valor_gpu.store.totals import forget_totals

# A replaced row gets a new id, so that rows which came or changed since an id was the last are those behind it.
_INSERT_ROW = f"""INSERT INTO rows (run, {CHECKED_ROW}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (run, number) DO UPDATE SET id = (SELECT max(id) + 1 FROM rows), inputs = excluded.inputs,
    outputs = excluded.outputs, status = excluded.status, error = excluded.error, checksum = excluded.checksum
    WHERE rows.status <> '{OK}' AND rows.key = excluded.key"""
_INSERT_SCORE = f"""INSERT INTO scores (run, {SCORE_COLUMNS}, checksum, again)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?5)
    ON CONFLICT (run, row, evaluator, repeat) DO UPDATE SET value = excluded.value, status = excluded.status,
    reason = excluded.reason, level = excluded.level, details = excluded.details, usage = excluded.usage,
    seconds = excluded.seconds, checksum = excluded.checksum, again = excluded.again WHERE scores.value IS NULL"""

Bound = list[tuple[Any, ...]]


def insert_rows(connection: sqlite3.Connection, run: int, uid: str, bound: Bound) -> int:
    """Keeps rows, and returns how many are new or replaced; see :meth:`valor_gpu.store.Run.add_rows`.

    Args:
        connection: within a transaction that writes.
        run: number of the run.
        uid: id of the run.
        bound: rows as they are bound to a statement.
    """
    search.forget(connection, run)
    forget_totals(connection, run)
    before = keep_spending(connection, run, bound)
    try:
        changed = connection.executemany(_INSERT_ROW, bound).rowcount if bound else 0
    except sqlite3.IntegrityError as error:
        raise InputError(f"keys of rows must differ within a run but {clash(connection, run, uid, bound)}") from error
    if changed < len(bound):
        check_row_keys(connection, run, bound)
    if before is not None:
        seal_replaced(connection, run, before)
    return changed


def insert_scores(connection: sqlite3.Connection, run: int, bound: Bound) -> int:
    """Keeps scores, and returns how many are new or replaced; see :meth:`valor_gpu.store.Run.add_scores`."""
    if not bound:
        return 0
    forget_totals(connection, run)
    last = connection.execute("SELECT max(id) FROM replaced WHERE run = ?", (run,)).fetchone()[0] or 0
    changed = connection.executemany(_INSERT_SCORE, bound).rowcount
    seal_replaced(connection, run, last)
    return changed
