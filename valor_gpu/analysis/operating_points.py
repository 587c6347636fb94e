"""Stands for what is to come."""

from __future__ import annotations

from typing import Any

from valor_gpu.analysis.base import Analysis


def operating_points(analysis: Analysis, **choices: Any) -> Any:
    """Raises."""
    raise NotImplementedError
