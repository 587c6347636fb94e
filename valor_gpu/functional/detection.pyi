# ruff: noqa: E501, I001
# fmt: off
"""Similarities of the boxes of one image, pair by pair, and mean average precision of one batch.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.compat.torchmetrics.functional.detection import complete_intersection_over_union as complete_intersection_over_union
from valor_gpu.compat.torchmetrics.functional.detection import distance_intersection_over_union as distance_intersection_over_union
from valor_gpu.compat.torchmetrics.functional.detection import generalized_intersection_over_union as generalized_intersection_over_union
from valor_gpu.compat.torchmetrics.functional.detection import intersection_over_union as intersection_over_union
from valor_gpu.compat.torchmetrics.functional.detection import mean_average_precision as mean_average_precision
from valor_gpu.compat.torchmetrics.functional.detection import modified_panoptic_quality as modified_panoptic_quality
from valor_gpu.compat.torchmetrics.functional.detection import panoptic_quality as panoptic_quality

__all__: list[str]
