"""Metrics of classification of one batch. Each is made when it is first used."""

# Type checkers read classification.pyi, which tools/make_names.py writes.

from __future__ import annotations

from typing import Any

from valor_gpu._lazy import made_names
from valor_gpu.compat.torchmetrics.functional.names import GROUPS, MODULES

__all__ = MODULES["classification"]
__path__: list[str] = []  # modules below have no file: valor_gpu.compat.torchmetrics.paths makes them


def _make(name: str) -> Any:
    if name in GROUPS:
        from valor_gpu.compat.torchmetrics.functional import groups

        return getattr(groups, name)
    from valor_gpu.compat.torchmetrics.functional.task_functions import task_function

    return task_function(name)


__getattr__, __dir__ = made_names(__name__, __all__, _make)
