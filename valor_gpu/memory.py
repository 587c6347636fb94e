"""How much memory a metric takes: found by trying one batch on a copy."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from valor_gpu._frozen import frozen
from valor_gpu.checks import check_int
from valor_gpu.errors import InputError

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@frozen
class MemoryPlan:
    """Bytes that a metric takes on its device.

    Attributes:
        fixed: of the state, whatever the data.
        per_update: what each update with such a batch adds to the state.
        updates: how many of them are planned.
        update: most that such an update takes at once beside the inputs and the state before it; None where this
            system does not tell.
        ranks: processes that synchronise.
        sync: most that a synchronisation of ``ranks`` such states takes at once on each of them beside its own state;
            0 for one rank.

    Example:
        >>> print(MemoryPlan(fixed=80, per_update=24_000, updates=1000, update=70_000, ranks=1, sync=0))
        state of 1,000 updates  24.0 MB (80 bytes, and 24.0 kB each)
        one update              70.0 kB
    """

    fixed: int
    per_update: int
    updates: int
    update: int | None
    ranks: int
    sync: int

    @property
    def state(self) -> int:
        """Of the state after all updates."""
        return self.fixed + self.updates * self.per_update

    def __str__(self) -> str:
        each = f"{_text(self.fixed)}, and {_text(self.per_update)} each" if self.per_update else "whatever the data"
        update = "unknown on this system" if self.update is None else _text(self.update)
        rows = [(f"state of {self.updates:,} updates", f"{_text(self.state)} ({each})"), ("one update", update)]
        rows += [(f"synchronising {self.ranks} ranks", _text(self.sync))] if self.ranks > 1 else []
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


class Measured:
    """Part of every metric that tells what memory it takes."""

    def memory_plan(self, *batch: Any, updates: int = 1, ranks: int = 1, **keywords: Any) -> MemoryPlan:
        """What a state and an update will take, found by two updates of an empty copy with ``batch``.

        Args:
            batch: arguments of ``update``, as large as those to come; also by keyword. They are not added.
            updates: how many such updates are planned on each rank.
            ranks: how many processes will synchronise.
            keywords: arguments of ``update`` by keyword.

        Returns:
            MemoryPlan. The update is measured, with what native code takes: on CUDA by torch's allocator, on the CPU by
            the resident memory of this process, in pages, under Linux alone; other threads disturb that.

        Raises:
            InputError: ``updates`` or ``ranks`` is below 1, or ``batch`` is one that ``update`` raises for.

        Example:
            >>> from valor_gpu.classification import ROCAUC
            >>> plan = ROCAUC(num_classes=10).memory_plan(torch.rand(64, 10), torch.zeros(64).long(), updates=100)
            >>> plan.per_update  # 64 x 10 float32 scores and 64 targets of one byte
            2624
        """
        check_int("updates", updates, 1)
        check_int("ranks", ranks, 1)
        metric: Any = self
        metric._check_not_synced("memory_plan")
        empty = metric.clone()
        empty.reset()
        tried = empty.clone()
        tried.update(*batch, **keywords)  # what is loaded or compiled at first counts as none
        update = peak(metric.error.device, lambda: empty.update(*batch, **keywords))
        fixed = rows = 0
        for spec in tried._schema:
            now: Any = getattr(tried, spec.name)
            size = sum(part.nbytes for part in (now if isinstance(now, list) else [now]))
            fixed, rows = (fixed, rows + size) if spec.joined else (fixed + size, rows)
        sync = _sync_bytes(metric, fixed, rows * updates, ranks)
        return MemoryPlan(fixed, rows, updates, update, ranks, sync)


def _sync_bytes(metric: Any, fixed: int, rows: int, ranks: int) -> int:
    """Packed once, and added up in place; or padded and gathered from all ranks, then merged."""
    if ranks == 1:
        return 0
    if metric._identity.counts:
        return fixed
    return (2 + ranks) * (fixed + rows) + fixed + ranks * rows


def peak(device: torch.device, work: Callable[[], object]) -> int | None:
    """Bytes that ``work`` takes at its highest moment beside what is taken before; None where nothing tells."""
    collects = gc.isenabled()
    gc.disable()  # garbage of before that is freed on the way would be taken again unseen
    try:
        before = _start(device)
        work()
        if before is None:
            return None
        return (torch.cuda.max_memory_allocated(device) if device.type == "cuda" else _resident("VmHWM")) - before
    finally:
        if collects:
            gc.enable()


def _start(device: torch.device) -> int | None:
    """Bytes that are taken now, the mark of the highest moment being set back."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    if device.type != "cpu" or sys.platform != "linux":
        return None
    with contextlib.suppress(AttributeError):  # glibc alone has it, and keeps freed blocks, which would be taken again
        ctypes.CDLL(None).malloc_trim(0)
    try:
        _CLEAR.write_text("5")
        return _resident("VmRSS")
    except (OSError, InputError):
        return None


def _resident(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise InputError(f"{_STATUS} must tell {name} but does not")


def _text(size: int) -> str:
    value, unit = float(size), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{size} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"
