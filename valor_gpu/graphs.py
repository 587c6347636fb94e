"""``update`` as it stands, which restores the metric after an error, and as torch.compile and torch.jit see it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from valor_gpu.default_device import on_cpu
from valor_gpu.errors import InputError, ValorError
from valor_gpu.ops._launch import capturing
from valor_gpu.state import merge_tensors


@torch._disable_dynamo  # type: ignore[attr-defined,untyped-decorator]
def _apart(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def outside_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, run as it stands where a compiled program calls it; torch.compile makes a graph before and after.

    Elsewhere it costs one look, and torch's compiler is not imported.
    """
    return functools.wraps(function)(untraced(function))


def untraced(function: Callable[..., Any], traced: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """As :func:`outside_graphs` without the name of ``function``: part of a wrapper that has it.

    With ``traced``, a compiled program runs that in its place, as part of its graph.
    """

    def either(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return _apart(function, *args, **kwargs) if traced is None else traced(*args, **kwargs)
        return function(*args, **kwargs)

    return either


class Graphable:
    """What torch.compile and torch.jit need of a metric.

    torch.jit.script takes it as part of a model: its program reads neither properties nor annotated names. An
    ``update`` that is traced counts itself in a tensor: torch.compile would compile again for every value of an int.
    """

    traceable: ClassVar[bool] = False
    """Whether torch.compile traces ``update``: it calls ops alone, and no value decides what it does."""

    _traced_updates: Tensor | None = None
    _update_count: int
    _merge: Mapping[str, str]
    __jit_unused_properties__: ClassVar[list[str]]
    __jit_ignored_attributes__: ClassVar[list[str]]
    forward: Callable[..., Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        spaces: list[Any] = [vars(base) for base in cls.__mro__]
        properties = {name for space in spaces for name, value in space.items() if isinstance(value, property)}
        annotated = {name for space in spaces for name in space.get("__annotations__", ())}
        cls.__jit_unused_properties__, cls.__jit_ignored_attributes__ = sorted(properties), sorted(annotated)
        torch.jit.unused(cls.forward)

    @property
    def update_count(self) -> int:
        """How often ``update`` or ``forward`` was called since the last reset."""
        self._count_traced_updates()
        return self._update_count

    @property
    def update_called(self) -> bool:
        """Whether ``update`` or ``forward`` was called since the last reset."""
        return self.update_count > 0

    def _count_traced_updates(self) -> None:
        if self._traced_updates is not None and not torch.compiler.is_compiling():
            self._update_count += int(self._traced_updates)
            self._traced_updates = None

    def _add_in_graph(self, tensors: Mapping[str, Tensor]) -> None:
        """Rows become one tensor, since torch.compile would compile again for every length of a list."""
        for name, tensor in tensors.items():
            now = getattr(self, name)
            if not isinstance(now, list):
                setattr(self, name, merge_tensors(self._merge[name], (now, tensor)))
            elif len(tensor) > 0:  # as a truth value, torch 2.6 would compile again for every length
                setattr(self, name, [torch.cat((*now, tensor))])


def guarded_update(metric: Any, update: Callable[..., Any]) -> Callable[..., None]:
    """``update`` of a metric that leaves the metric as it was when it raises.

    Each replay of a CUDA graph that captured an update reads the state before that update, which therefore lives as
    long as this function.
    """
    read_by_graphs: list[dict[str, Any]] = []

    def guarded(*args: Any, **kwargs: Any) -> None:
        metric._check_not_synced("update")
        if metric._wrappers:
            metric._check_picked(args, kwargs)
        saved = {name: getattr(metric, name) for name in (*metric._merge, "_update_count", "_computed")}
        rows = {name: len(saved[name]) for name, merge in metric._merge.items() if merge == "cat"}
        metric.__dict__.pop("_undo", None)
        try:
            update(*args, **kwargs)
        except BaseException as error:
            if (undo := metric.__dict__.pop("_undo", None)) is not None:  # of a table that is changed in place
                undo()
            for name, length in rows.items():
                del saved[name][length:]
            metric.__dict__.update(saved)
            if not isinstance(error, ValorError):  # those name what is wrong
                _check_devices_served(metric.error, args, kwargs)
            raise
        metric.__dict__.pop("_undo", None)
        if metric.error.is_cuda and capturing():
            read_by_graphs.append({**saved, **{name: list(saved[name][:length]) for name, length in rows.items()}})
        metric.__dict__["_merged"] = None  # torch.nn.Module would look through its parameters first

    return on_cpu(guarded)


def _check_devices_served(*values: Any) -> None:
    """Raises :class:`InputError` that names a device which no kernel serves, such as ``mps`` or ``xpu``.

    Asked only after an update failed there: torch says no more than which of its ops is missing.
    """
    for value in pytree.tree_leaves(values):
        if isinstance(value, Tensor) and value.device.type not in ("cpu", "cuda"):
            raise InputError(
                f"update must get tensors of the CPU or of a CUDA device, and the metric must lie there, but one is on"
                f" {value.device}: move it with .cpu()"
            )


def traced_update(metric: Any, update: Callable[..., Any]) -> Callable[..., None]:
    """``update`` of a metric as part of a compiled program. A bad value raises in ``compute``, as on CUDA."""

    def traced(*args: Any, **kwargs: Any) -> None:
        metric._check_not_synced("update")
        metric._computed = metric._merged = None
        with torch.no_grad():
            update(*args, **kwargs)
            one = torch.ones_like(metric.error)
            before = metric._traced_updates
            metric._traced_updates = one if before is None else one + before.to(one.device)

    return traced
