"""Tensors without a device are made on the CPU, whatever ``torch.set_default_device`` says.

Tables, error codes and numbers of the host would else be made on another device, where the C++ library cannot read
them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])

function_modes: Callable[[], int] = torch._C._len_torch_function_stack
"""How many function modes of torch are active; a default device is one."""


def cpu_by_default() -> AbstractContextManager[object]:
    """The CPU is the default device within this context; without another one it does nothing."""
    return torch.device("cpu") if function_modes() and not torch.compiler.is_compiling() else nullcontext()


def device_free(function: F) -> F:
    """``function``, run with the CPU as the default device. Where no function mode is active it costs one look."""
    return functools.wraps(function)(on_cpu(function))  # type: ignore[return-value]


def on_cpu(function: F) -> F:
    """As :func:`device_free` without the name of ``function``: part of a wrapper that has it."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if not function_modes():
            return function(*args, **kwargs)
        with cpu_by_default():
            return function(*args, **kwargs)

    return run  # type: ignore[return-value]
