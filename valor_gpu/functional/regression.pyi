# ruff: noqa: E501, I001
# fmt: off
"""Metrics of the numbers of one batch. See the class of each for its definition.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.compat.torchmetrics.functional.regression import concordance_corrcoef as concordance_corrcoef
from valor_gpu.compat.torchmetrics.functional.regression import continuous_ranked_probability_score as continuous_ranked_probability_score
from valor_gpu.compat.torchmetrics.functional.regression import cosine_similarity as cosine_similarity
from valor_gpu.compat.torchmetrics.functional.regression import critical_success_index as critical_success_index
from valor_gpu.compat.torchmetrics.functional.regression import explained_variance as explained_variance
from valor_gpu.compat.torchmetrics.functional.regression import interval_coverage as interval_coverage
from valor_gpu.compat.torchmetrics.functional.regression import jensen_shannon_divergence as jensen_shannon_divergence
from valor_gpu.compat.torchmetrics.functional.regression import kendall_rank_corrcoef as kendall_rank_corrcoef
from valor_gpu.compat.torchmetrics.functional.regression import kl_divergence as kl_divergence
from valor_gpu.compat.torchmetrics.functional.regression import log_cosh_error as log_cosh_error
from valor_gpu.compat.torchmetrics.functional.regression import mean_absolute_error as mean_absolute_error
from valor_gpu.compat.torchmetrics.functional.regression import mean_absolute_percentage_error as mean_absolute_percentage_error
from valor_gpu.compat.torchmetrics.functional.regression import mean_squared_error as mean_squared_error
from valor_gpu.compat.torchmetrics.functional.regression import mean_squared_log_error as mean_squared_log_error
from valor_gpu.compat.torchmetrics.functional.regression import minkowski_distance as minkowski_distance
from valor_gpu.compat.torchmetrics.functional.regression import normalized_root_mean_squared_error as normalized_root_mean_squared_error
from valor_gpu.compat.torchmetrics.functional.regression import pearson_corrcoef as pearson_corrcoef
from valor_gpu.compat.torchmetrics.functional.regression import pinball_loss as pinball_loss
from valor_gpu.compat.torchmetrics.functional.regression import quantile_crps as quantile_crps
from valor_gpu.compat.torchmetrics.functional.regression import r2_score as r2_score
from valor_gpu.compat.torchmetrics.functional.regression import relative_squared_error as relative_squared_error
from valor_gpu.compat.torchmetrics.functional.regression import spearman_corrcoef as spearman_corrcoef
from valor_gpu.compat.torchmetrics.functional.regression import symmetric_mean_absolute_percentage_error as symmetric_mean_absolute_percentage_error
from valor_gpu.compat.torchmetrics.functional.regression import tweedie_deviance_score as tweedie_deviance_score
from valor_gpu.compat.torchmetrics.functional.regression import weighted_mean_absolute_percentage_error as weighted_mean_absolute_percentage_error

__all__: list[str]
