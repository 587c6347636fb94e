# ruff: noqa: E501, I001
# fmt: off
"""Metrics of the ranked documents of one query. See the class of each for its definition.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.compat.torchmetrics.functional.retrieval import retrieval_auroc as retrieval_auroc
from valor_gpu.compat.torchmetrics.functional.retrieval import retrieval_average_precision as retrieval_average_precision
from valor_gpu.compat.torchmetrics.functional.retrieval import retrieval_fall_out as retrieval_fall_out
from valor_gpu.compat.torchmetrics.functional.retrieval import retrieval_hit_rate as retrieval_hit_rate
from valor_gpu.compat.torchmetrics.functional.retrieval import retrieval_normalized_dcg as retrieval_normalized_dcg
from valor_gpu.compat.torchmetrics.functional.retrieval import retrieval_precision as retrieval_precision
from valor_gpu.compat.torchmetrics.functional.retrieval import retrieval_precision_recall_curve as retrieval_precision_recall_curve
from valor_gpu.compat.torchmetrics.functional.retrieval import retrieval_r_precision as retrieval_r_precision
from valor_gpu.compat.torchmetrics.functional.retrieval import retrieval_recall as retrieval_recall
from valor_gpu.compat.torchmetrics.functional.retrieval import retrieval_reciprocal_rank as retrieval_reciprocal_rank

__all__: list[str]
