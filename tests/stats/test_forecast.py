"""What is said of time and memory before intervals are made, and that an interrupted bootstrap leaves nothing."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.logs import logged
from valor_gpu.result import Result, Signature
from valor_gpu.stats import forecast
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.resample import Resampled, intervals_of


class Rows(Resampled):
    """Rows whose replicates take a time that the test sets."""

    units, chunk = 30, 10

    def __init__(self, clock: Clock | None = None, seconds: float = 0.0, size: int = 300) -> None:
        self._clock, self._seconds, self._size = clock, seconds, size
        self.interrupt_at: int | None = None

    def replicates(self, draws: Draws) -> dict[str, Any]:
        if self.interrupt_at is not None and draws.first >= self.interrupt_at:
            raise KeyboardInterrupt("stopped")
        if self._clock is not None:
            self._clock.now += self._seconds * draws.count
        return {"mean": (np.arange(30)[:, None] * draws.array()).mean(0)}

    def portion_bytes(self) -> int:
        return self._size


class Clock:
    """A clock that stands still unless it is set."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(forecast, "time", made)
    monkeypatch.delenv("RANK", raising=False)
    return made


@pytest.mark.parametrize(
    ("seconds", "size", "expected"),
    [
        (0.009, 100_000_000, []),
        (0.02, 300, ["100 replicates of 30 rows take about 2 s"]),
        (9.0, 300, ["100 replicates of 30 rows take about 15 min"]),
        (0.0, 2_340_000_000, ["100 replicates of 30 rows take about 2.3 GB of memory"]),
        (
            *(0.5, 100_900_000),
            [
                "100 replicates of 30 rows take about 101 MB of memory",
                "100 replicates of 30 rows take about 50 s",
            ],
        ),
    ],
)
def test_time_and_memory_are_said_above_a_second_and_100_mb(
    clock: Clock, seconds: float, size: int, expected: list[str]
) -> None:
    with logged(logging.INFO) as text:
        intervals_of({"mean": 14.5}, Rows(clock, seconds, size), Bootstrap(100, method="normal"))
    assert text.getvalue().splitlines() == [f"INFO valor_gpu.stats.forecast: {line}" for line in expected]


def test_each_kind_of_draws_has_its_words(clock: Clock) -> None:
    with logged(logging.INFO) as text:
        intervals_of({"mean": 14.5}, Rows(clock, 1.0), Bootstrap(100, method="half_basic"))
        intervals_of({"mean": 14.5}, Rows(clock, 1.0), Bootstrap(100, method="bca"))
    said = text.getvalue()
    assert said.count("100 replicates of 30 rows take about 100 s") == 2
    assert "100 half samples of 30 rows take about 100 s" in said
    assert "30 jackknife samples of 30 rows take about 30 s" in said


class Terminal(io.StringIO):
    """A stream that says that it is a terminal, or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture
def no_logging() -> Iterator[None]:
    """Takes the handlers of the root logger away for the test."""
    root = logging.getLogger()
    kept, root.handlers = root.handlers, []
    yield
    root.handlers = kept


@pytest.mark.usefixtures("no_logging")
def test_without_logging_a_terminal_is_told(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    for terminal, rank, shown in ((True, "0", True), (False, "0", False), (True, "1", False)):
        stream = Terminal(terminal)
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("RANK", rank)
        intervals_of({"mean": 14.5}, Rows(clock, 1.0), Bootstrap(100, method="normal"))
        expected = "\r\x1b[K100 replicates of 30 rows take about 100 s\n"
        assert stream.getvalue() == (expected if shown else "")


def test_an_interrupted_bootstrap_leaves_nothing_half_done() -> None:
    rows = Rows()
    result = Result({"mean": 14.5}, Signature({"metric": "mean"}), state=rows)
    whole = result.with_intervals(50)
    rows.interrupt_at = 20
    with pytest.raises(KeyboardInterrupt, match="stopped"):
        result.with_intervals(50)
    assert not result.intervals and "interval" not in str(result)
    rows.interrupt_at = None
    assert result.with_intervals(50).intervals == whole.intervals
