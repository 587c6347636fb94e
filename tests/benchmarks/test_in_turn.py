"""Engines in turn: rows, medians and engines that cannot run."""

from __future__ import annotations

import argparse

from benchmarks import analysis, in_turn
from benchmarks.baselines import OURS


def test_runs_become_medians_and_a_missing_engine_says_why() -> None:
    runs = [{"seconds": s, "cpu": 2 * s, "memory_mb": 1.0} for s in (3.0, 1.0, 2.0)]
    row = in_turn.row_of({"case": "tide 100", "tool": OURS}, runs)
    assert row["status"] == "ok" and row["cpu"]["median"] == 4.0 and row["seconds"]["median"] == 2.0
    assert in_turn.row_of({"tool": "other"}, "No module named 'other'") == {
        "tool": "other", "status": "not run", "reason": "No module named 'other'",
    }  # fmt: skip


def test_an_engine_that_is_not_installed_takes_no_second_turn() -> None:
    arguments = argparse.Namespace(repeats=2, threads=1)
    found = in_turn.measure_in_turn("benchmarks.analysis", "no case", ["no engine"], (10, "nowhere"), arguments)
    assert found == {"no engine": "KeyError: 'no case'"}


def test_every_case_has_ours_first_and_a_text() -> None:
    assert set(analysis.CASES) == set(analysis.ENGINES) == set(analysis.TEXT)
    assert all(next(iter(engines)) == OURS for engines in analysis.ENGINES.values())


def test_the_table_has_ratios_to_ours() -> None:
    head = {"case": "tide 100", "path": "tide", "images": 100, "status": "ok"}
    numbers = {"seconds": {"median": 1.0}, "memory_mb": {"median": 3.0}}
    rows = [
        {**head, "tool": OURS, "cpu": {"median": 0.5}, **numbers},
        {**head, "tool": "hotcoco", "cpu": {"median": 1.5}, **numbers},
        {**head, "tool": "tidecv", "status": "not run", "reason": "none"},
    ]
    machine = {"processor": "CPU", "cpus": 2, "python": "3.11"}
    text = analysis.report([{"rows": rows, "repeats": 1, "machine": machine, "commit": "abc", "date": "2026-11-27"}])
    assert (
        "| TIDE: eight gains and counts | 100 | 0.500 s, 3 MB | hotcoco 1.500 s (3.0x), 3 MB; tidecv: not run |" in text
    )
