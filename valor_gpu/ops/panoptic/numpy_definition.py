"""Counts of one image whose pixels hold ids of segments, in plain numpy: where the C++ library is not built."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_CROWD, _EXCUSES = 2, 4  # of csrc/core/panoptic.h
_ROWS = 8

Ids = NDArray[np.int64]


class Segments(NamedTuple):
    """The segments of one side of an image.

    Attributes:
        ids: int64 ``[N]``, all different, above 0.
        rows: int64 ``[N]``, the category of each as a row of the table.
        flags: int64 ``[N]``, ``CROWD`` and ``EXCUSES`` or 0.
    """

    ids: NDArray[np.int64]
    rows: NDArray[np.int64]
    flags: NDArray[np.int64]


def count_ids(
    preds: Ids, target: Ids, segments: Segments, target_segments: Segments, classes: int
) -> tuple[NDArray[np.int64], Ids, Ids, NDArray[np.bool_]]:
    """See :func:`valor_gpu.ops.panoptic.cpu.count_image`.

    Args:
        preds: ids ``[H, W]``.
        target: likewise.
        segments: of the prediction.
        target_segments: of the ground truth.
        classes: C.

    Returns:
        The table, areas of both sides, and bool ``[2, H, W]``: where an id of the prediction, and of the ground truth,
        is no segment.
    """
    mine, true = _numbers(preds, segments.ids), _numbers(target, target_segments.ids)
    shape = len(segments.ids) + 1, len(target_segments.ids) + 1
    common = np.bincount((mine * shape[1] + true).ravel(), minlength=shape[0] * shape[1]).reshape(shape)
    areas, true_areas = common[1:].sum(1), common[:, 1:].sum(0)
    void, common = common[1:, 0], common[1:, 1:]  # void of the ground truth; pixels of both
    crowd = (target_segments.flags & _CROWD) > 0
    same = (segments.rows[:, None] == target_segments.rows) & (common > 0)
    union = (areas - void)[:, None] + true_areas - common
    hits = same & ~crowd & (2 * common > union)
    excused = void + (common * (same & ((target_segments.flags & _EXCUSES) > 0))).sum(1)
    false = (areas > 0) & ~hits.any(1) & (2 * excused <= areas)
    missed = (true_areas > 0) & ~hits.any(0) & ~crowd
    matched = np.nonzero(hits)
    found = segments.rows[matched[0]], segments.rows[false], target_segments.rows[missed]
    every = segments.rows[areas > 0], target_segments.rows[(true_areas > 0) & ~crowd]
    table = np.zeros((_ROWS, classes), np.int64)
    for row, rows in enumerate((*found, *every)):
        table[row] = np.bincount(rows, minlength=classes)
    rest = common[matched] / union[matched]
    for row in range(5, _ROWS):  # words of 32 bits
        rest = rest * 2.0**32
        np.add.at(table[row], found[0], rest.astype(np.int64))
        rest = rest - rest.astype(np.int64)
    return table, areas, true_areas, np.stack([(mine == 0) & (preds != 0), (true == 0) & (target != 0)])


def _numbers(ids: NDArray[Any], known: Ids) -> Ids:
    """Of every pixel the place of its id among those that are known, from 1 on; 0 for others."""
    order = np.argsort(known)
    places = np.searchsorted(known[order], ids)
    near = np.minimum(places, max(len(known) - 1, 0))
    if not len(known):
        return np.zeros(ids.shape, np.int64)
    return np.where(known[order][near] == ids, order[near] + 1, 0)
