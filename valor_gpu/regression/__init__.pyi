# fmt: off
"""Metrics of regression: errors and correlations of numbers, distances of vectors and distributions, and forecasts.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.regression.cosine import CosineSimilarity as CosineSimilarity
from valor_gpu.regression.divergences import JensenShannonDivergence as JensenShannonDivergence
from valor_gpu.regression.divergences import KLDivergence as KLDivergence
from valor_gpu.regression.forecasts import ContinuousRankedProbabilityScore as ContinuousRankedProbabilityScore
from valor_gpu.regression.forecasts import IntervalCoverage as IntervalCoverage
from valor_gpu.regression.forecasts import PinballLoss as PinballLoss
from valor_gpu.regression.forecasts import QuantileCRPS as QuantileCRPS
from valor_gpu.regression.rank_correlations import KendallRankCorrCoef as KendallRankCorrCoef
from valor_gpu.regression.rank_correlations import SpearmanCorrCoef as SpearmanCorrCoef

__all__: list[str]
