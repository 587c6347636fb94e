"""Comparison of models on the same data: differences with intervals and tests, and what decides by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.comparison.comparing import compare
    from valor_gpu.comparison.comparison_result import ComparisonResult
    from valor_gpu.comparison.comparisons import Comparisons

__all__ = ["ComparisonResult", "Comparisons", "compare"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ComparisonResult": "valor_gpu.comparison.comparison_result",
        "Comparisons": "valor_gpu.comparison.comparisons",
        "compare": "valor_gpu.comparison.comparing",
    },
)
