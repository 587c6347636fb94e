"""What failures cost stays paid when another try replaces them: recounted by the judge's own ledger."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from valor_gpu.evaluation.artifacts import REPORT, write_artifacts
from valor_gpu.evaluation.engine.tries import end_killed_try
from valor_gpu.evaluation.report.facts import run_facts
from valor_gpu.evaluation.results.summary import run_summary
from valor_gpu.evaluation.run import evaluate, rescore_run, resume_run
from valor_gpu.judge.protocol import JudgeError, Reply, Status, Usage
from valor_gpu.judge.statistics import Prices
from valor_gpu.store import Store, StoredRow, StoredScore
from valor_gpu.store.progress import progress_of
from valor_gpu.store.replaced import replaced_usage

PRICES = {"prompt": 1000.0, "completion": 4000.0, "currency": "EUR"}
ROWS = [{"question": f"q{n}", "answer": f"a{n}"} for n in range(12)]
BAD = "no number here"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store.sqlite") as opened:
        yield opened


class Judge:
    """Gives replies that cannot be read, which are paid, and then fails; keeps a ledger of what it was paid for."""

    identity = None
    concurrency = 3

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.prompt = self.completion = self.requests = 0
        self.fails = 0.6

    async def __call__(self, messages: Any, schema: Any = None) -> Reply:
        self.requests += 1
        is_repair = len(messages) > 1 and messages[-2].get("content") == BAD
        if is_repair and self.rng.random() < self.fails:
            raise JudgeError(Status.SERVER_ERROR, "HTTP 500", max_retries=0)
        usage = Usage(self.rng.randint(1, 90), self.rng.randint(1, 9))
        self.prompt += usage.prompt
        self.completion += usage.completion
        is_bad = not is_repair and self.rng.random() < self.fails
        return Reply(BAD if is_bad else json.dumps({"reason": "r", "score": 4}), usage)

    @property
    def cost(self) -> float:
        return Prices(**PRICES).cost(Usage(self.prompt, self.completion))  # type: ignore[arg-type]


def equals_ledger(store: Store, run_id: str, judge: Judge) -> dict[str, Any]:
    """Compares the summary, the progress and the parts of both with the ledger."""
    run = store.run(run_id)
    found, progress = run_summary(run), progress_of(run)
    assert progress is not None
    used = found["usage"]["judge"]
    assert (used["prompt"], used["completion"]) == (judge.prompt, judge.completion)
    assert found["cost"] == pytest.approx(judge.cost, rel=1e-12)
    assert progress.cost == pytest.approx(judge.cost, rel=1e-12)
    assert (progress.tokens["prompt"], progress.tokens["completion"]) == (judge.prompt, judge.completion)
    assert progress.attempts == judge.requests and progress.replaced == found["replaced"]
    kept = [score.usage or {} for score in run.scores()]
    for name in ("prompt", "completion"):
        assert sum(each.get(name, 0) for each in kept) + found["replaced"]["usage"][name] == used[name]
    assert sum(each.get("attempts", 0) for each in kept) + found["replaced"]["attempts"] == judge.requests
    assert run.finished_summary is not None and run.finished_summary["replaced"] == found["replaced"]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_every_try_is_counted_once(store: Store, seed: int) -> None:
    judge = Judge(seed)
    given = {"data": ROWS, "judge": judge}
    run_id = evaluate(metrics_list=["gpt_coherence", "gpt_fluency"], prices=PRICES, store=store, **given).run_id
    before = equals_ledger(store, run_id, judge)
    assert before["replaced"]["n"] == 0 and before["replaced"]["cost"] is None
    failed = sum(sum(each["n_failed"].values()) for each in before["evaluators"].values())
    assert failed
    for fails in (0.6, 0.4, 0.0):
        judge.fails = fails
        resume_run(store, run_id, **given)
        found = equals_ledger(store, run_id, judge)
        assert found["cost"] >= before["cost"] and found["replaced"]["n"] >= before["replaced"]["n"] + failed
        before, failed = found, sum(sum(each["n_failed"].values()) for each in found["evaluators"].values())
    assert failed == 0 and before["replaced"]["cost"] > 0.0
    rescore_run(store, run_id, ["violence"], judge=judge)
    assert equals_ledger(store, run_id, judge)["replaced"] == before["replaced"]


def test_max_cost_counts_what_was_replaced(store: Store) -> None:
    judge = Judge(1)
    given = {"data": ROWS, "judge": judge}
    run_id = evaluate(metrics_list=["gpt_coherence"], prices=PRICES, store=store, **given).run_id
    resume_run(store, run_id, **given)
    spent = judge.cost
    kept = sum(Prices(**PRICES).cost(Usage(each.usage["prompt"], each.usage["completion"]))  # type: ignore[arg-type]
               for each in store.run(run_id).scores() if each.usage)  # fmt: skip
    assert kept < spent
    before = judge.requests
    with pytest.warns(UserWarning, match="max_cost"):
        resume_run(store, run_id, max_cost=(kept + spent) / 2, **given)
    assert judge.requests == before


_CHILD = """
import asyncio, json, os, random, sys
from valor_gpu.evaluation.resume import resume_run
from valor_gpu import evaluate
from valor_gpu.judge.protocol import JudgeError, Reply, Status, Usage

folder, seed, most, fails, rows, prices = json.loads(sys.argv[1])
rng, calls, amid = random.Random(f"{seed} {most}"), 0, set()

class Judge:
    identity, concurrency = None, 1
    async def __call__(self, messages, schema=None):
        global calls
        is_repair = len(messages) > 1 and messages[-2].get("content") == "no number here"
        text = json.dumps(messages[:-2] if is_repair else messages)
        calls += 1
        if calls > most and not amid:
            await asyncio.sleep(0.2)  # what was paid before is stored by now
            os._exit(9)  # the reply was not given, and is not paid
        if is_repair and rng.random() < fails:
            amid.discard(text)
            raise JudgeError(Status.SERVER_ERROR, "HTTP 500", max_retries=0)
        used = [rng.randint(1, 90), rng.randint(1, 9)]
        with open(folder + "/ledger", "a") as ledger:
            ledger.write(json.dumps(used) + "\\n")
        bad = not is_repair and rng.random() < fails
        (amid.add if bad else amid.discard)(text)
        return Reply("no number here" if bad else '{"reason": "r", "score": 4}', Usage(*used))

given = {"data": rows, "judge": Judge(), "max_concurrency": 1}
if os.path.exists(folder + "/ledger"):
    resume_run(folder + "/store.sqlite", "killed", **given)
else:
    evaluate(metrics_list=["gpt_coherence"], prices=prices, store=folder + "/store.sqlite",
             evaluation_name="killed", **given)
"""


@pytest.mark.parametrize("seed", range(2))
def test_kills_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    """Processes end between two judgements, amid a run and amid tries of its failures."""
    rng = random.Random(seed)
    limits = [rng.randint(3, 9) for _ in range(3)]
    for most, fails in [*((limit, 0.5) for limit in limits), (10_000, 0.5), (10_000, 0.0)]:
        given = json.dumps([str(tmp_path), seed, most, fails, ROWS, PRICES])
        ended = subprocess.run([sys.executable, "-c", _CHILD, given], env={**os.environ}, check=False)
        assert ended.returncode in ((0, 9) if most < 10_000 else (0,))
        paid = [json.loads(line) for line in (tmp_path / "ledger").read_text().splitlines()]
        with Store(tmp_path / "store.sqlite") as store:
            run = store.run("killed")
            end_killed_try(run)
            used = run_summary(run)["usage"]["judge"]
            assert (used["prompt"], used["completion"]) == (sum(p for p, _ in paid), sum(c for _, c in paid))
            replaced = run_summary(run)["replaced"]
    assert replaced["n"] and replaced["usage"]["prompt"]


def test_it_is_said_where_costs_are_shown(store: Store, tmp_path: Path) -> None:
    run = store.create_run("paid", {"prices": PRICES})
    run.add_rows([StoredRow(1, "a", {}), StoredRow(2, "b", {}, {"_cost": 2.0, "_seconds": 1.0}, "target_error", "no")])
    failed = {"prompt": 100, "completion": 10, "cached": 0, "attempts": 3}
    run.add_scores([StoredScore(1, "gpt_fluency", 0, None, "timeout", "late", usage=failed)])
    run.add_scores([StoredScore(1, "gpt_fluency", 0, 4.0, usage={"prompt": 50, "completion": 5, "attempts": 1})])
    run.add_rows([StoredRow(2, "b", {}, {"_cost": 1.0})])
    run.add_rows([StoredRow(2, "b", {}, {"_cost": 7.0})])  # a row with an answer stays
    summary = run_summary(run)
    assert summary["replaced"] == {
        "n": 2, "attempts": 3, "usage": {"prompt": 100, "completion": 10, "cached": 0, "total": 110},
        "cost": 0.14 + 2.0, "costs": {"judge": 0.14, "target": 2.0},
    }  # fmt: skip
    assert summary["costs"] == {"judge": pytest.approx(0.21), "target": 2.0}  # without a target rows are not read
    facts = dict(run_facts(run, summary))
    expected = "2.21 EUR: 0.07 EUR for what is kept, 2.14 EUR for 2 failed attempts that were replaced"
    assert facts["Tokens, cost"].endswith(expected)
    run.finish("finished", {**summary, "seconds": 1.0})
    files = write_artifacts(run, tmp_path / "out", summary=run.finished_summary)
    assert "2 failed attempts that were replaced" in files[REPORT].read_text()


def test_scores_of_a_replaced_answer_stay_paid(store: Store) -> None:
    run = store.create_run("rows", {})
    run.add_rows([StoredRow(1, "a", {}, {}, "target_error", "no")])
    run.add_scores([StoredScore(1, "gpt_fluency", 0, 4.0, usage={"prompt": 50}), StoredScore(1, "f1_score", 0, 1.0)])
    run.add_rows([StoredRow(1, "a", {}, {"answer": "yes"})])
    assert list(run.scores()) == []
    assert [(each.evaluator, each.usage) for each in replaced_usage(run)] == [("gpt_fluency", {"prompt": 50})]
    run.delete()
    store.purge(0.0)
    with sqlite3.connect(store.path) as raw:
        assert raw.execute("SELECT count(*) FROM replaced").fetchone() == (0,)
    raw.close()
