"""The list of runs: filters, sorting, pages, deletion."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.web.pages import client, send, text_of
from valor_gpu.store import Store, StoredRow

F1 = {"name": "f1_score", "summary_name": "mean_f1_score", "low": 0, "high": 1}


def add_run(store: Store, name: str, f1: float | None, **more: Any) -> str:
    config = {"version": 1, "data": {"source": "folder/questions.csv", "rows": 4}, "evaluators": [F1], **more}
    run = store.create_run(name, config)
    with run.lease():
        failed = {"evaluators": {"f1_score": {"n_failed": {"timeout": 2}}}, "rows": {"n": 4}, "cost": None}
        run.finish("finished", {"metrics": {"mean_f1_score": f1}, **failed})
    return run.id


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "s.sqlite"
    with Store(found) as store:
        add_run(store, "small", 0.25)
        add_run(store, "large", 0.75, target={"name": "shop:answer"})
        add_run(store, "none", None)
    return found


def names(response: Any) -> list[str]:
    return re.findall(r'<th scope="row" class="pin"><a href="[^"]*">(.*?)</a>', response.text)


def test_empty_store_says_what_makes_a_run(tmp_path: Path) -> None:
    assert "No run in this store yet" in text_of(client(tmp_path / "s.sqlite").get("/"))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["none", "large", "small"]),
        ("sort=started", ["small", "large", "none"]),
        ("sort=-mean_f1_score", ["large", "small", "none"]),
        ("sort=mean_f1_score", ["small", "large", "none"]),
        ("sort=run", ["large", "none", "small"]),
        ("sort=headline", ["small", "large", "none"]),
        ("q=SHOP", ["large"]),
        ("q=questions.csv+small", ["small"]),
        ("metric=mean_f1_score&least=0.5", ["large"]),
        ("status=running", []),
        ("kind=vision", []),
        ("from=1", ["large", "small"]),
    ],
)
def test_filters_and_order(path: Path, query: str, expected: list[str]) -> None:
    assert names(client(path).get(f"/runs?{query}")) == expected


def test_numbers_and_what_lacks_them(path: Path) -> None:
    shown = text_of(client(path).get("/runs"))
    assert "0.750 mean of f1_score" in shown and "questions.csv · 4" in shown and "shop:answer" in shown
    assert "nan" not in shown.lower() and "None" not in shown


def test_a_list_without_numbers_has_no_filter_by_them(tmp_path: Path) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        store.create_run("new", {})
    shown = client(tmp_path / "s.sqlite").get("/runs")
    assert ">Filter</button>" in shown.text and 'name="least"' not in shown.text and "/trend" not in shown.text


def test_bad_number_in_filter_is_told(path: Path) -> None:
    found = client(path).get("/runs?metric=mean_f1_score&least=much")
    assert found.status_code == 400 and "must be a number but is" in text_of(found)


def test_chosen_columns(path: Path) -> None:
    shown = client(path).get("/runs?column=failed").text
    assert re.search(r"<th[^>]*><a[^>]*>Failed", shown) and not re.search(r"<th[^>]*><a[^>]*>f1_score", shown)


def test_hostile_names_are_text(path: Path) -> None:
    with Store(path) as store:
        add_run(store, "<script>alert(1)</script>\u202e", 0.5)
    shown = client(path).get("/runs").text
    assert "<script>alert" not in shown and "&lt;script&gt;alert(1)&lt;/script&gt;[U+202E]" in shown


def test_running_run_refreshes_until_told_not_to(path: Path) -> None:
    with Store(path) as store:
        run = store.create_run("going", {"version": 1, "data": {"source": "a.csv", "rows": 8}})
        with run.lease():
            run.add_rows([StoredRow(1, "a", {}, {})])
            browser = client(path)
            shown = browser.get("/runs")
            assert 'http-equiv="refresh"' in shown.text and "1 of 8 rows" in text_of(shown)
            assert 'http-equiv="refresh"' not in browser.get("/runs?still=1").text


def test_deleted_run_can_be_taken_back(path: Path) -> None:
    browser = client(path)
    with Store(path) as store:
        uid = store.run("small").id
    found = send(browser, f"/runs/{uid}/delete")
    assert names(found) == ["none", "large"] and "Deleted small." in text_of(found)
    send(browser, f"/runs/{uid}/undo")
    assert names(browser.get("/runs")) == ["none", "large", "small"]


def test_unknown_run_is_said(path: Path) -> None:
    found = send(client(path), "/runs/nothing/delete")
    assert found.status_code == 404 and "There is no run nothing in this store" in text_of(found)


def test_quality_stands_for_a_run_and_variants_can_be_told_apart(path: Path) -> None:
    judged = {"name": "gpt_fluency", "summary_name": "mean_gpt_fluency", "low": 1, "high": 5, "kind": "quality"}
    config = {"evaluators": [{**F1, "kind": "text"}, judged], "target": {"name": "bot"}}
    with Store(path) as store:
        run = store.create_run("two", config, tags={"variant": "warm"})
        with run.lease():
            run.finish("finished", {"metrics": {"mean_f1_score": 0.5, "mean_gpt_fluency": 4.0}, "rows": {"n": 1}})
    shown = text_of(client(path).get("/runs"))
    assert "4.00 mean of gpt_fluency" in shown and "bot, warm" in shown


def test_facts_of_target_and_cancelling(path: Path) -> None:
    target = {"kind": "function", "name": "bot", "origin": "shop:bot", "parameters": {"warmth": 0.7}}
    with Store(path) as store:
        run = store.create_run("two", {"evaluators": [{**F1, "kind": "text"}], "target": target})
        with run.lease():
            shown = text_of(client(path).get(f"/runs/{run.id}"))
            store.views.save("cancel", run.id, {"at": 0.0})
            ending = text_of(client(path).get(f"/runs/{run.id}"))
    assert "Target bot, shop:bot, with warmth=0.7" in shown and "no tokens Made" in shown
    assert "Cancelling" not in shown and "Cancelling: requests in flight end" in ending
    assert "Running" in shown and "Running" not in ending.split("Compare")[0]


@pytest.mark.parametrize(
    ("more", "state", "words"),
    [
        ({}, "stopped", "questions.csv · 4 of 9 "),
        ({"limit": 6}, "stopped", "questions.csv · 4 of 6 "),
        ({"limit": 3, "epochs": 3}, "stopped", "questions.csv · 4 of 9 "),
        ({"limit": 4}, "stopped", "questions.csv · 4 "),
        ({}, "finished", "questions.csv · 4 "),
    ],
)
def test_a_run_that_stopped_says_how_many_rows_it_has_of_all(
    tmp_path: Path, more: dict[str, Any], state: str, words: str
) -> None:
    config = {"version": 1, "data": {"source": "questions.csv", "rows": 9}, "evaluators": [F1], **more}
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run("part", config)
        with run.lease():
            run.finish(state, {"metrics": {"mean_f1_score": 0.5}, "rows": {"n": 4}, "cost": 0.5})
    shown = text_of(client(tmp_path / "s.sqlite").get("/runs"))
    assert words in shown and (" of " in words or "4 of" not in shown)
    assert "Next" not in shown, "a list of one page has no other pages"


@pytest.mark.parametrize(("cost", "words"), [(0.318, "0.32 CHF"), (0.001, "&lt; 0.01 CHF"), (None, "·")])
def test_a_cost_has_its_currency(tmp_path: Path, cost: float | None, words: str) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        run = store.create_run(
            "paid", {"evaluators": [F1], "prices": {"prompt": 1.0, "completion": 1.0, "currency": "CHF"}}
        )
        with run.lease():
            run.finish("finished", {"metrics": {"mean_f1_score": 0.5}, "rows": {"n": 4}, "cost": cost})
    assert re.search(
        rf"0\.500 {re.escape(words)} \d",
        text_of(client(tmp_path / "s.sqlite").get("/runs?column=mean_f1_score&column=cost")),
    )
