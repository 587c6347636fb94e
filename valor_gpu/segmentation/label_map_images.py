"""What is kept of each image of label maps, and what results answer from it. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.base import Analysis
from valor_gpu.result import Result


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
    """

    metric = "segment"
    image_ids: Sequence[str]

    def __init__(self, empty: Callable[[], Any], kept: Sequence[KeptCounts]) -> None:
        self.images, self.image_ids = len(kept), [image.name for image in kept]
        self._empty, self._kept = empty, kept

    def file_names(self) -> Sequence[str]:
        """Returns the names of the files without their endings."""
        return self.image_ids

    def reason_of(self, name: str, numbers: Mapping[str, float]) -> str:
        """Returns why a number of a group of images does not exist."""
        return "no pixel of the images counts for it"

    def result_of(self, images: NDArray[np.int64]) -> Result:
        """Adds up the counts of some images; see :class:`Analysis`."""
        totals = self._empty()
        for place in images.tolist():
            totals.add_counts(self._kept[place])
        found: Result = totals.result({})
        return found
