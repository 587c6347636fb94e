"""The benchmark of tiny batches gives a number only to metrics whose value is that of torchmetrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks import report, run, small, small_cases
from benchmarks.summary import summary
from tools.metric_names import metrics_of
from valor_gpu import classification, regression, retrieval, segmentation, text

_OWN = {
    "classification": ["AURC", "BalancedAccuracy", "BrierScore", "BrierSkillScore", "ConformalCoverage", "CostCurve",
                       "CoverageAtRisk", "DetailedPrecisionRecallCurve", "EAURC", "ExpectedCost",
                       "NegativeLogLikelihood", "OperatingPoint", "ROCAUC", "RiskAtCoverage", "ThresholdCounts",
                       "mROCAUC"],
    "retrieval": ["RetrievalBPref", "RetrievalExpectedReciprocalRank", "RetrievalHoles", "RetrievalJudged",
                  "RetrievalRBP"],
    "regression": ["IntervalCoverage", "PinballLoss", "QuantileCRPS"],
    "segmentation": ["IOU", "BoundaryF1", "PixelAccuracy", "PixelConfusionMatrix", "PixelF1", "PixelPrecision",
                     "PixelRecall", "SurfaceDistance", "mIOU"],
    "text": ["BERTScore", "BLEU", "CHRF", "ExactMatch", "GLEU", "InfoLM", "ROUGE", "TokenF1"],
}  # fmt: skip
"""Metrics without a peer in torchmetrics that takes the same inputs, and other names of one that is measured."""


@pytest.fixture(scope="module")
def accuracy() -> small_cases.Small:
    return next(case for case in small_cases.classification() if case.name == "Accuracy, multiclass")


def test_every_metric_with_a_peer_is_measured() -> None:
    for package in (classification, regression, retrieval, segmentation, text):
        group = package.__name__.rpartition(".")[2]
        metrics = {kind.__name__ for kind in metrics_of(package)}
        measured = {case.name.split(",")[0].split(" (")[0] for case in small_cases.CASES[group]()}
        assert metrics - measured == set(_OWN[group])


def test_a_row_has_times_of_both_sides_and_shares_that_are_all(accuracy: small_cases.Small) -> None:
    with small.alone():
        row = small.measure(accuracy, "classification", 3, 2e-4)
    assert row["status"] == "ok"
    for work in small.WORKS:
        mine, other = row[work]["ours"]["median"], row[work]["torchmetrics"]["median"]
        assert row[work]["ratio"] == pytest.approx(mine / other, rel=1e-2)
        assert 0 < mine < 1e5
    parts = [row["shares"][name] for name in ("checks", "dispatch", "kernel")]
    assert sum(parts) == pytest.approx(1)
    assert all(0 <= part < 1 for part in parts) and parts[2] > 0


def test_another_value_gets_no_number(accuracy: small_cases.Small) -> None:
    with small.alone():
        row = small.measure(replace(accuracy, read_ours=lambda value: value + 1), "classification", 1, 1e-4)
    assert row["status"] == "mismatch"
    assert "update" not in row
    assert "Accuracy, multiclass | mismatch" in small.report([_result([row])])


def test_a_number_that_neither_side_has_is_no_difference() -> None:
    mine, other = np.array([0.5, np.nan]), np.array([0.25, np.nan])
    assert small._gap(mine, other) == 0.25
    for first, second in ((mine, np.nan_to_num(other)), (np.nan_to_num(mine), other)):
        assert not small._gap(first, second) <= 1


def test_the_tables_count_what_is_above_the_goal() -> None:
    rows: list[dict[str, Any]] = []
    for name, ratio in (("Fast", 0.25), ("Slow", 1.0)):
        each = {"ours": {"median": 10 * ratio}, "torchmetrics": {"median": 10.0}, "ratio": ratio}
        parts = {"checks": 0.5, "dispatch": 0.25, "kernel": 0.25}
        rows.append({"case": "text", "path": name, "status": "ok", "shares": parts, **dict.fromkeys(small.WORKS, each)})
    lines = report.TEXTS["small"]([_result([*rows, *({**row, "case": "detection"} for row in rows)])]).splitlines()
    assert lines[2] == "| Fast | 2.5 us (0.25x) | 2.5 us (0.25x) | 2.5 us (0.25x) | 2.5 us (0.25x) | 50%, 25%, 25% |"
    assert lines[4] == "| geometric mean | **0.50x** | **0.50x** | **0.50x** | **0.50x** | |"
    above = [line for line in lines if line.startswith("| goal")]
    assert above[0].split(" | ")[2] == "0.7x: 1 of 2"  # detection
    assert above[1].split(" | ")[2] == "1x: 0 of 2"  # text
    found = _result(rows)
    assert small.summary_rows([found]) == [("`update` of a tiny batch, mean of 2 rows of text", "**5.0 us**", 2.0)]
    assert summary({"small": [found]}).endswith(" of text | **5.0 us** | torchmetrics 2.0x | torchmetrics 2.0x |")


def test_the_command_measures_one_group() -> None:
    rows = small.benchmark(run.parse(["small", "--case", "text", "--quick", "--repeats", "1"]))["rows"]
    assert [row["status"] for row in rows] == ["ok"] * 14


def _result(rows: list[dict[str, Any]]) -> dict[str, Any]:
    about = {"processor": "p", "python": "3"}
    versions = {"torch": "2", "torchmetrics": "1"}
    return {"rows": rows, "repeats": 5, "date": "2026-11-22T", "commit": "abc", "machine": about, "versions": versions}
