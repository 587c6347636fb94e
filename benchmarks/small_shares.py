"""Of an ``update``: how much is native code, how much the way to it, and how much everything else."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from benchmarks.small_cases import Small
from valor_gpu import native
from valor_gpu.ops._library import NAMESPACE


class _Clock:
    """Nanoseconds inside timed functions."""

    def __init__(self) -> None:
        self.spent = 0

    def timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, whose time is added up."""

        def run(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter_ns()
            try:
                return function(*args, **kwargs)
            finally:
                self.spent += time.perf_counter_ns() - start

        return run


def _ops() -> Iterator[tuple[Any, str, Any]]:
    """Every place where a module of the package holds a registered op."""
    for name, module in list(sys.modules.items()):
        if name.startswith("valor_gpu") and module is not None:
            for key, value in list(vars(module).items()):
                if isinstance(value, torch._ops.OpOverload) and value.namespace == NAMESPACE:
                    yield module, key, value


def _entries() -> Iterator[tuple[Any, str, Any]]:
    """Every place where a module of the package holds a native function."""
    for name, module in list(sys.modules.items()):
        if name.startswith("valor_gpu") and module is not None:
            for key, value in list(vars(module).items()):
                if isinstance(value, ctypes._CFuncPtr):
                    yield module, key, value


def _timed_if(clock: _Clock, function: Callable[..., Any] | None) -> Callable[..., Any] | None:
    return None if function is None else clock.timed(function)


def shares(case: Small, seconds: float) -> dict[str, float]:
    """Fractions ``checks``, ``dispatch`` and ``kernel`` of an update, and the microseconds under this clock.

    ``kernel`` is spent in native functions, ``dispatch`` in registered ops around them, ``checks`` is the rest. Where
    an update calls native code without an op, all of it but the kernel is ``checks``.
    """
    case.ours().update(*case.batch())  # modules are imported
    kernel, ops = _Clock(), _Clock()
    found, plan = native.function, native.update_function
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(native, "function", lambda *key: kernel.timed(found(*key))))
        patches.enter_context(mock.patch.object(native, "update_function", lambda *key: _timed_if(kernel, plan(*key))))
        for clock, places in ((kernel, _entries()), (ops, _ops())):
            for module, key, value in list(places):
                patches.enter_context(mock.patch.object(module, key, clock.timed(value)))
        metric, batch = case.ours(), case.batch()
        for _ in range(3):
            metric.update(*batch)
        metric.reset()
        kernel.spent = ops.spent = count = 0
        start = time.perf_counter_ns()
        while (whole := time.perf_counter_ns() - start) < 1e9 * seconds:
            metric.update(*batch)
            count += 1
    dispatch = max(ops.spent - kernel.spent, 0) if ops.spent else 0
    parts = {"kernel": kernel.spent / whole, "dispatch": dispatch / whole}
    return {**parts, "checks": 1 - sum(parts.values()), "microseconds": whole / count / 1e3}
