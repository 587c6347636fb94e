"""Metrics of the numbers of one batch. See the class of each for its definition."""

from __future__ import annotations

from valor_gpu.compat.torchmetrics.functional.names import MODULES

__all__ = MODULES["regression"]
