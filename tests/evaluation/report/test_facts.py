"""What a run was made of in a few words: rows of how many, costs with their currency."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.evaluation.report.facts import expected_rows, run_facts
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store import Run, Store, StoredRow
from valor_gpu.store.progress import RunProgress, keep


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def add_run(store: Store, n: int, config: dict[str, Any], state: str = "stopped", failed: int = 0) -> Run:
    run = store.create_run("r", config)
    statuses = ["target_error"] * failed + ["ok"] * (n - failed)
    with run.lease():
        run.add_rows([StoredRow(i, str(i), {}, {}, status) for i, status in enumerate(statuses, 1)])
        run.finish(state, {})
    return run


def rows_fact(run: Run) -> str:
    return dict(run_facts(run, run_summary(run)))["Rows"]


@pytest.mark.parametrize(
    ("n", "failed", "config", "state", "shown"),
    [
        (5, 0, {"data": {"rows": 5}}, "finished", "5, all read"),
        (3, 0, {"data": {"rows": 5}}, "stopped", "3 of 5 read"),
        (3, 1, {"data": {"rows": 5}, "target": {"name": "t"}}, "stopped", "3 of 5, 1 target error"),
        (5, 2, {"data": {"rows": 5}}, "finished", "5, 2 target errors"),
        (5, 0, {"data": {"rows": 5}, "target": {"name": "t"}}, "finished", "5, all with an answer"),
        (4, 0, {"data": {"rows": 9}, "limit": 2, "epochs": 2}, "finished", "4, 2 questions, all read"),
        (2, 0, {"data": {"rows": 9}, "limit": 2, "epochs": 2}, "stopped", "2 of 4 read, 1 question"),
        (3, 0, {"data": {"rows": None}}, "finished", "3, all read"),  # of an older version
        (3, 0, {"data": {"rows": None}}, "stopped", "3 so far"),
        (3, 0, {}, "finished", "3, all read"),
    ],
)
def test_all_rows_are_read_only_when_they_are(
    store: Store, n: int, failed: int, config: dict[str, Any], state: str, shown: str
) -> None:
    found = rows_fact(add_run(store, n, config, state, failed))
    assert found.replace("errors", "error") == shown.replace("errors", "error")


def test_rows_that_were_counted_up_to_a_limit(store: Store) -> None:
    run = add_run(store, 3, {"data": {"rows": None}, "limit": 10})
    assert expected_rows(run) is None
    keep(run, RunProgress(total_rows=7))
    assert expected_rows(run) == 7 and rows_fact(run) == "3 of 7 read"


@pytest.mark.parametrize(
    ("cost", "prices", "shown"),
    [
        (1.318, {"prompt": 1.0, "completion": 1.0, "currency": "USD"}, "1.32 USD"),
        (1.318, {"prompt": 1.0, "completion": 1.0}, "1.32"),
        (0.001, {"prompt": 1.0, "completion": 1.0, "currency": "EUR"}, "less than 0.01 EUR"),
        (None, None, "cost unknown"),
    ],
)
def test_costs_have_their_currency(store: Store, cost: float | None, prices: Any, shown: str) -> None:
    run = add_run(store, 1, {"prices": prices} if prices else {})
    summary = {**run_summary(run), "cost": cost, "usage": {"prompt": 10}}
    assert dict(run_facts(run, summary))["Tokens, cost"] == f"10 prompt; {shown}"
