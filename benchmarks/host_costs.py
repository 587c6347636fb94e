"""What the parts of host code cost on the machine of a GPU and here, so that a time measured here tells of that one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import torch

from benchmarks.small import block_seconds
from valor_gpu import native
from valor_gpu.ops._launch import launching

GPU = "NVIDIA H100, torch 2.11, Python 3.12"
THERE = {
    "operation": 13.0,
    "tensor of a cat": 0.25,
    "allocation": 4.2,
    "view": 3.3,
    "detach": 1.1,
    "stream": 2.4,
    "pinned": 2.6,
    "C call": 2.0,
    "launch": 4.0,
}
"""Microseconds of the host of :data:`GPU`. ``operation``: one of torch that launches; ``stream``: the device and the
stream of a call; ``pinned``: pinned memory that torch's cache holds; ``launch``: one within a C call."""

_BLOCKS, _CALLS = 25, 100
_WORDS, _MOST = 500, 17  # words that a launch of an upload takes; most launches, and parts of a cat


def here() -> dict[str, float]:
    """Returns microseconds of the same parts here, under :func:`benchmarks.host_device.pretended` without launches."""
    one, flat, device = torch.ones(1), torch.ones(8), torch.device("cpu")
    parts = [torch.ones(1) for _ in range(_MOST)]

    def enter() -> None:
        with launching(device):
            pass

    words, room = np.zeros(_MOST * _WORDS, np.int64), torch.empty(_MOST * _WORDS, dtype=torch.int64)
    upload, addresses = native.function("valor_cuda", "valor_upload_cuda"), (words.ctypes.data, room.data_ptr())

    def launch(count: int) -> None:
        upload(addresses[0], count * _WORDS, addresses[1], 0)

    joins, launches = (
        {count: _micros(partial(call, count)) for count in (1, _MOST)}
        for call in (lambda count: torch.cat(parts[:count]), launch)
    )
    each = (launches[_MOST] - launches[1]) / (_MOST - 1)
    allocation = _micros(lambda: torch.empty(8, dtype=torch.int64, device=device))
    return {
        "operation": _micros(lambda: one + one),
        "tensor of a cat": (joins[_MOST] - joins[1]) / (_MOST - 1),
        "allocation": allocation,
        "view": _micros(lambda: flat.as_strided((2, 4), (4, 1))),
        "detach": _micros(flat.detach),
        "stream": _micros(enter),
        "pinned": allocation,
        "C call": launches[1] - each,
        "launch": each,
    }


def _micros(call: Callable[[], object]) -> float:
    return min(1e6 * block_seconds(call, _CALLS) for _ in range(_BLOCKS))


def predicted(micros: float, counts: Mapping[str, float], costs: Mapping[str, float]) -> float:
    """Returns microseconds on the machine of :data:`GPU` of a work that takes ``micros`` here.

    Python is taken to be as fast there.

    Args:
        micros: measured here.
        counts: of the parts in the work.
        costs: of the parts here.

    Example:
        >>> predicted(100.0, {"operation": 2.0}, {"operation": 3.0})
        120.0
    """
    return micros + sum(count * (THERE[part] - costs[part]) for part, count in counts.items())
