"""One metric or several, updated and read as one by every trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torchmetrics import MetricCollection

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.metric import Metric
from valor_gpu.metric_type import MetricType
from valor_gpu.result import Result

Metrics = Metric[Any] | MetricCollection | Mapping[str, Metric[Any]]


class MetricGroup:
    """A metric, a ``MetricCollection`` or named metrics.

    Args:
        metrics: what is updated; the same objects, not copies.

    Raises:
        InputTypeError: a metric is not one of this library, so that it has no ``result``.
        InputError: there is none.
    """

    def __init__(self, metrics: Metrics) -> None:
        check_type("metrics", metrics, (Metric, MetricCollection, Mapping))
        named = [("", metrics)] if isinstance(metrics, Metric) else list(metrics.items())
        if not named:
            raise InputError("metrics must hold at least one metric but is empty")
        for name, each in named:
            if not isinstance(type(each), MetricType):
                need = "must be a metric of valor_gpu, which has a result(),"
                raise InputTypeError(
                    f"metrics[{name!r}] {need} but is of type {type(each).__module__}.{type(each).__name__}"
                )
        self.metrics: Metric[Any] | MetricCollection = (
            metrics if isinstance(metrics, (Metric, MetricCollection)) else MetricCollection(dict(metrics))
        )

    def parts(self) -> dict[str, Metric[Any]]:
        """The metrics by name; a single one has the name ``""``."""
        metrics = self.metrics
        return {"": metrics} if isinstance(metrics, Metric) else {str(n): m for n, m in metrics.items()}  # type: ignore[misc]

    def start(self, device: torch.device | str) -> None:
        """Moves all to ``device``, without data."""
        self.metrics.reset()
        self.metrics.to(device)

    def results(self) -> dict[str, Result]:
        """The result of each, by name; collective."""
        return {name: metric.result() for name, metric in self.parts().items()}


def scalars(results: Mapping[str, Result], separator: str) -> dict[str, float]:
    """Every number of all results: ``name`` where a named metric has one, else ``name``, separator and its own name."""
    numbers: dict[str, float] = {}
    for name, result in results.items():
        own = result.scalars()
        short = bool(name) and len(own) == 1
        numbers.update({name if short else f"{name}{separator}{key}" if name else key: v for key, v in own.items()})
    return numbers
