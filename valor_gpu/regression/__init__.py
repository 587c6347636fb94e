"""Metrics of regression: errors and correlations of numbers, distances of vectors and distributions, and forecasts."""

# Type checkers read __init__.pyi, which tools/make_names.py writes.

from __future__ import annotations

from valor_gpu._lazy import lazy_names

_MODULES: dict[str, tuple[str, ...]] = {
    "correlations": ("ConcordanceCorrCoef", "PearsonCorrCoef"),
    "critical_success": ("CriticalSuccessIndex",),
    "explained": ("ExplainedVariance", "NormalizedRootMeanSquaredError", "R2Score", "RelativeSquaredError"),
    "mean_errors": (
        "LogCoshError",
        "MeanAbsoluteError",
        "MeanAbsolutePercentageError",
        "MeanSquaredError",
        "MeanSquaredLogError",
        "MinkowskiDistance",
        "SymmetricMeanAbsolutePercentageError",
        "TweedieDevianceScore",
        "WeightedMeanAbsolutePercentageError",
    ),
    "cosine": ("CosineSimilarity",),
    "divergences": ("JensenShannonDivergence", "KLDivergence"),
    "forecasts": ("ContinuousRankedProbabilityScore", "IntervalCoverage", "PinballLoss", "QuantileCRPS"),
    "rank_correlations": ("KendallRankCorrCoef", "SpearmanCorrCoef"),
}
"""Module to the public names that it defines, a line each."""
_HOMES = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}

__all__ = sorted(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
