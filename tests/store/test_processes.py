"""Several processes, processes that are killed, and leases of processes that are gone."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.errors import LeaseError
from valor_gpu.store import Store, StoredRow, StoredScore, StoreError, leases

HEAD = """
import os, sys, time
from valor_gpu.store import LeaseError, Store, StoredRow, StoredScore
def row(n): return StoredRow(n, f"key {n}", {"question": "q" * 50}, {"answer": f"answer {n}"})
store = Store(sys.argv[1])
"""
WRITER = """
run = store.create_run(sys.argv[2], {})
with run.lease():
    print("ready", flush=True)
    sys.stdin.readline()
    for n in range(1, 301):
        run.add_rows([row(n)])
        run.add_scores([StoredScore(n, "m", 0, float(n))])
    run.finish("finished", {})
"""
RESUMED = """
run = store.run("r")
with run.lease() as lease:
    print("resumed" if lease.taken_over else "began", flush=True)
    after = run.rows(after=0, limit=10000)
    for n in range(len(after) + 1, 2001):
        if n > int(sys.argv[2]):
            time.sleep(600)  # until it is killed
        run.add_rows([row(n)])
        run.add_scores([StoredScore(n, "free", 0, 1.0), StoredScore(n, "paid", 0, float(n))])
    for n, name, repeat in run.missing(["free", "paid"]):
        run.add_scores([StoredScore(n, name, repeat, 1.0 if name == "free" else float(n))])
    run.finish("finished", {})
"""
HOLDER = """
run = store.run("r")
with run.lease():
    print(os.getpid(), flush=True)
    sys.stdin.readline()
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", "-c", HEAD + program, *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> int:
    process.communicate("\n")
    return process.returncode


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def integrity(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return (
            connection.execute("PRAGMA integrity_check").fetchall()
            + connection.execute("PRAGMA foreign_key_check").fetchall()
        )
    finally:
        connection.close()


def test_processes_make_one_file_and_write_to_it_at_once(tmp_path: Path) -> None:
    path = tmp_path / "new" / "store.sqlite"
    writers = [start(WRITER, path, f"run {n}") for n in range(3)]
    assert [said(writer) for writer in writers] == ["ready"] * 3
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    assert [end(writer) for writer in writers] == [0, 0, 0]
    with Store(path) as store:
        for n in range(3):
            run = store.run(f"run {n}")
            assert (run.state, run.counts(), run.summary()["m"].mean) == ("finished", {"ok": 300}, 150.5)
    assert integrity(path) == [("ok",)]


def test_a_killed_run_resumes_with_no_row_lost_or_doubled(store: Store) -> None:
    run = store.create_run("r", {})
    for kill in range(3):
        seen = len(run.rows(limit=10_000))
        process = start(RESUMED, store.path, seen + 300)
        assert said(process) == ("resumed" if kill else "began")
        deadline = time.monotonic() + 120
        while len(run.rows(limit=10_000)) < seen + 100 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        os.waitid(
            os.P_PID, process.pid, os.WEXITED | os.WNOWAIT
        )  # ended, and still in the table: a zombie is gone, too
        assert integrity(store.path) == [("ok",)]
        with run.lease() as lease:
            assert lease.taken_over
            kept = run.rows(limit=10_000)
            assert [row.number for row in kept] == list(range(1, len(kept) + 1)) and len(kept) < 2000
            missing = list(run.missing(["free", "paid"]))  # each kill leaves one row at most without its two scores
            rows = sorted({number for number, _, _ in missing})
            assert missing == [(row, name, 0) for row in rows for name in ("free", "paid")] and len(rows) <= kill + 1
        process.communicate()
        with store._database.write() as connection:  # as the killed one left it
            started = "0"
            values = (run._number, "old", process.pid, started, leases.machine(), time.time())
            connection.execute("INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?)", values)
    assert end(start(RESUMED, store.path, 2000)) == 0
    assert [row.outputs for row in run.stream_rows()] == [{"answer": f"answer {n}"} for n in range(1, 2001)]
    assert [(score.row, score.value) for score in run.scores("paid")] == [(n, float(n)) for n in range(1, 2001)]
    assert run.state == "finished"


@pytest.mark.parametrize(("ago", "alive"), [(5, True), (3600, False), (-5, True), (-3600, False)])
def test_a_heartbeat_of_another_machine_counts_near_to_now(ago: float, alive: bool) -> None:
    assert leases.lives(1, "1", "elsewhere", time.time() - ago) == alive


def test_a_run_has_one_owner_that_lives(store: Store) -> None:
    run = store.create_run("r", {})
    holder = start(HOLDER, store.path)
    pid = said(holder)
    for write in (
        lambda: run.lease().__enter__(),
        lambda: run.add_rows([]),
        lambda: run.finish("failed", {}),
    ):
        with pytest.raises(LeaseError, match=f"run {run.id} is worked on by process {pid}, last heard of . s ago"):
            write()
    run.delete()
    assert store.purge(0) == 0  # not while it is worked on
    run.undelete()
    assert end(holder) == 0
    with run.lease() as lease:
        assert not lease.taken_over
        with pytest.raises(LeaseError, match="is worked on by this process"), store.run("r").lease():
            pass
        assert run.add_rows([StoredRow(1, "a", {})]) == 1
    with run.lease():
        assert run.state == "running"
    run.finish("stopped", {})


@pytest.mark.parametrize(
    ("pid", "started", "machine", "silent", "gone"),
    [
        (os.getppid(), "1", None, 0, True),  # the number was given again
        (os.getppid(), None, None, 1e6, False),  # stopped for long, and alive
        (os.getppid(), "", None, 10, False),
        (os.getppid(), "", None, 100, True),  # no start time is known: the number alone says nothing
        (2**22 + 1, "1", None, 0, True),
        (os.getppid(), None, "elsewhere", 10, False),
        (os.getppid(), None, "elsewhere", 100, True),
        (2**22 + 1, "1", "elsewhere", 10, False),
    ],
)
def test_who_counts_as_gone(
    store: Store,
    pid: int,
    started: str | None,
    machine: str | None,
    silent: float,
    gone: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leases, "WATCH", 0.01)
    run = store.create_run("r", {})
    began = leases.start_time(pid) if started is None else started
    with store._database.write() as connection:
        values = (run._number, "old", pid, began, machine or leases.machine(), time.time() - silent)
        connection.execute("INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?)", values)
    if gone:
        with run.lease() as lease:
            assert lease.taken_over
    else:
        with pytest.raises(LeaseError, match=f"is worked on by process {pid}"), run.lease():
            pass


def test_an_owner_that_lost_its_lease_writes_nothing_more(store: Store) -> None:
    run = store.create_run("r", {})
    with run.lease() as lease:
        with store._database.write() as connection:
            connection.execute("UPDATE leases SET token = 'another'")
        with pytest.raises(LeaseError, match="is no longer leased by this process: another one took it over"):
            run.add_rows([StoredRow(1, "a", {})])
        with pytest.raises(LeaseError, match="is no longer leased"):
            lease.renew()
    with store._database.read() as connection:
        assert connection.execute("SELECT token FROM leases").fetchall() == [("another",)]
    assert run.rows() == []


@pytest.mark.parametrize("hours", [-5, 5])
def test_a_clock_that_is_set_loses_no_lease(store: Store, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    run = store.create_run("r", {})
    with run.lease() as lease:
        real = time.time
        monkeypatch.setattr("time.time", lambda: real() + 3600 * hours)
        lease.renew()
        assert (store.owner(run) or "").startswith("this process, last heard of ")
        with pytest.raises(LeaseError, match="is worked on by this process"), store.run(run.id).lease():
            pass
        assert end(start("sys.exit(store.owner(store.run('r')) is None)", store.path)) == 0, (
            "as another process sees it"
        )
        run.add_rows([StoredRow(1, "a", {})])
    assert store.owner(run) is None


def test_heartbeats_are_sent(store: Store) -> None:
    run = store.create_run("r", {})
    with leases.Lease(store._database, run._number, run.id, heartbeat=0.01):
        seen = set()
        deadline = time.monotonic() + 30
        while len(seen) < 3 and time.monotonic() < deadline:
            with store._database.read() as connection:
                seen.add(connection.execute("SELECT heartbeat FROM leases").fetchone()[0])
            time.sleep(0.005)
    assert len(seen) == 3


def test_threads_take_turns(store: Store) -> None:
    run = store.create_run("r", {})

    def write(first: int) -> None:
        for n in range(first, first + 50):
            run.add_rows([StoredRow(n, str(n), {})])
            assert run.rows(limit=1)

    threads = [threading.Thread(target=write, args=(1 + 50 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [row.number for row in run.stream_rows()] == list(range(1, 201))


def test_a_reader_sees_one_state_while_others_write(store: Store) -> None:
    run = store.create_run("r", {})
    run.add_rows(StoredRow(n, str(n), {}) for n in range(1, 2500))
    seen = 0
    for row in run.stream_rows():
        seen += 1
        if row.number == 1:
            run.add_rows([StoredRow(2500, "last", {})])
    assert seen == 2500
    with Store(store.path, busy=0.05) as impatient, store._database.write():
        with pytest.raises(StoreError, match=r"another process has locked it for 0.05 s"):
            impatient.create_run("r", {})
        assert len(impatient.run("r").rows()) == 100  # readers do not wait


FORKED = """
import signal
run = store.create_run("r", {})
with store._database.read():  # the child gets a lock that is taken and a connection in a transaction
    child = os.fork()
    if not child:
        signal.alarm(10)
        run.add_rows([row(1)])
        os._exit(0)
assert os.waitpid(child, 0)[1] == 0
run.add_rows([row(2)])
assert len(run.rows()) == 2
"""


def test_a_forked_process_opens_the_file_again(tmp_path: Path) -> None:
    assert end(start(FORKED, tmp_path / "s.sqlite")) == 0
    assert integrity(tmp_path / "s.sqlite") == [("ok",)]


SURVIVED = """
run = store.create_run("r", {})
ready, go = os.pipe(), os.pipe()
if not (child := os.fork()):
    run.add_rows([row(1)])
    os.write(ready[1], b".")
    os.read(go[0], 1)  # until the parent has closed the file
    run.add_rows([row(2)])
    os._exit(0)
os.read(ready[0], 1)
store.close()
os.write(go[1], b".")
assert os.waitpid(child, 0)[1] == 0
"""


def test_what_a_forked_process_writes_outlives_the_close_of_its_parent(tmp_path: Path) -> None:
    assert end(start(SURVIVED, tmp_path / "s.sqlite")) == 0
    with Store(tmp_path / "s.sqlite") as store:
        assert [row.number for row in store.run("r").rows()] == [1, 2]


LEFT = """
run = store.create_run("r", {})
with run.lease():
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    if child:
        run.add_rows([row(1)])
os._exit(0)
"""


def test_a_forked_process_that_leaves_the_lease_does_not_end_it(tmp_path: Path) -> None:
    assert end(start(LEFT, tmp_path / "s.sqlite")) == 0


LIMITED = """
import resource
from valor_gpu.store import StoreError
run = store.create_run("r", {})
run.add_rows([row(1)])
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
n = 1
try:
    while True:
        run.add_rows([row(n + 1)])
        n += 1
except StoreError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert len(run.rows(limit=10000)) == n, n
run.add_rows([row(n + 1)])
"""


def test_a_file_that_may_grow_no_further_keeps_what_it_has(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    process = start(LIMITED, tmp_path / "s.sqlite")
    message = said(process)
    assert end(process) == 0
    assert message.startswith(f"store {tmp_path / 's.sqlite'} ")
    assert integrity(tmp_path / "s.sqlite") == [("ok",)]


@pytest.mark.slow
def test_a_hundred_thousand_rows_and_three_hundred_thousand_scores(store: Store) -> None:
    """Complete and paged; how long it takes is in the documentation, not asserted."""
    run = store.create_run("large", {})
    with run.lease():
        for first in range(1, 100_001, 1000):
            numbers = range(first, first + 1000)
            run.add_rows(StoredRow(n, f"k{n}", {"q": f"question {n}"}, {"a": f"answer {n}"}) for n in numbers)
            run.add_scores(StoredScore(n, name, 0, n % 5 + 1.0) for n in numbers for name in ("a", "b", "c"))
    assert {name: (one.n, one.mean) for name, one in run.summary().items()} == dict.fromkeys("abc", (100_000, 3.0))
    assert [row.number for row in run.rows(after=99_900)] == list(range(99_901, 100_001))
    lowest = run.score_page("b", limit=100)
    assert [score.row for score in lowest] == list(range(5, 505, 5))
    assert list(run.missing(["a", "b", "c"])) == []
