"""Messages of loggers in tests. The plugin of pytest is off: before each test it would visit all loggers of torch."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO


class Strict(logging.Handler):
    """Writes level, name and message, and raises where a message does not fit its arguments.

    Args:
        stream: gives where to write.
    """

    def __init__(self, stream: Callable[[], TextIO]) -> None:
        super().__init__()
        self._stream = stream
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._stream().write(self.format(record) + "\n")


def be_strict() -> None:
    """Lets every bad call of a logger that is shown raise, in all tests."""
    logging.getLogger().addHandler(Strict(lambda: sys.stderr))


@contextmanager
def logged(level: int) -> Iterator[io.StringIO]:
    """Yields the text of all messages that reach the root logger from ``level`` on, with tracebacks."""
    text, root = io.StringIO(), logging.getLogger()
    handler, before, disabled = Strict(lambda: text), root.level, root.manager.disable
    root.addHandler(handler)
    root.setLevel(level)
    logging.disable(logging.NOTSET)
    try:
        yield text
    finally:
        logging.disable(disabled)
        root.setLevel(before)
        root.removeHandler(handler)
