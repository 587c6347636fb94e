"""Actors of Ray Data: shards are rows of a data set, states come back as bytes, and the driver writes them to disk.

Only the files of the data must be visible to the actors. Ray is started here if it is not yet, with its telemetry off,
and then also ended; a program that has started it keeps it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import logging
import os
import shutil
import socket
import tempfile
import threading
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from valor_gpu import native
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.offline.config import OfflineConfig
from valor_gpu.offline.files import is_alive
from valor_gpu.offline.long_shards import LongShards, ended_by_itself, late_record, watched
from valor_gpu.offline.records import FAILED, Record, StateFolder
from valor_gpu.offline.shards import Shard

_PATIENCE = 10.0  # seconds in which the actor that counts answers
_TEMPORARY = "/tmp"  # that of tempfile may have a long name
_STORE = 256 << 20  # bytes of shared memory for states on their way, where Ray is started here
_SETTINGS = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Of the environment, read when ray is imported: no file with a token in the home folder, no report to its makers."""


def run(
    config: OfflineConfig,
    folder: StateFolder,
    shards: Sequence[Shard],
    workers: int | None,
    done: Callable[[Record], None],
) -> bool:
    """See :class:`valor_gpu.offline.engines.Engine`.

    Raises:
        MissingExtraError: ray is not installed.
        InputError: a shard needs more memory, or a GPU, than this machine has, for which Ray would wait for ever.
    """
    if importlib.util.find_spec("ray") is None or importlib.util.find_spec("pandas") is None:
        raise MissingExtraError("ray[data]", "ray", "engine ray")
    waiting = {shard.number: shard for shard in shards}
    if not waiting:
        return True
    with _ray(config, workers or native.threads()) as count:
        for number, record, states in _evaluated(config, shards, min(workers or count, len(shards))):
            shard = waiting.pop(number)
            folder.save(shard, record, states)
            done(record)
    for shard in waiting.values():
        record = Record(shard.name, FAILED, [], error=f"{shard.name}: Ray gave no answer")
        folder.save(shard, record, None)
        done(record)
    return True


@contextlib.contextmanager
def _ray(config: OfflineConfig, cpus: int) -> Iterator[int]:
    """Ray as it is, or on this machine for the time of the body; gives its number of CPUs."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of ray's own settings
        warnings.simplefilter("ignore", FutureWarning)
        import ray

        logging.getLogger("ray.data").setLevel(logging.ERROR)  # it tells of each run, and of its files
        if ray.is_initialized():
            yield _cluster_cpus()
            return
        if "RAY_ADDRESS" in os.environ:  # of a cluster that runs already
            ray.init(log_to_driver=False)
            try:
                yield _cluster_cpus()
            finally:
                ray.shutdown()
            return
        _remove_left()
        prefix = f"{_prefix()}{os.getpid()}-"
        with tempfile.TemporaryDirectory(prefix=prefix, dir=_TEMPORARY, ignore_cleanup_errors=True) as folder:
            ray.init(num_cpus=cpus, include_dashboard=False, object_store_memory=_STORE, log_to_driver=False,
                     configure_logging=False, _temp_dir=folder)  # fmt: skip
            try:
                _check_resources(config)
                yield cpus
            finally:
                ray.shutdown()


def _prefix() -> str:
    """How folders of Ray of this machine begin; short, since names of sockets in them have 107 bytes at most."""
    return f"vg-ray-{zlib.crc32(socket.gethostname().encode()):08x}-"


def _remove_left() -> None:
    """Removes the folders of drivers that were killed."""
    for path in Path(_TEMPORARY).glob(f"{_prefix()}*-*"):
        pid = path.name.removeprefix(_prefix()).partition("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)):
            shutil.rmtree(path, ignore_errors=True)


def _check_resources(config: OfflineConfig) -> None:
    """Raises for what no actor on this machine can get. Clusters may grow, so that there Ray has to wait."""
    import ray

    there: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    memory = int(there.get("memory", 0))
    if config.memory_limit is not None and config.memory_limit > memory:
        raise InputError(f"memory_limit must be at most {memory:,} bytes, which Ray has here, but is"
                         f" {config.memory_limit:,}")  # fmt: skip
    if config.device == "cuda" and not there.get("GPU"):
        raise InputError("device must be cpu since Ray finds no GPU here but is cuda")


def _cluster_cpus() -> int:
    import ray

    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    return max(int(resources.get("CPU", 1)), 1)


def _evaluated(
    config: OfflineConfig, shards: Sequence[Shard], count: int
) -> Iterator[tuple[int, Record, dict[str, bytes] | None]]:
    """Number, record and states of each shard, in any order."""
    import ray
    from ray.data import ActorPoolStrategy, DataContext

    context = DataContext.get_current()
    before = context.enable_progress_bars, context.max_errored_blocks
    context.enable_progress_bars, context.max_errored_blocks = False, -1  # what Ray gives up is reported
    try:
        items = [{"shard": json.dumps(shard.to_dict())} for shard in shards]
        rows = ray.data.from_items(items, override_num_blocks=len(items))
        starts = ray.remote(num_cpus=0)(Starts).remote()
        looks, names = LongShards(config.shard_timeout), {shard.number: shard.name for shard in shards}
        resources: dict[str, Any] = {} if config.memory_limit is None else {"memory": config.memory_limit}
        resources |= {"num_gpus": 1} if config.device == "cuda" else {}
        answers = rows.map_batches(
            Evaluator, fn_constructor_args=(config.to_dict(), starts), batch_size=1,
            compute=ActorPoolStrategy(size=count, max_tasks_in_flight_per_actor=1), num_cpus=1, **resources,
        )  # fmt: skip
        with watched(looks, lambda: _at_work(starts, names)):
            for row in answers.iter_rows():
                number, record, states = _answer(row)
                looks.ended(record.seconds)
                yield number, record, states
    finally:
        context.enable_progress_bars, context.max_errored_blocks = before


def _answer(row: dict[str, Any]) -> tuple[int, Record, dict[str, bytes] | None]:
    """Number, record and states of a shard, from what :class:`Evaluator` gives."""
    about = json.loads(row["about"])
    sizes, data, at = about["sizes"], bytes(row["states"]), 0
    states: dict[str, bytes] | None = None if sizes is None else {}
    for name, size in (sizes or {}).items():
        states = {**(states or {}), name: data[at : at + size]}
        at += size
    return about["number"], Record.from_dict(about["record"]), states


def _at_work(starts: Any, names: dict[int, str]) -> dict[str, float]:
    """Shards by name, and since how many seconds actors have them; none where Ray does not say."""
    import ray

    with contextlib.suppress(ray.exceptions.RayError):
        found: dict[int, float] = ray.get(starts.at_work.remote(), timeout=_PATIENCE)
        return {names[number]: seconds for number, seconds in found.items()}
    return {}


class Starts:
    """An actor that counts how often shards were begun and not ended, since Ray tries those again without end."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._begun: dict[int, float] = {}
        self._late: set[int] = set()

    def begin(self, number: int) -> tuple[int, bool]:
        """How often the shard has killed its actor, and whether that was ended for the time that the shard took."""
        self._counts[number] += 1
        self._begun[number] = time.monotonic()
        return self._counts[number] - 1, number in self._late

    def expire(self, number: int) -> None:
        """Notes that an actor ends itself since the shard takes longer than it may."""
        self._late.add(number)

    def at_work(self) -> dict[int, float]:
        """Since how many seconds each shard is at work."""
        return {number: time.monotonic() - begun for number, begun in self._begun.items()}

    def end(self, number: int, evaluated: bool) -> None:
        """Forgets a shard that was evaluated: Ray may want it once more, as where a machine with the answer is lost."""
        del self._begun[number]
        if evaluated:
            del self._counts[number]


class Evaluator:
    """What an actor holds.

    Args:
        config: as :meth:`OfflineConfig.to_dict` gives it.
        starts: handle of the actor of :class:`Starts`.
    """

    def __init__(self, config: dict[str, Any], starts: Any) -> None:
        import torch

        torch.set_num_threads(1)
        self._config, self._starts = OfflineConfig.from_dict(config), starts

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Evaluates the shard in ``batch["shard"]``; gives ``about`` (JSON) and ``states`` (bytes), one row."""
        shard = Shard.from_dict(json.loads(str(batch["shard"][0])))
        record, states = self._finished(shard)
        sizes = None if states is None else {name: len(state) for name, state in states.items()}
        about = json.dumps({"number": shard.number, "record": record.to_dict(), "sizes": sizes})
        return {"about": [about], "states": [b"".join((states or {}).values())]}

    def _finished(self, shard: Shard) -> tuple[Record, dict[str, bytes] | None]:
        import ray

        from valor_gpu.offline.work import process_shard

        deaths, is_late = ray.get(self._starts.begin.remote(shard.number))
        if evaluated := not is_late and deaths <= self._config.retries:
            with self._ended_in_time(shard.number):
                record, states = process_shard(self._config, shard)
        elif is_late:
            record, states = late_record(shard, self._config.shard_timeout), None
        else:
            times = f", {deaths} times" if deaths > 1 else ""
            record, states = Record(shard.name, FAILED, [], error=f"{shard.name}: its actor died{times}"), None
        ray.get(self._starts.end.remote(shard.number, evaluated))
        return record, states

    @contextlib.contextmanager
    def _ended_in_time(self, number: int) -> Iterator[None]:
        """Ends this actor where the body takes longer than it may; Ray starts another and tries the shard again."""
        limit = self._config.shard_timeout
        if limit is None:
            yield
            return
        timer = threading.Timer(limit, self._end, [number])
        timer.daemon = True
        timer.start()
        try:
            with ended_by_itself(limit):  # a thread of Python's cannot run where native code keeps its lock
                yield
        finally:
            timer.cancel()

    def _end(self, number: int) -> None:
        import ray

        try:
            ray.get(self._starts.expire.remote(number), timeout=_PATIENCE)
        finally:
            os._exit(1)
