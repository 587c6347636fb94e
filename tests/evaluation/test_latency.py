"""Seconds of calls: exact percentiles, of requests that were answered, while a run goes on and when it has ended."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from valor_gpu.evaluation.engine.live import Live
from valor_gpu.evaluation.report.facts import run_facts
from valor_gpu.evaluation.results.latency import Latency
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.evaluation.run import evaluate, resume_run
from valor_gpu.judge.protocol import JudgeError, Reply, Status, Usage
from valor_gpu.report.evaluation import run_text
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.progress import progress_of
from valor_gpu.store.traces import traces_of


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


@pytest.mark.parametrize("seed", range(20))
def test_percentiles_are_those_of_numpy(seed: int) -> None:
    rng = random.Random(seed)
    for n in [*range(1, 45), 99, 100, 101, rng.randint(200, 5000)]:
        values = [rng.choice([rng.random(), round(rng.random(), 1), rng.lognormvariate(0, 2)]) for _ in range(n)]
        p50, p95 = np.percentile(values, [50, 95], method="inverted_cdf")
        assert Latency(values).summary() == {"n": n, "p50": p50, "p95": p95, "max": max(values)}


def test_what_is_no_time_counts_for_nothing() -> None:
    found = Latency()
    for each in (None, True, "1", float("nan"), float("inf"), -1.0):
        found.add(each)
    for usage in ({}, {"request_seconds": None}, {"request_seconds": 3.0}, {"request_seconds": ["a"]}):
        found.add_usage(usage)
    assert found.summary() is None
    found.add(0)
    assert found.summary() == {"n": 1, "p50": 0.0, "p95": 0.0, "max": 0.0}


class Judge:
    """Takes a moment; some replies cannot be read, and some requests fail."""

    identity = {"kind": "slow"}  # noqa: RUF012
    concurrency = 4

    def __init__(self) -> None:
        self.rng, self.fails, self.replies = random.Random(1), 0.3, 0

    async def __call__(self, messages: Any, schema: Any = None) -> Reply:
        await asyncio.sleep(self.rng.uniform(0.001, 0.02))
        if self.rng.random() < self.fails:
            raise JudgeError(Status.TIMEOUT, "no reply in time", max_retries=0)
        self.replies += 1
        return Reply("no number" if self.rng.random() < 0.2 else '{"reason": "r", "score": 4}', Usage(5, 5))


def seconds_in_traces(store: Store, run_id: str) -> list[float]:
    """Seconds of all requests with a reply, by what the traces of the scores say."""
    run = store.run(run_id)
    traces = [each for row in run.stream_rows() for each in traces_of(run, row.number) if each.evaluator]
    requests = [one for each in traces for call in each.content["calls"] for one in call["requests"]]
    return [round(each["seconds"], 6) for each in requests if "reply" in each]


def test_a_run_says_the_seconds_of_its_calls(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    plain = Live.keep_scores

    def watched(live: Live, *given: Any) -> None:
        plain(live, *given)
        seen.append(live.progress().latency)

    monkeypatch.setattr(Live, "keep_scores", watched)
    judge = Judge()
    rows = [{"question": f"q{n}"} for n in range(12)]
    given = {"data": rows, "judge": judge, "target": lambda question: {"answer": f"a {question}"}}
    how = {"cache": str(tmp_path / "cache.sqlite")}
    result = evaluate(metrics_list=["gpt_coherence", "gpt_fluency"], store=store, **how, **given)
    found = run_summary(result.run)["latency"]
    times = seconds_in_traces(store, result.run_id)
    p50, p95 = np.percentile(times, [50, 95], method="inverted_cdf")
    assert found["judge"] == {"n": judge.replies, "p50": p50, "p95": p95, "max": max(times)}
    answered = [row.outputs["_seconds"] for row in result.run.stream_rows()]
    assert found["target"] == Latency(answered).summary() and found["target"]["n"] == 12
    assert progress_of(result.run).latency == found == seen[-1]  # type: ignore[union-attr]
    counts = [(each["judge"] or {"n": 0})["n"] for each in seen]
    assert counts == sorted(counts)
    judge.fails, before = 0.0, judge.replies
    resume_run(store, result.run_id, **how, **given)
    again = run_summary(result.run)["latency"]  # with the replies of failures that were replaced
    assert again["judge"]["n"] == judge.replies > before and progress_of(result.run).latency == again  # type: ignore[union-attr]
    cached = evaluate(metrics_list=["gpt_coherence", "gpt_fluency"], store=store, **how, **given)
    n = sum(len((score.usage or {}).get("request_seconds", [])) for score in cached.run.scores())
    assert n == judge.replies - again["judge"]["n"] < 12
    latency = cached.summary["latency"]["judge"]
    assert (latency["n"] if latency else 0) == n  # replies that were known are no calls
    text = dict(run_facts(result.run, run_summary(result.run)))["Time of a call"]
    assert (
        text.startswith("judge median ")
        and " ms, 95% within " in text
        and f"of {judge.replies - n} calls; target " in text
    )
    assert f"time of a call: {text.split('; ')[0]}" in run_text(result.run, run_summary(result.run))


def test_a_run_of_an_older_version_says_that_no_times_are_kept(store: Store) -> None:
    run = store.create_run("old", {"judge": {"model": "m"}, "evaluators": []})
    run.add_rows([StoredRow(1, "a", {})])
    run.add_scores([StoredScore(1, "gpt_fluency", 0, 4.0, usage={"prompt": 1, "completion": 1}, seconds=3.0)])
    summary = run_summary(run)
    assert summary["latency"] == {"judge": None, "target": None}
    for said in (summary, {name: each for name, each in summary.items() if name != "latency"}):
        assert dict(run_facts(run, said))["Time of a call"] == "no times are kept"
