"""A run is killed at random moments and resumed: nothing is lost, and nothing that is stored is asked again."""

from __future__ import annotations

import json
import math
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.proof.scripted import ScriptedJudge, metric_of
from tests.fuzz import seeds
from tests.judge.server import Answer, Request
from valor_gpu.evaluation.resume import resume_run
from valor_gpu.store import Store

pytest.importorskip("openai")
ROWS, AT_ONCE, METRICS = 30, 6, ("gpt_coherence", "gpt_fluency")
BEGIN = """
import sys
from valor_gpu import evaluate
folder, url, cache = sys.argv[1:]
evaluate(
    data=folder + "/rows.jsonl", target={"url": url + "/answer"},
    metrics_list=["gpt_coherence", "gpt_fluency", "f1_score"],
    model_config={"base_url": url + "/v1", "model": "stub", "api_key_env": "KEY_OF_THE_KILLED"},
    max_concurrency=6, store=folder + "/store.sqlite", cache=cache or None, evaluation_name="killed",
)
"""
RESUME = """
import sys
from valor_gpu.evaluation.resume import resume_run
resume_run(sys.argv[1] + "/store.sqlite", "killed")
"""


class Served(ScriptedJudge):
    """Judge and target on one address; answers after a moment that differs from request to request."""

    def __init__(self, seed: int) -> None:
        super().__init__(lambda name, request: 1 + self.row_of(request) % 5)
        self._random = random.Random(seed)
        self.free, self.go = math.inf, threading.Event()  # requests that are answered before the others are let go

    @staticmethod
    def row_of(request: Request) -> int:
        return int(re.findall(r"number (\d+)\b", json.dumps(request.body))[0])

    def _respond(self, request: Request) -> Answer | str:
        if request.number >= self.free:
            self.go.wait(120)
        time.sleep(self._random.random() * 0.02)
        if request.path == "/answer":
            return Answer(body={"answer": f"said of number {self.row_of(request)}"})
        return super()._respond(request)

    def counts(self) -> Counter[tuple[str, int]]:
        """Requests by metric, or ``target``, and row."""
        with self.lock:
            asked = list(self.requests)
        return Counter(("target" if one.path == "/answer" else metric_of(one), self.row_of(one) + 1) for one in asked)


def stored(path: Path) -> set[tuple[str, int]]:
    """Answers and scores that are safe."""
    with Store(path) as store:
        run = store.run("killed")
        answers = {("target", row.number) for row in run.stream_rows() if row.status == "ok"}
        return answers | {(score.evaluator, score.row) for score in run.scores() if score.value is not None}


def killed(program: str, arguments: list[str], server: Served, requests: int) -> bool:
    """Starts a process and kills it when so many more requests have come; whether it was still running."""
    before, deadline = len(server.requests), time.monotonic() + 120
    server.free = before + requests
    server.go.clear()
    environment = {**os.environ, "KEY_OF_THE_KILLED": "sk-of-the-killed"}
    with subprocess.Popen([sys.executable, "-c", program, *arguments], env=environment) as process:
        while len(server.requests) < before + requests and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        process.kill()
        ended = process.wait()
    server.free = math.inf
    server.go.set()
    return ended == -9


@pytest.mark.slow
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("seed", seeds(1))
def test_killed_run_is_resumed(seed: int, cached: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"{seed} {cached}")
    rows = [{"question": f"What is number {i}?", "ground_truth": f"number {i}"} for i in range(ROWS)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    cache = str(tmp_path / "cache.sqlite") if cached else ""
    safe: list[tuple[set[tuple[str, int]], Counter[tuple[str, int]]]] = []
    with Served(seed) as server:
        programs = [(BEGIN, [str(tmp_path), server.root, cache]), (RESUME, [str(tmp_path)])]
        for program, arguments in programs if cached else programs[:1]:
            assert killed(program, arguments, server, rng.randint(8, 40))
            server.settle()
            safe.append((stored(tmp_path / "store.sqlite"), server.counts()))
        monkeypatch.setenv("KEY_OF_THE_KILLED", "sk-of-the-killed")
        result = resume_run(tmp_path / "store.sqlite", "killed")
        counts = server.counts()
    wanted = {(name, row) for name in ("target", *METRICS) for row in range(1, ROWS + 1)}
    assert counts.keys() == wanted
    for kept, before in safe:  # what was stored then has not been asked for since
        assert {key: counts[key] for key in kept if key in wanted} == {
            key: before[key] for key in kept if key in wanted
        }
    again = {
        name: sum(n - 1 for (which, _), n in counts.items() if (which == "target") == name) for name in (True, False)
    }
    assert all(repeated <= len(safe) * AT_ONCE for repeated in again.values()), again  # of the target, and of the judge
    check_result(result)


def check_result(result: Any) -> None:
    assert result.state == "finished"
    means = result.metrics_summary
    assert means["mean_gpt_coherence"] == means["mean_gpt_fluency"] == 3.0
    found = list(result.rows)
    assert len(found) == ROWS
    assert all(
        row["answer"] == f"said of number {i}" and row["gpt_fluency"] == 1 + i % 5 for i, row in enumerate(found)
    )
