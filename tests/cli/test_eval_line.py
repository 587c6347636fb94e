"""The line of ``valor-gpu eval run`` on a terminal: how far the run is, how fast, and what waits for another try."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.judge.server import Answer, ChatServer, Request, failure

pty = pytest.importorskip("pty", reason="there are no pseudo-terminals")

ROOT = Path(__file__).parent.parent.parent
ROWS = 40
BROKEN, STUMBLES = "#7?", "#9?"
KEY = "sk-a-key-that-no-line-has"


class Judge:
    """Takes its time, never answers the seventh row, and the ninth row at its second asking."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, request: Request) -> Answer | str:
        """Answers a request."""
        time.sleep(0.2)
        self.asked[request.text] += 1
        if BROKEN in request.text or (STUMBLES in request.text and self.asked[request.text] == 1):
            return failure(500, f"out of memory with {KEY}")
        return '{"reason": "It is so.", "score": 4}'


def on_a_terminal(command: list[str], environment: dict[str, str], columns: int) -> tuple[int, list[str]]:
    """Runs a command whose errors go to a terminal; returns its status and what the terminal's line was."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs, env=environment, cwd=ROOT) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not more:
                break
            said += more
    os.close(ours)
    lines = [re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", each).strip("\n") for each in re.split(r"[\r\n]+", said.decode())]
    return process.returncode, [each for each in lines if each.strip()]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("line")
    rows = [f"What is #{k}?,It is {k}." for k in range(1, ROWS + 1)]
    (folder / "rows.csv").write_text("\n".join(["question,answer", *rows, ""]))
    with ChatServer(Judge()) as server:
        command = [
            sys.executable, "-m", "valor_gpu", "eval", "run", "--data", str(folder / "rows.csv"), "--task", "qa",
            "--metrics", "gpt_coherence", "--model", "stub", "--base-url", server.url, "--api-key-env", "LINE_KEY",
            "--price", "prompt=1000", "--price", "completion=1000", "--max-concurrency", "4",
            "--store", str(folder / "store.sqlite"),
        ]  # fmt: skip
        environment = {**os.environ, "LINE_KEY": KEY, "COLUMNS": "100"}
        status, found = on_a_terminal(command, environment, 100)
    assert status == 0, found
    return found


def test_it_says_how_far_the_run_is(lines: list[str]) -> None:
    far = [found for line in lines if (found := re.search(rf"(\d+)/{ROWS} rows (\d+)%", line))]
    assert len(far) >= 4
    done = [int(each[1]) for each in far]
    assert done == sorted(done) and done[-1] == ROWS
    assert all(int(each[2]) == 100 * int(each[1]) // ROWS for each in far)


def test_it_says_how_fast_and_how_long(lines: list[str]) -> None:
    assert any(re.search(r", [\d.]+/s, \d+ (s|min) left, ", line) for line in lines), lines


def test_it_says_what_waits_and_why(lines: list[str]) -> None:
    assert any(re.search(r"\d wait for a retry \(.*(500|memory)", line) for line in lines), lines
    assert any(re.search(r"[1-4] in flight", line) for line in lines)
    assert not any(KEY in line for line in lines)


def test_a_warning_stands_on_a_line_of_its_own(lines: list[str]) -> None:
    [warning] = [line for line in lines if "warning: a prompt failed 3 times" in line]
    assert warning.startswith("valor-gpu eval run: warning: "), warning


def test_it_fits_the_terminal(lines: list[str]) -> None:
    assert [line for line in lines if f"/{ROWS} rows" in line and len(line) >= 100] == []


def test_a_file_has_the_line_of_before(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("question,answer\nWhat is 1?,It is 1.\n")
    with ChatServer(lambda request: '{"reason": "It is so.", "score": 4}') as server:
        done = subprocess.run(
            [
                sys.executable, "-m", "valor_gpu", "eval", "run", "--data", str(tmp_path / "rows.csv"), "--task", "qa",
                "--metrics", "gpt_coherence", "--model", "stub", "--base-url", server.url,
                "--store", str(tmp_path / "store.sqlite"),
            ],
            capture_output=True, text=True, cwd=ROOT, check=True,
        )  # fmt: skip
    assert "\x1b" not in done.stderr and " left" not in done.stderr
