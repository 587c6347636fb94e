"""A metric over runs: which runs are joined, what is said of the others, and that chart and table agree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.web.pages import client, text_of
from valor_gpu.store import SavedRun, Store
from valor_gpu.web.runs.trends import letter_of

HOSTILE = "<script>f()</script>"


def info(version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"name": "f1_score", "summary_name": "mean_f1_score", "kind": "text", "low": 0, "high": 1,
            "version": version, "needs_judge": False, **more}  # fmt: skip


def add(
    store: Store,
    name: str,
    value: float | None,
    data: str = "d1",
    evaluator: dict[str, Any] | None = None,
    state: str = "finished",
    tags: dict[str, Any] | None = None,
    interval: Any = "near",
    **config: Any,
) -> str:
    facts = {"n": 40, "n_failed": {}, "summary_name": "mean_f1_score", "pooled": False}
    facts["interval"] = [value - 0.05, value + 0.05] if interval == "near" and value is not None else interval
    given = {"version": 1, "data": {"source": f"{data}.csv", "hash": data}, "evaluators": [evaluator or info()]}
    run = store.create_run(name, {**given, **config}, tags=tags or {})
    with run.lease():
        summary = {"metrics": {"mean_f1_score": value}, "evaluators": {"f1_score": facts}, "rows": {"n": 40}}
        run.finish(state, {**summary, "confidence": 0.95})
    return run.id


def joined(page: str) -> list[int]:
    """How many points each line joins."""
    return [len(d.split("L")) for d in re.findall(r'class="line series-\d" d="M([^"]*)"', page)]


def letters(page: str) -> list[str]:
    """Series of the lines of the table, the latest run first."""
    return re.findall(r"</td>\n<td>([A-Z]+)</td>", page)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.sqlite"


def test_chart_and_table_have_the_numbers_of_the_summaries(path: Path) -> None:
    with Store(path) as store:
        ids = [add(store, f"run {k}", 0.2 + k / 10, tags={"epoch": 3 - k}) for k in range(3)]
    found = client(path).get("/trend?metric=mean_f1_score")
    shown = text_of(found)
    assert "3 of 3 matching runs, in order of time" in shown and joined(found.text) == [3]
    order = re.findall(r'<th scope="row" class="pin"><a href="/runs/(\w+)">', found.text)
    assert order == ids[::-1], "the latest first"
    for value in ("0.200", "0.300", "0.400", "0.350 to 0.450"):
        assert value in shown
    assert "+0.100" in shown and f"/compare?runs={ids[1]}&amp;runs={ids[2]}&amp;baseline={ids[1]}" in found.text
    assert "run 1: 0.300, 95% interval 0.250 to 0.350" in found.text, "the words of a mark"
    assert "cannot be compared" not in shown and "Series" not in shown


def test_order_by_the_value_of_a_tag(path: Path) -> None:
    with Store(path) as store:
        ids = [add(store, f"e{k}", 0.5, tags={"epoch": epoch}) for k, epoch in enumerate(("10", 9, "late", 100.0))]
        add(store, "untagged", 0.6)
    found = client(path).get("/trend?metric=mean_f1_score&by=epoch")
    order = re.findall(r'<th scope="row" class="pin"><a href="/runs/(\w+)">', found.text)[::-1]
    assert order == [ids[1], ids[0], ids[3], ids[2]], "numbers by size, then texts"
    assert "4 of 5 matching runs, in order of the tag epoch" in text_of(found)
    assert "1 without the tag epoch" in text_of(found)


JUDGED: dict[str, Any] = {"needs_judge": True}
CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"data": "d2"}, "other data"),
    ({}, {"evaluator": info("v2")}, "other evaluator version"),
    ({"evaluator": info(**JUDGED), "judge": {"model": "a"}}, {"evaluator": info(**JUDGED), "judge": {"model": "b"}},
     "other judge"),
    ({}, {"limit": 20}, "other number of rows that were read"),
    ({"task_type": "qa"}, {"task_type": "chat"}, "other task"),
    ({}, {"data": "d2", "evaluator": info("v2")}, "other data, other evaluator version"),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "cause"), CHANGES, ids=[each[2] for each in CHANGES])
def test_what_breaks_a_line_is_said(path: Path, first: Any, second: Any, cause: str) -> None:
    with Store(path) as store:
        for k, settings in enumerate((first, first, second, second, first)):
            add(store, f"run {k}", 0.5 + k / 100, **settings)
    found = client(path).get("/trend?metric=mean_f1_score")
    assert letters(found.text) == ["A", "B", "B", "A", "A"] and sorted(joined(found.text)) == [2, 3]
    shown = text_of(found)
    assert f"B 2 runs, not comparable with A: {cause}" in shown
    assert shown.count(f"not comparable with A: {cause}") == 2, "the list and the first run of B"
    assert "+0.030" in shown, "run 4 against run 1, the one before it in A"


@pytest.mark.parametrize(
    "same",
    [{"judge": {"model": "other"}}, {"evaluation_name": "x"}, {"seed": 4}, {"target": {"name": "new bot"}}],
    ids=str,
)
def test_what_says_nothing_about_a_computed_score_breaks_no_line(path: Path, same: dict[str, Any]) -> None:
    with Store(path) as store:
        add(store, "one", 0.5)
        add(store, "two", 0.6, **same)
    assert joined(client(path).get("/trend?metric=mean_f1_score").text) == [2]


def test_rates_need_equal_thresholds(path: Path) -> None:
    with Store(path) as store:
        for limit in (0.5, 0.5, 0.7):
            run = store.create_run("r", {"version": 1, "data": {"hash": "d"}, "evaluators": [info()]})
            facts = {"n": 40, "n_failed": {}, "summary_name": "mean_f1_score", "threshold": limit,
                     "pass_rate_interval": [0.2, 0.6]}  # fmt: skip
            with run.lease():
                metrics = {"mean_f1_score": 0.5, "f1_score_pass_rate": 0.4}
                run.finish("finished", {"metrics": metrics, "evaluators": {"f1_score": facts}, "rows": {"n": 40}})
    browser = client(path)
    rate = browser.get("/trend?metric=f1_score_pass_rate")
    assert "not comparable with A: other threshold" in text_of(rate) and "0.200 to 0.600" in text_of(rate)
    assert joined(browser.get("/trend?metric=mean_f1_score").text) == [3]


def test_a_stopped_run_is_hollow_and_in_no_line(path: Path) -> None:
    with Store(path) as store:
        for k, state in enumerate(("finished", "stopped", "finished")):
            add(store, f"run {k}", 0.5 + k / 10, state=state)
    found = client(path).get("/trend?metric=mean_f1_score")
    assert joined(found.text) == [2] and found.text.count('class="spot hollow"') == 1
    assert "1 stopped before the end: hollow, in no line" in text_of(found) and "+0.200" in text_of(found)
    assert "+0.100" not in text_of(found)


def test_runs_without_a_number_or_an_interval_are_counted(path: Path) -> None:
    with Store(path) as store:
        add(store, "none", None)
        add(store, "bare", 0.4, interval=None)
        add(store, "odd", 0.4, interval=["low", 3])
        add(store, "turned", 0.4, interval=[0.5, 0.3])
        add(store, "whole", 0.5)
    shown = text_of(client(path).get("/trend?metric=mean_f1_score"))
    assert "4 of 5 matching runs" in shown and "1 without the mean of f1_score" in shown
    assert "3 have no interval" in shown


def test_filters_of_the_list_and_names_of_evaluators(path: Path) -> None:
    with Store(path) as store:
        add(store, "alpha", 0.5, data="d1")
        uid = add(store, "beta", 0.6, data="d2")
    browser = client(path)
    assert "1 of 1 matching runs" in text_of(browser.get("/trend?metric=mean_f1_score&data=d2.csv"))
    assert "1 of 1 matching runs" in text_of(browser.get("/trend?metric=f1_score&q=alpha"))
    assert "Mean of f1_score over runs" in text_of(browser.get("/trend?metric=f1_score"))
    assert "None of 2 matching runs has a value of nothing" in text_of(browser.get("/trend?metric=nothing"))
    assert f'class="open"><th scope="row" class="pin"><a href="/runs/{uid}">' in browser.get(f"/trend?run={uid}").text


def test_links_lead_there(path: Path) -> None:
    with Store(path) as store:
        add(store, "alpha", 0.5)
    found = client(path).get("/runs")
    assert '<button formaction="/trend">' in found.text


def test_an_empty_store_has_a_page(path: Path) -> None:
    assert "No run of this store has a number yet" in text_of(client(path).get("/trend"))


def test_hostile_names_stay_text(path: Path) -> None:
    with Store(path) as store:
        add(store, HOSTILE, 0.5, data=HOSTILE, tags={HOSTILE: HOSTILE}, evaluator=info(HOSTILE))
        add(store, HOSTILE, 0.6, data="x", tags={HOSTILE: HOSTILE})
    found = client(path).get("/trend", params={"metric": "mean_f1_score", "by": HOSTILE, "run": HOSTILE})
    assert found.status_code == 200 and "<script>f" not in found.text and "other data" in found.text


class Map:
    """A result of detection with an interval of its own confidence."""

    def __init__(self, value: float, settings: dict[str, Any]) -> None:
        self.value, self.settings = value, settings

    def to_run(self) -> SavedRun:
        return SavedRun(
            "detection", {"metric": "COCOeval", "version": f"0.{self.value}"}, {"map": self.value},
            counts={"images": 30}, intervals={"map": (self.value - 0.01, self.value + 0.01)}, settings=self.settings,
        )  # fmt: skip


def test_vision_over_epochs(path: Path) -> None:
    with Store(path) as store:
        for epoch in range(1, 13):
            settings = {"IoU threshold": 0.5 if epoch < 11 else 0.75}
            store.save(Map(0.3 + epoch / 100, settings), f"e{epoch}", tags={"epoch": epoch}, data={"source": "val"})
    found = client(path).get("/trend?metric=map&by=epoch")
    shown = text_of(found)
    assert joined(found.text) == [10, 2] and "12 of 12 matching runs" in shown
    assert "not comparable with A: other settings" in shown and "0.410 to 0.430" in shown
    assert found.text.index(">e12<") < found.text.index(">e11<") < found.text.index(">e2<")


def test_many_runs_come_in_pages_and_are_all_drawn(path: Path) -> None:
    with Store(path) as store:
        for k in range(230):
            add(store, f"run {k}", 0.5 + k / 1000)
    browser = client(path)
    found = browser.get("/trend?metric=mean_f1_score")
    assert found.text.count('<th scope="row"') == 100 and "Runs 1 to 100 of 230" in text_of(found)
    dots = re.findall(r'class="dots" d="([^"]*)"', found.text)
    assert dots[0].count("h0") == 230 and joined(found.text) == [230]
    last = browser.get("/trend?metric=mean_f1_score&from=200")
    assert last.text.count('<th scope="row"') == 30 and "run 0" in last.text


def test_what_is_not_drawn_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valor_gpu.web.views.trend.DRAWN", 3)
    with Store(path) as store:
        for k in range(5):
            add(store, f"run {k}", 0.5, data="d0" if k < 2 else "d1")
    found = client(path).get("/trend?metric=mean_f1_score")
    assert "5 of 5 matching runs" in text_of(found) and "the latest 3 are drawn, the table has all" in text_of(found)
    assert found.text.count('class="spot"') == 3 and letters(found.text) == ["B", "B", "B", "A", "A"]


def test_letters_go_on_behind_z() -> None:
    assert [letter_of(k) for k in (0, 25, 26, 51, 52, 701, 702)] == ["A", "Z", "AA", "AZ", "BA", "ZZ", "AAA"]
