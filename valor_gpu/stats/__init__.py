"""Uncertainty of numbers that are compared: intervals, paired tests, many comparisons. numpy alone.

Every function is seeded and gives NaN, with a reason, where a number does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from valor_gpu._lazy import lazy_names

if TYPE_CHECKING:
    from valor_gpu.comparison.comparing import compare
    from valor_gpu.stats.agreement import Agreement, weighted_kappa
    from valor_gpu.stats.auroc import AreaEstimate, compare_auroc, delong
    from valor_gpu.stats.comparisons import (
        adjust_benjamini_hochberg,
        adjust_benjamini_yekutieli,
        adjust_holm,
        adjust_max_t,
    )
    from valor_gpu.stats.intervals import Bootstrap, Interval, Intervals
    from valor_gpu.stats.mcnemar import compare_accuracy
    from valor_gpu.stats.paired import PairedDifference, compare_paired
    from valor_gpu.stats.paired_test import PairedTest
    from valor_gpu.stats.proportions import Proportion, pass_rate

__all__ = [
    "Agreement",
    "AreaEstimate",
    "Bootstrap",
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
        "delong": "valor_gpu.stats.auroc",
        "pass_rate": "valor_gpu.stats.proportions",
        "weighted_kappa": "valor_gpu.stats.agreement",
    },
)
