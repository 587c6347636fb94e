"""Scores and logits: no number depends on the sizes of shards and batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.offline.shard_data import write_jsonl
from valor_gpu.errors import InputError
from valor_gpu.offline import OfflineResult, run_offline


def run(config: dict[str, Any]) -> OfflineResult:
    result = run_offline(config)
    assert result is not None
    return result


@pytest.mark.parametrize("on_bad_row", ["shard", "row"])
def test_logits_need_an_activation(tmp_path: Path, on_bad_row: str) -> None:
    """With ``auto`` the accuracy of these rows would depend on ``batch_size``."""
    logits, truth = [0.4, -0.2, 0.3, 3.0, 0.1], [1, 0, 0, 1, 1]
    write_jsonl(tmp_path / "a.jsonl", [{"preds": a, "target": b} for a, b in zip(logits, truth)])
    metrics = {
        "accuracy": {"class": "classification.Accuracy", "task": "binary"},
        "auc": {"class": "classification.BinaryAUROC"},
    }
    data = {"files": str(tmp_path / "*.jsonl"), "task": "classification"}
    found = []
    for size in (1, 5):
        output = str(tmp_path / f"{size}{on_bad_row}")
        config = {"metrics": metrics, "data": {**data, "batch_size": size}, "output": output, "on_bad_row": on_bad_row}
        (failure,) = run(config).failures
        assert "a.jsonl, line 2: scores must be in [0, 1] where metrics.accuracy.activation is auto" in failure.error
        config["metrics"] = {name: {**spec, "activation": "sigmoid"} for name, spec in metrics.items()}
        found.append(run(config).to_dict()["results"])
        config["metrics"] = {"auc": metrics["auc"]}  # which keeps all scores, and decides in the end
        assert run(config).counts["counted"] == 1
    assert found[0] == found[1]
    assert found[0]["accuracy"]["values"]["BinaryAccuracy"] == 0.8


def test_ignored_scores_may_be_anything(tmp_path: Path) -> None:
    rows = [{"preds": [0.9, 7.0], "target": [1, -1]}, {"preds": [0.2, 0.7], "target": [0, 1]}]
    write_jsonl(tmp_path / "a.jsonl", rows)
    config = {
        "metrics": {"accuracy": {"class": "classification.Accuracy", "num_labels": 2, "ignore_index": -1}},
        "data": {"files": str(tmp_path / "*.jsonl"), "task": "classification"},
        "output": str(tmp_path / "out"),
    }
    assert run(config).counts["counted"] == 1


def test_intervals_do_not_depend_on_shards(tmp_path: Path) -> None:
    rows = [{"preds": int(n * n % 7 > 2), "target": int(n % 3 > 0)} for n in range(60)]
    metrics = {"f1": {"class": "classification.F1Score"}, "kappa": {"class": "classification.CohenKappa"}}
    found = []
    for shards in (1, 4):
        folder = tmp_path / str(shards)
        folder.mkdir()
        for shard in range(shards):
            write_jsonl(folder / f"{shard}.jsonl", rows[shard::shards])
        data = {"files": str(folder / "*.jsonl"), "task": "classification"}
        config = {"metrics": metrics, "data": data, "output": str(folder / "out"), "intervals": 50}
        found.append({name: each.to_dict()["intervals"] for name, each in run(config).results.items()})
        again = run({**config, "intervals": {"replicates": 50, "confidence": 0.5}}).results["f1"].intervals["F1Score"]
        assert found[-1]["f1"]["F1Score"]["low"] < again.low < again.high < found[-1]["f1"]["F1Score"]["high"]
        plain = run({name: value for name, value in config.items() if name != "intervals"}).results["f1"]
        assert "intervals" not in plain.to_dict()
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (1, "replicates must be at least 2"),
        ({"replicates": 50, "confidence": 2}, "confidence must be above 0 and below 1"),
        ({"draws": 50}, "intervals must have the keys replicates, .*, but has 'draws'"),
    ],
)
def test_choices_of_intervals_are_checked(tmp_path: Path, given: Any, words: str) -> None:
    write_jsonl(tmp_path / "a.jsonl", [{"preds": 1, "target": 1}])
    config = {
        "metrics": {"f1": {"class": "classification.F1Score"}},
        "data": {"files": str(tmp_path / "*.jsonl"), "task": "classification"},
        "output": str(tmp_path / "out"),
        "intervals": given,
    }
    with pytest.raises(InputError, match=words):
        run(config)
