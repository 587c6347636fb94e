"""Judges that follow a script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from valor_gpu.judge import JudgeError, Limits, Reply, Status

ONE = Limits(concurrency=1, transport_retries=0)  # a scripted judge must be asked in order
ONE_NO_REPAIR = Limits(concurrency=1, transport_retries=0, repairs=0)


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
            raise JudgeError(reply, "as the script wants")
        return Reply(reply)


def texts(key: str, *values: str) -> str:
    return json.dumps({key: values})


def verdicts(*values: str) -> str:
    return json.dumps({"verdicts": [{"analysis": "because", "verdict": value} for value in values]})


def users(judge: Script) -> Sequence[str]:
    """The user message of every question."""
    return [messages[1]["content"] for messages in judge.asked]
