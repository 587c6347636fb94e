# ruff: noqa: E501, I001
# fmt: off
"""Metrics of regression: errors and correlations of numbers, distances of vectors and distributions, and forecasts.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.regression.correlations import ConcordanceCorrCoef as ConcordanceCorrCoef
from valor_gpu.regression.correlations import PearsonCorrCoef as PearsonCorrCoef
from valor_gpu.regression.cosine import CosineSimilarity as CosineSimilarity
from valor_gpu.regression.critical_success import CriticalSuccessIndex as CriticalSuccessIndex
from valor_gpu.regression.divergences import JensenShannonDivergence as JensenShannonDivergence
from valor_gpu.regression.divergences import KLDivergence as KLDivergence
from valor_gpu.regression.explained import ExplainedVariance as ExplainedVariance
from valor_gpu.regression.explained import NormalizedRootMeanSquaredError as NormalizedRootMeanSquaredError
from valor_gpu.regression.explained import R2Score as R2Score
from valor_gpu.regression.explained import RelativeSquaredError as RelativeSquaredError
from valor_gpu.regression.forecasts import ContinuousRankedProbabilityScore as ContinuousRankedProbabilityScore
from valor_gpu.regression.forecasts import IntervalCoverage as IntervalCoverage
from valor_gpu.regression.forecasts import PinballLoss as PinballLoss
from valor_gpu.regression.forecasts import QuantileCRPS as QuantileCRPS
from valor_gpu.regression.mean_errors import LogCoshError as LogCoshError
from valor_gpu.regression.mean_errors import MeanAbsoluteError as MeanAbsoluteError
from valor_gpu.regression.mean_errors import MeanAbsolutePercentageError as MeanAbsolutePercentageError
from valor_gpu.regression.mean_errors import MeanSquaredError as MeanSquaredError
from valor_gpu.regression.mean_errors import MeanSquaredLogError as MeanSquaredLogError
from valor_gpu.regression.mean_errors import MinkowskiDistance as MinkowskiDistance
from valor_gpu.regression.mean_errors import SymmetricMeanAbsolutePercentageError as SymmetricMeanAbsolutePercentageError
from valor_gpu.regression.mean_errors import TweedieDevianceScore as TweedieDevianceScore
from valor_gpu.regression.mean_errors import WeightedMeanAbsolutePercentageError as WeightedMeanAbsolutePercentageError
from valor_gpu.regression.rank_correlations import KendallRankCorrCoef as KendallRankCorrCoef
from valor_gpu.regression.rank_correlations import SpearmanCorrCoef as SpearmanCorrCoef

__all__: list[str]
