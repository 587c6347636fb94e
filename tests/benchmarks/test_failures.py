"""The benchmark of runs whose judge fails for some prompts."""

from __future__ import annotations

import argparse

import pytest

from benchmarks import failures


@pytest.mark.slow
def test_all_others_are_done_before_the_run() -> None:
    pytest.importorskip("openai")
    result = failures.benchmark(argparse.Namespace(case="500x5", quick=True, repeats=1))
    none, some = result["rows"]
    assert (none["status"], some["status"], none["failed"]) == ("ok", "ok", 0) and some["failed"] > 0
    assert some["others"]["median"] <= some["seconds"]["median"]
    assert "| 200 | " in failures.report([result])
