"""Programs that a GPU check starts: their output is kept as it comes, and nothing of them is left when time is up."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from testing.datasets import ROOT

MARK = "VALOR_GPU_CHECK_PROGRAM"
"""Variable that tells the programs of one :func:`run`, and all that they start, from others."""
_PR_SET_PDEATHSIG = 1
PATIENCE = 10.0
"""Seconds that a killed program gets to end: the driver has to stop its kernels first."""


class Ended(NamedTuple):
    """How a program ended.

    Attributes:
        code: its exit code, negative for a signal; None where it was killed because its time was up.
        output: all that it printed.
    """

    code: int | None
    output: str


def run(
    command: Sequence[str],
    seconds: float,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
    show: bool = False,
    give_up: Callable[[], bool] = lambda: False,
) -> Ended:
    """Runs a program in the root of the checkout; afterwards nothing that it has started is alive.

    Args:
        command: of the program.
        seconds: after which it is killed.
        log: file to which its output is appended as it comes, None for none.
        environment: variables beside those of this process.
        show: only errors are kept; the output goes where that of this process goes.
        give_up: called again and again; the program is killed once it returns True.
    """
    mark = f"{os.environ.get(MARK, '')}/{uuid.uuid4().hex}"
    variables = {**os.environ, **(environment or {}), MARK: mark}
    with open(log, "ab+") if log else tempfile.TemporaryFile() as file:
        start = file.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            command, cwd=ROOT, env=variables, stdin=subprocess.DEVNULL, stdout=None if show else file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = _wait(process, time.monotonic() + seconds, give_up)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            kill_marked(mark)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
        file.seek(start)
        return Ended(code, file.read().decode(errors="replace"))


def ending(code: int) -> str:
    """Returns the text of an exit code, or the name of the signal."""
    signals = {item.value: item.name for item in signal.Signals}
    return f"killed by {signals.get(-code, 'a signal')}" if code < 0 else f"exit code {code}"


def last_words(output: str, lines: int = 12) -> str:
    """Returns the first frames of the stack that ``faulthandler`` printed last, else the last lines."""
    said = output.partition("\n\nExtension modules:")[0].strip().splitlines()
    stacks = [i for i, line in enumerate(said) if line.endswith("(most recent call first):")]
    return "\n".join(said[stacks[-1] + 1 :][:lines] if stacks else said[-lines:])


def _wait(process: subprocess.Popen[bytes], end: float, give_up: Callable[[], bool]) -> int | None:
    while (left := end - time.monotonic()) > 0 and not give_up():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(left, 0.5))
    return process.poll()


def die_with_parent() -> None:
    """Lets this process be killed when the one that has started it ends, even by a signal that nothing catches."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def start_of_process() -> float:
    """Returns the ``time.time()`` at which this process began, ahead of its imports."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        up = float(Path("/proc/uptime").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return time.time()
    return time.time() - up + ticks / os.sysconf("SC_CLK_TCK")


def kill_marked(mark: str) -> None:
    """Kills every process whose mark begins with ``mark``, as long as new ones appear."""
    wanted, killed = f"{MARK}={mark}".encode(), set()
    while found := {pid for pid in _processes() if pid not in killed and _is_marked(pid, wanted)}:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed |= found


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]


def _is_marked(pid: int, wanted: bytes) -> bool:
    try:
        variables = Path("/proc", str(pid), "environ").read_bytes()
    except OSError:
        return False
    return any(variable.startswith(wanted) for variable in variables.split(b"\0"))
