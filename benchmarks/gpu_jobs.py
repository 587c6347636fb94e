"""One row of the table of a GPU check: a work on tensors of the device, beside what else its user could do.

The alternatives are torchmetrics on the same tensors, and to copy the tensors to the CPU and let our own metric count
there with all its cores. The latter also tells what the right result is: no time is kept unless both agree, bit for
bit. The device may be the CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from unittest import mock

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from benchmarks.checks import (
    Disagreement,
    Later,
    Unavailable,
    head_start,
    peak_device_mb,
    spread,
    wait,
    wall_seconds,
)
from benchmarks.gpu_targets import judged
from testing.parity import differences
from testing.registry import moved_bytes
from valor_gpu import native
from valor_gpu.ops.accumulate import cuda as _accumulate_cuda

CPU = torch.device("cpu")
FLUSHED_BYTES = 1 << 28
"""Read ahead of each device time: more than the L2 cache of any GPU holds, so that input comes from memory. Bytes that
were written there instead would have to leave the cache within the time."""
ROUTE_RUNS, ROUTE_SECONDS = 5, 1.5
"""The way through the CPU is repeated so often at most, and not after so many seconds."""

Timing = dict[str, Any]
Bandwidth = Later[float]


class NoLibrary(Unavailable):
    """The C++ library, which the way through the CPU is timed with, is missing."""


class Run(Protocol):
    """A work whose metrics and tables are made."""

    def __call__(self, data: Any) -> object:
        """Does the work, which is timed."""

    def reset(self) -> None:
        """Makes ready for the next call."""

    def value(self) -> Any:
        """Returns what the calls since :meth:`reset` gave."""


class OfFunction:
    """A call of a function without state; ``data`` is its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._value: Any = None

    def __call__(self, data: Any) -> object:
        self._value = self._function(*data)
        return self._value

    def reset(self) -> None:
        self._value = None

    def value(self) -> Any:
        return self._value


class OfMetric:
    """Updates of a metric; ``data`` is a list of its arguments.

    Args:
        metric: on its device.
        computes: whether ``compute`` is part of the work.
    """

    def __init__(self, metric: Any, computes: bool = True) -> None:
        self._metric, self._computes = metric, computes
        self._value: Any = None

    def __call__(self, data: Any) -> object:
        for batch in data:
            self._metric.update(*batch)
        if self._computes:
            self._value = self._metric.compute()
        return self._value

    def reset(self) -> None:
        self._metric.reset()

    def value(self) -> Any:
        found = self._value if self._computes else self._metric.compute()
        return dict(sorted(found.items())) if isinstance(found, dict) else found


@dataclass(frozen=True)
class Job:
    """A work to be timed.

    Attributes:
        name: with its size; the check has it too.
        data: makes the tensors on a device; no more than a quarter of its memory.
        start: makes the work for a device.
        keys: of :data:`benchmarks.gpu_targets.TARGETS`.
        repeats: of each time.
        peer: likewise of torchmetrics; ``data`` is a list of batches then.
        gap: from torchmetrics' numbers to ours, at least 0; larger ones than ``tolerance`` are a disagreement.
        tolerance: see ``gap``.
        seconds: that the check may take.
    """

    name: str
    data: Callable[[torch.device], Any]
    start: Callable[[torch.device], Run]
    keys: tuple[str, ...] = ()
    repeats: int = 10
    peer: Callable[[torch.device], Run] | None = None
    gap: Callable[[Any, Any], float] | None = None
    tolerance: float = 1e-5
    seconds: float = 30.0


def measure(job: Job, device: torch.device, bandwidth: Bandwidth) -> Timing:
    """Returns the row of a work.

    Raises:
        Disagreement: the result is not that of the CPU, or too far from torchmetrics'.
        Unavailable: the data do not fit into a quarter of the memory of ``device``.
    """
    data = job.data(device)
    _check_room(data, device)
    run = job.start(device)
    run(data)
    got = run.value()
    row: Timing = {"work": job.name, "bytes": moved_bytes(data, got), "copy_bytes_per_second": bandwidth()}
    row["floor_seconds"] = row["bytes"] / row["copy_bytes_per_second"]
    try:
        row["cpu_route"] = _time_cpu_route(job, data, got, device)
    except NoLibrary as error:
        row["no_cpu_route"] = str(error)
    repeat = partial(run, data)
    row["seconds"] = wall_seconds(repeat, device, job.repeats, before=run.reset)
    on_device = device_time(repeat, device, job.repeats, before=run.reset)
    row |= {"device_seconds": on_device, "share_of_copy": row["floor_seconds"] / on_device["median"]}
    run.reset()
    peak = peak_device_mb(repeat, device)
    if peak is not None:
        row |= {"peak_device_mb": peak, "extra_memory": peak * 2**20 / max(moved_bytes(data), 1)}
    if "cpu_route" in row:
        row["times_cpu_route"] = row["cpu_route"]["median"] / row["seconds"]["median"]
    if job.peer is not None:
        row |= _time_peer(job, job.peer, data, got, device, row["seconds"]["median"])
    return judged(row, job.keys)


def on_the_cpu(data: Any) -> Any:
    """Returns copies on the CPU of all tensors in ``data``."""
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.cpu(), data)


def _check_room(data: Any, device: torch.device) -> None:
    if device.type != "cuda":
        return
    room, size = torch.cuda.get_device_properties(device).total_memory // 4, moved_bytes(data)
    if size > room:
        raise Unavailable(f"the data take {size:,} bytes, and a quarter of the device's memory is {room:,}")


def _flush(device: torch.device) -> Callable[[], object]:
    if device.type != "cuda":
        return lambda: None
    return torch.zeros(FLUSHED_BYTES // 4, device=device).sum


def device_time(
    work: Callable[[], object], device: torch.device, repeats: int, before: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """Spread of the seconds for which ``device`` is busy with ``work``; wall time on the CPU.

    Its caches are emptied first. Then the device sleeps, so that the host is ahead of it. Where a work reads back once,
    the seconds end there: after that the device is idle while the host goes on. Where it reads back several times,
    device work follows the first read, so the seconds end with the work and contain some of the host's.

    Args:
        work: is measured.
        device: whose current stream ``work`` uses.
        repeats: how often.
        before: runs ahead of every repeat, outside the seconds.
    """
    if device.type != "cuda":
        return wall_seconds(work, device, repeats, before)
    seconds, flush, hold_back = [], _flush(device), head_start(work, device, before)
    for _ in range(repeats):
        before()
        flush()
        hold_back()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        with _ending_at_a_read(end) as reads:
            work()
        if len(reads) != 1:
            end.record()
        end.synchronize()
        seconds.append(start.elapsed_time(end) / 1e3)
    return spread(seconds)


@contextmanager
def _ending_at_a_read(end: torch.cuda.Event) -> Iterator[list[None]]:
    """Records ``end`` ahead of the first read back; gives a list with an entry for each read."""
    read = _accumulate_cuda._read
    reads: list[None] = []

    def noted(*arguments: Any) -> Any:
        if not reads:
            end.record()
        reads.append(None)
        return read(*arguments)

    with mock.patch.object(_accumulate_cuda, "_read", noted):
        yield reads


def _time_cpu_route(job: Job, data: Any, got: Any, device: torch.device) -> dict[str, float]:
    """Spread of the wall seconds of copies to the CPU and of the work there, whose result must be ``got``.

    Raises:
        Disagreement: it is not.
        NoLibrary: plain PyTorch gave the result in place of the C++ library, and its time says nothing of our metric.
    """
    run = job.start(CPU)
    taken: list[float] = []
    runs = ROUTE_RUNS if native.available("valor_cpu") else 1
    while len(taken) < runs and sum(taken) < ROUTE_SECONDS:
        run.reset()
        wait(device)
        start = time.perf_counter()
        run(on_the_cpu(data))
        taken.append(time.perf_counter() - start)
    if text := differences(got, run.value()):
        raise Disagreement(f"on {device} the result is not that of the CPU: {text}")
    if not native.available("valor_cpu"):
        reason, remedy = native.explanation("valor_cpu"), native.remedy("valor_cpu")
        raise NoLibrary(f"the C++ library is missing ({reason}), so the CPU was not timed: {remedy}")
    return spread(taken[1:] or taken)  # the first one loads code, unless it is all that there is time for


def _time_peer(
    job: Job, make: Callable[[torch.device], Run], data: Any, got: Any, device: torch.device, ours: float
) -> Timing:
    try:
        peer = make(device)
    except ImportError as error:
        return {"no_torchmetrics": str(error)}
    peer(data[:1])  # loads its kernels
    peer.reset()
    seconds = wall_seconds(partial(peer, data), device, 1)
    gap = (job.gap or largest_gap)(got, peer.value())
    if not gap <= job.tolerance:
        raise Disagreement(f"torchmetrics' numbers differ from ours by {gap:.1e}, more than {job.tolerance:.1e}")
    return {"torchmetrics": seconds, "times_torchmetrics": seconds["median"] / ours, "largest_difference": gap}


def largest_gap(ours: Tensor, theirs: Tensor) -> float:
    """Returns the largest difference of two tensors of one shape, wherever they lie."""
    return float((ours.cpu().double() - theirs.cpu().double()).abs().max())
