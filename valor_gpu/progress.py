"""Lines on a terminal that say how far some work is."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

_CLEAR_REST = "\x1b[K"
CLEAR = f"\r{_CLEAR_REST}"
"""Empties the line of a terminal on which the cursor is."""
_BAR = 20
_PATIENCE = 0.5  # seconds of work before anything is shown
_TICK = 0.1  # seconds


def bar(done: int, total: int, width: int, rest: str) -> str:
    """Returns a bar of ``width`` characters: ``#`` for the part that is done, ``rest`` for the others.

    Example:
        >>> bar(3, 4, 8, "-")
        '[######--]'
    """
    return f"[{'#' * (width * done // max(total, 1)):{rest}<{width}}]"


class Line:
    """A line of a terminal that is written over and over; another stream keeps all that was written.

    Args:
        stream: where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._width = stream, 0

    def show(self, text: str) -> None:
        """Writes ``text`` over the line."""
        rest = _CLEAR_REST if self._stream.isatty() else " " * (self._width - len(text))
        self._write(f"\r{text}{rest}")
        self._width = len(text)

    def clear(self) -> None:
        """Empties the line, if anything was shown."""
        if self._width:
            self._write(CLEAR)

    def end(self) -> None:
        """Goes to the next line, if anything was shown."""
        if self._width:
            self._write("\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


class Progress:
    """Shows which step of several is at work, and for how long; only on a terminal, and only if it takes a while.

    Args:
        steps: how many there are.
        stream: where to; nothing is shown unless it is a terminal.
        enabled: False: show nothing.
        patience: seconds before the line appears.

    Example:
        >>> import sys
        >>> with Progress(2, sys.stderr) as progress:
        ...     progress.step("reading")
        ...     progress.step("matching")
    """

    def __init__(self, steps: int, stream: TextIO, enabled: bool = True, patience: float = _PATIENCE) -> None:
        self._steps, self._line = steps, Line(stream)
        self._enabled = enabled and stream.isatty()
        self._patience = patience
        self._done, self._name = -1, ""
        self._start = time.monotonic()

    def step(self, name: str) -> None:
        """Begins the next step."""
        self._done, self._name = self._done + 1, name

    def rename(self, name: str) -> None:
        """Gives the step at work another name, as when a part of it is done."""
        self._name = name

    def __enter__(self) -> Progress:
        if self._enabled:
            import threading  # here, since most runs draw nothing

            self._finished = threading.Event()
            self._thread = threading.Thread(target=self._keep_drawing, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._enabled:
            self._finished.set()
            self._thread.join()
            self._line.clear()

    def _keep_drawing(self) -> None:
        if self._finished.wait(self._patience):
            return
        while True:
            self._line.show(self._text())
            if self._finished.wait(_TICK):
                return

    def _text(self) -> str:
        done = max(self._done, 0)
        seconds = time.monotonic() - self._start
        return f"{bar(done, self._steps, _BAR, '-')} {done + 1}/{self._steps} {self._name}  {seconds:.1f} s"
