"""Walks through the rows of a run that goes on: no row twice, none left out, and an end; and what is kept for it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from tests.web.pages import client, send, text_of
from tests.web.test_found_rows import FACTS, INFOS, LIMITS, Loop, links_of, rows_of, studio
from valor_gpu.store import Run, Store, StoredRow, StoredScore, search
from valor_gpu.web.rows import found_rows
from valor_gpu.web.rows.conditions import Wanted
from valor_gpu.web.rows.found_rows import PAGE, select

TEXTS = ("red fish", "blue fish 日本", "灯塔")


class Writer:
    """Adds rows in no order, and their scores later, likewise."""

    def __init__(self, run: Run, n: int, seed: int) -> None:
        self.draw, self.run = random.Random(seed), run
        self.left = self.draw.sample(range(1, 3 * n), n)
        self.unscored: list[int] = []

    def write(self, n: int) -> None:
        rows, self.left = self.left[:n], self.left[n:]
        statuses = [self.draw.choice(("ok", "ok", "timeout")) for _ in rows]
        self.run.add_rows(
            [StoredRow(k, f"k{k}", {"question": self.draw.choice(TEXTS)}, {}, s) for k, s in zip(rows, statuses)]
        )
        self.unscored += [k for k, status in zip(rows, statuses) if status == "ok"]
        self.draw.shuffle(self.unscored)
        scored, self.unscored = self.unscored[: n // 2], self.unscored[n // 2 :]
        self.run.add_scores([StoredScore(k, "f1", 0, self.draw.choice((0.0, 0.25, 0.5, 1.0))) for k in scored])


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(found_rows, "FRESH", 0.0)
    with Store(tmp_path / "s.sqlite") as found:
        yield found


def started(store: Store, n: int, seed: int = 3) -> tuple[Run, Writer]:
    run = store.create_run("grows", {"evaluators": INFOS[:1], "thresholds": {"f1": 0.5}})
    writer = Writer(run, n, seed)
    writer.write(n // 3)
    return run, writer


QUERIES: list[list[tuple[str, str]]] = [
    [], [("sort", "f1")], [("sort", "-f1")], [("q", "fish")], [("q", "日本"), ("sort", "-f1")],
    [("if", "f1:at_least:0.5")], [("if", "f1:unscored:"), ("if", ":unlabelled:")], [("status", "timeout")],
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_a_walk_shows_every_row_once_while_rows_arrive_and_ends(store: Store, query: list[tuple[str, str]]) -> None:
    run, writer = started(store, 900)
    browser, expected, walked = client(store.path), Loop(run).found(query), []
    page = browser.get(f"/runs/{run.id}", params=query)
    while True:
        walked += rows_of(page)
        assert len(walked) <= len(expected)
        writer.write(60)
        if "Next" not in links_of(page):
            break
        page = browser.get(links_of(page)["Next"])
    assert walked == expected and len(expected) > 2 * PAGE
    back = browser.get(links_of(page)["Previous"])
    assert rows_of(back) == expected[(len(expected) - 1) // PAGE * PAGE - PAGE :][:PAGE]
    assert rows_of(browser.get(links_of(back)["First"])) == expected[:PAGE]
    assert rows_of(browser.get(links_of(back)["Last"])) == expected[(len(expected) - 1) // PAGE * PAGE :]
    run.finish("finished", {})
    assert rows_of(browser.get(links_of(back)["First"])) == expected[:PAGE]


def test_newer_rows_are_counted_and_shown(store: Store) -> None:
    run, writer = started(store, 600)
    browser, then = client(store.path), Loop(run).found([])
    first = browser.get(f"/runs/{run.id}")
    page = browser.get(links_of(first)["Next"])
    assert rows_of(page) == then[25:50] and "This list is of" not in text_of(page)
    writer.write(100)
    page = browser.get(page.url)
    now = Loop(run).found([])
    assert re.search(r"This list is of \d\d:\d\d:\d\d, .* 100 newer rows: show", text_of(page))
    assert f"Rows 26 to 50 of {len(then)}" in text_of(page)
    link = re.search(r'newer rows: <a href="([^"]+)"', page.text)
    assert link is not None and "as_of" not in link[1]
    shown = browser.get(link[1].replace("&amp;", "&"))
    start = now.index(then[25]) // PAGE * PAGE  # the page that has the first row that was shown
    assert rows_of(shown) == now[start : start + PAGE] and "This list" not in text_of(shown)
    assert rows_of(browser.get(f"/runs/{run.id}")) == now[:PAGE]


def test_an_order_that_changed_is_said(store: Store) -> None:
    run, writer = started(store, 300)
    browser = client(store.path)
    page = browser.get(links_of(browser.get(f"/runs/{run.id}?sort=-f1"))["Next"])
    run.add_scores([StoredScore(k, "f1", 0, 0.75) for k in writer.unscored[:3]])
    assert "rows have changed their places since: show" in text_of(browser.get(page.url))


def test_other_rows_are_those_of_now(store: Store) -> None:
    run, writer = started(store, 600)
    browser = client(store.path)
    page = browser.get(links_of(browser.get(f"/runs/{run.id}?if=f1:unscored:"))["Next"])
    writer.write(100)
    for pattern in (r'href="([^"]+)" data-swap="rows" aria-label="Remove: ', r'class="n metric"><a href="([^"]+)"'):
        link = re.search(pattern, browser.get(page.url).text)
        assert link is not None and "as_of" not in link[1]
    fields = {"metric": "f1", "test": "at_most", "value": "1", "if": "f1:unscored:"}
    added = browser.get(f"/runs/{run.id}", params={**dict(QueryParams(page.url.query.decode())), **fields})
    assert "as_of" not in str(added.url) and "no longer kept" not in text_of(added)


def test_a_row_and_its_neighbours_are_those_of_the_list(store: Store) -> None:
    run, writer = started(store, 600)
    browser, then = client(store.path), Loop(run).found([("sort", "-f1")])
    second = browser.get(links_of(browser.get(f"/runs/{run.id}?sort=-f1"))["Next"])
    opened = re.search(rf'id="r{then[30]}".*?href="([^"]+)"', second.text)
    assert opened is not None
    page = browser.get(opened[1].replace("&amp;", "&"))
    link = re.search(rf'href="(/runs/{run.id}/rows/{then[30]}\?[^"]+)"', page.text)
    assert link is not None
    row = browser.get(link[1].replace("&amp;", "&"))
    for number in then[31:60]:
        writer.write(10)
        beside = dict(re.findall(r'<a class="btn" href="([^"]+)"[^>]*>([^<]+)', row.text))
        to = {words: to.replace("&amp;", "&") for to, words in beside.items()}
        row = browser.get(to["Next row"])
        assert f"/rows/{number}?" in str(row.url)
    beside = dict(re.findall(r'<a class="btn" href="([^"]+)"[^>]*>([^<]+)', row.text))
    back = {words: to.replace("&amp;", "&") for to, words in beside.items()}["All rows"]
    assert rows_of(browser.get(back)) == then[50:75]
    jumped = browser.get(second.url, params={**dict(QueryParams(second.url.query.decode())), "to": "56", "by": "place"})
    assert rows_of(jumped) == then[50:75]


@pytest.mark.parametrize("as_of", ["1.000", "99999999999.999", "x", "-1.000", "1e3", "\uff11.000"])
def test_a_list_that_is_not_kept_is_that_of_now_and_says_so(store: Store, as_of: str) -> None:
    run, _ = started(store, 300)
    page = client(store.path).get(f"/runs/{run.id}", params={"at": "25", "as_of": as_of})
    assert rows_of(page) == Loop(run).found([])[25:50]
    is_time = re.fullmatch(r"[0-9]+\.[0-9]{3}", as_of) is not None
    assert ("The list that this page was of is no longer kept" in text_of(page)) == is_time


def test_lists_go_after_some_minutes_and_when_there_are_too_many(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run, writer = started(store, 600)
    browser = client(store.path)
    link = links_of(browser.get(f"/runs/{run.id}"))["Next"]
    with monkeypatch.context() as patch:
        patch.setattr(found_rows, "PINNED", -1.0)
        assert "no longer kept" in text_of(browser.get(link))
    link = links_of(browser.get(f"/runs/{run.id}"))["Next"]
    monkeypatch.setattr(found_rows, "PINNED_BYTES", 10_000)
    for _ in range(9):
        writer.write(10)
        assert "no longer kept" not in text_of(browser.get(link))  # what is read stays
        browser.get(f"/runs/{run.id}")
    for _ in range(9):
        writer.write(10)
        browser.get(f"/runs/{run.id}")
    assert "no longer kept" in text_of(browser.get(link))


def test_an_ended_run_has_one_list(store: Store) -> None:
    run, _ = started(store, 300)
    run.finish("finished", {})
    page = client(store.path).get(f"/runs/{run.id}")
    assert "as_of" not in page.text and "Next" in links_of(page)
    send(client(store.path), f"/runs/{run.id}/feedback", {"row": str(rows_of(page)[0]), "passed": "1"})
    assert "as_of" not in client(store.path).get(f"/runs/{run.id}?if=:labelled:").text


def test_words_of_a_run_that_grows_read_only_what_came(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run, writer = started(store, 900)
    shared, read, holds = studio(store), [], search._holds
    monkeypatch.setattr(search, "_holds", lambda *parts: read.append(1) or holds(*parts))
    query = [("q", "日本"), ("sort", "f1")]
    for n in (300, 60, 60, 60):
        found = select(shared, run, Wanted.read(QueryParams(query), FACTS), FACTS, LIMITS)
        assert len(read) == n and found.how == "substring"
        assert found.numbers.tolist() == Loop(run).found(query)
        read.clear()
        writer.write(60)
    run.finish("finished", {})
    found = select(shared, run, Wanted.read(QueryParams(query), FACTS), FACTS, LIMITS)
    assert not read and found.numbers.tolist() == Loop(run).found(query)


def test_what_is_kept_of_50_selections_is_bounded(store: Store) -> None:
    run = store.create_run("many", {"evaluators": INFOS[:1]})
    run.add_rows([StoredRow(n, str(n), {"question": "fish"}) for n in range(1, 2001)])
    run.add_scores([StoredScore(n, "f1", 0, n / 2000) for n in range(1, 2001)])
    run.finish("finished", {})
    shared = studio(store)
    for k in range(50):
        select(shared, run, Wanted.read(QueryParams([("if", f"f1:at_least:{k / 1e6}")]), FACTS), FACTS, LIMITS)
    memory: Any = shared.memory["selections"]
    assert sum(size for _, _, size in memory._kept.values()) <= 50 * (4 * 2000 + 500)
    run.add_rows([StoredRow(2**40, "far", {})])  # a number that needs eight bytes
    assert select(shared, run, Wanted(), FACTS, LIMITS).numbers.tolist() == [*range(1, 2001), 2**40]
