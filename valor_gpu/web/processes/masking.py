"""The log of a run's process without secrets, whoever writes it: Python, libraries in C, programs that it starts."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any, TextIO

from valor_gpu.evaluation.secrets import Secrets

_PIECE = 1 << 16  # bytes read at a time, and those of a line that are masked together at most
_PATIENCE = 2.0  # seconds that the end waits for the last lines: a program left behind may hold the pipe for ever


@contextlib.contextmanager
def masked_output(secrets: Secrets) -> Iterator[None]:
    """A context in which all that this process and its children print goes to the old standard error without secrets.

    A process of its own copies the lines, so that what is printed last before a crash is there too. To be entered
    while the process has one thread. Where processes cannot fork, what Python prints is masked alone.

    Args:
        secrets: what is masked.
    """
    if not hasattr(os, "fork"):
        sys.stdout = sys.stderr = Masked(sys.stderr, secrets)  # type: ignore[assignment]
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    log, (reader, writer) = os.dup(2), os.pipe()
    child = os.fork()
    if not child:
        os.close(writer)
        _copy(reader, log, secrets)
    os.close(reader)
    os.dup2(writer, 1)
    os.dup2(writer, 2)
    os.close(writer)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os.dup2(log, 1)
        os.dup2(log, 2)
        _wait_for(child)


def _wait_for(child: int) -> None:
    end = time.monotonic() + _PATIENCE
    while os.waitpid(child, os.WNOHANG) == (0, 0) and time.monotonic() < end:
        time.sleep(0.01)


def _copy(reader: int, log: int, secrets: Secrets) -> None:
    """The copying process: lines from a pipe to a file, until nobody can write into the pipe any more."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for other in (0, 1, 2):  # whoever reads what this process has printed shall see its end
            os.dup2(log, other)
        line, kept = b"", Log(log)
        while piece := os.read(reader, _PIECE):
            *lines, line = (line + piece).split(b"\n")
            for each in lines:
                kept.write(_masked(each, secrets) + b"\n")
            if len(line) > _PIECE:
                cut = line.rfind(b" ") + 1 or len(line)  # no secret has a blank
                kept.write(_masked(line[:cut], secrets))
                line = line[cut:]
        kept.write(_masked(line, secrets))
    finally:
        os._exit(0)


class Log:
    """A file of lines that may fail, as on a full disk: lines are left out then, and the file says how many.

    Whoever prints must not see that: a target that prints would fail on each row.

    Args:
        file: number of the open file.
    """

    def __init__(self, file: int) -> None:
        self._file, self._lost, self._cause = file, 0, ""

    def write(self, text: bytes) -> None:
        """Writes a line, behind a word on those that were left out before."""
        try:
            if self._lost:
                lines = f"{self._lost:,} line{' is' if self._lost == 1 else 's are'}"
                self._put(f"\n({lines} left out here, since this file could not be written: {self._cause})\n".encode())
                self._lost = 0
            self._put(text)
        except OSError as error:
            self._lost, self._cause = self._lost + bool(text), error.strerror or type(error).__name__

    def _put(self, text: bytes) -> None:
        while text:
            text = text[os.write(self._file, text) :]


def _masked(line: bytes, secrets: Secrets) -> bytes:
    return secrets.mask(line.decode(errors="surrogateescape")).encode(errors="surrogateescape")


class Masked:
    """A stream whose lines have no secrets.

    Args:
        stream: where they go.
        secrets: of the run.
    """

    def __init__(self, stream: TextIO, secrets: Secrets) -> None:
        self._stream, self._secrets, self._line = stream, secrets, ""

    def write(self, text: str) -> int:
        """Writes the lines that are complete."""
        *lines, self._line = (self._line + text).split("\n")
        for line in lines:
            self._stream.write(self._secrets.mask(line) + "\n")
        return len(text)

    def flush(self) -> None:
        """Flushes what was written; the beginning of a line waits for its end."""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
