"""Evaluation of classifications; ``valor_core.classification`` has the functions of these names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.compat.valor.classification.evaluate import evaluate_classification, evaluate_classification_slices

__all__ = ["evaluate_classification", "evaluate_classification_slices"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "valor_gpu.valor.classification.evaluate"))
