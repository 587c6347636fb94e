"""Judges that follow a script, and rows for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from valor_gpu.evaluation.evaluators.base import Outcome
from valor_gpu.evaluation.judged import RowMetric, judged_outcome
from valor_gpu.judge import JudgeError, Limits, Reply, Status, run_judge

ONE = Limits(concurrency=1, transport_retries=0)  # a scripted judge must be asked in order
ONE_NO_REPAIR = Limits(concurrency=1, transport_retries=0, repairs=0)


ROW = {
    "question": "When does the ferry leave?",
    "answer": "At nine.",
    "context": "The ferry leaves at nine.",
    "ground_truth": "It leaves at nine.",
    "baseline_answer": "Nobody knows.",
}


class Script:
    """Replies in order; keeps what it was asked. A status instead of a text is a failure."""

    identity = None

    def __init__(self, *replies: str | Status) -> None:
        self.replies = list(replies)
        self.asked: list[Any] = []
        self.schemas: list[Any] = []

    async def __call__(self, messages: Any, schema: Any) -> Reply:
        self.asked.append(messages)
        self.schemas.append(schema)
        assert len(self.asked) <= len(self.replies), messages[1]["content"]
        reply = self.replies[len(self.asked) - 1]
        if isinstance(reply, Status):
            raise JudgeError(reply, "as the script wants", max_retries=0)
        return Reply(reply)

    @property
    def users(self) -> list[str]:
        """The user message of every question."""
        return [messages[1]["content"] for messages in self.asked]


def texts(key: str, *values: str) -> str:
    return json.dumps({key: values})


def verdicts(*values: str) -> str:
    return json.dumps({"verdicts": [{"analysis": "because", "verdict": value} for value in values]})


def rating(score: Any, reason: str = "because") -> str:
    return json.dumps({"reason": reason, "score": score, "status": "skipped" if score is None else "completed"})


def outcomes(metric: RowMetric, rows: Sequence[Any], judge: Any, repairs: int = 0) -> list[Outcome]:
    """Outcomes of rows, asked one after the other."""
    run = run_judge(rows, [metric], judge, limits=Limits(concurrency=1, transport_retries=0, repairs=repairs))
    return [judged_outcome(repeats[0]) for repeats in run.judgements[metric.name]]


def outcome(metric: RowMetric, row: Any, *replies: str | Status) -> Outcome:
    """Outcome of one row."""
    return outcomes(metric, [row], Script(*replies))[0]


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def assistant(content: Any, *citations: Any, **more: Any) -> dict[str, Any]:
    context = {"context": {"citations": list(citations)}} if citations else {}
    return {"role": "assistant", "content": content, **context, **more}
