"""How much memory a metric takes: found by trying one batch on a copy."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import itertools
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig
from torch.autograd.profiler import record_function

from valor_gpu import native
from valor_gpu._frozen import frozen
from valor_gpu.checks import check_int
from valor_gpu.errors import InputError

_MARK = "valor_gpu::memory_plan"
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


@frozen
class MemoryPlan:
    """Bytes that a metric takes on its device.

    Attributes:
        fixed: of the state, whatever the data.
        per_update: what each update with such a batch adds to the state, and to what a metric keeps beside it.
        updates: how many of them are planned.
        update: most that such an update takes at once beside the inputs and the state before it.
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
    update: int
    ranks: int
    sync: int

    @property
    def state(self) -> int:
        """Of the state after all updates."""
        return self.fixed + self.updates * self.per_update

    def __str__(self) -> str:
        each = f"{_text(self.fixed)}, and {_text(self.per_update)} each" if self.per_update else "whatever the data"
        state = f"{_text(self.state)} ({each})"
        rows = [(f"state of {self.updates:,} updates", state), ("one update", _text(self.update))]
        rows += [(f"synchronising {self.ranks} ranks", _text(self.sync))] if self.ranks > 1 else []
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


class Measured:
    """Part of every metric that tells what memory it takes, and moves rows out of that of a GPU."""

    _merge: Mapping[str, str]
    _added_up: frozenset[str] = frozenset()
    """Joined fields whose parts an update adds up, so that they do not grow."""

    def _move_list_states_to_cpu(self) -> None:
        """Moves the rows that came last; those before them are there already."""
        for name, merge in self._merge.items():
            tensors = getattr(self, name) if merge == "cat" else []
            for index in range(len(tensors) - 1, -1, -1):
                if tensors[index].device.type == "cpu":
                    break
                tensors[index] = tensors[index].cpu()

    def memory_plan(self, *batch: Any, updates: int = 1, ranks: int = 1, **keywords: Any) -> MemoryPlan:
        """What a state and an update will take, found by two updates of an empty copy with ``batch``.

        Args:
            batch: arguments of ``update``, as large as those to come; also by keyword. They are not added.
            updates: how many such updates are planned on each rank.
            ranks: how many processes will synchronise.
            keywords: arguments of ``update`` by keyword.

        Returns:
            MemoryPlan. Its ``update`` is counted, so that it does not depend on what the process did before. On CUDA
            it is the peak of torch's allocator. On the CPU it is the sum of three peaks, as if they came at the same
            moment: of torch's tensors, of the C++ library, and of Python's objects with NumPy's arrays (by
            ``tracemalloc``, whose own peak is set back where it runs). Not in it are stacks of threads, what torch
            takes past its allocator, what allocators round up to, and C++ buffers that a thread keeps for the next
            update. What other threads make in Python or NumPy in the meantime is in it.

        Raises:
            InputError: ``updates`` or ``ranks`` is below 1, ``batch`` is one that ``update`` raises for, a profiler of
                torch runs on this thread, or the metric is neither on the CPU nor on CUDA.

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
        device = metric.error.device
        if device.type not in ("cpu", "cuda"):
            raise InputError(
                f"memory_plan needs a metric on cpu or cuda but it is on {device}: move it with .to('cpu')"
            )
        empty = metric.clone()
        empty.reset()
        tried = empty.clone()
        tried.update(*batch, **keywords)  # what is loaded or compiled at first counts as none
        update = peak(device, empty.clone, lambda copy: copy.update(*batch, **keywords))
        fixed = rows = 0
        for spec in tried._schema:
            now: Any = getattr(tried, spec.name)
            size = sum(part.nbytes for part in (now if isinstance(now, list) else [now]))
            grows = spec.joined and spec.name not in self._added_up
            fixed, rows = (fixed, rows + size) if grows else (fixed + size, rows)
        sync = _sync_bytes(metric, fixed, rows * updates, ranks)
        return MemoryPlan(fixed, rows + tried._bytes_beside(), updates, update, ranks, sync)

    def _bytes_beside(self) -> int:
        """Bytes that a metric keeps beside its state."""
        return 0


def _sync_bytes(metric: Any, fixed: int, rows: int, ranks: int) -> int:
    """Packed once, and added up in place; or padded and gathered from all ranks, then merged."""
    if ranks == 1:
        return 0
    if metric._identity.counts:
        return fixed
    return (2 + ranks) * (fixed + rows) + fixed + ranks * rows


def peak(device: torch.device, make: Callable[[], Any], work: Callable[[Any], object]) -> int:
    """Bytes that ``work`` on what ``make`` gives takes at its highest moment, beside what is taken before ``work``.

    Raises:
        InputError: a profiler of torch runs on this thread.
    """
    return _cuda_peak(device, make, work) if device.type == "cuda" else _cpu_peak(make, work)


def _cuda_peak(device: torch.device, make: Callable[[], Any], work: Callable[[Any], object]) -> int:
    """The peak by the statistics of torch's allocator."""
    subject = make()
    with _without_collection():
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work(subject)
        return torch.cuda.max_memory_allocated(device) - before


def _cpu_peak(make: Callable[[], Any], work: Callable[[Any], object]) -> int:
    """The peaks of torch, of native code and of Python with NumPy, added up."""
    found: list[int] = []
    with _without_collection(), _torch_peak(found):
        subject = make()  # here, for torch tells the size of a freed block only where it has seen it allocated
        with record_function(_MARK), _native_peak(found), _python_peak(found):
            work(subject)
        del subject
    return sum(found)


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Without garbage of before, which would be freed on the way, and without the spare objects that Python keeps."""
    collects = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextlib.contextmanager
def _torch_peak(found: list[int]) -> Iterator[None]:
    """Appends the peak of torch's CPU allocator since the mark.

    The events are those of the older of torch's two profilers, which sees the calling thread alone. The newer one
    writes to stderr at every start, and a second session on a thread ends the first without an error.
    """
    profiler: Any = torch._C._autograd
    if profiler._profiler_enabled():
        raise InputError(
            "memory_plan needs torch's profiler, but one runs on this thread: call it before or after that"
        )
    no, profile_memory = False, True
    config = ProfilerConfig(ProfilerState.CPU, no, profile_memory, no, no, no, _ExperimentalConfig())
    profiler._enable_profiler_legacy(config)
    try:
        yield
    finally:
        events = profiler._disable_profiler_legacy()
    now = most = 0
    for event in itertools.chain.from_iterable(events):
        if event.name() == _MARK:
            now = most = 0
        elif event.kind() == "memory_alloc":
            now += event.cpu_memory_usage()
            most = max(most, now)
    found.append(most)


@contextlib.contextmanager
def _native_peak(found: list[int]) -> Iterator[None]:
    """Appends the peak of the C++ library on this thread and the helpers of its loops; 0 where it is missing."""
    if not native.available("valor_cpu"):
        yield
        return
    count = native.function("valor_cpu", "valor_count_memory_cpu")
    most = ctypes.c_int64()
    count(1, ctypes.addressof(most))
    try:
        yield
    finally:
        count(0, ctypes.addressof(most))
    found.append(most.value)


@contextlib.contextmanager
def _python_peak(found: list[int]) -> Iterator[None]:
    """Appends the peak of Python's objects and of NumPy's arrays, on all threads."""
    runs = tracemalloc.is_tracing()
    if runs:
        tracemalloc.reset_peak()
    else:
        tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield
        found.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        if not runs:
            tracemalloc.stop()


def _text(size: int) -> str:
    value, unit = float(size), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{size} bytes" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"
