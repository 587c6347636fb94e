"""State files of runs, as :mod:`valor_gpu.state_file` writes them: what the numbers of a result came from."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from valor_gpu.errors import InputError
from valor_gpu.store.checksums import check, damage, kind, sealed
from valor_gpu.store.totals import check_count_of

if TYPE_CHECKING:
    from valor_gpu.store.runs import Run

MAGIC = b"VALORSF\n"
"""First bytes of a state file."""
LARGEST_STATE = 512 << 20
"""Bytes of the largest state file that a store keeps; SQLite holds values of up to 10**9 bytes."""


def content_of(path: str | os.PathLike[str]) -> bytes:
    """Returns the content of a state file.

    Raises:
        InputError: the file is another one.
        OSError: it cannot be read.
    """
    content = Path(path).read_bytes()
    if not content.startswith(MAGIC):
        raise InputError(f"state must be a file that save_state wrote but {os.fspath(path)} is another kind of file")
    return content


def keep_state(connection: sqlite3.Connection, run: int, content: bytes) -> None:
    """Keeps the state file of a run, in place of an older one.

    Args:
        connection: within a transaction that writes.
        run: number of the run.
        content: of the file.
    """
    sql = "INSERT OR REPLACE INTO states (run, content, checksum) VALUES (?, ?, ?)"
    connection.execute(sql, sealed((run, content)))


def state_of(run: Run) -> bytes | None:
    """Returns the content of the state file of a run, None where it has none."""
    with run._database.read() as connection:
        check_count_of(connection, "states", run._number)
        row = connection.execute("SELECT content, checksum FROM states WHERE run = ?", (run._number,)).fetchone()
        if row is None:
            return None
        content, kept = row
        place = "state file of run "
        check((run._number, content), kept, place, run._number)
        if type(content) is not bytes:
            raise damage(place, f"it is kept as {kind(content)}", run._number)
        if kept is None and not content.startswith(MAGIC):
            raise damage(place, "it does not begin as one", run._number)
        return content


def too_large(size: int) -> str:
    """Says why a state file of a size is not kept; empty where it is.

    Example:
        >>> too_large(600 << 20)
        'the state is not kept: it has 629 MB and a store keeps up to 537 MB, so give --save-state FILE to compare it'
        >>> too_large(10)
        ''
    """
    if size <= LARGEST_STATE:
        return ""
    return (
        f"the state is not kept: it has {size / 1e6:,.0f} MB and a store keeps up to {LARGEST_STATE / 1e6:,.0f} MB, so"
        " give --save-state FILE to compare it"
    )
