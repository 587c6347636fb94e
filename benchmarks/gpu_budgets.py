"""Budgets of a GPU check: what one ``update`` and one ``compute`` cost the host and the device, each by itself.

Device time is taken between two events with the device held back until the host has enqueued everything, and ends where
the host reads the result back. Host time is that of the call without the wait for the device, among calls that follow
one another as in a training loop: our metric on the CPU, whose threads spin for a while after it, comes later. No time
is kept unless ``compute`` gives what the CPU gives.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch

from benchmarks.baselines import BATCH
from benchmarks.checks import Checks, Disagreement, Later, spread, wait, wall_seconds
from benchmarks.gpu_jobs import Timing, device_time, on_the_cpu
from benchmarks.gpu_targets import judged
from benchmarks.gpu_timing import image_batches
from benchmarks.gpu_works import Work
from testing import formats
from testing.parity import differences
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.ops.accumulate import cuda as _accumulate_cuda

_MOST_UPDATES = 200
_PASSES = 3  # over all updates; the first loads kernels and touches memory, and is not counted


def time_budgets(checks: Checks, work: Work, device: torch.device) -> None:
    """Updates of 16 images as lists and padded, one update with all images, and ``compute``."""
    whole = Later("padded tensors", lambda: formats.padded_tensors(work.scene(), device))

    def lists() -> list[Any]:
        return image_batches(work.scene(), device)[:_MOST_UPDATES]

    def padded() -> list[Any]:
        starts = range(0, min(len(work.scene().image_ids), BATCH * _MOST_UPDATES), BATCH)
        return [tuple({key: table[i : i + BATCH] for key, table in side.items()} for side in whole()) for i in starts]

    for form, batches in (("lists", lists), ("padded", padded)):
        name, what = f"{work.name}: one update of {BATCH} images, {form}", f"update of {BATCH} images, {form}"
        checks.run(name, partial(_time_updates, name, batches, device, (what,)))
    name = f"{work.name}: one update with all images, padded"
    checks.run(name, partial(_time_updates, name, lambda: [whole()] * max(3, work.repeats), device, ()))
    name = f"{work.name}: compute"
    checks.run(name, partial(_time_compute, name, whole, device, work))


def _time_updates(name: str, make: Callable[[], list[Any]], device: torch.device, keys: tuple[str, ...]) -> Timing:
    batches = make()
    metric, beside = MeanAveragePrecision().to(device), MeanAveragePrecision()
    passes = [_host_of_updates(metric, batches, device) for _ in range(_PASSES)]
    host = [seconds for found in passes[1:] for seconds in found]
    for batch in batches:
        beside.update(*on_the_cpu(batch))
    _compare(metric, beside, device)
    on_device = [device_time(partial(metric.update, *batch), device, 1)["median"] for batch in batches]
    wall = [wall_seconds(partial(metric.update, *batch), device, 1)["median"] for batch in batches]
    measured = {"seconds": spread(wall), "host_seconds": spread(host), "device_seconds": spread(on_device)}
    return judged({"work": name, **measured}, keys)


def _host_of_updates(metric: MeanAveragePrecision, batches: list[Any], device: torch.device) -> list[float]:
    """Seconds of the host for each update of an empty metric, one after another without a wait."""
    metric.reset()
    wait(device)
    found = []
    for batch in batches:
        start = time.perf_counter()
        metric.update(*batch)
        found.append(time.perf_counter() - start)
    wait(device)
    return found


def _time_compute(name: str, whole: Later[Any], device: torch.device, work: Work) -> Timing:
    metric, beside = MeanAveragePrecision().to(device), MeanAveragePrecision()
    metric.update(*whole())

    def forget() -> None:
        metric._computed = metric._merged = None

    _host_spread(metric.compute, device, 2, forget)  # loads kernels and makes tables
    host = _host_spread(metric.compute, device, work.repeats, forget)
    beside.update(*formats.padded_tensors(work.scene()))
    _compare(metric, beside, device)
    measured = {
        "seconds": wall_seconds(metric.compute, device, work.repeats, before=forget),
        "host_seconds": host,
        "device_seconds": device_time(metric.compute, device, work.repeats, before=forget),
    }
    return judged({"work": name, **measured}, work.keys("compute"))


def _compare(metric: MeanAveragePrecision, beside: MeanAveragePrecision, device: torch.device) -> None:
    """``beside`` is on the CPU."""
    if text := differences(dict(sorted(metric.compute().items())), dict(sorted(beside.compute().items()))):
        raise Disagreement(f"AP on {device} is not that on the CPU: {text}")


def _host_spread(
    work: Callable[[], object], device: torch.device, repeats: int, before: Callable[[], None]
) -> dict[str, float]:
    """Seconds of a call without those in which it waits for the copy back."""
    found = []
    for _ in range(repeats):
        before()
        wait(device)
        with _waits() as waited:
            start = time.perf_counter()
            work()
            found.append(time.perf_counter() - start - sum(waited))
    return spread(found)


@contextmanager
def _waits() -> Iterator[list[float]]:
    """Seconds of each wait for a copy back within it."""
    read = _accumulate_cuda._read
    waited: list[float] = []

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return read(*arguments)
        finally:
            waited.append(time.perf_counter() - start)

    with mock.patch.object(_accumulate_cuda, "_read", timed):
        yield waited
