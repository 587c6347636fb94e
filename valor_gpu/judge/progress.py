"""How far a judge run is, as numbers and as a line on a terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TextIO

from valor_gpu.judge.protocol import Usage
from valor_gpu.judge.scheduler import Scheduler
from valor_gpu.pages import numbers
from valor_gpu.pages.texts import visible
from valor_gpu.progress import Line, bar

_BAR = 24  # characters
_SHORT_BAR = 12  # characters, on a terminal beside more numbers
LONGEST_PROBLEM = 100  # characters of a failure on the line
_LEAST_PROBLEM = 8  # characters; less of a failure says nothing
_RECENT = 30.0  # seconds that a rate is of
_SAMPLE = 0.25  # seconds between two numbers that a rate is made of
_TICK = 1.0  # seconds after which a line on a terminal is shown anew although nothing has ended


@dataclass(frozen=True)
class Progress:
    """Counts of a run so far.

    Attributes:
        done: judgements made; rows that are done, of an evaluation.
        total: judgements, or rows, to make; None when the number of rows is not known.
        failed: judgements without a value.
        cached: judgements whose replies were known already.
        attempts: requests.
        usage: tokens.
        concurrency: requests that may be in flight now; it falls when the server says 429.
        waiting: questions that wait for another try after a failure.
        problem: message of the latest failure of a request that was to be sent again; empty when there was none.
        in_flight: requests that wait for a reply now.
        seconds: since the run began; of a resumed evaluation with the earlier parts.
        rate: judgements, or rows, a second, of the last 30 seconds; None before the first.
        eta: seconds to the end at this rate; None where rate or total are not known.
        cost: so far; None without prices.
        currency: of the cost, for people; may be empty.
        retries: status to number of the failures after which a request was to be sent again.
        unit: ``judgements`` or ``rows``.
    """

    done: int
    total: int | None
    failed: int
    cached: int
    attempts: int
    usage: Usage
    concurrency: int
    waiting: int = 0
    problem: str = ""
    in_flight: int = 0
    seconds: float = 0.0
    rate: float | None = None
    eta: float | None = None
    cost: float | None = None
    currency: str = ""
    retries: Mapping[str, int] = field(default_factory=dict)
    unit: str = "judgements"


def asked_of(scheduler: Scheduler | None) -> tuple[int, Usage, int, int, str]:
    """Returns attempts, usage, concurrency, waiting and problem of a :class:`Progress`: what a scheduler has asked."""
    if scheduler is None:
        return 0, Usage(), 0, 0, ""
    retries = scheduler.retries
    return scheduler.attempts, scheduler.usage, int(scheduler.gate.limit), retries.waiting, retries.problem


class Pace:
    """Rate of what has been done in the last half minute.

    Example:
        >>> pace = Pace()
        >>> pace.rate(0, now=0.0), pace.rate(5, now=10.0), pace.rate(45, now=35.0)
        (None, 0.5, 1.6)
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[float, int]] = deque()

    def rate(self, done: int, now: float | None = None) -> float | None:
        """Returns how many a second have been done of late; None where none has.

        Args:
            done: since the beginning.
            now: seconds of any clock; None for that of the process.
        """
        now, recent = time.monotonic() if now is None else now, self._recent
        if not recent or now - recent[-1][0] >= _SAMPLE:
            recent.append((now, done))
        while len(recent) > 1 and now - recent[0][0] > _RECENT:
            recent.popleft()
        seconds, new = now - recent[0][0], done - recent[0][1]
        return new / seconds if seconds > 0.0 and new > 0 else None


def time_left(total: int | None, done: int, rate: float | None) -> float | None:
    """Returns the seconds to the end at a rate; None where total or rate are not known."""
    return None if total is None or not rate else max(total - done, 0) / rate


class ProgressBar:
    """One line that is written over and over.

    On a terminal it says how far the run is, its rate, the time left, requests in flight, failures, cost, and what
    waits for another try, as far as there is room. Another stream gets judgements, failures, requests and tokens.

    Args:
        stream: where to; None for stderr.
        width: characters of the terminal; None for what it says.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> ProgressBar(out)(Progress(3, 4, 1, 0, 5, Usage(100, 20), 8))
        >>> out.getvalue().strip()
        '[##################      ] 3/4, 1 failed, 0 cached, 5 requests, 120 tokens, 8 at a time'
    """

    def __init__(self, stream: TextIO | None = None, width: int | None = None) -> None:
        stream = stream or sys.stderr
        self._line, self._is_terminal, self._width = Line(stream), stream.isatty(), width
        self._shown: tuple[int, int] = (-1, 0)
        self._shown_at = -_TICK

    def __call__(self, progress: Progress) -> None:
        """Shows ``progress``, at most some thousand times per run and once a second."""
        total = progress.total
        step = progress.done if total is None else progress.done * 1000 // max(total, 1)
        now = time.monotonic()
        is_old = self._is_terminal and now - self._shown_at >= _TICK
        if (step, progress.waiting) == self._shown and not is_old:
            return
        self._shown, self._shown_at = (step, progress.waiting), now
        if self._is_terminal:
            self._line.show(line_of(progress, self._width or shutil.get_terminal_size().columns))
        else:
            self._line.show(_plain_line(progress))

    def close(self) -> None:
        """End the line."""
        self._line.end()


def line_of(progress: Progress, width: int) -> str:
    """Returns the line of a terminal of ``width`` characters, what matters least left out where it is too long.

    Example:
        >>> line_of(Progress(120, 500, 2, 0, 150, Usage(), 8, 0, "", 8, 39.0, 3.1, 122.6, unit="rows"), 80)
        '[##          ] 120/500 rows 24%, 3.1/s, 2 min left, 8 in flight, 2 failed'
    """
    parts = _parts(progress)
    room = max(width - 1, 1)  # a terminal goes to its next line behind the last character
    shorter = {"waiting": f"{progress.waiting} wait"} if progress.waiting else {}
    for least in ("in_flight", "cost", "rate", "failed", "waiting", "eta"):
        if len(", ".join(parts.values())) <= room:
            break
        parts.update(shorter)
        shorter = {}
        if len(", ".join(parts.values())) > room:
            parts.pop(least, None)
    text = ", ".join(parts.values())
    left = room - len(text) - len(" ()")
    if "waiting" in parts and left >= _LEAST_PROBLEM and (problem := _short(progress.problem, left)):
        text += f" ({problem})"
    return text[:room]


def _parts(progress: Progress) -> dict[str, str]:
    """What a line says, by names."""
    total, done = progress.total, f"{progress.done:,} {progress.unit}"
    if total is not None:
        percent = 100 * progress.done // max(total, 1)
        done = f"{bar(progress.done, total, _SHORT_BAR, ' ')} {progress.done:,}/{total:,} {progress.unit} {percent}%"
    parts: dict[str, str] = {"done": done}
    if progress.rate is not None:
        parts["rate"] = f"{progress.rate:.3g}/s" if progress.rate < 1000 else f"{progress.rate:,.0f}/s"
    if progress.eta is not None and progress.done != total:
        parts["eta"] = f"{numbers.duration(progress.eta, rough=True)} left"
    if progress.in_flight:
        parts["in_flight"] = f"{progress.in_flight} in flight"
    if progress.failed:
        parts["failed"] = f"{progress.failed:,} failed"
    if progress.cost is not None:
        parts["cost"] = numbers.cost(progress.cost, progress.currency)
    if progress.waiting:
        parts["waiting"] = f"{progress.waiting} wait for a retry"
    return parts


def _plain_line(progress: Progress) -> str:
    total, text = progress.total, f"{progress.done}, "
    if total is not None:
        text = f"{bar(progress.done, total, _BAR, ' ')} {progress.done}/{total}, "
    text += f"{progress.failed} failed, {progress.cached} cached, {progress.attempts} requests, "
    text += f"{progress.usage.total} tokens, {progress.concurrency} at a time"
    if progress.waiting:
        text += f", {progress.waiting} wait for a retry ({_short(progress.problem, LONGEST_PROBLEM)})"
    return text


def _short(problem: str, most: int) -> str:
    """A failure in one line of at most so many characters."""
    # A terminal obeys the characters that cannot be seen, and a failure holds what a server said.
    text, most = visible(" ".join(problem.split())), min(most, LONGEST_PROBLEM)
    return text if len(text) <= most else text[: most - 3] + "..."
