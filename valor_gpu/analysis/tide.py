"""Stands for what is to come."""

from __future__ import annotations

from typing import Any

from valor_gpu.analysis.base import Analysis


def detection_errors(analysis: Analysis, iou: float, background: float, protocol: str) -> Any:
    """Raises."""
    raise NotImplementedError
