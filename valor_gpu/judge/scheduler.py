"""One scheduler for all metrics of a run: it asks, waits, retries, repairs and remembers replies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any
from weakref import WeakKeyDictionary

from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.judge.cache import JudgeCache, cache_key
from valor_gpu.judge.calls import UNRECORDED, Call, begin_call
from valor_gpu.judge.causes import Causes
from valor_gpu.judge.held_loop import notices_of
from valor_gpu.judge.judgements import is_cancelled, judgement_of, raised
from valor_gpu.judge.limits import RETRIED, Gate, Limits, TokenEstimate, Window
from valor_gpu.judge.metric import Question
from valor_gpu.judge.parse import repair_messages
from valor_gpu.judge.protocol import (
    Judge,
    JudgeError,
    Judgement,
    Messages,
    Reply,
    Schema,
    Status,
    Usage,
    as_judge,
)
from valor_gpu.judge.replies import Replies
from valor_gpu.judge.retries import GivenUp, Retries, Trial, pause
from valor_gpu.judge.room import PLACE

PATIENCE = 5.0  # seconds that the judge gets to close its connections
MAX_ADAPTIONS = 20  # times that a judge may change its parameters within one question
_SESSIONS: WeakKeyDictionary[asyncio.AbstractEventLoop, Counter[int]] = WeakKeyDictionary()
"""Sessions that use a judge (by its id) in an event loop: the last one closes the judge's connections."""


@dataclass
class _Spent:
    """What one question has taken so far."""

    started: float
    key: bytes = b""
    attempts: int = 0
    usage: Usage = field(default_factory=Usage)
    reply: Reply | None = None
    adaptions: int = 0
    dropped: tuple[str, ...] = ()
    call: Call = UNRECORDED


_ANSWERED = frozenset((Status.TRUNCATED, Status.CONTENT_FILTER, Status.REFUSED))
"""Failures that are a reply: the server is there."""


class Scheduler:
    """Asks one judge on behalf of all metrics of a run, within ``async with``.

    A scheduler serves one run at a time; threads that judge at the same time need one each.

    Args:
        judge: a :class:`Judge`, or a callable from messages to text.
        limits: how it may be asked.
        cache: replies of earlier runs, and of this one. Not used for a judge without ``identity``.
        seed: of the random waits.

    Attributes:
        usage: tokens of the run.
        attempts: requests of the run.
        in_flight: requests that wait for a reply now.
        stopped: why the run asks no more; None while it asks.
        dropped: parameters that requests of the run were sent without.
        causes: failures that all requests would share.

    Example:
        >>> async def main():
        ...     async with Scheduler(lambda messages: "4") as scheduler:
        ...         return await scheduler.ask(Question([{"role": "user", "content": "Rate from 1 to 5."}], int))
        >>> asyncio.run(main()).value
        4
    """

    gate: Gate

    def __init__(
        self,
        judge: Any,
        limits: Limits | None = None,
        cache: JudgeCache | None = None,
        seed: int | None = None,
    ) -> None:
        self.judge: Judge = as_judge(judge)
        self.limits = limits or Limits()
        self.cache = cache if self.judge.identity is not None else None
        self.concurrency = self.limits.concurrency or int(getattr(self.judge, "concurrency", None) or 8)
        self._rng = random.Random(seed)
        self._in_use = threading.Lock()
        self._served = False
        self._reset()

    def _reset(self) -> None:
        """Forgets the run before: a scheduler may serve one after the other."""
        self.usage, self.attempts, self.in_flight = Usage(), 0, 0
        self.stopped: Judgement | None = None
        self.dropped: dict[str, None] = {}
        self.gate = Gate(self.concurrency)
        self._window = Window(self.limits.requests_per_minute, self.limits.tokens_per_minute)
        self._estimate = TokenEstimate()
        self.replies = Replies(self.cache)
        probes = getattr(self.judge, "probes", True)
        own = getattr(self.judge, "probe_messages", None)
        self.retries = Retries(self.limits, self._rng, lambda: int(self.gate.limit), probes, own)
        self.causes = Causes(self.limits)

    async def __aenter__(self) -> Scheduler:
        if not self._in_use.acquire(blocking=False):
            raise InputError("scheduler must serve one run at a time but another run uses it: make one for each")
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._sending = asyncio.Lock()
        if self._served:
            self._reset()
        self._served = True
        _SESSIONS.setdefault(self._loop, Counter())[id(self.judge)] += 1
        self.replies.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.retries.stop()
            await self.replies.stop()
            sessions = _SESSIONS[self._loop]
            sessions[id(self.judge)] -= 1
            if not sessions[id(self.judge)] and (close := getattr(self.judge, "aclose", None)) is not None:
                with contextlib.suppress(Exception):  # the results are there
                    await asyncio.wait_for(close(), PATIENCE)
        finally:
            self._in_use.release()

    def stop(self, status: Status = Status.CANCELLED, error: str = "the run was stopped") -> None:
        """Sends no more requests: what is in flight ends, everything later gets ``status`` and ``error``.

        May be called from any thread, for example by ``progress``.
        """
        if self.stopped is None:
            self.stopped = Judgement(None, status, error=error)
            if self._in_use.locked():
                self._loop.call_soon_threadsafe(self._halt)

    def _halt(self) -> None:
        self._stop.set()
        self.retries.release()

    async def ask(self, question: Question, repeat: int = 0) -> Judgement:
        """Judgement of one question: by a reply that is known already, or by asking.

        Only a cancellation or a bug raises.

        Args:
            question: what to ask.
            repeat: 0, 1, ... of a question that is asked several times; repeats are cached apart.
        """
        if not self._in_use.locked() or asyncio.get_running_loop() is not self._loop:
            raise InputError("ask must be called within `async with scheduler`, in its event loop")
        spent = _Spent(self._loop.time(), call=begin_call(question.messages))
        ended = spent.call.ended
        while True:
            try:
                spent.dropped = self._dropped(question.schema)
                key = spent.key = self.key(question, repeat, spent.dropped)
            except InputError as error:
                return ended(Judgement(None, Status.BAD_REQUEST, error=str(error)))
            async with self.replies.only_one(key):
                if (failed := self.replies.given_up(key)) is not None:
                    return ended(failed)
                known = await self.replies.find(
                    key, lambda reply: judgement_of(question, reply, self.judge), lambda: self.stopped is not None
                )
                if known is not None and known.reply is not None:
                    self.dropped.update(dict.fromkeys(known.reply.dropped))
                    return ended(known)
                try:
                    judgement = await self._answer(question, spent)
                    if judgement.ok and (reply := judgement.reply) is not None:
                        changed = reply.dropped != spent.dropped
                        self.replies.keep(self.key(question, repeat, reply.dropped) if changed else key, reply)
                    return ended(judgement)
                except JudgeError:
                    continue  # the judge drops a parameter from now on: the reply may be known under another key
                finally:
                    self.replies.release(key)

    def _dropped(self, schema: Schema | None) -> tuple[str, ...]:
        """Parameters that a request with ``schema`` would now be sent without."""
        dropped = getattr(self.judge, "dropped", None)
        return () if dropped is None else tuple(dropped(schema))

    def key(self, question: Question, repeat: int, dropped: tuple[str, ...]) -> bytes:
        """Cache key of a question that is asked without the parameters ``dropped``."""
        identity = self.judge.identity
        try:
            return cache_key(identity or {}, question.messages, question.schema, question.prompt, repeat, dropped)
        except InputError:
            if identity is not None:
                raise
            return os.urandom(32)  # a callable may take messages that JSON cannot express: no two are equal

    async def _answer(self, question: Question, spent: _Spent) -> Judgement:
        """Asks; sends back replies that cannot be used, and puts the question anew, as often as the limits allow.

        Raises:
            JudgeError: with ``retry_now``, before any reply.
        """
        messages, tries = question.messages, 1 + self.limits.repairs
        self.retries.opened()
        try:
            for number in range(1, tries * (1 + self.limits.reasks) + 1):
                reply = await self._reply(messages, question.schema, spent)
                judgement = judgement_of(question, replace(reply, usage=spent.usage), self.judge)
                if judgement.status is not Status.PARSE_ERROR:
                    break
                spent.call.unreadable(judgement)
                anew = number % tries == 0
                messages = question.messages if anew else repair_messages(messages, reply, judgement.error)
            self.causes.clear()
        except JudgeError as error:
            if error.retry_now and spent.reply is None and spent.adaptions < MAX_ADAPTIONS:
                raise
            self._count_failure(error)
            judgement = Judgement(None, error.status, spent.reply, error=str(error))
            if isinstance(error, GivenUp):
                self.replies.give_up(spent.key, judgement)
        finally:
            self.retries.closed()
        seconds = self._loop.time() - spent.started
        return replace(judgement, attempts=spent.attempts, usage=spent.usage, seconds=seconds)

    def _count_failure(self, error: JudgeError) -> None:
        """Stops the run by a failure that every later request would share."""
        if self.stopped is None and (reason := self.causes.stop_by(error, self.retries.replies > 0)) is not None:
            self.stop(error.status, reason)

    async def _reply(self, messages: Messages, schema: Schema | None, spent: _Spent) -> Reply:
        """A reply, after as many attempts as the limits and the failures allow.

        Raises:
            JudgeError: there is none; with ``retry_now`` when the judge has adapted itself before its first reply.
        """
        with self.retries.trial() as trial:
            while True:
                if self.stopped is not None:
                    raise JudgeError(self.stopped.status, self.stopped.error)
                try:
                    reply = await self._attempt(messages, schema, spent)
                    spent.call.replied(reply)
                    return reply
                except JudgeError as error:
                    spent.call.failed(error)
                    if error.retry_now:
                        spent.adaptions += 1
                        if spent.reply is None or spent.adaptions >= MAX_ADAPTIONS:
                            raise
                        continue
                    failure = error
                await self._wait_after(trial, failure, spent)

    async def _wait_after(self, trial: Trial, failure: JudgeError, spent: _Spent) -> None:
        """Waits until a request that failed is to be sent again; its row makes room for others meanwhile.

        Raises:
            JudgeError: it is not to be sent again.
        """

        async def ask(messages: Messages, schema: Schema | None) -> None:
            probe = _Spent(self._loop.time(), dropped=self._dropped(schema))
            try:
                await self._attempt(messages, schema, probe)
            finally:
                spent.attempts += probe.attempts
                spent.usage += probe.usage

        place, since = PLACE.get(), self._loop.time()
        with self.replies.held(spent.key), place.held() if place is not None else contextlib.nullcontext():
            await self.retries.after(trial, failure, ask, self._stop)
        if place is not None:
            await place.regain()
        spent.call.waited(self._loop.time() - since)

    async def _attempt(self, messages: Messages, schema: Schema | None, spent: _Spent) -> Reply:
        """One request: waits for its turn, sends it, and tells the gate how it went."""
        async with self.gate:
            characters = sum(len(str(message.get("content", ""))) for message in messages)
            entry = await self._turn(characters, schema, spent)
            started = self._loop.time()
            spent.call.sent(messages)
            spent.attempts += 1
            self.attempts += 1
            self.in_flight += 1
            try:
                if sys.version_info >= (3, 11):
                    async with asyncio.timeout(self.limits.timeout):
                        reply = await self.judge(messages, schema)
                else:
                    reply = await asyncio.wait_for(self.judge(messages, schema), self.limits.timeout)
                self._account(reply, spent)
                self.retries.replied(characters, messages, schema)
            except (JudgeError, MissingExtraError) as error:
                if isinstance(error, JudgeError):
                    self._note_failure(error, started)
                raise
            except asyncio.TimeoutError as error:
                raise JudgeError(Status.TIMEOUT, f"no reply within {self.limits.timeout:g} s") from error
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                raise JudgeError(Status.JUDGE_ERROR, "the judge cancelled itself", max_retries=0) from None
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:  # of bindings to other languages, say
                raise raised(error) from error
            finally:
                self.in_flight -= 1
                self.retries.notices.extend(notices_of(self.judge))
            if (tokens := self._estimate.learn(characters, reply.usage)) is not None:
                self._window.correct(entry, tokens)
            return reply

    def _account(self, reply: Reply, spent: _Spent) -> None:
        """Counts a reply; a judge that returned something else than a reply makes it raise."""
        if not isinstance(reply, Reply) or not isinstance(reply.text, str) or not isinstance(reply.finish_reason, str):
            raise InputError(f"a judge must return a Reply with texts but returned {str(reply)[:80]}")
        spent.usage += reply.usage
        self.usage += reply.usage
        spent.reply = reply
        self.dropped.update(dict.fromkeys(reply.dropped))
        self.gate.succeeded()

    async def _turn(self, characters: int, schema: Schema | None, spent: _Spent) -> list[float]:
        """Waits until a request may be sent. Nothing else is awaited between this and the sending.

        Raises:
            JudgeError: the run has stopped; with ``retry_now`` when the judge has dropped a parameter meanwhile, so
                that the reply may be known already.
        """
        if (ready := getattr(self.judge, "ready", None)) is not None:
            try:
                await ready()
            except (JudgeError, MissingExtraError):
                raise
            except Exception as error:
                raise raised(error) from error
        try:
            async with self._sending:  # requests leave in the order in which they came
                await asyncio.sleep(0)  # a reply that arrives in this round of the loop may shut the gate
                return await self._admitted(characters, schema, spent)
        except BaseException:
            getattr(self.judge, "unready", lambda: None)()
            raise

    async def _admitted(self, characters: int, schema: Schema | None, spent: _Spent) -> list[float]:
        while self.stopped is None:
            tokens = self._estimate.of(characters)
            if (wait := max(self.gate.wait(), self._window.wait(tokens))) > 0.0:
                await pause(wait, self._stop)
            elif spent.reply is None and spent.dropped != self._dropped(schema):
                raise JudgeError(Status.BAD_REQUEST, "the judge has dropped a parameter", retry_now=True)
            else:
                return self._window.add(tokens)
        raise JudgeError(self.stopped.status, self.stopped.error)

    def _note_failure(self, error: JudgeError, started: float) -> None:
        """Counts an answer that is no reply to be used; slows down where the server asks for that."""
        if error.status in _ANSWERED:
            self.retries.answered()
        if error.status not in RETRIED or self.limits.too_long(error):
            return
        if error.retry_after is not None:
            self.gate.shut(error.retry_after)
        if error.status is Status.RATE_LIMITED:
            self.gate.overloaded(started)
