"""The benchmark of metrics of exact sums: torchmetrics agrees, a number that differs is not shown."""

from __future__ import annotations

import argparse

from benchmarks import regression_sums


def test_torchmetrics_agrees_and_the_table_shows_all_three() -> None:
    result = regression_sums.benchmark(argparse.Namespace(quick=True, seed=3, repeats=1, threads=1))
    assert {row["status"] for row in result["rows"]} == {"ok"}
    assert {row["tool"] for row in result["rows"]} == {"valor_gpu", "torchmetrics", "read"}
    shown = regression_sums.report([result])
    assert all(f"| {name} | **" in shown for name in regression_sums.NAMES)
    for row in result["rows"]:
        row["status"] = "differs by 1.0e+00"
    assert "| R2Score | differs by 1.0e+00 |" in regression_sums.report([result])
