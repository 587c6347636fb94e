"""Hashes of the ground truths of images, by which two evaluations are told to be of the same data. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.layout import Side
from valor_gpu.stats.row_hashes import row_hashes


def hash_ground_truths(side: Side) -> NDArray[np.int64]:
    """Computes a hash of the ground truths of each image: of their categories, boxes, areas and flags.

    The order of the ground truths of an image changes nothing. Masks and keypoints are hashed by box and area.

    Args:
        side: ground truths.

    Returns:
        int64 ``[I]``, in the order of the layout.
    """
    rows = row_hashes(side.labels, *(side.take(name) for name in ("iscrowd", "ignore", "area", "bbox")))
    sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(rows)))  # they wrap around
    ends = np.cumsum(side.lengths)
    found: NDArray[np.int64] = sums[ends] - sums[ends - side.lengths]
    return found


def hash_federated(side: Side, lists: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Computes a hash of the ground truths of each image of LVIS, and of its lists of categories.

    Args:
        side: ground truths.
        lists: of the images, each int64 ``[N, 2]``: place of the image and of the category.

    Returns:
        int64 ``[I]``, in the order of the layout.
    """
    found = hash_ground_truths(side)
    for number, pairs in enumerate(lists):
        np.add.at(found, pairs[:, 0], row_hashes(pairs[:, 1], np.full(len(pairs), number)))
    return found
