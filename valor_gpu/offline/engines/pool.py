"""Processes of this machine, each with one shard at a time; any of them may be killed.

Workers are started by ``python -m valor_gpu.offline.engines.worker``, so that the main module of the caller is not run
again. A worker is given shards through a socket, writes states and records to disk itself, and ends when the socket
does: that of a driver that was killed ends with it. A worker that dies is replaced, and its shard tried again.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import valor_gpu
from valor_gpu import native
from valor_gpu.errors import StoreError, ValorError
from valor_gpu.offline.config import OfflineConfig
from valor_gpu.offline.long_shards import LongShards, late_record
from valor_gpu.offline.records import FAILED, Record, StateFolder
from valor_gpu.offline.shards import Shard

_STARTS = 3  # workers that die before they are ready until the run gives up
_PATIENCE = 10.0  # seconds that a worker has to end when nothing is left to do


def run(
    config: OfflineConfig,
    folder: StateFolder,
    shards: Sequence[Shard],
    workers: int | None,
    done: Callable[[Record], None],
) -> bool:
    """See :class:`valor_gpu.offline.engines.Engine`."""
    if shards:
        count = min(workers or native.threads(), len(shards))
        with _Pool(config, folder, count).opened() as pool:
            pool.evaluate(shards, done)
    return True


class _Worker:
    """A process at work.

    Args:
        config: for the worker.
        index: which of the workers it is, from 0.
        count: how many there are.
    """

    def __init__(self, config: OfflineConfig, index: int, count: int) -> None:
        self.index = index
        self.is_ready = False
        self.shard: Shard | None = None
        self.begun = 0.0  # of the shard, by the monotonic clock
        self.socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "valor_gpu.offline.engines.worker", str(theirs.fileno())]
            self.process = subprocess.Popen(
                command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, env=_environment()
            )
        self._rest = b""
        self._send({"config": config.to_dict(), "cpus": _cpus(index, count)})

    def give(self, shard: Shard) -> None:
        """Hands over the next shard."""
        self.shard, self.begun = shard, time.monotonic()
        self._send(shard.to_dict())

    def receive(self) -> Record | None:
        """What has become of the shard; None: the worker is dead, is ready now, or has more to say.

        Raises:
            StoreError: the worker cannot write, as on a full disk.
        """
        try:
            data = self.socket.recv(1 << 16)
        except OSError:
            data = b""
        if not data:
            self.close(_PATIENCE)
            return None
        self._rest += data
        line, end, rest = self._rest.partition(b"\n")
        if not end:
            return None
        self._rest = rest
        if not self.is_ready:
            self.is_ready = True
            return None
        answer = json.loads(line)
        if "unwritten" in answer:
            raise StoreError(answer["unwritten"])
        return Record.from_dict(answer)

    @property
    def is_closed(self) -> bool:
        """Whether the worker is dead."""
        return self.socket.fileno() < 0

    def close(self, patience: float | None = None) -> None:
        """Ends the worker: one that waits for shards ends by itself, any other is killed after ``patience`` seconds."""
        if patience is None:
            patience = _PATIENCE if self.is_ready and self.shard is None else 0.0
        with contextlib.suppress(OSError):
            self.socket.close()
        try:
            self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that waits in the kernel for a file stays
                self.process.wait(_PATIENCE)

    def cause_of_death(self) -> str:
        """In words."""
        code = self.process.returncode
        if code is None or code >= 0:
            return f"its worker ended with status {code}"
        name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
        memory = ": the system may have run out of memory" if -code == signal.SIGKILL else ""
        return f"its worker was killed by {name}{memory}"

    def _send(self, message: Any) -> None:
        with contextlib.suppress(OSError):  # of a worker that is dead, which `receive` finds out
            self.socket.sendall(json.dumps(message).encode() + b"\n")


def _environment() -> dict[str, str]:
    """With this package, the folder of the caller's script, and one thread for torch and numpy."""
    package = str(Path(valor_gpu.__file__).parents[1])
    folders = [package, sys.path[0], *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    path = os.pathsep.join(dict.fromkeys(folder for folder in folders if folder))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


def _cpus(index: int, count: int) -> list[int]:
    """The CPUs of a worker: kernels use as many threads as it has CPUs."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    known = sorted(os.sched_getaffinity(0))
    return known[index * len(known) // count : (index + 1) * len(known) // count] or [known[index % len(known)]]


class _Pool:
    """Workers and what they are waited for by.

    Args:
        config: metrics and data.
        folder: where records are kept.
        count: of workers.
    """

    def __init__(self, config: OfflineConfig, folder: StateFolder, count: int) -> None:
        self._config, self._folder, self._count = config, folder, count
        self._deaths: Counter[int] = Counter()
        self._stillborn = 0  # workers that died before they were ready, one after the other
        self._workers: dict[int, _Worker] = {}
        self._looks = LongShards(config.shard_timeout)

    @contextlib.contextmanager
    def opened(self) -> Iterator[_Pool]:
        """All workers, which are ended afterwards."""
        try:
            for index in range(self._count):
                self._start(index)
            yield self
        finally:
            for worker in self._workers.values():
                with contextlib.suppress(OSError):
                    worker.socket.shutdown(socket.SHUT_RDWR)  # all of them end at the same time
            for worker in self._workers.values():
                worker.close()

    def evaluate(self, shards: Sequence[Shard], done: Callable[[Record], None]) -> None:
        """Gives shards to workers until each has a record."""
        waiting = deque(shards)
        while waiting or any(worker.shard for worker in self._workers.values()):
            for worker in self._workers.values():
                if worker.is_ready and worker.shard is None and waiting:
                    worker.give(waiting.popleft())
            for worker in self._speaking():
                record = self._heard(worker, waiting)
                if record is not None:
                    self._looks.ended(record.seconds)
                    done(record)
            for worker in self._late():
                done(self._ended(worker))

    def _start(self, index: int) -> None:
        self._workers[index] = _Worker(self._config, index, self._count)

    def _speaking(self) -> list[_Worker]:
        """Workers that have said something or died, as soon as there are some."""
        with selectors.DefaultSelector() as selector:
            for worker in self._workers.values():
                selector.register(worker.socket, selectors.EVENT_READ, worker)
            return [key.data for key, _ in selector.select(self._patience())]

    def _patience(self) -> float:
        """Seconds until a shard is to be told of, or ended."""
        now, limit = time.monotonic(), self._config.shard_timeout
        at_work = {worker.shard.name: now - worker.begun for worker in self._workers.values() if worker.shard}
        left = [limit - seconds for seconds in at_work.values()] if limit is not None else []
        return max(min(self._looks.look(at_work), *left) if left else self._looks.look(at_work), 0.0)

    def _late(self) -> list[_Worker]:
        """Workers whose shard takes longer than it may."""
        now, limit = time.monotonic(), self._config.shard_timeout
        return [each for each in self._workers.values() if each.shard and limit and now - each.begun >= limit]

    def _ended(self, worker: _Worker) -> Record:
        """The record of a shard whose worker is killed for it."""
        shard = worker.shard
        assert shard is not None
        worker.close(0.0)
        self._start(worker.index)
        record = late_record(shard, self._config.shard_timeout)
        self._folder.save(shard, record, None)
        return record

    def _heard(self, worker: _Worker, waiting: deque[Shard]) -> Record | None:
        """The record of a shard that is done for, one way or the other."""
        shard = worker.shard
        record = worker.receive()
        if record is not None:
            worker.shard = None
            return record
        if not worker.is_closed:
            self._stillborn = 0
            return None
        self._stillborn += not worker.is_ready
        if self._stillborn == _STARTS:
            raise ValorError(f"workers must start but {_STARTS} did not, the last one since {worker.cause_of_death()}")
        self._start(worker.index)
        if shard is None:
            return None
        self._deaths[shard.number] += 1
        if self._deaths[shard.number] <= self._config.retries:
            waiting.append(shard)
            return None
        return self._lost(shard, worker.cause_of_death())

    def _lost(self, shard: Shard, cause: str) -> Record:
        times = self._deaths[shard.number]
        error = f"{shard.name}: {cause}, {times} times" if times > 1 else f"{shard.name}: {cause}"
        try:
            stamp = shard.stamp()
        except OSError:
            stamp = []
        record = Record(shard.name, FAILED, stamp, error=error)
        self._folder.save(shard, record, None)
        return record
