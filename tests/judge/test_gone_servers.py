"""Servers that go away while a prompt fails: the prompt is not blamed for what the server does to all."""

from __future__ import annotations

import asyncio
import random
import socket
from collections import Counter
from typing import Any

import pytest

from tests.judge.loops import FastLoop, run
from tests.judge.server import Answer, ChatServer, Request, completion, failure
from tests.judge.test_retries import Timed
from tests.judge.test_scheduler import ask_all, question
from valor_gpu.judge import Limits, OpenAIJudge
from valor_gpu.judge.protocol import JudgeError, Judgement, Messages, Reply, Schema, Status
from valor_gpu.judge.scheduler import Scheduler

BLAME = "while the server answered others"
CRASHED = JudgeError(Status.SERVER_ERROR, "HTTP 500: crashed")
GONE = JudgeError(Status.CONNECTION_ERROR, "connection refused")
HANGS = JudgeError(Status.TIMEOUT, "no reply within 60 s")


class Uneven(Timed):
    """Takes longer and longer for the last rows, so that some are under way while a prompt is asked last."""

    async def __call__(self, messages: Messages, schema: Schema | None) -> Reply:
        self.seconds = max(1.0, int(str(messages[-1]["content"]).split()[-1]) - 30.0)
        return await super().__call__(messages, schema)


class Outage:
    """Row 3 gets two HTTP 500s; when it is asked again, the server answers nobody for some seconds."""

    def __init__(self, error: JudgeError, seconds: float) -> None:
        self.error, self.seconds, self.begun = error, seconds, -1.0
        self.asked = 0

    def __call__(self, number: int, text: str) -> Any:
        now = asyncio.get_running_loop().time()
        if text.endswith("row 3"):
            self.asked += 1
            if self.asked <= 2:
                return CRASHED
            if self.asked == 3:
                self.begun = now
        return self.error if self.begun >= 0.0 and now < self.begun + self.seconds else "4"


@pytest.mark.parametrize("error", [GONE, HANGS], ids=["refused", "hangs"])
@pytest.mark.parametrize("concurrency", [1, 4, 8])
def test_a_prompt_is_not_given_up_since_the_server_goes_away(error: JudgeError, concurrency: int) -> None:
    script = Outage(error, 90.0)
    found, _ = ask_all(Uneven(script), 50, Limits(concurrency=concurrency))
    assert script.begun > 0.0 and script.asked > 3
    assert [each.error for each in found if not each.ok] == []


@pytest.mark.parametrize("error", [GONE, HANGS], ids=["refused", "hangs"])
def test_a_server_that_stays_away_ends_the_asking_as_ever(error: JudgeError) -> None:
    script = Outage(error, 1e9)
    found, _ = ask_all(Uneven(script), 50, Limits(concurrency=8))
    failed = [each for each in found if not each.ok]
    assert found[3] in failed and script.asked == 11
    assert {each.status for each in failed} == {error.status}
    assert not any(BLAME in each.error for each in failed)


@pytest.mark.parametrize("seed", range(6))
def test_short_outages_cost_no_prompt(seed: int) -> None:
    """Connections are refused five times, for some seconds each, and every prompt crashes once."""
    rng = random.Random(seed)
    begins = sorted(rng.uniform(1.0, 120.0) for _ in range(5))
    crashed: set[str] = set()

    def script(number: int, text: str) -> Any:
        now = asyncio.get_running_loop().time()
        if any(begin <= now < begin + 9.0 for begin in begins):
            return GONE
        if text not in crashed and rng.random() < 0.2:
            crashed.add(text)
            return CRASHED
        return "4"

    found, _ = ask_all(Timed(script), 500, Limits(concurrency=4))
    assert [each.error for each in found if not each.ok] == []


@pytest.mark.parametrize("error", [GONE, HANGS], ids=["dropped", "hangs"])
def test_a_prompt_whose_connection_is_always_lost_is_given_up(error: JudgeError) -> None:
    judge = Timed(lambda number, text: error if text.endswith(" 9") else "4")
    found, _ = ask_all(judge, 100, Limits(concurrency=4))
    asked = Counter(row for _, row in judge.asked)
    assert [asked[row] for row in (9, 19, 29, 99)] == [3, 1, 1, 1]
    assert found[9].error == f"{error} (failed 3 times {BLAME})" and sum(not each.ok for each in found) == 1


def test_a_429_is_never_of_the_prompt() -> None:
    """Two crashes, then the server puts the prompt off as often as it may be sent: it is not blamed."""
    seen: Counter[str] = Counter()

    def script(number: int, text: str) -> Any:
        seen[text] += 1
        if not text.endswith(" 3"):
            return "4"
        return CRASHED if seen[text] <= 2 else JudgeError(Status.RATE_LIMITED, "HTTP 429")

    found, _ = ask_all(Timed(script), 60, Limits(concurrency=4))
    assert (found[3].attempts, found[3].error) == (11, "HTTP 429")


def test_a_server_of_chat_completions_that_dies() -> None:
    """Row 3 gets two HTTP 500s while others are answered, then the process of the server is gone, and comes back."""
    crashes: list[int] = []

    def respond(request: Request) -> Answer:
        if request.text == "row 3" and len(crashes) < 2:
            crashes.append(request.number)
            return failure(500, "crashed")
        return completion("4")

    async def main(server: ChatServer, scheduler: Scheduler) -> list[Judgement]:
        rows = [asyncio.ensure_future(scheduler.ask(question(f"row {at}"))) for at in range(40)]
        while len(crashes) < 2:
            await asyncio.sleep(0.05)
        port = server.httpd.server_address[1]
        await asyncio.to_thread(server.unlisten)
        for each in list(server.sockets):
            each.shutdown(socket.SHUT_RDWR)
        while not any("onnection" in scheduler.retries.problem for _ in rows):
            await asyncio.sleep(0.05)
        await asyncio.sleep(20.0)
        server.listen(port)
        return list(await asyncio.gather(*rows))

    with ChatServer(respond) as server:
        scheduler = Scheduler(OpenAIJudge("m", base_url=server.url), Limits(concurrency=2), seed=1)
        found = run(scheduler, lambda: main(server, scheduler), FastLoop)
        assert [each.error for each in found if not each.ok] == []
        assert scheduler.retries.sent_again["connection_error"] > 0 and len(crashes) == 2
