"""Studio of a store that can be read alone: pages that read work, and forms say why nothing was changed."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest

from tests.web.pages import client, send, text_of
from tests.web.work import wait
from valor_gpu.evaluation.run import evaluate
from valor_gpu.store import Store
from valor_gpu.web.runs.purging import Sweeper

REFUSED = "cannot be written: the file or its folder is read-only"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    data = [{"question": f"What is {n}?", "answer": f"It is {n}.", "ground_truth": "It is 1."} for n in range(30)]
    with Store(tmp_path / "s.sqlite") as store:
        found: Any = evaluate(evaluation_name="books", data=data, metrics_list=["f1_score"], store=store)
        gone: Any = evaluate(evaluation_name="gone", data=data, metrics_list=["f1_score"], store=store)
        gone.run.delete()
    monkeypatch.setattr("valor_gpu.store.database._may_write", lambda path: False)
    return str(found.run_id)


@pytest.mark.parametrize(
    "page",
    [
        "",
        "/rows/2",
        "/label",
        "/scatter",
        "/log",
        "?q=What&sort=f1_score",
        "/export.csv",
        "/export.jsonl",
        "/export.html",
    ],
)
def test_pages_of_a_run(tmp_path: Path, run: str, page: str) -> None:
    found = client(tmp_path / "s.sqlite").get(f"/runs/{run}{page}")
    assert found.status_code == 200
    assert "It is " in found.text or page in ("/scatter", "/log")


@pytest.mark.parametrize("page", ["/runs", "/datasets", "/targets", "/evaluators", "/trend"])
def test_other_pages(tmp_path: Path, run: str, page: str) -> None:
    assert client(tmp_path / "s.sqlite").get(page).status_code == 200


@pytest.mark.parametrize(
    ("form", "fields"),
    [
        ("edit", {"name": "new"}),
        ("delete", {}),
        ("duplicate", {}),
        ("label?of=f1_score&seed=1", {"row": "2", "evaluator": "f1_score", "value": "1"}),
        ("feedback", {"row": "2", "evaluator": "f1_score", "value": "1"}),
    ],
)
def test_forms_say_why_nothing_was_changed(tmp_path: Path, run: str, form: str, fields: dict[str, str]) -> None:
    found = send(client(tmp_path / "s.sqlite"), f"/runs/{run}/{form}", fields)
    assert found.status_code == 503 and REFUSED in text_of(found)


def test_deleted_runs_that_stay_are_told_once(tmp_path: Path, run: str, log: io.StringIO) -> None:
    with Store(tmp_path / "s.sqlite") as store, Sweeper(store, tmp_path / "uploads", 0.01):
        wait(log.getvalue)
        time.sleep(0.1)
    [line] = log.getvalue().splitlines()
    assert REFUSED in line and "deleted runs stay in the store for now" in line
