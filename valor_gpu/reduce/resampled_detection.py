"""Numbers of detection in replicates: images drawn anew from the records of an evaluation. No torch import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.reduce.matched_tables import Floats, Ints, ReplicatedTable
from valor_gpu.reduce.swapped_detection import interleaved, swapped_table
from valor_gpu.stats.arranged import ArrangedUnits
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import Resampled
from valor_gpu.stats.units import Units, units_with_ids

CLASS_FAMILY = "detection_class"
"""Family of the numbers of single classes."""
_WEIGHTS = 16 << 20
"""Most bytes of the weights of a portion."""
_LANES = 16
"""Replicates that the kernels take side by side."""


class ResampledDetection(Resampled):
    """Images of an evaluation, to be drawn anew.

    A unit that is drawn k times stands for k adjacent copies of its image, and a class without a truth in a replicate
    has no part in its means.

    Args:
        tables: what the numbers come from.
        units: number of images.
        keys: ids of the images in their order; None: some have none.
        weights: makes the weights of draws where the records are.
        refused: names of numbers without an interval, and why.
        identify: gives what tells the images apart; None: their ids do, which then are not None.
    """

    family = "detection"
    unit = "images"

    def __init__(
        self,
        tables: Sequence[ReplicatedTable],
        units: int,
        keys: Sequence[Any] | None,
        weights: Callable[[Draws], Any] = Draws.array,
        refused: Mapping[str, str] | None = None,
        identify: Callable[[], Units] | None = None,
    ) -> None:
        self.units, self._tables, self._keys = units, tables, keys
        self._weights, self._refused = weights, dict(refused or {})
        self._identify = identify
        self.chunk = portion_of(units)

    def replicates(self, draws: Draws) -> dict[str, Floats]:
        """See :class:`Resampled`."""
        weights = self._weights(draws)
        found: dict[str, Floats] = {}
        for table in self._tables:
            found |= table.replicates(weights)
        return found

    def family_of(self, name: str) -> str:
        """See :class:`Resampled`: numbers of classes are a family of their own."""
        return CLASS_FAMILY if "/" in name else self.family

    def range_of(self, name: str) -> tuple[float, float]:
        """See :class:`Resampled`: precision and recall are fractions."""
        return 0.0, 1.0

    def supports(self, clusters: Ints | None = None) -> dict[str, int]:
        """See :class:`Resampled`."""
        return {name: count for table in self._tables for name, count in table.supports(clusters).items()}

    def refused(self) -> Mapping[str, str]:
        """See :class:`Resampled`."""
        return self._refused

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> Ints:
        """See :class:`Resampled`; a sequence is in the order of ascending ids."""
        return cluster_codes(given, self._keys, self.units)

    def identities(self) -> Units:
        """See :class:`Resampled`: images by their ids, or by the order in which they arrived."""
        if self._identify is not None:
            return self._identify()
        if self._keys is None:
            return super().identities()
        return units_with_ids(self.unit, self._keys)

    def swapping(self, other: Resampled) -> Resampled | None:
        """See :class:`Resampled`; the images are ordered as they are here, one of this model before the other's."""
        if not isinstance(other, ResampledDetection):
            return None
        pairs = list(zip(self._tables, other._tables, strict=True))
        order = interleaved(self.identities(), other.identities())
        tables = [swapped_table(first, second, order) for first, second in pairs]
        state = ResampledDetection(tables, len(order), None, self._weights, self._refused)
        return ArrangedUnits(state, order)


def portion_of(units: int) -> int:
    """Returns how many replicates to take at a time, so that their weights stay small.

    Example:
        >>> portion_of(5_000), portion_of(10**6)
        (64, 16)
    """
    portion = max(1, min(4 * _LANES, _WEIGHTS // max(units, 1)))
    return portion - portion % _LANES if portion > _LANES else portion


def cluster_codes(given: Mapping[Any, Any] | Sequence[Any], keys: Sequence[Any] | None, units: int) -> Ints:
    """Returns the codes of the clusters of images, ascending by the first image of each.

    Args:
        given: id of every image to its cluster, or the cluster of every image by ascending id.
        keys: ids of the images, ascending; None: some have none.
        units: number of images.

    Raises:
        InputError: images have no id, an image has no cluster, or an id is that of no image.

    Example:
        >>> cluster_codes({3: "b", 8: "a", 9: "b"}, [3, 8, 9], 3).tolist()
        [0, 1, 0]
    """
    if keys is None:
        raise InputError(
            "clusters must be None where images have no id, since nothing says which image is which: give every image"
            " of target an image_id"
        )
    if isinstance(given, Mapping):
        known = set(keys)
        lacking = [key for key in keys if key not in given]
        unknown = [key for key in given if key not in known]
        if lacking:
            raise InputError(
                f"clusters must name every image but {len(lacking)} of {units} are missing, the first is {lacking[0]!r}"
            )
        if unknown:
            raise InputError(
                f"clusters must name images of the result alone but {len(unknown)} ids are of no image, the first is"
                f" {unknown[0]!r}"
            )
        given = [given[key] for key in keys]
    if len(given) != units:
        raise InputError(f"clusters must be one for each of {units} images but are {len(given)}")
    codes: dict[Any, int] = {}
    return np.array([codes.setdefault(cluster, len(codes)) for cluster in given], np.int64)
