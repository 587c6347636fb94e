"""Identity of the images of detection records, from their images tables. No torch import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.stats.row_hashes import row_hashes
from valor_gpu.stats.units import Units

Ints = NDArray[np.int64]

_ID, _HAS_ID, _GROUND_TRUTH_HASH = map(IMAGE_COLUMNS.index, ("ID", "HAS_ID", "GROUND_TRUTH_HASH"))


class KeptImages(NamedTuple):
    """Images of one table of records, in the order that breaks ties.

    Attributes:
        table: int64 ``[I, 8]``, all images, see docs/design/001-detection-records.md.
        kept: int64 ``[U]``, the row of each image that counts.
    """

    table: Ints
    kept: Ints

    @property
    def rows(self) -> Ints:
        """int64 ``[U, 8]``."""
        return self.table[self.kept]

    def by_name(self) -> Ints:
        """Returns int64 ``[U]``, the places of the images by id, or by arrival where they have none."""
        rows = self.rows
        names = np.where(rows[:, _HAS_ID] != 0, rows[:, _ID], self.kept)
        return np.lexsort((names, rows[:, _HAS_ID]))


def places_among(first: KeptImages, other: KeptImages) -> Ints | None:
    """Returns which of the first images each of the others is.

    Content hashes order images without an id otherwise in each table: those of boxes are not those of masks.

    Args:
        first: U images.
        other: the same images.

    Returns:
        int64 ``[U]``; None where both have the same order.
    """
    places = np.empty_like(other.kept)
    places[other.by_name()] = first.by_name()
    return None if bool((places == np.arange(len(places))).all()) else places


def table_units(tables: Sequence[KeptImages]) -> Units:
    """Returns what tells images apart: their ids, or the order in which they arrived.

    Args:
        tables: of the same images; the first has the order of the units.
    """
    rows = [_aligned(tables[0], table) for table in tables]
    contents = np.concatenate([each[:, [_HAS_ID, _ID]] for each in rows], axis=1)
    ranks = np.unique(contents, axis=0, return_inverse=True)[1].reshape(-1)
    ids = rows[0][:, _ID].tolist() if bool((rows[0][:, _HAS_ID] == 1).all()) else None
    truths = row_hashes(*(each[:, _GROUND_TRUTH_HASH] for each in rows))
    return Units("images", ids, tables[0].kept, len(tables[0].table), ranks, truths)


def _aligned(first: KeptImages, other: KeptImages) -> Ints:
    """Rows of the other table in the order of the first."""
    rows, places = other.rows, places_among(first, other)
    if places is None:
        return rows
    found = np.empty_like(rows)
    found[places] = rows
    return found
