"""Which images count, and the order in which they break ties of scores. No torch import.

Definition of csrc/cpu/image_order.h: of the copies of an image id the one with the smallest record hash counts; ids, or
content hashes of images without one, order the images that do.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS

_ID, _HAS_ID, _GROUND_TRUTH_HASH, _RECORD_HASH, _DETECTIONS, _GROUND_TRUTHS = map(
    IMAGE_COLUMNS.index, ("ID", "HAS_ID", "GROUND_TRUTH_HASH", "RECORD_HASH", "DETECTIONS", "GROUND_TRUTHS")
)


def choose_images(table: NDArray[np.int64], by_key: bool) -> NDArray[np.int64]:
    """Rows of the images table that count, in the order that breaks ties of scores.

    Warns of copies with other detections: those that a sampler adds to fill a batch have the same.

    Args:
        table: int64 ``[I, 8]``.
        by_key: order by image id (or content hash), not by arrival.

    Raises:
        InputError: an image id came with two different ground truths.
    """
    named = np.flatnonzero(table[:, _HAS_ID])
    order = named[np.lexsort((named, table[named, _RECORD_HASH], table[named, _ID]))]
    again = np.flatnonzero(table[order[1:], _ID] == table[order[:-1], _ID]) + 1
    first, second = order[again - 1], order[again]
    conflict = table[first, _GROUND_TRUTH_HASH] != table[second, _GROUND_TRUTH_HASH]
    if conflict.any():
        raise_conflict(int(table[first[conflict][0], _ID]))
    other = first[table[first, _RECORD_HASH] != table[second, _RECORD_HASH]]
    warn_of_other_copies(len(other), int(table[other[0], _ID]) if len(other) else 0)
    kept = np.delete(np.arange(len(table)), second)
    return kept[np.lexsort((table[kept, _ID], table[kept, _HAS_ID]))] if by_key else kept


def check_row_counts(table: NDArray[np.int64], detections: int, ground_truths: int) -> None:
    """Raises :class:`InputError` unless the images have the rows of the other tables.

    Args:
        table: int64 ``[I, 8]``.
        detections: rows of the table of detections.
        ground_truths: rows of the table of ground truths.
    """
    for column, name, rows in (
        (_DETECTIONS, "detections", detections),
        (_GROUND_TRUTHS, "ground_truths", ground_truths),
    ):
        counts = table[:, column]
        if (counts < 0).any() or counts.sum() != rows:
            raise InputError(f"images must name {rows} rows of {name} but name {counts.sum()}")


def raise_conflict(image_id: int) -> None:
    """Raises :class:`InputError` for an id that names two images."""
    raise InputError(f"target: image_id {image_id} must name one image but came with two different ground truths")


def warn_of_other_copies(copies: int, first_id: int) -> None:
    """Warns if ``copies``, the first of them of the image ``first_id``, have other detections."""
    if copies:
        warnings.warn(
            f"{copies} images were left out since their image_id (the first is {first_id})"
            " came before with the same ground truth but other detections: are the ids different for every image?",
            stacklevel=2,
        )
