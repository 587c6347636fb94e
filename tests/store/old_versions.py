"""Stores as older versions wrote them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from valor_gpu.store import schema


def as_version(path: Path, version: int) -> None:
    """Writes a store anew as a version from 1 to 3 had it; what that version did not know is lost."""
    old = path.with_name("old")
    connection = sqlite3.connect(old, isolation_level=None)
    schema.migrate(connection, str(old), schema.MIGRATIONS[:version])
    connection.execute("ATTACH ? AS new", (str(path),))
    tables = "SELECT name FROM main.sqlite_master WHERE type = 'table' ORDER BY rowid"
    for (table,) in connection.execute(tables).fetchall():
        columns = ", ".join(each[1] for each in connection.execute(f"PRAGMA main.table_info({table})"))
        connection.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")
    connection.execute("UPDATE runs SET indexed = 0")
    connection.close()
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    old.replace(path)
