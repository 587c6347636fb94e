"""Panoptic quality from counts of segments: int64 tables in, float64 out. No torch import.

Tables are ``[..., 8, C]``, as :func:`valor_gpu.ops.panoptic.op.count_panoptic` gives them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.ops.panoptic.cpu import FALSE_NEGATIVES, FALSE_POSITIVES, IOU_SUM, PREDICTED, ROWS, TRUE, TRUE_POSITIVES

NO_SEGMENT = "no segment counts for it, true or predicted"
NO_MATCH = "no segment of it matches; means take it as 0"
NUMBERS = ("pq", "sq", "rq")


class Scores(NamedTuple):
    """Panoptic, segmentation and recognition quality, float64 of one shape; NaN where a number does not exist."""

    pq: NDArray[np.float64]
    sq: NDArray[np.float64]
    rq: NDArray[np.float64]


def iou_sums(tables: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sum of the IoUs of each category: ``[..., C]``. The words are added as integers, then rounded.

    Example:
        >>> table = np.zeros((8, 1), np.int64)
        >>> table[5:] = [[2**31], [2**33], [0]]
        >>> iou_sums(table).tolist()
        [0.5000000004656613]
    """
    high, middle, low = (tables[..., row, :] for row in range(IOU_SUM, ROWS))
    middle = middle + (low >> 32)
    high = high + (middle >> 32)
    low, middle = low & 0xFFFFFFFF, middle & 0xFFFFFFFF
    return np.asarray(high * 2.0**-32 + (middle * 2.0**-64 + low * 2.0**-96), np.float64)


def category_scores(tables: NDArray[np.int64]) -> Scores:
    """Scores ``[..., C]`` of every category, of tables ``[..., 8, C]``.

    RQ = TP / (TP + FP / 2 + FN / 2), SQ = sum of IoUs / TP, PQ = SQ RQ. A category without a segment that counts has
    none of them; without a match it has no SQ, and a PQ of 0.

    Source: Kirillov et al., "Panoptic Segmentation", CVPR 2019, equation 2.

    Example:
        >>> table = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 0], [2, 1, 0], [2, 0, 0], [3 << 30, 0, 0], [0] * 3, [0] * 3])
        >>> category_scores(table)
        Scores(pq=array([0.375, 0.   ,   nan]), sq=array([0.75,  nan,  nan]), rq=array([0.5, 0. , nan]))
    """
    matches = tables[..., TRUE_POSITIVES, :]
    weight = matches + 0.5 * tables[..., FALSE_POSITIVES, :] + 0.5 * tables[..., FALSE_NEGATIVES, :]
    sq, rq = _divide(iou_sums(tables), matches), _divide(matches, weight)
    return Scores(_or_zero(sq) * rq, sq, rq)


def mean_scores(scores: Scores, categories: NDArray[np.bool_] | None = None) -> Scores:
    """Means ``[...]`` over the categories with a segment that counts, an SQ that does not exist as 0.

    Args:
        scores: ``[..., C]``.
        categories: bool ``[C]``, those that take part; None: all.

    Returns:
        NaN where no category takes part.
    """
    return Scores(*(_mean(part, scores.pq, categories) for part in scores))


def mean_pq(scores: Scores) -> NDArray[np.float64]:
    """The mean panoptic quality alone, see :func:`mean_scores`."""
    return _mean(scores.pq, scores.pq, None)


def panoptic_values(table: NDArray[np.int64], things: NDArray[np.bool_], names: Sequence[str]) -> dict[str, Any]:
    """The values of a result.

    Args:
        table: int64 ``[8, C]``.
        things: bool ``[C]``.
        names: of the categories.

    Returns:
        Means ``pq``, ``sq`` and ``rq`` over all categories, over things and over stuff, and by name the scores and
        counts of every category.
    """
    scores = category_scores(table)
    means = {
        f"{number}{group}": float(mean)
        for group, chosen in panoptic_groups(things).items()
        for number, mean in zip(NUMBERS, mean_scores(scores, chosen))
    }
    by_name = {
        f"{number}_per_class": dict(zip(names, part.tolist())) for number, part in zip(NUMBERS, scores)
    }  # of floats
    rows = {"tp": TRUE_POSITIVES, "fp": FALSE_POSITIVES, "fn": FALSE_NEGATIVES}
    counts = {f"{name}_per_class": dict(zip(names, table[row].tolist())) for name, row in rows.items()}
    return {**means, **by_name, **counts}


def panoptic_groups(things: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """The categories of each mean, bool ``[C]``, by the end of its name."""
    return {"": np.ones_like(things), "_things": things, "_stuff": ~things}


def panoptic_reasons(values: Mapping[str, Any]) -> dict[str, str]:
    """Why numbers of :func:`panoptic_values` are NaN."""
    reasons = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            present = values["rq_per_class"]
            for key, number in value.items():
                if math.isnan(number):
                    reasons[f"{name}/{key}"] = NO_SEGMENT if math.isnan(present[key]) else NO_MATCH
        elif math.isnan(value):
            reasons[name] = "no segment of any of its categories counts"
    return reasons


def segment_counts(table: NDArray[np.int64], modified: int | None = None) -> dict[str, int]:
    """How many segments there were, how many of them are ignored, and how many categories have no score.

    Args:
        table: int64 ``[8, C]``.
        modified: categories from this column on have no false positives, so that none of their segments is ignored.
    """
    scored = table[:, :modified]
    ignored = scored[TRUE] - scored[TRUE_POSITIVES] - scored[FALSE_NEGATIVES]
    ignored_predictions = scored[PREDICTED] - scored[TRUE_POSITIVES] - scored[FALSE_POSITIVES]
    return {
        "ground_truths": int(table[TRUE].sum()),
        "ignored_ground_truths": int(ignored.sum()),
        "predictions": int(table[PREDICTED].sum()),
        "ignored_predictions": int(ignored_predictions.sum()),
        "absent_classes": int(np.isnan(category_scores(table).pq).sum()),
    }


def _mean(
    part: NDArray[np.float64], pq: NDArray[np.float64], categories: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    present = pq == pq
    if categories is not None:
        present = present & categories
    taken = np.where(present & (part == part), part, 0.0)
    return _divide(np.add.reduce(taken, -1), np.add.reduce(present, -1, dtype=np.int64))


def _or_zero(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """``values`` with 0 for what does not exist; in a fifth of the time of nan_to_num."""
    return np.where(values == values, values, 0.0)


def _divide(numerator: NDArray[Any], denominator: NDArray[Any]) -> NDArray[np.float64]:
    """The quotient, NaN where the denominator is 0."""
    out = np.empty(np.shape(numerator))
    out.fill(math.nan)
    np.divide(numerator, denominator, out=out, where=denominator != 0)
    return out
