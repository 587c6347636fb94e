"""The functions by module; those of classification follow from its table of names. This module loads no torch."""

from __future__ import annotations

from valor_gpu.compat.torchmetrics.task_names import FUNCTIONS

GROUPS = ("binary_fairness", "binary_groups_stat_rates", "demographic_parity", "equal_opportunity")
"""Functions of classification that take groups."""
MODULES: dict[str, list[str]] = {
    "classification": [*FUNCTIONS, *GROUPS],
    "detection": [
        "complete_intersection_over_union",
        "distance_intersection_over_union",
        "generalized_intersection_over_union",
        "intersection_over_union",
        "mean_average_precision",
        "modified_panoptic_quality",
        "panoptic_quality",
    ],
    "nominal": ["fleiss_kappa"],
    "regression": [],
    "retrieval": [],
    "segmentation": [
        "dice_score",
        "generalized_dice_score",
        "hausdorff_distance",
        "mean_iou",
        "modified_panoptic_quality",
        "panoptic_quality",
    ],
    "text": [
        "bert_score",
        "bleu_score",
        "char_error_rate",
        "chrf_score",
        "edit_distance",
        "match_error_rate",
        "perplexity",
        "rouge_score",
        "sacre_bleu_score",
        "squad",
        "translation_edit_rate",
        "word_error_rate",
        "word_information_lost",
        "word_information_preserved",
    ],
}
