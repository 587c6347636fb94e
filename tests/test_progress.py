"""Lines that are written over and over, as a terminal shows them."""

from __future__ import annotations

import io
import re

import pytest

from valor_gpu.judge import Progress, Usage
from valor_gpu.judge.progress import ProgressBar
from valor_gpu.progress import Line, bar


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
    assert out.screen() == [f"[{'#' * 24}] 4/4, 1 failed, 0 cached, 6 requests, 0 tokens, 8 at a time", ""]


@pytest.mark.parametrize(("done", "total", "shown"), [(0, 0, "[....]"), (1, 3, "[#...]"), (3, 3, "[####]")])
def test_bars(done: int, total: int, shown: str) -> None:
    assert bar(done, total, 4, ".") == shown
