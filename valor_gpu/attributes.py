"""Attributes of a metric, set without the search of ``torch.nn.Module``, a third of a constructor; who defines them."""

from __future__ import annotations

import functools
from types import FunctionType, MethodType, NoneType
from typing import Any

from torch import Tensor
from torch.nn import Module

_PLAIN = (NoneType, bool, int, float, str, dict, list, tuple, MethodType, FunctionType)
_CONSTANTS = frozenset({
    "higher_is_better", "is_differentiable", "full_state_update",
    "plot_lower_bound", "plot_upper_bound", "plot_legend_name",
})  # fmt: skip
"""Attributes that torchmetrics lets nobody set."""


class Settable:
    """Sets plain values as any object does, as a base of :class:`valor_gpu.metric.Metric`."""

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        # A value of the name of a parameter, module or buffer replaces that.
        holds_parts = own.get("_parameters") or own.get("_modules") or own.get("_buffers")
        part = type(value) not in _PLAIN and isinstance(value, (Tensor, Module))
        if part or holds_parts or name in _CONSTANTS:
            super().__setattr__(name, value)
        else:
            object.__setattr__(self, name, value)


@functools.cache
def class_has(kind: type, name: str) -> bool:
    """Whether a class has an attribute; to find none takes as long as ten looks at what is known."""
    return hasattr(kind, name)


def owner(kind: Any, name: str) -> type:
    """The class from which ``kind`` has an attribute."""
    found: type = next(cls for cls in kind.__mro__ if name in vars(cls))
    return found


@functools.cache
def update_family(kind: Any) -> str:
    """``update_family`` of a class, or its name where it replaces the ``update`` of the family."""
    shared = issubclass(owner(kind, "update_family"), owner(kind, "update"))
    return str((shared and kind.update_family) or kind.__name__)
