# ruff: noqa: I001
"""Uncertainty of numbers that are compared: intervals, paired tests, many comparisons. numpy alone."""

from valor_gpu.comparison.comparing import compare as compare
from valor_gpu.stats.agreement import Agreement as Agreement, weighted_kappa as weighted_kappa
from valor_gpu.stats.auroc import AreaEstimate as AreaEstimate, compare_auroc as compare_auroc, delong as delong
from valor_gpu.stats.comparisons import (
    adjust_benjamini_hochberg as adjust_benjamini_hochberg,
    adjust_benjamini_yekutieli as adjust_benjamini_yekutieli,
    adjust_holm as adjust_holm,
    adjust_max_t as adjust_max_t,
)
from valor_gpu.stats.correlations import Correlation as Correlation, correlation as correlation
from valor_gpu.stats.intervals import Bootstrap as Bootstrap, Interval as Interval, Intervals as Intervals
from valor_gpu.stats.mcnemar import compare_accuracy as compare_accuracy
from valor_gpu.stats.paired import PairedDifference as PairedDifference, compare_paired as compare_paired
from valor_gpu.stats.paired_test import PairedTest as PairedTest
from valor_gpu.stats.proportions import Proportion as Proportion, pass_rate as pass_rate
