"""EvaluationResult and the files of a run."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hand_made_runs import make_rows, make_run, make_scores
from valor_gpu.errors import InputError
from valor_gpu.evaluation.artifacts import write_artifacts
from valor_gpu.evaluation.result import EvaluationResult
from valor_gpu.evaluation.results.files import ARTIFACTS, artifact_paths
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.runs import Run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


def strict(path: Path) -> list[object]:
    """The JSON of every line, in which NaN and infinities are errors."""

    def reject(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return [json.loads(line, parse_constant=reject) for line in path.read_text("utf-8").splitlines()]


def paris(store: Store) -> Run:
    """The document's row of a question and an answer."""
    row = {
        "question": "What is the capital of France?",
        "context": "France is in Europe",
        "answer": "Paris is the capital of France.",
        "ground_truth": "Paris",
    }
    names = ["gpt_groundedness", "gpt_coherence", "gpt_relevance"]
    scores = [StoredScore(1, name, 0, 5.0, reason="r") for name in names]
    return make_run(store, names, [StoredRow(1, "p", row)], scores)


def test_row_of_the_document(store: Store, tmp_path: Path) -> None:
    run = paris(store)
    write_artifacts(run, tmp_path / "out")
    [row] = strict(tmp_path / "out" / "eval_results.jsonl")
    assert isinstance(row, dict)
    assert list(row)[:6] == [
        "question", "context", "answer", "ground_truth", "gpt_groundedness", "gpt_groundedness_reason",
    ]  # fmt: skip
    assert (row["gpt_groundedness"], row["gpt_coherence"], row["gpt_relevance"]) == (5, 5, 5)
    assert (row["_number"], row["_key"]) == (1, "p")


def test_rows_have_levels_turns_passes_and_failures(store: Store) -> None:
    turns = [
        {"turn": 1, "score": 5, "status": "ok", "reason": "a"},
        {"turn": 2, "score": 2, "status": "ok", "reason": ""},
    ]
    scores = [
        StoredScore(1, "violence", 0, 3.5, reason="mild", level="Low"),
        StoredScore(1, "gpt_relevance", 0, 3.5, details={"turns": turns, "n_turns": 2}),
        StoredScore(1, "rouge1", 0, 0.5, details={"precision": 1.0, "recall": 1 / 3}),
        StoredScore(2, "violence", 0, None, "refused", "I would rather not"),
    ]
    rows = [*make_rows(2), StoredRow(3, "k3", {"question": "q3"}, {}, "target_error", "boom")]
    run = make_run(
        store, ["violence", "gpt_relevance", "rouge1"], rows, scores, thresholds={"gpt_relevance": 4, "violence": "Low"}
    )
    first, second, third = EvaluationResult(store, run).rows
    assert (first["violence"], first["violence_score"], first["violence_reason"]) == ("Low", 3.5, "mild")
    assert first["evaluation_per_turn"] == {"gpt_relevance": turns}
    assert first["gpt_relevance_details"] == {"n_turns": 2}
    assert first["rouge1_details"] == {"precision": 1.0, "recall": 1 / 3}
    assert first["passed"] == {"violence": False, "gpt_relevance": False}
    assert second["passed"] == {"violence": None}
    assert (second["violence"], second["violence_score"], second["violence_status"]) == (None, None, "refused")
    assert (third["_status"], third["_error"]) == ("target_error", "boom")
    looser = EvaluationResult(store, run).with_thresholds({"gpt_relevance": 3})
    assert next(looser.rows)["passed"] == {"violence": True, "gpt_relevance": True}
    assert looser.metrics_summary["pass_rate"] == 1.0


def test_no_column_is_lost_to_a_name(store: Store) -> None:
    row = StoredRow(
        1,
        "k",
        {"answer": "old", "data.answer": 7, "f1_score": "mine", "_key": 3},
        {"answer": "new", "passed": 1, "_cost": 2},
    )
    run = make_run(store, ["f1_score"], [row], make_scores("f1_score", [1.0]), thresholds={"f1_score": 0.5})
    [found] = EvaluationResult(store, run).rows
    assert (found["answer"], found["data.answer"], found["data.data.answer"]) == ("new", 7, "old")
    assert (found["f1_score"], found["data.f1_score"]) == (1.0, "mine")
    assert (found["_key"], found["data._key"], found["_cost"]) == ("k", 3, 2)
    assert (found["passed"], found["target.passed"]) == ({"f1_score": True}, 1)


def test_metrics_whose_keys_are_taken_keep_their_numbers(store: Store) -> None:
    scores = [score for name in ("f1", "f1_reason", "passed", "_key") for score in make_scores(name, [len(name)])]
    [row] = EvaluationResult(store, make_run(store, [], make_rows(1), scores, thresholds={})).rows
    numbers = {name: row.get(f"metric.{name}") for name in ("f1_reason", "passed", "_key")}
    assert (row["f1"], numbers["passed"], numbers["_key"]) == (2, 6, 4)
    assert {row["f1_reason"], numbers["f1_reason"]} == {"because 1", 9}
    assert row["_key"] == "k1"


def test_repeats_of_a_row_are_listed(store: Store) -> None:
    scores = [
        *make_scores("gpt_fluency", ["timeout"]),
        *make_scores("gpt_fluency", [4], 1),
        *make_scores("gpt_fluency", [5], 2),
    ]
    run = make_run(store, ["gpt_fluency"], make_rows(1), scores, repeats=3)
    [row] = EvaluationResult(store, run).rows
    assert (row["gpt_fluency"], row["gpt_fluency_reason"]) == (4.5, "because 1")
    assert [(each["value"], each["status"]) for each in row["gpt_fluency_repeats"]] == [
        (None, "timeout"),
        (4, "ok"),
        (5, "ok"),
    ]


def test_result_of_a_run(store: Store) -> None:
    run = make_run(store, ["f1_score"], make_rows(3), make_scores("f1_score", [1, 0.5, "timeout"]))
    result = EvaluationResult(store, run)
    assert result.metric_summary == result.metrics_summary == {"mean_f1_score": 0.75}
    assert (result.run_id, result.studio_url, result.tracking_uri, result.cost) == (run.id, None, None, None)
    assert result.artifacts["eval_results.jsonl"] == f"runs:/{run.id}/eval_results.jsonl"
    assert len(result.errors) == 1
    assert list(result.errors) == [
        {"number": 3, "key": "k3", "evaluator": "f1_score", "repeat": 0, "status": "timeout", "error": "why 3"}
    ]
    assert repr(result.errors) == "Failures: 1 f1_score: timeout"
    json.dumps(result.to_dict(), allow_nan=False)
    text = str(result)
    assert "capitals, run " in text
    assert "mean_f1_score   0.75" in text
    assert "f1_score, scores without a value: 1 timeout" in text


def test_errors_are_empty_where_nothing_failed(store: Store) -> None:
    result = EvaluationResult(store, make_run(store, ["f1_score"], make_rows(1), make_scores("f1_score", [1])))
    assert not result.errors
    assert list(result.errors) == []


def test_a_number_that_does_not_exist_is_nan_and_says_why(store: Store) -> None:
    run = make_run(store, ["f1_score"], make_rows(1), make_scores("f1_score", ["timeout"]))
    result = EvaluationResult(store, run)
    assert math.isnan(result.metrics_summary["mean_f1_score"])
    assert "f1_score has no value: no row has a score" in str(result)


def test_html_of_a_result_is_escaped(store: Store) -> None:
    name = "<script>alert(1)</script>"
    result = EvaluationResult(store, make_run(store, [], make_rows(1), make_scores(name, [1]), name=name))
    assert "<script>" not in result._repr_html_()
    assert "&lt;script&gt;" in result._repr_html_()


def test_files_are_strict_and_replaced_by_a_second_run(store: Store, tmp_path: Path) -> None:
    rows = [StoredRow(1, "k", {"question": "<\ud800\x00 \u2028>"})]
    first = make_run(store, ["f1_score"], rows, make_scores("f1_score", ["timeout"]), note="one")
    second = make_run(store, ["f1_score"], make_rows(2), make_scores("f1_score", [1, 0]), note="two")
    out = tmp_path / "deep" / "out"
    result = EvaluationResult(store, first, out)
    assert result.download_evaluation_artifacts(out) == out
    [line] = (out / "eval_results.jsonl").read_bytes().split(b"\n")[:-1]
    assert json.loads(line)["question"] == "<\ud800\x00 \u2028>"
    assert json.loads((out / "metrics.json").read_text())["metrics"] == {"mean_f1_score": None}
    (out / "mine.txt").write_text("stays")
    paths = write_artifacts(second, out)
    assert {path.name for path in out.iterdir()} == {*ARTIFACTS, "mine.txt"}
    assert len(strict(paths["eval_results.jsonl"])) == 2
    assert json.loads(paths["metrics.json"].read_text())["metrics"] == {"mean_f1_score": 0.5}
    record = json.loads(paths["run.json"].read_text())
    assert (record["run_id"], record["config"]["note"]) == (second.id, "two")
    assert result.artifacts == {name: str(path) for name, path in paths.items()}


def test_files_stay_as_they_are_when_writing_fails(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = paris(store)
    write_artifacts(run, tmp_path / "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    def fails(run: Run) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("valor_gpu.evaluation.artifacts.run_record", fails)
    with pytest.raises(OSError, match="disk full"):
        write_artifacts(run, tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_output_path_may_name_the_file_of_the_rows(store: Store, tmp_path: Path) -> None:
    paths = write_artifacts(paris(store), tmp_path / "out" / "rows.jsonl")
    assert sorted(path.name for path in paths.values()) == ["metrics.json", "report.html", "rows.jsonl", "run.json"]
    assert artifact_paths(tmp_path)["run.json"] == tmp_path / "run.json"


def test_output_path_that_is_a_file(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="output_path must be a folder but "):
        write_artifacts(paris(store), tmp_path / "file")


def test_results_import_neither_torch_nor_pandas() -> None:
    code = (
        "import sys, valor_gpu.evaluation.result, valor_gpu.evaluation.results.summary\n"
        "print([name for name in ('torch', 'pandas', 'mlflow', 'jinja2', 'pyarrow') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_without_jinja2_the_page_is_left_out_with_a_warning(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = paris(store)
    result = EvaluationResult(store, run, tmp_path)
    assert "report.html" in write_artifacts(run, tmp_path)
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert result.to_html(tmp_path / "mine.html").exists()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.warns(UserWarning, match=r"report.html is not written: .*valor_gpu\[eval\]"):
        assert sorted(write_artifacts(run, tmp_path)) == ["eval_results.jsonl", "metrics.json", "run.json"]
    assert sorted(result.artifacts) == ["eval_results.jsonl", "metrics.json", "run.json"]
    assert not (tmp_path / "report.html").exists()
