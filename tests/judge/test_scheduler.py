"""The scheduler with clocks of its own: limits, waits, retries, repair, the cache, cancellation."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.judge.loops import VirtualLoop, run, run_all
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.cache import JudgeCache
from valor_gpu.judge.limits import Gate, Limits
from valor_gpu.judge.metric import Question
from valor_gpu.judge.protocol import JudgeError, Judgement, Messages, Reply, Schema, Status, Usage
from valor_gpu.judge.scheduler import Scheduler


def question(text: str = "?", parse: Callable[[str], Any] = int) -> Question:
    return Question([{"role": "user", "content": text}], parse)


class Scripted:
    """A judge that takes ``seconds`` and then does what ``script(number, text)`` says: a Reply, text or an error."""

    identity = MappingProxyType({"kind": "scripted"})

    def __init__(self, script: Callable[[int, str], Any], seconds: float = 1.0) -> None:
        self.script, self.seconds = script, seconds
        self.starts: list[float] = []
        self.active = self.peak = 0

    async def __call__(self, messages: Messages, schema: Schema | None) -> Reply:
        number = len(self.starts)
        self.starts.append(asyncio.get_running_loop().time())
        self.active += 1
        self.peak = max(self.peak, self.active)
        try:
            await asyncio.sleep(self.seconds)
            found = self.script(number, str(messages[-1]["content"]))
        finally:
            self.active -= 1
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, Reply) else Reply(found, Usage(10, 10))


def ask_all(judge: Scripted, count: int, limits: Limits, **options: Any) -> tuple[list[Judgement], float]:
    scheduler = Scheduler(judge, limits, seed=1, **options)
    found: dict[int, Judgement] = {}

    async def one(at: int) -> None:
        found[at] = await scheduler.ask(question(f"row {at}"))

    seconds = run_all(scheduler, [lambda at=at: one(at) for at in range(count)], VirtualLoop)  # type: ignore[misc]
    return [found[at] for at in range(count)], seconds


def errors(status: Status, times: int, **options: Any) -> Callable[[int, str], Any]:
    return lambda number, text: JudgeError(status, "no", **options) if number < times else "4"


@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_concurrency_is_used_and_never_exceeded(concurrency: int) -> None:
    judge = Scripted(lambda number, text: "4")
    found, seconds = ask_all(judge, 24, Limits(concurrency=concurrency))
    assert judge.peak == concurrency and seconds == 24 / concurrency
    assert all(one.value == 4 and one.attempts == 1 and one.usage == Usage(10, 10) for one in found)


def test_requests_per_minute_hold_in_every_window() -> None:
    judge = Scripted(lambda number, text: "4", seconds=0.5)
    _, seconds = ask_all(judge, 35, Limits(concurrency=8, requests_per_minute=10))
    for start in judge.starts:
        assert sum(start <= other < start + 60.0 for other in judge.starts) <= 10
    assert 180.0 <= seconds < 182.0  # four windows of ten, ten, ten, five: no more waiting than needed


def test_tokens_per_minute_follow_what_replies_used() -> None:
    judge = Scripted(lambda number, text: Reply("4", Usage(60, 40)), seconds=0.5)
    _, seconds = ask_all(judge, 40, Limits(concurrency=2, tokens_per_minute=1000))
    for start in judge.starts:
        assert 100 * sum(start <= other < start + 60.0 for other in judge.starts) <= 1000
    assert 180.0 <= seconds < 310.0
    greater, _ = ask_all(Scripted(lambda number, text: "4"), 2, Limits(tokens_per_minute=1))
    assert all(one.ok for one in greater)  # one at a time, but not never


@pytest.mark.parametrize("status", [Status.RATE_LIMITED, Status.SERVER_ERROR, Status.TIMEOUT, Status.CONNECTION_ERROR])
def test_passing_failures_are_retried_with_growing_waits(status: Status) -> None:
    judge = Scripted(errors(status, 8), seconds=0.0)
    (found,), _ = ask_all(judge, 1, Limits(backoff=2.0))
    assert found.ok and found.attempts == 9
    waits = [after - before for before, after in zip(judge.starts, judge.starts[1:])]
    assert all(0 <= wait <= min(60.0, 2.0 * 2**at) for at, wait in enumerate(waits)) and len(set(waits)) == 8
    assert found.seconds == pytest.approx(sum(waits))


@pytest.mark.parametrize(
    ("status", "options", "attempts"),
    [
        (Status.BAD_REQUEST, {}, 1),
        (Status.CONTENT_FILTER, {}, 1),
        (Status.BAD_REQUEST, {"max_retries": 3}, 4),
        (Status.SERVER_ERROR, {}, 6),
        (Status.RATE_LIMITED, {"retry_after": 61.0}, 1),
        (Status.RATE_LIMITED, {"retry_after": 5.0}, 6),
        (Status.JUDGE_ERROR, {"max_retries": 0}, 1),
        (Status.UNAUTHORIZED, {}, 1),
    ],
)
def test_attempts_of_each_retry_class(status: Status, options: dict[str, Any], attempts: int) -> None:
    (found,), _ = ask_all(Scripted(errors(status, 99, **options)), 1, Limits(transport_retries=5, longest_wait=60.0))
    assert (found.status, found.value, found.attempts) == (status, None, attempts)
    assert found.error == "no" and found.reply is None


@pytest.mark.parametrize("status", [Status.UNAUTHORIZED, Status.QUOTA])
def test_failures_that_all_would_share_end_the_asking(status: Status) -> None:
    judge = Scripted(lambda number, text: JudgeError(status, "bad key") if number == 2 else "4")
    found, _ = ask_all(judge, 50, Limits(concurrency=2))
    assert len(judge.starts) <= 4
    assert [one.status for one in found[4:]] == [status] * 46
    assert "an earlier request failed: bad key" in found[-1].error and found[-1].attempts == 0


def test_a_server_that_asks_to_come_back_tomorrow_is_asked_no_more() -> None:
    day = JudgeError(Status.RATE_LIMITED, "daily limit", 86400.0)
    judge = Scripted(lambda number, text: day if number >= 10 else "4")
    found, seconds = ask_all(judge, 500, Limits(concurrency=2))
    assert seconds < 10 and len(judge.starts) <= 12 and sum(one.ok for one in found) == 10
    assert found[-1].status is Status.RATE_LIMITED and "daily limit" in found[-1].error


def test_a_wish_to_wait_in_a_failure_of_one_row_stops_nothing() -> None:
    odd = JudgeError(Status.BAD_REQUEST, "no such thing", 86400.0)
    judge = Scripted(lambda number, text: odd if number == 3 else "4")
    found, _ = ask_all(judge, 20, Limits(concurrency=2))
    assert sum(one.ok for one in found) == 19


def test_retry_after_shuts_the_gate_for_all_and_concurrency_halves_then_recovers() -> None:
    judge = Scripted(lambda number, text: JudgeError(Status.RATE_LIMITED, "slow", 30.0) if number < 8 else "4")
    scheduler = Scheduler(judge, Limits(concurrency=8), seed=1)
    places: list[int] = []

    async def one(at: int) -> None:
        assert (await scheduler.ask(question(str(at)))).ok
        places.append(int(scheduler.gate.limit))

    run_all(scheduler, [lambda at=at: one(at) for at in range(80)], VirtualLoop)  # type: ignore[misc]
    later = judge.starts[8:]
    assert min(later) >= 31.0  # nobody, not even a new request, comes before the 30 seconds are over
    assert sum(start == min(later) for start in later) == 4  # eight 429 of one overload halve once
    assert places[-1] == 8
    with pytest.raises(InputError, match="longest_wait must be above 0"):
        Limits(longest_wait=0)


def test_a_server_that_is_gone_after_all_retries_ends_the_asking() -> None:
    judge = Scripted(lambda number, text: JudgeError(Status.CONNECTION_ERROR, "gone") if number >= 10 else "4")
    found, _ = ask_all(judge, 200, Limits(concurrency=4, transport_retries=0))
    assert len(judge.starts) <= 10 + 5 + 3  # what was in flight beside the fifth
    assert [one.status for one in found[30:]] == [Status.CONNECTION_ERROR] * 170
    assert found[-1].error == "5 requests in a row failed by the same cause: gone" and found[-1].attempts == 0


def test_a_place_given_to_a_cancelled_task_is_given_on() -> None:
    async def scenario() -> int:
        gate = Gate(1)
        await gate.__aenter__()
        waiters = [asyncio.ensure_future(gate.__aenter__()) for _ in range(3)]
        await asyncio.sleep(0)
        waiters[1].cancel()  # while it waits
        await gate.__aexit__(None, None, None)  # gives the place to the first
        waiters[0].cancel()  # before it could take it
        await asyncio.wait(waiters)
        assert waiters[2].done() and not waiters[2].cancelled()
        return gate.active

    assert asyncio.run(asyncio.wait_for(scenario(), 5)) == 1


def test_deadline_of_an_attempt() -> None:
    judge = Scripted(lambda number, text: "4", seconds=50.0)
    (found,), seconds = ask_all(judge, 1, Limits(timeout=10.0, transport_retries=2, backoff=0.0))
    assert (found.status, found.attempts, seconds) == (Status.TIMEOUT, 3, 30.0)
    assert "no reply within 10 s" in found.error


def test_a_reply_that_cannot_be_parsed_is_sent_back_once() -> None:
    asked: list[str] = []

    def script(number: int, text: str) -> str:
        asked.append(text)
        return "four" if number == 0 else "4"

    (found,), _ = ask_all(Scripted(script), 1, Limits())
    assert found.value == 4 and found.attempts == 2 and found.usage == Usage(20, 20)
    assert "valid JSON only" in asked[1] and "invalid literal" in asked[1]
    (found,), _ = ask_all(Scripted(lambda number, text: f"bad {number}"), 1, Limits())
    assert (found.status, found.attempts, found.value) == (Status.PARSE_ERROR, 2, None)
    assert found.reply is not None and found.reply.text == "bad 1"
    (found,), _ = ask_all(Scripted(lambda number, text: "bad"), 1, Limits(repairs=0))
    assert (found.status, found.attempts) == (Status.PARSE_ERROR, 1)
    (found,), _ = ask_all(
        Scripted(lambda number, text: JudgeError(Status.BAD_REQUEST, "x") if number else "bad"), 1, Limits()
    )
    assert found.status is Status.BAD_REQUEST and found.reply is not None and found.reply.text == "bad"


@pytest.mark.parametrize(
    ("finish", "status", "error"),
    [
        ("length", Status.TRUNCATED, "cut off at the limit of its tokens, thoughts included: set a larger max_tokens"),
        ("model_length", Status.TRUNCATED, "cut off at the length of the model's context: shorten the texts"),
        ("content_filter", Status.CONTENT_FILTER, "withheld"),
        ("refusal", Status.REFUSED, "refused"),
    ],
)
def test_how_a_reply_ended_is_a_status_of_its_own(finish: str, status: Status, error: str) -> None:
    (found,), _ = ask_all(Scripted(lambda number, text: Reply("4", Usage(7, 3), None, finish)), 1, Limits())
    assert (found.status, found.value, found.attempts, found.usage) == (status, None, 1, Usage(7, 3))
    assert found.reply is not None and found.reply.text == "4" and error in found.error


@pytest.mark.parametrize(
    ("identity", "limit"),
    [
        ({"max_new_tokens": 512}, "max_new_tokens=512, thoughts included: raise it"),
        ({"parameters": {"max_tokens": 7}}, "max_tokens=7, thoughts included: raise it (in evaluate()'s model_config,"),
        ({"parameters": {"max_tokens": 7, "max_completion_tokens": 9}}, "max_completion_tokens=9, thoughts included"),
        ({"parameters": "none"}, "the limit of its tokens, thoughts included: set a larger max_tokens"),
    ],
)
def test_a_reply_cut_off_names_the_argument_and_its_value(identity: dict[str, Any], limit: str) -> None:
    judge = Scripted(lambda number, text: Reply("4", Usage(7, 3), None, "length"))
    judge.identity = identity
    (found,), _ = ask_all(judge, 1, Limits())
    assert found.status is Status.TRUNCATED and f"the reply was cut off at {limit}" in found.error


def test_cache_keeps_successes_only_and_one_question_is_asked_once(tmp_path: Path) -> None:
    with JudgeCache(tmp_path / "c.sqlite") as cache:
        judge = Scripted(lambda number, text: JudgeError(Status.BAD_REQUEST, "x") if text == "row 1" else "4")
        first, _ = ask_all(judge, 3, Limits(), cache=cache)
        assert [one.cached for one in first] == [False] * 3 and len(cache) == 2
        second, _ = ask_all(judge, 3, Limits(), cache=cache)
        assert [one.cached for one in second] == [True, False, True] and len(judge.starts) == 4
        assert second[0].usage == Usage() and second[0].reply is not None and second[0].reply.usage == Usage(10, 10)
        scheduler = Scheduler(judge, cache=cache)
        same = [lambda: scheduler.ask(question("same")) for _ in range(9)]
        found: list[Judgement] = []

        async def collect() -> None:
            found.extend(await asyncio.gather(*(one() for one in same)))

        run(scheduler, collect, VirtualLoop)
        assert len(judge.starts) == 5 and sum(one.cached for one in found) == 8
        repeats: list[Judgement] = []

        async def repeated() -> None:
            repeats.extend([await scheduler.ask(question("same"), repeat) for repeat in range(3)])

        run(scheduler, repeated, VirtualLoop)
        assert [one.cached for one in repeats] == [True, False, False]
        before = len(cache)
        ask_all(Scripted(lambda number, text: Reply("4", Usage(), None, "length")), 3, Limits(), cache=cache)
        assert len(cache) == before


def test_a_kept_reply_that_no_longer_parses_is_asked_for_again(tmp_path: Path) -> None:
    with JudgeCache(tmp_path / "c.sqlite") as cache:
        judge = Scripted(lambda number, text: "4" if number == 0 else "{}")
        scheduler = Scheduler(judge, cache=cache)
        assert run(scheduler, lambda: scheduler.ask(question()), VirtualLoop).value == 4
        again = run(
            scheduler, lambda: scheduler.ask(question(parse=lambda text: {"{}": 5}[text] if text == "{}" else int("x")))
        )
        assert again.value == 5 and not again.cached and len(judge.starts) == 2


def test_stop_cancels_what_is_left() -> None:
    judge = Scripted(lambda number, text: "4")
    scheduler = Scheduler(judge, Limits(concurrency=2))
    found: list[Judgement] = []

    async def one(at: int) -> None:
        found.append(await scheduler.ask(question(str(at))))
        if len(found) == 4:
            scheduler.stop()

    run_all(scheduler, [lambda at=at: one(at) for at in range(20)], VirtualLoop)  # type: ignore[misc]
    assert len(judge.starts) <= 6 and sum(one.status is Status.CANCELLED for one in found) >= 14
    assert len(found) == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"concurrency": 0}, "concurrency must be at least 1 or None but got 0"),
        ({"requests_per_minute": 0.5}, "requests_per_minute must be at least 1"),
        ({"tokens_per_minute": float("nan")}, "tokens_per_minute must be at least 1"),
        ({"timeout": 0}, "timeout must be above 0 seconds but got 0"),
        ({"transport_retries": -1}, "transport_retries must be an int of at least 0 but got -1"),
        ({"reasks": True}, "reasks must be an int of at least 0 but got True"),
        ({"concurrency": 2.5}, "concurrency must be an int or None but got 2.5"),
        ({"concurrency": float("inf")}, "concurrency must be an int or None but got inf"),
        ({"requests_per_minute": "60"}, "requests_per_minute must be a number or None but got '60'"),
        ({"timeout": None}, "timeout must be a number but got None"),
    ],
)
def test_limits_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Limits(**options)


def test_other_exceptions_of_a_judge_or_a_parser_cost_one_row() -> None:
    judge = Scripted(lambda number, text: OSError("gone") if text == "row 1" else "4")
    found, _ = ask_all(judge, 3, Limits())
    assert [str(one.status) for one in found] == ["ok", "judge_error", "ok"] and "OSError: gone" in found[1].error
    scheduler = Scheduler(judge, Limits(repairs=0))
    parsers: list[Callable[[Any], Any]] = [
        lambda text: {}["score"],
        lambda text: text["score"],
        lambda text: text.score,
    ]
    for parse in parsers:
        wrong = run(scheduler, lambda parse=parse: scheduler.ask(question(parse=parse)), VirtualLoop)  # type: ignore[misc]
        assert wrong.status is Status.PARSE_ERROR and "Error: " in wrong.error
    missing = Scripted(lambda number, text: MissingExtraError("openai", "llm", "OpenAIJudge"))
    with pytest.raises(MissingExtraError, match=r"pip install 'valor_gpu\[llm\]'"):
        ask_all(missing, 3, Limits())


def test_callables_of_every_kind() -> None:
    class Client:
        model_name = "client-1"

        async def __call__(self, messages: Any) -> str:
            return "4"

    calls, together = itertools.count(), threading.Barrier(15)

    def blocks(messages: Any) -> str:
        if next(calls):  # the first request goes alone
            together.wait()  # until all the others wait at the same time
        return "4"

    scheduler = Scheduler(Client())
    assert run(scheduler, lambda: scheduler.ask(question()), VirtualLoop).value == 4
    assert scheduler.judge.identity == {"kind": "callable", "name": "client-1"}
    assert Scheduler(blocks).judge.identity is None
    many = Scheduler(blocks, Limits(concurrency=16))

    async def all_of_them() -> list[Judgement]:
        return await asyncio.gather(*(many.ask(question()) for _ in range(16)))

    assert all(one.ok for one in run(many, all_of_them))
    wrong = Scheduler(lambda messages: None)
    failed = run(wrong, lambda: wrong.ask(question()))
    assert (
        failed.status is Status.JUDGE_ERROR
        and "must return str or Reply, a number," in failed.error
        and failed.error.endswith("returned NoneType")
    )
    hangs = Scheduler(lambda messages: time.sleep(20), Limits(timeout=0.1, transport_retries=0))
    assert run(hangs, lambda: hangs.ask(question())).status is Status.TIMEOUT
    left = [thread for thread in threading.enumerate() if thread.name == "valor_gpu judge"]
    assert left and all(thread.daemon for thread in left)  # it does not hold up the exit
