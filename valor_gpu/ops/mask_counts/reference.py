"""The definition of counts of labelled masks, in plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

TOTALS = 4
"""Totals of an image: agreeing, neither, gt_overlap, overlap."""


class MaskSet(NamedTuple):
    """The masks of an image, bool or uint8 ``[H, W]``; every value but 0 is set.

    Attributes:
        gt_masks: of the ground truths.
        gt_labels: of each, from 0 to C - 1. A label may have several masks.
        masks: of the predictions.
        labels: of each.
        num_labels: C.
    """

    gt_masks: Sequence[NDArray[Any]]
    gt_labels: Sequence[int]
    masks: Sequence[NDArray[Any]]
    labels: Sequence[int]
    num_labels: int


class MaskCounts(NamedTuple):
    """Pixels of an image.

    Attributes:
        counts: int64 ``[3, C]``: pixels of a label on both sides, predicted and true ones; the rows are those of
            :data:`valor_gpu.ops.labels.op.TRUE_POSITIVES`, ``PREDICTED`` and ``TRUE``.
        agreeing: pixels where every label has a true mask exactly where it has a predicted one.
        neither: pixels of no label.
        gt_overlap: pixels in true masks of several labels.
        overlap: pixels in predicted masks of several labels.
        pairs: int64 ``[C + 1, C + 1]``: pixels of each true and predicted label; row and column C are of no label.
            None where nobody asked.
    """

    counts: NDArray[np.int64]
    agreeing: int
    neither: int
    gt_overlap: int
    overlap: int
    pairs: NDArray[np.int64] | None

    @classmethod
    def read(cls, table: NDArray[np.int64], labels: int, pairs: bool) -> MaskCounts:
        """From counts of labels, totals and pairs, one after another."""
        counts, totals, rest = np.split(table, [3 * labels, 3 * labels + TOTALS])
        agreeing, neither, gt_overlap, overlap = totals.tolist()
        matrix = rest.reshape(labels + 1, labels + 1) if pairs else None
        return cls(counts.reshape(3, labels), agreeing, neither, gt_overlap, overlap, matrix)


def count_mask_set(one: MaskSet, exclusive: bool, pairs: bool) -> MaskCounts:
    """See :func:`valor_gpu.ops.mask_counts.cpu.count_mask_sets`."""
    masks = (*one.gt_masks, *one.masks)
    pixels = masks[0].size if masks else 0
    true, gt_twice = _side(one.gt_masks, one.gt_labels, one.num_labels, pixels, exclusive)
    found, twice = _side(one.masks, one.labels, one.num_labels, pixels, exclusive)
    counts = np.stack([(true & found).sum(1), found.sum(1), true.sum(1)])
    agreeing = int((true == found).all(0).sum())
    true, found = (np.concatenate([side, ~side.any(0, keepdims=True)]) for side in (true, found))
    neither = int((true[-1] & found[-1]).sum())
    matrix = true.astype(np.int64) @ found.T.astype(np.int64) if pairs else None
    return MaskCounts(counts.astype(np.int64), agreeing, neither, int(gt_twice.sum()), int(twice.sum()), matrix)


def _side(
    masks: Sequence[NDArray[Any]], labels: Sequence[int], num_labels: int, pixels: int, exclusive: bool
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Pixels of each label, ``[C, pixels]``, and those in masks of several labels."""
    side = np.zeros((num_labels, pixels), np.bool_)
    twice = np.zeros(pixels, np.bool_)
    masked = np.zeros(pixels, np.bool_)  # of any label, also where another keeps the pixel
    for mask, label in zip(masks, labels):
        here = mask.reshape(-1) != 0
        fresh = here & ~side[label]
        twice |= fresh & masked
        side[label] |= fresh & ~masked if exclusive else fresh
        masked |= here
    return side, twice
