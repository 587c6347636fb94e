"""A disk that is full: the run ends with a plain word, its log harms nobody, and it goes on when there is room."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.pages import client, text_of
from valor_gpu.errors import StoreError
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.store import Run, Store
from valor_gpu.web.processes import jobs, worker
from valor_gpu.web.processes.masking import Log

FULL = "store s.sqlite cannot be written: database or disk is full"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "s.sqlite") as found:
        yield found


@pytest.fixture
def run(store: Store) -> Run:
    return store.create_run("books", {"version": 1, "evaluators": [], "data": {"source": "x.csv"}})


@pytest.fixture
def fill(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Fills the disk: nothing can be written into the store from then on."""

    def full(*_: Any, **__: Any) -> Any:
        raise StoreError(FULL)

    return lambda: monkeypatch.setattr(store._database, "write", full)


def breaks_off(store: Store, run: Run, fill: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> int:
    """Ends as the process of a run does whose disk is full before it has said a word."""

    def resume(*_: Any) -> None:
        with run.lease():
            fill()
            raise StoreError(FULL)

    monkeypatch.setattr(worker, "resume_run", resume)
    return worker._work(store, run, Secrets())


def test_the_log_has_the_reason_in_a_line(
    store: Store,
    run: Run,
    fill: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert breaks_off(store, run, fill, monkeypatch) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(f"run {run.id} broke off: StoreError: {FULL}")


def test_the_page_has_the_last_words_of_the_process(
    store: Store,
    run: Run,
    fill: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    browser = client(store.path)
    begun = f"2026-11-28 01:00:00 process 7 works on run {run.id}\n"
    breaks_off(store, run, fill, monkeypatch)
    jobs.log_path(store, run.id).write_text(begun + capsys.readouterr().err)
    shown = text_of(browser.get(f"/runs/{run.id}"))
    assert f"{jobs.GONE} Its last words: StoreError: {FULL}" in shown
    with jobs.log_path(store, run.id).open("a") as log:
        log.write(begun)
    shown = text_of(browser.get(f"/runs/{run.id}"))
    assert jobs.GONE in shown and "last words" not in shown, "these were of an earlier process"


def test_the_process_goes_on_with_its_run_when_there_is_room(
    store: Store, run: Run, fill: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        breaks_off(store, run, fill, patched)
        patched.undo()
        monkeypatch.undo()
    with store._database.read() as connection:
        assert connection.execute("SELECT count(*) FROM leases").fetchone() == (1,), "it could not be given back"
    assert store.owner(run) is None
    with run.lease() as lease:
        assert lease.taken_over and store.owner(run) is not None
    assert store.owner(run) is None


def test_a_run_that_cannot_begin_says_why_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for store, said in ((tmp_path / "folder", "is a directory"), (tmp_path / "s.sqlite", "no run with the id")):
        program = [sys.executable, "-m", "valor_gpu.web.processes.worker", str(store), "gone"]
        ended = subprocess.run(program, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1 and ended.stderr.count("\n") == 1
        assert " run gone broke off: " in ended.stderr and said in ended.stderr


PRINTS = """
import os, resource
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.web.processes.masking import masked_output
resource.setrlimit(resource.RLIMIT_FSIZE, (4_000, resource.RLIM_INFINITY))
with masked_output(Secrets()):
    for n in range(20_000):
        print("line", n)
        os.write(1, b"below Python\\n")
"""


def test_who_prints_does_not_notice_a_log_that_is_full(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        ended = subprocess.run([sys.executable, "-c", PRINTS], stderr=log, timeout=60)
    assert ended.returncode == 0
    assert len((tmp_path / "log").read_bytes()) == 4_000


def test_the_log_says_how_many_lines_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room, kept = [8], b""

    def write(_: int, text: bytes) -> int:
        nonlocal kept
        if not room[0]:
            raise OSError(28, "No space left on device")
        written = text[: room[0]]
        kept, room[0] = kept + written, room[0] - len(written)
        return len(written)

    monkeypatch.setattr("valor_gpu.web.processes.masking.os.write", write)
    log = Log(1)
    for line in (b"first\n", b"second\n", b"third\n"):
        log.write(line)
    room[0] = 1000
    log.write(b"fourth\n")
    log.write(b"fifth\n")
    expected = "first\nse\n(2 lines are left out here, since this file could not be written: No space left on device)\n"
    assert kept.decode() == expected + "fourth\nfifth\n"
