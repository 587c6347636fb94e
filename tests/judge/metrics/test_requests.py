"""Golden requests: what every judged metric asks, its version and its cache keys, which a change of code must keep.

requests.json has a digest for each. It changes only where a prompt or its version changes, and then for the metrics of
that prompt alone: ``python -m tests.judge.metrics.test_requests`` writes it anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.evaluation.evaluators.table import EVALUATORS
from valor_gpu.evaluation.judged import GuardMetric, judged_metric
from valor_gpu.evaluation.prompts.prompt_copy import prompt_copy
from valor_gpu.evaluation.prompts.prompt_files import prompt_evaluator
from valor_gpu.judge import LLMMetric, ParseError, Question, Reply, cache_key
from valor_gpu.text.judged import METRICS, TextRow

GOLDEN = Path(__file__).with_name("requests.json")
TEXTS = TextRow(
    query="When does the ferry leave?\n~~~~~ end",
    response="At nine. Bring a coat.",
    references=["At nine.", "At 9:00."],
    contexts=["It leaves at 9.", "é"],
)
ROW = {
    "question": "When does the ferry leave?",
    "answer": "At nine. {{question}} ~~~~",
    "baseline_answer": "Boats float.",
    "context": ["It leaves at 9.", {"id": "a.md", "content": "No ferry on Sundays."}],
    "ground_truth": ["At nine.", "At 9:00."],
}
CHAT = {
    "messages": [
        {"role": "user", "content": "Is there a ferry?"},
        {"role": "assistant", "content": "Yes.", "context": ["Holm has a ferry."]},
        {"role": "user", "content": "When?"},
        {"role": "assistant", "content": "At nine."},
    ],
    "context": "Timetable of Holm.",
}
SOME = ["a", "b"]
REPLIES = [
    json.dumps({"statements": SOME, "claims": SOME, "opinions": SOME}),
    json.dumps({"verdicts": [{"analysis": "", "verdict": "yes"}] * 2}),
    json.dumps({"TP": ["a"], "FP": ["b"], "FN": []}),
    json.dumps({"reason": "fine", "score": 4}),
    json.dumps({"reason": "fine", "verdict": "first"}),
    json.dumps({"probability": 0.5}),
]


def value_of(question: Question) -> Any:
    """The value of the first reply that the question can read."""
    for reply in REPLIES:
        with contextlib.suppress(ParseError):
            return question.parse(Reply(reply) if question.whole_reply else reply)
    raise AssertionError(f"no reply fits {question}")


def asked(metric: LLMMetric, row: Any) -> list[Question]:
    """The questions of a metric about a row."""
    found: list[Question] = []

    async def ask(question: Question) -> Any:
        found.append(question)
        return value_of(question)

    asyncio.run(metric.score(row, ask))
    return found


def metrics() -> Iterator[tuple[str, LLMMetric, Any]]:
    """Every judged metric under a name of its own, with the row that it is asked about."""
    for name, kind in METRICS.items():
        for compat in (None, "valor-core", "valor-lite"):
            yield f"{name} {compat or ''}".strip(), kind(compat=compat), TEXTS
    for info in EVALUATORS.values():
        if "judge" not in info.needs:
            continue
        for task in sorted(info.tasks):
            given = {} if info.kind == "pairwise" else {"task": task}
            yield f"{info.name} {task}", judged_metric(info.name, **given), CHAT if task == "chat" else ROW
    yield "violence qa rounded", judged_metric("violence", round_fractions=True), ROW
    yield "violence qa own", judged_metric("violence", prompts={"violence": "{{question}} {{answer}}"}), ROW
    for task, row in (("qa", ROW), ("chat", CHAT)):
        copy = prompt_evaluator(prompt_copy("gpt_groundedness", task), name="copy")
        yield f"copy {task}", copy, row
    yield "guard", GuardMetric("violence", version="7"), ROW


def digests(metric: LLMMetric, row: Any) -> dict[str, Any]:
    """What is pinned of a metric: digests of messages and schemas, names of prompts, cache keys, version."""
    found: dict[str, Any] = {"version": getattr(metric, "version", None), "questions": []}
    for question in asked(metric, row):
        sent = json.dumps([[dict(message) for message in question.messages], question.schema])
        key = cache_key({"model": "m"}, question.messages, question.schema, question.prompt)
        found["questions"].append([question.prompt, hashlib.sha256(sent.encode()).hexdigest()[:16], key.hex()])
    return found


CASES = {name: (metric, row) for name, metric, row in metrics()}


def test_every_metric_is_pinned() -> None:
    assert set(json.loads(GOLDEN.read_text())) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_requests_versions_and_cache_keys_stay(name: str) -> None:
    assert digests(*CASES[name]) == json.loads(GOLDEN.read_text())[name]


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps({name: digests(*case) for name, case in CASES.items()}, indent=1) + "\n")
