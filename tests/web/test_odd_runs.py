"""Runs of other code: a store takes any JSON as configuration and summary, and one odd run costs no list its others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.web.pages import client, text_of
from valor_gpu.store import Store, StoredRow, StoredScore

ODD: tuple[Any, ...] = (1, True, "x", [], ["x"], [None], [{"name": 1}], {"a": 1}, {"x": {"y": [1]}}, {"n": "1"})
CONFIG = ("kind", "evaluators", "data", "target", "judge", "thresholds", "data_mapping", "notes", "epochs", "prices")
SUMMARY = ("metrics", "evaluators", "rows", "cost", "stopped")
LISTS = ("/runs", "/runs?sort=-headline&q=n", "/runs?sort=cost", "/datasets", "/evaluators", "/targets", "/compare")


def add(path: Path, name: str, config: dict[str, Any], summary: dict[str, Any]) -> str:
    with Store(path) as store:
        run = store.create_run(name, config)
        run.add_rows([StoredRow(1, "k", {"question": "q"}, {"answer": "a"})])
        run.add_scores([StoredScore(1, "f1_score", 0, 0.5)])
        with run.lease():
            run.finish("finished", summary)
        return run.id


@pytest.mark.parametrize("part", CONFIG)
def test_odd_configurations(tmp_path: Path, part: str) -> None:
    path = tmp_path / "s.sqlite"
    odd = [add(path, f"odd {value}", {part: value}, {}) for value in ODD]
    fine = add(path, "the fine one", {"evaluators": [{"name": "f1_score"}]}, {"metrics": {"mean_f1_score": 0.5}})
    browser = client(path)
    for address in LISTS:
        assert browser.get(address).status_code == 200
    assert "the fine one" in text_of(browser.get("/runs"))
    for uid in odd:
        for address in (
            f"/runs/{uid}",
            f"/runs/{uid}/rows/1",
            f"/runs/{uid}/export.csv",
            f"/compare?runs={uid},{fine}",
        ):
            assert browser.get(address).status_code in (200, 400), address  # 400 names a threshold of no evaluator


@pytest.mark.parametrize("part", SUMMARY)
def test_odd_summaries(tmp_path: Path, part: str) -> None:
    path = tmp_path / "s.sqlite"
    odd = [add(path, f"odd {value}", {}, {part: value}) for value in ODD]
    browser = client(path)
    for address in (*LISTS, *(f"/runs/{uid}" for uid in odd)):
        assert browser.get(address).status_code == 200, address
    assert "0.500" in text_of(browser.get(f"/runs/{odd[0]}")), "counted from the scores"


@pytest.mark.parametrize("part", ["intervals", "class_intervals", "interval_reasons", "interval_choices"])
def test_odd_intervals_of_saved_results(tmp_path: Path, part: str) -> None:
    path, fine = tmp_path / "s.sqlite", {"metrics": {"x": 0.5, "a": 0.25}, "classes": {"x": {"y": 0.5}}}
    odd = [
        add(path, f"odd {value}", {"kind": "detection"}, {**fine, part: value})
        for value in (*ODD, {"x": [1, 2, 3]}, {"units": 1.5}, {"units": None, "confidence": None}, {"x": {"y": [0, 9]}})
    ]
    browser = client(path)
    for uid in odd:
        found = browser.get(f"/runs/{uid}/vision")
        assert found.status_code == 200 and "0.500" in text_of(found)


def test_the_page_names_what_it_does_not_show(tmp_path: Path) -> None:
    uid = add(tmp_path / "s.sqlite", "odd", {"data": "rows.csv", "epochs": 0, "notes": ["mine"]}, {})
    page = text_of(client(tmp_path / "s.sqlite").get(f"/runs/{uid}"))
    assert "Not as evaluate() writes it, and not shown: data, epochs of the configuration." in page and "mine" in page


def test_numbers_as_large_as_there_are(tmp_path: Path) -> None:
    path, infos = tmp_path / "s.sqlite", [{"name": "x", "kind": "text"}, {"name": "y", "kind": "text"}]
    uids = []
    with Store(path) as store:
        for ends, rows in (((1e308, -1e308), 2), ((-1e308, 1e308), 1200)):
            run = store.create_run("large", {"version": 1, "evaluators": infos})
            run.add_rows([StoredRow(n, str(n), {"question": "q"}, {"answer": "a"}) for n in range(1, rows + 1)])
            run.add_scores([StoredScore(n, "x", 0, ends[n % 2] / (n + 1)) for n in range(1, rows + 1)])
            run.add_scores([StoredScore(n, "y", 0, n / rows) for n in range(1, rows + 1)])
            with run.lease():
                run.finish("finished", {"metrics": {"mean_x": ends[0]}})
            uids.append(run.id)
    browser = client(path)
    for address in ("/trend?metric=mean_x", *(f"/runs/{uid}/scatter" for uid in uids), f"/runs/{uids[1]}?sort=x"):
        assert browser.get(address).status_code == 200, address
