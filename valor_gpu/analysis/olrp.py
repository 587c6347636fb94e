"""Stands for what is to come."""

from __future__ import annotations

from typing import Any

from valor_gpu.analysis.base import Analysis


def optimal_lrp(analysis: Analysis, iou: float) -> Any:
    """Raises."""
    raise NotImplementedError
