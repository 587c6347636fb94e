"""``valor-gpu eval run``, ``resume``, ``rescore``: runs from the command line, against files and a loopback server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.judge.server import ChatServer, Request
from valor_gpu.cli import BAD_INPUT, FAILURE, INTERRUPTED, OK, main
from valor_gpu.store import Store

ROOT = Path(__file__).parent.parent
KEY = "sk-a-key-that-no-file-has-12345"
ROWS = [
    {"id": "a", "question": "Capital of France?", "ground_truth": "Paris", "answer": "Paris", "topic": "fr"},
    {"id": "b", "question": "Capital of Italy?", "ground_truth": "Rome", "answer": "Milan", "topic": "it"},
    {"id": "c", "question": "Capital of Spain?", "ground_truth": "Madrid", "answer": "Madrid or Rome", "topic": "it"},
]
TARGET = """
import os, time

def answer(question):
    if "Spain" in question and os.path.exists("fail"):
        raise ValueError("no idea")
    return "Paris"

def slow(question):
    with open("asked", "a") as file:
        file.write("x")
    time.sleep(0.05 if os.path.exists("go on") else 60 if "Spain" in question else 0)
    return "Paris"
"""

Command = Callable[..., int]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with data, a target in a module of its own name, and a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VALOR_GPU_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return tmp_path


@pytest.fixture
def target(folder: Path) -> Iterator[str]:
    name = f"target_of_{folder.name}"
    (folder / f"{name}.py").write_text(TARGET)
    yield name
    sys.modules.pop(name, None)


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def judged(request: Request) -> str:
    """A judge that likes the answer Paris."""
    return json.dumps({"reason": "so", "score": 5 if "Paris" in request.text else 2, "status": "completed"})


def test_a_run_of_computed_metrics(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", "rows.jsonl", "--metrics", "f1_score,exact_match,word_error_rate", "--slice-by", "topic",
               "--threshold", "exact_match=1", "--name", "first", "--output", "out", "--json", "out.json"]  # fmt: skip
    assert main(["eval", "run", *options]) == OK
    shown = capsys.readouterr()
    assert shown.err == ""
    assert shown.out.startswith("first, run ") and shown.out.endswith("wrote out.json\n")
    found = json.loads((folder / "out.json").read_text(), parse_constant=pytest.fail)
    assert (found["command"], found["run"]["name"]) == ("eval run", "first")
    metrics = found["summary"]["metrics"]
    assert metrics["mean_exact_match"] == pytest.approx(1 / 3) and metrics["word_error_rate"] == 1.0
    assert metrics["mean_f1_score"] == pytest.approx((1 + 0 + 0.5) / 3) and metrics["exact_match_pass_rate"]
    assert json.loads((folder / "out/metrics.json").read_text())["metrics"] == metrics
    assert main(["eval", "show", "first", "--json", "-"]) == OK
    assert document(capsys)["summary"] == found["summary"]


def test_a_configuration_file_and_options_over_it(
    folder: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"data": "rows.jsonl", "metrics_list": ["f1_score"], "target": f"{target}:answer", "evaluation_name": "a"}
    (folder / "config.json").write_text(json.dumps(config))
    assert main(["eval", "run", "config.json", "--name", "b", "--json", "-"]) == OK
    found = document(capsys)
    assert found["run"]["name"] == "b" and found["summary"]["metrics"] == {"mean_f1_score": pytest.approx(1 / 3)}
    assert found["run"]["config"]["target"]["origin"] == f"{target}:answer"


def test_a_judge_by_options(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with ChatServer(judged) as server:
        options = ["--model", "m", "--base-url", server.url, "--api-key-env", "MY_KEY", "--max-concurrency", "2"]
        arguments = ["--data", "rows.jsonl", "--metrics", "gpt_fluency", *options]
        assert main(["eval", "run", *arguments, "--fail-if", "mean_gpt_fluency<3", "--json", "run.json"]) == OK
        assert main(["eval", "run", *arguments, "--fail-if", "mean_gpt_fluency<4", "--quiet"]) == FAILURE
    shown = capsys.readouterr()
    assert shown.err.startswith("valor-gpu eval run: failed: mean_gpt_fluency < 4 holds: it is 3")
    assert json.loads((folder / "run.json").read_text())["summary"]["metrics"]["mean_gpt_fluency"] == 3.0
    assert len(server.requests) == 6 and server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert not [path for path in folder.iterdir() if KEY.encode() in path.read_bytes()]


def test_a_dry_run_asks_and_stores_nothing(folder: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "rows.jsonl").write_text((folder / "rows.jsonl").read_text() + '\n{"id": "d", "question": "?"}\n[]\n')
    judge = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--dry-run"]
    assert main(["eval", "run", "--data", "rows.jsonl", *judge]) == OK
    shown = capsys.readouterr()
    assert shown.err == ""
    lines = shown.out.splitlines()
    assert [line.split() for line in lines if line.startswith("answer")] == [["answer", "${data.answer}"]]
    assert next(line for line in lines if line.startswith("gpt_coherence")).split() == [
        "gpt_coherence", "quality", "answer,", "question", "3", "1"]  # fmt: skip
    assert any(line.startswith("note: default metrics left out") and "gpt_relevance" in line for line in lines)
    assert "unreadable: rows.jsonl, line 5 must be a JSON object but is a list" in lines
    assert lines[-1] == "at most 3 requests to the judge, repairs of replies and retries apart"
    options = ["--target", f"{target}:answer", "--metrics", "preference,gpt_fluency,f1_score,latency", "--map",
               "baseline_answer=answer", "--epochs", "2", "--repeats", "3", "--limit", "3", "--json", "-"]  # fmt: skip
    assert main(["eval", "run", "--data", "rows.jsonl", *judge, *options]) == OK
    expected = document(capsys)["expected"]
    assert expected == {"rows": 3, "unreadable": [], "target": 6, "missing": {},
                        "judge": {"preference": 3 * 2 * 3 * 2, "gpt_fluency": 3 * 2 * 3}}  # fmt: skip
    assert not (folder / "store.sqlite").exists()


def test_a_chat_has_a_request_for_each_turn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roles = ["user", "assistant", "user", "assistant", "user"]
    row = {"messages": [{"role": role, "content": "words"} for role in roles]}
    (folder / "chat.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({"messages": "no list"}))
    judge = ["--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--dry-run", "--json", "-"]
    assert main(["eval", "run", "--data", "chat.jsonl", "--task", "chat", "--metrics", "gpt_fluency", *judge]) == OK
    assert document(capsys)["expected"]["judge"] == {"gpt_fluency": 2}


def test_failed_rows_are_counted_and_resumed(folder: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "fail").touch()
    arguments = ["--data", "rows.jsonl", "--metrics", "f1_score", "--target", f"{target}:answer", "--quiet"]
    assert main(["eval", "run", *arguments, "--name", "r"]) == OK
    said = capsys.readouterr().err
    assert "warning: 1 row of 3 without an answer: valor-gpu eval show " in said and len(said.splitlines()) == 1
    (folder / "fail").unlink()
    assert main(["eval", "resume", "r", "--json", "-"]) == OK
    assert document(capsys)["summary"]["rows"]["ok"] == 3


def test_a_metric_without_a_score_is_a_warning_and_its_cause_is_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "numbers.jsonl").write_text('{"answer": "42", "ground_truth": 4.5}\n' * 3)
    assert main(["eval", "run", "--data", "numbers.jsonl", "--metrics", "f1_score", "--name", "n"]) == OK
    cause = "3 invalid_field, scores of f1_score: ground_truth must be a text or a list of texts but is float"
    run, shown = capsys.readouterr(), ""
    assert "warning: no row of run " in run.err and f"has a score of f1_score; {cause}" in run.err
    assert main(["eval", "show", "n"]) == OK
    for shown in (run.out, capsys.readouterr().out):
        assert f"most frequent errors:\n  {cause}: write its digits as a text\n" in shown
    assert main(["eval", "show", "n", "--json", "-"]) == OK
    found = document(capsys)
    assert found["studio_url"] is None and [(each["n"], each["evaluators"]) for each in found["errors"]] == [
        (3, ["f1_score"])
    ]


def test_the_first_failure_ends_a_run_if_asked(folder: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "fail").touch()
    arguments = ["--data", "rows.jsonl", "--metrics", "f1_score", "--target", f"{target}:answer", "--on-error", "raise"]
    assert main(["eval", "run", *arguments]) == FAILURE
    shown = capsys.readouterr()
    assert "error: row 3 (c): target_error: " in shown.err and "no idea" in shown.err
    assert "go on with: valor-gpu eval resume " in shown.err


def test_rescoring_asks_no_target(folder: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--data", "rows.jsonl", "--metrics", "f1_score", "--target", f"{target}:answer", "--quiet"]
    assert main(["eval", "run", *arguments, "--name", "r"]) == OK
    (folder / f"{target}.py").unlink()
    options = ["--metrics", "exact_match", "--param", "exact_match.ignore_case=true", "--threshold", "exact_match=1"]
    assert main(["eval", "rescore", "r", *options, "--json", "-"]) == OK
    found = document(capsys)
    assert found["command"] == "eval rescore" and list(found["summary"]["evaluators"]) == ["f1_score", "exact_match"]
    assert found["summary"]["evaluators"]["exact_match"]["pass_rate"] == pytest.approx(1 / 3)


def test_a_grid_is_several_runs(folder: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / f"{target}.py").write_text("def answer(question, city):\n    return city\n")
    arguments = ["--data", "rows.jsonl", "--metrics", "f1_score", "--target", f"{target}:answer"]
    assert main(["eval", "run", *arguments, "--grid", 'city=["Paris", "Rome"]', "--json", "-"]) == OK
    runs = document(capsys)["runs"]
    assert [run["run"]["config"]["parameters"] for run in runs] == [{"city": "Paris"}, {"city": "Rome"}]
    assert [run["summary"]["rows"]["ok"] for run in runs] == [3, 3]
    assert main(["eval", "run", *arguments, "--grid", 'city=["Paris", "Rome"]']) == OK
    lines = [line.split() for line in capsys.readouterr().out.split("\n\n")[-1].splitlines()]
    assert [line[1:] for line in lines] == [["city", "mean_f1_score"], ["Paris", "0.3333"], ["Rome", "0.3333"]]


def test_saved_evaluators_are_metrics(folder: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    (folder / "polite.jinja2").write_text("Rate from 1 to 5 how polite this is, as JSON: {{ answer }}")
    (folder / f"{target}.py").write_text("def brief(answer):\n    return 1 / len(answer)\n")
    save = ["eval", "evaluators", "save"]
    assert main([*save, "politeness", "polite.jinja2", "--note", "first"]) == OK
    assert main([*save, "brief", f"{target}:brief", "--param", "high=1"]) == OK
    assert main([*save, "same", "exact_match", "--param", "ignore_case=true"]) == OK
    assert capsys.readouterr().out.startswith("politeness version 1, ")
    assert main([*save, "f1_score", "exact_match"]) == BAD_INPUT
    assert main([*save, "new", "none.prompty"]) == BAD_INPUT
    assert "none.prompty" in capsys.readouterr().err
    with ChatServer(judged) as server:
        options = ["--model", "m", "--base-url", server.url, "--json", "-"]
        assert main(["eval", "run", "--data", "rows.jsonl", "--metrics", "politeness@1,brief,same", *options]) == OK
    found = document(capsys)
    assert list(found["summary"]["evaluators"]) == ["politeness", "brief", "same"]
    assert found["summary"]["metrics"]["mean_politeness"] == 3.0
    assert {each["origin"] for each in found["run"]["config"]["evaluators"]} == {"politeness@1", "brief@1", "same@1"}
    assert main(["eval", "evaluators", "list", "--saved"]) == OK
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["brief", "politeness", "same"]


BAD = [
    (["--data", "none.csv", "--metrics", "f1_score"], "there is no 'none.csv'"),
    (["--data", "rows.jsonl", "--metrics", "f1_scor"], "did you mean 'f1_score'"),
    (["--data", "rows.jsonl", "--metrics", "gpt_fluency"], "a judge decides gpt_fluency (model_config: --model, --"),
    (["--data", "rows.jsonl", "--metrics", "f1_score", "--target", "nowhere:f"], "nowhere"),
    (["--data", "rows.jsonl", "--metrics", "f1_score", "--map", "answer=reply"], "'reply'"),
    (["--data", "rows.jsonl", "--metrics", "f1_score", "--slice-by", "topics"], "did you mean 'topic'"),
    (["--data", "rows.jsonl", "--metrics", "meteor"], "(metric_params: --param)"),
    (["--data", "rows.jsonl", "--metrics", "gpt_fluency", "--model", "m", "--api-key-env", "NOT_SET"], "NOT_SET"),
]


@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_arguments_are_found_before_anything_runs(
    options: list[str], message: str, dry: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "run", *options, *dry]) == BAD_INPUT
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("valor-gpu eval run: error: ") and message in shown.err
    with Store() as store:
        assert store.runs() == []


def test_ctrl_c_says_how_to_go_on(folder: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--data", "rows.jsonl", "--metrics", "f1_score", "--target", f"{target}:slow", "--name", "r"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "valor_gpu", "eval", "run", *options]
    asked, deadline = folder / "asked", time.monotonic() + 60
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as process:
        try:
            while not (asked.exists() and len(asked.read_text()) == 3 and stored_rows(folder) >= 2):
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == INTERRUPTED and out == ""
    with Store() as store:
        run = store.run("r")
        assert run.state == "stopped"
    lines = err.splitlines()
    assert lines[-2:] == [
        "valor-gpu eval run: interrupted",
        f"valor-gpu eval run: go on with: valor-gpu eval resume {run.id}",
    ]
    (folder / "go on").touch()
    assert main(["eval", "resume", run.id, "--json", "-"]) == OK
    assert document(capsys)["summary"]["rows"]["ok"] == 3 and len(asked.read_text()) == 4


def stored_rows(folder: Path) -> int:
    if not (folder / "store.sqlite").exists():
        return 0
    with Store() as store:
        return sum(len(run.rows()) for run in store.runs())


def test_neither_torch_nor_pandas_is_loaded(folder: Path) -> None:
    arguments = ["eval", "run", "--data", "rows.jsonl", "--metrics", "f1_score,bleu,contains", "--quiet"]
    program = f"import sys\nfrom valor_gpu.cli import main\nassert main({arguments!r}) == 0\n"
    program += "print({'torch', 'pandas', 'openai', 'scipy'} & set(sys.modules), file=sys.stderr)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == "set()\n"
