"""Trials run in processes: what fills memory or does not end there takes neither the server nor the next trial."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.judge.server import ChatServer, Request
from tests.web.pages import client, send, text_of
from tests.web.work import wait
from valor_gpu.errors import InputError
from valor_gpu.evaluation.evaluators.saved import save_evaluator
from valor_gpu.store import Store
from valor_gpu.web.processes import trial_pool
from valor_gpu.web.processes.trial_pool import TrialPool
from valor_gpu.web.registry import Registry

ROW = {"f_answer": "Thank you.", "judge": "fake"}
PROMPTS = {
    "polite": "Rate from 1 to 5 how polite this is, as JSON: {{ answer }}\n",
    "wide": "{{ ('{:>30000000000}'.format(1))|length }} {{ answer }}\n",
    "slow": "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}{{ answer }}\n",
}
PAIR = {"f_answer": "a", "f_ground_truth": "a"}
"""Of an evaluator that computes, whose process has less to import."""
MEMORY = "the trial needed more than 1 GB of memory"


class Judge:
    """A judge that may be held up, and says when it is asked."""

    def __init__(self) -> None:
        self.go, self.asked = threading.Event(), threading.Event()
        self.go.set()

    def __call__(self, request: Request) -> Any:
        self.asked.set()
        self.go.wait(120)
        return '{"reason": "It is.", "score": 4}'


@pytest.fixture
def judge() -> Iterator[Judge]:
    found = Judge()
    yield found
    found.go.set()


@pytest.fixture
def site(tmp_path: Path, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with Store(tmp_path / "s.sqlite") as store:
        for name, prompt in PROMPTS.items():
            save_evaluator(store, name, prompt)
        save_evaluator(store, "same", "exact_match")
    with ChatServer(judge) as server:
        found = client(
            tmp_path / "s.sqlite", registry=Registry(judges={"fake": {"base_url": server.url, "model": "m"}})
        )
        yield found
        judge.go.set()
        pool_of(found).close()
        assert not pool_of(found)._all


def pool_of(site: TestClient) -> TrialPool:
    found = site.app.state.studio.trials  # type: ignore[attr-defined]
    assert isinstance(found, TrialPool)
    return found


def only_process(site: TestClient) -> Any:
    (process,) = pool_of(site)._all
    return process._process


def held_trial(site: TestClient, judge: Judge) -> tuple[threading.Thread, list[Any]]:
    """A trial whose judge does not answer, once it has been asked."""
    judge.go.clear()
    pages: list[Any] = []
    thread = threading.Thread(target=lambda: pages.append(send(site, "/evaluators/polite/try", ROW)))
    thread.start()
    assert judge.asked.wait(120)
    return thread, pages


def test_a_process_is_kept_for_the_next_trial(site: TestClient) -> None:
    assert "4.00" in text_of(send(site, "/evaluators/polite/try", ROW))
    first = only_process(site).pid
    assert "4.00" in text_of(send(site, "/evaluators/polite/try", ROW))
    assert only_process(site).pid == first
    words = text_of(send(site, "/evaluators/wide/try", ROW))
    assert "a template must make at most 20,000,000 characters" in words and only_process(site).pid == first


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux alone keeps a process to its memory")
def test_a_bomb_that_gets_past_the_template_is_words_on_the_page(
    site: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial_pool, "ARGUMENTS", ("-m", "tests.web.unbounded_worker", "60"))
    page = send(site, "/evaluators/wide/try", ROW)
    assert MEMORY in text_of(page) and "MemoryError" not in text_of(page)
    assert "1.000" in text_of(send(site, "/evaluators/same/try", PAIR))


@pytest.mark.skipif(not hasattr(signal, "SIGXCPU"), reason="the system counts no processor time")
def test_a_template_without_end_is_ended(site: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    known = trial_pool.ARGUMENTS
    monkeypatch.setattr(trial_pool, "ARGUMENTS", ("-m", "tests.web.unbounded_worker", "1"))
    page = send(site, "/evaluators/slow/try", ROW)
    assert page.status_code == 400 and "of processor time" in text_of(page)
    monkeypatch.setattr(trial_pool, "ARGUMENTS", known)
    assert "1.000" in text_of(send(site, "/evaluators/same/try", PAIR))


def test_a_killed_process_takes_nothing_with_it(site: TestClient, judge: Judge) -> None:
    thread, pages = held_trial(site, judge)
    assert site.get("/evaluators").status_code == 200
    killed = only_process(site)
    os.kill(killed.pid, signal.SIGKILL)
    thread.join()
    assert pages[0].status_code == 400 and MEMORY in text_of(pages[0])
    assert killed.returncode == -signal.SIGKILL  # it was waited for, so it is no zombie
    judge.go.set()
    assert "1.000" in text_of(send(site, "/evaluators/same/try", PAIR))


def test_a_trial_that_takes_too_long_is_ended(site: TestClient, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    judge.go.clear()
    monkeypatch.setattr(trial_pool, "LONGEST", 0.05)
    page = send(site, "/evaluators/polite/try", ROW)
    assert page.status_code == 400 and "the trial took more than 0.05 s" in text_of(page)


def test_the_end_of_the_server_ends_a_trial(site: TestClient, judge: Judge) -> None:
    thread, pages = held_trial(site, judge)
    process = only_process(site)
    process.stdin.close()  # as the end of the server does
    wait(lambda: process.poll() is not None)
    thread.join()
    assert process.returncode == 0 and pages[0].status_code == 400
    pool_of(site).close()
    with pytest.raises(InputError, match="the server is ending"):
        pool_of(site).ask({})


def test_a_warm_process_waits_only_where_it_is_asked_for(site: TestClient) -> None:
    site.get("/evaluators/polite")
    assert not pool_of(site)._all
    pool_of(site).keeps_warm = True
    assert not pool_of(site)._all
    site.get("/evaluators/polite")
    site.get("/evaluators/polite")
    warm = only_process(site).pid
    assert "1.000" in text_of(send(site, "/evaluators/same/try", PAIR)) and only_process(site).pid == warm


def test_processes_that_cannot_be_started_are_said(site: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        page = send(site, "/evaluators/polite/try", ROW)
    assert page.status_code == 400 and "no process of the trial can be started: No such file" in text_of(page)
    monkeypatch.setattr(trial_pool, "ARGUMENTS", ("-c", "raise SystemExit(3)"))
    assert "ended with status 3" in text_of(send(site, "/evaluators/polite/try", ROW))
