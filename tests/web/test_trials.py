"""Trials of evaluators: slow judges, two versions on the rows of a run, parameters as new versions."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.judge.server import ChatServer, Request, completion, failure
from tests.web.pages import client, send, text_of
from tests.web.work import wait
from valor_gpu.evaluation.evaluators.saved import save_evaluator
from valor_gpu.store import Store, StoredRow
from valor_gpu.web import errands
from valor_gpu.web.registry import Registry

ROW = {"f_answer": "Thank you."}


class Judge:
    """A judge that may be held up, and that rates by the words of the prompt."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.asked: list[str] = []

    def __call__(self, request: Request) -> Any:
        self.go.wait(30)
        self.asked.append(request.text)
        if "row 3" in request.text and "kind" in request.text:
            return failure(400, "no")
        return completion(f'{{"reason": "So <b>it</b> is.", "score": {5 if "kind" in request.text else 3}}}')


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def site(tmp_path: Path, judge: Judge) -> Iterator[TestClient]:
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        for word in ("polite", "kind"):
            save_evaluator(store, "polite", f"Rate from 1 to 5 how {word} this is, as JSON: {{{{ answer }}}}\n")
        for ignore in ({}, {"ignore_case": True}):
            save_evaluator(store, "same", "exact_match", parameters=ignore)
        run = store.create_run("answers", {"version": 1, "evaluators": [], "data_mapping": {"answer": "${data.reply}",
                                           "ground_truth": "${data.truth}"}, "task_type": "qa"})  # fmt: skip
        rows = [{"reply": f"Row {n} <script>", "truth": f"row {n} <script>" if n % 2 else "x"} for n in range(1, 31)]
        rows[2]["reply"] = "row 3"
        run.add_rows([StoredRow(n, str(n), row) for n, row in enumerate(rows, 1)])
    with ChatServer(judge) as server:
        yield client(path, registry=Registry(judges={"fake": {"base_url": server.url, "model": "stub"}}))
        judge.go.set()


def run_id(site: TestClient) -> str:
    return str(site.app.state.studio.store.run("answers").id)  # type: ignore[attr-defined]


def test_a_slow_judge_holds_no_thread(site: TestClient, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setattr(errands, "PATIENCE", 0.05)
    judge.go.clear()
    page = send(site, "/evaluators/polite/try", {**ROW, "judge": "fake"})
    assert re.fullmatch(r"/evaluators/polite/trial/[0-9a-f]{16}", page.url.path)
    assert 'http-equiv="refresh"' in page.text and "is being asked" in text_of(page) and "<textarea" not in page.text
    for _ in range(errands.MOST - 1):
        send(site, "/evaluators/polite/try", {**ROW, "judge": "fake"})
    refused = send(site, "/evaluators/polite/try", {**ROW, "judge": "fake"})
    assert refused.status_code == 400 and "4 trials or comparisons are under way" in text_of(refused)
    judge.go.set()
    wait(lambda: "is being asked" not in text_of(site.get(page.url.path)))
    done = site.get(page.url.path)
    assert "5.00" in text_of(done) and "So &lt;b&gt;it&lt;/b&gt; is." in done.text
    assert 'http-equiv="refresh"' not in done.text and "Thank you." in done.text
    assert site.get("/evaluators/same/trial/" + page.url.path.rsplit("/", 1)[1]).status_code == 404
    assert site.get("/evaluators/polite/trial/nothing").status_code == 404


def test_two_versions_on_the_rows_of_a_run(site: TestClient, judge: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    shown = site.get("/evaluators/polite/versions?from=1&to=2")
    assert "About 40 calls of the judge." in text_of(shown)
    form = {"from": "1", "to": "2", "run": run_id(site), "judge": "fake"}
    page = send(site, "/evaluators/polite/versions/try", form)
    wait(lambda: "is being asked" not in text_of(site.get(page.url.path)))
    words = text_of(site.get(page.url.path))
    assert len(judge.asked) == 40
    assert "Version 1 3.00 mean, n 19" in words and "Version 2 5.00 mean, n 19" in words
    assert "Difference +2.00 95% interval +2.00 to +2.00" in words
    assert "19 of 19 with both numbers, 1 without" in words and "bad request" in words
    assert "<b>it</b>" not in site.get(page.url.path).text


def test_versions_that_compute(site: TestClient) -> None:
    shown = text_of(site.get("/evaluators/same/versions?from=1&to=2"))
    assert "calls of the judge" not in shown and "Both versions on 20 rows" in shown
    page = send(site, "/evaluators/same/versions/try", {"from": "1", "to": "2", "run": run_id(site)})
    words = text_of(page)
    assert "Version 1 0.000 mean, n 20" in words and "Version 2 0.450 mean, n 20" in words
    assert "9 of 20 with both numbers" in words
    assert "<script>" not in page.text.replace('<script type="module" src="/static/studio.js"></script>', "")


@pytest.mark.parametrize(
    ("name", "fields", "status", "words"),
    [
        ("polite", {"run": "nothing"}, 404, "There is no run nothing"),
        ("polite", {"to": "9"}, 404, "There is no version 9"),
        ("f1_score", {}, 404, "is built in"),
        ("polite", {"judge": "none"}, 400, "must be a registered one of fake"),
    ],
)
def test_versions_that_cannot_be_tried(
    site: TestClient, name: str, fields: dict[str, str], status: int, words: str
) -> None:
    form = {"from": "1", "to": "2", "run": run_id(site), "judge": "fake", **fields}
    page = send(site, f"/evaluators/{name}/versions/try", form)
    assert page.status_code == status and words in text_of(page)


def test_parameters_of_a_saved_built_in_one_become_a_version(site: TestClient) -> None:
    assert 'href="/evaluators/same/edit"' in site.get("/evaluators/same").text
    form = site.get("/evaluators/same/edit")
    assert 'value="yes" selected' in form.text and "Version 3 of same" in text_of(form)
    new = {"set-exact_match-ignore_case": "no", "set-exact_match-ignore_articles": "yes"}
    send(site, "/evaluators/same/edit", {"base": "2", "note": "why", **new})
    library = site.app.state.studio.store.evaluators  # type: ignore[attr-defined]
    kept = library.get("same")
    assert (kept.number, kept.note) == (3, "why")
    assert kept.content["parameters"] == {"ignore_case": False, "ignore_articles": True}
    same = {"base": "3", **new}
    for fields, words in (
        (same, "nothing to keep"),
        ({**same, "base": "2", "set-exact_match-ignore_case": "yes"}, "Version 3 was made meanwhile"),
        ({**same, "set-exact_match-ignore_case": "perhaps"}, "must be one of yes, no"),
        ({**same, "set-exact_match-ignore_case": "sk-proj-abcdefghijklmnop1234"}, "looks like a key"),
    ):
        page = send(site, "/evaluators/same/edit", fields)
        assert page.status_code == 400 and words in text_of(page)
    assert library.get("same").number == 3
