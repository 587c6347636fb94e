"""A bound on the memory of a process while it works on a shard. No torch."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def memory_bound(limit: int | None) -> Iterator[None]:
    """Lets allocations fail beyond ``limit`` bytes of data of this process, in place of the system's killer.

    Linux counts private memory that can be written (RLIMIT_DATA), files that are mapped for reading not. It holds for
    all threads of the process while the body runs.

    Args:
        limit: bytes; None: no bound.
    """
    if limit is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    lower = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (lower, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def peak_bytes() -> int:
    """The largest resident memory of this process so far."""
    with contextlib.suppress(OSError), open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    # counts that of the parent until the process began its program
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts KiB


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: Python's and numpy's error, or that of torch's allocator."""
    texts = ("can't allocate memory", "not enough memory", "out of memory")  # of torch on Linux, elsewhere, on CUDA
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(text in str(error) for text in texts)
    )
