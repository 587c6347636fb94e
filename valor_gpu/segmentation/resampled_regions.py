"""Ratios of the pixels of resampled images. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.reduce.regions import region_value
from valor_gpu.segmentation.resampled_images import ResampledImages, Weights, by_class, by_place

if TYPE_CHECKING:
    from valor_gpu.segmentation.region_base import Regions
    from valor_gpu.stats.resample import Resampled


@frozen
class Ratios:
    """The numbers of a metric of one ratio.

    Attributes:
        ratio: of :data:`valor_gpu.reduce.regions.REGION_RATIOS`.
        averages: of each number, by its name; None: of each class.
        zero_division: value of a class that is there but whose denominator is 0.
        kept: bool ``[C]``, the classes that count.
        of_images: means over images.
    """

    ratio: str
    averages: Mapping[str, str | None]
    zero_division: float
    kept: NDArray[np.bool_]
    of_images: bool

    def of_counts(self, counts: NDArray[np.int64], average: str | None, zero_division: float) -> NDArray[np.float64]:
        """The number of counts ``[..., 3, C]``."""
        return region_value(self.ratio, counts, average, zero_division=zero_division, classes=self.kept)


def resampled_ratios(state: Regions, ratios: Ratios) -> Resampled:
    """Returns what intervals of ratios are made of, of a state with the counts of each image."""
    counts = state.images()
    zeros = math.nan, ratios.zero_division
    averages = ratios.averages.values() if ratios.of_images else ()
    rows = [ratios.of_counts(counts, average, zero) for average in averages for zero in zeros]

    def numbers(
        weights: Weights, counts: NDArray[np.int64], *rows: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float64]]:
        found: dict[str, NDArray[np.float64]] = {}
        sums = None if ratios.of_images else weights.sums(counts)
        for place, (name, average) in enumerate(ratios.averages.items()):
            if sums is None:
                known, whole = map(weights.means, rows[2 * place : 2 * place + 2])
            else:
                known, whole = (ratios.of_counts(sums, average, zero) for zero in zeros)
            values = np.where(np.isnan(known), math.nan, whole)
            found |= {name: values} if values.ndim == 1 else by_place(name, values)
        return found

    family = "rows" if ratios.of_images else "pixels"
    classes = by_class("per_class", counts[:, 2] > 0)
    return ResampledImages(family, counts, numbers, **classes, tables=[counts, *rows], truths=counts[:, 2])
