"""The page of a comparison."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

from tests.web.pages import client, text_of
from valor_gpu.evaluation import compare_runs
from valor_gpu.stats.power import detectable_difference
from valor_gpu.store import Store, StoredRow, StoredScore

INFOS = [
    {"name": "f1_score", "kind": "text", "low": 0, "high": 1, "higher_is_better": True},
    {"name": "violence", "kind": "safety", "low": 0, "high": 7, "higher_is_better": False},
    {"name": "exact_match", "kind": "text", "low": 0, "high": 1, "higher_is_better": True},
]


def add(store: Store, name: str, shift: float, rows: range = range(1, 41), **more: Any) -> str:
    draw = random.Random(5)
    run = store.create_run(name, {"version": 1, "evaluators": INFOS, "seed": 0, "data": {"hash": "h"}, **more})
    with run.lease():
        answers = {n: f"answer {name} <i>{n}</i>" if n == 3 else "same" for n in rows}
        run.add_rows([StoredRow(n, f"k{n}", {"question": f"q{n}", "answer": answers[n]}) for n in rows])
        for n in rows:
            base = draw.random() / 2
            run.add_scores([StoredScore(n, "f1_score", 0, base + shift * (0.5 + draw.random()))])
            run.add_scores([StoredScore(n, "violence", 0, 2.0 + 2 * (shift > 0 and n <= 4))])
            run.add_scores([StoredScore(n, "exact_match", 0, float(n % 2))])
        run.finish("finished", {})
    return run.id


@pytest.fixture
def ids(tmp_path: Path) -> list[str]:
    with Store(tmp_path / "s.sqlite") as store:
        return [add(store, "first", 0.0), add(store, "second", 0.2, seed=1), add(store, "third", -0.1, range(1, 31))]


def shown(tmp_path: Path, ids: list[str], query: str = "") -> Any:
    return client(tmp_path / "s.sqlite").get(f"/compare?{'&'.join(f'runs={uid}' for uid in ids)}{query}")


def test_two_runs(tmp_path: Path, ids: list[str]) -> None:
    found = shown(tmp_path, ids[:2])
    words = text_of(found)
    assert "second against first" in words and "B: 40 rows joined by key" in words
    assert re.search(r"f1_score 0\.\d{3} 0\.\d{3} \+0\.\d{3} \+0\.\d{3} to \+0\.\d{3} .*? better 40", words)
    with Store(tmp_path / "s.sqlite") as store:
        metric = compare_runs(store.run(ids[1]), store.run(ids[0])).metrics["f1_score"]
    assert f"{detectable_difference(metric.standard_error):.3f} better 40" in words and "Detectable Reading" in words
    assert "1 metric without any difference is hidden" in words and "seed 0 1" in words
    assert "Jailbreak defect rate" not in words and "Is this a test of jailbreaks?" in words
    assert "answer second &lt;i&gt;3" in found.text and "<i>3</i>" not in found.text


def test_an_open_row_says_what_differs(tmp_path: Path, ids: list[str]) -> None:
    found = shown(tmp_path, ids[:2], "&open=3")
    assert "answer <del>first</del><ins>second</ins> &lt;i&gt;3" in found.text and "<i>3</i>" not in found.text
    assert found.text.count('aria-expanded="true"') == 1 and "page of this row in B" in text_of(found)
    split = shown(tmp_path, ids[:2], "&open=3&view=split").text
    assert "answer <del>first</del> &lt;i&gt;3" in split and "answer <ins>second</ins> &lt;i&gt;3" in split
    assert "the same text as A" in text_of(shown(tmp_path, ids[:2], "&open=4"))
    turned = shown(tmp_path, ids[:2], "&open=3&against=B").text
    assert "answer <del>second</del><ins>first</ins> &lt;i&gt;3" in turned


def test_baseline_can_be_chosen(tmp_path: Path, ids: list[str]) -> None:
    words = text_of(shown(tmp_path, ids[:2], f"&baseline={ids[1]}"))
    assert "first against second" in words and re.search(r"f1_score .*? worse 40", words)


def test_equal_ones_on_demand_and_one_metric(tmp_path: Path, ids: list[str]) -> None:
    metrics, settings = text_of(shown(tmp_path, ids[:2], "&all=1")).split(" Settings Setting ")
    assert "Differences from A" in metrics
    assert "exact_match" in metrics and "data.hash h h" in settings and "shown, too" in settings
    assert "Rows that changed most in violence" in text_of(shown(tmp_path, ids[:2], "&metric=violence"))


def test_data_sets_are_named_as_on_the_page_of_a_run(tmp_path: Path, ids: list[str]) -> None:
    far, path = "0123456789abcdef" * 4, "/tmp/uploads/07f3.csv"
    with Store(tmp_path / "s.sqlite") as store:
        store.datasets.save(far, "books.csv", ["question", "answer"], 40, path)
        other = add(store, "other data", 0.2, data={"hash": far, "source": path})
    words = text_of(shown(tmp_path, [ids[0], other]))
    assert "data.hash h 0123456789ab… " in words and re.search(r"data.source \S+ books.csv ", words)
    assert "07f3.csv" not in words and far not in words
    assert words.index("Differences from A") < words.index("Settings that differ") < words.index("Rows that changed")


def test_three_runs_say_how_many_rows_are_joined(tmp_path: Path, ids: list[str]) -> None:
    words = text_of(shown(tmp_path, ids))
    assert "B: 40 rows joined by key; C: 30 rows joined by key" in words and "2 runs against first" in words


def test_one_run_leads_to_a_choice(tmp_path: Path, ids: list[str]) -> None:
    words = text_of(shown(tmp_path, ids[:1]))
    assert "Compare first with" in words and "second" in words and "third" in words


def test_what_cannot_be_compared(tmp_path: Path, ids: list[str]) -> None:
    with Store(tmp_path / "s.sqlite") as store:
        far = add(store, "far", 0.0, range(1, 3))
        with store.run(far).lease():
            store.run(far)
        run = store.create_run("others", {"version": 1, "evaluators": INFOS})
        with run.lease():
            run.add_rows([StoredRow(1, "another", {})])
            run.finish("finished", {})
    assert shown(tmp_path, ["nothing", ids[0]]).status_code == 404
    found = shown(tmp_path, [ids[0], run.id])
    assert found.status_code == 400 and "row" in text_of(found)
    assert shown(tmp_path, [f"x{n}" for n in range(7)]).status_code == 404


def test_small_changes_equal_metrics_and_metrics_of_one_run(tmp_path: Path) -> None:
    def small(store: Store, name: str, value: float, infos: list[Any]) -> str:
        hashes = {
            "evaluators": infos,
            "thresholds": {each["name"]: "Medium" for each in infos if each["kind"] == "safety"},
        }
        run = store.create_run(name, {"version": 1, "data": {"hash": "h"}, **hashes})
        with run.lease():
            run.add_rows([StoredRow(n, f"k{n}", {"answer": "same"}) for n in range(1, 5)])
            run.add_scores([StoredScore(n, "f1_score", 0, value) for n in range(1, 5)])
            run.add_scores([StoredScore(n, "exact_match", 0, 1.0) for n in range(1, 4)])
            run.finish("finished", {})
        return run.id

    with Store(tmp_path / "s.sqlite") as store:
        ids = [small(store, "one", 0.5, INFOS), small(store, "two", 0.504, [INFOS[0], INFOS[2]])]
    words = text_of(shown(tmp_path, ids))
    assert "f1_score +0.004 better 0.500 to 0.504" in words, "three decimals: not 0.00"
    assert re.search(r"exact_match 1\.00\d? .*? equal 3: 0 higher, 3 equal, 0 lower; 1 lack one", words)
    assert "violence" not in words.split("Differences from A")[0] and "Not in B: violence" in words
