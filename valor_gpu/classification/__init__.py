"""Metrics of classification; the task follows from ``num_classes``, ``num_labels``, or neither (binary)."""

# Type checkers read __init__.pyi, which tools/make_names.py writes.

from __future__ import annotations

from valor_gpu._lazy import lazy_names
from valor_gpu.compat.torchmetrics.task_names import HOMES

__all__ = sorted(HOMES)

__getattr__, __dir__ = lazy_names(__name__, HOMES)
