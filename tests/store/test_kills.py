"""Processes that are killed within deletions, purges, migrations: the store is as before or after, never between."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import seeds
from tests.store.full_store import fill, records
from valor_gpu.store import Store, StoredRow
from valor_gpu.store.checking import check
from valor_gpu.store.schema import MIGRATIONS, migrate

KILLED = """
import os, signal, sqlite3, sys
path, work, kill = sys.argv[1], sys.argv[2], int(sys.argv[3])
from valor_gpu.store import Store, StoredRow
from valor_gpu.store.schema import MIGRATIONS
steps = 0
def step(*statement):
    global steps
    steps += 1
    if steps == kill or (kill < 0 and statement and "'merge'" in statement[0]):
        os.kill(os.getpid(), signal.SIGKILL)
connect = sqlite3.connect
def traced(*arguments, **options):
    connection = connect(*arguments, **options)
    connection.set_trace_callback(step)  # each statement
    if work != "migrate":
        connection.set_progress_handler(step, 300)
    return connection
if work == "migrate":
    sqlite3.connect = traced
    Store(path).close()
else:
    with Store(path) as store:
        runs = store.runs(deleted=work == "purge")
        sqlite3.connect = traced
        store._database._disconnect()
        if work == "delete":
            runs[-1].delete()
        else:
            store.purge(-1)
print(steps)
"""


WORDS = -1
"""Stands for the step that takes the words of a purged run out of the index."""


def killed(path: Path, work: str, kill: int) -> int | None:
    """Runs a program that is killed at a step; how many steps it made where it ended before."""
    command = [sys.executable, "-c", KILLED, str(path), work, str(kill)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def integrity(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    found = connection.execute("PRAGMA integrity_check").fetchall()
    found += connection.execute("PRAGMA foreign_key_check").fetchall()
    connection.close()
    return found


def points(path: Path, work: str, copy: Path, n: int) -> list[int]:
    """Steps of some work at which it is killed, spread over all of it."""
    copy.write_bytes(path.read_bytes())
    total = killed(copy, work, 0) or 0
    assert total > 0
    return sorted({1, total, *(1 + place * total // n for place in range(n))})


def marked(folder: Path) -> Path:
    path = folder / "whole.sqlite"
    fill(path, 60)
    with Store(path) as store:
        run = store.run("first")
        run.add_rows([StoredRow(62, "q", {"question": "quokka"})])
        run.finish("finished", {})
        run.delete()
    return path


def words(path: Path) -> bool:
    """Whether the index has a word that the purged run alone had."""
    connection = sqlite3.connect(path)
    blocks = b"".join(block for (block,) in connection.execute("SELECT block FROM row_words_data"))
    connection.close()
    return b"okka" in blocks  # which keeps what differs from the word before


def test_a_purge_that_is_killed_goes_on(tmp_path: Path) -> None:
    whole, path = marked(tmp_path), tmp_path / "s.sqlite"
    kills = [*points(whole, "purge", path, len(seeds(5))), WORDS]
    after = records(path)
    states, open_words = set(), 0
    for kill in kills:
        for ending in ("-wal", "-shm"):
            (tmp_path / f"s.sqlite{ending}").unlink(missing_ok=True)
        path.write_bytes(whole.read_bytes())
        assert killed(path, "purge", kill) is None
        assert integrity(path) == [("ok",)] and check(path).is_whole
        with Store(path) as store:
            left = [run.name for run in store.runs(deleted=True)]
            assert left in ([], ["first"]) and {run.name for run in store.runs()} == {"second", "going on"}
            states.add(bool(left))
            if left:
                assert len(list(store.run(store.runs(deleted=True)[0].id).stream_rows())) == 62
            open_words += words(path) and not left
            assert store.purge(-1) == len(left) and store.runs(deleted=True) == []
            assert len(store.run("second").search("liegt", limit=999).rows) == 60
        assert records(path) == after and not words(path)
    assert states == {True, False} and open_words  # kills before, within and behind the removal of words


def test_a_deletion_that_is_killed_is_made_or_not(tmp_path: Path) -> None:
    whole, path = tmp_path / "whole.sqlite", tmp_path / "s.sqlite"
    fill(whole, 10)
    command = KILLED.replace("set_progress_handler(step, 300)", "set_progress_handler(step, 1)")
    before = records(whole)
    for kill in range(1, 2000, 60):
        for ending in ("-wal", "-shm"):
            (tmp_path / f"s.sqlite{ending}").unlink(missing_ok=True)
        path.write_bytes(whole.read_bytes())
        done = subprocess.run(
            [sys.executable, "-c", command, str(path), "delete", str(kill)], capture_output=True, check=False
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        assert integrity(path) == [("ok",)] and check(path).is_whole
        with Store(path) as store:
            for run in store.runs(deleted=True):
                run.undelete()
        assert {name: kept for name, kept in records(path).items() if name != "runs"} == {
            name: kept for name, kept in before.items() if name != "runs"
        }
        assert [values[:4] for values in records(path)["runs"].values()] == [
            values[:4] for values in before["runs"].values()
        ]
        if done.returncode == 0:
            break
    else:
        pytest.fail("it was never killed late enough to end")


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS)))
def test_a_migration_that_is_killed_at_any_statement_is_made_or_not(tmp_path: Path, version: int) -> None:
    whole, path = tmp_path / "whole.sqlite", tmp_path / "s.sqlite"
    connection = sqlite3.connect(whole, isolation_level=None)
    migrate(connection, str(whole), MIGRATIONS[:version])
    names = "(id, uid, name, state, config, tags, dataset, created)"
    connection.execute(f"INSERT INTO runs {names} VALUES (1, 'r1', 'old', 'running', '{{}}', '{{}}', '', 1.5)")
    for n in range(1, 20):
        connection.execute("INSERT INTO rows (run, number, key, inputs, outputs, status, error)"
                           f" VALUES (1, {n}, 'k{n}', '{{}}', '{{}}', 'ok', '')")  # fmt: skip
        connection.execute("INSERT INTO scores (run, row, evaluator, repeat, value, status, reason, level)"
                           f" VALUES (1, {n}, 'm', 0, {n}, 'ok', '', '')")  # fmt: skip
    connection.close()
    path.write_bytes(whole.read_bytes())
    total = killed(path, "migrate", 0)
    assert total is not None and total > 5
    step = 1 if len(seeds(1)) > 1 else max(1, total // 12)
    versions = set()
    for kill in (*range(1, total, step), total):
        for ending in ("-wal", "-shm", "-journal"):
            (tmp_path / f"s.sqlite{ending}").unlink(missing_ok=True)
        path.write_bytes(whole.read_bytes())
        assert killed(path, "migrate", kill) is None
        connection = sqlite3.connect(path)
        versions.add(connection.execute("PRAGMA user_version").fetchone()[0])
        assert connection.execute("SELECT count(*), sum(value) FROM scores").fetchone() == (19, 190.0)
        connection.close()
        assert integrity(path) == [("ok",)]
        with Store(path) as store:
            run = store.run("old")
            assert run.counts() == {"ok": 19} and run.summary()["m"].mean == 10.0 and run.state == "running"
            with run.lease():
                run.finish("finished", {})
        assert check(path).is_whole and check(path).version == len(MIGRATIONS)
    assert versions == {version, len(MIGRATIONS)}


def test_a_killed_export_leaves_no_new_store(tmp_path: Path) -> None:
    whole = tmp_path / "s.sqlite"
    fill(whole, 60)
    before = whole.read_bytes()
    program = """
import os, signal, sys
from valor_gpu.store import rescue
step = getattr(rescue, sys.argv[3])
def killed(*arguments):
    if sys.argv[4] == "behind":
        step(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(rescue, sys.argv[3], killed)
rescue.export(sys.argv[1], sys.argv[2])
"""
    for name in ("_copied", "_index_words"):
        for when in ("before", "behind"):
            command = [sys.executable, "-c", program, str(whole), str(tmp_path / "new.sqlite"), name, when]
            assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
            assert not (tmp_path / "new.sqlite").exists() and whole.read_bytes() == before
    left = [each for each in os.listdir(tmp_path) if each.startswith("new.sqlite.partial-")]
    assert left and all(each.startswith("new.sqlite.partial-") or each == "s.sqlite" for each in os.listdir(tmp_path))
