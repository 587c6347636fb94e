"""The geometry of valor_core: shapes, and masks of pixels."""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_int, check_number, check_type
from valor_gpu.errors import InputError, InputTypeError, MissingExtraError
from valor_gpu.valor.shapes import (
    Box,
    GeoJSON,
    LineString,
    MultiLineString,
    MultiPoint,
    MultiPolygon,
    Number,
    Point,
    Polygon,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Box",
    "GeoJSON",
    "LineString",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "Point",
    "Polygon",
    "Raster",
]

_CONTOUR_KEYS = {"x", "y"}


@dataclass(eq=False)
class Raster:
    """A mask, bool ``[height, width]``.

    Raises:
        InputError: the mask is no two-dimensional array of bools.

    Example:
        >>> Raster.from_geometry(Box.from_extrema(1, 3, 0, 2), height=3, width=4).mask.astype(int).tolist()
        [[0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0]]
    """

    mask: np.ndarray[Any, Any]

    def __post_init__(self) -> None:
        import numpy as np

        check_type("Raster.mask", self.mask, np.ndarray)
        if self.mask.ndim != 2 or self.mask.dtype != np.bool_:
            raise InputError(
                f"Raster.mask must be two-dimensional bool but got {self.mask.dtype} {list(self.mask.shape)}"
            )

    def __eq__(self, other: object) -> bool:
        import numpy as np

        return isinstance(other, Raster) and np.array_equal(self.mask, other.mask)

    def encode_value(self) -> Any:
        """``{"mask": text}``, the text a PNG in base64. Needs Pillow."""
        file = io.BytesIO()
        _pillow().fromarray(self.mask).save(file, format="PNG")
        return {"mask": base64.b64encode(file.getvalue()).decode()}

    @classmethod
    def decode_value(cls, mask: Any) -> Raster:
        """The mask that :meth:`encode_value` wrote, or its text alone. Needs Pillow."""
        import numpy as np

        text = mask["mask"] if isinstance(mask, dict) and "mask" in mask else mask
        check_type("mask", text, str)
        with _pillow().open(io.BytesIO(base64.b64decode(text))) as image:
            return cls(np.array(image).astype(bool))

    def to_array(self) -> NDArray[np.bool_]:
        """The mask."""
        return self.mask

    @classmethod
    def from_coordinates(cls, coordinates: list[list[dict[str, Any]]], height: int, width: int) -> Raster:
        """The mask of all contours together.

        Args:
            coordinates: contours, each a list of points ``{"x": x, "y": y}``; one of fewer than three points has no
                pixels.
            height: rows of the mask.
            width: columns of the mask.

        Raises:
            InputError: a point that is no such dict, or a negative coordinate or size.
        """
        inside = _background(height, width)
        for contour in coordinates:
            inside |= _filled([_closed(contour)], height, width)
        return cls(inside)

    @classmethod
    def from_geometry(cls, geometry: Box | Polygon | MultiPolygon, height: int, width: int) -> Raster:
        """The pixels whose centre (x + 0.5, y + 0.5) lies in the geometry; holes are left out.

        Args:
            geometry: of a multipolygon the union of its polygons; a hole of one may be filled by another.
            height: rows of the mask.
            width: columns of the mask; what lies beyond is cut off.

        Raises:
            InputError: a negative coordinate or size.
        """
        check_type("geometry", geometry, (Polygon, MultiPolygon))
        if isinstance(geometry, Polygon):
            return cls(_filled(geometry.value, height, width))
        inside = _filled(geometry.value[0], height, width)
        for rings in geometry.value[1:]:
            inside |= _filled(rings, height, width)
        return cls(inside)


def _background(height: int, width: int) -> NDArray[np.bool_]:
    import numpy as np

    for name, number in (("height", height), ("width", width)):
        check_int(name, int(number) if isinstance(number, np.integer) else number)
    return np.zeros((height, width), np.bool_)


def _filled(rings: Sequence[Sequence[Sequence[Number]]], height: int, width: int) -> NDArray[np.bool_]:
    """:func:`fill_rings`, of coordinates that are not negative."""
    if min((number for ring in rings for point in ring for number in point), default=0) < 0:
        raise InputError("a raster must be made of coordinates of at least 0 but the geometry has negative ones")
    return fill_rings(rings, height, width)


def fill_rings(rings: Sequence[Sequence[Sequence[Number]]], height: int, width: int) -> NDArray[np.bool_]:
    """Pixels whose centre lies inside an odd number of rings, bool ``[height, width]``.

    Args:
        rings: points (x, y), the last one equal to the first.
        height: rows of the mask.
        width: columns of the mask; what lies beyond is cut off.
    """
    import numpy as np

    inside = _background(height, width)
    columns, rows = np.arange(width) + 0.5, np.arange(height) + 0.5
    for ring in rings:
        for (x0, y0), (x1, y1) in itertools.pairwise(ring):
            crossed = np.flatnonzero((rows >= y0) != (rows >= y1))
            if len(crossed):
                crossing = x0 + (rows[crossed] - y0) * ((x1 - x0) / (y1 - y0))
                inside[crossed] ^= columns >= crossing[:, None]
    return inside


def _closed(contour: object) -> list[tuple[Number, Number]]:
    """The points of a contour, the first of them also at the end."""
    check_type("coordinates", contour, list)
    assert isinstance(contour, list)
    points = []
    for point in contour:
        if not isinstance(point, dict) or set(point) != _CONTOUR_KEYS:
            raise InputTypeError(f"coordinates must hold points {{'x': x, 'y': y}} but got {point!r}")
        for number in point.values():
            check_number("coordinates", number)
        points.append((point["x"], point["y"]))
    return [*points, points[0]] if points and points[0] != points[-1] else points


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("PIL", "plot", "Raster.encode_value") from None
    return Image
