"""What of a store is damaged takes no other part with it in Studio, and pages that leave it out name it."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import pytest

from tests.store.test_damaged_lists import change
from tests.web import pages
from tests.web.pages import client
from tests.web.test_runs import F1, add_run
from valor_gpu.store import Feedback, Store, StoredRow, StoredScore
from valor_gpu.store.checksums import WRONG
from valor_gpu.web.runs.saved_views import RUNS_VIEW


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a run that gets damaged, between two whole ones, and a data set and an evaluator of each kind."""
    path = tmp_path / "my runs.sqlite"
    with Store(path) as store:
        for name in ("old one", "lost one", "new one"):
            add_run(store, name, 0.25)
            store.datasets.save(name, f"data of {name}", ["a"], 4, "")
            store.evaluators.save(name.replace(" ", "_"), {"kind": "prompt", "prompt": "{{answer}}"})
    return path


RUN = "UPDATE runs SET config = replace(config, '4', '5') WHERE id = 2"
LISTS = ("/runs", "/compare", "/trend", "/datasets", "/evaluators", "/targets", "/new")


def text_of(response: Any) -> str:
    """What a reader sees, with the signs that HTML writes otherwise."""
    return unescape(pages.text_of(response))


def uid_of(path: Path, name: str) -> str:
    with Store(path) as store:
        return next(each.id for each in store.heads() if each.name == name)


@pytest.mark.parametrize("damage", [RUN, "UPDATE runs SET checksum = NULL, config = '{' WHERE id = 2"])
def test_a_damaged_run_takes_no_other_one_with_it(damage: str, path: Path) -> None:
    change(path, damage)
    browser, uid = client(path), uid_of(path, "lost one")
    for address in (*LISTS, f"/runs/{uid_of(path, 'old one')}"):
        found = browser.get(address)
        assert found.status_code == 200, address
        if address in LISTS[:-1]:  # the form for a new run lists none
            shown = text_of(found)
            assert f"A part of this store is damaged. All else is shown. run {uid} (lost one): " in shown, address
            assert f"valor-gpu store check '{path}' lists every damaged place" in shown, address
    for query, names in {"": ["new", "old"], "?q=new": ["new"], "?q=old+questions.csv": ["old"]}.items():
        shown = text_of(browser.get(f"/runs{query}"))
        assert [each for each in ("new", "old") if f"{each} one" in shown] == names
        assert "lost one damaged: " in shown and "Damaged" in shown
    assert "lost one damaged" not in text_of(browser.get("/runs?status=finished"))
    assert "lost one damaged" in text_of(browser.get("/runs?status=damaged"))
    opened = browser.get(f"/runs/{uid}")
    assert opened.status_code == 503 and f"run {uid}" in text_of(opened), opened.status_code
    assert browser.get("/runs/none").status_code in (404, 503)


PLACES = {
    "/datasets": ("UPDATE datasets SET rows = 5 WHERE hash = 'lost one'", "data set 'lost one'", "data of new one"),
    "/evaluators": ("UPDATE evaluator_versions SET note = 'n' WHERE evaluator = 2", "version 1 of evaluator 'lost_one'",
                    "new_one"),
    "/runs": ("UPDATE views SET settings = '{}' WHERE name = 'lost'", f"settings 'lost' of the kind '{RUNS_VIEW}'",
              "kept"),
}  # fmt: skip


@pytest.mark.parametrize("address", PLACES)
def test_lists_show_the_others(address: str, path: Path) -> None:
    sql, place, other = PLACES[address]
    with Store(path) as store:
        for name in ("lost", "kept"):
            store.views.save(RUNS_VIEW, name, {"query": "q=one"})
    change(path, sql)
    browser = client(path)
    shown = text_of(browser.get(address))
    assert f"A part of this store is damaged. All else is shown. {place}: {WRONG}" in shown and other in shown
    for each in LISTS:
        assert browser.get(each).status_code == 200, each


ROW_DAMAGES = {
    "UPDATE rows SET inputs = replace(inputs, 'What', 'That') WHERE number = 2": "row 2 of run {}",
    "UPDATE scores SET reason = 'other' WHERE row = 2": "score of row 2 by 'f1_score' in run {}",
    "UPDATE feedback SET note = 'other' WHERE row = 2": "feedback on row 2 of run {}",
}


@pytest.mark.parametrize("damage", ROW_DAMAGES)
def test_a_damaged_row_stands_in_its_place(damage: str, path: Path) -> None:
    with Store(path) as store:
        run = store.create_run("rows", {"version": 1, "evaluators": [F1]})
        with run.lease():
            run.add_rows([StoredRow(n, f"k{n}", {"question": f"What is {n}?"}, {"answer": f"It is {n}."})
                          for n in range(1, 31)])  # fmt: skip
            run.add_scores([StoredScore(n, "f1_score", 0, n / 30, reason="why") for n in range(1, 31)])
            run.finish("finished", {"metrics": {}})
        run.add_feedback(Feedback(2, "f1_score", "ana", 1.0, True, "right"))
        run.add_feedback(Feedback(3, "f1_score", "ana", 1.0, True, "right"))
    browser = client(path)
    right = text_of(browser.get(f"/runs/{run.id}"))
    assert "What is 2?" in right and "It is 25." in right and "Damaged" not in right
    change(path, damage)
    found = client(path).get(f"/runs/{run.id}")
    shown, place = text_of(found), ROW_DAMAGES[damage].format(run.id)
    assert found.status_code == 200, shown
    assert f"2 Damaged {place}: {WRONG}" in shown and f"All else is shown. {place}: {WRONG}" in shown
    if "rows SET" not in damage:  # numbers come from scores and what people say
        assert f"The numbers of this run are not shown, since a part of it is damaged. {place}: " in shown
    assert "What is 2?" not in shown and "That is 2?" not in shown
    for n in (1, *range(3, 26)):
        assert f"What is {n}? It is {n}." in shown, n
    opened = client(path).get(f"/runs/{run.id}/rows/2")
    assert opened.status_code == 503 and place in text_of(opened)
    assert client(path).get(f"/runs/{run.id}/rows/3").status_code == 200
    assert client(path).get(f"/runs/{run.id}?at=25").status_code == 200


def test_a_whole_store_has_no_note(path: Path) -> None:
    browser = client(path)
    assert not [each for each in LISTS if "damaged" in text_of(browser.get(each))]
