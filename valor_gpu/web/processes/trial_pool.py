"""Processes in which evaluators are tried, so that none can take the memory or the time of the server.

A process is kept for the next trial, since a new one takes about a second. It ends with the server, whose end closes
its input.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from typing import Any

from valor_gpu.errors import InputError

ARGUMENTS = ("-m", "valor_gpu.web.library.trial_worker")
AHEAD = "ahead"
"""Argument of a process that waits for its first trial."""
MOST_MEMORY = 1 << 30
"""Bytes of a trial, beside those of its process before it. Linux alone keeps a process to them."""
MOST_SECONDS = 60
"""Of processor time of a trial, where the system counts it."""
LONGEST = 600.0
"""Seconds of a trial; a judge has 60 for a reply."""
MOST_TRIALS = 100
"""Of a process, after which a new one takes its place."""
OUT_OF_MEMORY = (
    f"the trial needed more than {MOST_MEMORY >> 30} GB of memory, which is the most that a trial may take: let the "
    "template make less, or try a shorter row"
)


class _Process:
    """A process of trials; one at a time is asked.

    Args:
        ahead: it imports what judges need before it is asked.
    """

    def __init__(self, ahead: bool = False) -> None:
        self.n_trials = 0
        self._timed_out = False
        # One heap for all threads: each further one would reserve 64 MB of the address space that is limited.
        self._process = subprocess.Popen(
            [sys.executable, *ARGUMENTS, *([AHEAD] if ahead else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "MALLOC_ARENA_MAX": "1"},
            start_new_session=True,
        )

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what the process answers.

        Raises:
            InputError: it ended, or took too long.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.n_trials += 1
        timer = threading.Timer(LONGEST, self._time_out)
        timer.daemon = True
        timer.start()
        try:
            self._process.stdin.write(json.dumps(job).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except (OSError, ValueError):  # it is gone, or was ended meanwhile
            line = b""
        finally:
            timer.cancel()
        if not line.endswith(b"\n"):
            raise InputError(self._why_ended())
        found: dict[str, Any] = json.loads(line)
        return found

    def _time_out(self) -> None:
        self._timed_out = True
        self._process.kill()

    def _why_ended(self) -> str:
        code = self.end()
        if self._timed_out:
            return f"the trial took more than {LONGEST:g} s, which is the most that a trial may take"
        if code == -getattr(signal, "SIGXCPU", 0):
            return f"the trial took more than {MOST_SECONDS} s of processor time, which is the most that it may take"
        if code < 0 and code != -signal.SIGTERM:  # ended by the system, or by a library that got no memory
            return OUT_OF_MEMORY
        return f"the process of the trial ended with status {code}: try again, and read what the server wrote about it"

    def is_alive(self) -> bool:
        """Returns whether it goes on."""
        return self._process.poll() is None

    def end(self) -> int:
        """Ends it, and returns its exit status; negative where a signal ended it."""
        with contextlib.suppress(OSError):  # what was not yet written
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            # A process that gave no answer is ending by itself, and its own status says why.
            code = self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code


class TrialPool:
    """The processes of a server.

    Attributes:
        keeps_warm: whether :meth:`prepare` starts a process before one is asked.
    """

    def __init__(self) -> None:
        self.keeps_warm = False
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._end = weakref.finalize(self, _end_all, self._all)

    def prepare(self) -> None:
        """Starts a process where none is idle, so that the next trial need not wait for it."""
        with self._lock:
            if self.keeps_warm and not self._idle and self._end.alive:
                self._idle.append(self._new(ahead=True))

    def ask(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what a process answers to a job, both as JSON.

        Raises:
            InputError: the process ended, because of its limits say; or the server ends.
        """
        process = self._taken()
        try:
            found = process.ask(job)
        except BaseException:
            self._drop(process)
            raise
        with self._lock:
            keep = process.n_trials < MOST_TRIALS and not self._idle and self._end.alive
            if keep:
                self._idle.append(process)
        if not keep:
            self._drop(process)
        return found

    def close(self) -> None:
        """Ends all processes, also those that are asked."""
        self._end()

    def _taken(self) -> _Process:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_alive():
                    return process
                self._all.discard(process)
                process.end()
            if not self._end.alive:
                raise InputError("the server is ending: try again when it has been started")
            return self._new()

    def _new(self, ahead: bool = False) -> _Process:
        try:
            process = _Process(ahead)
        except OSError as error:
            raise InputError(f"no process of the trial can be started: {error.strerror or error}") from None
        self._all.add(process)
        return process

    def _drop(self, process: _Process) -> None:
        with self._lock:
            self._all.discard(process)
        process.end()


def _end_all(processes: set[_Process]) -> None:
    for process in [*processes]:
        process.end()
    processes.clear()
