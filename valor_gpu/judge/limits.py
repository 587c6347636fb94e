"""How fast a judge may be asked: limits, retries, requests per minute, and the gate that bounds requests in flight.

Time is the clock of the running event loop, so that a loop with a clock of its own makes all of it deterministic.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import dataclass
from types import TracebackType

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.judge.protocol import JudgeError, Status, Usage

WINDOW = 60.0  # seconds
LONGEST_BACKOFF = 60.0  # seconds
LONGEST_REPLY = 200_000  # tokens; what a reply claims beyond that is an error of its server
RETRIED = {Status.RATE_LIMITED, Status.SERVER_ERROR, Status.TIMEOUT, Status.CONNECTION_ERROR}
FATAL = {Status.UNAUTHORIZED, Status.QUOTA}
"""Failures that every later request would share: the run asks no more."""
UNPROVEN_RETRIES = 3
"""Retries where the address is likelier to be wrong than a failure to pass: a server that never answered, say."""


@dataclass(frozen=True)
class Limits:
    """How a judge may be asked, by all metrics of a run together.

    Attributes:
        concurrency: most requests in flight, at least 1; a 429 halves it, replies raise it again. None: the judge's
            own, else 8.
        requests_per_minute: most requests started in any 60 seconds; None for no limit.
        tokens_per_minute: most tokens of any 60 seconds, estimated for requests in flight; None for no limit.
        timeout: seconds that one attempt may take.
        transport_retries: how often a request is sent again after it got no reply: 429, 5xx, timeouts, broken
            connections.
        repairs: how often a reply that cannot be used is sent back to the judge with what is wrong with it.
        reasks: how often the question is put anew after the reply and its repairs could not be used. Only worth it
            for a judge that does not always give the same reply.
        backoff: seconds of the first wait; it doubles with every retry up to 60, and a random part of it is waited.
        longest_wait: most seconds to wait because the server asks to. One that asks for more, since a day's
            budget is spent, say, is asked no more in this run.
        prompt_failures: how often a prompt may get no reply while the server answers others, at least 1; then it is
            given up. A 429 does not count, nor does a failure for which the server asks to wait.

    Raises:
        InputError: a number out of range.

    Example:
        >>> Limits(concurrency=4, requests_per_minute=60).transport_retries
        10
    """

    concurrency: int | None = None
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout: float = 120.0
    transport_retries: int = 10
    backoff: float = 2.0
    longest_wait: float = 600.0
    repairs: int = 1
    reasks: int = 0
    prompt_failures: int = 3

    def __post_init__(self) -> None:
        for name in ("transport_retries", "prompt_failures", "repairs", "reasks"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InputError(f"{name} must be an int of at least 0 but got {value!r}")
        if self.prompt_failures < 1:
            raise InputError(f"prompt_failures must be at least 1 but got {self.prompt_failures}")
        for name, value in vars(self).items():
            kind, named = ((int,), "an int") if name == "concurrency" else ((int, float), "a number")
            optional = name in ("concurrency", "requests_per_minute", "tokens_per_minute")
            if (isinstance(value, bool) or not isinstance(value, kind)) and not (optional and value is None):
                raise InputTypeError(f"{name} must be {named}{' or None' if optional else ''} but got {value!r}")
            if optional and value is not None and not value >= 1:
                raise InputError(f"{name} must be at least 1 or None but got {value!r}")
        for name in ("timeout", "longest_wait"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} must be above 0 seconds but got {getattr(self, name)!r}")
        if not self.backoff >= 0:
            raise InputError(f"backoff must be at least 0 but got {self.backoff!r}")

    def wait_before(self, retry: int, error: JudgeError, rng: random.Random) -> float | None:
        """Seconds to wait before retry 1, 2, ...; None when the failure is not to be retried.

        A random part of ``backoff * 2 ** (retry - 1)``, at most 60, but never less than the server asks for; up to a
        quarter more than that, so that not all come back at once.

        Source: "Exponential Backoff And Jitter", AWS Architecture Blog (2015), full jitter.
        """
        retries = self.transport_retries
        if error.max_retries is not None:
            retries = min(retries, error.max_retries)
        if retry > retries or (error.status not in RETRIED and error.max_retries is None):
            return None
        if error.shared_cause is not None or self.too_long(error):
            return None
        own = rng.uniform(0.0, min(LONGEST_BACKOFF, self.backoff * 2.0 ** min(retry - 1, 60)))
        return max(own, (error.retry_after or 0.0) * (1.0 + 0.25 * rng.random()))

    def too_long(self, error: JudgeError) -> bool:
        """Whether the server asks to wait for longer than ``longest_wait`` before it takes any request."""
        return error.status in RETRIED and error.retry_after is not None and error.retry_after > self.longest_wait


class Window:
    """Requests and tokens of the last 60 seconds."""

    def __init__(self, requests: float | None, tokens: float | None) -> None:
        self._requests, self._tokens = requests, tokens
        self._recent: deque[list[float]] = deque()  # [start, tokens]
        self._sum = 0.0

    def wait(self, tokens: float) -> float:
        """Seconds until there is room for a request of ``tokens``; 0 when there is."""
        if self._requests is None and self._tokens is None:
            return 0.0
        now = asyncio.get_running_loop().time()
        while self._recent and self._recent[0][0] + WINDOW <= now:
            self._sum -= self._recent.popleft()[1]
        full = self._requests is not None and len(self._recent) >= int(self._requests)
        # A request greater than the whole budget goes alone: it would wait forever.
        full |= self._tokens is not None and bool(self._recent) and self._sum + tokens > self._tokens
        return self._recent[0][0] + WINDOW - now if full else 0.0

    def add(self, tokens: float) -> list[float]:
        """Records a request that starts now; the entry is for :meth:`correct`."""
        entry = [asyncio.get_running_loop().time(), tokens]
        if self._requests is not None or self._tokens is not None:
            self._recent.append(entry)
            self._sum += tokens
        return entry

    def correct(self, entry: list[float], tokens: float) -> None:
        """Replaces an entry's estimate by what was used."""
        if self._tokens is not None and any(entry is kept for kept in self._recent):
            self._sum += tokens - entry[1]
            entry[1] = tokens


class TokenEstimate:
    """Expected tokens of a request, from its characters and from what earlier replies reported.

    Example:
        >>> estimate = TokenEstimate()
        >>> estimate.of(400)  # 4 characters per token, and 256 tokens for the reply
        356.0
        >>> for _ in range(50):
        ...     _ = estimate.learn(400, Usage(prompt=200, completion=10))
        >>> round(estimate.of(400))
        211
    """

    def __init__(self) -> None:
        self._characters, self._tokens = 400.0, 100.0  # sums that forget: 4 characters per token is usual for English
        self._completion = 256.0

    def of(self, characters: int) -> float:
        """Expected tokens of a request with ``characters`` characters, and of its reply."""
        return characters * self._tokens / self._characters + self._completion

    def learn(self, characters: int, usage: Usage) -> float | None:
        """Corrects the estimate by a reply's usage; returns its tokens, None when they cannot be true.

        A usage that cannot be true (a longer reply than any model gives, or a prompt that no tokenizer makes so many
        tokens of, images allowed for) must neither stall the run nor spoil the estimate.
        """
        max_prompt = 4 * characters + LONGEST_REPLY
        if not (0 <= usage.prompt <= max_prompt and 0 <= usage.completion <= LONGEST_REPLY) or not usage.total:
            return None
        self._characters = 0.8 * self._characters + characters
        self._tokens = max(0.8 * self._tokens + usage.prompt, 1.0)
        self._completion += 0.1 * (usage.completion - self._completion)
        return float(usage.total)


class Gate:
    """Bounds the requests in flight: grows by one per round of replies, is halved by a 429, and can be shut for a time.

    Requests that started before the last halving do not halve again: they met the same overload.

    Source: Chiu and Jain, "Analysis of the increase and decrease algorithms for congestion avoidance" (1989).
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.limit = float(size)
        self.active = 0
        self.peak = 0
        self._shut_until = 0.0
        self._halved_at = -1.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Waits for a slot."""
        if self._waiting or self.active >= int(self.limit):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn in self._waiting:
                    self._waiting.remove(turn)
                elif not turn.cancelled():
                    self._leave()  # the slot had been given already
                raise
        else:
            self.active += 1
        self.peak = max(self.peak, self.active)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        self.active -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self.active < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self.active += 1
                turn.set_result(None)

    def wait(self) -> float:
        """Seconds until the gate opens again; 0 or less when it is open."""
        return self._shut_until - asyncio.get_running_loop().time()

    def shut(self, seconds: float) -> None:
        """Lets no request start for ``seconds`` from now."""
        self._shut_until = max(self._shut_until, asyncio.get_running_loop().time() + seconds)

    def succeeded(self) -> None:
        """A reply came: about one slot more for a whole round of replies."""
        self.limit = min(float(self.size), self.limit + 1.0 / self.limit)
        self._admit()

    def overloaded(self, started: float) -> None:
        """A request that ``started`` then met a 429: halves the slots."""
        if started > self._halved_at:
            self._halved_at = asyncio.get_running_loop().time()
            self.limit = max(1.0, self.limit / 2.0)
