"""Panoptic quality of resampled images, from the counts of each image. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.ops.panoptic.cpu import FALSE_NEGATIVES, FALSE_POSITIVES, TRUE, TRUE_POSITIVES
from valor_gpu.reduce.panoptic import NUMBERS, category_scores, iou_sums, mean_scores, panoptic_groups
from valor_gpu.segmentation.resampled_images import ResampledImages, Weights


def resampled_panoptic(
    tables: NDArray[np.int64], keys: NDArray[Any] | Sequence[Any], things: NDArray[np.bool_], names: Sequence[str]
) -> ResampledImages:
    """Returns what intervals of :func:`valor_gpu.reduce.panoptic.panoptic_values` are made of.

    Args:
        tables: int64 ``[N, 8, C]``, of each image.
        keys: see :class:`ResampledImages`.
        things: bool ``[C]``.
        names: of the categories.
    """

    def numbers(weights: Weights, tables: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        scores = category_scores(weights.sums(tables))
        found = {
            f"{number}{group}": mean
            for group, chosen in panoptic_groups(things).items()
            for number, mean in zip(NUMBERS, mean_scores(scores, chosen))
        }
        for number, part in zip(NUMBERS, scores):
            found |= {f"{number}_per_class/{name}": part[:, place] for place, name in enumerate(names)}
        return found

    supports = [[f"{number}_per_class/{name}" for name in names] for number in NUMBERS]
    matches = tables[:, TRUE_POSITIVES].sum(1)
    sums = iou_sums(tables).sum(1)
    outcomes = {
        "true_positives": matches,
        "false_positives": tables[:, FALSE_POSITIVES].sum(1),
        "false_negatives": tables[:, FALSE_NEGATIVES].sum(1),
        "mean_iou": np.divide(sums, matches, out=np.full(len(sums), np.nan), where=matches > 0),
    }
    true = tables[:, TRUE]
    return ResampledImages(
        "panoptic", keys, numbers, supports, true > 0, outcomes=outcomes, tables=[tables], truths=true
    )
