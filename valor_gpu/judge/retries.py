"""Requests that failed: which of them are sent again, and when. No torch.

A server that fails for all is waited for. A server that answers others has a quarrel with this one prompt: it is asked
last, and given up after ``Limits.prompt_failures`` failures.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from valor_gpu.judge.limits import RETRIED, Limits
from valor_gpu.judge.protocol import JudgeError, Messages, Schema, Status, describe
from valor_gpu.judge.room import MOST_HELD

MOST_LAST = 512
"""Questions that may wait to be asked last; beyond that the oldest is asked at once."""
SILENCE = 30.0
"""Seconds without a reply after which a run says that it waits for the server."""
_OF_THE_PROMPT = frozenset((Status.SERVER_ERROR, Status.TIMEOUT, Status.CONNECTION_ERROR))
_NO_ANSWER = frozenset((Status.TIMEOUT, Status.CONNECTION_ERROR))
"""Failures that come from a server that is gone as well: an answer to others before them says nothing."""
_UNASKED = 3  # failures of a prompt before a question of our own is asked, where none was answered
_LEAST_SILENT = 4  # failures in a row after which a server counts as silent, and twice the requests in flight

Ask = Callable[[Messages, Schema | None], Awaitable[object]]


class GivenUp(JudgeError):
    """A prompt failed again and again while the server answered others."""


@dataclass
class Trial:
    """Attempts of one request.

    Attributes:
        replies: of the run, before the first attempt or at the last failure.
        failures: attempts that failed.
        alone: failures by an answer of the server, since whose predecessor it answered others.
        unheard: failures without an answer, after which the server answered others.
        put_off: failures without an answer, or by which the server asks to wait, since whose predecessor it answered
            others.
        is_open: whether the last failure had no answer, and nothing has been answered since.
    """

    replies: int
    failures: int = 0
    alone: int = 0
    unheard: int = 0
    put_off: int = 0
    is_open: bool = False

    @property
    def blamed(self) -> int:
        """Most failures of one kind that are of the prompt, since the server answered others."""
        return max(self.alone, self.unheard)

    def heard(self, replies: int) -> bool:
        """Judges the last failure by the number of replies now; returns whether the server has answered others."""
        answered = replies > self.replies
        self.unheard += self.is_open and answered
        self.is_open = self.is_open and not answered
        return answered


class Retries:
    """The failures of a run, and the questions that wait for another try.

    Args:
        limits: of the run.
        rng: of the random waits.
        at_once: gives the number of requests that may be in flight now.
        probes: whether a question that was answered before may be asked again, to see whether a server answers.
        own: question to ask for that where none was answered before, as in a run that is resumed for its failed rows;
            None: none is asked.

    Attributes:
        replies: that have come.
        waiting: questions that wait for another try.
        problem: message of the latest failure.
        problem_at: seconds since 1970 of that failure; None before the first.
        sent_again: status to number of the failures after which a request was to be sent again.
        notices: what the run has to say to its user, each once.
    """

    def __init__(
        self,
        limits: Limits,
        rng: random.Random,
        at_once: Callable[[], int],
        probes: bool = True,
        own: Messages | None = None,
    ) -> None:
        self._limits, self._rng, self._at_once, self._probes, self._own = limits, rng, at_once, probes, own
        self.replies = self.waiting = 0
        self.problem = ""
        self.problem_at: float | None = None
        self.sent_again: dict[str, int] = {}
        self.notices: deque[str] = deque()
        self._open = self._failing = 0  # questions under way, and those of them that have failed before
        self._failed = 0  # failures since the last reply
        self._line: deque[asyncio.Future[None]] = deque()  # of the questions that are asked last
        self._sample: tuple[int, Messages, Schema | None] | None = None
        self._probe: asyncio.Future[None] | None = None
        self._no_probe_before = self._silent_since = -1.0
        self._fresh = 0  # rows that may begin although the server seems to answer nobody
        self._told: set[str] = set()

    def is_silent(self) -> bool:
        """Returns True when the latest requests all failed: the server answers nobody."""
        return self._failed >= max(_LEAST_SILENT, 2 * self._at_once())

    def most_held(self) -> int:
        """Returns the number of rows that may be under way beside those of the window."""
        return self._fresh if self.is_silent() else MOST_HELD

    @contextlib.contextmanager
    def trial(self) -> Iterator[Trial]:
        """Gives the trial of a request that is sent within ``with``."""
        trial = Trial(self.replies)
        try:
            yield trial
        finally:
            self._failing -= trial.failures > 0

    def opened(self) -> None:
        """Counts a question that begins to be asked."""
        self._open += 1

    def closed(self) -> None:
        """Counts a question that has ended."""
        self._open -= 1
        self._call()

    def replied(self, characters: int, messages: Messages, schema: Schema | None) -> None:
        """Counts a reply to a request of ``characters``."""
        self.answered()
        if self._probes and (self._sample is None or characters < self._sample[0]):
            self._sample = characters, messages, schema

    def answered(self) -> None:
        """Counts an answer, also one that is no reply to be used: the server is there."""
        self.replies += 1
        self._failed = self._fresh = 0

    async def after(self, trial: Trial, error: JudgeError, ask: Ask, stop: asyncio.Event) -> None:
        """Waits until a request that failed is to be sent again.

        Args:
            trial: of the request.
            error: the failure.
            ask: sends a request and counts its reply.
            stop: set when the run asks no more.

        Raises:
            JudgeError: ``error``, when the request is not sent again.
            GivenUp: the server answers others, but not this prompt.
        """
        trial.failures += 1
        self._failing += trial.failures == 1
        self._failed += error.status in RETRIED
        wait = self._limits.wait_before(trial.failures, error, self._rng)
        if wait is None or stop.is_set():
            raise error
        self.waiting += 1
        try:
            self._note(error)
            self._call()
            answered = trial.heard(self.replies)
            if error.status not in _OF_THE_PROMPT or error.retry_after is not None:
                trial.put_off += answered
                trial.replies = self.replies
            elif await self._blame(trial, error, ask):
                wait = min(wait, self._limits.wait_before(trial.alone, error, self._rng) or 0.0)
            self._give_up(trial, error)
            await pause(wait, stop)
        finally:
            self.waiting -= 1
        if stop.is_set():
            return
        trial.heard(self.replies)
        self._give_up(trial, error)
        most = 1 if error.status is Status.TIMEOUT else 2
        if max(trial.blamed, trial.put_off) >= most:
            await self._turn()
            trial.heard(self.replies)
            self._give_up(trial, error)

    async def _blame(self, trial: Trial, error: JudgeError, ask: Ask) -> bool:
        """Finds out whether the server answers others: then it need not be spared by long waits.

        A failure without an answer counts by what is answered after it, since the server may be gone.
        """
        before, had_answer = self.replies, error.status not in _NO_ANSWER
        is_unclear = not had_answer or before == trial.replies
        if trial.failures > 1 and is_unclear and self._failing == self._open:
            is_there = error.status is not Status.CONNECTION_ERROR
            await self._ask_again(ask, is_there and trial.failures >= _UNASKED)
        answers = self.replies > trial.replies
        if had_answer:
            trial.alone += answers
            trial.replies = self.replies
            return answers
        trial.put_off += answers
        trial.replies, trial.is_open = before, True
        trial.heard(self.replies)
        return False

    def _give_up(self, trial: Trial, error: JudgeError) -> None:
        """Raises GivenUp for a prompt that failed often enough while the server answered others."""
        if trial.blamed < self._limits.prompt_failures:
            return
        others = f"failed {trial.blamed} times while the server answered others"
        self._tell(
            "given up",
            f"a prompt {others}, and is given up: {error}. Its score is missing; a resumed run asks again",
        )
        raise GivenUp(error.status, f"{error} ({others})")

    async def _ask_again(self, ask: Ask, may_own: bool) -> None:
        """Asks the shortest question that was answered before, or one of our own: nothing under way would tell.

        Where none may be asked, another row begins.
        """
        loop = asyncio.get_running_loop()
        is_asked = self._probe is not None and not self._probe.done()
        if not is_asked and loop.time() < self._no_probe_before:
            return
        question: tuple[Messages, Schema | None]
        if self._sample is not None:
            question = self._sample[1:]
        elif self._own is not None and may_own:
            question = self._own, None
        else:
            self._fresh += 1
            self._no_probe_before = loop.time() + self._limits.backoff
            return
        if self._probe is None or self._probe.done():
            self._probe = asyncio.ensure_future(self._look(ask, *question))
        await asyncio.wait([self._probe])

    async def _look(self, ask: Ask, messages: Messages, schema: Schema | None) -> None:
        try:
            await ask(messages, schema)
        except Exception:  # the server is down; the next failure looks again
            self._no_probe_before = asyncio.get_running_loop().time() + self._limits.backoff

    async def stop(self) -> None:
        """Ends what waits."""
        self.release()
        if self._probe is not None:
            self._probe.cancel()
            await asyncio.gather(self._probe, return_exceptions=True)

    async def _turn(self) -> None:
        """Waits until hardly anything else is under way, or too many wait."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        self.waiting += 1
        self._call()
        try:
            await turn
        except asyncio.CancelledError:
            if turn in self._line:
                self._line.remove(turn)
                self.waiting -= 1
            raise

    def _call(self) -> None:
        """Lets the first ones of the line go on when it is their turn."""
        while self._line and (len(self._line) > MOST_LAST or self._open - self.waiting < max(1, self._at_once() // 2)):
            self._next()

    def _next(self) -> None:
        turn = self._line.popleft()
        self.waiting -= 1
        if not turn.done():
            turn.set_result(None)

    def release(self) -> None:
        """Lets everything in the line go on."""
        while self._line:
            self._next()

    def _note(self, error: JudgeError) -> None:
        """Remembers a failure, and says so when the server has answered nobody for long."""
        self.problem = describe(error) if not str(error) else str(error)
        self.problem_at = time.time()
        status = error.status.value
        self.sent_again[status] = self.sent_again.get(status, 0) + 1
        now = asyncio.get_running_loop().time()
        if self._failed <= 1 or self._silent_since < 0.0:
            self._silent_since = now
        elif self._failed >= _LEAST_SILENT and now - self._silent_since >= SILENCE:
            tries = 1 + self._limits.transport_retries
            self._tell(
                "silent",
                f"the server has answered nothing for {now - self._silent_since:.0f} seconds: {error}. "
                f"Each request is sent up to {tries} times",
            )

    def _tell(self, what: str, message: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self.notices.append(message)


async def pause(seconds: float, stop: asyncio.Event) -> None:
    """Sleeps for ``seconds``, or until the run asks no more."""
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
