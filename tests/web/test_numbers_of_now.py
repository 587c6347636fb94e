"""Numbers are those of now: of runs that go on again, that were killed then, and that share other rows with others."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.web.pages import client, text_of
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store import Run, Store, StoredRow, StoredScore

INFOS = [
    {"name": "f1_score", "kind": "text", "low": 0, "high": 1, "higher_is_better": True},
    {"name": "violence", "kind": "safety", "low": 0, "high": 7, "higher_is_better": False},
]
BEFORE, AFTER = range(1, 5), range(5, 11)


def add(run: Run, numbers: range, f1: float, severity: float) -> None:
    run.add_rows([StoredRow(n, f"k{n}", {"question": f"q{n}", "answer": "a"}) for n in numbers])
    run.add_scores([StoredScore(n, "f1_score", 0, f1) for n in numbers])
    run.add_scores([StoredScore(n, "violence", 0, severity) for n in numbers])


def end(run: Run, state: str, stopped: str | None = None) -> None:
    with run.lease():
        run.finish(state, run_summary(run, stopped=stopped))


def kill(store: Store, run: Run) -> None:
    """What the store says of a run whose process was killed after it had been resumed."""
    with store._database.write() as connection:
        connection.execute("UPDATE runs SET state = 'running', finished = NULL WHERE uid = ?", (run.id,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


@pytest.fixture
def stopped(path: Path) -> Run:
    store = Store(path)
    run = store.create_run("one", {"evaluators": INFOS, "data": {"rows": 10}})
    add(run, BEFORE, 0.125, 1.0)
    end(run, "stopped", "Cancelled in Studio.")
    return run


@pytest.fixture
def browser(path: Path) -> TestClient:
    return client(path)


def test_a_run_killed_after_it_was_resumed_shows_all_of_its_rows(path: Path, stopped: Run, browser: TestClient) -> None:
    assert "0.125" in text_of(browser.get("/runs"))
    add(stopped, AFTER, 0.625, 5.0)
    kill(Store(path), stopped)
    page = text_of(browser.get(f"/runs/{stopped.id}"))
    assert "0.425" in page and "10 scored" in page and "4 scored" not in page
    assert "The process of the run is gone." in page
    listed = text_of(browser.get("/runs"))
    assert "0.125" not in listed and "The process of the run is gone." in listed


def test_a_run_that_goes_on_again_does_not_say_why_it_had_stopped(stopped: Run, browser: TestClient) -> None:
    assert "Cancelled in Studio." in text_of(browser.get(f"/runs/{stopped.id}"))
    with stopped.lease():
        page = text_of(browser.get(f"/runs/{stopped.id}"))
        assert "Cancelled" not in page and "stopped before its end" not in page
        assert "Cancelled" not in text_of(browser.get("/runs"))


def test_another_threshold_is_counted_again_after_the_run_went_on(stopped: Run, browser: TestClient) -> None:
    at = f"/runs/{stopped.id}?level=Medium"
    assert "0 of 4 rows" in text_of(browser.get(at))
    add(stopped, AFTER, 0.625, 5.0)
    end(stopped, "stopped", "Cancelled in Studio.")
    assert "60.0% defects, 6 of 10 rows" in text_of(browser.get(at))


def test_a_comparison_with_a_run_that_goes_on_is_made_anew(path: Path, stopped: Run, browser: TestClient) -> None:
    with Store(path) as store:
        other = store.create_run("two", {"evaluators": INFOS})
        add(other, range(1, 11), 0.5, 0.0)
        end(other, "finished")
        kill(store, stopped)
    at = f"/compare?runs={stopped.id},{other.id}"
    assert "4 rows joined" in text_of(browser.get(at))
    add(stopped, AFTER, 0.625, 5.0)
    assert "10 rows joined" in text_of(browser.get(at))


def test_the_baseline_has_a_number_for_each_set_of_shared_rows(path: Path, browser: TestClient) -> None:
    with Store(path) as store:
        runs = [store.create_run(name, {"evaluators": INFOS[:1]}) for name in "abc"]
        add(runs[0], BEFORE, 0.125, 0.0)
        add(runs[0], AFTER, 0.625, 0.0)
        add(runs[1], range(1, 11), 0.75, 0.0)
        add(runs[2], AFTER, 0.875, 0.0)
        for run in runs:
            end(run, "finished")
    page = text_of(browser.get(f"/compare?runs={','.join(run.id for run in runs)}&baseline={runs[0].id}"))
    assert "f1_score 0.425 (B) 0.625 (C) 0.750 +0.325" in page and "0.875 +0.250" in page
    alone = text_of(browser.get(f"/compare?runs={runs[0].id},{runs[2].id}&baseline={runs[0].id}"))
    assert "f1_score 0.625 0.875 +0.250" in alone
