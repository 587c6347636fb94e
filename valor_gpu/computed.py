"""``compute`` of a metric that is alone: without the context managers that gather the states of other ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torchmetrics.utilities import data

_compiling = torch.compiler.is_compiling


def finished(value: Any) -> Any:
    """A value as torchmetrics gives it: one element has no dimension, and nobody else holds its memory."""
    kind = type(value)
    if kind is Tensor:
        return (value.squeeze() if value.ndim and value.numel() == 1 else value).clone()
    if kind is tuple or kind is list:
        return kind(map(finished, value))
    if kind is dict:
        return {name: finished(part) for name, part in value.items()}
    return data.apply_to_collection(data._squeeze_if_scalar(value), Tensor, torch.clone)  # type: ignore[attr-defined]


def local_compute(metric: Any, checked: Callable[..., Any], whole: Callable[..., Any]) -> Callable[..., Any]:
    """``compute`` that goes straight to the value where there is nothing to synchronise, to warn of, or to reuse.

    Args:
        metric: what is computed.
        checked: gives the value of its state.
        whole: the ``compute`` of torchmetrics around ``checked``.
    """
    state = metric.__dict__

    @functools.wraps(whole)
    def compute(*args: Any, **kwargs: Any) -> Any:
        if (
            _compiling() or state["_is_synced"] or state["_computed"] is not None
            or not state["_update_count"] or metric._traced_updates is not None or metric.distributed_available_fn()
        ):  # fmt: skip
            return whole(*args, **kwargs)
        value = finished(checked(*args, **kwargs))
        if metric.compute_with_cache:
            state["_computed"] = value
        return value

    return compute
