"""Average precision at every recall step, from the ranks of true positives. Imports no torch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def all_points_average_precision(
    classes: NDArray[np.int64], ranks: NDArray[np.int64], positives: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Area under the interpolated precision-recall curve of every class, as in PASCAL VOC from 2010 on.

    Precision at a recall is the largest precision at that or a higher recall (Everingham and Winn, "The PASCAL VOC
    Challenge 2010 Development Kit", section 3.4). Recall grows by 1 / positives at each true positive and nowhere else,
    so the area is the mean, over all ground truths, of the interpolated precision at the true positive that found it,
    0 for one that was not found. Sums are taken from the first rank on, in float64.

    Args:
        classes: ``[P]`` class index of every true positive, ascending.
        ranks: ``[P]`` place of the true positive among the detections of its class that count, from 1, ascending
            inside a class.
        positives: ``[K]`` ground truths that count.

    Returns:
        ``[K]``, NaN for a class without ground truth.

    Example:
        >>> ranks = np.array([1, 4, 5])  # precision 1, 1/2 and 3/5: interpolated 1, 3/5 and 3/5
        >>> all_points_average_precision(np.zeros(3, int), ranks, np.array([4, 0])).tolist()
        [0.55, nan]
    """
    first = np.searchsorted(classes, np.arange(len(positives)))
    precision = (np.arange(1, len(classes) + 1) - first[classes]) / ranks
    # One running maximum from the last rank to the first serves all classes, since a class outranks those after it.
    values, order = np.unique(precision, return_inverse=True)
    keys = (len(positives) - 1 - classes) * len(values) + order
    highest = values[np.maximum.accumulate(keys[::-1])[::-1] % max(len(values), 1)]
    sums = np.bincount(classes, highest, minlength=len(positives))
    found: NDArray[np.float64] = np.divide(sums, positives, out=np.full(len(positives), np.nan), where=positives > 0)
    return found


def mean_of_classes(values: NDArray[np.float64]) -> float:
    """Mean over the classes with ground truth, of ``[T, K]`` or ``[K]``; NaN if there is none."""
    present = values[~np.isnan(values)]
    return float(present.mean()) if present.size else float("nan")
