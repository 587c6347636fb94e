"""Stores that can be read alone: everything reads, writing says why it cannot, and nothing is left beside the file."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import StoreError
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.schema import MIGRATIONS, migrate

READER = """
import json, os, sys
from valor_gpu.store import Store, StoredRow, StoreError
if os.geteuid() == 0:  # root may write to any file
    os.setuid(65534)
said = {}
try:
    with Store(sys.argv[1]) as store:
        run = store.run("books")
        said["rows"] = [row.outputs for row in run.stream_rows()]
        said["mean"] = run.summary()["m"].mean
        for write in (lambda: store.create_run("r", {}), run.delete, lambda: run.add_rows([StoredRow(9, "9", {})])):
            try:
                write()
            except StoreError as error:
                said.setdefault("refused", []).append(str(error))
except StoreError as error:
    said["error"] = str(error)
print(json.dumps(said))
"""
REFUSED = "cannot be written: the file or its folder is read-only"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that other users can enter."""
    with tempfile.TemporaryDirectory() as found:
        yield Path(found)
        Path(found).chmod(0o755)


def fill(store: Store) -> None:
    run = store.create_run("books", {})
    run.add_rows([StoredRow(n, str(n), {}, {"answer": n}) for n in range(1, 4)])
    run.add_scores([StoredScore(n, "m", 0, float(n)) for n in range(1, 4)])


def read(folder: Path, mode: int) -> dict[str, Any]:
    """What another user reads and is told."""
    (folder / "s.sqlite").chmod(0o444)
    folder.chmod(mode)
    command = [sys.executable, "-c", READER, str(folder / "s.sqlite")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("mode", [0o777, 0o555])
def test_another_user_reads_and_leaves_nothing_behind(folder: Path, mode: int) -> None:
    with Store(folder / "s.sqlite") as store:
        fill(store)
    before = (folder / "s.sqlite").read_bytes()
    found = read(folder, mode)
    assert found["rows"] == [{"answer": 1}, {"answer": 2}, {"answer": 3}] and found["mean"] == 2.0
    assert len(found["refused"]) == 3 and all(REFUSED in each for each in found["refused"])
    assert [each.name for each in folder.iterdir()] == ["s.sqlite"]
    assert (folder / "s.sqlite").read_bytes() == before


def test_what_is_written_last_is_not_silently_left_out(folder: Path) -> None:
    with Store(folder / "s.sqlite") as store:
        fill(store)
        assert (folder / "s.sqlite-wal").stat().st_size > 0
        for ending in ("-wal", "-shm"):
            (folder / f"s.sqlite{ending}").chmod(0o600)
        found = read(folder, 0o555)
        if os.geteuid():  # the owner may read the log, and does
            assert found["rows"]
        else:
            assert "rows" not in found
            assert "cannot be read: it is read-only, and what was written last is in s.sqlite-wal" in found["error"]


HALF = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode = DELETE")  # as on a file system where SQLite cannot have a log of its own
connection.execute("PRAGMA cache_size = 2")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE rows SET outputs = replace(outputs, 'x', 'y')")
for number in range(10, 20):  # more than the cache holds, so that the file gets a part of it
    values = (number, f"{number}", "z" * 9000)
    connection.execute("INSERT INTO rows VALUES (NULL, 1, ?, ?, '{}', ?, 'ok', '', NULL)", values)
os._exit(9)
"""


def test_a_transaction_that_did_not_end_is_not_read(folder: Path) -> None:
    with Store(folder / "s.sqlite") as store:
        fill(store)
        store.run("books").add_rows([StoredRow(n, str(n), {}, {"answer": "x" * 2000}) for n in range(4, 8)])
    assert subprocess.run([sys.executable, "-c", HALF, str(folder / "s.sqlite")], check=False).returncode == 9
    assert "y" * 2000 in (folder / "s.sqlite").read_bytes().decode(errors="replace")
    (folder / "s.sqlite-journal").chmod(0o444)
    found = read(folder, 0o555)
    assert "rows" not in found
    assert (
        "cannot be read: it is read-only, and a transaction that did not end is in s.sqlite-journal" in found["error"]
    )
    folder.chmod(0o755)
    (folder / "s.sqlite").chmod(0o600)
    (folder / "s.sqlite-journal").chmod(0o600)
    with Store(folder / "s.sqlite") as store:
        assert store.run("books").rows()[3].outputs == {"answer": "x" * 2000}


@pytest.fixture
def still(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of three rows that this process may not write to."""
    with Store(folder / "s.sqlite") as store:
        fill(store)
    monkeypatch.setattr("valor_gpu.store.database._may_write", lambda path: False)
    return folder / "s.sqlite"


def rename(path: Path, name: str) -> None:
    """Writes as another machine does that has the file, and brings it all into the file itself."""
    time.sleep(0.02)  # more than a tick of the clock of the file system
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE runs SET name = ?", (name,))
    connection.close()


def test_a_file_that_is_changed_meanwhile_is_an_error_then_read_anew(still: Path) -> None:
    with Store(still) as store:
        assert [run.name for run in store.runs()] == ["books"]
        with pytest.raises(StoreError, match="was changed meanwhile: read it again"), store._database.read():
            rename(still, "films")
        assert [run.name for run in store.runs()] == ["films"]
        rename(still, "maps")
        assert [run.name for run in store.runs()] == ["maps"]


def test_a_file_that_can_be_written_again_is(still: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(still) as store:
        with pytest.raises(StoreError, match=REFUSED):
            store.create_run("r", {})
        monkeypatch.undo()
        store.create_run("r", {})
        assert len(store.runs()) == 2


def test_an_older_file_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.sqlite"
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, str(path), MIGRATIONS[:2])
    connection.close()
    monkeypatch.setattr("valor_gpu.store.database._may_write", lambda path: False)
    with pytest.raises(StoreError, match=r"is of an older version and cannot be written, .*: copy it to a folder"):
        Store(path)
