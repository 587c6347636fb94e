"""Captures messages of loggers. The plugin of pytest is off: before each test it would visit all loggers of torch."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def logged(level: int) -> Iterator[io.StringIO]:
    """Yields the text of all messages that reach the root logger from ``level`` on, with tracebacks."""
    text, root = io.StringIO(), logging.getLogger()
    handler, before = logging.StreamHandler(text), root.level
    root.addHandler(handler)
    root.setLevel(level)
    try:
        yield text
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
