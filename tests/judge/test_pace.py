"""Pace at a real server: Retry-After is a lower bound for everybody, and token estimates learn."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.judge.loops import VirtualLoop
from tests.judge.server import Answer, ChatServer, Request, failure
from tests.judge.test_scheduler import Scripted, ask_all, question
from tests.judge.watched import Watched
from valor_gpu.judge import (
    JudgeError,
    Limits,
    OpenAIJudge,
    Question,
    Reply,
    Scheduler,
    Status,
    Usage,
    question_metric,
    run_judge,
)
from valor_gpu.judge.limits import Gate, TokenEstimate

RATE = question_metric("q", lambda row: Question([{"role": "user", "content": f"row {row}"}], float), 1, 5)


class Overloaded:
    """Answers 429 to the request number ``at`` and keeps when that answer went out; counts later arrivals."""

    def __init__(self, at: int, seconds: float, header: str | None = None, delay: float = 0.0) -> None:
        self.at, self.seconds, self.delay = at, seconds, delay
        self.header = f"{seconds:g}" if header is None else header
        self.sent = 0.0

    def __call__(self, request: Request) -> Answer | str:
        if request.number == self.at:
            time.sleep(self.delay)
            self.sent = time.monotonic()
            return failure(429, "slow down", retry_after=self.header)
        return "4"

    def early(self, server: ChatServer) -> list[float]:
        """Seconds after the 429 at which requests came although it asked to wait."""
        after = [request.time - self.sent for request in server.requests if request.number > self.at]
        return [round(seconds, 3) for seconds in after if seconds < self.seconds]


@pytest.mark.parametrize("at", [0, 20], ids=["first request", "in the middle"])
def test_nothing_is_sent_once_a_429_has_been_read(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[float] = []
    shut = Gate.shut

    def watched(gate: Gate, seconds: float) -> None:
        read.append(time.monotonic())
        shut(gate, seconds)

    monkeypatch.setattr(Gate, "shut", watched)
    overloaded = Overloaded(at, 1.0)
    with ChatServer(overloaded) as server:
        judge = Watched(server.url)
        found = run_judge(range(60), [RATE], judge)
    assert found.scores("q") == [4.0] * 60 and found.summaries["q"].attempts == 61 and len(read) == 1
    assert not [call for call in judge.calls if read[0] < call < read[0] + 1.0]


def test_requests_that_wait_for_their_minute_look_at_the_gate_again() -> None:
    number = 0

    def script(at: int, text: str) -> Any:
        return JudgeError(Status.RATE_LIMITED, "slow", 90.0) if at == 4 else "4"

    judge = Scripted(script, seconds=1.0)
    found, _ = ask_all(judge, 20, Limits(concurrency=8, requests_per_minute=5))
    assert all(one.ok for one in found) and number == 0
    first = judge.starts[5]
    assert first >= judge.starts[4] + 1.0 + 90.0  # not after the 60 seconds that the limit alone would ask for
    for at in range(5, len(judge.starts)):  # and no more than 5 in any minute after the gate opened
        assert judge.starts[at] - judge.starts[at - 5] >= 60.0 or at < 10


def test_requests_that_wait_for_the_first_reply_see_what_it_says() -> None:
    class Probing(Scripted):
        """Lets the first request go alone, and the others in the moment that its reply is there."""

        begun = False
        answered: asyncio.Event

        async def ready(self) -> None:
            if self.begun:
                await self.answered.wait()
            else:
                self.begun, self.answered = True, asyncio.Event()

        async def __call__(self, messages: Any, schema: Any) -> Reply:
            try:
                return await super().__call__(messages, schema)
            finally:
                self.answered.set()

    judge = Probing(lambda at, text: JudgeError(Status.RATE_LIMITED, "slow", 30.0) if at == 0 else "4")
    found, _ = ask_all(judge, 20, Limits(concurrency=8))
    assert all(one.ok for one in found) and min(judge.starts[1:]) >= 31.0


@pytest.mark.parametrize("header", ["0", "Wed, 21 Oct 2015 07:28:00 GMT", None])
def test_a_header_that_asks_for_nothing_leaves_the_own_backoff(header: str | None) -> None:
    begun: list[float] = []

    def respond(request: Request) -> Answer | str:
        begun.append(request.time)
        if request.time - begun[0] < 0.5:
            return failure(429, "slow down", **({} if header is None else {"retry_after": header}))
        return "4"

    with ChatServer(respond) as server:
        judge = OpenAIJudge("m", base_url=server.url)
        found = run_judge(range(10), [RATE], judge, limits=Limits(backoff=0.17), seed=1)
    assert found.scores("q") == [4.0] * 10 and found.summaries["q"].attempts < 80


def test_waits_are_the_greater_of_header_and_backoff() -> None:
    import random

    limits, rng = Limits(backoff=8.0), random.Random(1)
    short = JudgeError(Status.RATE_LIMITED, "x", 0.5)
    waits = [limits.wait_before(3, short, rng) or 0.0 for _ in range(500)]
    assert min(waits) >= 0.5 and 25.0 < max(waits) <= 32.0
    long = JudgeError(Status.RATE_LIMITED, "x", 100.0)
    waits = [limits.wait_before(3, long, rng) or 0.0 for _ in range(500)]
    assert min(waits) >= 100.0 and max(waits) <= 125.0
    for odd in (0.0, -5.0, float("nan")):
        assert JudgeError(Status.RATE_LIMITED, "x", odd).retry_after is None
    assert limits.wait_before(1, JudgeError(Status.RATE_LIMITED, "x", float("inf")), rng) is None
    assert limits.wait_before(1, JudgeError(Status.SERVER_ERROR, "x", shared_cause="x"), rng) is None


def test_a_stopped_run_waits_for_nothing() -> None:
    def script(at: int, text: str) -> Any:
        return JudgeError(Status.UNAUTHORIZED, "no key") if at == 3 else JudgeError(Status.RATE_LIMITED, "slow", 300.0)

    async def main() -> float:
        scheduler = Scheduler(judge, Limits(concurrency=4))
        async with scheduler:
            begun = asyncio.get_running_loop().time()
            found = await asyncio.gather(*(scheduler.ask(question(f"{at}")) for at in range(20)))
            assert {one.status for one in found} <= {Status.UNAUTHORIZED, Status.RATE_LIMITED}
            assert sum(one.status is Status.UNAUTHORIZED for one in found) >= 17
            return asyncio.get_running_loop().time() - begun

    judge = Scripted(script, seconds=0.01)
    loop = VirtualLoop()
    assert loop.run_until_complete(main()) < 5.0
    loop.close()


def tokens_by_minute(judge: Scripted, tokens: int) -> int:
    """Most tokens of any 60 seconds."""
    return max(sum(start <= other < start + 60.0 for other in judge.starts) for start in judge.starts) * tokens


def test_the_estimate_of_tokens_learns_from_usage() -> None:
    judge = Scripted(lambda at, text: Reply("4", Usage(95, 5)), seconds=0.5)
    ask_all(judge, 60, Limits(concurrency=4, tokens_per_minute=1000))
    # Texts of six characters that take 95 tokens: only those in flight before the first reply are underestimated.
    assert tokens_by_minute(judge, 100) <= 1000 + 4 * 100
    estimate = TokenEstimate()
    for _ in range(20):
        estimate.learn(6, Usage(95, 5))
    assert 90 < estimate.of(6) < 140 and estimate.of(12) > 180


@pytest.mark.parametrize("usage", [Usage(10, 10**308), Usage(10**12, 5), Usage(-5, 5), Usage(10, 10**7)], ids=repr)
def test_one_absurd_usage_stalls_nothing(usage: Usage) -> None:
    judge = Scripted(lambda at, text: Reply("4", usage if at == 1 else Usage(10, 5)), seconds=0.5)
    _, seconds = ask_all(judge, 20, Limits(concurrency=1, tokens_per_minute=100_000))
    assert seconds == 10.0
    assert TokenEstimate().learn(10, usage) is None
