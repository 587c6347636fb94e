"""``valor-gpu offline``: output, exit status, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.offline.shard_data import classification
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(classification(tmp_path, shards=3)))  # JSON is YAML
    return path


def test_run_and_status(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["offline", "status", str(config)]) == OK
    assert "shards 3, done 0, pending 3, failed 0" in capsys.readouterr().out
    assert main(["offline", "run", str(config)]) == OK
    printed = capsys.readouterr()
    assert "shards 3, counted 3, failed 0" in printed.out
    assert f"wrote {tmp_path}/out/result.json" in printed.out
    assert printed.err.splitlines()[-1] == "3 of 3 shards"
    assert main(["offline", "status", str(config), "--json", "-"]) == OK
    found = json.loads(capsys.readouterr().out)
    assert (found["command"], found["done"], found["pending"]) == ("offline status", 3, 0)


def test_failed_shard(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "part-1.jsonl").write_text("{}\n")
    assert main(["offline", "run", str(config), "--json", str(tmp_path / "a.json"), "--quiet"]) == FAILURE
    printed = capsys.readouterr()
    assert not printed.out
    assert "warning: 1 shard of 3 failed and do not count" in printed.err
    assert "part-1.jsonl, line 1 must have 'scores'" in printed.err
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["failures"][0]["place"] == f"{tmp_path}/part-1.jsonl, line 1"
    result = json.loads((tmp_path / "out/result.json").read_text())
    assert {**result, "command": "offline run"} == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": 1}, "did you mean 'metrics'"),
        ({"on_bad_row": "skip"}, "on_bad_row must be one of 'shard', 'row' but got 'skip'"),
        ({"memory_limit": "much"}, "memory_limit must be bytes, as 2 GiB"),
        ({"metrics": {}}, "metrics must name at least one metric"),
        ({"metrics": {"a": "classification.Acuracy"}}, "did you mean 'classification.Accuracy'"),
        ({"metrics": {"a": "json:JSONDecoder"}}, "'json:JSONDecoder' is none"),
        ({"metrics": {"a": {"class": "text.BLEU", "score_dtype": "f64"}}}, "must be the name of a torch dtype"),
        ({"data": {"files": "nothing-*.jsonl", "task": "text"}}, "must match at least one file"),
        ({"data": {"files": "a.bin", "task": "text"}}, r"data.format must be given"),
        ({"data": {"files": "a.jsonl"}}, "data.task must be one of"),
        (
            {
                "data": {"ground_truth": "*.json", "detections": "*.json"},
                "metrics": {"map": "detection.MeanAveragePrecision"},
            },
            "metrics.map.box_format must be xywh, as boxes of COCO files are, but is xyxy",
        ),
        (
            {"data": {"files": "a.jsonl", "task": "text", "fields": {"preds": "a", "target": "a"}}},
            "data.fields must name each once but names 'a' more than once",
        ),
        (
            {"data": {"files": "a.jsonl", "task": "classification", "labels": ["cat", "dog", "cat"]}},
            "data.labels must name each once but names 'cat' more than once",
        ),
        ({"data": {"ground_truth": "a.json"}}, "must have ground_truth and detections but has ground_truth"),
        ({"data": {"files": "a.jsonl", "task": "text", "fields": {"preds": "a"}}}, "has no 'target'"),
        ({"data": {"files": "a.jsonl", "task": "text", "batch_size": 0}}, "data.batch_size must be at least 1"),
    ],
)  # fmt: skip
def test_wrong_configuration(
    config: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], message: str
) -> None:
    config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    assert main(["offline", "run", str(config)]) == BAD_INPUT
    assert message in capsys.readouterr().err
