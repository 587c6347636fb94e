"""A judge on loopback that knows which metric asks, and data that stand for what the documents leave out."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.judge.server import Answer, ChatServer, Request, failure
from valor_gpu.evaluation.judged import RATINGS, judged_metric


def _beginnings() -> dict[str, str]:
    """How the prompt of each metric and task begins, up to its first field, to the metric."""
    found = {}
    for name, rating in RATINGS.items():
        for task in rating.prompts:
            prompt: Any = judged_metric(name, task=task)
            found[prompt.prompt.task.partition("{{")[0]] = name
    return found


_BEGINNINGS = _beginnings()


def metric_of(request: Request) -> str:
    """The metric whose prompt a request carries."""
    sent = "\n".join(str(message["content"]) for message in request.body["messages"])
    (name,) = {name for beginning, name in _BEGINNINGS.items() if beginning in sent}
    return name


def rating(score: float, reason: str = "as scripted") -> str:
    return json.dumps({"reason": reason, "score": score, "status": "completed"})


class ScriptedJudge(ChatServer):
    """Answers with ``score(metric, request)``; ``asked`` counts requests by metric."""

    def __init__(self, score: Callable[[str, Request], float | Answer | str]) -> None:
        super().__init__(self._respond)
        self._score = score
        self.asked: Counter[str] = Counter()

    def _respond(self, request: Request) -> Answer | str:
        try:
            name = metric_of(request)
            with self.lock:
                self.asked[name] += 1
            found = self._score(name, request)
        except Exception as error:  # a dropped connection would be asked again for minutes
            return failure(400, f"the script failed: {error!r}")
        return rating(found) if isinstance(found, (int, float)) else found

    @property
    def config(self) -> dict[str, Any]:
        """``model_config`` for a server that speaks OpenAI's protocol."""
        return {"base_url": self.url, "model": "stub", "api_key": "sk-not-used-anywhere"}

    def settle(self) -> None:
        """Waits until every request of a process that is gone has been answered into the void."""
        deadline = time.monotonic() + 120
        while self.active and time.monotonic() < deadline:
            time.sleep(0.005)
