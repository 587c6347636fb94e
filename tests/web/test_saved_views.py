"""Saved views of rows and of runs: kept, used, renamed, deleted, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.datastructures import QueryParams

from tests.web.pages import client, send, text_of
from tests.web.test_run import fill, rows_of
from valor_gpu.errors import InputError
from valor_gpu.store import Store, StoredRow
from valor_gpu.web.runs import saved_views
from valor_gpu.web.runs.saved_views import ROWS_VIEW, RUNS_VIEW, rename, save

QUERY = "if=gpt_fluency%3Aat_least%3A4&if=violence%3Abetween%3A4..6&sort=-gpt_fluency&at=25&open=3&filter=1"
NAME = "worst <b>ü</b> \u202e & 'one'"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


def view_links(page: str) -> dict[str, str]:
    """Names of views, as markup, to their addresses."""
    menu = page[page.index('<div class="views">') :]
    found = re.findall(r'<a href="(\?[^"]*)"[^>]*>([^<]*)</a>', menu[: menu.index('value="save"')])
    return {name: to.replace("&amp;", "&") for to, name in found}


def test_a_view_of_rows_is_kept_and_leads_to_its_rows(path: Path) -> None:
    uid, browser = fill(path), client(path)
    expected = rows_of(browser.get(f"/runs/{uid}?{QUERY}&at=0"))
    saved = send(browser, "/views/rows", {"action": "save", "run": uid, "query": QUERY, "name": NAME})
    assert saved.status_code == 200 and saved.url.path == f"/runs/{uid}"
    kept = QueryParams(saved.url.query.decode())
    assert kept.getlist("if") == ["gpt_fluency:at_least:4", "violence:between:4..6"] and "open" not in kept
    links = view_links(saved.text)
    assert list(links) == ["worst &lt;b&gt;ü&lt;/b&gt; [U+202E] &amp; &#39;one&#39;"]
    assert 'aria-current="true"' in saved.text and "<b>ü" not in saved.text
    assert rows_of(browser.get(f"/runs/{uid}{next(iter(links.values()))}")) == expected != []


def test_a_view_is_offered_where_its_evaluators_are(path: Path) -> None:
    uid = fill(path)
    with Store(path) as store:
        other = store.create_run("other", {"evaluators": [{"name": "violence", "kind": "safety"}]})
        other.add_rows([StoredRow(1, "1", {"question": "q"})])
        save(store, ROWS_VIEW, "both", QUERY)
        save(store, ROWS_VIEW, "violence", "if=violence:at_least:4")
        save(store, ROWS_VIEW, "labels", "if=:unlabelled:&q=yes")
        save(store, RUNS_VIEW, "of runs", "status=finished&sort=-run&from=100")
    browser = client(path)
    assert list(view_links(browser.get(f"/runs/{uid}").text)) == ["both", "labels", "violence"]
    assert list(view_links(browser.get(f"/runs/{other.id}").text)) == ["labels", "violence"]
    assert view_links(browser.get("/runs").text) == {"of runs": "?status=finished&sort=-run"}


def test_a_view_of_runs_is_kept_renamed_and_deleted(path: Path) -> None:
    fill(path)
    browser = client(path)
    query = "q=books&column=headline&column=failed&sort=run"
    saved = send(browser, "/views/runs", {"action": "save", "query": query, "name": "books"})
    assert saved.url.path == "/runs" and view_links(saved.text) == {
        "books": f"?{query.replace('&sort=run', '')}&sort=run"
    }
    renamed = send(browser, "/views/runs", {"action": "rename", "name": "books", "new": "all books"})
    assert list(view_links(renamed.text)) == ["all books"]
    gone = send(browser, "/views/runs", {"action": "delete", "name": "all books", "query": query})
    assert "No view is saved yet." in text_of(gone) and "sort=run" in str(gone.url)
    assert send(browser, "/views/runs", {"action": "delete", "name": "all books"}).status_code == 200  # twice


@pytest.mark.parametrize(
    ("name", "query", "words"),
    [
        ("", "q=a", "the name of a view must not be empty"),
        ("a" * 81, "q=a", "the name of a view may have 80 characters but has 81"),
        ("sk-proj-abcdefghijklmnop1234", "q=a", "looks like a key of a service, so it was not kept"),
        ("key", "q=sk-proj-abcdefghijklmnop1234", "looks like a key of a service, so it was not kept"),
        ("nothing", "at=25&open=3", "a view must have a search, a condition, a column or an order"),
        ("long", "q=" + "a" * 9000, "a view may have 8,000 characters but has 9,002"),
    ],
)
def test_what_is_refused_is_not_kept(path: Path, name: str, query: str, words: str) -> None:
    uid, browser = fill(path), client(path)
    found = send(browser, "/views/rows", {"action": "save", "run": uid, "name": name, "query": query})
    assert found.status_code == 400 and words in text_of(found)
    with Store(path) as store:
        assert store.views.list(ROWS_VIEW) == []


def test_there_may_be_so_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_views, "MOST", 2)
    with Store(path) as store:
        for name in ("one", "two", "two"):
            save(store, ROWS_VIEW, name, "q=a")
        with pytest.raises(InputError, match="there may be 2 views and there are 2: delete one"):
            save(store, ROWS_VIEW, "three", "q=a")
        with pytest.raises(InputError, match="another view has the name 'one'"):
            rename(store, ROWS_VIEW, "two", "one")
        with pytest.raises(InputError, match="the view 'gone' is gone"):
            rename(store, ROWS_VIEW, "gone", "new")
        rename(store, ROWS_VIEW, "two", "two")
        assert store.views.list(ROWS_VIEW) == ["one", "two"]


@pytest.mark.parametrize(("path_of", "action", "status"), [("other", "save", 404), ("rows", "burn", 400)])
def test_other_kinds_and_actions_are_refused(path: Path, path_of: str, action: str, status: int) -> None:
    fields = {"action": action, "name": "a", "query": "q=a"}
    assert send(client(path), f"/views/{path_of}", fields).status_code == status


def test_the_way_back_stays_on_this_server(path: Path) -> None:
    fields = {"action": "save", "name": "a", "query": "q=a", "run": "//elsewhere.example/x"}
    found = send(client(path), "/views/rows", fields, follow_redirects=False)
    assert found.headers["location"].startswith("/runs/%2F%2Felsewhere")
