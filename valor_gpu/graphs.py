"""Keeps torch.compile out of what it cannot trace: native calls by address."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


@torch._disable_dynamo  # type: ignore[attr-defined,untyped-decorator]
def _apart(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def outside_graphs(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, run as it stands where a compiled program calls it; torch.compile makes a graph before and after.

    Elsewhere it costs one look, and torch's compiler is not imported.
    """

    @functools.wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return _apart(function, *args, **kwargs)
        return function(*args, **kwargs)

    return either
