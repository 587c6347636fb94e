"""Streams of rows: windows, order, interrupts, cancellation, threads, and the way of a row to the judge."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import linecache
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import valor_gpu
from valor_gpu.errors import InputError
from valor_gpu.judge import (
    JudgeAborted,
    JudgeCancelled,
    JudgedRow,
    JudgeInterrupted,
    Limits,
    LLMMetric,
    Question,
    Scheduler,
    Status,
    question_metric,
    run_judge,
    run_judge_async,
    stream_judge,
    stream_judge_async,
)
from valor_gpu.text.judged import TextRow, evaluate_texts, evaluate_texts_async

FOUR = Limits(concurrency=4)


def about(row: Any) -> Question:
    return Question([{"role": "user", "content": str(row)}], float)


RATE = question_metric("q", about, 0, 1e9)


async def echo(messages: Any) -> str:
    return str(messages[-1]["content"])


class Waiting:
    """An async judge that answers the first ``answered`` questions and then waits until that is raised."""

    def __init__(self, answered: int) -> None:
        self.answered, self.asked, self.active = answered, 0, 0

    async def __call__(self, messages: Any) -> str:
        self.asked += 1
        if self.asked <= self.answered:
            return "4"
        self.active += 1
        try:
            while self.asked > self.answered:
                await asyncio.sleep(0.01)
        finally:
            self.active -= 1
        return "4"


def counted(number: int, pulled: list[int]) -> Iterator[int]:
    for at in range(number):
        pulled[0] += 1
        yield at


class EveryTwentieth(LLMMetric):
    """Asks about one row of twenty, so that a test of many rows does not take minutes."""

    name, low, high = "q", 0, 1e9

    async def score(self, row: int, ask: Any) -> float:
        return float(await ask(about(row))) if row % 20 == 0 else float(row)


def test_rows_of_a_generator_are_pulled_as_results_are_taken() -> None:
    pulled, ahead, indices = [0], 0, set()
    for taken, judged in enumerate(stream_judge(counted(20_000, pulled), [EveryTwentieth()], echo, limits=FOUR), 1):
        ahead = max(ahead, pulled[0] - taken)
        indices.add(judged.index)
        assert judged.row == judged.index == judged.judgements["q"][0].value
    assert pulled[0] == len(indices) == 20_000 and ahead <= 8


def test_async_rows_are_pulled_as_results_are_taken_and_slow_ones_hold_nothing_up() -> None:
    pulled, early = [0], [0]

    async def rows() -> AsyncIterator[int]:
        for at in counted(500, pulled):
            if at == 100:
                while seen[0] < 100:  # what was judged is handed on meanwhile
                    await asyncio.sleep(0.01)
                early[0] = seen[0]
            yield at

    seen = [0]

    async def main() -> None:
        async for judged in stream_judge_async(rows(), [RATE], echo, limits=FOUR):
            seen[0] += 1
            assert pulled[0] - seen[0] <= 8 and judged.row == judged.index
            await asyncio.sleep(0)

    asyncio.run(main())
    assert seen[0] == pulled[0] == 500 and early[0] == 100


def test_requests_go_on_while_the_caller_works() -> None:
    asked, all_asked = itertools.count(1), threading.Event()

    async def judge(messages: Any) -> str:
        if next(asked) == 6:
            all_asked.set()
        return "4"

    stream = stream_judge(range(6), [RATE], judge, limits=FOUR)
    for _ in range(3):  # two rows are pulled for each result, until the window is full
        next(stream)
    assert all_asked.wait(60)
    assert len(list(stream)) == 3 and next(asked) == 7


def test_rows_are_pulled_in_the_thread_of_the_caller_and_progress_is_shown_there() -> None:
    threads = set()

    def rows() -> Iterator[int]:
        for at in range(5):
            threads.add(threading.get_ident())
            yield at

    run = run_judge(rows(), [RATE], echo, progress=lambda progress: threads.add(threading.get_ident()))
    assert run.scores("q") == [0, 1, 2, 3, 4] and threads == {threading.get_ident()}
    with pytest.raises(InputError, match="clusters must be given with rows of a known number"):
        run_judge(rows(), [RATE], echo, clusters=[1])


def test_a_stream_that_is_left_cancels_what_is_under_way() -> None:
    judge = Waiting(3)
    stream = stream_judge(range(100), [RATE], judge, limits=FOUR)
    assert [next(stream).judgements["q"][0].value for _ in range(3)] == [4.0] * 3
    stream.close()
    assert judge.active == 0 and judge.asked <= 7
    assert not [thread for thread in threading.enumerate() if thread.name == "valor_gpu judge run"]


def test_a_stream_that_is_left_open_does_not_hold_up_the_exit() -> None:
    program = """
from valor_gpu.judge import Question, question_metric, stream_judge
rate = question_metric("q", lambda row: Question([{"role": "user", "content": str(row)}], float), 0, 9)
stream = stream_judge(range(100), [rate], lambda messages: "4")
print(next(stream).judgements["q"][0].value)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "4.0\n" and ended.stderr == ""


def test_errors_of_the_rows_end_the_run() -> None:
    def rows() -> Iterator[int]:
        yield 1
        raise OSError("the file is gone")

    def texts() -> Iterator[TextRow]:
        yield TextRow(response="1")
        raise OSError("the file is gone")

    def asynchronous(work: Any) -> Any:
        async def main() -> Any:
            return await work()

        return asyncio.run(main())

    for name, start in {
        "q": lambda: run_judge(rows(), [RATE], echo),
        "async q": lambda: asynchronous(lambda: run_judge_async(rows(), [RATE], echo)),
        "Coherence": lambda: evaluate_texts(texts(), ["Coherence"], lambda messages: "1"),
        "async Coherence": lambda: asynchronous(
            lambda: evaluate_texts_async(texts(), ["Coherence"], lambda messages: "1")
        ),
    }.items():
        with pytest.raises(JudgeAborted, match=r"the run ended early.* OSError: the file is gone") as ended:
            start()
        assert ended.value.run.scores(name.split()[-1]) == [1.0] and isinstance(ended.value.__cause__, OSError)
        assert hasattr(ended.value.run, "prompts") is name.endswith("Coherence")
    found: list[int] = []
    with pytest.raises(OSError, match="the file is gone"):
        for judged in stream_judge(rows(), [RATE], echo):
            found += [judged.index]  # what a list that is extended would have lost
    assert found == [0]

    def none() -> Iterator[int]:
        raise OSError("the file was never there")
        yield

    with pytest.raises(OSError, match="never there"):
        run_judge(none(), [RATE], echo)


def test_a_progress_that_raises_leaves_nothing_behind() -> None:
    judge = Waiting(1)

    def progress(counts: Any) -> None:
        raise ValueError("no terminal")

    with pytest.raises(JudgeAborted, match="ValueError: no terminal") as ended:
        run_judge(range(9), [RATE], judge, limits=FOUR, progress=progress)
    assert judge.active == 0 and ended.value.run.summaries["q"].n_failed == {"cancelled": 8}


def interrupt_when(ready: Callable[[], bool], here: bool = False) -> None:
    """Interrupts when ``ready``; ``here``: another thread receives the signal, which does not wake the main thread."""

    def work() -> None:
        while not ready():
            time.sleep(0.01)
        thread = threading.current_thread() if here else threading.main_thread()
        signal.pthread_kill(thread.ident or 0, signal.SIGINT)

    threading.Thread(target=work, daemon=True).start()


@pytest.mark.parametrize("where", ["script", "loop", "asyncio.run"])
def test_ctrl_c_gives_back_what_was_judged(where: str) -> None:
    judge = Waiting(5)
    interrupt_when(lambda: judge.active >= 4)
    caught: list[JudgeInterrupted] = []

    def start() -> None:
        try:
            run_judge(range(50), [RATE], judge, limits=FOUR)
        except JudgeInterrupted as interrupt:
            caught.append(interrupt)
            raise

    async def within() -> None:
        start()

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        if where == "script":
            start()
        elif where == "asyncio.run":
            asyncio.run(within())
        else:
            with contextlib.closing(asyncio.new_event_loop()) as loop:
                loop.run_until_complete(within())
    assert judge.active == 0 and judge.asked == 9
    [interrupt] = caught
    found = interrupt.run.summaries["q"]
    assert found.n == 50 and found.n_scored == 5 and found.n_failed == {"cancelled": 45}
    assert interrupt.run.stopped == "the run was cancelled"
    assert not [thread for thread in threading.enumerate() if thread.name == "valor_gpu judge run"]


def test_ctrl_c_gets_past_a_parser_that_does_not_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("valor_gpu.judge.threads.PATIENCE", 0.1)
    entered, leave = threading.Event(), threading.Event()

    def parse(text: str) -> float:
        if text == "2":
            entered.set()
            leave.wait()
        return 1.0

    metric = question_metric("q", lambda row: Question([{"role": "user", "content": str(row)}], parse))
    interrupt_when(entered.is_set)
    try:
        with pytest.raises(JudgeInterrupted, match=r"^$") as caught:
            run_judge(range(50), [metric], echo, limits=Limits(concurrency=1))
    finally:
        leave.set()
    assert caught.value.run.scores("q")[:2] == [1.0, 1.0]


def test_the_row_that_comes_with_ctrl_c_is_handed_on() -> None:
    """Another thread receives the signal, so that the answer to the fifth row ends the wait, and not Ctrl-C."""
    asked: list[Any] = []

    def judge(messages: Any) -> str:
        asked.append(messages)
        time.sleep(0.02)  # until the main thread waits
        if len(asked) == 5:
            signal.raise_signal(signal.SIGINT)
        return "4"

    found: list[JudgedRow] = []
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        for judged in stream_judge(range(40), [RATE], judge, limits=Limits(concurrency=1)):
            found += [judged]
    statuses = [judged.judgements["q"][0].status for judged in found]
    assert statuses[:5] == [Status.OK] * 5 and [judged.index for judged in found] == list(range(len(found)))


@pytest.mark.parametrize("here", [False, True])
def test_ctrl_c_in_a_stream_hands_on_the_rows_under_way(here: bool) -> None:
    judge = Waiting(5)
    interrupt_when(lambda: judge.active >= 4, here)
    found: list[JudgedRow] = []
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        for judged in stream_judge(iter(range(50)), [RATE], judge, limits=FOUR):
            found += [judged]  # what an interrupted list() would have lost
    statuses = [judged.judgements["q"][0].status for judged in found]
    assert statuses[:5] == [Status.OK] * 5 and set(statuses[5:]) == {Status.CANCELLED} and 9 <= len(found) <= 13


@pytest.mark.parametrize("texts", [False, True])
def test_a_cancelled_task_gives_back_what_was_judged(texts: bool) -> None:
    judge = Waiting(5)

    caught: list[BaseException | None] = []

    async def work() -> None:
        rows = [TextRow(response=f"text {at}") for at in range(50)]
        try:  # in the task itself: Python 3.10 makes a new CancelledError for those who await the task
            if texts:
                await evaluate_texts_async(rows, ["Coherence"], judge, limits=FOUR)
            else:
                await run_judge_async(range(50), [RATE], judge, limits=FOUR)
        except asyncio.CancelledError as error:
            caught.append(error.__cause__)
            raise

    async def main() -> None:
        task = asyncio.ensure_future(work())
        while judge.active < 4:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError, match=r"^$"):
            await task
        assert task.cancelled()

    asyncio.run(main())
    [cancelled] = caught
    name = "Coherence" if texts else "q"
    assert judge.active == 0 and judge.asked == 9 and isinstance(cancelled, JudgeCancelled)
    assert cancelled.run.summaries[name].n_scored == 5
    assert cancelled.run.summaries[name].n_failed == {"cancelled": 45}
    assert hasattr(cancelled.run, "prompts") is texts


@pytest.mark.skipif(sys.version_info < (3, 11), reason="timeout and TaskGroup came with Python 3.11")
def test_timeouts_and_task_groups_know_a_cancelled_run() -> None:
    async def held(judge: Waiting) -> None:
        while judge.active < 4:
            await asyncio.sleep(0.01)

    async def in_time() -> None:
        async def come_to_the_end(scope: asyncio.Timeout) -> None:
            await held(judge)
            scope.reschedule(asyncio.get_running_loop().time())

        judge = Waiting(5)
        async with asyncio.timeout(None) as scope:
            ending = asyncio.ensure_future(come_to_the_end(scope))
            await run_judge_async(range(50), [RATE], judge, limits=FOUR)
        await ending

    async def in_group() -> None:
        async def fail() -> None:
            await held(judge)
            raise ValueError("of another task")

        judge = Waiting(5)
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            await run_judge_async(range(50), [RATE], judge, limits=FOUR)

    with pytest.raises(TimeoutError, match=r"^$") as late:
        asyncio.run(in_time())
    cause = late.value.__cause__
    assert cause is not None and isinstance(cause.__cause__, JudgeCancelled)
    assert cause.__cause__.run.summaries["q"].n_scored == 5
    with pytest.raises(Exception, match="unhandled errors in a TaskGroup") as failed:
        asyncio.run(in_group())  # a group of the error alone, not of a cancellation too
    assert "sub-exceptions" not in str(failed.value)


@pytest.mark.parametrize("within_loop", [False, True])
def test_ctrl_c_while_the_caller_works_stops_the_run_and_loses_nothing(within_loop: bool) -> None:
    judge, caught = Waiting(10**9), []

    def interrupt_at_ten(counts: Any) -> None:
        if counts.done == 10:
            while judge.asked < 12:  # some are judged that have not been handed on
                time.sleep(0.01)
            signal.raise_signal(signal.SIGINT)

    def start() -> None:
        try:
            run_judge(iter(range(500)), [RATE], judge, limits=FOUR, progress=interrupt_at_ten)
        except JudgeInterrupted as interrupt:
            caught.append(interrupt)
            raise

    async def within() -> None:
        start()

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        asyncio.run(within()) if within_loop else start()
    found = caught[0].run.summaries["q"]
    assert judge.asked < 100 and found.n_scored + found.n_failed.get("cancelled", 0) == found.n
    assert found.n_scored + 4 >= judge.asked > 10


def test_async_runs_share_a_loop_with_other_work_and_a_judge_with_each_other() -> None:
    class Closing:
        identity = None
        closed = active = 0

        async def aclose(self) -> None:
            assert self.active == 0
            self.closed += 1

        async def __call__(self, messages: Any, schema: Any) -> Any:
            from valor_gpu.judge import Reply

            self.active += 1
            await asyncio.sleep(0.002 * len(messages[0]["content"]))
            self.active -= 1
            return Reply("4")

    judge = Closing()

    async def main() -> list[Any]:
        long, short = ["long" * 20] * 1 + ["x" * at for at in range(30)], ["y"]
        return await asyncio.gather(*(run_judge_async(rows, [RATE], judge) for rows in (long, short)))

    long, short = asyncio.run(main())
    assert long.summaries["q"].n_scored == 31 and short.summaries["q"].n_scored == 1 and judge.closed == 1


def test_a_scheduler_serves_one_run_at_a_time_and_may_be_used_again() -> None:
    judge = Waiting(0)
    scheduler = Scheduler(judge, FOUR)
    stream = stream_judge(range(9), [RATE], scheduler=scheduler)
    thread = threading.Thread(target=lambda: list(stream), daemon=True)
    thread.start()
    while judge.active < 4:
        time.sleep(0.01)
    for _ in range(3):
        with pytest.raises(InputError, match="scheduler must serve one run at a time but another run uses it"):
            run_judge(range(3), [RATE], scheduler=scheduler)
    with pytest.raises(InputError, match="ask must be called within `async with scheduler`"):
        asyncio.run(scheduler.ask(about(1)))
    assert judge.asked == 4
    scheduler.stop()
    judge.answered = 10**9
    thread.join(60)
    assert not thread.is_alive()
    again = Scheduler(echo, FOUR)
    for _ in range(2):
        assert run_judge(range(3), [RATE], scheduler=again).scores("q") == [0.0, 1.0, 2.0] and again.attempts == 3


def test_progress_may_stop_the_run() -> None:
    scheduler, judge = Scheduler(echo, FOUR), Waiting(5)
    waiting = Scheduler(judge, FOUR)

    def stop(counts: Any) -> None:
        if counts.done == 5:
            waiting.stop()
            judge.answered = 10**9

    run = run_judge(range(100), [RATE], scheduler=scheduler, progress=lambda counts: scheduler.stop())
    assert 1 <= run.summaries["q"].n_scored <= 9 and run.stopped == "the run was stopped"
    assert set(run.summaries["q"].n_failed) == {"cancelled"} and run.summaries["q"].n == 100
    limits = Limits(concurrency=4, requests_per_minute=5)  # the sixth request waits for a minute, unless it is stopped
    waiting = Scheduler(judge, limits)
    run = run_judge(range(100), [RATE], scheduler=waiting, progress=stop)
    assert run.summaries["q"].n_scored == 5 and judge.asked == 5


def test_runs_of_several_threads_with_schedulers_of_their_own() -> None:
    found: list[list[float]] = []
    threads = [
        threading.Thread(target=lambda: found.append(run_judge(range(60), [RATE], echo).scores("q"))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [[float(at) for at in range(60)]] * 6


def test_equal_questions_of_a_run_are_asked_once_also_without_a_cache() -> None:
    asked: list[str] = []

    def judge(messages: Any) -> str:
        asked.append(messages[0]["content"])
        return "4"

    run = run_judge(["same"] * 10 + ["other"], [RATE], judge)
    assert sorted(asked) == ["other", "same"] and run.scores("q") == [4.0] * 11 and run.summaries["q"].cached == 9
    asked.clear()
    run_judge(["same"] * 4, [RATE], judge, repeats=3)
    assert asked == ["same"] * 3


def depth_of_package_frames(frame: Any) -> int:
    folder, depth = str(next(iter(valor_gpu.__path__))), 0
    while frame is not None:
        name = frame.f_code.co_filename
        depth += name.startswith(folder) and not name.endswith("held_loop.py")  # which times steps of the user's code
        frame = frame.f_back
    return depth


def line_of(frame: Any) -> str:
    return linecache.getline(frame.f_code.co_filename, frame.f_lineno)


def test_the_way_of_a_row_to_the_judge_is_at_most_12_calls_deep() -> None:
    deepest = {"caller": 0, "loop": 0}

    async def judge(messages: Any) -> str:
        deepest["loop"] = max(deepest["loop"], depth_of_package_frames(sys._getframe()))
        while "finished.get" not in line_of(caller := sys._current_frames()[threading.main_thread().ident or 0]):
            await asyncio.sleep(0.01)  # it may be reading rows or showing notices
        deepest["caller"] = max(deepest["caller"], depth_of_package_frames(caller))
        task = messages[1]["content"]
        if "TP" in task:
            return '{"TP": ["a"], "FP": [], "FN": []}'
        return '{"statements": ["a"]}'

    row = TextRow("Which letter?", "a", references=["a"])
    run = evaluate_texts([row], ["AnswerCorrectness"], judge)
    assert run.scores("AnswerCorrectness") == [1.0]
    assert deepest["loop"] > 5 and deepest["caller"] > 1
    assert deepest["loop"] + deepest["caller"] <= 12, deepest


def test_metrics_of_several_questions_are_the_same_protocol() -> None:
    class Two(LLMMetric):
        name, low, high = "two", 0, 1e9

        async def score(self, row: int, ask: Any) -> float:
            return float(await ask(about(row)) + await ask(about(row + 1)))

    run = run_judge(range(3), [Two(), RATE], echo)
    assert run.scores("two") == [1.0, 3.0, 5.0] and run.scores("q") == [0.0, 1.0, 2.0]
