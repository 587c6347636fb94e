"""The data of a detection after it was read: columns, the overlaps of their rows, and names of rows for examples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valor_gpu.valor.columns import Columns, Rows

if TYPE_CHECKING:
    from valor_gpu.ops.overlaps.op import Overlaps
    from valor_gpu.valor.detection.shapes import Shapes

Places = NDArray[np.int64]
Mask = NDArray[np.bool_]
GROUND_TRUTHS, DETECTIONS = 0, 1
"""Sides."""


@dataclass(frozen=True)
class DetectionScene:
    """Both sides of a detection, ready to be counted.

    Attributes:
        columns: with the labels of the label map.
        overlaps: of ground truths and predictions of one label key, by datum; labels are places in ``columns.labels``.
        places: for each side, ground truths first, the row of the columns that each row of the overlaps is.
        dataset: name of the dataset in examples.
    """

    columns: Columns
    overlaps: Overlaps
    places: tuple[Places, Places]
    dataset: str = ""

    def keep(self, datums: Mask, truths: Mask, rows: Mask) -> DetectionScene:
        """What a filter leaves.

        Args:
            datums: bool, of ``columns.datums``.
            truths: bool, of ``columns.groundtruths``.
            rows: bool, of ``columns.predictions``.
        """
        import torch

        kept = [mask[places] for mask, places in zip((truths, rows), self.places)]
        device = self.overlaps.labels.device
        masks = [torch.from_numpy(mask).to(device) for mask in (kept[1], kept[0], datums)]
        overlaps = self.overlaps.take(*masks)
        places = (self.places[0][kept[0]], self.places[1][kept[1]])
        return replace(self, overlaps=overlaps, places=places)

    def rows(self, side: int) -> Rows:
        """The columns of ground truths, 0, or predictions, 1, in the order of the overlaps."""
        return (self.columns.groundtruths, self.columns.predictions)[side].take(self.places[side])

    def uid(self, side: int, row: int) -> str:
        """The uid of the datum of a row of the overlaps."""
        return self.columns.datums[int(self._columns(side).datum[self.places[side][row]])]

    def name(self, side: int, row: int) -> str | int:
        """The annotation of a row: ``uid`` of its metadata, else its place in its datum, or the row of a frame."""
        rows, annotation = self._columns(side), self.annotation(side, row)
        metadata = rows.metadata[annotation]
        if metadata and metadata.get("uid") is not None:
            return str(metadata["uid"])
        place = int(self.shapes(side).places[annotation])
        return place if place >= 0 else -1 - place

    def annotation(self, side: int, row: int) -> int:
        """The place of the annotation of a row among all of its side."""
        return int(self._columns(side).annotation[self.places[side][row]])

    def shapes(self, side: int) -> Shapes:
        """The geometries of all annotations of a side."""
        shapes = self._columns(side).shapes
        assert shapes is not None, "columns of a detection"
        return shapes

    def _columns(self, side: int) -> Rows:
        return (self.columns.groundtruths, self.columns.predictions)[side]
