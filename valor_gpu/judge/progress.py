"""How far a judge run is, as numbers and as a line on a terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TextIO

from valor_gpu.judge.protocol import Usage
from valor_gpu.judge.scheduler import Scheduler
from valor_gpu.progress import Line, bar

_BAR = 24  # characters
LONGEST_PROBLEM = 100  # characters of a failure on the line


@dataclass(frozen=True)
class Progress:
    """Counts of a run so far.

    Attributes:
        done: judgements made.
        total: judgements to make; None when the number of rows is not known.
        failed: judgements without a value.
        cached: judgements whose replies were known already.
        attempts: requests.
        usage: tokens.
        concurrency: requests that may be in flight now; it falls when the server says 429.
        waiting: questions that wait for another try after a failure.
        problem: message of the latest failure of a request that was to be sent again; empty when there was none.
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


def asked_of(scheduler: Scheduler | None) -> tuple[int, Usage, int, int, str]:
    """Returns the last five numbers of a :class:`Progress`: what a scheduler has asked."""
    if scheduler is None:
        return 0, Usage(), 0, 0, ""
    retries = scheduler.retries
    return scheduler.attempts, scheduler.usage, int(scheduler.gate.limit), retries.waiting, retries.problem


class ProgressBar:
    """One line on a terminal, written over and over: judgements, failures, requests, tokens.

    Args:
        stream: where to; None for stderr.

    Example:
        >>> import io
        >>> out = io.StringIO()
        >>> ProgressBar(out)(Progress(3, 4, 1, 0, 5, Usage(100, 20), 8))
        >>> out.getvalue().strip()
        '[##################      ] 3/4, 1 failed, 0 cached, 5 requests, 120 tokens, 8 at a time'
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._line = Line(stream or sys.stderr)
        self._shown: tuple[int, int] = (-1, 0)

    def __call__(self, progress: Progress) -> None:
        """Shows ``progress``, at most some thousand times per run."""
        total = progress.total
        step = progress.done if total is None else progress.done * 1000 // max(total, 1)
        if (step, progress.waiting) == self._shown:
            return
        self._shown = step, progress.waiting
        text = f"{progress.done}, "
        if total is not None:
            text = f"{bar(progress.done, total, _BAR, ' ')} {progress.done}/{total}, "
        text += f"{progress.failed} failed, {progress.cached} cached, {progress.attempts} requests, "
        text += f"{progress.usage.total} tokens, {progress.concurrency} at a time"
        if progress.waiting:
            problem = " ".join(progress.problem.split())
            short = problem if len(problem) <= LONGEST_PROBLEM else problem[: LONGEST_PROBLEM - 3] + "..."
            text += f", {progress.waiting} wait to be asked again ({short})"
        self._line.show(text)

    def close(self) -> None:
        """End the line."""
        self._line.end()
