"""Metrics of the ranked documents of one query. See the class of each for its definition."""

from __future__ import annotations

from valor_gpu.compat.torchmetrics.functional.names import MODULES

__all__ = MODULES["retrieval"]
