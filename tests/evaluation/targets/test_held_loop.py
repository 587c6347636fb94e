"""Coroutine functions that hold the event loop: each call has its own time and limit, and the user is told once.

Nothing here waits: a function that holds the loop sets its clock forward.
"""

from __future__ import annotations

import asyncio
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from valor_gpu import evaluate
from valor_gpu.evaluation.evaluators.custom import custom_evaluator
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets.functions import FunctionTarget
from valor_gpu.judge import CallableJudge, Question, parse_score, question_metric, run_judge
from valor_gpu.judge.held_loop import LoopUse, Steps
from valor_gpu.store import Store

ROWS = [{"question": str(number), "ground_truth": "M"} for number in range(4)]


def hold(seconds: float) -> None:
    """Sets the clock of the running loop forward, as code does that blocks it."""
    loop: Any = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds


async def holds(question: str) -> str:
    hold(1000.0)
    return f"M{question}"


async def first_holds(question: str) -> str:
    """The call of row 0 holds the loop; the others wait for it several times."""
    if question == "0":
        hold(1000.0)
    for _ in range(5):
        await asyncio.sleep(0)
    return "M"


def stored(path: Path, run: str) -> list[tuple[str, str, float]]:
    with Store(path) as store:
        return [(row.status, row.error, float(row.outputs["_seconds"])) for row in store.run(run).rows()]


def test_each_row_has_the_time_of_its_own_call(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="target holds is a coroutine function but held the event loop") as told:
        run = evaluate(data=ROWS, target=holds, metrics_list=["exact_match"], store=tmp_path / "s", timeout=5000)
    assert len(told) == 1 and re.search("make it a plain function, .* asyncio.to_thread", str(told[0].message))
    rows = stored(tmp_path / "s", run.run_id)
    assert [status for status, _, _ in rows] == ["ok"] * 4
    assert all(1000.0 <= seconds < 2000.0 for _, _, seconds in rows)


def test_a_call_that_holds_the_loop_beyond_its_limit_is_a_timeout(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="held the event loop") as told:
        run = evaluate(data=ROWS, target=holds, metrics_list=["exact_match"], store=tmp_path / "s", timeout=100)
    assert len(told) == 2 and "4 timeout, rows without an answer" in str(told[1].message)
    for status, error, seconds in stored(tmp_path / "s", run.run_id):
        assert status == "timeout" and 1000.0 <= seconds < 2000.0
        assert re.fullmatch(r"no answer within 100 s: the call held the event loop for 1(\.00)?e\+03 s", error)


def test_rows_beside_a_call_that_holds_the_loop_keep_their_limit(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="held the event loop"):
        run = evaluate(data=ROWS, target=first_holds, metrics_list=["exact_match"], store=tmp_path / "s", timeout=100)
    assert [status for status, _, _ in stored(tmp_path / "s", run.run_id)] == ["timeout", "ok", "ok", "ok"]


def test_a_plain_function_is_told_nothing(tmp_path: Path) -> None:
    def plain(question: str) -> str:
        return "M"

    async def waits(question: str) -> str:
        return await asyncio.to_thread(plain, question)

    for target in (plain, waits):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            evaluate(data=ROWS, target=target, metrics_list=["exact_match"], store=tmp_path / "s")
        assert told == []


def test_a_judge_that_holds_the_loop_is_named() -> None:
    async def slow(messages: Any) -> str:
        hold(10.0)
        return "4"

    def asked(row: int) -> Question:
        return Question([{"role": "user", "content": str(row)}], lambda text: parse_score(text, 1, 5))

    metric = question_metric("rating", asked, 1, 5)
    with pytest.warns(UserWarning, match="the judge slow is a coroutine function but held the event loop") as told:
        run = run_judge([1, 2, 3], [metric], CallableJudge(slow))
    assert run.scores("rating") == [4.0, 4.0, 4.0] and len(told) == 1


def test_an_evaluator_that_holds_the_loop_is_named_and_costs_its_own_row_alone() -> None:
    async def first(answer: str) -> float:
        if answer == "0":
            hold(10_000.0)
        for _ in range(5):
            await asyncio.sleep(0)
        return 1.0

    made = custom_evaluator(first)
    with pytest.warns(UserWarning, match="evaluator first is a coroutine function but held the event loop"):
        found = made.score_rows([{"answer": str(number)} for number in range(4)])
    assert [each.value for each in found] == [None, 1.0, 1.0, 1.0] and found[0].status == "timeout"


def test_a_cancelled_call_can_tidy_up() -> None:
    seen: list[str] = []

    async def tidies(question: str) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("tidied")
            raise
        return ""

    async def run() -> str:
        target = FunctionTarget(tidies, Secrets(), None)
        task = asyncio.ensure_future(target.answer({"question": "?"}))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError, match=r"^$"):
            await task
        return await Steps(asyncio.wait_for(ready(), 60), LoopUse(""))

    async def ready() -> str:
        return "done"

    assert asyncio.run(run()) == "done" and seen == ["cancelled", "tidied"]
