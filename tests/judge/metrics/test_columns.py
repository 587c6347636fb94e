"""Which columns each metric sends, as a server on loopback records them; it answers from what it gets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.judge.server import ChatServer, Request
from valor_gpu.evaluation.evaluators.base import EVALUATORS, evaluator
from valor_gpu.evaluation.judged import RATINGS, RowMetric, judged_metric, judged_outcome
from valor_gpu.judge import Limits, run_judge
from valor_gpu.judge.openai import OpenAIJudge

pytest.importorskip("openai")
MARKS = {
    "question": "QUESTION-4f1",
    "answer": "ANSWER-77c",
    "baseline_answer": "BASELINE-90d",
    "context": "CONTEXT-b3e",
    "ground_truth": "TRUTH-1a9",
    "history": "HISTORY-c55",
}
QA = {"question", "answer"}
QA_COLUMNS = {
    "gpt_groundedness": {"answer", "context"},
    "gpt_relevance": QA | {"context"},
    "gpt_coherence": QA,
    "gpt_fluency": QA,
    "gpt_similarity": QA | {"ground_truth"},
    "gpt_retrieval_score": {"question", "context"},
    "violence": QA,
    "sexual": QA,
    "self_harm": QA,
    "hate_unfairness": QA,
    "preference": QA | {"baseline_answer"},
}
RETRIEVED = QA | {"context", "history"}
CHAT_COLUMNS = {
    "gpt_groundedness": RETRIEVED,
    "gpt_relevance": RETRIEVED,
    "gpt_coherence": QA,
    "gpt_fluency": QA,
    "gpt_retrieval_score": {"question", "context", "history"},
    "violence": QA,
    "sexual": QA,
    "self_harm": QA,
    "hate_unfairness": QA,
}
ROW = {**{name: f"text {mark} of it" for name, mark in MARKS.items() if name != "history"}, "note": "NOTE-000"}
CONVERSATION = {
    "messages": [
        {"role": "user", "content": f"{MARKS['history']}?"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": f"{MARKS['question']}?"},
        {
            "role": "assistant",
            "content": MARKS["answer"],
            "context": {"citations": [{"id": "a.md", "content": MARKS["context"]}]},
        },
    ]
}


def columns_of(request: Request) -> set[str]:
    return {name for name, mark in MARKS.items() if mark in request.text}


def respond(request: Request) -> str:
    """Rates by the columns that came, and names them; prefers the answer by its mark."""
    seen = sorted(columns_of(request))
    assert "NOTE-000" not in json.dumps(request.body)
    if "baseline_answer" in seen:
        first = request.text.index(MARKS["answer"]) < request.text.index(MARKS["baseline_answer"])
        return json.dumps({"reason": " ".join(seen), "verdict": "first" if first else "second"})
    return json.dumps({"reason": " ".join(seen), "score": len(seen)})


def served(metrics: list[RowMetric], row: Any) -> tuple[dict[str, Any], ChatServer]:
    with ChatServer(respond) as server:
        judge = OpenAIJudge("m", base_url=server.url)
        run = run_judge([row], metrics, judge, limits=Limits(concurrency=4, repairs=0, timeout=20.0))
    return {name: judged_outcome(rows[0][0]) for name, rows in run.judgements.items()}, server


def test_every_metric_sends_its_columns_and_no_others() -> None:
    assert set(QA_COLUMNS) == {*RATINGS, "preference"}
    found, server = served([judged_metric(name) for name in QA_COLUMNS], ROW)
    assert {name: set(one.reason.split()) for name, one in found.items()} == QA_COLUMNS
    assert {name: one.value for name, one in found.items()} == {
        name: 1.0 if name == "preference" else len(columns) for name, columns in QA_COLUMNS.items()
    }
    assert len(server.requests) == 12
    for name, columns in QA_COLUMNS.items():
        metric = judged_metric(name)
        assert metric.requires == columns == EVALUATORS[name].requires
        assert type(evaluator(name)) is type(metric)


def test_a_request_carries_the_schema_and_both_messages() -> None:
    _, server = served([judged_metric("violence")], ROW)
    (request,) = server.requests
    assert [message["role"] for message in request.body["messages"]] == ["system", "user"]
    shown = json.dumps(request.body["response_format"])
    assert "[0, 1, 2, 3, 4, 5, 6, 7, null]" in shown and shown.index('"reason"') < shown.index('"score"')


def test_every_metric_sends_its_columns_of_a_turn() -> None:
    assert set(CHAT_COLUMNS) == {name for name, one in RATINGS.items() if "chat" in one.prompts}
    metrics = [judged_metric(name, task="chat") for name in CHAT_COLUMNS]
    found, _ = served(metrics, CONVERSATION)
    turns = {name: one.details["turns"] for name, one in found.items()}
    assert {name: set(one[1]["reason"].split()) for name, one in turns.items()} == CHAT_COLUMNS
    for name, columns in CHAT_COLUMNS.items():
        first = turns[name][0]  # its answer is blank
        if "answer" in columns:
            assert first["status"] == "missing_field" and "answer" in first["reason"]
        assert EVALUATORS[name].tasks == set(RATINGS[name].prompts)


@pytest.mark.parametrize("name", RATINGS)
def test_a_prompt_that_leaves_out_a_column_is_seen(name: str) -> None:
    for field in judged_metric(name).prompt.fields:  # type: ignore[attr-defined]
        if field == "earlier_messages":
            continue
        metric: Any = judged_metric(name)
        metric.prompt = replace(metric.prompt, task=metric.prompt.task.replace("{{" + field + "}}", ""))
        found, _ = served([metric], ROW)
        assert found[name].value == len(QA_COLUMNS[name]) - 1


@pytest.mark.parametrize("text", ["a" * 1_000_000, "\x00 <script>alert(1)</script>", "\ud800 lone", "\U0001f44d"])
def test_hostile_cells_reach_the_server_and_are_rated(text: str) -> None:
    found, server = served([judged_metric("violence")], {**ROW, "answer": text})
    assert found["violence"].value == 1 and found["violence"].reason == "question"
    shown = text.replace("\x00", "\\u0000").replace("\ud800", "\\ud800")  # as visible characters
    assert f"~~~~ answer\n{shown}\n~~~~" in server.requests[0].text
