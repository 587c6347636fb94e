"""Runs in processes of their own: they survive the server, end when cancelled, and go on where they were."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import pytest

from tests.judge.server import ChatServer
from tests.web.pages import client, send, text_of
from tests.web.work import KEY, ROWS, Pace, add_run, scores, wait
from valor_gpu.errors import InputError
from valor_gpu.store import Store
from valor_gpu.web.processes import jobs, worker


def test_a_run_finishes_in_its_own_process(path: Path, server: ChatServer, pace: Pace) -> None:
    uid = add_run(path, server)
    with Store(path) as store:
        assert jobs.state_of(store, store.run(uid)) == "draft"
        pid = jobs.start(store, uid)
        assert pid != os.getpid()
        assert jobs.state_of(store, store.run(uid)) == "running"
        wait(lambda: store.run(uid).state == "finished")
        assert scores(store.run(uid)) == ROWS
        wait(lambda: store.views.list(jobs.JOB) == [])
        log = jobs.log_path(store, uid).read_text()
        assert f"run {uid} is finished" in log
        assert KEY not in log
        with pytest.raises(InputError, match=f"run {uid} is finished"):
            jobs.start(store, uid)
    assert sum(pace.asked.values()) == ROWS


def test_cancel_and_resume_by_pages(path: Path, server: ChatServer, pace: Pace) -> None:
    uid, browser = add_run(path, server), client(path)
    pace.allow(3)
    with Store(path) as store:
        jobs.start(store, uid)
        wait(lambda: scores(store.run(uid)) >= 2)
        assert "Running" in text_of(browser.get(f"/runs/{uid}"))
        assert send(browser, f"/runs/{uid}/cancel").status_code == 200
        wait(lambda: jobs.state_of(store, store.run(uid)) == "stopped")
        stored = scores(store.run(uid))
        assert 2 <= stored < ROWS
        page = text_of(browser.get(f"/runs/{uid}"))
        assert "Stopped" in page
        assert "Cancelled in Studio." in page
        assert jobs.log_path(store, uid).read_text().count("is stopped") == 1
        assert "is not running" in text_of(send(browser, f"/runs/{uid}/cancel"))
        pace.allow()
        assert send(browser, f"/runs/{uid}/resume").status_code == 200
        wait(lambda: store.run(uid).state == "finished")
        assert scores(store.run(uid)) == ROWS


def test_kill_of_worker_and_server_loses_nothing(path: Path, server: ChatServer, pace: Pace) -> None:
    uid = add_run(path, server)
    pace.allow(3)
    code = f"import sys, time; from valor_gpu.store import Store; from valor_gpu.web.processes import jobs\n" \
           f"print(jobs.start(Store({str(path)!r}), {uid!r}), flush=True); time.sleep(600)"  # fmt: skip
    with (
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as serving,
        Store(path) as store,
    ):
        assert serving.stdout is not None
        worker = int(serving.stdout.readline())
        wait(lambda: scores(store.run(uid)) >= 2)
        serving.kill()
        serving.wait()
        before = scores(store.run(uid))
        pace.allow(3)
        wait(lambda: scores(store.run(uid)) > before)  # the death of the server does not end the run
        os.kill(worker, signal.SIGKILL)
        wait(lambda: jobs.state_of(store, store.run(uid)) == "stopped")
        assert store.run(uid).state == "running"  # as the killed process left it
        browser = client(path)
        for page in (f"/runs/{uid}", "/runs"):
            assert "The process of the run is gone." in text_of(browser.get(page))
        kept = {(each.row, each.repeat) for each in store.run(uid).scores()}
        assert 0 < len(kept) < ROWS
        asked = Counter(pace.asked)
        pace.allow()
        jobs.start(store, uid)
        wait(lambda: store.run(uid).state == "finished")
        assert scores(store.run(uid)) == ROWS
    again = Counter(pace.asked) - asked
    assert len(again) == ROWS - len(kept)  # no question of a stored row is asked again


def test_a_run_that_cannot_begin_says_why(path: Path, server: ChatServer) -> None:
    uid = add_run(path, server)
    (path.parent / "rows.csv").write_text("question,answer\nother,other\n")
    with Store(path) as store:
        jobs.start(store, uid)
        wait(lambda: jobs.state_of(store, store.run(uid)) == "failed")
    assert "the data have changed" in text_of(client(path).get(f"/runs/{uid}"))


def test_a_run_of_another_program_is_not_cancelled(path: Path, server: ChatServer) -> None:
    uid = add_run(path, server)
    with Store(path) as store, store.run(uid).lease():
        assert jobs.state_of(store, store.run(uid)) == "running"
        assert "which Studio did not start" in text_of(send(client(path), f"/runs/{uid}/cancel"))
        with pytest.raises(InputError, match="is worked on by this process"):
            jobs.start(store, uid)


@pytest.mark.slow
def test_a_second_process_leaves_the_first_one_alone(path: Path, server: ChatServer, pace: Pace) -> None:
    uid = add_run(path, server)
    pace.allow(3)
    with Store(path) as store:
        first = jobs.start(store, uid)
        wait(lambda: scores(store.run(uid)) >= 2)
        noted = store.views.get(jobs.JOB, uid)
        assert not jobs.note_process(store, uid, os.getpid()), "as the second of two clicks does"
        second = subprocess.run(
            [sys.executable, "-m", "valor_gpu.web.processes.worker", str(path), uid], capture_output=True, text=True
        )
        assert second.returncode == 1 and "another one is to work on" in second.stderr
        assert noted is not None and store.views.get(jobs.JOB, uid) == noted and noted["pid"] == first
        jobs.cancel(store, store.run(uid))
        wait(lambda: jobs.state_of(store, store.run(uid)) == "stopped")
        assert store.views.list(jobs.JOB) == store.views.list(jobs.CANCEL) == []


@pytest.mark.slow
def test_what_ends_a_run_early_counts_all_of_its_rows(path: Path, server: ChatServer, pace: Pace) -> None:
    uid = add_run(path, server)
    pace.allow(3)
    with Store(path) as store:
        run = store.run(uid)
        jobs.start(store, uid)
        wait(lambda: scores(run) >= 2)
        jobs.cancel(store, run)
        wait(lambda: jobs.state_of(store, run) == "stopped")
        before = (run.finished_summary or {})["evaluators"]["gpt_coherence"]["n_scores"]
        pace.allow(5)
        worker = jobs.start(store, uid)
        wait(lambda: scores(run) >= before + 2)
        os.kill(worker, signal.SIGKILL)
        wait(lambda: jobs.state_of(store, run) == "stopped")
        (path.parent / "rows.csv").unlink()
        jobs.start(store, uid)
        wait(lambda: run.state == "failed")
        summary = run.finished_summary or {}
        assert summary["evaluators"]["gpt_coherence"]["n_scores"] == scores(run) > before


def test_a_finished_run_goes_on_from_the_start_of_its_next_process(path: Path, server: ChatServer) -> None:
    uid = add_run(path, server)
    with Store(path) as store:
        run = store.run(uid)
        assert jobs.note_process(store, uid, os.getpid())
        with run.lease():
            run.finish("finished", {})
        assert jobs.state_of(store, run) == "finished", "the process that has finished it is about to end"
        assert jobs.changed_states(store, {uid: "finished"}) == {}
        jobs.forget_process(store, uid, os.getpid())
        assert jobs.note_process(store, uid, os.getpid())  # as a click on "Try the 5 failed again" does
        assert jobs.state_of(store, run) == "running"
        assert jobs.changed_states(store, {uid: "finished"}) == {uid: "running"}
        jobs.forget_process(store, uid, os.getpid())
        assert jobs.state_of(store, run) == "finished"


def test_a_warning_is_a_line_of_the_log_with_its_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", worker._warn)
        warnings.warn("a prompt failed 3 times", stacklevel=1)
        warnings.warn("old", FutureWarning, stacklevel=1)
    first, second = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"[0-9-]{10} [0-9:]{8} a prompt failed 3 times", first)
    assert second.endswith(" FutureWarning: old")
