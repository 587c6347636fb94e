"""Data sets that processes of their own read, since a large one takes minutes: how far they are, and what they found.

A reading ends with the server. What it has found, or why it has not, goes to whoever began it.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

PATIENCE = 1.0
"""Seconds that a page waits for a reading before it shows how far it is."""
SMALL = 1 << 18
"""Bytes of a file that is read at once, which takes less time than to start a process."""
MOST = 2
"""Processes at a time; further readings wait."""
COMMAND = [sys.executable, "-m", "valor_gpu.web.processes.reader"]

_LOG = logging.getLogger(__name__)
_KILLED = -9


class Reading:
    """A file that a process reads.

    Attributes:
        name: of the file, for people.
        size: in bytes.
        offset: bytes read so far, of this pass over the file.
        rows: read so far.
        found: what the process found; None before, and where it failed.
        error: why it found nothing; empty otherwise.
        is_cancelled: whether somebody has cancelled it.

    Args:
        name: of the file, for people.
        path: of the file.
        asked: what is to be found; see :mod:`valor_gpu.web.processes.reader`.
        then: gets the reading at its end, in a thread of its own, before pages see the end.
        slots: of processes.
    """

    def __init__(
        self,
        name: str,
        path: str,
        asked: Mapping[str, Any],
        then: Callable[[Reading], None],
        slots: threading.Semaphore,
    ) -> None:
        self.name, self.size = name, os.stat(path).st_size
        self.offset = self.rows = 0
        self.found: dict[str, Any] | None = None
        self.error = ""
        self.is_cancelled = False
        self._path, self._asked, self._then, self._slots = path, {**asked, "path": path}, then, slots
        self._process: subprocess.Popen[str] | None = None
        self._lock, self._ended = threading.Lock(), threading.Event()
        threading.Thread(target=self._work, name=f"reading of {path}", daemon=True).start()

    def _work(self) -> None:
        try:
            with self._slots:
                self._read()
        except Exception as error:
            _LOG.exception("%s could not be read", self._path)
            self.error = self.error or f"{self.name} could not be read: {type(error).__name__}."
        try:
            self._then(self)
        except Exception as error:  # a store that is full or locked
            _LOG.error("what was read of %s is not kept: %s", self._path, error)
            self.found, self.error = None, f"What was read of {self.name} could not be kept: {error}"
        finally:
            self._ended.set()

    def _read(self) -> None:
        with self._lock:
            if self.is_cancelled:
                return
            self._process = subprocess.Popen(
                COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
                start_new_session=True,
            )  # fmt: skip
        with self._process as process:
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps(self._asked) + "\n")
                process.stdin.close()
            except BrokenPipeError:  # it is gone, which its exit status says
                pass
            try:
                for line in process.stdout:
                    self._hear(json.loads(line))
            except BaseException:
                process.kill()
                raise
        if self.found is None and not self.error and not self.is_cancelled:
            self.error = f"{self.name} was not read to its end, since the process that read it {_ending(process)}."

    def _hear(self, said: Mapping[str, Any]) -> None:
        if "found" in said:
            self.found = said["found"]
        elif "error" in said:
            self.error = str(said["error"]).replace(self._path, self.name)
        else:
            self.offset, self.rows = said["bytes"], said["rows"]

    def cancel(self) -> None:
        """Ends the process, if it has not ended."""
        with self._lock:
            self.is_cancelled = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    @property
    def is_done(self) -> bool:
        """Whether it has ended, and what it found is kept."""
        return self._ended.is_set()

    def wait(self, seconds: float | None = None) -> bool:
        """Waits for its end, :data:`PATIENCE` long unless told otherwise; False where that did not come."""
        return self._ended.wait(PATIENCE if seconds is None else seconds)


def _ending(process: subprocess.Popen[str]) -> str:
    if process.returncode == _KILLED:
        return "was killed, perhaps because memory ran out"
    return f"ended with status {process.returncode}"


class Readings:
    """The readings of a server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[str, Reading] = {}
        self._slots = threading.Semaphore(MOST)

    def start(
        self, key: str, name: str, path: str, asked: Mapping[str, Any], then: Callable[[Reading], None]
    ) -> Reading:
        """Begins a reading, or returns that of the same key which goes on; the arguments are those of a reading.

        Raises:
            OSError: there is no such file.
        """
        with self._lock:
            found = self._all.get(key)
            if found is None or found.is_done:
                found = self._all[key] = Reading(name, path, asked, then, self._slots)
            for each in [each for each, reading in self._all.items() if reading.is_done and each != key]:
                del self._all[each]
            return found

    def get(self, key: str) -> Reading | None:
        """The reading of a key that goes on; None where there is none."""
        with self._lock:
            found = self._all.get(key)
        return None if found is None or found.is_done else found

    def close(self) -> None:
        """Cancels all readings and waits until their ends are kept."""
        with self._lock:
            readings = list(self._all.values())
        for each in readings:
            each.cancel()
        for each in readings:
            each.wait(10.0)
