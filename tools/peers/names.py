"""What a test that asks for a name of torchmetrics gets: that of valor_gpu, where it has the metric."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torchmetrics

TASKS = ("classification", "detection", "nominal", "regression", "retrieval", "segmentation", "text")


class MissingName(NotImplementedError):
    """Raised when a test uses a metric that valor_gpu does not have."""


class _Absent(type):
    """Lets a test be collected that names a missing metric; whatever it does with it raises MissingName."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        raise MissingName(f"valor_gpu has no {cls.__name__}")

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or name == "pytestmark":  # which pytest and inspect look for
            raise AttributeError(name)
        raise MissingName(f"valor_gpu has no {cls.__name__}")


def names_of(module: str) -> Callable[[str], Any]:
    """Returns the ``__getattr__`` of the module that stands for a module of torchmetrics."""

    def named(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module} has no attribute {name!r}")
        return counterpart(module, name)

    return named


@cache
def counterpart(module: str, name: str) -> Any:
    """Returns what stands for a name of torchmetrics.

    That of valor_gpu if it has the public name; a class that raises :class:`MissingName` when it is used, if the name
    is that of another metric; else, for helpers, constants and the base class, torchmetrics' own.

    Raises:
        AttributeError: torchmetrics has no such name.
    """
    theirs = getattr(importlib.import_module(module), name)
    if name.startswith("_"):
        return theirs
    for place in _places(module):
        package = importlib.import_module(place)
        if name in package.__all__:
            return getattr(package, name)
    return _Absent(name, (), {}) if _is_metric(theirs) else theirs


def _places(module: str) -> list[str]:
    """Returns the packages of valor_gpu in which a name of a module of torchmetrics would be."""
    parts = module.split(".")
    return [f"valor_gpu.{place}" for place in (TASKS if len(parts) == 1 else parts[1:2])]


def _is_metric(theirs: Any) -> bool:
    """Whether this is a class or function of a task that valor_gpu covers, and no helper of them."""
    home = getattr(theirs, "__module__", None) or ""
    if home.endswith((".utils", ".helper")):
        return False
    if inspect.isclass(theirs):
        return issubclass(theirs, torchmetrics.Metric) and home.startswith(tuple(f"torchmetrics.{t}" for t in TASKS))
    return inspect.isfunction(theirs) and home.startswith(tuple(f"torchmetrics.functional.{task}" for task in TASKS))
