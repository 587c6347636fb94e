"""The masks of annotations of a segmentation: of objects, and of a column ``raster`` of a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.valor import frames
from valor_gpu.valor.geometry import Raster

Mask = NDArray[np.bool_]


@dataclass
class MaskReader:
    """Reads masks and checks that all of a datum, of both sides, have one shape.

    Attributes:
        shapes: of each datum by its uid, and the annotation that had it first.
    """

    shapes: dict[Any, tuple[tuple[int, ...], str]] = field(default_factory=dict)

    def read(self, place: str, uid: Any, raster: object) -> Mask:
        """The mask of an annotation.

        Args:
            place: the annotation, for messages.
            uid: of its datum.
            raster: a Raster, or bool ``[H, W]``.

        Raises:
            InputError: no mask, or one of another shape than another of the datum.
        """
        if frames.is_missing(raster):
            raise InputError(
                f"{place} of datum {uid!r} must have a raster in a segmentation but has none; Raster.from_geometry "
                "makes one of a box, a polygon or a multipolygon"
            )
        mask = (raster if isinstance(raster, Raster) else Raster(raster)).mask  # type: ignore[arg-type]
        shape, first = self.shapes.setdefault(uid, (mask.shape, place))
        if mask.shape != shape:
            raise InputError(
                f"{place} of datum {uid!r} must have a raster of {shape[0]} x {shape[1]} pixels, as {first} has, but "
                f"has {mask.shape[0]} x {mask.shape[1]}"
            )
        return mask

    def column(
        self, name: str, frame: Any, rows: NDArray[np.int64], uids: Sequence[Any], annotation: NDArray[np.int32]
    ) -> list[Mask]:
        """The mask of each annotation of a frame.

        Args:
            name: of the frame, for messages.
            frame: opened.
            rows: of the frame that are read.
            uids: of the datum of each of them.
            annotation: of each of them, from 0 on in the order of their first rows.

        Raises:
            InputError: see :meth:`read`; or rows of an annotation with several masks.
        """
        listed = frames.values(name, frame, "raster")
        masks: dict[int, tuple[Mask, int]] = {}
        for row, uid, code in zip(rows.tolist(), uids, annotation.tolist()):
            mask = self.read(f"{name} row {row}", frames.text_of(uid), listed[row])
            known, first = masks.setdefault(code, (mask, row))
            if known is not mask and not np.array_equal(known, mask):
                raise InputError(f"{name} must have one raster an annotation but rows {first} and {row} differ")
        return [mask for mask, _ in masks.values()]
