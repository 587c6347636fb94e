"""What tests of runs in processes share: a run of 24 rows, its judge's pace, and waiting."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from tests.judge.server import ChatServer, Request
from valor_gpu.evaluation.engine.plan import make_plan
from valor_gpu.evaluation.engine.settings import Settings
from valor_gpu.store import Run, Store, StoredDataset
from valor_gpu.web.security import Session
from valor_gpu.web.studio import Studio
from valor_gpu.web.wizard import drafts
from valor_gpu.web.wizard.uploads import keep_upload

ROWS = 24
KEY = "a-key-that-nobody-may-see"


class Pace:
    """A judge's server that answers at once, or as many requests as it may."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self._left = math.inf
        self._changed = threading.Condition()

    def allow(self, answers: float = math.inf) -> None:
        """Answers so many requests from now on, and holds the others; without a number all are answered."""
        with self._changed:
            self._left = answers
            self._changed.notify_all()

    def __call__(self, request: Request) -> str:
        with self._changed:
            self.asked[str(request.body["messages"])] += 1
            self._changed.wait_for(lambda: self._left > 0, 120)
            self._left -= 1
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


def wait(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def scores(run: Run) -> int:
    return sum(1 for _ in run.scores())


def add_upload(store: Store, uploads: Path, name: str, content: BinaryIO) -> StoredDataset:
    """A small file as Studio stores it, of a draft that is discarded."""
    studio = Studio(store, Session("token", 8765), uploads)
    draft = drafts.save(store, drafts.Draft())
    keep_upload(studio, draft, name, content)
    kept = store.views.get(drafts.KIND, draft.id) or {}
    store.views.delete(drafts.KIND, draft.id)
    return store.datasets.get(kept["data"])
