"""Failures of a finished run tried again: what is offered, what comes of it, and that a try leaves nothing worse."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.judge.server import Answer, ChatServer, Request, failure
from tests.web.pages import client, send, text_of
from tests.web.work import ROWS, add_run, scores, wait
from valor_gpu.cli import main
from valor_gpu.errors import InputError
from valor_gpu.store import Run, Store, StoredRow, StoredScore
from valor_gpu.store.tries import last_try
from valor_gpu.web.processes import jobs

GOOD = '{"reason": "It is so.", "score": 4}'
REJECTED, UNREADABLE = (3, 7), (2, 5, 11)


class Judge:
    """A judge's server that rejects some rows and says nothing usable of others, until it is mended."""

    def __init__(self) -> None:
        self.asked: Counter[int] = Counter()
        self.rejected, self.silent, self.locked = set(REJECTED), False, False

    def __call__(self, request: Request) -> Answer | str:
        text = str(request.body["messages"])
        row = next((n for n in range(ROWS) if f"It is {n}." in text), -1)
        self.asked[row] += 1
        if self.locked:
            return failure(401, "the key was withdrawn")
        if row in self.rejected:
            return failure(400, "this text is not accepted")
        return Answer(hang=True) if self.silent else "no" if row in UNREADABLE else GOOD


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def server(judge: Judge) -> Iterator[ChatServer]:
    with ChatServer(judge) as found:
        yield found


@pytest.fixture
def finished(path: Path, server: ChatServer, judge: Judge) -> str:
    """A finished run with two scores that were rejected, and three whose replies could not be read."""
    uid = add_run(path, server)
    with Store(path) as store:
        jobs.start(store, uid)
        wait(lambda: store.run(uid).state == "finished")
        wait(lambda: store.views.get(jobs.JOB, uid) is None)
    judge.asked.clear()
    return uid


def failures(run: Run) -> Counter[str]:
    return Counter(each.status for each in run.scores() if each.value is None)


AS_BEFORE = {"bad_request": 2, "parse_error": 3}


def test_what_can_be_tried_again_is_tried_and_nothing_else(path: Path, finished: str, judge: Judge) -> None:
    browser = client(path)
    shown = text_of(browser.get(f"/runs/{finished}"))
    assert "5 of 24 scores failed." in shown and "2 of them can be tried again" in shown
    assert "3 replies could not be read: the same judge would say the same" in shown
    assert browser.get(f"/runs/{finished}").text.count("Try the 2 failed again</button>") == 2
    judge.rejected.clear()
    assert send(browser, f"/runs/{finished}/resume").status_code == 200
    with Store(path) as store:
        wait(lambda: store.run(finished).state == "finished" and failures(store.run(finished))["bad_request"] == 0)
        run = store.run(finished)
        assert failures(run) == {"parse_error": 3} and scores(run) == ROWS
        assert judge.asked == Counter(REJECTED)
        assert (run.finished_summary or {})["evaluators"]["gpt_coherence"]["n_scores"] == ROWS - 3
        wait(lambda: store.views.get(jobs.JOB, finished) is None)
        shown = text_of(browser.get(f"/runs/{finished}"))
        assert "3 of 24 scores failed." in shown and "Try the" not in shown and "could not be read" in shown
        assert "Finished" in shown
        with pytest.raises(InputError, match="is finished and has no failure that another try may fix"):
            jobs.start(store, finished)
        assert send(browser, f"/runs/{finished}/resume").status_code == 400


def test_a_judge_that_is_gone_leaves_the_run_as_it_was(path: Path, finished: str, judge: Judge) -> None:
    browser, judge.locked = client(path), True
    send(browser, f"/runs/{finished}/resume")
    with Store(path) as store:
        run = store.run(finished)
        wait(lambda: last_try(run) is not None)
        wait(lambda: run.state == "finished" and jobs.state_of(store, run) == "finished")
        assert sum(failures(run).values()) == 5 and failures(run)["parse_error"] == 3 and scores(run) == ROWS
        assert (run.finished_summary or {})["stopped"] is None
    shown = text_of(browser.get(f"/runs/{finished}"))
    assert "The last try ended early." in shown and "the server rejected the API key" in shown
    assert "Apart from these failures the run is complete, as before." in shown and "Finished" in shown
    judge.locked = False
    judge.rejected.clear()
    send(browser, f"/runs/{finished}/resume")
    with Store(path) as store:
        wait(lambda: failures(store.run(finished)) == {"parse_error": 3})
        wait(lambda: store.run(finished).state == "finished")
    assert "ended early" not in text_of(browser.get(f"/runs/{finished}"))


@pytest.mark.parametrize("first", ["/runs", "/runs/{}"])
def test_a_kill_while_trying_leaves_the_run_as_it_was(path: Path, finished: str, judge: Judge, first: str) -> None:
    judge.rejected, judge.silent = set(), True
    with Store(path) as store:
        run = store.run(finished)
        worker = jobs.start(store, finished)
        wait(lambda: sum(judge.asked.values()) >= 2)
        assert jobs.state_of(store, run) == "running"
        browser = client(path)
        assert "Running" in text_of(browser.get(f"/runs/{finished}"))
        os.kill(worker, signal.SIGKILL)
        wait(lambda: 'class="badge finished"' in browser.get(first.format(finished)).text)
        assert run.state == "finished" and failures(run) == AS_BEFORE and scores(run) == ROWS
        shown = text_of(browser.get(f"/runs/{finished}"))
        assert "The last try ended early. The process of the run is gone." in shown
        judge.silent = False
        jobs.start(store, finished)
        wait(lambda: failures(run) == {"parse_error": 3} and run.state == "finished")


def test_data_that_are_gone_are_told_and_the_run_stays_finished(path: Path, finished: str) -> None:
    (path.parent / "rows.csv").write_text("question,answer\nother,other\n")
    browser = client(path)
    send(browser, f"/runs/{finished}/resume")
    with Store(path) as store:
        wait(lambda: last_try(store.run(finished)) is not None)
        wait(lambda: jobs.state_of(store, store.run(finished)) == "finished")
        assert failures(store.run(finished)) == AS_BEFORE
    assert "the data have changed" in text_of(browser.get(f"/runs/{finished}"))


def test_the_command_line_says_the_same(
    path: Path, finished: str, judge: Judge, capsys: pytest.CaptureFixture[str]
) -> None:
    judge.locked = True
    assert main(["eval", "resume", finished, "--store", str(path)]) != 0
    said = capsys.readouterr().err
    assert "is finished as before, since trying its failures again ended early, and can be resumed" in said
    assert f"go on with: valor-gpu eval resume {finished}" in said
    with Store(path) as store:
        assert store.run(finished).state == "finished" and sum(failures(store.run(finished)).values()) == 5
    judge.locked = False
    judge.rejected.clear()
    assert main(["eval", "resume", finished, "--store", str(path)]) == 0
    with Store(path) as store:
        assert failures(store.run(finished)) == {"parse_error": 3} and last_try(store.run(finished)) is None


def test_an_answer_without_its_scores_is_something_to_go_on_with(tmp_path: Path) -> None:
    """A try of a target's row that was killed between the answer and its scores: the run is not called finished."""
    info = {"name": "exact_match", "kind": "quality", "needs_judge": False}
    config = {"version": 1, "evaluators": [info], "data": {}, "target": {"name": "shop"}, "task_type": "qa"}
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("shop", config)
        with run.lease():
            run.add_rows([StoredRow(1, "a", {}), StoredRow(2, "b", {}, {}, "target_error", "no route")])
            run.add_scores([StoredScore(1, "exact_match", 0, 1.0)])
            run.finish("finished", {"stopped": None})
        browser = client(tmp_path / "s.sqlite")
        assert "Try the failed one again" in browser.get(f"/runs/{run.id}").text
        with run.lease():
            run.add_rows([StoredRow(2, "b", {}, {"answer": "x"})])
        assert jobs.state_of(store, run) == "stopped" == run.state
        shown = text_of(browser.get(f"/runs/{run.id}"))
        assert "The process of the run is gone." in shown and "Resume" in shown and scores(run) == 1


def test_a_store_that_cannot_be_written_costs_no_page(tmp_path: Path) -> None:
    config = {"version": 1, "evaluators": [], "data": {}, "task_type": "qa"}
    with Store(tmp_path / "s.sqlite") as store, closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        run = store.create_run("shop", config)
        with run.lease():
            run.add_rows([StoredRow(1, "a", {})])
            run.finish("finished", {"stopped": None})
        with run.lease():
            pass  # a try that was killed
        other.execute("BEGIN IMMEDIATE")
        browser = client(store.path)
        assert 'class="badge stopped"' in browser.get("/runs").text
        assert 'class="badge stopped"' in browser.get(f"/runs/{run.id}").text
        other.execute("ROLLBACK")
        assert 'class="badge finished"' in browser.get(f"/runs/{run.id}").text and run.state == "finished"
