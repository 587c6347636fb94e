"""Uncertainty of numbers that are compared: intervals, paired tests, many comparisons. numpy alone.

Every function is seeded and gives NaN, with a reason, where a number does not exist.
"""

# Type checkers read __init__.pyi: compare() is of a room above.

from __future__ import annotations

from valor_gpu._lazy import lazy_names

__all__ = [
    "Agreement",
    "AreaEstimate",
    "Bootstrap",
    "Correlation",
    "Interval",
    "Intervals",
    "PairedDifference",
    "PairedTest",
    "Proportion",
    "adjust_benjamini_hochberg",
    "adjust_benjamini_yekutieli",
    "adjust_holm",
    "adjust_max_t",
    "compare",
    "compare_accuracy",
    "compare_auroc",
    "compare_paired",
    "correlation",
    "delong",
    "pass_rate",
    "weighted_kappa",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Agreement": "valor_gpu.stats.agreement",
        "AreaEstimate": "valor_gpu.stats.auroc",
        "Bootstrap": "valor_gpu.stats.intervals",
        "Correlation": "valor_gpu.stats.correlations",
        "Interval": "valor_gpu.stats.intervals",
        "Intervals": "valor_gpu.stats.intervals",
        "PairedDifference": "valor_gpu.stats.paired",
        "PairedTest": "valor_gpu.stats.paired_test",
        "Proportion": "valor_gpu.stats.proportions",
        "adjust_benjamini_hochberg": "valor_gpu.stats.comparisons",
        "adjust_benjamini_yekutieli": "valor_gpu.stats.comparisons",
        "adjust_holm": "valor_gpu.stats.comparisons",
        "adjust_max_t": "valor_gpu.stats.comparisons",
        "compare": "valor_gpu.comparison.comparing",
        "compare_accuracy": "valor_gpu.stats.mcnemar",
        "compare_auroc": "valor_gpu.stats.auroc",
        "compare_paired": "valor_gpu.stats.paired",
        "correlation": "valor_gpu.stats.correlations",
        "delong": "valor_gpu.stats.auroc",
        "pass_rate": "valor_gpu.stats.proportions",
        "weighted_kappa": "valor_gpu.stats.agreement",
    },
)
