"""Lines that are written over and over, as a terminal shows them."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest

from valor_gpu.judge import Progress, Usage
from valor_gpu.judge.progress import Pace, ProgressBar, time_left
from valor_gpu.progress import Line


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and its screen."""

    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        lines = [""]
        column = 0
        for part in re.findall(r"\r|\n|\x1b\[K|[^\r\n\x1b]+", self.getvalue()):
            if part == "\r":
                column = 0
            elif part == "\n":
                lines, column = [*lines, ""], 0
            elif part == "\x1b[K":
                lines[-1] = lines[-1][:column]
            else:
                lines[-1] = lines[-1][:column] + part + lines[-1][column + len(part) :]
                column += len(part)
        return lines


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_shorter_text_leaves_nothing_of_a_longer_one(stream: type[io.StringIO]) -> None:
    out = stream()
    line = Line(out)
    for text in ("a long text", "short"):
        line.show(text)
    line.end()
    shown = Terminal(out.getvalue()).screen()
    assert [each.rstrip() for each in shown] == ["short", ""]
    if stream is io.StringIO:
        assert out.getvalue() == "\ra long text\rshort      \n"


def test_a_line_that_showed_nothing_ends_nothing() -> None:
    out = Terminal()
    Line(out).end()
    Line(out).clear()
    assert out.getvalue() == ""


def test_a_cleared_line_is_empty() -> None:
    out = Terminal()
    line = Line(out)
    line.show("text")
    line.clear()
    assert out.screen() == [""]


def test_the_bar_of_a_judge_run_on_a_terminal() -> None:
    out = Terminal()
    show = ProgressBar(out)
    show(Progress(1, 4, 1, 0, 5, Usage(100, 20), 8, 1, "HTTP 500"))
    show(Progress(4, 4, 1, 0, 6, Usage(), 8))
    show.close()
    assert out.screen() == [f"[{'#' * 12}] 4/4 judgements 100%, 1 failed", ""]


def test_the_line_of_a_file_stays_the_same() -> None:
    out = io.StringIO()
    ProgressBar(out)(Progress(1, 4, 1, 0, 5, Usage(100, 20), 8, 1, "HTTP 500", 8, 3.0, 0.5, 6.0, 0.3, "USD"))
    line = f"[{'#' * 6:24}] 1/4, 1 failed, 0 cached, 5 requests, 120 tokens, 8 at a time"
    assert out.getvalue() == f"\r{line}, 1 wait for a retry (HTTP 500)"


RUNNING = Progress(
    120, 500, 2, 0, 150, Usage(), 8, 3, "HTTP 500: upstream worker crashed", 8, 39.0, 3.1, 122.6, 1.32, "USD",
    {"server_error": 4}, "rows",
)  # fmt: skip


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (200, "[##          ] 120/500 rows 24%, 3.1/s, 2 min left, 8 in flight, 2 failed, 1.32 USD, "
              "3 wait for a retry (HTTP 500: upstream worker crashed)"),
        (80, "[##          ] 120/500 rows 24%, 3.1/s, 2 min left, 2 failed, 1.32 USD, 3 wait"),
        (60, "[##          ] 120/500 rows 24%, 2 min left, 3 wait"),
        (40, "[##          ] 120/500 rows 24%"),
        (10, "[##      "),
    ],
)  # fmt: skip
def test_a_line_fits_its_terminal(width: int, line: str) -> None:
    out = Terminal()
    ProgressBar(out, width)(RUNNING)
    assert [each.rstrip() for each in out.screen()] == [line.rstrip()] and len(line) < width


def test_a_line_on_a_terminal_is_renewed_while_nothing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.5, 1.5])
    monkeypatch.setattr("valor_gpu.judge.progress.time.monotonic", lambda: next(clock))
    out = Terminal()
    show = ProgressBar(out, 80)
    for seconds in (60, 59.5, 54.5):
        show(replace(RUNNING, eta=seconds, waiting=0))
    assert [part.split(", ")[2] for part in out.getvalue().split("\r")[1:]] == ["1 min left", "55 s left"]


def test_the_rate_is_of_the_last_half_minute() -> None:
    pace = Pace()
    assert pace.rate(10, now=100.0) is None
    assert pace.rate(10, now=101.0) is None  # nothing was done
    assert pace.rate(40, now=110.0) == pytest.approx(3.0)
    assert pace.rate(70, now=139.0) == pytest.approx(30 / 29)  # since 110
    assert pace.rate(70, now=200.0) is None
    assert (time_left(None, 3, 1.0), time_left(10, 4, None), time_left(10, 4, 1.5)) == (None, None, 4.0)
