"""The masks of annotations of a segmentation: of objects, and of columns ``raster`` and ``polygon`` of a frame."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.valor import frames
from valor_gpu.valor.geojson import polygon_of
from valor_gpu.valor.geometry import GeoJSON, MultiPolygon, Polygon, Raster

Mask = NDArray[np.bool_]
_SIZE = ("height", "width")


@dataclass(frozen=True)
class Outline:
    """A polygon that becomes a mask when the size of its datum is known.

    Attributes:
        place: the annotation, for messages.
        uid: of its datum.
        geometry: in pixels.
    """

    place: str
    uid: Any
    geometry: Polygon | MultiPolygon

    def draw(self, height: int, width: int) -> Mask:
        """The mask; raises :class:`InputError` for negative coordinates."""
        try:
            return Raster.from_geometry(self.geometry, height, width).mask
        except InputError as error:
            raise InputError(f"{self.place} of datum {self.uid!r}: {error}") from None


class Masks(Sequence[Mask]):
    """Masks of a side, those of outlines drawn anew whenever they are asked for: all at once may not fit into memory.

    Args:
        given: the masks and the outlines.
        shapes: of the datums of outlines, by uid.
    """

    def __init__(self, given: Sequence[Mask | Outline], shapes: Mapping[Any, tuple[int, ...]]) -> None:
        self._given, self._shapes = given, shapes

    def __len__(self) -> int:
        return len(self._given)

    def __getitem__(self, place: Any) -> Any:
        mask = self._given[place]
        return mask.draw(*self._shapes[mask.uid]) if isinstance(mask, Outline) else mask

    def pixels(self, place: int) -> int:
        """Height times width of a mask."""
        mask = self._given[place]
        return math.prod(self._shapes[mask.uid]) if isinstance(mask, Outline) else mask.size


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
                f"{place} of datum {uid!r} must have a raster or a polygon in a segmentation but has none; "
                "Raster.from_geometry makes a raster of a box"
            )
        mask = (raster if isinstance(raster, Raster) else Raster(raster)).mask  # type: ignore[arg-type]
        shape, first = self.shapes.setdefault(uid, (mask.shape, place))
        if mask.shape != shape:
            raise InputError(
                f"{place} of datum {uid!r} must have a raster of {shape[0]} x {shape[1]} pixels, as {first} has, but "
                f"has {mask.shape[0]} x {mask.shape[1]}"
            )
        return mask

    def read_either(self, place: str, uid: Any, raster: object, polygon: object) -> Mask | Outline:
        """The mask of an annotation of a segmentation, or the polygon that it has in place of one.

        Args:
            place: the annotation, for messages.
            uid: of its datum.
            raster: see :meth:`read`.
            polygon: a Polygon or a MultiPolygon, of frames also GeoJSON; what is missing without one.

        Raises:
            InputError: see :meth:`read`; or no polygon.
        """
        if not frames.is_missing(raster) or frames.is_missing(polygon):
            return self.read(place, uid, raster)
        where = f"{place} of datum {uid!r}"
        if isinstance(polygon, GeoJSON | dict | str):
            polygon = polygon_of(f"{where}: polygon", polygon)
        check_type(f"{where}: polygon", polygon, (Polygon, MultiPolygon))
        return Outline(place, uid, polygon)  # type: ignore[arg-type]

    def complete(
        self, given: Sequence[Mask | Outline], metadata: Mapping[Any, Mapping[str, Any] | None]
    ) -> Sequence[Mask]:
        """The masks of a side, after both are read, when all sizes are known.

        Args:
            given: its masks and outlines.
            metadata: of datums by uid; ``height`` and ``width`` are the size of one that has no raster.

        Raises:
            InputError: naming an outline of a datum without a size.
        """
        outlines = [mask for mask in given if isinstance(mask, Outline)]
        for outline in outlines:
            self._size(outline, metadata)
        return Masks(given, {each.uid: self.shapes[each.uid][0] for each in outlines}) if outlines else given  # type: ignore[return-value]

    def _size(self, outline: Outline, metadata: Mapping[Any, Mapping[str, Any] | None]) -> None:
        if outline.uid in self.shapes:
            return
        sizes = [(metadata.get(outline.uid) or {}).get(name) for name in _SIZE]
        if not all(isinstance(size, int | np.integer) and size > 0 for size in sizes):
            raise InputError(
                f"{outline.place} of datum {outline.uid!r} has a polygon, which needs the size of the image: a raster"
                " of another annotation of the datum, or metadata height and width in pixels, but these are"
                f" {sizes[0]!r} and {sizes[1]!r}"
            )
        self.shapes[outline.uid] = tuple(map(int, sizes)), "its metadata"  # type: ignore[arg-type]

    def column(
        self, name: str, frame: Any, rows: NDArray[np.int64], uids: Sequence[Any], annotation: NDArray[np.int32]
    ) -> list[Mask | Outline]:
        """The mask or the outline of each annotation of a frame.

        Args:
            name: of the frame, for messages.
            frame: opened.
            rows: of the frame that are read.
            uids: of the datum of each of them.
            annotation: of each of them, from 0 on in the order of their first rows.

        Raises:
            InputError: see :meth:`read_either`; or rows of an annotation with several masks.
        """
        names = frames.column_names(frame)
        only = "polygon" in names and "raster" not in names
        rasters = itertools.repeat(None) if only else frames.values(name, frame, "raster")
        polygons = frames.values(name, frame, "polygon") if "polygon" in names else itertools.repeat(None)
        listed = [*zip(rasters, polygons)]
        masks: dict[int, tuple[Mask | Outline, int]] = {}
        for row, uid, code in zip(rows.tolist(), uids, annotation.tolist()):
            mask = self.read_either(f"{name} row {row}", frames.text_of(uid), *listed[row])
            known, first = masks.setdefault(code, (mask, row))
            if known is not mask and not _same(known, mask):
                raise InputError(f"{name} must have one raster an annotation but rows {first} and {row} differ")
        return [mask for mask, _ in masks.values()]


def _same(one: Mask | Outline, other: Mask | Outline) -> bool:
    if isinstance(one, Outline) or isinstance(other, Outline):
        return isinstance(one, Outline) and isinstance(other, Outline) and one.geometry == other.geometry
    return np.array_equal(one, other)
