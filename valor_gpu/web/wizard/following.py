"""What a page shows of a file that a process reads, and that it follows the reading."""

from __future__ import annotations

from typing import Any

from valor_gpu.pages import numbers
from valor_gpu.web.processes.live_run import POLL, REFRESH
from valor_gpu.web.processes.readings import Reading
from valor_gpu.web.routes import Ask


def follow(ask: Ask, reading: Reading | None, is_upload: bool = False) -> dict[str, Any]:
    """What templates get of a reading.

    Args:
        ask: of the page.
        reading: that goes on; None where there is none, or another server makes it.
        is_upload: whether the page waits for an upload, and has nothing else to show.
    """
    follows = (is_upload or reading is not None) and "still" not in ask.query
    said = None if reading is None else {"name": reading.name, "done": reading.offset, "total": reading.size,
                                         "percent": _percent(reading), "words": words_of(reading)}  # fmt: skip
    return {"reading": said, "is_upload": is_upload, "poll": POLL if follows else None,
            "refresh": REFRESH if follows else None}  # fmt: skip


def _percent(reading: Reading) -> str:
    return f"{min(reading.offset / max(reading.size, 1), 1.0):.0%}"


def words_of(reading: Reading) -> str:
    """How far a reading is, in words.

    Example:
        >>> from types import SimpleNamespace
        >>> words_of(SimpleNamespace(offset=1 << 20, size=150 << 20, rows=30_000))
        '1.0 of 150.0 MB, 30,000 rows so far'
    """
    rows = f", {numbers.count(reading.rows)} rows so far" if reading.rows else ""
    return f"{reading.offset / (1 << 20):.1f} of {reading.size / (1 << 20):.1f} MB{rows}"
