"""A CUDA device that does nothing, for the time of host code: plain CPU tensors count as tensors of a GPU.

The CUDA library is csrc/sim with launches left out. Operations of torch run on the CPU: :mod:`benchmarks.host_costs`
puts what they cost on the machine of a GPU in place of that.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol
from unittest import mock

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from testing import simulator
from valor_gpu import native, plans
from valor_gpu.ops import _launch

ALLOCATIONS = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})

FACTORIES = {"empty": "allocation", **dict.fromkeys(("arange", "full", "ones", "tensor", "zeros"), "operation")}


class Work(Protocol):
    """Calls of a metric whose time is wanted."""

    @property
    def held(self) -> Any:
        """Tensors of the device that the next call gets, nested in any way."""

    def prepare(self) -> None:
        """Makes ready for the next call, outside of the time."""

    def __call__(self) -> object:
        """Does the work."""


@contextlib.contextmanager
def pretended() -> Iterator[ctypes.CDLL]:
    """Within it metrics take CPU tensors for tensors of a GPU, and csrc/sim runs the kernels; gives that library.

    Tensors of the host count as tensors of the device as well, so batches must hold none.
    """
    empty = torch.empty

    def pageable(*sizes: Any, pin_memory: bool = False, **choices: Any) -> Tensor:
        return empty(*sizes, **choices)

    library = simulator.cuda_library(False, False)
    with (
        simulator.serving("valor_cuda", library),
        mock.patch.object(Tensor, "is_cuda", True),
        mock.patch.object(Tensor, "is_cpu", False),
        mock.patch.object(torch, "empty", pageable),
    ):
        yield library


def launching_nothing() -> contextlib.AbstractContextManager[None]:
    """Leaves out the launches of the library of :func:`pretended`."""
    return simulator.launching_nothing(simulator.cuda_library(False, False))


def counts_of(make: Callable[[], Work]) -> Counter[str]:
    """Returns how often a work asks for each of :data:`benchmarks.host_costs.THERE`; kernels run only in ``make``.

    Raises:
        NotImplementedError: the work calls an op of the package through torch's dispatcher, which sees CPU tensors.
    """
    found, library = Found(), simulator.cuda_library(False, False)
    with contextlib.ExitStack() as patches:
        for patch in _noting(found):
            patches.enter_context(patch)
        work = make()
        patches.enter_context(launching_nothing())
        work.prepare()
        work()  # makes plans, which hold functions of the library
        work.prepare()
        found.counts.clear()
        simulator.launches(library)
        found.take(work.held)
        with Operations(found):
            work()
        found.counts["launch"] = len(simulator.launches(library))
    return +found.counts


class Found:
    """Counts, and the tensors of the device."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._tensors: list[Tensor] = []  # kept, so that no other storage gets an address of theirs
        self._storages: set[int] = set()

    def take(self, value: Any) -> None:
        """Takes the tensors nested in a value for tensors of the device."""
        tensors = tensors_of(value)
        self._tensors += tensors
        self._storages.update(map(_storage, tensors))

    def has(self, tensors: Sequence[Tensor]) -> bool:
        """Whether one of them is a tensor of the device, or shares memory with one."""
        return any(_storage(tensor) in self._storages for tensor in tensors)


def _noting(found: Found) -> Iterator[Any]:
    """Patches under which calls that torch's dispatcher does not see are counted."""
    function, update_function, enter = native.function, native.update_function, _launch._Launching.__enter__

    def noted(entry: Callable[..., Any] | None) -> Any:
        def call(*arguments: Any) -> Any:
            found.counts["C call"] += 1
            return entry(*arguments)  # type: ignore[misc]

        return None if entry is None else call

    def entered(launching: Any) -> int:
        found.counts["stream"] += 1
        return enter(launching)

    yield mock.patch.object(native, "function", lambda *key: noted(function(*key)))
    yield mock.patch.object(native, "update_function", lambda *key: noted(update_function(*key)))
    yield mock.patch.object(_launch._Launching, "__enter__", entered)
    for name, kind in FACTORIES.items():
        yield mock.patch.object(torch, name, functools.partial(_made, found, kind, getattr(torch, name)))
    # The ways that are measured must be taken under Operations as well.
    yield mock.patch.object(plans, "_dispatch_modes", lambda: 0)
    yield mock.patch.object(torch._C, "_len_torch_dispatch_stack", lambda: 0)


def _made(found: Found, kind: str, make: Callable[..., Tensor], *arguments: Any, **choices: Any) -> Tensor:
    """What a factory makes: on the device where a device is named, which the dispatcher cannot tell."""
    tensor = make(*arguments, **choices)
    if choices.get("device") is not None:
        found.counts[kind] += 1
        found.take(tensor)
    found.counts["pinned"] += bool(choices.get("pin_memory"))
    return tensor


class Operations(TorchDispatchMode):
    """Counts operations on tensors of the device; those on tensors of the host cost the same everywhere."""

    def __init__(self, found: Found) -> None:
        super().__init__()
        self._found = found

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if func.namespace not in ("aten", "prim"):
            raise NotImplementedError(f"{func} must not be part of the work: torch would call its kernel of the CPU")
        out, kind, given = func(*args, **(kwargs or {})), _kind(func), tensors_of((args, kwargs))
        if self._found.has(given) and not (kind == "detach" and self._is_new(given[0])):
            self._found.counts[kind] += 1
            self._found.counts["tensor of a cat"] += len(args[0]) if func._schema.name == "aten::cat" else 0
            self._found.take(out)
        self._new = out if kind == "allocation" else None
        return out

    _new: Tensor | None = None

    def _is_new(self, tensor: Tensor) -> bool:
        """Whether the operation before allocated a tensor: with a mode, torch detaches it."""
        return self._new is not None and _storage(tensor) == _storage(self._new)


def tensors_of(value: Any) -> list[Tensor]:
    """Returns the tensors nested in a value."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _kind(func: Any) -> str:
    name = func._schema.name.removeprefix("aten::")
    if name in ALLOCATIONS:
        return "allocation"
    return "detach" if name == "detach" else "view" if func.is_view else "operation"
