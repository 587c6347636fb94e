"""Two browsers, two clicks, a server that is killed in between: nothing is made twice, lost, or brought back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from starlette.exceptions import HTTPException
from starlette.testclient import TestClient

from tests.judge.server import ChatServer
from tests.web.pages import client, send, text_of
from tests.web.work import add_run, wait
from valor_gpu.errors import InputError
from valor_gpu.store import Store
from valor_gpu.store.stores import NewRun
from valor_gpu.web.processes import jobs
from valor_gpu.web.wizard.drafts import KIND, Draft, save

CSV = b"question,answer,ground_truth\nWhat is 1?,one,one\nWhat is 2?,two,two\n"


@pytest.fixture
def browser(path: Path) -> TestClient:
    return client(path)


def begin(browser: TestClient) -> str:
    """A draft that could be submitted; its address."""
    address = str(browser.get("/new").url.path).rsplit("/", 1)[0]
    send(browser, f"{address}/basics", {"name": "numbers", "scenario": "qa", "source": "data"})
    send(browser, f"{address}/data", {"do": "upload"}, files={"file": ("n.csv", CSV)})
    assert send(browser, f"{address}/metrics", {"metric": "exact_match", "do": "next"}).url.path.endswith("/review")
    return address


def test_a_draft_that_is_submitted_twice_makes_one_run(
    path: Path, browser: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(jobs, "start", lambda store, uid: started.append(uid))
    address = begin(browser)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: send(browser, f"{address}/submit"), range(8)))
    with Store(path) as store:
        assert [run.id for run in store.runs()] == started
        assert len(started) == 1 and store.views.list(KIND) == []
    assert {each.status_code for each in found} <= {200, 404}


def test_runs_come_with_the_end_of_their_draft_or_not_at_all(path: Path) -> None:
    with Store(path) as store:
        store.views.save(KIND, "d", {})
        bad = [NewRun("a", {}, {}), NewRun("b", {"x": float("nan")}, {})]
        with pytest.raises(InputError, match="config must hold JSON values"):
            store.create_runs(bad, (KIND, "d"))
        assert store.runs() == [] and store.views.list(KIND) == ["d"]
        assert [run.name for run in store.create_runs(bad[:1] * 2, (KIND, "d"))] == ["a", "a"]
        assert store.create_runs(bad[:1], (KIND, "d")) == [] and len(store.runs()) == 2


def test_a_run_that_was_made_and_not_started_can_be_started(
    path: Path, server: ChatServer, browser: TestClient
) -> None:
    uid = add_run(path, server)
    assert ">Start</button>" in browser.get(f"/runs/{uid}").text
    assert send(browser, f"/runs/{uid}/resume").status_code == 200
    with Store(path) as store:
        wait(lambda: store.run(uid).state == "finished")
        plain = store.create_run("of a program", {})
    assert ">Start</button>" not in browser.get(f"/runs/{plain.id}").text


def test_two_pages_of_a_draft_do_not_undo_each_other(path: Path) -> None:
    with Store(path) as store:
        draft = save(store, Draft(), name="numbers")
        save(store, draft, metrics=("f1_score",))
        save(store, draft, mapping={"question": "${data.q}"})  # of a page that was read before
        kept = store.views.get(KIND, draft.id) or {}
        assert kept["metrics"] == ["f1_score"] and kept["mapping"] == {"question": "${data.q}"}
        assert kept["name"] == "numbers"


def test_a_draft_that_was_discarded_does_not_come_back(path: Path, browser: TestClient) -> None:
    address = begin(browser)
    with Store(path) as store:
        draft = save(store, Draft(), name="numbers")
        store.views.delete(KIND, draft.id)
        with pytest.raises(HTTPException, match="There is no such draft"):
            save(store, draft, name="again")
        assert store.views.get(KIND, draft.id) is None
    send(browser, f"{address}/delete")
    assert "There is no such draft" in text_of(send(browser, f"{address}/basics", {"name": "again"}))
