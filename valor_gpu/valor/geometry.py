"""Points, lines, polygons, boxes and masks as valor_core has them: pixels, x to the right, y down."""

from __future__ import annotations

import base64
import io
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from typing import Self

    import numpy as np
    from numpy.typing import NDArray

Number = int | float


def _check_points(name: str, points: object, least: int) -> None:
    check_type(name, points, (list, tuple))
    assert isinstance(points, (list, tuple))
    if len(points) < least:
        raise InputError(f"{name} must have at least {least} points but has {len(points)}")
    for point in points:
        if not isinstance(point, (list, tuple)) or len(point) != 2:
            raise InputError(f"{name} must hold points (x, y) but got {point!r}")
        for number in point:
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise InputError(f"{name} must hold numbers but got {number!r}")


def _check_rings(name: str, rings: object) -> None:
    check_type(name, rings, (list, tuple))
    assert isinstance(rings, (list, tuple))
    if not rings:
        raise InputError(f"{name} must have at least one ring but has none")
    for ring in rings:
        _check_points(name, ring, 4)
        if tuple(ring[0]) != tuple(ring[-1]):
            raise InputError(f"{name} must end each ring where it began but got {ring[0]!r} and {ring[-1]!r}")


def _numbers(value: object) -> str:
    """The coordinates inside the brackets of well-known text."""
    assert isinstance(value, (list, tuple))
    if isinstance(value[0], (list, tuple)):
        inner = isinstance(value[0][0], (list, tuple))
        return ", ".join(f"({_numbers(part)})" if inner else _numbers(part) for part in value)
    return " ".join(str(number) for number in value)


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, (list, tuple)) else value


def _tupled(value: Any) -> Any:
    """Nested lists of GeoJSON with each point as a tuple."""
    return [_tupled(v) for v in value] if value and isinstance(value[0], (list, tuple)) else tuple(value)


@dataclass
class _Geometry:
    """Coordinates with the conversions that all kinds share."""

    value: Any
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        raise NotImplementedError

    @classmethod
    def from_dict(cls, geojson: dict[str, Any]) -> Self:
        """From a GeoJSON object, a dict with ``type`` and ``coordinates``."""
        check_choice("geojson type", geojson.get("type"), (cls.kind,))
        return cls(_tupled(geojson["coordinates"]))

    def to_dict(self) -> dict[str, Any]:
        """The GeoJSON object."""
        return {"type": self.kind, "coordinates": _listed(self.value)}

    @classmethod
    def from_json(cls, geojson: str) -> Self:
        """From the text of a GeoJSON object."""
        return cls.from_dict(json.loads(geojson))

    def to_json(self) -> str:
        """The text of the GeoJSON object."""
        return json.dumps(self.to_dict())

    def to_wkt(self) -> str:
        """Well-known text, as databases take it."""
        return f"{self.kind.upper()} ({_numbers(self.value)})"


@dataclass
class Point(_Geometry):
    """A point (x, y).

    Example:
        >>> Point((1, 2)).to_wkt()
        'POINT (1 2)'
    """

    value: tuple[Number, Number]
    kind: ClassVar[str] = "Point"

    def _check(self) -> None:
        _check_points("Point.value", [self.value], 1)

    @property
    def x(self) -> Number:
        """Horizontal coordinate."""
        return self.value[0]

    @property
    def y(self) -> Number:
        """Vertical coordinate."""
        return self.value[1]

    def resize(self, og_img_h: int = 10, og_img_w: int = 10, new_img_h: int = 100, new_img_w: int = 100) -> Point:
        """The same place in an image of another size."""
        return Point((self.x * new_img_w / og_img_w, self.y * new_img_h / og_img_h))

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass
class MultiPoint(_Geometry):
    """Points."""

    value: list[tuple[Number, Number]]
    kind: ClassVar[str] = "MultiPoint"

    def _check(self) -> None:
        _check_points("MultiPoint.value", self.value, 1)

    def to_wkt(self) -> str:
        """Well-known text, every point in brackets."""
        return f"MULTIPOINT ({', '.join(f'({_numbers(point)})' for point in self.value)})"


@dataclass
class LineString(_Geometry):
    """A line of two or more points."""

    value: list[tuple[Number, Number]]
    kind: ClassVar[str] = "LineString"

    def _check(self) -> None:
        _check_points("LineString.value", self.value, 2)


@dataclass
class MultiLineString(_Geometry):
    """Lines."""

    value: list[list[tuple[Number, Number]]]
    kind: ClassVar[str] = "MultiLineString"

    def _check(self) -> None:
        check_type("MultiLineString.value", self.value, (list, tuple))
        for line in self.value:
            _check_points("MultiLineString.value", line, 2)


@dataclass
class Polygon(_Geometry):
    """A polygon: the first ring is the boundary, the others are holes; every ring ends where it began.

    Example:
        >>> triangle = Polygon([[(0, 0), (4, 0), (0, 3), (0, 0)]])
        >>> triangle.xmax, triangle.holes
        (4, [])
    """

    value: list[list[tuple[Number, Number]]]
    kind: ClassVar[str] = "Polygon"

    def _check(self) -> None:
        _check_rings(f"{type(self).__name__}.value", self.value)

    @property
    def boundary(self) -> list[tuple[Number, Number]]:
        """The outer ring."""
        return self.value[0]

    @property
    def holes(self) -> list[list[tuple[Number, Number]]]:
        """The inner rings."""
        return self.value[1:]

    @property
    def xmin(self) -> float:
        """Left end of the boundary."""
        return min(x for x, _ in self.boundary)

    @property
    def xmax(self) -> float:
        """Right end of the boundary."""
        return max(x for x, _ in self.boundary)

    @property
    def ymin(self) -> float:
        """Upper end of the boundary."""
        return min(y for _, y in self.boundary)

    @property
    def ymax(self) -> float:
        """Lower end of the boundary."""
        return max(y for _, y in self.boundary)

    def to_array(self) -> NDArray[Any]:
        """The boundary, ``[points, 2]``."""
        import numpy as np

        return np.array(self.boundary)

    def to_coordinates(self) -> list[list[dict[str, Number]]]:
        """Every ring as a list of ``{"x": x, "y": y}``."""
        return [[{"x": x, "y": y} for x, y in ring] for ring in self.value]


@dataclass
class Box(Polygon):
    """A rectangle, possibly rotated: one ring of five points, the last equal to the first.

    Example:
        >>> Box.from_extrema(xmin=1, xmax=3, ymin=2, ymax=5).value
        [[(1, 2), (3, 2), (3, 5), (1, 5), (1, 2)]]
    """

    def _check(self) -> None:
        super()._check()
        if len(self.value) != 1 or len(self.value[0]) != 5:
            raise InputError(
                f"Box.value must be one ring of 5 points but got {[len(ring) for ring in self.value]} points"
            )

    @classmethod
    def from_extrema(cls, xmin: float, xmax: float, ymin: float, ymax: float) -> Box:
        """The upright box between these coordinates.

        Raises:
            InputError: a minimum is not below its maximum.
        """
        for axis, least, most in (("x", xmin, xmax), ("y", ymin, ymax)):
            if not least < most:
                raise InputError(f"{axis}min must be below {axis}max but got {least} and {most}")
        return cls([[(xmin, ymin), (xmax, ymin), (xmax, ymax), (xmin, ymax), (xmin, ymin)]])


_KINDS: dict[str, type[_Geometry]] = {
    kind.kind: kind for kind in (Point, MultiPoint, LineString, MultiLineString, Polygon)
}


@dataclass
class GeoJSON:
    """A GeoJSON object, kind still open.

    Example:
        >>> GeoJSON("Point", [1.0, 2.0]).geometry
        Point(value=(1.0, 2.0))
    """

    type: str
    coordinates: Any

    def __post_init__(self) -> None:
        check_choice("GeoJSON.type", self.type, list(_KINDS))

    @property
    def geometry(self) -> Any:
        """The object of its kind."""
        return _KINDS[self.type].from_dict({"type": self.type, "coordinates": self.coordinates})

    def to_wkt(self) -> str:
        """Well-known text."""
        text: str = self.geometry.to_wkt()
        return text


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
        """The mask as a PNG in base64. Needs Pillow."""
        file = io.BytesIO()
        _pillow().fromarray(self.mask).save(file, format="PNG")
        return base64.b64encode(file.getvalue()).decode()

    @classmethod
    def decode_value(cls, mask: Any) -> Raster:
        """The mask that :meth:`encode_value` wrote. Needs Pillow."""
        import numpy as np

        with _pillow().open(io.BytesIO(base64.b64decode(mask))) as image:
            return cls(np.array(image).astype(bool))

    def to_array(self) -> NDArray[np.bool_]:
        """The mask."""
        return self.mask

    @classmethod
    def from_coordinates(cls, coordinates: list[list[dict[str, Any]]], height: int, width: int) -> Raster:
        """The mask of rings whose points are ``{"x": x, "y": y}``: the first is filled, the others are cut out."""
        return cls.from_geometry(Polygon([list(_closed(ring)) for ring in coordinates]), height, width)

    @classmethod
    def from_geometry(cls, geometry: Box | Polygon, height: int, width: int) -> Raster:
        """The pixels whose centre (x + 0.5, y + 0.5) lies in the geometry; holes are left out."""
        import numpy as np

        inside = np.zeros((height, width), np.bool_)
        columns, rows = np.arange(width) + 0.5, np.arange(height) + 0.5
        for ring in geometry.value:
            for (x0, y0), (x1, y1) in itertools.pairwise(ring):
                crossed = np.flatnonzero((rows >= y0) != (rows >= y1))
                if len(crossed):
                    crossing = x0 + (rows[crossed] - y0) * ((x1 - x0) / (y1 - y0))
                    inside[crossed] ^= columns >= crossing[:, None]
        return cls(inside)


def _closed(ring: Sequence[dict[str, Any]]) -> Iterator[tuple[Number, Number]]:
    points = [(point["x"], point["y"]) for point in ring]
    yield from points
    if points and points[0] != points[-1]:
        yield points[0]


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("PIL", "plot", "Raster.encode_value") from None
    return Image
