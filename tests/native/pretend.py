"""Tensors that count as tensors of a GPU: kernels run under csrc/sim, and what would make the host wait raises.

Their ``device`` is the CPU, so that memory can be shared with the simulator; ``is_cuda`` is true, and so routes for
CUDA are taken. Everything that computes with them gives such tensors again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import valor_gpu.ops.assign.op as assign_module
from tests.native import sim
from valor_gpu import native, plans
from valor_gpu.inputs import boxes, padded_boxes
from valor_gpu.metric import Metric
from valor_gpu.ops.assign import cuda as _assign_cuda

M = TypeVar("M", bound=Metric[Any])

WAITS = frozenset((
    "item", "tolist", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "__array__", "pin_memory",
    "nonzero", "unique", "is_nonzero", "masked_select", "equal", "allclose",
))  # fmt: skip
"""Calls that read a value of a device tensor, or pin memory."""


class Waited(AssertionError):
    """The host would have waited for the device, or pinned memory."""


class DeviceTensor(Tensor):
    """A tensor that says it lies on a GPU."""

    is_cuda = property(lambda self: True)  # type: ignore[assignment]
    is_cpu = property(lambda self: False)  # type: ignore[assignment]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in WAITS:
            raise Waited(f"{func.__name__} of a device tensor")
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
        return found if isinstance(found, torch.Size) else there(found)


def there(value: Any) -> Any:
    """Every tensor as one of the device; they share memory."""
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.as_subclass(DeviceTensor), value)


def here(value: Any) -> Any:
    """Every tensor as one of the host."""
    return pytree.tree_map_only(Tensor, lambda tensor: tensor.as_subclass(Tensor), value)


def on_device(metric: M) -> M:
    """A copy of a metric whose state lies on the device."""
    copy = metric.clone()
    for held in (copy.__dict__, copy._defaults):
        held.update({name: there(held[name]) for name in copy._merge})
    return copy


@contextmanager
def pretending(capturing: bool = False) -> Iterator[list[str]]:
    """Within it device tensors are matched by the CUDA route; gives the names of the C functions that were called.

    Args:
        capturing: whether the current stream records a CUDA graph.
    """
    called: list[str] = []
    function: Any = native.function
    update_function: Any = native.update_function
    allocate: Any = vars(_assign_cuda)["allocate"]

    def noted(library: str, symbol: str) -> Any:
        if symbol != "valor_set_host_cpu":  # once in a process, whoever is the first to need it
            called.append(symbol)
        return function(library, symbol)

    def noted_update(library: str, symbol: str) -> Any:
        entry = update_function(library, symbol)

        def call(*args: bytes) -> Any:
            called.append(symbol)
            return entry(*args)

        return None if entry is None else call

    with (
        sim.serving("valor_cuda", sim.simulated()),
        mock.patch.object(native, "function", noted),
        mock.patch.object(native, "update_function", noted_update),
        mock.patch.object(plans, "_TYPES", {Tensor, DeviceTensor}),
        mock.patch.object(_assign_cuda, "allocate", lambda *args: there(allocate(*args))),
        mock.patch.object(assign_module, "_direct", lambda batch: True),
        mock.patch.object(boxes, "check_devices", lambda columns: True),
        mock.patch.object(padded_boxes, "check_devices", lambda columns: True),
        mock.patch.object(torch.cuda, "is_initialized", lambda: capturing),
        mock.patch.object(torch.cuda, "is_current_stream_capturing", lambda: capturing),
    ):
        noted.cache_clear = function.cache_clear  # type: ignore[attr-defined]
        noted_update.cache_clear = update_function.cache_clear  # type: ignore[attr-defined]
        yield called
