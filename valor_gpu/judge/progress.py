"""How far a judge run is, as numbers and as a line on a terminal."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TextIO

from valor_gpu.judge.protocol import Usage


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
    """

    done: int
    total: int | None
    failed: int
    cached: int
    attempts: int
    usage: Usage
    concurrency: int


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
        self._stream = stream or sys.stderr
        self._width = 0
        self._shown = -1

    def __call__(self, progress: Progress) -> None:
        """Shows ``progress``, at most some thousand times per run."""
        total = progress.total
        step = progress.done if total is None else progress.done * 1000 // max(total, 1)
        if step == self._shown:
            return
        self._shown = step
        text = f"{progress.done}, "
        if total is not None:
            text = f"[{'#' * (24 * progress.done // max(total, 1)):<24}] {progress.done}/{total}, "
        text += f"{progress.failed} failed, {progress.cached} cached, {progress.attempts} requests, "
        text += f"{progress.usage.total} tokens, {progress.concurrency} at a time"
        self._stream.write("\r" + text.ljust(self._width))
        self._stream.flush()
        self._width = len(text)

    def close(self) -> None:
        """End the line."""
        if self._width:
            self._stream.write("\n")
