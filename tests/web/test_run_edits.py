"""Name, tags and note of a run by its page: shown, found, exported, and told apart from edits of another browser."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.web.pages import client, send, text_of
from valor_gpu.evaluation.artifacts import run_record
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.edits import edit_run, edits_of

MARKUP = "<script>alert(1)</script>"


@pytest.fixture
def site(tmp_path: Path) -> tuple[TestClient, str]:
    with Store(tmp_path / "s.sqlite") as store:
        config = {"version": 1, "evaluators": [{"name": "f1_score", "kind": "overlap"}], "data": {"source": "b.csv"}}
        for name, tags in (("books", {"model": "small", "tries": 3}), ("films", {"model": "large"})):
            run = store.create_run(name, config, tags)
            with run.lease():
                run.add_rows([StoredRow(1, "a", {"question": "q"})])
                run.add_scores([StoredScore(1, "f1_score", 0, 1.0)])
                run.finish("finished", {})
        return client(tmp_path / "s.sqlite"), store.run("books").id


def store_of(browser: TestClient) -> Store:
    found = browser.app.state.studio.store  # type: ignore[attr-defined]
    assert isinstance(found, Store)
    return found


def form(browser: TestClient, uid: str) -> dict[str, str]:
    """The fields of the form as the page has them."""
    text = browser.get(f"/runs/{uid}").text
    part = text[text.index(f'action="/runs/{uid}/edit"') :].partition("</form>")[0]
    fields = dict(re.findall(r'<input[^>]* name="(\w+)" value="([^"]*)"', part))
    fields.update(re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>\n(.*?)</textarea>', part, re.DOTALL))
    return {name: html.unescape(text) for name, text in fields.items() if name != "csrf"}


def save(browser: TestClient, uid: str, fields: dict[str, str], **changes: str) -> Any:
    return send(browser, f"/runs/{uid}/edit", {**fields, **changes})


def test_edits_are_shown_on_the_page_in_the_list_and_in_files(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    before = form(browser, uid)
    assert before == {"edited": "", "name": "books", "tags": "model: small\ntries: 3", "note": ""}
    found = save(browser, uid, before, name="books, second", tags="tries: 3\ngolden", note=f"for the review\n{MARKUP}")
    shown = text_of(found)
    assert found.url.path == f"/runs/{uid}" and "books, second" in shown and "for the review" in shown
    assert 'tag=tries%3A%203"' in found.text and ">golden</a>" in found.text and MARKUP not in found.text
    run = store_of(browser).run(uid)
    assert (run.name, run.tags) == ("books, second", {"tries": 3, "golden": ""})
    listed = browser.get("/runs").text
    assert "books, second" in listed and ">golden</a>" in listed and "model: small" not in listed
    assert run_record(run)["tags"] == run.tags and run_record(run)["note"] == f"for the review\n{MARKUP}"
    report = browser.get(f"/runs/{uid}/export.html").text
    assert "for the review" in report and "golden" in report and MARKUP not in report


def test_the_list_is_filtered_by_tag_and_finds_notes(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    save(browser, uid, form(browser, uid), note="Nightly of the Shelf team")
    for query, there, gone in (
        ("tag=model%3A+small", "books", "films"), ("tag=model%3A+large", "films", "books"),
        ("q=shelf", "books", "films"),
    ):  # fmt: skip
        found = browser.get(f"/runs?{query}").text
        assert f">{there}</a>" in found and f">{gone}</a>" not in found
    assert "No run matches" in text_of(browser.get("/runs?tag=model"))
    assert "Show runs with any tag" in text_of(browser.get("/runs?tag=model"))


def test_what_a_form_does_not_change_stays_as_it_is(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    run = store_of(browser).run(uid)
    tags = {"a\nb": {"deep": [1]}, "x: y": "z: w", "n": 2.5}
    edit_run(run, name=" two\nlines \u202e", tags=tags, note="\u200ba\r\nb")
    kept = edits_of(run)
    fields = form(browser, uid)
    fields["name"] = fields["name"].replace("\n", "")  # as a browser does with a field of one line
    save(browser, uid, fields)
    again = store_of(browser).run(uid)
    assert (again.name, again.tags, edits_of(again)) == (run.name, run.tags, kept)
    save(browser, uid, fields, tags=fields["tags"] + "\nnew: 1")
    again = store_of(browser).run(uid)
    assert again.tags == {**run.tags, "new": "1"} and (again.name, edits_of(again).note) == (run.name, kept.note)


def test_lines_of_a_note_are_an_edit(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    for note in ("first\nsecond", "first\n\nsecond", "firstsecond"):
        save(browser, uid, form(browser, uid), note=note.replace("\n", "\r\n"))
        assert edits_of(store_of(browser).run(uid)).note == note


def test_the_later_of_two_browsers_is_told(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    first, second = form(browser, uid), form(browser, uid)
    assert save(browser, uid, first, note="one").status_code == 200
    refused = save(browser, uid, second, note="two")
    assert refused.status_code == 400 and "was edited after this form was read" in text_of(refused)
    assert f'href="/runs/{uid}">Back to the page' in refused.text
    assert edits_of(store_of(browser).run(uid)).note == "one"
    assert save(browser, uid, form(browser, uid), note="two").status_code == 200


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "sk-abcdefghijklmnopqrst"}, "the name of a run must not hold what looks like a key"),
        ({"tags": "key: sk-abcdefghijklmnopqrst"}, "the tags of a run must not hold what looks like a key"),
        ({"note": "password: abcdefghijklmnopqrst"}, "the note of a run must not hold what looks like a key"),
        ({"tags": ": x"}, "tags must have a name but line 1 has none"),
        ({"tags": "a: 1\na: 2"}, "stands on two lines"),
        ({"tags": "\n".join(f"t{n}" for n in range(51))}, "tags must be at most 50 but are 51"),
        ({"name": "n" * 201}, "name must have at most 200 characters but has 201"),
        ({"note": "n" * 4001}, "note must have at most 4,000 characters but has 4,001"),
        ({"edited": "yesterday", "note": "x"}, "edited must be the time"),
        ({"edited": "nan", "note": "x"}, "was edited after this form was read"),
    ],
)
def test_wrong_edits_change_nothing(site: tuple[TestClient, str], change: dict[str, str], words: str) -> None:
    browser, uid = site
    found = save(browser, uid, {"name": "books", "tags": "", "note": "", "edited": "", **change})
    assert found.status_code == 400 and words in text_of(found)
    run = store_of(browser).run(uid)
    assert (run.name, run.tags, edits_of(run)) == ("books", {"model": "small", "tries": 3}, ("", None))


def test_a_run_without_edits_looks_as_before(site: tuple[TestClient, str]) -> None:
    browser, uid = site
    run = store_of(browser).run(uid)
    assert "note" not in run_record(run)
    assert "note-of-run" not in browser.get(f"/runs/{uid}").text
