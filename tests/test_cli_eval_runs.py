"""``valor-gpu eval list``, ``show``, ``evaluators``: what a store has, as text and JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hand_made_runs import make_rows, make_run, make_scores
from valor_gpu.cli import BAD_INPUT, FAILURE, OK, main
from valor_gpu.evaluation.prompts.prompt_files import prompt_evaluator
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.store import Run, Store, StoredRow

ROOT = Path(__file__).parent.parent


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("VALOR_GPU_STORE", str(tmp_path / "store.sqlite"))
    with Store() as opened:
        yield opened


def add_run(store: Store, name: str = "capitals", values: tuple[Any, ...] = (1, 0.5, "timeout", 0), **more: Any) -> Run:
    """A finished run of four rows: the last one has no answer."""
    rows = make_rows(4, topic=["a", "a", "b", "b"])
    rows[3] = StoredRow(4, "k4", {"question": "q4", "topic": "b"}, {}, "target_error", "HTTP 500\x1b[2J")
    scores = [*make_scores("f1_score", values[:3]), *make_scores("violence", [0, 6, 2])]
    config = {"thresholds": {"f1_score": 0.5}, "slice_by": ["topic"], "notes": ["gpt_fluency was left out"]}
    run = make_run(store, ["f1_score", "violence"], rows, scores, name, "draft", **config, **more)
    with run.lease():
        run.finish("finished", run_summary(run, seconds=1.5))
    return run


def strict(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return found


def test_the_numbers_of_a_run(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    run = add_run(store)
    assert main(["eval", "show", "capitals", "--failures"]) == OK
    shown = capsys.readouterr()
    assert shown.err == "" and "\x1b" not in shown.out
    lines = shown.out.splitlines()
    assert lines[0] == f"capitals, run {run.id}: finished"
    assert lines[1] == "4 rows, failed: 1 target_error" and lines[2] == "1.5 s"
    cells = next(line for line in lines if line.startswith("mean_f1_score")).split()
    assert cells[:2] == ["mean_f1_score", "0.75"] and cells[-3:] == ["pass", "rate", "100.0%"]
    assert next(line for line in lines if line.startswith("mean_violence")).endswith("defect rate 33.3%")
    assert "note: gpt_fluency was left out" in lines and "data: capitals.jsonl" in lines
    topics = [line.split() for line in lines[lines.index(next(x for x in lines if x.startswith("topic"))) :]][:3]
    assert topics[0] == ["topic", "rows", "f1_score", "violence"]
    assert [row[0] for row in topics[1:]] == ["a", "b"] and topics[1][2:] == ["0.75", "3"]
    failures = [line.split() for line in shown.out.split("\n\n")[-1].splitlines()]
    assert failures[1][:3] == ["4", "k4", "target_error"] and failures[1][-1] == r"500\x1b[2J"
    assert failures[2][:4] == ["3", "k3", "f1_score", "timeout"]


def test_the_json_of_a_run(store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = add_run(store)
    assert main(["eval", "show", run.id, "--failures", "1", "--json", "-"]) == OK
    found = strict(capsys.readouterr().out)
    assert (found["schema_version"], found["command"]) == (1, "eval show")
    assert found["run"]["id"] == run.id and found["run"]["config"] == run.config
    assert found["summary"] == run.finished_summary and found["summary"]["metrics"]["mean_f1_score"] == 0.75
    assert found["failures"] == [
        {"number": 4, "key": "k4", "evaluator": None, "repeat": 0, "status": "target_error", "error": "HTTP 500\x1b[2J"}
    ]
    assert main(["eval", "show", "--quiet", "--json", str(tmp_path / "run.json")]) == OK  # the newest run
    assert strict((tmp_path / "run.json").read_text())["run"]["id"] == run.id
    assert capsys.readouterr().out == ""


def test_a_run_that_has_not_ended_is_counted(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(store, ["f1_score"], make_rows(2), make_scores("f1_score", [1]), state="draft")
    assert main(["eval", "show"]) == OK
    shown = capsys.readouterr().out
    assert ": draft" in shown and next(x for x in shown.splitlines() if x.startswith("mean_f1")).split()[1] == "1"


def test_what_becomes_of_a_run_that_has_not_ended(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(store, ["f1_score"], make_rows(2), make_scores("f1_score", [1]), state="draft")
    with run.lease():
        assert main(["eval", "show"]) == OK
        assert capsys.readouterr().out.splitlines()[-1].startswith("this process, last heard of 0 s ago works on it")
    assert main(["eval", "show", "--store", str(store.path)]) == OK  # as after a kill: nobody ended the run
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"go on with: valor-gpu eval resume {run.id} --store {store.path}"


def test_the_list_of_runs(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [add_run(store, f"run {n}") for n in range(3)]
    make_run(store, ["f1_score"], make_rows(1), [], name="new", state="draft")
    assert main(["eval", "list", "--limit", "3"]) == OK
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0].split() == ["run", "begun", "state", "name", "rows", "numbers"]
    assert [line.split()[0] for line in lines[2:4]] == [runs[2].id, runs[1].id] and " draft " in lines[1]
    assert "mean_f1_score 0.75, f1_score_pass_rate 1" in lines[2] and lines[-1].startswith("more than 3 runs")
    assert main(["eval", "list", "--state", "draft", "--json", "-"]) == OK
    found = strict(capsys.readouterr().out)
    assert [run["name"] for run in found["runs"]] == ["new"] and found["runs"][0]["summary"] is None


def test_other_thresholds_of_a_stored_run(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    run = add_run(store)
    options = ["--threshold", "f1_score=0.6", "--threshold", "violence=Low", "--json", "-"]
    assert main(["eval", "show", run.id, *options]) == OK
    found = strict(capsys.readouterr().out)["summary"]["metrics"]
    assert (found["f1_score_pass_rate"], found["violence_defect_rate"]) == (0.5, pytest.approx(2 / 3))
    assert run.finished_summary is not None and run.finished_summary["metrics"]["f1_score_pass_rate"] == 1.0


def test_comparison_of_two_runs(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [add_run(store, name, values) for name, values in (("new", (1, 1, 1)), ("old", (0, 0.5, 1)))]
    assert main(["eval", "compare", "new", "old", "--metrics", "f1_score", "--seed", "1", "--json", "-"]) == OK
    found = strict(capsys.readouterr().out)
    assert [found[name]["id"] for name in ("run", "baseline")] == [run.id for run in runs]
    metric = found["comparison"]["metrics"]["f1_score"]
    assert (
        list(found["comparison"]["metrics"]) == ["f1_score"]
        and metric["difference"] == pytest.approx(0.5)
        and metric["n"] == 3
    )
    assert main(["eval", "compare", "new", "old", "--fail-if", "mean_f1_score<1"]) == OK
    shown = capsys.readouterr().out
    assert "mean_f1_score" in shown and "new" in shown and "old" in shown
    assert main(["eval", "compare", "old", "new", "--quiet", "--fail-if", "mean_f1_score<1"]) == FAILURE
    assert main(["eval", "compare", "new", "old", "--quiet", "--fail-if", "delta_mean_f1_score<0.5"]) == OK
    assert main(["eval", "compare", "old", "new", "--quiet", "--fail-if", "delta_mean_f1_score<-0.1"]) == FAILURE
    assert "delta_mean_f1_score < -0.1 holds: it is -0.5" in capsys.readouterr().err


def test_exports_go_through_pipes_links_and_standard_output(store: Store, tmp_path: Path) -> None:
    add_run(store)
    real, link, fifo = tmp_path / "real", tmp_path / "link", tmp_path / "fifo"
    real.write_text("old")
    link.symlink_to(real)
    assert main(["eval", "export", "capitals", "--jsonl", str(link)]) == OK
    assert link.is_symlink() and len(real.read_text().splitlines()) == 4
    command = [sys.executable, "-m", "valor_gpu", "eval", "export", "capitals", "--jsonl"]
    for name in ("-", "/dev/stdout"):
        done = subprocess.run([*command, name], capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout == real.read_text()
    os.mkfifo(fifo)
    with subprocess.Popen([*command, str(fifo)], cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        assert fifo.read_text() == real.read_text()
    assert process.returncode == 0 and fifo.is_fifo()


def test_exports(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    add_run(store)
    add_run(store, "other")
    paths = [tmp_path / name for name in ("run.html", "rows.csv", "rows.jsonl")]
    options = [word for path in paths for word in (f"--{path.suffix[1:]}", str(path))]
    assert main(["eval", "export", "capitals", *options, "--baseline", "other"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"wrote {paths[0]}", f"wrote {paths[1]}: 4 rows", f"wrote {paths[2]}: 4 rows"]
    assert "mean_f1_score" in paths[0].read_text() and len(paths[1].read_text().splitlines()) == 5
    assert [strict(line)["key"] for line in paths[2].read_text().splitlines()] == ["k1", "k2", "k3", "k4"]


GATES = [
    (["mean_f1_score<0.8"], FAILURE, ["mean_f1_score < 0.8 holds: it is 0.75"]),
    (["mean_f1_score<0.75", "violence_defect_rate>=0.5"], OK, []),
    (["mean_f1_score<=0.75", "violence_defect_rate>0.3"], FAILURE, ["mean_f1_score <= 0.75", "violence_defect_rate"]),
]


@pytest.mark.parametrize(("gates", "status", "words"), GATES)
def test_gates(
    gates: list[str], status: int, words: list[str], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    add_run(store)
    assert main(["eval", "show", *(word for gate in gates for word in ("--fail-if", gate))]) == status
    shown = capsys.readouterr()
    assert shown.out != "" and len(shown.err.splitlines()) == len(words)
    for line, word in zip(shown.err.splitlines(), words):
        assert line.startswith("valor-gpu eval show: failed: ") and word in line


def test_a_number_that_does_not_exist_fails_its_gate(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    add_run(store, values=("timeout", "timeout", "timeout"))
    assert main(["eval", "show", "--quiet", "--fail-if", "mean_f1_score<0.1"]) == FAILURE
    assert "mean_f1_score < 0.1 cannot be decided: there is no number" in capsys.readouterr().err


BAD = [
    (["show", "capital"], "no run with the id or name 'capital' in the store {store}; did you mean 'capitals'?"),
    (["show", "--store", "{f}/none"], "--store must be a file of runs but {f}/none does not exist"),
    (
        ["show", "--fail-if", "mean_f1<0.5"],
        "--fail-if: gate must name a number of the run but 'mean_f1' is none; did you",
    ),
    (["show", "--json", "{f}/none/x"], "--json must lie in a folder that exists"),
    (["export", "capitals"], "--html, --csv or --jsonl must be given but none is"),
    (["export", "capitals", "--csv", "{f}/x", "--baseline", "b"], "--baseline must go with --html but"),
    (["resume", "nothing"], "no run with the id or name 'nothing'"),
    (["evaluators", "show", "nothing"], "no evaluator 'nothing' in the store"),
    (["evaluators", "show", "f1_score", "--prompt"], "must be a judged one with a single prompt"),
    (["evaluators", "show", "gpt_similarity", "--prompt", "--task", "chat"], "task must be one of 'qa' but got 'chat'"),
    (["evaluators", "show", "gpt_fluency", "--task", "chat"], "--task must go with --prompt but that is not given"),
    (["evaluators", "show", "gpt_fluency", "--prompt", "--json", "-"], "--prompt must go without --json but both"),
    (["evaluators", "diff", "nothing", "1"], "no version 1 of evaluator 'nothing' in the store"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_options(
    arguments: list[str], message: str, store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add_run(store)
    assert main(["eval", *(argument.format(f=tmp_path) for argument in arguments)]) == BAD_INPUT
    shown = capsys.readouterr()
    names = " ".join(["eval", arguments[0], *([arguments[1]] if arguments[0] == "evaluators" else [])])
    assert shown.out == "" and len(shown.err.splitlines()) == 1
    assert shown.err.startswith(f"valor-gpu {names}: error: ")
    assert message.format(f=tmp_path, store=store.path) in shown.err
    assert not (tmp_path / "none").exists()


def test_an_empty_store_has_no_runs(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "list"]) == OK
    assert capsys.readouterr().out == f"no runs in {store.path}\n"
    assert main(["eval", "show"]) == BAD_INPUT
    assert f"RUN must be a run but the store {store.path} has none" in capsys.readouterr().err


def test_built_in_evaluators(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "evaluators", "list"]) == OK
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("violence ")).split()[1:8] == [
        "safety", "0", "to", "7,", "lower", "is", "better"]  # fmt: skip
    assert main(["eval", "evaluators", "show", "gpt_fluency"]) == OK
    assert "1 to 5, higher is better" in capsys.readouterr().out
    assert main(["eval", "evaluators", "list", "--json", "-"]) == OK
    found = strict(capsys.readouterr().out)
    assert found["builtin"]["gpt_fluency"]["needs"] == ["judge"] and found["saved"] == []


@pytest.mark.parametrize("task", ["qa", "chat"])
def test_the_prompt_of_a_judged_metric_is_a_prompt_file(
    task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("yaml", reason="pyyaml is not installed")
    assert main(["eval", "evaluators", "show", "gpt_groundedness", "--prompt", "--task", task]) == OK
    (tmp_path / "mine.prompty").write_text(capsys.readouterr().out, encoding="utf-8")
    made = prompt_evaluator(tmp_path / "mine.prompty")
    assert (made.name, made.low, made.high, made.task) == ("mine", 1, 5, task)


def test_versions_of_a_saved_evaluator(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("Is it polite?", "How polite is it?\nFrom 1 to 5."):
        store.evaluators.save("politeness", {"kind": "prompt", "prompt": text}, note=text[:2])

    def said(*arguments: str) -> str:
        assert main(["eval", "evaluators", *arguments]) == OK
        return capsys.readouterr().out

    assert said("list", "--saved").splitlines()[1].split()[:2] == ["politeness", "2"]
    assert said("show", "politeness").splitlines()[1:] == [
        "kind: prompt",
        "prompt:",
        "How polite is it?",
        "From 1 to 5.",
    ]
    assert "Is it polite?" in said("show", "politeness@1")
    assert said("show", "politeness@1", "--prompt") == "Is it polite?\n"
    found = strict(said("show", "politeness@1", "--json", "-"))["evaluator"]
    assert (found["version"], found["content"]["prompt"]) == (1, "Is it polite?")
    assert "-    Is it polite?" in said("diff", "politeness", "1").splitlines()
    assert said("diff", "politeness", "2") == ""
    assert said("restore", "politeness", "1").startswith("politeness version 3, ")
    assert "restore politeness undoes it" in said("delete", "politeness")
    assert said("list", "--saved") == "no evaluator is saved in the store\n"
    assert said("list", "--deleted").splitlines()[1].split()[:2] == ["politeness", "3"]
    said("restore", "politeness")
    assert said("list", "--saved").splitlines()[1].split()[:2] == ["politeness", "3"]


def test_a_finished_run_is_shown_without_numpy(store: Store) -> None:
    add_run(store)
    program = "import sys\nfrom valor_gpu.cli import main\nassert main(['eval', 'show']) == 0\n"
    program += "print({'torch', 'pandas', 'numpy', 'openai'} & set(sys.modules), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stderr == "set()\n" and "mean_f1_score" in done.stdout
