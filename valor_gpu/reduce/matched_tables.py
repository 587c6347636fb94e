"""Tables of matching, and the numbers of replicates that come from them. No torch import."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick
from valor_gpu.stats.resample import LOST_CLASSES, holders

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
            float64 ``[L, K]`` each, as :func:`valor_gpu.ops.resampled_means.resampled_means` does.
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


def on_host(array: Any) -> NDArray[Any]:
    """Returns an array of numpy, or a tensor on any device, as one of numpy."""
    found: NDArray[Any] = array if isinstance(array, np.ndarray) else array.cpu().numpy()
    return found
