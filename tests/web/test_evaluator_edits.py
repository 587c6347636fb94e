"""Clones, new versions and trials of evaluators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.judge.server import ChatServer, Request, completion, failure
from tests.web.pages import client, send, text_of
from valor_gpu.evaluation.evaluators.saved import save_evaluator
from valor_gpu.store import Store, StoredRow
from valor_gpu.web.registry import Registry

PROMPT = "Rate from 1 to 5 how polite this is, as JSON: {{ answer }}\n"
KEY = "sk-proj-abcdefghijklmnop1234"


WORD = "word-of-the-judge"


def respond(request: Request) -> Any:
    if "break" in request.text:
        return failure(400, f"wrong key: {WORD}")
    return completion('{"reason": "It says <b>please</b>.", "score": 4}')


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    monkeypatch.setenv("STUDIO_TEST_KEY", WORD)
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        save_evaluator(store, "polite", PROMPT, "first words", parameters={"scale": [1, 5]})
    with ChatServer(respond) as server:
        said = {"base_url": server.url, "model": "stub", "api_key_env": "STUDIO_TEST_KEY", "prices": {"prompt": 1}}
        no_key = {**said, "api_key_env": "STUDIO_TEST_NO_KEY"}
        yield client(path, registry=Registry(judges={"fake": said, "no key": no_key}))


def library(browser: TestClient) -> Any:
    return browser.app.state.studio.store.evaluators  # type: ignore[attr-defined]


def test_clone_of_a_built_in_one(site: TestClient) -> None:
    assert "conversations" in text_of(site.get("/evaluators/gpt_groundedness/clone"))
    found = send(site, "/evaluators/gpt_groundedness/clone", {"name": "grounded", "task": "chat"})
    kept = library(site).get("grounded")
    assert found.status_code == 200 and "Version 2 of grounded" in text_of(found)
    assert kept.note == "cloned from gpt_groundedness" and "task: chat" in kept.content["prompt"]
    words = text_of(site.get("/evaluators/grounded"))
    assert "1 to 5, higher is better" in words and "Ready" in words


def test_clone_of_an_own_one_keeps_its_parameters(site: TestClient) -> None:
    send(site, "/evaluators/polite/clone", {"name": "kind", "version": "1"})
    old, new = library(site).get("polite"), library(site).get("kind")
    assert new.hash == old.hash and new.note == "cloned from polite version 1"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("polite", "There is an evaluator polite already"),
        ("f1_score", "must differ from those of the table"),
        ("a name!", "must be letters, digits"),
        ("", "must be letters, digits"),
        (KEY, "looks like a key"),
    ],
)
def test_a_wrong_name_makes_nothing(site: TestClient, name: str, words: str) -> None:
    found = send(site, "/evaluators/gpt_fluency/clone", {"name": name})
    assert found.status_code == 400 and words in text_of(found)
    assert [each.name for each in library(site).list()] == ["polite"]


@pytest.mark.parametrize("path", ["f1_score/clone", "preference/clone", "gpt_fluency/edit", "nothing/edit"])
def test_what_cannot_be_edited(site: TestClient, path: str) -> None:
    assert site.get(f"/evaluators/{path}").status_code == 404
    assert send(site, f"/evaluators/{path}", {"name": "x", "prompt": "{{ answer }}"}).status_code == 404


def test_an_edit_is_a_new_version(site: TestClient) -> None:
    assert "how polite this is" in site.get("/evaluators/polite/edit").text
    text = "How kind is it,\r\nfrom 1 to 5? {{ answer }}"
    found = send(site, "/evaluators/polite/edit", {"prompt": text, "note": "kinder", "base": "1"})
    newest = library(site).get("polite")
    assert found.status_code == 200 and newest.number == 2 and newest.note == "kinder"
    assert newest.content["prompt"] == "How kind is it,\nfrom 1 to 5? {{ answer }}\n"
    assert newest.content["parameters"] == {"scale": [1, 5]}


@pytest.mark.parametrize(
    ("prompt", "base", "words"),
    [
        ("How kind is it? {{ answer", "1", "Nothing was kept."),
        ("How kind is it?", "1", "must show something of the row"),
        ("---\ntask: poem\n---\n{{ answer }}", "1", "task must be one of"),
        ("How kind is it? {{ answer }}", "7", "Version 1 was made meanwhile"),
        (PROMPT, "1", "nothing to keep"),
        (f"With api_key={KEY}: {{{{ answer }}}}", "1", "looks like a key"),
    ],
)
def test_an_edit_that_cannot_be_kept(site: TestClient, prompt: str, base: str, words: str) -> None:
    found = send(site, "/evaluators/polite/edit", {"prompt": prompt, "base": base})
    assert found.status_code == 400 and words in text_of(found)
    assert KEY not in found.text and library(site).get("polite").number == 1


def test_try_a_judged_one(site: TestClient) -> None:
    assert "Ask the judge" in text_of(site.get("/evaluators/polite"))
    fields = {"version": "1", "f_answer": "Please.", "judge": "fake"}
    found = send(site, "/evaluators/polite/try", fields)
    words = text_of(found)
    assert found.status_code == 200 and "10 + 5 tokens" in words and "4.00 of 5" in words and "Please." in words
    assert "<b>please" not in found.text and "It says" in words
    assert "3.00" not in words and "of 5" in text_of(
        send(site, "/evaluators/gpt_fluency/try", {"f_question": "?", "f_answer": "!", "judge": "fake"})
    )
    broken = send(site, "/evaluators/polite/try", {**fields, "f_answer": "break"})
    assert "wrong key: ***" in text_of(broken) and "4.00" not in text_of(broken) and WORD not in broken.text
    no_key = send(site, "/evaluators/polite/try", {**fields, "judge": "no key"})
    assert no_key.status_code == 400 and "STUDIO_TEST_NO_KEY" in text_of(no_key)


def test_try_a_computed_one(site: TestClient) -> None:
    fields = {"f_answer": "red ball", "f_ground_truth": "red box"}
    assert "0.500" in text_of(send(site, "/evaluators/f1_score/try", fields))
    assert "missing field" in text_of(send(site, "/evaluators/f1_score/try", {"f_answer": "a"}))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"f_answer": "x", "judge": "other"}, "must be a registered one of fake, no key"),
        ({"f_answer": f"Bearer {KEY}", "judge": "fake"}, "it was sent to nobody"),
    ],
)
def test_a_trial_that_is_refused(site: TestClient, fields: dict[str, str], words: str) -> None:
    found = send(site, "/evaluators/polite/try", fields)
    assert found.status_code == 400 and words in text_of(found) and KEY not in found.text


def test_the_form_is_filled_from_a_stored_row(site: TestClient) -> None:
    store = site.app.state.studio.store  # type: ignore[attr-defined]
    run = store.create_run(
        "books", {"version": 1, "data_mapping": {"answer": "${target.said}", "context": "${data.page}"}}
    )
    run.add_rows([StoredRow(7, "k", {"page": ["one <b>", "two"], "answer": "old"}, {"said": "the new one"})])
    found = site.get(f"/evaluators/gpt_groundedness?run={run.id}&row=7")
    assert "the new one</textarea>" in found.text and "old</textarea>" not in found.text
    assert "[&#34;one &lt;b&gt;&#34;, &#34;two&#34;]</textarea>" in found.text
    for query, words in ((f"run={run.id}&row=8", "no row 8"), ("run=x&row=7", "Choose one"), ("run=x", "Choose one")):
        assert words in text_of(site.get(f"/evaluators/gpt_groundedness?{query}"))
    assert "Fill in" not in text_of(site.get("/evaluators/ada_similarity"))


def test_without_a_judge_there_is_no_form(tmp_path: Path) -> None:
    assert "None is registered" in text_of(client(tmp_path / "s.sqlite").get("/evaluators/gpt_fluency"))
