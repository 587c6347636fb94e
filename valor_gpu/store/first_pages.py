"""Reads a store whose header or first page is damaged, by those of an empty store in their place."""

from __future__ import annotations

import contextlib
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from valor_gpu.errors import StoreError
from valor_gpu.store.database import Database

_PAGE = 4096  # bytes of a page of every store
_HEADER = 100  # bytes of SQLite's header, at the start of the first page
_INTERIOR = 5  # type of a page that has the numbers of others
_ID = re.compile(rb"[0-9a-f]{12}")  # of a run


@contextlib.contextmanager
def with_new_head(path: Path) -> Iterator[tuple[Path, str] | None]:
    """Gives a copy of a file, in a folder for temporary files, that can be read as a store.

    The list of tables lies in the same pages of all stores of a version. What stands behind it in the file is read as
    it is, and compared with its checksums.

    Args:
        path: a file that SQLite cannot read.

    Yields:
        the copy and what of it is new, in words; None where the file is no store, or its tables lie elsewhere.

    Raises:
        StoreError: there is no room for the copy.
    """
    with tempfile.TemporaryDirectory(prefix="valor_gpu-") as made:
        folder = Path(made)
        try:
            copy = _copied(path, folder)
            heads = _heads(folder / "empty.sqlite", copy.stat().st_size // _PAGE)
        except OSError as error:
            why = f"{tempfile.gettempdir()}: {error.strerror or error}"
            raise StoreError(
                f"store {path} cannot be read as it is, nor be copied to {why}: set TMPDIR to a folder that has room"
            ) from error
        for what, pages in heads:
            with copy.open("r+b") as file:
                for number, content in pages.items():
                    file.seek(number * _PAGE)
                    file.write(content)
            if _is_store(copy):
                yield copy, what
                return
        yield None


def _copied(path: Path, folder: Path) -> Path:
    """Copies a file and the log beside it, whose pages are newer than those of the file."""
    copy = folder / "copy.sqlite"
    shutil.copyfile(path, copy)
    log = path.with_name(path.name + "-wal")
    if log.exists():
        shutil.copyfile(log, folder / "copy.sqlite-wal")
    return copy


def _heads(empty: Path, pages: int) -> list[tuple[str, dict[int, bytes]]]:
    """Returns what is put in place of the file's beginning, the least first: number of a page to its new content."""
    database = Database(empty)
    database.checkpoint()
    database.close()
    content = empty.read_bytes()
    header = bytearray(content[:_HEADER])
    header[28:32] = pages.to_bytes(4, "big")
    header[32:40] = bytes(8)  # pages that are free: none that is known
    header[60:64] = header[68:72] = bytes(4)  # version and kind, so that the tables alone say them
    first = bytes(header) + content[_HEADER:_PAGE]
    listing = {number - 1: content[(number - 1) * _PAGE : number * _PAGE] for number in _children(content)}
    return [
        ("its header", {0: bytes(header)}),
        ("its first page", {0: first}),
        ("its list of tables", {0: first, **listing}),
    ]


def _children(content: bytes) -> list[int]:
    """Returns the pages that the first page of a file names, which hold its list of tables."""
    if content[_HEADER] != _INTERIOR:
        return []
    cells = int.from_bytes(content[_HEADER + 3 : _HEADER + 5], "big")
    starts = [_HEADER + 12 + 2 * cell for cell in range(cells)]
    places = [int.from_bytes(content[start : start + 2], "big") for start in starts] + [_HEADER + 8]
    return [int.from_bytes(content[place : place + 4], "big") for place in places]


def _is_store(copy: Path) -> bool:
    """Returns whether a file has the tables of a store, and a run."""
    with contextlib.closing(sqlite3.connect(copy)) as connection, contextlib.suppress(sqlite3.Error):
        connection.text_factory = bytes
        connection.execute("PRAGMA writable_schema = ON")
        for table in ("runs", "rows", "scores"):
            connection.execute(f"SELECT 1 FROM {table} LIMIT 0")
        return any(
            isinstance(uid, bytes) and _ID.fullmatch(uid) for (uid,) in connection.execute("SELECT uid FROM runs")
        )
    return False
