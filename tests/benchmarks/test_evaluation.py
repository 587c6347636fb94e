"""The benchmark of evaluation runs, without the other package: its worker is replaced by ours, or by a script."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import pytest

from benchmarks import azure_environment, azure_worker, evaluation
from benchmarks.evaluation import AZURE, OURS


def arguments(case: str, folder: Path) -> argparse.Namespace:
    return argparse.Namespace(case=case, quick=True, seed=3, repeats=1, slow_repeats=1, data=folder)


@pytest.mark.slow
def test_equal_values_have_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(evaluation._WORKERS, AZURE, evaluation._WORKERS[OURS])
    result = evaluation.benchmark(arguments("10", tmp_path))
    assert [(row["tool"], row["status"], row["refused"]) for row in result["rows"]] == [
        (OURS, "ok", []),
        (AZURE, "ok", []),
    ]
    shown = evaluation.report([result])
    assert "| evaluate() with storage, 10 rows of 30 words | **" in shown and "cut off from any network" in shown


def test_other_values_have_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = {"seconds": 1.0, "cpu_seconds": 1.0, "values": {"f1_score": [2.0] * 40}, "peak_mb": 1.0, "refused": []}
    script = tmp_path / "says.py"
    script.write_text(f"print({json.dumps(json.dumps(said))})")
    monkeypatch.setitem(evaluation._WORKERS, AZURE, lambda data: [sys.executable, str(script)])
    rows = evaluation.measure("20k", evaluation.F1, arguments("20k", tmp_path))
    assert rows[0]["status"].startswith("differs by ") and rows[1]["status"] == "ok"


@pytest.mark.slow
def test_requests_of_a_judge(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    result = evaluation.benchmark(arguments("requests", tmp_path))
    ours, limit = result["rows"]
    assert ours["status"] == "ok" and ours["seconds"]["median"] > limit["seconds"]["median"] == pytest.approx(0.2)
    assert "requests/s | no overhead: 320 requests/s |" in evaluation.report([result])


def test_environment_is_outside_of_the_project(tmp_path: Path) -> None:
    assert azure_environment.python_of(tmp_path).is_relative_to(tmp_path)
    source = Path(azure_worker.__file__).read_text()
    assert "valor_gpu" not in source and "from benchmarks" not in source
