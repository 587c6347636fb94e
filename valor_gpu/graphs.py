"""Keeps torch.compile and torch.jit out of what they cannot take: native calls by address, properties of metrics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

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


class Scriptable:
    """A module that torch.jit.script takes as part of a model, whose program reads none of its attributes."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        spaces: list[Any] = [vars(base) for base in cls.__mro__]
        properties = {name for space in spaces for name, value in space.items() if isinstance(value, property)}
        annotated = {name for space in spaces for name in space.get("__annotations__", ())}
        cls.__jit_unused_properties__, cls.__jit_ignored_attributes__ = sorted(properties), sorted(annotated)
        torch.jit.unused(cls.forward)

    __jit_unused_properties__: ClassVar[list[str]]
    __jit_ignored_attributes__: ClassVar[list[str]]
    forward: Callable[..., Any]
