"""Budgets of a GPU check: what one ``update`` and one ``compute`` cost the host and the device, each by itself.

Device time is taken between two events with the device held back until the host has enqueued everything; host time is
that of the call without the wait for the device. No time is kept unless ``compute`` gives what the CPU gives.
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
from benchmarks.checks import Checks, Disagreement, device_seconds, spread, wait, wall_seconds
from benchmarks.gpu_timing import Timing, Work
from testing import formats
from testing.parity import differences
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.ops import _accumulate_cuda

HOST_BUDGETS = {"lists": 120e-6, "padded": 60e-6}
"""Seconds of the host in one update of 16 images."""


def budgeted(name: str, measured: dict[str, dict[str, float]], budgets: dict[str, float | None]) -> Timing:
    """One row of the record.

    Args:
        name: of the work.
        measured: spreads of ``seconds`` (wall), ``host_seconds``, ``device_seconds``, those that were measured.
        budgets: seconds allowed for some of them, None for no budget; the row is met if every median is within its own.
    """
    allowed = {f"{kind}_budget": limit for kind, limit in budgets.items() if limit is not None}
    within = [measured[kind]["median"] <= limit for kind, limit in budgets.items() if limit is not None]
    return {"work": name, **measured, **allowed, "met": all(within) if within else None}


def time_budgets(checks: Checks, work: Work, device: torch.device) -> list[Timing]:
    """Updates of 16 images as lists and padded, one update with all images, and ``compute``."""
    preds, target = formats.image_tensors(work.scene, device)
    lists = [(preds[i : i + BATCH], target[i : i + BATCH]) for i in range(0, len(preds), BATCH)][:200]
    whole = formats.padded_tensors(work.scene, device)
    padded = [tuple({key: table[i : i + BATCH] for key, table in side.items()} for side in whole)
              for i in range(0, BATCH * len(lists), BATCH)]  # fmt: skip
    rows = []
    for form, batches in (("lists", lists), ("padded", padded)):
        name = f"{work.name}: one update of {BATCH} images, {form}"
        rows.append(checks.run(name, partial(_time_updates, name, batches, device, HOST_BUDGETS[form])))
    name = f"{work.name}: one update with all images, padded"
    rows.append(checks.run(name, partial(_time_updates, name, [whole] * max(3, work.repeats), device, None)))
    name = f"{work.name}: compute"
    rows.append(checks.run(name, partial(_time_compute, name, whole, device, work)))
    return [row for row in rows if row is not None]


def _time_updates(name: str, batches: list[Any], device: torch.device, budget: float | None) -> Timing:
    metric = MeanAveragePrecision().to(device)
    metric.update(*batches[0])
    wait(device)
    host = []
    for batch in batches:
        start = time.perf_counter()
        metric.update(*batch)
        host.append(time.perf_counter() - start)
        wait(device)
    on_device = [device_seconds(partial(metric.update, *batch), device, 1, ahead=True)["median"] for batch in batches]
    wall = [wall_seconds(partial(metric.update, *batch), device, 1)["median"] for batch in batches]
    measured = {"seconds": spread(wall), "host_seconds": spread(host), "device_seconds": spread(on_device)}
    return budgeted(name, measured, {"host_seconds": budget})


def _time_compute(name: str, batch: Any, device: torch.device, work: Work) -> Timing:
    metric, on_the_cpu = MeanAveragePrecision().to(device), MeanAveragePrecision()
    metric.update(*batch)
    on_the_cpu.update(*formats.padded_tensors(work.scene))
    if text := differences(dict(sorted(metric.compute().items())), dict(sorted(on_the_cpu.compute().items()))):
        raise Disagreement(f"AP on {device} is not that on the CPU: {text}")

    def forget() -> None:
        metric._computed = None

    wall = wall_seconds(metric.compute, device, work.repeats, before=forget)
    on_device = device_seconds(metric.compute, device, work.repeats, before=forget, ahead=True)
    measured = {"seconds": wall, "host_seconds": _host_spread(metric.compute, device, work.repeats, forget)}
    measured["device_seconds"] = on_device
    limits = {"host_seconds": work.compute_host_target, "device_seconds": work.compute_device_target}
    return budgeted(name, measured, limits)


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
