"""Rows of a page against a plain loop over all rows: any combination of words, conditions, statuses and orders."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from tests.web.pages import client, send, text_of
from valor_gpu.errors import InputError
from valor_gpu.evaluation.results.thresholds import read_thresholds
from valor_gpu.store import Feedback, Run, Store, StoredRow, StoredScore
from valor_gpu.web.rows import found_rows
from valor_gpu.web.rows.conditions import TESTS, Condition, Wanted, chart_link
from valor_gpu.web.rows.found_rows import PAGE, select
from valor_gpu.web.security import Session
from valor_gpu.web.studio import Studio

N = 2000
ODD = "ümlaut: a:b"
INFOS: list[dict[str, Any]] = [
    {"name": "f1", "kind": "text", "low": 0.0, "high": 1.0, "higher_is_better": True},
    {"name": "judge", "kind": "quality", "low": 1.0, "high": 5.0, "higher_is_better": True},
    {"name": ODD, "kind": "custom", "low": None, "high": None, "higher_is_better": False},
]
FACTS: dict[str, dict[str, Any]] = {each["name"]: {**each, "most": 9.5} for each in INFOS}
LIMITS = read_thresholds({"f1": 0.5, ODD: 2}, INFOS)
STATUSES = ("ok", "target_error", "timeout")
TEXTS = ("red fish", "blue fish", "red bird \u2190 日本 ü", "Grüße, Straße")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows with ties, failed and missing scores, repeats of one judge, gaps between numbers, and people's words."""
    found = tmp_path_factory.mktemp("rows") / "s.sqlite"
    draw = random.Random(5)
    with Store(found) as store:
        run = store.create_run("one", {"evaluators": INFOS, "repeats": 2, "thresholds": {"f1": 0.5, ODD: 2}})
        numbers = draw.sample(range(1, 3 * N), N)
        with run.lease():
            run.add_rows(
                StoredRow(n, f"k{n}", {"question": draw.choice(TEXTS)}, {}, draw.choice((*["ok"] * 9, *STATUSES[1:])))
                for n in numbers
            )
            run.add_scores(_scores(draw, run))
            run.finish("finished", {})
        for number in draw.sample(numbers, 150):
            name, value, passed = draw.choice(["", "f1", ODD]), draw.choice([None, 1.0]), draw.choice([None, True])
            run.add_feedback(Feedback(number, name, "me", value, passed, "as I see it"))
    return found


def _scores(draw: random.Random, run: Run) -> list[StoredScore]:
    values: dict[str, list[Any]] = {
        "f1": [0.0, 0.1, 0.25, 0.5, 0.5, 1 / 3, 1.0, None], "judge": [1, 2, 3, 4, 5, None],
        ODD: [-3.5, 0, 2, 9.5, None],
    }  # fmt: skip
    return [
        StoredScore(row.number, name, repeat, None if value is None else float(value), *status)
        for row in run.stream_rows()
        for name, choices in values.items()
        for repeat in range(2 if name == "judge" else 1)
        if row.status == "ok" and draw.random() < 0.9
        for value in [draw.choice(choices)]
        for status in [(draw.choice(["parse_error", "timeout"]), "no") if value is None else ("ok", "")]
    ]


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store(path) as found:
        yield found


class Loop:
    """All rows with all their scores, in plain lists."""

    def __init__(self, run: Run) -> None:
        self.rows = sorted(run.stream_rows(), key=lambda row: row.number)
        self.scores: dict[tuple[int, str], list[StoredScore]] = {}
        for score in run.scores():
            self.scores.setdefault((score.row, score.evaluator), []).append(score)
        self.said = run.feedback()

    def mean(self, number: int, name: str) -> float | None:
        values = [each.value for each in self.scores.get((number, name), []) if each.value is not None]
        return sum(values) / len(values) if values else None

    def holds(self, number: int, name: str, test: str, value: str) -> bool:
        found, mean = self.scores.get((number, name), []), self.mean(number, name)
        if test == "failed":
            return any(each.value is None and value in ("", each.status) for each in found)
        if test == "unscored":
            return not found
        if test in ("labelled", "unlabelled"):
            said = any(
                each.row == number and name in ("", each.evaluator) and (each.value, each.passed) != (None, None)
                for each in self.said
            )
            return said == (test == "labelled")
        if mean is None:
            return False
        if test in ("passed", "not_passed"):
            return {"f1": mean >= 0.5, ODD: mean <= 2}[name] == (test == "passed")
        if test == "between":
            low, high = map(float, value.split(".."))
            ends = high == {"f1": 1.0, "judge": 5.0, ODD: 9.5}[name] or low == high
            return low <= mean and (mean <= high if ends else mean < high)
        return {"at_least": mean >= float(value), "at_most": mean <= float(value), "equals": mean == float(value)}[test]

    def found(self, query: list[tuple[str, str]]) -> list[int]:
        """Numbers of the rows that an address asks for, in their order."""
        plain = dict(query)
        conditions = [text.rsplit(":", 2) for name, text in query if name == "if"]
        numbers = [
            row.number
            for row in self.rows
            if plain.get("q", "") in str(row.inputs["question"])
            and plain.get("status", "") in ("", row.status)
            and all(self.holds(row.number, *condition) for condition in conditions)
        ]
        name, down = plain.get("sort", "").removeprefix("-"), plain.get("sort", "").startswith("-")
        if not name:
            return numbers
        scored = [(mean, n) for n in numbers if (mean := self.mean(n, name)) is not None]
        rest = [n for n in numbers if self.mean(n, name) is None]
        failed = [n for n in rest if (n, name) in self.scores]
        return [n for _, n in sorted(scored, reverse=down)] + failed + [n for n in rest if n not in set(failed)]


def studio(store: Store) -> Studio:
    return Studio(store, Session("token", 1), store.path.parent)


def selected(store: Store, query: list[tuple[str, str]]) -> found_rows.Selection:
    return select(studio(store), store.runs()[0], Wanted.read(QueryParams(query), FACTS), FACTS, LIMITS)


CONDITIONS = [
    "f1:at_least:0.5", "f1:at_most:0.25", f"f1:equals:{1 / 3!r}", "f1:between:0.25..0.5", "f1:between:0.5..1",
    "f1:between:0.5..0.5", "f1:failed:", "f1:failed:timeout", "f1:unscored:", "f1:passed:", "f1:not_passed:",
    "judge:at_least:3", "judge:at_most:2.5", "judge:equals:3.5", "judge:between:1..2", "judge:between:4..5",
    "judge:failed:parse_error", "judge:unscored:", f"{ODD}:at_most:-3.5", f"{ODD}:between:2..9.5", f"{ODD}:passed:",
    f"{ODD}:not_passed:", ":labelled:", ":unlabelled:", "f1:labelled:", f"{ODD}:unlabelled:",
]  # fmt: skip
ORDERS = ["", "f1", "-f1", "judge", "-judge", ODD, f"-{ODD}"]


def test_every_condition_and_every_order_has_the_rows_of_a_plain_loop(store: Store) -> None:
    loop = Loop(store.runs()[0])
    assert {text.rsplit(":", 2)[1] for text in CONDITIONS} == TESTS.keys()
    for text in CONDITIONS:
        assert selected(store, [("if", text)]).numbers.tolist() == loop.found([("if", text)]), text
    for order in ORDERS:
        assert selected(store, [("sort", order)]).numbers.tolist() == loop.found([("sort", order)]), order


def test_any_combination_has_the_rows_of_a_plain_loop(store: Store) -> None:
    draw, loop, sizes = random.Random(7), Loop(store.runs()[0]), set()
    for _ in range(400):
        query = [("if", text) for text in draw.sample(CONDITIONS, draw.randrange(4))]
        query += [("q", draw.choice(("", "", "red fish", "日本", "Grüße", "\u2190"))), ("sort", draw.choice(ORDERS))]
        query.append(("status", draw.choice(("", "", "", "none", *STATUSES))))
        expected = loop.found(query)
        found = selected(store, query)
        assert found.numbers.tolist() == expected, query
        rest = [n for n in expected if loop.mean(n, dict(query)["sort"].removeprefix("-")) is None]
        assert found.n_failed + found.n_unscored == (len(rest) if dict(query)["sort"] else 0), query
        sizes.add(len(expected))
    assert len(sizes) > 60  # the questions differ


def test_pages_have_every_row_once_and_say_where_they_are(store: Store) -> None:
    browser, uid = client(store.path), store.runs()[0].id
    query = [("if", "judge:at_least:3"), ("sort", "-judge")]
    expected = Loop(store.runs()[0]).found(query)
    found, at = [], 0
    while at < len(expected):
        page = browser.get(f"/runs/{uid}", params=[*query, ("at", str(at))])
        numbers = rows_of(page)
        assert f"Rows {at + 1:,} to {at + len(numbers):,} of {len(expected):,} that match, 2,000 in all" in text_of(
            page
        )
        found += numbers
        at += PAGE
    assert found == expected
    last = browser.get(f"/runs/{uid}", params=[*query, ("at", "999999")])
    assert rows_of(last) == expected[(len(expected) - 1) // PAGE * PAGE :]


def rows_of(response: Any) -> list[int]:
    return [int(number) for number in re.findall(r'<tr id="r(\d+)"', response.text)]


def links_of(response: Any) -> dict[str, str]:
    """Words of the links of the pager to their addresses."""
    pager = response.text[response.text.index('aria-label="Pages of rows"') :]
    return {words: to.replace("&amp;", "&") for to, words in re.findall(r'href="([^"]+)"[^>]*>(\w+)</a>', pager)}


def test_the_pager_leads_to_the_first_previous_next_and_last_page(store: Store) -> None:
    browser, uid = client(store.path), store.runs()[0].id
    numbers = [row.number for row in Loop(store.runs()[0]).rows]
    page = browser.get(f"/runs/{uid}?at=50")
    for words, start in (("First", 0), ("Previous", 25), ("Next", 75), ("Last", 1975)):
        assert rows_of(browser.get(links_of(page)[words])) == numbers[start : start + PAGE], words
    assert set(links_of(browser.get(f"/runs/{uid}"))) == {"Next", "Last"}
    assert set(links_of(browser.get(f"/runs/{uid}?at=1975"))) == {"First", "Previous"}


def test_a_row_and_a_place_can_be_gone_to(store: Store) -> None:
    browser, uid = client(store.path), store.runs()[0].id
    expected = Loop(store.runs()[0]).found([("sort", "f1")])
    for query in (f"to={expected[60]}&by=row", "to=61&by=place"):
        found = browser.get(f"/runs/{uid}?sort=f1&at=25&{query}")
        assert rows_of(found) == expected[50:75] and "at=50" in str(found.url)
    missing = next(n for n in range(1, 3 * N) if n not in set(expected))
    shown = browser.get(f"/runs/{uid}?sort=f1&at=25&to={missing}")
    assert f"Row {missing:,} is not among these rows." in text_of(shown) and rows_of(shown) == expected[25:50]
    assert "Place 2,001 is not among the 2,000 places" in text_of(browser.get(f"/runs/{uid}?to=2001&by=place"))
    assert "1e3 is not the number of a row." in text_of(browser.get(f"/runs/{uid}?to=1e3"))
    opened = browser.get(f"/runs/{uid}?sort=f1&open={expected[60]}")
    assert (
        rows_of(opened) == expected[50:75]
        and f'id="r{expected[60]}" data-row="{expected[60]}" class="open"' in opened.text
    )


def test_the_page_of_a_row_leads_through_the_rows_that_match(store: Store) -> None:
    browser, uid = client(store.path), store.runs()[0].id
    query = [("if", "f1:at_least:0.5"), ("sort", "-f1")]
    expected = Loop(store.runs()[0]).found(query)
    page = browser.get(f"/runs/{uid}/rows/{expected[4]}", params=query)
    assert f"5 of {len(expected):,} rows" in text_of(page)
    beside = dict(re.findall(r'<a class="btn" href="([^"]+)"[^>]*>([^<]+)', page.text))
    words = {words: to.replace("&amp;", "&") for to, words in beside.items()}
    assert f"/rows/{expected[3]}?" in words["Previous row"] and f"/rows/{expected[5]}?" in words["Next row"]
    assert f"6 of {len(expected):,} rows" in text_of(browser.get(words["Next row"]))
    assert rows_of(browser.get(words["All rows"])) == expected[:PAGE]
    other = next(row.number for row in Loop(store.runs()[0]).rows if row.number not in set(expected))
    assert "Not among the" in text_of(browser.get(f"/runs/{uid}/rows/{other}", params=query))


def test_the_order_of_the_rows_is_said_and_can_be_changed_at_the_head_of_a_column(store: Store) -> None:
    browser, uid = client(store.path), store.runs()[0].id
    plain = browser.get(f"/runs/{uid}")
    assert "first ✕" not in text_of(plain) and "aria-sort" not in plain.text
    to = re.search(r'<th scope="col" class="n metric"><a href="([^"]+)"[^>]*>f1</a>', plain.text)
    assert to is not None
    for sort, words, way in (("-f1", "highest", "descending"), ("f1", "lowest", "ascending")):
        page = browser.get(to[1].replace("&amp;", "&"))
        assert rows_of(page) == Loop(store.runs()[0]).found([("sort", sort)])[:PAGE]
        assert f"f1, {words} first ✕" in text_of(page) and "that match" not in text_of(page)
        to = re.search(rf'aria-sort="{way}"><a href="([^"]+)"[^>]*>f1 [↑↓]</a>', page.text)
        assert to is not None
    away = re.search(r'href="([^"]+)"[^>]* aria-label="Remove the order: f1, lowest first"', page.text)
    assert away is not None and rows_of(browser.get(away[1])) == rows_of(plain)


OLD = [
    ("m=f1&op=at_least&x=0.5", [("if", "f1:at_least:0.5"), ("sort", "f1")]),
    ("m=f1&op=at_most&x=0.25&sort=-f1", [("if", "f1:at_most:0.25"), ("sort", "-f1")]),
    ("m=f1&op=failed", [("if", "f1:failed:")]),
    ("q=red+fish&m=f1&op=at_least&x=0.5", [("q", "red fish"), ("if", "f1:at_least:0.5")]),
    ("m=nothing&op=failed&sort=nothing&open=x&after=x", []),
    ("m=f1&op=at_least&x=", []),
    ("sort=f1&after=", [("sort", "f1")]),
]


@pytest.mark.parametrize(("old", "query"), OLD)
def test_old_addresses_lead_to_the_same_rows(store: Store, old: str, query: list[tuple[str, str]]) -> None:
    browser, uid = client(store.path), store.runs()[0].id
    found = browser.get(f"/runs/{uid}?{old}")
    assert rows_of(found) == Loop(store.runs()[0]).found(query)[:PAGE]
    assert not {"m", "op", "x", "after"} & QueryParams(found.url.query.decode()).keys()


@pytest.mark.parametrize("after", ["nan:3", "inf:x", ":0", "x:y", "1.0:" + "9" * 20, "9" * 20, "-5"])
def test_a_key_of_an_old_link_that_is_none_begins_at_the_first_row(store: Store, after: str) -> None:
    expected = Loop(store.runs()[0]).found([("sort", "f1")])[:PAGE]
    assert (
        rows_of(client(store.path).get(f"/runs/{store.runs()[0].id}", params={"sort": "f1", "after": after}))
        == expected
    )


def test_a_key_of_an_old_link_begins_behind_its_row(store: Store) -> None:
    browser, uid, loop = client(store.path), store.runs()[0].id, Loop(store.runs()[0])
    by_number, by_score = loop.found([]), loop.found([("sort", "f1")])
    assert rows_of(browser.get(f"/runs/{uid}?after={by_number[9]}")) == by_number[10:35]
    between = next(n for n in range(by_number[9] + 1, 3 * N) if n not in set(by_number))
    assert rows_of(browser.get(f"/runs/{uid}?after={between}"))[0] > between
    key = f"{loop.mean(by_score[30], 'f1')!r}:{by_score[30]}"
    assert rows_of(browser.get(f"/runs/{uid}", params={"sort": "f1", "after": key})) == by_score[31:56]


def test_a_condition_is_added_by_a_form_and_taken_away_by_its_chip(store: Store) -> None:
    browser, uid, loop = client(store.path), store.runs()[0].id, Loop(store.runs()[0])
    fields = {"if": "f1:at_least:0.5", "metric": ODD, "test": "between", "value": "2 to 9,5", "filter": "1", "at": "50"}
    added = browser.get(f"/runs/{uid}", params=fields)
    expected = [("if", "f1:at_least:0.5"), ("if", f"{ODD}:between:2..9.5")]
    kept = QueryParams(added.url.query.decode())
    assert kept.getlist("if") == [text for _, text in expected] and "metric" not in kept
    assert rows_of(browser.get(f"/runs/{uid}", params=expected)) == loop.found(expected)[:PAGE]
    assert "f1 at least 0.5" in text_of(added) and f"{ODD} from 2 to 9.5" in text_of(added)
    chip = re.search(r'<li class="chip">f1 at least 0.5 <a href="([^"]+)"', added.text)
    assert chip is not None
    left = browser.get(chip[1].replace("&amp;", "&"))
    assert rows_of(left) == loop.found(expected[1:])[:PAGE] and "f1 at least" not in text_of(left)
    usual = browser.get(f"/runs/{uid}", params={"q": "fish", "sort": "", "column": ["judge", "f1", ODD]})
    assert usual.url.query == b"q=fish"  # ticks that nobody changed are no choice
    assert "column" in str(browser.get(f"/runs/{uid}", params={"q": "fish", "column": ["f1"]}).url)
    people = browser.get(f"/runs/{uid}", params={"metric": "", "test": "labelled", "value": ""})
    assert QueryParams(people.url.query.decode()).getlist("if") == [":labelled:"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("if=f1", "if must be METRIC:TEST:VALUE with a test of at_least"),
        ("if=f1:larger:3", "if must be METRIC:TEST:VALUE"),
        ("if=judgee:failed:", "must name an evaluator of the run but names 'judgee'; did you mean 'judge'?"),
        ("if=x:failed:", f"must name an evaluator of the run but names 'x'; it has judge, f1, {ODD}"),
        ("if=:failed:", "a condition must name an evaluator of the run"),
        ("if=f1:at_least:1,000", "the value of a condition must be a number but is '1,000'"),
        ("if=f1:at_least:nan", "the value of a condition must be a number but is 'nan'"),
        ("if=f1:between:2", "the value of a condition must be LOW..HIGH, such as 2..4, but is '2'"),
        ("if=f1:between:2..1", "LOW..HIGH with LOW first but is '2..1'"),
        ("if=judge:passed:", "judge has no threshold, so no row passes or fails"),
        ("metric=f1&test=at_least&value=", "the value of a condition must be a number but is ''"),
        ("m=f1&op=at_least&x=soon", "the value of a condition must be a number but is 'soon'"),
        ("&".join(["if=f1:at_least:0.5"] * 21), "an address may have 20 conditions but has 21"),
    ],
)
def test_wrong_conditions_are_named(store: Store, query: str, words: str) -> None:
    found = client(store.path).get(f"/runs/{store.runs()[0].id}?{query}")
    shown = text_of(found).replace("&#39;", "'")
    assert found.status_code == 400 and words in shown


def test_a_condition_reads_what_it_writes() -> None:
    for text in CONDITIONS:
        condition = Condition.read(text, FACTS)
        assert Condition.read(condition.text, FACTS) == condition
    assert chart_link("a b", 0.1, 0.2) == "if=a+b%3Abetween%3A0.1..0.2"
    with pytest.raises(InputError, match="must name an evaluator"):
        Condition.read("nobody:failed:", FACTS)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("3.5..4.5", "m rounded to 4"),
        ("-0.5..0.5", "m rounded to 0"),
        ("-1.5..-0.5", "m rounded to -1"),
        ("3..4", "m from 3 to 4"),
        ("0.5..5.5", "m from 0.5 to 5.5"),
        ("0.25..1.25", "m from 0.25 to 1.25"),
    ],
)
def test_a_bar_of_a_whole_score_is_named_by_it(value: str, words: str) -> None:
    assert Condition.read(f"m:between:{value}", {"m": None}).words == words


def test_people_count_at_once_although_the_rest_is_kept(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("people", {"evaluators": INFOS[:1]})
        with run.lease():
            run.add_rows([StoredRow(n, str(n), {"question": "q"}) for n in range(1, 6)])
            run.add_scores([StoredScore(n, "f1", 0, n / 10) for n in range(1, 5)])
            run.finish("finished", {})
        browser = client(tmp_path / "s.sqlite")
        address = f"/runs/{run.id}?if=:unlabelled:&sort=-f1"
        assert rows_of(browser.get(address)) == [4, 3, 2, 1, 5]
        assert "1 without a score stand at the end" in text_of(browser.get(address))
        send(browser, f"/runs/{run.id}/feedback", {"row": "3", "passed": "1"})
        send(browser, f"/runs/{run.id}/feedback", {"row": "5", "note": "a note is no label"})
        assert rows_of(browser.get(address)) == [4, 2, 1, 5]


def test_what_was_found_is_kept_until_the_run_changes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run, shared = store.runs()[0], studio(store)
    asked = []
    found = found_rows._found
    monkeypatch.setattr(found_rows, "_found", lambda *parts: asked.append(1) or found(*parts))
    wanted = Wanted.read(QueryParams("if=f1:at_least:0.5"), FACTS)
    for _ in range(3):
        select(shared, run, wanted, FACTS, LIMITS)
    assert len(asked) == 1
    select(shared, run, Wanted.read(QueryParams("if=f1:at_least:0.5&at=25"), FACTS), FACTS, LIMITS)
    assert len(asked) == 1
    select(shared, run, Wanted.read(QueryParams("if=f1:passed:"), FACTS), FACTS, LIMITS)
    select(shared, run, Wanted.read(QueryParams("if=f1:passed:"), FACTS), FACTS, read_thresholds({"f1": 1}, INFOS))
    assert len(asked) == 3
    monkeypatch.setattr(found_rows, "KEPT_BYTES", 1)
    select(shared, run, Wanted.read(QueryParams("if=f1:failed:"), FACTS), FACTS, LIMITS)
    select(shared, run, wanted, FACTS, LIMITS)
    assert len(asked) == 5  # the older ones went


def test_a_run_that_goes_on_is_looked_at_anew_by_two_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_rows, "FRESH", 0.0)
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("goes on", {"evaluators": INFOS[:1]})
        browsers = [client(tmp_path / "s.sqlite") for _ in range(2)]
        problems: list[str] = []
        done = threading.Event()

        def read(browser: Any) -> None:
            seen = 0
            while not done.is_set() or seen < 400:
                page = browser.get(f"/runs/{run.id}?if=f1:at_least:0.5&sort=-f1")
                shown = re.search(r"of ([\d,]+) that match, [\d,]+ in all so far", text_of(page))
                now = int(shown[1].replace(",", "")) if shown else 0
                if page.status_code != 200 or now < seen:
                    problems.append(f"{page.status_code}, {now} after {seen}")
                    return
                seen = now

        readers = [threading.Thread(target=read, args=(browser,)) for browser in browsers]
        for reader in readers:
            reader.start()
        with run.lease():
            for start in range(1, 401, 20):
                run.add_rows([StoredRow(n, str(n), {"question": "q"}) for n in range(start, start + 20)])
                run.add_scores([StoredScore(n, "f1", 0, 0.5 + n / 1000) for n in range(start, start + 20)])
            done.set()
            for reader in readers:
                reader.join()
    assert not problems


def test_the_page_says_what_stands_at_the_end_and_what_repeats_count_as(store: Store) -> None:
    browser, uid, loop = client(store.path), store.runs()[0].id, Loop(store.runs()[0])
    rest = [row.number for row in loop.rows if loop.mean(row.number, "f1") is None]
    n_failed = sum((n, "f1") in loop.scores for n in rest)
    shown = text_of(browser.get(f"/runs/{uid}?sort=f1"))
    said = f"{n_failed} whose score failed and {len(rest) - n_failed} without a score stand at the end."
    assert f"Rows come by f1; {said}" in shown and "by the mean of a row's repeats" in shown.replace("&#39;", "'")
    assert "mean of a row" not in text_of(browser.get(f"/runs/{uid}?q=fish"))


def test_the_filter_keeps_the_status(store: Store) -> None:
    counts = store.runs()[0].counts()
    page = client(store.path).get(f"/runs/{store.runs()[0].id}?status=timeout").text
    assert f'<option value="timeout" selected>timeout ({counts["timeout"]})</option>' in page
