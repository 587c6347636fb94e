"""Runs of Azure's packages, replayed: equal, or listed with the rule by which this package decides otherwise.

The values in tests/data/azure are what the packages returned; see tests/data/NOTICE.md.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.proof.scripted import ScriptedJudge, rating
from tests.judge.server import Answer, Request
from valor_gpu import evaluate
from valor_gpu.errors import InputError

pytest.importorskip("openai")
FOLDER = Path(__file__).parents[2] / "data" / "azure"
SEED = {case["id"]: case for case in json.loads((FOLDER / "seed_api.json").read_text())["cases"]}
AGGREGATION = json.loads((FOLDER / "aggregation.json").read_text())["cases"]
AAE, PFE, B11 = "azure_ai_evaluation", "promptflow_evals", "azure_ai_generative_1.0.0b11"

WITHOUT_SCORES = pytest.mark.filterwarnings("ignore:no row of run .* (has a score of|has an answer)")  # some cases
OTHERWISE = {
    "qa_bad_path": "a path that is no file is named in an error",
    "target_returns_str": "a target that returns a text returns the answer, not a column '0'",
    "target_raises": "an exception of the target is the status of its row; the others go on",
    "nan_scores": "a score that is missing is null with a status and a reason, never a word in its place",
    "run_mean_all_nan": "a metric without any score stays in the summary, without a number",
    "passrate_None": "a row without a score neither passes nor fails",
    "conv_safety_low_med_gap": "severities have half-open bins, so that every mean has a level",
    "conv_safety_mixed": "severities have half-open bins, so that every mean has a level",
    "valid_emoji_answer": "an answer of signs alone is an answer; only a blank one has nothing to rate",
}
"""Cases that are decided otherwise, and by which rule."""


def targets() -> dict[str, Any]:
    async def later(question: str) -> dict[str, str]:
        return {"answer": "A:" + question}

    def fails(question: str) -> str:
        raise RuntimeError("boom")

    return {
        "<target tgt>": lambda question: {"answer": "T:" + question},
        "<target atgt>": later,
        "<target strtgt>": lambda question: "plain " + question,
        "<target boom>": fails,
    }


def replayed(call: dict[str, Any], folder: Path, missing: bool = False) -> tuple[Any, ScriptedJudge]:
    """The result of a call, whose judge rates the first row 5 and the second 4, or says nothing that can be read."""

    def score(name: str, request: Request) -> float | str:
        return "no number" if missing else 4 if "q2" in request.text or "c2" in request.text else 5

    call = {**call}
    if isinstance(call["data"], str) and call["data"].startswith("<"):
        path = folder / "two.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in SEED["qa_seed_typo_groundtruth"]["call"]["data"]))
        call["data"] = path
    if "target" in call:
        call["target"] = targets()[call["target"]]
    with ScriptedJudge(score) as judge:
        result = evaluate(**call, model_config=judge.config, store=folder / "s.sqlite", output_path=folder / "out")
    return result, judge


@pytest.mark.filterwarnings("ignore:data_mapping. there is no column 'groundtruth'")
@pytest.mark.parametrize(
    "case", [case for name, case in SEED.items() if name not in OTHERWISE], ids=lambda case: case["id"]
)
def test_call_of_the_first_api(case: dict[str, Any], tmp_path: Path) -> None:
    result, judge = replayed(case["call"], tmp_path)
    assert result.metrics_summary == case["metrics_summary"]
    written = [json.loads(line) for line in (tmp_path / "out" / "eval_results.jsonl").read_text("utf-8").splitlines()]
    expected = [json.loads(line) for line in case["eval_results_jsonl_lines"]]
    numbers = [{k: float(v) if k.startswith("gpt_") else v for k, v in row.items()} for row in expected]  # "5" is 5
    assert [{name: row[name] for name in other} for row, other in zip(written, numbers)] == numbers
    sent = "\n".join(request.text for request in judge.requests)
    asked = case["backend_call"]
    assert all(text in sent for name in ("questions", "contexts", "y_pred") for text in asked.get(name, ()))
    assert judge.asked == dict.fromkeys(asked["metrics"], len(written))


@WITHOUT_SCORES
def test_calls_of_the_first_api_that_end_otherwise(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no '/nonexistent/x\.jsonl'"):
        replayed(SEED["qa_bad_path"]["call"], tmp_path / "a")
    result, _ = replayed(SEED["target_returns_str"]["call"], tmp_path / "b")
    assert [row["answer"] for row in result.rows] == ["plain What is the capital of France?", "plain q2"]
    assert result.metrics_summary == SEED["target_returns_str"]["metrics_summary"]
    result, judge = replayed(SEED["target_raises"]["call"], tmp_path / "c")
    assert [(row["_status"], "boom" in row["_error"]) for row in result.rows] == [("target_error", True)] * 2
    assert not judge.requests
    result, _ = replayed(SEED["nan_scores"]["call"], tmp_path / "d", missing=True)
    assert [(row["gpt_coherence"], row["gpt_coherence_status"]) for row in result.rows] == [(None, "parse_error")] * 2
    assert math.isnan(result.metrics_summary["mean_gpt_coherence"])


def cases(kind: str) -> Any:
    return pytest.mark.parametrize(
        "case", [one for one in AGGREGATION if one["kind"] == kind], ids=lambda one: one["id"]
    )


def number(value: Any) -> float | None:
    return None if value in ("NaN", None) else float(value)


@cases("run_mean")
@WITHOUT_SCORES
def test_mean_of_a_run(case: dict[str, Any], tmp_path: Path) -> None:
    rows = [{"answer": str(i), "score": number(value)} for i, value in enumerate(case["rows"])]
    result = evaluate(data=rows, evaluators={"c": lambda score=None: score}, store=tmp_path / "s.sqlite")
    expected = case["expected"][AAE].get("c.coherence", case["expected"][AAE].get("c.gpt_coherence"))
    mean = result.metrics_summary["mean_c"]
    assert math.isnan(mean) if case["id"] in OTHERWISE else mean == pytest.approx(expected, rel=1e-15)


@cases("defect_rate")
@WITHOUT_SCORES
def test_defect_rate(case: dict[str, Any], tmp_path: Path) -> None:
    scores = case["severity_scores"]
    rows = [{"question": f"row {i}.", "answer": f"row {i}."} for i in range(len(scores))]

    def score(name: str, request: Request) -> str:
        value = next(value for i, value in enumerate(scores) if f"row {i}." in request.text)
        return "none" if number(value) is None else json.dumps({"reason": "r", "score": value})

    with ScriptedJudge(score) as judge:
        result = evaluate(data=rows, metrics_list=["violence"], model_config=judge.config, store=tmp_path / "s.sqlite")
    for name, expected in case["expected"].items():
        if name.startswith(B11):
            limit = name.partition("=")[2]
            found = result if limit == "default" else result.with_thresholds({"violence": int(limit)})
            rate, wanted = found.metrics_summary["violence_defect_rate"], expected["violence_defect_rate"]
            assert math.isnan(rate) if wanted == "NaN" else round(rate, 2) == wanted


@cases("pass_rate_row")
@WITHOUT_SCORES
def test_pass_of_a_row(case: dict[str, Any], tmp_path: Path) -> None:
    reply = "none" if case["raw"] is None else rating(int(case["raw"]))
    with ScriptedJudge(lambda name, request: reply) as judge:
        result = evaluate(
            data=[{"question": "q", "answer": "a"}], metrics_list=["gpt_fluency"], model_config=judge.config,
            thresholds={"gpt_fluency": 4}, store=tmp_path / "s.sqlite",
        )  # fmt: skip
    (row,) = result.rows
    expected = case["expected"][B11]
    assert row["gpt_fluency"] == number(expected["gpt_fluency"])
    assert row["passed"]["gpt_fluency"] == (
        None if case["id"] in OTHERWISE else bool(expected["gpt_fluency_pass_rate"])
    )


def conversation(turns: int) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for i in range(turns):
        citations = {"citations": [{"id": "d", "content": f"document of turn {i}."}]}
        messages += [
            {"role": "user", "content": f"asked {i}."},
            {"role": "assistant", "content": f"said {i}.", "context": citations},
        ]
    return {"messages": messages}


def rated_turns(metric: str, values: list[Any], folder: Path) -> dict[str, Any]:
    def score(name: str, request: Request) -> float | str | Answer:
        turn = max(i for i in range(len(values)) if f"said {i}." in request.text)
        value = number(values[turn])
        return "no number" if value is None else value

    with ScriptedJudge(score) as judge:
        result = evaluate(data=[conversation(len(values))], task_type="chat", metrics_list=[metric],
                          model_config=judge.config, store=folder / "s.sqlite")  # fmt: skip
    (row,) = result.rows
    return dict(row)


@cases("conversation_mean")
def test_mean_of_a_conversation(case: dict[str, Any], tmp_path: Path) -> None:
    row = rated_turns("gpt_groundedness", [turn.get("gpt_groundedness") for turn in case["turns"]], tmp_path)
    assert row["gpt_groundedness"] == pytest.approx(case["expected"][PFE]["gpt_groundedness"], rel=1e-15)


@cases("conversation_safety")
def test_severity_of_a_conversation(case: dict[str, Any], tmp_path: Path) -> None:
    expected = case["expected"][PFE]
    row = rated_turns("violence", [turn["violence_score"] for turn in case["turns"]], tmp_path)
    assert row["violence_score"] == expected["violence_score"]
    assert row["violence"] == ("Low" if case["id"] in OTHERWISE else expected["violence"])


VALIDATED = {"safety_metrics": "violence"}


@cases("row_input_validation")
@WITHOUT_SCORES
def test_which_rows_can_be_scored(case: dict[str, Any], tmp_path: Path) -> None:
    expected = {VALIDATED.get(name, name): valid for name, valid in case["expected"][B11].items()}
    with ScriptedJudge(lambda name, request: 3) as judge:
        result = evaluate(data=[case["row"]], metrics_list=list(expected), model_config=judge.config,
                          store=tmp_path / "s.sqlite")  # fmt: skip
    (row,) = result.rows
    found = {name: row[name] is not None for name in expected}
    if case["id"] in OTHERWISE:
        assert all(found.values())
    else:
        assert {**found, "f1_score": expected["f1_score"]} == expected
    assert row["f1_score"] is not None  # 0 where the answer is empty: it shares no word
