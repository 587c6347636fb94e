"""Metrics of the numbers of one batch. See the class of each for its definition."""

from __future__ import annotations

from valor_gpu.compat.torchmetrics.functional.names import MODULES
from valor_gpu.compat.torchmetrics.functional.regression_rows import (
    continuous_ranked_probability_score as continuous_ranked_probability_score,
)
from valor_gpu.compat.torchmetrics.functional.regression_rows import cosine_similarity as cosine_similarity
from valor_gpu.compat.torchmetrics.functional.regression_rows import interval_coverage as interval_coverage
from valor_gpu.compat.torchmetrics.functional.regression_rows import (
    jensen_shannon_divergence as jensen_shannon_divergence,
)
from valor_gpu.compat.torchmetrics.functional.regression_rows import kendall_rank_corrcoef as kendall_rank_corrcoef
from valor_gpu.compat.torchmetrics.functional.regression_rows import kl_divergence as kl_divergence
from valor_gpu.compat.torchmetrics.functional.regression_rows import pinball_loss as pinball_loss
from valor_gpu.compat.torchmetrics.functional.regression_rows import quantile_crps as quantile_crps
from valor_gpu.compat.torchmetrics.functional.regression_rows import spearman_corrcoef as spearman_corrcoef

__all__ = MODULES["regression"]
