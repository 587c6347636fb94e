"""The benchmark of rank correlations and forecasts: torchmetrics agrees, a number that differs is not shown."""

from __future__ import annotations

import argparse

from benchmarks import regression_ranks


def test_torchmetrics_agrees_and_the_table_shows_both() -> None:
    result = regression_ranks.benchmark(argparse.Namespace(quick=True, seed=3, repeats=1, threads=1))
    assert {row["status"] for row in result["rows"]} == {"ok"}
    shown = regression_ranks.report([result])
    assert all(f"| {work.name} | **" in shown for work in regression_ranks.WORKS)
    result["rows"][0]["status"] = "differs by 1.0e+00"
    assert "| SpearmanCorrCoef | differs by 1.0e+00 |" in regression_ranks.report([result])
