"""Targets that are asked over the network: paced, retried and slowed down as judges are. No torch."""

from __future__ import annotations

import asyncio
import itertools
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from valor_gpu.checks import check_int
from valor_gpu.evaluation.secrets import Secrets
from valor_gpu.evaluation.targets.base import ERROR, FILTERED, OK, TIMEOUT, Target, TargetAnswer
from valor_gpu.judge.limits import Limits
from valor_gpu.judge.metric import Question
from valor_gpu.judge.protocol import JudgeError, Judgement, Messages, Reply, Schema, Status
from valor_gpu.judge.scheduler import Scheduler

RETRIES = 5
_NEVER = 1e6  # seconds
_STATUSES = {Status.OK: OK, Status.TIMEOUT: TIMEOUT, Status.CONTENT_FILTER: FILTERED}


_ANSWERS = frozenset({"stop", "length", "model_length", "refusal"})
"""Ends of a reply that make an answer: a refusal is one, and so is one that is too long."""


@dataclass(frozen=True)
class AskedReply(Reply):
    """A reply that is an answer.

    Attributes:
        ended: how it ended; its ``finish_reason`` is always ``stop``, so that the scheduler takes it.
        seconds: that the request took.
    """

    ended: str = "stop"
    seconds: float = 0.0


class Asked:
    """What a scheduler asks on behalf of a target: one attempt, bounded in time. A timeout is not tried again.

    Args:
        ask: takes messages, gives the reply.
        timeout: seconds of an attempt.
        judge: whose ``ready``, ``dropped`` and ``aclose`` are used, if it has them.
    """

    probes = False  # nor is an answered row asked again to see whether the server answers
    identity = None  # replies are kept nowhere: a target that is run again shall answer again

    def __init__(self, ask: Callable[[Messages], Any], timeout: float | None, judge: Any) -> None:
        self._ask, self._timeout = ask, timeout
        for name in ("ready", "dropped", "aclose"):
            if hasattr(judge, name):
                setattr(self, name, getattr(judge, name))

    async def __call__(self, messages: Messages, schema: Schema | None = None) -> Reply:
        """Asks once."""
        start = time.perf_counter()
        task = asyncio.ensure_future(self._ask(messages))
        try:
            done, _ = await asyncio.wait([task], timeout=self._timeout)
        finally:
            if not task.done():
                task.cancel()
        if not done:
            raise JudgeError(Status.TIMEOUT, f"no answer within {self._timeout:g} s", max_retries=0)
        reply: Reply = task.result()
        if reply.finish_reason not in _ANSWERS:
            return reply
        seconds = time.perf_counter() - start
        if isinstance(reply, AskedReply):
            return replace(reply, seconds=seconds)
        values = {each.name: getattr(reply, each.name) for each in fields(Reply)} | {"finish_reason": "stop"}
        return AskedReply(**values, ended=reply.finish_reason, seconds=seconds)


class AskedTarget(Target):
    """Base of targets behind a server.

    429, 5xx and lost connections are tried again as the judge's are: with waits that double, or as ``Retry-After``
    says, and with fewer requests at once after a 429. ``timeout`` is of an attempt, so that a wait that the server asks
    for is no timeout.

    Args:
        secrets: get the keys; masked in messages and answers.
        timeout: seconds of an attempt.
        max_concurrency: most requests in flight.
        retries: how often a request is tried again.

    Attributes:
        scheduler: asks the server; None before the first row.
        rejected_before: rows that the server has rejected in the run before it was resumed.
    """

    def __init__(
        self,
        name: str,
        secrets: Secrets,
        timeout: float | None,
        parameters: Mapping[str, Any] | None,
        max_concurrency: int,
        retries: int = RETRIES,
    ) -> None:
        super().__init__(name, secrets, timeout, parameters)
        check_int("retries", retries)
        check_int("max_concurrency", max_concurrency, 1)
        self.attempt_timeout, self.timeout = self.timeout, None
        self.limits = Limits(concurrency=max_concurrency, timeout=_NEVER, transport_retries=retries, repairs=0)
        self.scheduler: Scheduler | None = None
        self.rejected_before = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._numbers = itertools.count()

    @abstractmethod
    def _judge(self) -> Any:
        """What the scheduler asks."""

    async def _ask(self, messages: Messages, parse: Callable[[Any], Any]) -> Judgement:
        """The judgement of a request; ``parse`` makes outputs of the reply."""
        loop = asyncio.get_running_loop()
        if self.scheduler is None or self._loop is not loop:
            self.scheduler, self._loop = Scheduler(self._judge(), self.limits), loop
            self.scheduler.causes.rejected_before = self.rejected_before
            await self.scheduler.__aenter__()  # does not wait for anything, so that one row enters
        # A number of its own for every question: equal rows, and epochs, are asked each for itself.
        return await self.scheduler.ask(Question(messages, parse, whole_reply=True), next(self._numbers))

    def _given(self, judgement: Judgement, cost: float | None = None) -> TargetAnswer:
        """The answer of a row that a judgement is."""
        status = _STATUSES.get(judgement.status, ERROR)
        usage = judgement.usage if judgement.usage.total else None
        outputs = judgement.value if judgement.ok else {}
        seconds = getattr(judgement.reply, "seconds", 0.0)
        return TargetAnswer(outputs, status, "" if judgement.ok else judgement.error, seconds, usage, cost)

    async def close(self) -> None:
        """Closes connections."""
        scheduler, self.scheduler = self.scheduler, None
        if scheduler is not None and self._loop is asyncio.get_running_loop():
            await scheduler.__aexit__(None, None, None)
