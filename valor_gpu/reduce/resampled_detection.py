"""Numbers of detection in replicates: images drawn anew from the records of an evaluation. No torch import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick
from valor_gpu.stats.arranged import ArrangedUnits
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import LOST_CLASSES, Resampled, holders
from valor_gpu.stats.units import Units, units_with_ids

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLASS_FAMILY = "detection_class"
"""Family of the numbers of single classes."""
_WEIGHTS = 16 << 20
"""Most bytes of the weights of a portion."""
_LANES = 16
"""Replicates that the kernels take side by side."""


@frozen
class Truths:
    """Ground truths that count, by class.

    Attributes:
        counts_in: bool ``[G, A]``: whether each counts in an area range.
        classes: int64 ``[G]``, ascending, 0 .. K - 1.
        units: int64 ``[G]``, the image of each.
        number: K.
    """

    counts_in: NDArray[np.bool_]
    classes: Ints
    units: Ints
    number: int

    def images(self, area: int) -> tuple[Ints, Ints]:
        """Returns each pair of a class and an image that holds a truth of it: classes ascending, and images."""
        rows = self.counts_in[:, area]
        units = self.units[rows]
        width = int(units.max(initial=0)) + 1
        pairs = np.unique(self.classes[rows] * width + units)
        return pairs // width, pairs % width


@frozen
class MatchedTables:
    """Tables of matching that numbers come from, see docs/design/001-detection-records.md.

    Attributes:
        detections: uint8 ``[D, 13 + 2B]``, an array or a tensor.
        ground_truths: uint8 ``[G, 4 + ceil((A + 2) / 8)]``, likewise.
        images: int64 ``[I, 8]``, likewise.
        kept: int64 ``[U]``, the row of ``images`` that each unit is.
        labels: int64, ascending labels of the detections and ground truths.
        choices: what is accumulated.
        order: makes ``run`` and ``truths`` of a :class:`ReplicatedTable` of such arrays and choices.
    """

    detections: Any
    ground_truths: Any
    images: Any
    kept: Ints
    labels: Ints
    choices: AccumulateChoices
    order: Callable[[Any, Any, Any, AccumulateChoices], tuple[Callable[[Any], tuple[Any, Any, Any]], Truths]]


@frozen
class ReplicatedTable:
    """Records of one matching, and the numbers of a result that come from them.

    Attributes:
        run: takes weights uint8 ``[U, L]`` of the images to means ``[L, P]`` and to precision and recall of classes,
            float64 ``[L, K]`` each, as :func:`valor_gpu.ops.resampled_means.op.resampled_means` does.
        truths: ground truths that count.
        picks: names of the P means in the result, with what they are taken over.
        classes: names of the K classes in the result; empty where it has no numbers of them.
        prefix: of ``map_per_class`` and ``mar_per_class``.
        units: int64, which of the images of the state these records are of; None: all.
        finish: changes means as the result does, such as by rounding.
        source: tables that the records are of.
    """

    run: Callable[[Any], tuple[Any, Any, Any]]
    truths: Truths
    picks: Mapping[str, Pick]
    classes: Sequence[str] = ()
    prefix: str = ""
    units: Ints | None = None
    finish: Callable[[Floats], Floats] | None = None
    source: MatchedTables | None = None

    def class_names(self, number: str) -> list[str]:
        """Returns leaf names of a number of each class."""
        return [f"{self.prefix}{number}/{name}" for name in self.classes]

    def replicates(self, weights: Any) -> dict[str, Floats]:
        """Returns the numbers in replicates, and how many classes each mean lost."""
        chosen = weights if self.units is None else weights[self.units]
        means, precision, recall = (on_host(array) for array in self.run(chosen))
        means = means if self.finish is None else self.finish(means)
        found = dict(zip(self.picks, means.T))
        found |= zip(self.class_names("map_per_class"), precision.T)
        found |= zip(self.class_names("mar_per_class"), recall.T)
        if self.truths.number > 1:
            host = on_host(chosen)
            lost = {area: self._lost(area, host) for area in {pick.area for pick in self.picks.values()}}
            found |= {name + LOST_CLASSES: lost[pick.area] for name, pick in self.picks.items()}
        return found

    def _lost(self, area: int, weights: NDArray[np.uint8]) -> Floats:
        """float64 ``[L]``: classes with a truth in an area range, and none in the replicate."""
        units, starts = self._pairs[area]
        if not len(starts):
            return np.zeros(weights.shape[1])
        held = np.maximum.reduceat(weights[units], starts, axis=0) > 0
        lost: Floats = (~held).sum(0).astype(np.float64)
        return lost

    @cached_property
    def _pairs(self) -> dict[int, tuple[Ints, Ints]]:
        """By area range the images of :meth:`Truths.images`, and where those of each class start."""
        found = {}
        for area in range(self.truths.counts_in.shape[1]):
            classes, units = self.truths.images(area)
            found[area] = units, np.flatnonzero(np.append(True, classes[1:] != classes[:-1])[: len(classes)])
        return found

    def supports(self, clusters: Ints | None = None) -> dict[str, int]:
        """Returns how many images, or clusters of all images, hold a truth of each class."""
        if clusters is not None and self.units is not None:
            clusters = clusters[self.units]
        counts = holders(*self.truths.images(0), self.truths.number, clusters)
        names = (self.class_names(number) for number in ("map_per_class", "mar_per_class"))
        return {name: count for each in names for name, count in zip(each, counts)}


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
        from valor_gpu.reduce.swapped_detection import interleaved, swapped_table

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


def on_host(array: Any) -> NDArray[Any]:
    """Returns an array of numpy, or a tensor on any device, as one of numpy."""
    found: NDArray[Any] = array if isinstance(array, np.ndarray) else array.cpu().numpy()
    return found
