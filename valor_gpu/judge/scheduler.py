"""One scheduler for all metrics of a run: it asks, waits, retries, repairs, remembers, and loses nothing."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from valor_gpu.errors import ValorError
from valor_gpu.judge.cache import JudgeCache, cache_key
from valor_gpu.judge.limits import FATAL, Gate, Limits, Window
from valor_gpu.judge.metric import Question
from valor_gpu.judge.parse import NotApplicable, ParseError, repair_messages
from valor_gpu.judge.protocol import Judge, JudgeError, Judgement, Messages, Reply, Schema, Status, Usage, as_judge

T = TypeVar("T")
_FINISHED = {
    "length": (Status.TRUNCATED, "the reply was cut off at the limit of its tokens"),
    "model_length": (Status.TRUNCATED, "the reply was cut off at the length of the model's context"),
    "content_filter": (Status.CONTENT_FILTER, "the server's content filter withheld the reply"),
    "refusal": (Status.REFUSED, "the judge refused"),
    "tool_calls": (Status.PARSE_ERROR, "the judge called a tool instead of answering"),
    "function_call": (Status.PARSE_ERROR, "the judge called a function instead of answering"),
}


@dataclass
class _Spent:
    """What one question has taken so far."""

    started: float
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
    reply: Reply | None = None


class Scheduler:
    """Asks one judge on behalf of all metrics of a run.

    Args:
        judge: a :class:`Judge`, or a callable from messages to text.
        limits: how it may be asked.
        cache: replies of earlier runs, and of this one.
        seed: of the random waits.
        loop_factory: makes the event loop; all waiting goes by its clock.

    Example:
        >>> scheduler = Scheduler(lambda messages: "4")
        >>> question = Question([{"role": "user", "content": "Rate from 1 to 5."}], int)
        >>> scheduler.run(lambda: scheduler.ask(question)).value
        4
    """

    def __init__(
        self,
        judge: Any,
        limits: Limits | None = None,
        cache: JudgeCache | None = None,
        seed: int | None = None,
        loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
    ) -> None:
        self.judge: Judge = as_judge(judge)
        self.limits = limits or Limits()
        self.cache = cache if self.judge.identity is not None else None
        self._rng = random.Random(seed)
        self._loop_factory = loop_factory
        self.usage = Usage()
        self.attempts = 0
        self._ready: Callable[[], Awaitable[None]] | None = getattr(self.judge, "ready", None)
        self._completion = 256.0  # expected tokens of a reply: a running mean
        self._begin()

    def _begin(self) -> None:
        self._stopped: Judgement | None = None
        most = self.limits.concurrency or int(getattr(self.judge, "concurrency", None) or 8)
        self.gate = Gate(most)
        self._window = Window(self.limits.requests_per_minute, self.limits.tokens_per_minute)
        self._in_flight: dict[bytes, asyncio.Future[None]] = {}

    def stop(self, status: Status = Status.CANCELLED, error: str = "the run was stopped") -> None:
        """Send no more requests: what is in flight ends, all that comes gets ``status``."""
        self._stopped = self._stopped or Judgement(None, status, error=error)

    async def ask(self, question: Question, repeat: int = 0) -> Judgement:
        """What becomes of a question. Only a bug or a cancellation raises.

        Args:
            question: what to ask.
            repeat: 0, 1, ... of a question asked several times; repeats are cached apart.
        """
        identity = self.judge.identity
        if self.cache is None or identity is None:
            return await self._answer(question)
        key = cache_key(identity, question.messages, question.schema, question.prompt, repeat)
        while key in self._in_flight:  # the same question of another row: wait for its reply
            await asyncio.wait([self._in_flight[key]])
        if (stored := self.cache.get(key)) is not None:
            judgement = _parsed(question, stored)
            if judgement.ok:
                return replace(judgement, cached=True)
        done = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            judgement = await self._answer(question)
            if judgement.ok and judgement.reply is not None:
                self.cache.put(key, judgement.reply)
            return judgement
        finally:
            del self._in_flight[key]
            done.set_result(None)

    async def _answer(self, question: Question) -> Judgement:
        """Judgement of a question that was not found in the cache: asks, repairs and asks anew."""
        spent = _Spent(asyncio.get_running_loop().time())
        try:
            for _ in range(1 + self.limits.reasks):
                judgement = await self._repaired(question, spent)
                if judgement.status is not Status.PARSE_ERROR:
                    break
        except JudgeError as error:
            judgement = Judgement(None, error.status, spent.reply, error=str(error))
        seconds = asyncio.get_running_loop().time() - spent.started
        return replace(judgement, attempts=spent.attempts, usage=spent.usage, seconds=seconds)

    async def _repaired(self, question: Question, spent: _Spent) -> Judgement:
        """Judgement of one asking: a reply that cannot be used goes back as often as the limits allow."""
        messages = question.messages
        for repair in range(1 + self.limits.repairs):
            reply = await self._reply(messages, question.schema, spent)
            judgement = _parsed(question, replace(reply, usage=spent.usage))
            if judgement.status is not Status.PARSE_ERROR or repair == self.limits.repairs:
                break
            messages = repair_messages(messages, reply, judgement.error)
        return judgement

    async def _reply(self, messages: Messages, schema: Schema | None, spent: _Spent) -> Reply:
        """A reply, after as many attempts as the limits and the failures allow."""
        retry = 0
        while True:
            if self._stopped is not None:
                raise JudgeError(self._stopped.status, self._stopped.error)
            try:
                return await self._attempt(messages, schema, spent)
            except JudgeError as error:
                if error.retry_now:
                    continue
                retry += 1
                wait = self.limits.wait_before(retry, error, self._rng)
                too_long = error.retry_after is not None and error.retry_after > self.limits.longest_wait
                if error.status in FATAL or too_long:
                    self.stop(error.status, f"an earlier request failed: {error}")
                if wait is None:
                    raise
            await asyncio.sleep(wait)

    async def _attempt(self, messages: Messages, schema: Schema | None, spent: _Spent) -> Reply:
        async with self.gate:
            if self._ready is not None:
                await self._ready()
            entry = await self._window.enter(self._estimate(messages))
            started = asyncio.get_running_loop().time()
            if self._stopped is not None:
                raise JudgeError(self._stopped.status, self._stopped.error)
            spent.attempts += 1
            self.attempts += 1
            try:
                reply = await asyncio.wait_for(self.judge(messages, schema), self.limits.timeout)
            except asyncio.TimeoutError as error:
                raise JudgeError(Status.TIMEOUT, f"no reply within {self.limits.timeout:g} s") from error
            except JudgeError as error:
                if error.status is Status.RATE_LIMITED and (error.retry_after or 0.0) <= self.limits.longest_wait:
                    self.gate.overloaded(started, error.retry_after or 0.0)
                raise
            except ValorError:  # a missing package, a wrong argument: the same for every question
                raise
            except Exception as error:
                message = f"the judge raised {type(error).__name__}: {error}"
                raise JudgeError(Status.JUDGE_ERROR, message, max_retries=0) from error
            self._count(reply, entry, spent)
            return reply

    def _estimate(self, messages: Messages) -> float:
        if self.limits.tokens_per_minute is None:
            return 0.0
        # Four characters a token is usual for English.
        return sum(len(str(message.get("content", ""))) for message in messages) / 4 + self._completion

    def _count(self, reply: Reply, entry: list[float], spent: _Spent) -> None:
        self.gate.succeeded()
        spent.reply = reply
        spent.usage += reply.usage
        self.usage += reply.usage
        if reply.usage.total:
            self._completion += 0.1 * (reply.usage.completion - self._completion)
            self._window.correct(entry, float(reply.usage.total))

    async def each(self, jobs: Iterable[Callable[[], Awaitable[None]]]) -> float:
        """Run ``jobs``, so many at a time that the gate is never idle, and give the seconds that took.

        The first job that raises ends all.
        """
        left, started = iter(jobs), asyncio.get_running_loop().time()

        async def work() -> None:
            for job in left:
                await job()

        workers = [asyncio.ensure_future(work()) for _ in range(2 * self.gate.most)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return asyncio.get_running_loop().time() - started

    def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """The result of ``main()`` in an event loop of its own; in a thread when one runs here already (Jupyter).

        An interrupt cancels everything that is under way and then raises as usual.
        """
        self._begin()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._run_here(main, [])
        return self._run_in_thread(main)

    def _run_here(self, main: Callable[[], Awaitable[T]], running: list[Callable[[], object]]) -> T:
        loop = self._loop_factory()

        async def body() -> T:
            try:
                return await main()
            finally:
                if (close := getattr(self.judge, "aclose", None)) is not None:
                    await close()

        task = loop.create_task(body())
        running.append(lambda: loop.call_soon_threadsafe(task.cancel))
        try:
            with _interrupt_cancels(loop, task) as interrupts:
                try:
                    return loop.run_until_complete(task)
                except asyncio.CancelledError:
                    if interrupts:
                        raise KeyboardInterrupt from None
                    raise
        finally:
            _drain(loop)

    def _run_in_thread(self, main: Callable[[], Awaitable[T]]) -> T:
        outcome: list[T] = []
        errors: list[BaseException] = []
        running: list[Callable[[], object]] = []
        ended = threading.Event()  # an interrupted Thread.join cannot be called again before Python 3.13

        def work() -> None:
            try:
                outcome.append(self._run_here(main, running))
            except BaseException as error:
                errors.append(error)
            finally:
                ended.set()

        threading.Thread(target=work, name="valor_gpu judge run", daemon=True).start()
        try:
            ended.wait()
        except KeyboardInterrupt:
            for cancel in running:
                cancel()
            ended.wait()
            raise
        if errors:
            raise errors[0]
        return outcome[0]


@contextmanager
def _interrupt_cancels(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> Iterator[list[int]]:
    """Let the first Ctrl-C cancel ``task`` instead of breaking into whatever runs; the second one breaks in."""
    interrupts: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        interrupts.append(number)
        if len(interrupts) > 1:
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(task.cancel)

    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupts
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _drain(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is left in a loop, wait for it, close the loop."""

    async def cancelled() -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await loop.shutdown_asyncgens()

    try:
        loop.run_until_complete(cancelled())
    finally:
        loop.close()


def _parsed(question: Question, reply: Reply) -> Judgement:
    """The judgement that a reply is."""
    if reply.finish_reason in _FINISHED:
        status, error = _FINISHED[reply.finish_reason]
        return Judgement(None, status, reply, error=error)
    try:
        return Judgement(question.parse(reply.text), Status.OK, reply)
    except NotApplicable as error:
        return Judgement(None, Status.NOT_APPLICABLE, reply, error=str(error))
    except ParseError as error:
        return Judgement(None, Status.PARSE_ERROR, reply, error=str(error))
    except Exception as error:  # whatever the user's parser does with this reply
        message = f"the reply could not be parsed: {type(error).__name__}: {error}"
        return Judgement(None, Status.PARSE_ERROR, reply, error=message)
