"""Metrics of the multiclass task by the names and arguments of torchmetrics. Each is made when it is first used."""

from __future__ import annotations

from typing import Any

from valor_gpu._lazy import made_names
from valor_gpu.compat.torchmetrics.task_names import MADE

__all__ = [name for name, each in MADE.items() if each.task == "multiclass"]


def _make(name: str) -> Any:
    from valor_gpu.compat.torchmetrics.task_classes import task_class

    return task_class(name)


__getattr__, __dir__ = made_names(__name__, __all__, _make)
