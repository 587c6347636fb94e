"""Which CUDA kernels the environment variable ``VALOR_GPU_DISABLE`` switches off. Imports no torch.

Design: docs/design/039-switching-a-kernel-off.md.
"""

from __future__ import annotations

import functools
import os

from valor_gpu.checks import near_names
from valor_gpu.errors import InputError

VARIABLE = "VALOR_GPU_DISABLE"

NAMES = (
    "accumulate", "assign", "auroc_and_ap", "box_iou", "box_pairs", "confuse_overlaps", "confuse_scores",
    "count_ground_truths", "count_labels", "count_logits", "count_one_hot", "count_outcomes", "count_pairs",
    "count_panoptic", "count_pixels", "count_top", "dense_pairs", "draw_weights", "first_in_cells", "greedy_cosines",
    "grouped_means", "keypoint_pairs", "keypoint_similarity", "label_counts", "mask_boundary", "moments",
    "order_records", "pack_masks", "polygon_iou", "polygon_pairs", "precision_recall", "predict_maps", "present_means",
    "rank_curves", "rank_overlaps", "rank_sums", "rasterise", "resampled_means", "rotated_iou", "rotated_pairs",
    "run_pairs", "score_histogram", "sum_token_losses", "surface_distances", "top_classes",
)  # fmt: skip
"""Every op: ops are registered when they are first imported, but a name that none of them has is found at once."""


@functools.cache
def switched_off() -> frozenset[str]:
    """Names of ops in the variable, read once in a process.

    Raises:
        InputError: it names an op that does not exist, whose kernel the user would believe to be off.
    """
    names = frozenset(name.strip() for name in os.environ.get(VARIABLE, "").split(",")) - {""}
    if unknown := sorted(names.difference(NAMES)):
        known = near_names(unknown[0], NAMES) or f": they are {', '.join(NAMES)}"
        raise InputError(f"{VARIABLE} must name ops, separated by commas, but got {unknown[0]!r}{known}")
    return names
