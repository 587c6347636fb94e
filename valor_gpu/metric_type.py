"""Type of the classes of metrics, so that ``valor_gpu.Metric`` serves programs written for ``torchmetrics.Metric``."""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Mapping
from typing import Any

import torchmetrics

from valor_gpu.argument_docs import documented
from valor_gpu.errors import InputTypeError


class MetricType(ABCMeta):
    """Type of ``valor_gpu.Metric`` and of its subclasses.

    Every ``torchmetrics.Metric`` is an instance of ``valor_gpu.Metric``: a program that resets or moves whatever is a
    metric would otherwise pass over torchmetrics' aggregations and wrappers. Only the classes of metrics that have a
    ``result`` are of this type.

    A subclass of ``valor_gpu.Metric`` that calls ``add_state`` becomes a subclass of ``torchmetrics.Metric``, which
    has states of that kind.
    """

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> Any:
        """Makes a class whose docstring is complete; of the type that torchmetrics has where it calls ``add_state``."""
        if _adds_state(namespace) and any(map(_is_base, bases)):
            foreign = tuple(torchmetrics.Metric if _is_base(base) else base for base in bases)
            made: Any = type(torchmetrics.Metric)
            return made(name, foreign, namespace, **kwargs)
        return documented(super().__new__(mcls, name, bases, namespace, **kwargs))

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance)) if _is_base(cls) else super().__instancecheck__(instance)

    def __subclasscheck__(cls, subclass: type) -> bool:
        # By the bases: issubclass() of torchmetrics.Metric asks its subclasses, of which cls is one.
        return torchmetrics.Metric in subclass.__mro__ if _is_base(cls) else super().__subclasscheck__(subclass)


def _is_base(cls: type) -> bool:
    """Returns whether a class is ``valor_gpu.Metric`` itself."""
    return StateOnly in cls.__bases__


def _adds_state(namespace: Mapping[str, Any]) -> bool:
    """Returns whether a function in the body of a class calls ``add_state``."""
    codes = (getattr(value, "__code__", None) for value in namespace.values())
    return any("add_state" in code.co_names for code in codes if code is not None)


class StateOnly(metaclass=MetricType):
    """Refuses states other than those of a ``State``, as the base of ``valor_gpu.Metric`` alone."""

    def add_state(self, name: str, default: Any, *args: Any, **kwargs: Any) -> None:
        """Raises InputTypeError: the states of a metric of this package are the fields of its ``State``."""
        raise self._needs_state(f"state {name}", "be a field of a State but came through add_state")

    def _needs_state(self, name: str, need: str) -> InputTypeError:
        """Returns the error that says how to go on using ``add_state``."""
        fix = "a class that uses add_state derives from the Metric of torchmetrics: from torchmetrics import Metric"
        return InputTypeError(f"{name} of {type(self).__name__} must {need}; {fix}")
