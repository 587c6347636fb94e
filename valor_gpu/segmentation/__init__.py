"""Metrics of semantic and panoptic segmentation."""

from __future__ import annotations

from valor_gpu._lazy import lazy_names

__all__: list[str] = []

_HOMES: dict[str, str] = {}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
