"""A progress line for a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

_BAR = 20
_PATIENCE = 0.5  # seconds of work before anything is shown
_TICK = 0.1  # seconds


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
        self._steps, self._stream = steps, stream
        self._enabled = enabled and stream.isatty()
        self._patience = patience
        self._done, self._name = -1, ""
        self._start = time.monotonic()
        self._shown = False

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
            if self._shown:
                self._stream.write("\r\x1b[K")
                self._stream.flush()

    def _keep_drawing(self) -> None:
        if self._finished.wait(self._patience):
            return
        self._shown = True
        while True:
            self._stream.write(f"\r{self._line()}\x1b[K")
            self._stream.flush()
            if self._finished.wait(_TICK):
                return

    def _line(self) -> str:
        done = max(self._done, 0)
        full = _BAR * done // self._steps
        bar = "#" * full + "-" * (_BAR - full)
        return f"[{bar}] {done + 1}/{self._steps} {self._name}  {time.monotonic() - self._start:.1f} s"
