# ruff: noqa: E501, I001
# fmt: off
"""Metrics of the numbers of one batch. See the class of each for its definition.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.compat.torchmetrics.functional.regression import continuous_ranked_probability_score as continuous_ranked_probability_score
from valor_gpu.compat.torchmetrics.functional.regression import cosine_similarity as cosine_similarity
from valor_gpu.compat.torchmetrics.functional.regression import interval_coverage as interval_coverage
from valor_gpu.compat.torchmetrics.functional.regression import jensen_shannon_divergence as jensen_shannon_divergence
from valor_gpu.compat.torchmetrics.functional.regression import kendall_rank_corrcoef as kendall_rank_corrcoef
from valor_gpu.compat.torchmetrics.functional.regression import kl_divergence as kl_divergence
from valor_gpu.compat.torchmetrics.functional.regression import pinball_loss as pinball_loss
from valor_gpu.compat.torchmetrics.functional.regression import quantile_crps as quantile_crps
from valor_gpu.compat.torchmetrics.functional.regression import spearman_corrcoef as spearman_corrcoef

__all__: list[str]
