"""The library of evaluators: list, pages, versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.pages import client, send, text_of
from valor_gpu.evaluation.evaluators.saved import save_evaluator
from valor_gpu.store import Store
from valor_gpu.web.registry import Registry

PROMPT = "Rate from 1 to 5 how polite <b>this</b> is, as JSON: {{ answer }}\n"
BETTER = "Rate from 1 to 5 how polite <b>this answer</b> is, as JSON: {{ answer }}\n"


@pytest.fixture
def site(tmp_path: Path) -> TestClient:
    """A store with a prompt of two versions, a built-in one with parameters, and a run that used both."""
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        save_evaluator(store, "polite", PROMPT, "first words")
        save_evaluator(store, "polite", BETTER, "says <i>answer</i>")
        save_evaluator(store, "same_text", "exact_match", parameters={"ignore_case": True})
        evaluators = [
            {"name": "polite", "source": "library", "origin": "polite@2", "kind": "prompt"},
            {"name": "f1_score", "source": "builtin", "kind": "text"},
        ]
        store.create_run("the run", {"version": 1, "evaluators": evaluators})
    return client(path)


def library(browser: TestClient) -> Store:
    store = browser.app.state.studio.store  # type: ignore[attr-defined]
    assert isinstance(store, Store)
    return store


def test_list_shows_own_and_built_in_ones(site: TestClient) -> None:
    found = site.get("/evaluators")
    words = text_of(found)
    assert found.status_code == 200
    assert words.index("polite") < words.index("same_text") < words.index("gpt_groundedness")
    assert "exact_match with parameters of its own" in words and "Ready" in words
    assert "polite" not in text_of(site.get("/evaluators?source=builtin"))
    assert "f1_score" not in text_of(site.get("/evaluators?kind=prompt"))
    assert "same_text" not in text_of(site.get("/evaluators?q=POLITE"))
    assert "No evaluator matches" in text_of(site.get("/evaluators?q=nothing+of+the+kind"))
    assert "No evaluator matches" in text_of(site.get("/evaluators?status=broken"))


def test_what_cannot_be_made_says_why(site: TestClient) -> None:
    library(site).evaluators.save(
        "gone", {"kind": "function", "origin": "no_module_x:f", "parameters": {}, "source": ""}
    )
    words = text_of(site.get("/evaluators?status=broken"))
    assert "gone" in words and "Cannot be made" in words and "no_module_x" in words
    assert "It cannot be made now." in text_of(site.get("/evaluators/gone"))


def test_page_of_an_own_one(site: TestClient) -> None:
    found = site.get("/evaluators/polite")
    words = text_of(found)
    assert "how polite &lt;b&gt;this answer&lt;/b&gt; is" in found.text and "<i>answer" not in found.text
    assert "1 to 5, higher is better" in words and "the run" in words and "version 2" in words
    assert "Restore as 3" in words and "polite.prompty" in words
    old = site.get("/evaluators/polite?version=1")
    assert "&lt;b&gt;this&lt;/b&gt;" in old.text and "This is version 1 of 2." in text_of(old)
    text = site.get("/evaluators/polite/file?name=polite.prompty&version=1")
    assert text.text == PROMPT and "attachment" in text.headers["content-disposition"]
    assert "ignore_case" in text_of(site.get("/evaluators/same_text"))


def test_page_of_a_built_in_one(site: TestClient) -> None:
    judged, computed = site.get("/evaluators/gpt_groundedness"), site.get("/evaluators/f1_score")
    assert "keeps to its sources" in judged.text and "built in" in text_of(judged)
    assert "gpt_groundedness_qa_1.md" in judged.text or "gpt_groundedness_qa_2.md" in judged.text
    assert "Prompt 1 of 2, questions and answers" in judged.text and "Prompt 2 of 2, conversations" in judged.text
    assert "the run" in text_of(computed) and "Restore" not in judged.text and "/delete" not in judged.text


def test_versions_are_compared(site: TestClient) -> None:
    found = site.get("/evaluators/polite/versions?from=1&to=2")
    assert '<span class="gone">-' in found.text and '<span class="add">+' in found.text
    assert "&lt;b&gt;this answer&lt;/b&gt;" in found.text
    assert "The contents are the same" in text_of(site.get("/evaluators/polite/versions?from=2&to=2"))
    assert site.get("/evaluators/polite/versions").text.count('class="gone"') == 1


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/evaluators/polit", "There is no evaluator polit"),
        ("/evaluators/polite?version=9", "there are 1 to 2"),
        ("/evaluators/polite?version=x", "there are 1 to 2"),
        ("/evaluators/f1_score/versions", "f1_score is built in"),
        ("/evaluators/polite/versions?from=0", "there are 1 to 2"),
        ("/evaluators/polite/file?name=../../etc/passwd", "has no file"),
    ],
)
def test_what_is_not_there(site: TestClient, path: str, words: str) -> None:
    found = site.get(path)
    assert found.status_code == 404 and words in text_of(found)


def test_restore_makes_a_new_version(site: TestClient) -> None:
    found = send(site, "/evaluators/polite/restore", {"version": "1"})
    versions = library(site).evaluators.versions("polite")
    assert found.status_code == 200 and "restored from version 1" in text_of(found)
    assert [version.number for version in versions] == [1, 2, 3] and versions[2].hash == versions[0].hash
    refused = send(site, "/evaluators/polite/restore", {"version": "one"})
    assert refused.status_code == 400 and "must be the number of a version" in text_of(refused)
    assert send(site, "/evaluators/f1_score/restore", {"version": "1"}).status_code == 404


def test_delete_and_undo(site: TestClient) -> None:
    found = send(site, "/evaluators/polite/delete")
    assert "Deleted polite." in text_of(found) and "Undo" in text_of(found)
    assert [each.name for each in library(site).evaluators.list()] == ["same_text"]
    assert "This evaluator is deleted." in text_of(site.get("/evaluators/polite"))
    assert 'versions kept: <a href="/evaluators/polite">' in site.get("/evaluators").text, "it can be found again"
    back = send(site, "/evaluators/polite/undo")
    assert back.status_code == 200 and len(library(site).evaluators.versions("polite")) == 2
    assert [each.name for each in library(site).evaluators.list()] == ["polite", "same_text"]
    assert send(site, "/evaluators/f1_score/delete").status_code == 400
    assert "versions kept" not in site.get("/evaluators").text


def give(browser: TestClient, text: bytes) -> Any:
    return send(browser, "/evaluators", files={"file": ("../x.json", text, "application/json")})


def test_export_and_import(site: TestClient, tmp_path: Path) -> None:
    exported = site.get("/evaluators/library/export.json")
    assert exported.headers["content-disposition"] == 'attachment; filename="evaluators.json"'
    other = client(tmp_path / "other.sqlite")
    found = text_of(give(other, exported.content))
    assert "2 evaluators imported. polite: 2 versions, same_text: 1 version." in found
    assert [each.hash for each in library(other).evaluators.versions("polite")] == [
        each.hash for each in library(site).evaluators.versions("polite")
    ]
    assert "2 were here already" in text_of(give(other, exported.content))
    save_evaluator(library(other), "same_text", "f1_score")
    save_evaluator(library(site), "same_text", "bleu")
    refused = text_of(give(other, site.get("/evaluators/library/export.json").content))
    assert "1 not imported." in refused and "same_text : an evaluator of this name is here" in refused


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"no json", "must be JSON"),
        (b"\xff\xfe", "must be JSON"),
        (b"[]", "must be one of evaluators"),
        (b"[" * 100_000, "must be JSON"),
        (b'{"note": "sk-proj-abcdefghijklmnop1234"}', "looks like a key"),
    ],
)
def test_import_of_what_is_no_library(site: TestClient, text: bytes, words: str) -> None:
    found = give(site, text)
    assert found.status_code == 400 and words in text_of(found)
    assert "choose a file" in text_of(send(site, "/evaluators"))


def test_registered_code_is_listed_and_only_read(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        used = {"name": "cites", "source": "custom", "origin": "json:dumps", "kind": "custom"}
        store.create_run("the run", {"version": 1, "evaluators": [used]})
    browser = client(tmp_path / "s.sqlite", registry=Registry(evaluators={"cites_rule": "json:dumps"}))
    words = text_of(browser.get("/evaluators"))
    assert words.index("cites_rule") < words.index("gpt_groundedness") and "registered code" in words
    page = browser.get("/evaluators/cites_rule")
    shown = text_of(page)
    assert "registered code" in shown and "json:dumps" in shown and "the run" in shown and "not in this server" in shown
    assert all(f"/{action}" not in page.text for action in ("delete", "edit", "clone", "restore", "try#try"))
    for action in ("delete", "restore", "edit", "clone", "try"):
        assert send(browser, f"/evaluators/cites_rule/{action}", {"version": "1"}).status_code in (400, 404)
