"""Runs a command with a limit on the CPU seconds of all its processes together. Linux alone: it reads /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PAUSE = 0.2
"""Seconds between two looks at /proc."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: exit code, or minus the number of the signal.
        output: standard output and errors together.
        cpu: seconds of all its processes.
        limit: ``CPU`` or ``clock`` where it was ended at that limit, otherwise empty.
    """

    status: int
    output: str
    cpu: float
    limit: str = ""


class _Family:
    """A process with all that it started, those with a session of their own too."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.started: dict[int, int] = {}  # when each process seen so far started: numbers are used again

    def seconds(self) -> float:
        """CPU seconds of those that live, and of those that they have waited for."""
        table = dict(_processes())
        members = {pid for pid, fields in table.items() if self.leader in (pid, int(fields[3]))}
        members |= {pid for pid, started in self.started.items() if pid in table and int(table[pid][19]) == started}
        size = 0
        while size < len(members):
            size = len(members)
            members |= {pid for pid, fields in table.items() if int(fields[1]) in members}
        self.started |= {pid: int(table[pid][19]) for pid in members if pid in table}
        return sum(sum(map(int, table[pid][11:15])) for pid in members if pid in table) / _TICKS

    def kill(self) -> None:
        """Ends them all. A second round finds what was started during the first."""
        for _ in range(2):
            self.seconds()
            living = dict(_processes())
            for pid, started in self.started.items():
                if pid in living and int(living[pid][19]) == started:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def _processes() -> list[tuple[int, list[str]]]:
    """Number and fields of /proc/N/stat from the state on, see proc(5), of all processes."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended
                text = Path(entry.path, "stat").read_text(errors="replace")
                found.append((int(entry.name), text.rpartition(")")[2].split()))
    return found


def run_bounded(
    command: Sequence[str | Path],
    folder: Path,
    variables: Mapping[str, str],
    cpu_seconds: float,
    clock_seconds: float,
    stop: threading.Event,
) -> Ended:
    """Runs a command until it ends, reaches a limit or is told to stop; none of its processes is left.

    Args:
        command: program and arguments.
        folder: where it runs.
        variables: its environment.
        cpu_seconds: of all its processes together.
        clock_seconds: by the clock.
        stop: set from elsewhere; the command counts as ended at the limit ``stop``.
    """
    end = time.monotonic() + clock_seconds
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            list(map(str, command)), cwd=folder, env=dict(variables), stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        family, limit, cpu = _Family(process.pid), "", 0.0
        try:
            while not (waited := os.wait4(process.pid, os.WNOHANG))[0]:
                cpu = max(cpu, family.seconds())
                limit = "CPU" if cpu > cpu_seconds else "clock" if time.monotonic() > end else ""
                if limit or (stop.is_set() and (limit := "stop")):
                    break
                stop.wait(PAUSE)
        finally:
            family.kill()
            if not waited[0]:
                waited = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(waited[1])  # Popen need not wait again
        used = waited[2].ru_utime + waited[2].ru_stime
        output.seek(0)
        return Ended(process.returncode, output.read(), max(cpu, used), limit)
