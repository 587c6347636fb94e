"""Damages a copy of a store, and holds what is found against what lay in it before."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.store.full_store import TABLES, records
from valor_gpu.store.damages import Report

PAGE = 4096
KINDS = ("bytes", "many bytes", "zeros", "noise", "swap", "cut")
KEYED = ("evaluator_contents", "evaluator_versions", "datasets", "views")
"""Tables without an index that would name what is gone without a fault, as behind a swapped page."""
Records = Mapping[str, Mapping[Any, tuple[Any, ...]]]


def damaged(content: bytes, kind: str, seed: int) -> bytes:
    """The content of a file with a damage."""
    draw, found = random.Random(seed), bytearray(content)
    pages = len(found) // PAGE
    if kind in ("bytes", "many bytes"):
        for _ in range(draw.choice((1, 5)) if kind == "bytes" else 50):
            found[draw.randrange(100, len(found))] = draw.randrange(256)
    elif kind in ("zeros", "noise"):
        for page in draw.sample(range(1, pages), draw.choice((1, 3, 10))):
            found[page * PAGE : (page + 1) * PAGE] = bytes(PAGE) if kind == "zeros" else draw.randbytes(PAGE)
    elif kind == "swap":
        first, second = (slice(page * PAGE, (page + 1) * PAGE) for page in draw.sample(range(1, pages), 2))
        found[first], found[second] = found[second], found[first]
    else:
        del found[draw.randrange(100, len(found)) :]
    return bytes(found)


def read_one_by_one(path: Path, table: str, whole: Mapping[Any, tuple[Any, ...]]) -> set[Any]:
    """Keys of the records that SQLite reads by their id as they were."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
    connection.text_factory = bytes
    connection.execute("PRAGMA writable_schema = ON")
    found = set()
    for key, record in whole.items():
        try:
            columns = connection.execute(f"SELECT * FROM {table} NOT INDEXED WHERE rowid = ?", key).fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError):  # of a message that quotes the file
            continue
        if columns is not None and columns[: len(record)] == record:
            found.add(key)
    connection.close()
    return found


def differences(before: Records, new: Path, report: Report) -> dict[str, tuple[set[Any], int]]:
    """Table to keys of the records that a new store lacks, and how many of them the report does not count."""
    after = records(new)
    found = {}
    for table in TABLES:
        lacking = set(before[table]) - set(after[table])
        fewer = len(before[table]) - len(after[table])  # a damaged id is another key of a record that is saved
        unsaid = 0 if table in (*report.unknown, *KEYED) else fewer - report.lost.get(table, 0)
        if lacking:
            found[table] = lacking, unsaid
    return found
