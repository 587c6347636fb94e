"""Which classes and functions share the page of a metric: torchmetrics' classes of one task, and the functions.

All of it is read from the packages themselves, so that a new name is on its page without a line here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

TASKS = ("Binary", "Multiclass", "Multilabel")
OTHER_NAMES = {
    "binary_groups_stat_rates": "BinaryGroupStatRates",
    "demographic_parity": "BinaryFairness",
    "equal_opportunity": "BinaryFairness",
    "retrieval_average_precision": "RetrievalMAP",
    "retrieval_reciprocal_rank": "RetrievalMRR",
    "word_information_lost": "WordInfoLost",
    "word_information_preserved": "WordInfoPreserved",
}
"""Functions to their classes where torchmetrics' names of the two differ by more than underscores and case."""


def public_metrics(package: Any) -> dict[str, type]:
    """The metrics among the public names of a package."""
    from valor_gpu import Metric

    found = {name: getattr(package, name) for name in package.__all__}
    return {name: kind for name, kind in found.items() if inspect.isclass(kind) and issubclass(kind, Metric)}


def of_one_task(name: str, metrics: dict[str, type]) -> str | None:
    """The name of the metric whose class of one task ``name`` is; None for other classes."""
    for task in TASKS:
        whole = metrics.get(name.removeprefix(task))
        if name.startswith(task) and whole is not None and issubclass(metrics[name], whole):
            return name.removeprefix(task)
    return None


def metrics_of(package: Any) -> list[type]:
    """The public metrics of a package, each once; without the classes of one task, which are on the same page."""
    public = public_metrics(package)
    return list(dict.fromkeys(kind for name, kind in public.items() if of_one_task(name, public) is None))


def task_classes(kind: type, package: Any) -> list[type]:
    """Those of ``kind`` in the order of the tasks."""
    public = public_metrics(package)
    names = [f"{task}{kind.__name__}" for task in TASKS]
    return [public[name] for name in names if name in public and of_one_task(name, public) == kind.__name__]


def plain_name(function: str) -> str:
    """Name of a function as that of a class in lower case: ``f1_score`` as ``f1score``."""
    return OTHER_NAMES.get(function, function).replace("_", "").lower()


@functools.cache
def functions() -> dict[str, Callable[..., Any]]:
    """The functions of ``valor_gpu.functional`` by name."""
    from valor_gpu import functional

    found = {name: getattr(functional, name) for name in functional.__all__}
    return {name: value for name, value in found.items() if callable(value)}


def functions_of(kind: type, package: Any) -> list[Callable[..., Any]]:
    """Those whose value the class or one of its classes of one task computes.

    Where classification and texts have classes of one name, the function belongs to classification, as in torchmetrics.
    """
    from valor_gpu import classification

    if package is not classification and kind.__name__ in classification.__all__:
        return []
    names = [each.__name__.lower() for each in (kind, *task_classes(kind, package))]
    return [function for own in names for name, function in functions().items() if plain_name(name) == own]
