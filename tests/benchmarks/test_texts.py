"""The benchmark of text comparison: baselines agree with us, a number that differs is not shown."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest

from benchmarks import texts

for _module in ("rouge_score", "nltk", "sacrebleu"):
    pytest.importorskip(_module, reason=f"{_module} is not installed")


@pytest.mark.slow
def test_baselines_agree_and_the_table_shows_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_PEER_SECONDS", 0.02)
    monkeypatch.setattr(texts, "_QUICK_ROWS", 40)
    result = texts.benchmark(argparse.Namespace(quick=True, seed=3, repeats=1))
    assert {row["status"] for row in result["rows"]} == {"ok"}
    shown = texts.report([result])
    assert all(f"| {row['path']} | **" in shown for row in result["rows"])
    assert shown.count("rouge_score: ") == 5 and "one thread" in shown
    assert "to 1e-12, those of torchmetrics to 1e-07" in shown


def test_scores_that_differ_have_no_time() -> None:
    work = texts.works(5, 0)[0]
    rows = texts.measure(replace(work, theirs=lambda i: 2.0), 5, 1)
    assert rows[0]["status"].startswith("differs by 1.") and rows[1]["timed_rows"] == 5
    result = {"rows": rows, "versions": {}, "machine": {"cpus": 1, "processor": "", "python": ""}, "repeats": 1}
    assert "| differs by" in texts.report([{**result, "commit": "", "date": ""}])
