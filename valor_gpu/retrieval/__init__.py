"""Metrics of retrieval: how well documents are ranked for each query."""

# Type checkers read __init__.pyi, which tools/make_names.py writes.

from __future__ import annotations

from valor_gpu._lazy import lazy_names

_MODULES: dict[str, tuple[str, ...]] = {
    "curves": ("RetrievalPrecisionRecallCurve", "RetrievalRecallAtFixedPrecision"),
    "found": (
        "RetrievalFallOut",
        "RetrievalHitRate",
        "RetrievalPrecision",
        "RetrievalRPrecision",
        "RetrievalRecall",
    ),
    "graded": ("RetrievalExpectedReciprocalRank", "RetrievalNormalizedDCG"),
    "judgements": ("RetrievalHoles", "RetrievalJudged"),
    "ranked": ("RetrievalAUROC", "RetrievalBPref", "RetrievalMAP", "RetrievalMRR", "RetrievalRBP"),
    "tables": ("QueryTable", "query_table"),
}
"""Module to the public names that it defines, a line each."""
_HOMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
