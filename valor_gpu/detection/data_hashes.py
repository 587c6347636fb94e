"""Hashes of the images that the states of detection metrics hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valor_gpu.digests import DataHashes
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.row_digests import multiset_hash, row_hashes
from valor_gpu.state import array_of

if TYPE_CHECKING:
    from torch import Tensor

    from valor_gpu.detection.overlap_state import OverlapRecords

_ID, _HAS_ID, _TRUTHS, _RECORDS = map(IMAGE_COLUMNS.index, ("ID", "HAS_ID", "GROUND_TRUTH_HASH", "RECORD_HASH"))


def images_hashes(images: Tensor) -> DataHashes:
    """Returns the hashes of the images table of :class:`DetectionRecords`.

    Of an image count its id, or that it has none, and the hashes that matching leaves: that of its ground truths in any
    order (geometry, label, area, flags), and that of its detections in their order (geometry, score, label). Copies of
    an image count once, as in the numbers.

    Args:
        images: int64 ``[I, 8 * T]`` of T geometries.
    """
    parts = array_of(images).reshape(len(images), images.shape[1] // len(IMAGE_COLUMNS), len(IMAGE_COLUMNS))
    parts = parts[_first_copies(parts[:, 0])]
    named = parts[:, 0, _HAS_ID]
    ids = np.where(named, parts[:, 0, _ID], 0)  # of an image without one, its content
    truths = {"named": named, "id": ids, "hash": parts[:, :, _TRUTHS]}
    predictions = {**truths, "hash": parts[:, :, [_TRUTHS, _RECORDS]]}
    return DataHashes("images", multiset_hash("truths", truths), multiset_hash("predictions", predictions))


def _first_copies(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """Rows of the images that count: of the copies of an id the one with the smallest record hash."""
    named = np.flatnonzero(table[:, _HAS_ID])
    order = named[np.lexsort((table[named, _RECORDS], table[named, _ID]))]
    again = np.flatnonzero(table[order[1:], _ID] == table[order[:-1], _ID]) + 1
    return np.delete(np.arange(len(table)), order[again])


def overlap_hashes(state: OverlapRecords) -> DataHashes:
    """Returns the hashes of images with their labels, scores and overlaps.

    Each detection counts with the id of its image, its label and score, and its overlaps with ground truths of the
    image, in their order; each ground truth with the id of its image and its label.
    """
    images = array_of(state.images)
    sides = [np.repeat(images[:, :2], images[:, column], axis=0) for column in (2, 3)]
    counts = array_of(state.counts).astype(np.int64)
    ends = counts.cumsum()
    place = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    pairs = row_hashes([place, array_of(state.ground_truths), array_of(state.ious)], 0, len(place))
    sums = [np.concatenate([np.zeros(1, np.uint64), half.cumsum(dtype=np.uint64)]) for half in pairs]
    truths = {"image": sides[1], "label": array_of(state.gt_labels)}
    predictions = {
        "image": sides[0],
        "label": array_of(state.labels),
        "score": array_of(state.scores),
        "overlaps": np.stack([half[ends] - half[ends - counts] for half in sums], 1),
    }
    seen = multiset_hash("images", {"image": images})
    hashes = multiset_hash("truths", truths, seen), multiset_hash("predictions", predictions, seen)
    return DataHashes("images", *hashes)
