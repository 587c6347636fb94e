# ruff: noqa: E501, I001
# fmt: off
"""Metrics of the regions and segments of one batch of images.

Made by tools/make_names.py: change the table in valor_gpu/compat/torchmetrics/task_names.py, then run it.
"""

from valor_gpu.compat.torchmetrics.functional.segmentation import dice_score as dice_score
from valor_gpu.compat.torchmetrics.functional.segmentation import generalized_dice_score as generalized_dice_score
from valor_gpu.compat.torchmetrics.functional.segmentation import hausdorff_distance as hausdorff_distance
from valor_gpu.compat.torchmetrics.functional.segmentation import mean_iou as mean_iou
from valor_gpu.compat.torchmetrics.functional.segmentation import modified_panoptic_quality as modified_panoptic_quality
from valor_gpu.compat.torchmetrics.functional.segmentation import panoptic_quality as panoptic_quality

__all__: list[str]
