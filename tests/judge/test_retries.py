"""Failures that are tried again: prompts that fail alone, servers that answer nobody, and rows that make room."""

from __future__ import annotations

import asyncio
import contextlib
import io
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.judge.loops import VirtualLoop, run
from tests.judge.server import ChatServer, failure
from tests.judge.test_scheduler import Scripted, ask_all, question
from valor_gpu.judge import Limits, LLMMetric, OpenAIJudge, Progress, run_judge, run_judge_async, stream_judge
from valor_gpu.judge.progress import ProgressBar
from valor_gpu.judge.protocol import JudgeError, Judgement, Messages, Reply, Schema, Status, Usage
from valor_gpu.judge.retries import MOST_LAST, SILENCE
from valor_gpu.judge.room import MOST_HELD, Place, Room
from valor_gpu.judge.scheduler import Scheduler

FAILS = JudgeError(Status.SERVER_ERROR, "HTTP 500: crashed")


def fails_for(bad: Callable[[int], bool], error: JudgeError = FAILS) -> Callable[[int, str], Any]:
    return lambda number, text: error if bad(int(text.split()[-1])) else "4"


def is_bad(row: int) -> bool:
    return row % 50 == 7


class Timed(Scripted):
    """Remembers which row was asked when."""

    def __init__(self, script: Callable[[int, str], Any], seconds: float = 1.0) -> None:
        super().__init__(script, seconds)
        self.asked: list[tuple[float, int]] = []

    async def __call__(self, messages: Messages, schema: Schema | None) -> Reply:
        self.asked.append((asyncio.get_running_loop().time(), int(str(messages[-1]["content"]).split()[-1])))
        return await super().__call__(messages, schema)


@pytest.mark.parametrize("status", [Status.SERVER_ERROR, Status.CONNECTION_ERROR])
def test_a_prompt_that_fails_alone_is_asked_last_and_given_up(status: Status) -> None:
    judge = Timed(fails_for(is_bad, JudgeError(status, "crashed")))
    found, seconds = ask_all(judge, 1000, Limits(concurrency=8))
    bad = [one for at, one in enumerate(found) if is_bad(at)]
    good = [one for at, one in enumerate(found) if not is_bad(at)]
    assert all(one.ok and one.attempts == 1 for one in good)
    assert [one.status for one in bad] == [status] * 20
    assert {one.error for one in bad} == {"crashed (failed 3 times while the server answered others)"}
    times = [[time for time, asked in judge.asked if asked == row] for row in range(1000) if is_bad(row)]
    assert [len(asked) for asked in times] == [3] * 20
    assert all(3 <= one.attempts <= 5 for one in bad)  # with questions that tell whether the server is alive
    at_last = next(time for time, row in judge.asked if row == 999)
    assert min(asked[2] for asked in times) >= at_last - 1.0  # when hardly anything else was under way
    assert at_last <= 1.1 * 1000 / 8 and seconds <= 1000 / 8 + 30


def test_prompt_failures_is_a_limit() -> None:
    judge = Timed(fails_for(is_bad))
    found, _ = ask_all(judge, 100, Limits(concurrency=8, prompt_failures=5))
    assert [sum(asked == row for _, asked in judge.asked) for row in (7, 57)] == [5, 5]
    assert "failed 5 times" in found[7].error
    found, _ = ask_all(Timed(fails_for(is_bad)), 100, Limits(concurrency=8, transport_retries=1))
    assert [(one.attempts, one.error) for one in found if not one.ok] == [(2, "HTTP 500: crashed")] * 2


def test_a_failure_that_passes_costs_no_prompt() -> None:
    seen: dict[str, int] = {}

    def twice(number: int, text: str) -> Any:
        seen[text] = seen.get(text, 0) + 1
        return FAILS if is_bad(int(text.split()[-1])) and seen[text] <= 2 else "4"

    found, _ = ask_all(Timed(twice), 200, Limits(concurrency=8))
    assert all(one.ok for one in found) and sorted(one.attempts for one in found)[-4:] == [3] * 4


@pytest.mark.parametrize("begin", [0.0, 50.0])
def test_a_server_that_answers_nobody_is_waited_for(begin: float) -> None:
    """No row is lost in an outage, at the beginning, amid the run, or with the last rows."""

    def script(number: int, text: str) -> Any:
        return FAILS if begin <= asyncio.get_running_loop().time() < begin + 40.0 else "4"

    found, seconds = ask_all(Timed(script), 410, Limits(concurrency=8))
    assert all(one.ok for one in found)
    assert seconds > begin + 40.0


def test_a_lone_prompt_at_the_end_is_told_from_a_dead_server_by_a_question_that_was_answered() -> None:
    judge = Timed(fails_for(lambda row: row == 99))
    found, seconds = ask_all(judge, 100, Limits(concurrency=1))
    assert found[99].status is Status.SERVER_ERROR and "while the server answered others" in found[99].error
    probes = [row for _, row in judge.asked if row != 99][99:]
    assert probes and set(probes) == {0}  # the shortest question that was answered
    assert seconds <= 100 + 30
    assert found[99].attempts + 99 == len(judge.starts)  # they are counted where they were needed
    assert found[99].usage == Usage(10, 10) + Usage(10 * (len(probes) - 1), 10 * (len(probes) - 1))


def test_a_judge_may_forbid_questions_beyond_those_of_the_run() -> None:
    judge = Timed(fails_for(lambda row: row == 9))
    judge.probes = False  # type: ignore[attr-defined]
    found, _ = ask_all(judge, 10, Limits(concurrency=1))
    assert not found[9].ok and found[9].attempts == 11 and len(judge.starts) == 9 + 11


@pytest.mark.parametrize(
    "error",
    [JudgeError(Status.RATE_LIMITED, "429"), JudgeError(Status.SERVER_ERROR, "503", retry_after=1.0)],
    ids=["429", "Retry-After"],
)
def test_what_the_server_asks_to_wait_for_is_no_quarrel_with_the_prompt(error: JudgeError) -> None:
    found, _ = ask_all(Timed(fails_for(is_bad, error)), 60, Limits(concurrency=4, transport_retries=6))
    assert [one.attempts for one in found if not one.ok] == [7, 7]


def test_timeouts_are_asked_last_after_the_first() -> None:
    class Slow(Timed):
        async def __call__(self, messages: Messages, schema: Schema | None) -> Reply:
            self.seconds = 1e9 if is_bad(int(str(messages[-1]["content"]).split()[-1])) else 1.0
            return await super().__call__(messages, schema)

    judge = Slow(lambda number, text: "4")
    ask_all(judge, 200, Limits(concurrency=4, timeout=10.0))
    rows = [row for _, row in judge.asked]
    assert [row for row in rows[: rows.index(199)] if is_bad(row)] == [7, 57, 107, 157]


def test_equal_questions_share_that_their_prompt_is_given_up() -> None:
    judge = Timed(fails_for(lambda row: row == 3))
    scheduler = Scheduler(judge, Limits(concurrency=4), seed=1)

    async def main() -> list[Judgement]:
        return list(await asyncio.gather(*(scheduler.ask(question(f"row {at % 40}")) for at in range(400))))

    found = run(scheduler, main, VirtualLoop)
    failed = [one for one in found if not one.ok]
    assert len(failed) == 10 and sorted(one.attempts for one in failed) <= [0] * 9 + [6]
    assert len({one.error for one in failed}) == 1


def test_a_run_that_is_stopped_leaves_nobody_in_the_line() -> None:
    judge = Timed(lambda number, text: FAILS if int(text.split()[-1]) % 2 else "4")
    scheduler = Scheduler(judge, Limits(concurrency=2), seed=1)

    async def main() -> list[Judgement]:
        asyncio.get_running_loop().call_later(20.0, scheduler.stop)
        return list(await asyncio.gather(*(scheduler.ask(question(f"row {at}")) for at in range(100))))

    found = run(scheduler, main, VirtualLoop)
    assert {one.status for one in found} == {Status.OK, Status.SERVER_ERROR, Status.CANCELLED}
    assert scheduler.retries.waiting == 0


def test_a_task_that_is_cancelled_leaves_the_line() -> None:
    judge = Timed(lambda number, text: FAILS if int(text.split()[-1]) % 2 else "4")
    scheduler = Scheduler(judge, Limits(concurrency=2), seed=1)

    async def main() -> None:
        tasks = [asyncio.ensure_future(scheduler.ask(question(f"row {at}"))) for at in range(100)]
        await asyncio.sleep(30.0)
        for task in tasks[1::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(scheduler, main, VirtualLoop)
    assert scheduler.retries.waiting == 0


def test_the_line_has_an_end() -> None:
    """With more failing prompts than the line takes, the oldest are asked while others are under way."""
    judge = Timed(lambda number, text: FAILS if int(text.split()[-1]) % 2 else "4", seconds=0.1)
    found, _ = ask_all(judge, 4 * MOST_LAST, Limits(concurrency=8, backoff=0.1))
    assert [one.ok for one in found] == [True, False] * (2 * MOST_LAST)
    assert {one.attempts for one in found[1::2]} <= {3, 4, 5}


class Number(LLMMetric):
    name, low, high = "number", 1, 5

    def __init__(self, name: str = "number") -> None:
        self.name = name

    async def score(self, row: Any, ask: Any) -> float:
        return float(await ask(question(f"{self.name} of row {row}", float)))


async def crashes_for_some(messages: Messages, schema: Schema | None = None) -> Reply:
    await asyncio.sleep(0.0)
    return Reply("4") if not is_bad(int(messages[-1]["content"].split()[-1])) else _raise()


def _raise() -> Reply:
    raise JudgeError(Status.SERVER_ERROR, "HTTP 500: crashed")


class Crashing:
    identity = None
    probes = True

    async def __call__(self, messages: Messages, schema: Schema | None = None) -> Reply:
        return await crashes_for_some(messages, schema)


QUICK = Limits(concurrency=2, backoff=1.0)


def test_rows_that_wait_make_room_for_others() -> None:
    metrics = [Number(f"m{at}") for at in range(5)]  # a window of two rows
    with pytest.warns(
        UserWarning, match="a prompt failed [0-9]+ times while the server answered others, and is given up"
    ):
        order = [judged.index for judged in stream_judge(range(300), metrics, Crashing(), limits=QUICK, seed=1)]
    assert sorted(order) == list(range(300))
    assert order.index(7) > 100  # two rows at a time would have it among the first ten


def test_rows_that_wait_make_room_in_a_running_loop() -> None:
    done: list[int] = []

    async def main() -> None:
        metrics = [Number(f"m{at}") for at in range(5)]
        run = await run_judge_async(range(300), metrics, Crashing(), limits=QUICK, seed=1)
        done.extend(index for index, one in enumerate(run.scores("m0")) if one == 4.0)

    with pytest.warns(UserWarning, match="is given up: HTTP 500: crashed. Its score is missing"):
        asyncio.run(main())
    assert len(done) == 294


def test_prompts_that_the_server_puts_off_are_asked_last() -> None:
    """A 429 holds all requests up for as long as the server says: the fewer of them before the others, the better."""
    judge = Timed(fails_for(is_bad, JudgeError(Status.RATE_LIMITED, "429", retry_after=2.0)), seconds=0.1)
    loop = VirtualLoop()
    with contextlib.closing(loop), pytest.warns(UserWarning, match="the server has answered nothing for"):
        found = loop.run_until_complete(run_judge_async(range(300), [Number()], judge, limits=Limits(), seed=1))
    rows = [row for _, row in judge.asked]
    before = [row for row in rows[: rows.index(299)] if is_bad(row)]
    assert before and max(before.count(row) for row in before) <= 2
    failed = [each for (each,) in found.judgements["number"] if not each.ok]
    assert [each.attempts for each in failed] == [11] * 6


def test_a_server_that_answers_nobody_gets_no_more_rows() -> None:
    pulled = itertools.count()

    def rows() -> Iterator[int]:
        for row in range(10_000):
            next(pulled)
            yield row

    class Dead:
        identity = None

        async def __call__(self, messages: Messages, schema: Schema | None = None) -> Reply:
            raise JudgeError(Status.SERVER_ERROR, "HTTP 503")

    limits = Limits(concurrency=2, transport_retries=3, backoff=0.02)
    stream = stream_judge(rows(), [Number()], Dead(), limits=limits, seed=1)
    first = next(stream)
    assert first.judgements["number"][0].status is Status.SERVER_ERROR
    assert next(pulled) <= 20  # four rows of the window, and those that began before it was known
    stream.close()


def test_progress_and_the_bar_say_what_waits(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[Progress] = []
    slow = Limits(concurrency=2, backoff=1.5, prompt_failures=2)
    with pytest.warns(UserWarning, match="is given up"):
        run_judge(range(60), [Number()], Crashing(), limits=slow, seed=5, progress=shown.append)
    waits = [one for one in shown if one.waiting]
    assert waits and waits[-1].problem == "HTTP 500: crashed"
    assert shown[-1].waiting == 0 and shown[-1].failed == 2
    ProgressBar()(Progress(3, 4, 0, 0, 5, Usage(), 8, 1, "HTTP 500:\n" + "x" * 200))
    line = capsys.readouterr().err
    assert "1 wait for a retry (HTTP 500: xxx" in line and "\n" not in line and len(line) < 220


@pytest.mark.parametrize("rows", [1, 8])
def test_a_long_silence_is_told_while_it_lasts(rows: int) -> None:
    scheduler = Scheduler(Timed(lambda number, text: FAILS), Limits(concurrency=2), seed=1)
    told: list[str] = []

    async def main() -> None:
        asking = asyncio.gather(*(scheduler.ask(question(f"row {at}")) for at in range(rows)))
        await asyncio.sleep(4 * SILENCE)
        told.extend(scheduler.retries.notices)
        await asking

    run(scheduler, main, VirtualLoop)
    (message,) = told
    assert "seconds: HTTP 500: crashed. Each request is sent up to 11 times" in message
    assert message.startswith("the server has answered nothing for")


def test_suspects_stop_a_run_without_a_reply_only() -> None:
    def answer(number: int, text: str) -> Any:
        return JudgeError(Status.BAD_REQUEST, f"HTTP 404 {number}", suspect="HTTP 404", hint="is it there?")

    judge = Timed(answer)
    found, _ = ask_all(judge, 60, Limits(concurrency=1))
    told = "5 requests in a row failed by the same cause, and none was answered: HTTP 404 4 (is it there?)"
    assert len(judge.starts) == 5 and found[-1].error == told and found[0].error == "HTTP 404 0"
    judge = Timed(lambda number, text: answer(number, text) if number else "4")
    found, _ = ask_all(judge, 60, Limits(concurrency=1))
    assert len(judge.starts) == 60 and [one.ok for one in found] == [True] + [False] * 59


def test_room() -> None:
    most = MOST_HELD
    changes: list[int] = []
    room = Room(4, lambda: most, lambda: changes.append(room.held))
    places = [Place(room, 10) for _ in range(3)]
    room.under_way = 4
    assert room.free() == 0
    places[0].hold()
    places[0].hold()
    assert (room.free(), room.held, changes) == (1, 1, [1])
    places[0].resume()
    assert room.free() == 1
    most = 0
    assert room.free() == 0
    most = MOST_HELD
    with places[1].held():
        assert room.free() == 2
    places[0].resume()
    assert (room.free(), room.held, room.held_size) == (0, 0, 0)
    room.held, room.under_way = 5 * MOST_HELD, 5 * MOST_HELD
    assert room.free() == 4 - 4 * MOST_HELD
    room.held, room.under_way, room.held_size = 5, 6, 10_000_001
    assert room.free() == -2


def test_a_batch_of_rows_is_small_only_where_nothing_else_is_under_way() -> None:
    room = Room(8)
    found = []
    for room.under_way, room.held in [(0, 0), (4, 0), (5, 0), (8, 1), (9, 8), (8, 8)]:
        found.append(room.batch())
    assert found == [8, 4, 0, 0, 7, 8]
    few = Room(8, lambda: 1)
    few.under_way = few.held = 8
    assert few.batch() == 1


def test_first_rows_that_fail_alone_are_told_from_a_dead_server_by_further_rows() -> None:
    class First(Crashing):
        async def __call__(self, messages: Messages, schema: Schema | None = None) -> Reply:
            return _raise() if int(messages[-1]["content"].split()[-1]) < 12 else Reply("4")

    metrics = [Number(f"m{at}") for at in range(3)]  # a window of two rows
    limits = Limits(concurrency=2, backoff=0.05, transport_retries=40)  # on a busy machine ten go before others begin
    with pytest.warns(UserWarning, match="is given up"):
        sync = run_judge(range(40), metrics, First(), limits=limits, seed=1)
    with pytest.warns(UserWarning, match="is given up"):
        async_ = asyncio.run(run_judge_async(range(40), metrics, First(), limits=limits, seed=1))
    for run_ in (sync, async_):
        judged = [one for repeats in run_.judgements["m1"] for one in repeats]
        assert [one.ok for one in judged] == [False] * 12 + [True] * 28
        assert all("while the server answered others" in one.error for one in judged[:12])


def test_long_waits_end_when_the_server_answers_others() -> None:
    """After an outage a prompt that fails alone is given up in seconds, whatever it waited before."""

    def script(number: int, text: str) -> Any:
        return FAILS if asyncio.get_running_loop().time() < 100.0 or text == "row 0" else "4"

    judge = Timed(script)
    scheduler = Scheduler(judge, Limits(concurrency=2), seed=3)

    async def main() -> Judgement:
        first = asyncio.ensure_future(scheduler.ask(question("row 0")))
        await asyncio.sleep(101.0)
        for at in itertools.count(1):
            await scheduler.ask(question(f"row {at}"))
            if first.done():
                return first.result()
        raise AssertionError

    assert "while the server answered others" in run(scheduler, main, VirtualLoop).error
    asked = [time for time, row in judge.asked if row == 0 and time > 100.0]
    assert len(asked) == 3 and asked[2] - asked[0] <= 2 + 4 + 3


@pytest.mark.parametrize(
    ("status", "message", "stops"),
    [
        (400, "no such thing", True),
        (404, "the context window of no such deployment", True),
        (400, "the request exceeds the available context size", False),
        (400, "Content Exists Risk", False),
        (413, "<html>Request Entity Too Large</html>", False),
        (403, "your input was flagged", False),
        (403, "not with this key", True),
    ],
)
def test_first_rows_that_are_rejected_for_their_texts_stop_no_run(status: int, message: str, stops: bool) -> None:
    with ChatServer(lambda request: "4" if "row 9" in request.text else failure(status, message)) as server:
        run_ = run_judge(range(10), [Number()], OpenAIJudge("m", base_url=server.url), limits=Limits(concurrency=1))
    assert (run_.scores("number")[9] == 4.0) is not stops and (run_.stopped is not None) is stops
    assert len(server.requests) == (5 if stops else 10)


def test_what_was_rejected_before_a_run_was_resumed_stops_it_no_more() -> None:
    judge = Timed(fails_for(lambda row: row < 8, JudgeError(Status.BAD_REQUEST, "HTTP 403", suspect="HTTP 403")))
    scheduler = Scheduler(judge, Limits(concurrency=1), seed=1)
    scheduler.causes.rejected_before = 5

    async def main() -> list[Judgement]:
        return [await scheduler.ask(question(f"row {at}")) for at in range(12)]

    assert [one.ok for one in run(scheduler, main, VirtualLoop)] == [False] * 8 + [True] * 4


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_failure_gives_a_terminal_no_orders(is_terminal: bool) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    out, problem = Stream(), "no\x1b]52;c;b3duZWQ=\x07\x1b[2J\x9b31m\u202e\ud800 model"
    ProgressBar(out, 150)(Progress(3, 4, 0, 0, 5, Usage(), 8, 1, problem))
    text = out.getvalue().removesuffix("\x1b[K")
    assert "no␛]52;c;b3duZWQ=␇␛[2J[U+009B]31m[U+202E][U+D800] model" in text
    assert text.removeprefix("\r").isprintable()
