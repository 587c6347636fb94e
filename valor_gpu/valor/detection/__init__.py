"""Evaluation of object detections; ``valor_core.detection`` has the function of this name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.compat.valor.detection.evaluate import evaluate_detection

__all__ = ["evaluate_detection"]

__getattr__, __dir__ = lazy_names(__name__, {"evaluate_detection": "valor_gpu.valor.detection.evaluate"})
