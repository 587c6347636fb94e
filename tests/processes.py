"""Processes that tests kill, and waits for what the system does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def wait_for(condition: Callable[[], bool]) -> None:
    """Returns once ``condition`` holds; fails after two minutes."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Returns False for a process that is gone, or dead although nobody has waited for it."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
