"""Pages of rows against a search that looks at every row: any combination of words, tests, orders and statuses."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.web.pages import client, text_of
from valor_gpu.store import Run, Store, StoredRow, StoredScore
from valor_gpu.web import found_rows
from valor_gpu.web.found_rows import Wanted, find_rows

METRICS = ("f1", "bleu")
N = 80


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "s.sqlite") as found:
        yield found


@pytest.fixture
def run(store: Store) -> Run:
    """Rows with equal scores, failed ones, others without any, and failed answers."""
    draw = random.Random(5)
    found = store.create_run("one", {"evaluators": [{"name": name} for name in METRICS], "repeats": 2})
    statuses = {number: draw.choice(["ok", "ok", "ok", "target_error", "timeout"]) for number in range(1, N + 1)}
    texts = ["red fish", "blue fish", "red bird \u2190 日本 ü"]
    with found.lease():
        found.add_rows([StoredRow(n, f"k{n}", {"question": draw.choice(texts)}, {}, statuses[n]) for n in statuses])
        found.add_scores(
            StoredScore(n, name, repeat, *draw.choice([(0.25,), (0.5,), (0.5,), (None, "failed", "no")]))
            for n in statuses
            for name in METRICS
            for repeat in (0, 1)
            if statuses[n] == "ok" and draw.random() < 0.8
        )
        found.finish("finished", {})
    return found


def by_hand(run: Run, query: dict[str, str]) -> list[int]:
    """Numbers of the rows that an address asks for, in their order."""
    scores = {(each.row, each.evaluator, each.repeat): each for each in run.scores()}
    order = query.get("sort", "").removeprefix("-")

    def keeps(row: StoredRow) -> bool:
        first = scores.get((row.number, query.get("m", ""), 0))
        both = [scores.get((row.number, query.get("m", ""), repeat)) for repeat in (0, 1)]
        value = None if first is None else first.value
        tests = {
            "": True,
            "failed": any(each is not None and each.value is None for each in both),
            "at_most": value is not None and value <= 0.25,
            "at_least": value is not None and value >= 0.5,
        }
        return (
            query["q"] in str(row.inputs["question"])
            and query["status"] in ("", row.status)
            and tests[query["op"]]
            and (not order or bool(query["q"]) or (row.number, order, 0) in scores)
        )

    found = [row.number for row in run.rows(limit=N) if keeps(row)]
    by = order or (query["m"] if query["op"] in ("at_most", "at_least") else "")
    if not by or query["q"]:
        return found
    values = {n: scores[n, by, 0].value for n in found}
    found.sort(key=lambda n: (values[n] is not None, values[n] or 0.0, n), reverse=query["sort"].startswith("-"))
    return found


def by_pages(run: Run, query: dict[str, str]) -> list[int]:
    """The same, page by page."""
    found: list[int] = []
    after = ""
    for _ in range(3 * N):
        page = find_rows(run, Wanted.read({**query, "after": after}, dict.fromkeys(METRICS)), 7)
        found += page.numbers
        if page.following is None:
            return found
        after = page.following
    raise AssertionError("the pages have no end")


@pytest.mark.parametrize("scanned", [3, pytest.param(2000, marks=pytest.mark.slow)])
def test_pages_have_every_row_once_whatever_is_asked(run: Run, monkeypatch: pytest.MonkeyPatch, scanned: int) -> None:
    monkeypatch.setattr(found_rows, "SCANNED", scanned)
    monkeypatch.setattr(found_rows, "_BATCH", 5)
    choices: tuple[tuple[str, ...], ...] = (
        ("", "red fish", "日本", "ü", "\u2190"), METRICS, ("", "failed", "at_most", "at_least"),
        ("", "f1", "-f1", "-bleu"), ("", "ok", "timeout", "none"),
    )  # fmt: skip
    sizes = set()
    for text, metric, test, sort, status in itertools.product(*choices):
        bound = {"at_most": "0.25", "at_least": "0.5"}.get(test, "")
        query = {"q": text, "m": metric, "op": test, "x": bound, "sort": sort, "status": status}
        expected = by_hand(run, query)
        assert by_pages(run, query) == expected, query
        sizes.add(len(expected))
    assert len(sizes) > 12  # the questions differ


def text_at(run: Run, store: Store, query: str) -> str:
    return text_of(client(store.path).get(f"/runs/{run.id}?{query}"))


def test_the_page_says_what_an_order_leaves_out(run: Run, store: Store) -> None:
    scored = {each.row for each in run.scores("f1")}
    assert f"{N - len(scored)} rows have no score of f1 and are not in this order." in text_at(run, store, "sort=f1")
    assert "go by the first repeat" in text_at(run, store, "m=f1&op=at_most&x=1")
    assert "in the order of their numbers" in text_at(run, store, "sort=f1&q=fish")


def test_the_filter_keeps_the_status(run: Run, store: Store) -> None:
    counts: dict[str, Any] = run.counts()
    page = client(store.path).get(f"/runs/{run.id}?status=timeout").text
    assert f'<option value="timeout" selected>timeout ({counts["timeout"]})</option>' in page


@pytest.mark.parametrize("after", ["nan:3", "inf:3", "-inf:3", ":0", "x:y", "1.0:" + "9" * 20, "9" * 20, "0.5"])
def test_a_key_that_is_none_begins_at_the_first_row(run: Run, after: str) -> None:
    wanted = Wanted.read({"sort": "f1", "after": after}, dict.fromkeys(METRICS))
    assert find_rows(run, wanted).numbers == find_rows(run, Wanted(order="f1")).numbers
