"""``compute`` of a metric that is alone: without the context managers that gather the states of other ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torchmetrics.utilities import data

from valor_gpu.default_device import function_modes, on_cpu

_compiling = torch.compiler.is_compiling

F = TypeVar("F", bound=Callable[..., Any])


def gives_own_memory(compute: F) -> F:
    """Marks a ``compute`` none of whose tensors shares memory with its metric, so that nobody has to copy them."""
    compute.own_memory = True  # type: ignore[attr-defined]
    return compute


def finished(value: Any, own: bool = False) -> Any:
    """A value as torchmetrics gives it: one element has no dimension, and nobody else holds its memory.

    Args:
        value: what a ``compute`` gave.
        own: nobody else holds its memory already, see :func:`gives_own_memory`.
    """
    kind = type(value)
    if kind is Tensor:
        value = value.squeeze() if value.ndim and value.numel() == 1 else value
        return value if own else value.clone()
    if kind is tuple or kind is list:
        return kind([finished(part, own) for part in value])
    if kind is dict:
        return {name: finished(part, own) for name, part in value.items()}
    return data.apply_to_collection(data._squeeze_if_scalar(value), Tensor, torch.clone)  # type: ignore[attr-defined]


def finished_compute(metric: Any) -> Any:
    """What ``compute`` of a metric gives for the state it holds, without a look at anything else."""
    compute = type(metric).compute
    return finished(compute(metric), getattr(compute, "own_memory", False))


def local_compute(metric: Any, compute: Callable[..., Any], whole: Callable[..., Any]) -> Callable[..., Any]:
    """``compute`` that goes straight to the value where there is nothing to synchronise, to warn of, or to reuse.

    Args:
        metric: what is computed.
        compute: gives the value of its state.
        whole: the ``compute`` of torchmetrics, which looks at the error of the state before it takes ``compute``.
    """
    whole = on_cpu(whole)
    state, own = metric.__dict__, getattr(compute, "own_memory", False)

    @functools.wraps(compute)
    def local(*args: Any, **kwargs: Any) -> Any:
        if metric._wrappers:
            metric._check_compute()
        if (
            _compiling() or function_modes() or state["_is_synced"] or state["_computed"] is not None
            or not state["_update_count"] or metric._traced_updates is not None or metric.distributed_available_fn()
        ):  # fmt: skip
            return whole(*args, **kwargs)
        metric._check_error()
        value = finished(compute(*args, **kwargs), own)
        if metric.compute_with_cache:
            state["_computed"] = value
        return value

    return local
