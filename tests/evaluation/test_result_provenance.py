"""A run names its data by the words of every result."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from valor_gpu._version import __version__
from valor_gpu.evaluation import evaluate
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.store import Store

ROWS = '{"question": "a", "answer": "a cat", "ground_truth": "the cat"}\n'


def test_a_run_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(ROWS)
    digest = hashlib.sha256(ROWS.encode()).hexdigest()
    choices: dict[str, Any] = {"store": tmp_path / "runs.sqlite"}
    found = evaluate(data=path, metrics_list=["f1_score"], **choices).provenance
    assert found == {
        "version": __version__,
        "hashed": "data",
        "ground_truth": digest,
        "predictions": digest,
        "reasons": {},
    }


def test_a_run_of_a_target_and_one_without_data(tmp_path: Path) -> None:
    with Store(tmp_path / "runs.sqlite") as store:
        run = store.create_run("a", {"data": {"hash": "0c"}, "target": {"kind": "function"}, "valor_gpu": "0.1"})
        assert EvaluationResult(store, run).provenance == {
            "version": "0.1",
            "hashed": "data",
            "ground_truth": "0c",
            "predictions": None,
            "reasons": {"predictions": "a target gave the answers"},
        }
        reason = "the run keeps no hash of its data"
        found = EvaluationResult(store, store.create_run("b", {})).provenance
        assert found["reasons"] == {"ground_truth": reason, "predictions": reason}
        assert found["hashed"] is found["ground_truth"] is found["predictions"] is None
