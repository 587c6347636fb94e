"""What is kept of each image of label maps, and what results answer from it. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.base import Analysis
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.result import Result
from valor_gpu.segmentation.image_table import image_table
from valor_gpu.segmentation.resampled_images import ResampledImages


class KeptCounts(NamedTuple):
    """What is kept of an image.

    Attributes:
        name: of its files.
        counts: int64 ``[3, C]``: true positives, predicted and true pixels of each class.
        pixels: of the image, with those that are left out.
    """

    name: str
    counts: NDArray[np.int64]
    pixels: int


class LabelMapAnalysis(Analysis):
    """Answers about the images of label maps.

    Args:
        empty: makes :class:`valor_gpu.segmentation.label_map_folders.Totals` of no image.
        kept: of each image.
        state: returns what intervals are made of.
        choices: of the signature of the result.
    """

    metric = "segment"
    image_ids: Sequence[str]

    def __init__(
        self,
        empty: Callable[[], Any],
        kept: Sequence[KeptCounts],
        state: Callable[[], ResampledImages],
        choices: Mapping[str, Any],
    ) -> None:
        self.images, self.image_ids = len(kept), [image.name for image in kept]
        self._empty, self._kept, self._state, self._choices = empty, kept, state, choices

    def file_names(self) -> Sequence[str]:
        """Returns the names of the files without their endings."""
        return self.image_ids

    def image_table(self, **choices: Any) -> ColumnTable:
        """Returns the numbers of every image; see :meth:`valor_gpu.result.Result.images`."""
        return image_table(self, self._state(), self._choices, **choices)

    def reason_of(self, name: str, empty: bool) -> str:
        """Returns why a number of a group of images does not exist."""
        return "no pixel of the images counts for it"

    def result_of(self, images: NDArray[np.int64]) -> Result:
        """Adds up the counts of some images; see :class:`Analysis`."""
        totals = self._empty()
        for place in images.tolist():
            totals.add_counts(self._kept[place])
        found: Result = totals.result({})
        return found
