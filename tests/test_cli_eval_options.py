"""Options of ``valor-gpu eval``: arguments of evaluate(), judges, and keys that are rejected unseen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.cli import BAD_INPUT, _parsed, main
from valor_gpu.cli.eval.options import model_config_of
from valor_gpu.cli.eval.run import arguments_of
from valor_gpu.errors import InputError

KEY = "sk-abcdefghijklmnopqrstuvwx"


def arguments(*options: str) -> dict[str, Any]:
    return arguments_of(_parsed(["eval", "run", *options]))


def test_every_option_is_an_argument_of_evaluate(tmp_path: Path) -> None:
    given = ["--data", "a.csv", "--metrics", "f1_score,mine@2", "--map", "answer=${target.text}", "--map", "question=q",
             "--target", "app:answer", "--task", "qa", "--param", "contains.texts=[\"a\",\"b\"]", "--param",
             "contains.mode=all", "--threshold", "f1_score=0.5", "--threshold", "violence=Low", "--repeats", "2",
             "--epochs", "3", "--grid", "temperature=[0, 1]", "--slice-by", "topic,lang", "--name", "first", "--key",
             "id", "--limit", "9", "--cache", "c.sqlite", "--max-cost", "2.5", "--price", "prompt=0.5", "--price",
             "completion=1", "--baseline", "old", "--on-error", "raise", "--output", "out", "--tracking-uri", "file:x",
             "--store", "s.sqlite", "--tag", "model=small", "--seed", "7", "--model", "m", "--base-url", "http://h/v1",
             "--api-key-env", "MY_KEY", "--max-concurrency", "4", "--rpm", "60", "--tpm", "1e5", "--timeout", "30",
             "--embedding-model", "e"]  # fmt: skip
    assert arguments(*given) == {
        "data": "a.csv", "metrics_list": ["f1_score", "mine@2"],
        "data_mapping": {"answer": "${target.text}", "question": "q"}, "target": "app:answer", "task_type": "qa",
        "metric_params": {"contains": {"texts": ["a", "b"], "mode": "all"}},
        "thresholds": {"f1_score": 0.5, "violence": "Low"}, "repeats": 2, "epochs": 3,
        "params_grid": {"temperature": [0, 1]}, "slice_by": ["topic", "lang"], "evaluation_name": "first",
        "key": "id", "limit": 9, "cache": "c.sqlite", "max_cost": 2.5, "prices": {"prompt": 0.5, "completion": 1},
        "baseline": "old", "on_error": "raise", "output_path": "out", "tracking_uri": "file:x", "store": "s.sqlite",
        "tags": {"model": "small"}, "seed": 7, "max_concurrency": 4, "rpm": 60.0, "tpm": 1e5, "timeout": 30.0,
        "model_config": {"model": "m", "base_url": "http://h/v1", "api_key_env": "MY_KEY"},
        "embedding_config": {"model": "e", "base_url": "http://h/v1", "api_key_env": "MY_KEY"},
    }  # fmt: skip


def test_options_replace_what_a_file_says(tmp_path: Path) -> None:
    config = {
        "data": "a.csv", "metrics_list": ["bleu"], "data_mapping": {"question": "q", "answer": "a"}, "seed": 3,
        "metric_params": {"contains": {"mode": "all"}}, "model_config": {"model": "m", "temperature": 0.5},
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    found = arguments(
        str(path), "--metrics", "gleu", "--map", "answer=b", "--param", "contains.texts=x", "--model", "n"
    )
    assert found == {
        "data": "a.csv", "metrics_list": ["gleu"], "data_mapping": {"question": "q", "answer": "b"}, "seed": 3,
        "metric_params": {"contains": {"mode": "all", "texts": "x"}},
        "model_config": {"model": "n", "temperature": 0.5},
    }  # fmt: skip
    assert arguments(str(path)) == config


def test_a_yaml_file_is_read(tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="pyyaml is not installed")
    path = tmp_path / "config.yaml"
    path.write_text("data: a.csv\nmetrics_list: [f1_score]\nthresholds:\n  f1_score: 0.5\n")
    expected = {"data": "a.csv", "metrics_list": ["f1_score"], "thresholds": {"f1_score": 0.5}}
    assert arguments(str(path)) == expected


JUDGES = [
    ([], None, None),
    (["--model", "m"], None, {"model": "m"}),
    (["--azure-endpoint", "https://e", "--azure-deployment", "d", "--api-version", "v"], None,
     {"azure_endpoint": "https://e", "azure_deployment": "d", "api_version": "v"}),
    (["--api-key-env", "A"], {"model": "m"}, {"model": "m", "api_key_env": "A"}),
    (["--model", "m"], {"azure_endpoint": "https://e", "azure_deployment": "d", "temperature": 0},
     {"model": "m", "temperature": 0}),
]  # fmt: skip


@pytest.mark.parametrize(("options", "configured", "expected"), JUDGES)
def test_judges(options: list[str], configured: Any, expected: Any) -> None:
    assert model_config_of(_parsed(["eval", "run", *options]), configured) == expected


def test_a_judge_out_of_a_file_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "judge.json"
    path.write_text('{"model": "m", "temperature": 0.5}')
    options = _parsed(["eval", "resume", "r", "--model-config", str(path), "--base-url", "http://h"])
    assert model_config_of(options) == {"model": "m", "temperature": 0.5, "base_url": "http://h"}


@pytest.mark.parametrize(
    "options",
    [
        ["--api-key", KEY],
        ["--api-key", "anything"],
        [f"--api-key={KEY}"],
        ["--openai_api_key", "x"],
        ["--token", "x"],
        ["--key", KEY],
        ["--api-key-env", KEY],
        ["--base-url", f"https://me:{KEY[3:]}@host/v1"],
        ["--target", f"https://host/score?code={KEY[3:]}"],
        ["--tag", f"api_key={KEY[3:]}"],
        ["--unknown", KEY],
    ],
)
@pytest.mark.parametrize("command", [["run"], ["resume", "r"], ["evaluators", "list"]])
def test_a_key_is_rejected_and_shown_nowhere(
    options: list[str], command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["eval", *command, *options])
    shown = capsys.readouterr()
    assert "every user of the machine sees the command line" in shown.err
    assert KEY[3:] not in shown.err + shown.out


BAD = [
    (["--api-key-env", "12345"], "argument --api-key-env: must be the NAME of an environment variable"),
    (["--map", "answer"], "argument --map: must be FIELD=COLUMN but got 'answer'"),
    (["--timeout", "0"], "argument --timeout: must be a number greater than 0 but got '0'"),
    (["--param", "x"], "argument --param: must be NAME=VALUE but got 'x'"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_values_that_are_no_values(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["eval", "run", "--data", "x", *options])
    assert message in capsys.readouterr().err


CONTRADICTIONS = [
    (["--model", "m", "--azure-deployment", "d"], "--model must not go with --azure-deployment"),
    (["--tag", "a=1", "--tag", "a=2"], "--tag must set a once but sets it twice"),
    (["--param", "a.b=1", "--param", "a.b=2"], "--param must set a.b once but sets it twice"),
    (["{f}/none.json"], "configuration must be a file of UTF-8 that can be read but {f}/none.json"),
    (["{f}/list.json"], "{f}/list.json must hold a mapping of arguments but holds list"),
    (["{f}/typo.json"], "'metric_list'; did you mean 'metrics_list'"),
    (["--json", "{f}/none/x"], "--json must lie in a folder that exists"),
    (["--json", "x"], "--json must be another file than --data but both are x"),
    (["{f}/typo.json", "--json", "{f}/typo.json"], "--json must be another file than CONFIG but both are {f}/typo"),
    (["--store", "{f}/s", "--json", "{f}/s"], "--json must be another file than --store but both are {f}/s"),
]


@pytest.mark.parametrize(("options", "message"), CONTRADICTIONS)
def test_contradictions(options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "typo.json").write_text('{"metric_list": []}')
    assert main(["eval", "run", "--data", "x", *(option.format(f=tmp_path) for option in options)]) == BAD_INPUT
    shown = capsys.readouterr().err
    assert shown.startswith("valor-gpu eval run: error: ") and message.format(f=tmp_path) in shown
    assert len(shown.splitlines()) == 1


def test_a_pattern_may_look_for_keys() -> None:
    found = arguments(
        "--data", "x", "--param", "regex.pattern=password: secret1", "--param=contains.texts=api_key=1234"
    )
    assert found["metric_params"] == {"regex": {"pattern": "password: secret1"}, "contains": {"texts": "api_key=1234"}}


def test_data_must_be_named() -> None:
    with pytest.raises(InputError, match="--data must be given, or data in a configuration file"):
        arguments("--metrics", "f1_score")
