"""What azure-ai-evaluation was seen to do, by case: this package does the same, or what its rule says."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.proof.scripted import ScriptedJudge, rating
from tests.judge.server import Answer, Request, failure
from valor_gpu import evaluate
from valor_gpu.errors import InputError

pytest.importorskip("openai")
_FILE = Path(__file__).parents[2] / "data" / "azure" / "evaluate_behaviour.json.gz"
SEEN = {case["id"]: case for case in json.loads(gzip.decompress(_FILE.read_bytes()))["cases"]}

OTHERWISE = {
    "none_query": "a row that lacks a field has no score, with the reason; it stops nothing",
    "content_filter_400": "a reply that a filter stopped is the status of its score",
    "conversation_one_bad": "a turn that cannot be read has no score; the others count",
    "evaluate_csv": "an empty cell is a missing field of its row",
    "missing_gt": "a metric whose column nothing gives is an error before the first row",
    "bad_json": "a line that is no JSON is a row with an error; a file without any other is an error with its line",
    "custom_evaluator": "** of an evaluator takes every field, whatever its name",
    "failing_row_strict": "a failing row is never the end of the others, unless on_error is 'raise'",
}
"""Cases that are decided otherwise, and by which rule; all others are equal below."""
ROW = {"query": "what is it?", "response": "an answer", "context": "a text", "ground_truth": "an answer"}
RATED = {
    "single_groundedness": "gpt_groundedness",
    "single_relevance": "gpt_relevance",
    "single_similarity": "gpt_similarity",
}


def judged(
    folder: Path, score: Any, rows: list[dict[str, Any]], *metrics: str, **more: Any
) -> tuple[Any, ScriptedJudge]:
    with ScriptedJudge(score) as judge:
        store = folder / "s.sqlite"
        result = evaluate(data=rows, metrics_list=list(metrics), model_config=judge.config, store=store, **more)
    return result, judge


def test_the_table_names_cases() -> None:
    assert OTHERWISE.keys() <= SEEN.keys()


@pytest.mark.parametrize("name", RATED)
def test_one_row(name: str, tmp_path: Path) -> None:
    result, judge = judged(tmp_path, lambda *_: 4, [ROW], RATED[name], thresholds={RATED[name]: 3})
    (row,), seen = result.rows, SEEN[name]
    metric = name.removeprefix("single_")
    assert row[RATED[name]] == seen["result"][metric]
    assert row["passed"][RATED[name]] == seen["result"][f"{metric}_passed"]
    assert len(judge.requests) == seen["n_requests"]
    sent, theirs = judge.requests[0].body, seen["first_request"]["body"]
    assert sent["temperature"] == theirs["temperature"]
    assert [one["role"] for one in sent["messages"]] == [one["role"] for one in theirs["messages"]]


def test_a_missing_question(tmp_path: Path) -> None:
    result, judge = judged(tmp_path, lambda *_: 4, [{**ROW, "query": None}, ROW], "gpt_relevance")
    first, second = result.rows
    assert first["gpt_relevance_status"] == "missing_field" and "question" in first["gpt_relevance_reason"]
    assert second["gpt_relevance"] == 4 and len(judge.requests) == 1 + SEEN["none_query"]["n_requests"]


@pytest.mark.parametrize("name", ["retry_429_after1", "retry_500"])
def test_failures_that_pass_are_asked_again(name: str, tmp_path: Path) -> None:
    first = [failure(429, "slow down", retry_after="0") if "429" in name else failure(500, "oops", retry_after="0")]

    def score(metric: str, request: Request) -> float | Answer:
        return first.pop() if first else 4

    result, judge = judged(tmp_path, score, [ROW], "gpt_coherence")
    assert result.metrics_summary == {"mean_gpt_coherence": SEEN[name]["result"]["coherence"]}
    assert len(judge.requests) == SEEN[name]["n_requests"]


def test_a_filter(tmp_path: Path) -> None:
    stop = failure(400, "filtered", code="content_filter")
    with pytest.warns(UserWarning, match="has a score of gpt_coherence; 1 content_filter"):
        result, judge = judged(tmp_path, lambda *_: stop, [ROW], "gpt_coherence")
    (row,) = result.rows
    assert row["gpt_coherence_status"] == "content_filter"
    assert len(judge.requests) == SEEN["content_filter_400"]["n_requests"]


@pytest.mark.parametrize("name", ["conversation", "conversation_one_bad"])
def test_conversation(name: str, tmp_path: Path) -> None:
    scores = SEEN["conversation"]["result"]["evaluation_per_turn"]["coherence"]
    messages = [{"role": role, "content": f"{role} {i}."} for i in range(2) for role in ("user", "assistant")]

    def score(metric: str, request: Request) -> float | str:
        last = "assistant 1." in request.text
        return "no JSON" if last and name != "conversation" else scores[last]

    result, judge = judged(tmp_path, score, [{"messages": messages}], "gpt_coherence", task_type="chat")
    (row,) = result.rows
    if name == "conversation":
        assert row["gpt_coherence"] == SEEN[name]["result"]["coherence"]
        assert len(judge.requests) == SEEN[name]["n_requests"]
    else:
        assert row["gpt_coherence"] == scores[0]


def test_rows_side_by_side(tmp_path: Path) -> None:
    seen = SEEN["evaluate_24rows"]
    rows = [{**ROW, "query": f"number {i}"} for i in range(24)]
    result, judge = judged(
        tmp_path,
        lambda *_: Answer(**{**_completion(4).__dict__, "delay": 0.05}),
        rows,
        "gpt_coherence",
        max_concurrency=10,
    )
    assert result.metrics_summary == {"mean_gpt_coherence": seen["result"]["metrics"]["coh.coherence"]}
    assert len(judge.requests) == seen["n_requests"] and judge.peak <= seen["peak_concurrency"]


def _completion(score: float) -> Answer:
    from tests.judge.server import completion

    return completion(rating(score))


def test_csv_and_missing_cells(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('response,ground_truth,n\n42,42,007\n,x,1.0\n"a,b",a b,\n')
    result = evaluate(data=tmp_path / "rows.csv", metrics_list=["f1_score"], store=tmp_path / "s.sqlite")
    seen = SEEN["evaluate_csv"]["result"]["rows"]
    for row, theirs in zip(result.rows, seen, strict=True):
        assert (row["n"] or "NaN") == theirs["inputs.n"]
        f1 = theirs["outputs.f1.f1_score"]
        assert row["f1_score"] == (None if f1 == "NaN" else f1)
    assert [row.get("f1_score_status") for row in result.rows] == [None, "missing_field", None]


@pytest.mark.parametrize(
    ("data", "message"),
    [('{"response": "x"}\n', "ground_truth"), ('{"response": }\n', "line 1"), ("", "at least one row")],
    ids=["missing_gt", "bad_json", "empty_file"],
)
def test_data_that_cannot_be(data: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(data)
    with pytest.raises(InputError, match=message):
        evaluate(data=tmp_path / "rows.jsonl", metrics_list=["f1_score"], store=tmp_path / "s.sqlite")


def test_targets_and_references(tmp_path: Path) -> None:
    def answer(query: str) -> dict[str, Any]:
        return {"response": "answer 1", "extra": 2}

    rows = [{"query": f"q{i}", "ground_truth": "answer 1"} for i in range(2)]
    store = tmp_path / "s.sqlite"
    result = evaluate(data=rows, target=answer, metrics_list=["f1_score"], store=store)
    seen = SEEN["target_auto_mapping"]["result"]
    assert [(row["response"], row["extra"], row["f1_score"]) for row in result.rows] == [
        (row["outputs.response"], row["outputs.extra"], row["outputs.f1.f1_score"]) for row in seen["rows"]
    ]
    with pytest.raises(InputError, match="zz"):
        evaluate(data=rows, target=lambda zz: "x", metrics_list=["f1_score"], store=store)
    with pytest.raises(InputError, match="foo"):
        evaluate(
            data=rows, target=answer, metrics_list=["f1_score"], store=store, data_mapping={"answer": "${foo.bar}"}
        )


def test_evaluators_of_the_user(tmp_path: Path) -> None:
    rows = [{"query": f"q{i}", "response": f"answer {i}", "ground_truth": "answer 1", "context": "c"} for i in range(3)]

    def fails(query: str) -> float:
        if query == "q1":
            raise ValueError("row fails")
        return 1.0

    evaluators = {"l": lambda response: len(response), "every": lambda **kw: len(kw["answer"]), "fails": fails}
    result = evaluate(data=rows, evaluators=evaluators, store=tmp_path / "s.sqlite")
    assert result.metrics_summary["mean_l"] == SEEN["custom_scalar_evaluator"]["result"]["metrics"]["l.output"]
    assert result.metrics_summary["mean_every"] == 8
    assert result.metrics_summary["mean_fails"] == SEEN["failing_row"]["result"]["metrics"]["fails.ok"]
    seen = [row["outputs.fails.ok"] for row in SEEN["failing_row"]["result"]["rows"]]
    assert [math.nan if row["fails"] is None else row["fails"] for row in result.rows] == pytest.approx(
        [math.nan if value == "NaN" else value for value in seen], nan_ok=True
    )
    assert [row.get("fails_reason") for row in result.rows][1] == "ValueError: row fails"
