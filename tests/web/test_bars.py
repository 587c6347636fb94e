"""Bars of a run's page lead to the rows that they count; so do its failures. Conversations in the table of rows."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.web.pages import client, text_of
from tests.web.test_run import rows_of
from valor_gpu.store import Store, StoredRow, StoredScore

INFOS: list[dict[str, Any]] = [
    {"name": "fluency: <b>", "kind": "quality", "low": 1, "high": 5, "higher_is_better": True},
    {"name": "violence", "kind": "safety", "low": 0, "high": 7, "higher_is_better": False},
    {"name": "f1_score", "kind": "text", "low": 0, "high": 1, "higher_is_better": True},
    {"name": "exact_match", "kind": "text", "low": 0, "high": 1, "higher_is_better": True},
    {"name": "words", "kind": "custom", "low": None, "high": None, "higher_is_better": None},
    {"name": "preference", "kind": "pairwise", "low": 0, "high": 1, "higher_is_better": True},
]
VALUES: dict[str, list[float]] = {
    "fluency: <b>": [1, 2, 2.5, 3, 4, 4.5, 5],
    "violence": [0, 1, 2, 3.5, 4, 6, 7],
    "f1_score": [0, 0.05, 0.1, 0.15, 1 / 3, 0.95, 1.0],
    "exact_match": [0, 1],
    "words": [-3.5, 0, 12, 13, 400.25],
    "preference": [0, 0.5, 1],
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("bars") / "s.sqlite"
    draw = random.Random(11)
    with Store(found) as store:
        run = store.create_run("bars", {"version": 1, "evaluators": INFOS, "data": {}})
        with run.lease():
            run.add_rows([StoredRow(n, str(n), {"question": "q"}) for n in range(1, 201)])
            run.add_scores(
                StoredScore(n, name, 0, None, draw.choice(["timeout", "parse_error"]), "no")
                if draw.random() < 0.1
                else StoredScore(n, name, 0, float(draw.choice(values)))
                for n in range(1, 201)
                for name, values in VALUES.items()
                if draw.random() < 0.95
            )
            run.finish("finished", {})
    return found


def matching(browser: Any, address: str) -> int:
    shown = re.search(r"Rows 1 to \d+ of ([\d,]+) that match, 200 in all", text_of(browser.get(address)))
    return int(shown[1].replace(",", "")) if shown else 0


def test_every_bar_leads_to_as_many_rows_as_it_counts(path: Path) -> None:
    browser, seen = client(path), {}
    with Store(path) as store:
        uid = store.runs()[0].id
    page = browser.get(f"/runs/{uid}").text
    for to, label in re.findall(r'<a href="([^"]+)" tabindex="-?[01]" aria-label="([^"]+)">', page):
        name, n = label.removeprefix("rows of ").split(" with ")[0], int(label.rpartition(": ")[2])
        assert matching(browser, to.replace("&amp;", "&")) == n > 0, label
        seen[name] = seen.get(name, 0) + n
    with Store(path) as store:
        assert {name.replace("&lt;", "<").replace("&gt;", ">"): n for name, n in seen.items()} == {
            name: found.n for name, found in store.runs()[0].summary().items()
        }


def test_bars_of_repeats_say_that_they_count_scores(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("repeats", {"version": 1, "evaluators": INFOS, "data": {}, "repeats": 2})
        with run.lease():
            run.add_rows([StoredRow(n, str(n), {}) for n in (1, 2)])
            values = {"fluency: <b>": (1, 5, 4, 4), "exact_match": (0, 1, 1, 1), "violence": (0, 2, 6, 6)}
            for name, found in values.items():
                places = ((1, 0), (1, 1), (2, 0), (2, 1))
                run.add_scores([StoredScore(row, name, repeat, float(v)) for (row, repeat), v in zip(places, found)])
            run.add_scores([StoredScore(n, "preference", 0, 1.0) for n in (1, 2)])
            run.finish("finished", {})
    page = client(store.path).get(f"/runs/{run.id}").text
    labels = re.findall(r'<a href="[^"]+" tabindex="-?[01]" aria-label="([^"]+)">', page)
    end = "; opens rows by the mean of their repeats"
    assert {each for each in labels if each.startswith("scores")} == {
        *(f"scores of fluency: &lt;b&gt; with {value}: {n}{end}" for value, n in ((1, 1), (4, 2), (5, 1))),
        *(f"scores of exact_match with {value}: {n}{end}" for value, n in ((0, 1), (1, 3))),
    }
    assert {each.partition(" with ")[0] for each in labels if each.startswith("rows")} == {
        "rows of violence", "rows of preference",
    }  # fmt: skip


def test_causes_of_a_card_lead_to_their_rows(path: Path) -> None:
    browser = client(path)
    with Store(path) as store:
        run = store.runs()[0]
    page = browser.get(f"/runs/{run.id}").text
    found = re.findall(r'<a class="fail" href="([^"]+)">(\d+) ([^<]+)</a>', page)
    assert {cause for _, _, cause in found} == {"timeout", "parse error", "not judged"} and len(found) == 18
    for to, n, cause in found:
        assert matching(browser, to.replace("&amp;", "&")) == int(n), (to, cause)


def test_a_bar_stands_beside_the_conditions_on_others(path: Path) -> None:
    browser = client(path)
    with Store(path) as store:
        uid = store.runs()[0].id
    page = browser.get(f"/runs/{uid}?if=words:at_least:0&if=f1_score:at_most:0.5&level=High&at=25").text
    to = re.search(r'href="([^"]+)" tabindex="0" aria-label="rows of f1_score', page)
    assert to is not None
    query = to[1].replace("&amp;", "&")
    assert (
        "if=words%3Aat_least%3A0" in query and "at_most" not in query and "level=High" in query and "at=" not in query
    )


def test_the_counts_of_a_finished_run_are_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from valor_gpu.store import Run

    browser = client(path)
    with Store(path) as store:
        uid = store.runs()[0].id
    first = browser.get(f"/runs/{uid}?q=x").text
    for method in ("histogram", "counts", "summary"):
        monkeypatch.setattr(Run, method, lambda *_: pytest.fail("the page counts again"))
    assert browser.get(f"/runs/{uid}?q=x").text == first


TURNS = [
    {"role": "user", "content": "When does it leave?"},
    {"role": "assistant", "content": "At nine.", "context": {"citations": [
        {"id": "times.md", "content": "The ferry leaves at nine."}, {"content": "<i>North quay</i>"}, "plain",
        {"other": 1}]}},
    {"role": "user", "content": "And back?"},
    {"role": "assistant", "content": "At six.", "context": "the timetable"},
    {"role": "user", "content": "Thanks."},
]  # fmt: skip


def test_a_conversation_shows_its_last_reply_and_its_sources(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("chat", {"evaluators": [], "data_mapping": {"messages": "${data.talk}"}})
        run.add_rows([StoredRow(1, "1", {"talk": TURNS}), StoredRow(2, "2", {"talk": []}), StoredRow(3, "3", {})])
    browser = client(tmp_path / "s.sqlite")
    page = browser.get(f"/runs/{run.id}")
    assert "When does it leave? At six. 5 messages" in text_of(page) and rows_of(page) == [1, 2, 3]
    assert text_of(page).count("messages") == 1
    row = browser.get(f"/runs/{run.id}/rows/1").text
    assert "At nine.\n\n[1] times.md: The ferry leaves at nine.\n[2] &lt;i&gt;North quay&lt;/i&gt;\n[3] plain\n" in row
    assert "[4] {&#34;other&#34;: 1}" in row and "At six.\n\nContext: the timetable" in row and "citations" not in row
