"""What tests of runs in processes share: a run of 24 rows, its judge's pace, and waiting."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.judge.server import ChatServer, Request
from valor_gpu.evaluation.engine.plan import make_plan
from valor_gpu.evaluation.engine.settings import Settings
from valor_gpu.store import Run, Store

ROWS = 24
KEY = "a-key-that-nobody-may-see"


class Pace:
    """A judge's server that answers at once, or waits until it may."""

    def __init__(self) -> None:
        self.delay = 0.0
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Request) -> str:
        self.asked[str(request.body["messages"])] += 1
        time.sleep(self.delay)
        return '{"reason": "It is so.", "score": 4}'


def add_run(path: Path, server: ChatServer) -> str:
    judge = {"model": "stub", "base_url": server.url, "api_key_env": "STUDIO_TEST_KEY"}
    settings = Settings(
        evaluation_name="numbers", data=str(path.parent / "rows.csv"), metrics_list=["gpt_coherence"],
        model_config=judge, max_concurrency=2,
    )  # fmt: skip
    with Store(path) as store:
        config = make_plan(settings, store).config
        return store.create_run("numbers", config.to_dict(), None, config.data["hash"]).id


def wait(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def scores(run: Run) -> int:
    return sum(1 for _ in run.scores())
