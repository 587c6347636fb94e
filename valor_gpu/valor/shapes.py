"""Points, lines, polygons and boxes as valor_core has them: pixels, x to the right, y down."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from valor_gpu.checks import check_choice, check_number, check_type
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor.exceptions import NotSupportedError

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

Number = int | float


_SKEW = 0.01  # |cosine| of the corners of a box from which it is no rectangle: coordinates may be rounded


def _check_points(name: str, points: object, least: int) -> None:
    check_type(name, points, (list, tuple))
    assert isinstance(points, (list, tuple))
    if len(points) < least:
        raise InputTypeError(f"{name} must have at least {least} points but has {len(points)}")
    for point in points:
        if not isinstance(point, (list, tuple)) or len(point) != 2:
            raise InputTypeError(f"{name} must hold points (x, y) but got {point!r}")
        for number in point:
            check_number(name, number)


def _check_rings(name: str, rings: object) -> None:
    check_type(name, rings, (list, tuple))
    assert isinstance(rings, (list, tuple))
    if not rings:
        raise InputTypeError(f"{name} must have at least one ring but has none")
    for ring in rings:
        _check_points(name, ring, 4)
        if tuple(ring[0]) != tuple(ring[-1]):
            raise InputError(f"{name} must end each ring where it began but got {ring[0]!r} and {ring[-1]!r}")


def _numbers(value: object) -> str:
    """The coordinates inside the brackets of well-known text, with commas as in valor_core."""
    assert isinstance(value, (list, tuple))
    if isinstance(value[0], (list, tuple)):
        if isinstance(value[0][0], (list, tuple)):
            return ",".join(f"({_numbers(part)})" for part in value)
        return ", ".join(map(_numbers, value))
    return " ".join(str(number) for number in value)


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, (list, tuple)) else value


@dataclass(eq=False)
class _Geometry:
    """Coordinates with the conversions that all kinds share. Points may be tuples or lists, which compare as equal."""

    value: Any
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is type(self) and isinstance(other, _Geometry) and _listed(self.value) == _listed(other.value)
        )

    @classmethod
    def from_dict(cls, geojson: dict[str, Any]) -> Self:
        """From a GeoJSON object, a dict with ``type`` and ``coordinates``, which are kept as they are."""
        check_type("geojson", geojson, dict)
        if set(geojson) != {"type", "coordinates"}:
            raise InputError(f"geojson must have the keys type and coordinates but has {', '.join(map(str, geojson))}")
        if geojson["type"] != cls.kind:
            raise InputTypeError(f"geojson type must be {cls.kind!r} but got {geojson['type']!r}")
        return cls(geojson["coordinates"])

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


@dataclass(eq=False)
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
        return hash(tuple(self.value))


@dataclass(eq=False)
class MultiPoint(_Geometry):
    """Points."""

    value: list[tuple[Number, Number]]
    kind: ClassVar[str] = "MultiPoint"

    def _check(self) -> None:
        _check_points("MultiPoint.value", self.value, 1)

    def to_wkt(self) -> str:
        """Well-known text, every point in brackets."""
        return f"MULTIPOINT ({', '.join(f'({_numbers(point)})' for point in self.value)})"


@dataclass(eq=False)
class LineString(_Geometry):
    """A line of two or more points."""

    value: list[tuple[Number, Number]]
    kind: ClassVar[str] = "LineString"

    def _check(self) -> None:
        _check_points("LineString.value", self.value, 2)


@dataclass(eq=False)
class MultiLineString(_Geometry):
    """Lines."""

    value: list[list[tuple[Number, Number]]]
    kind: ClassVar[str] = "MultiLineString"

    def _check(self) -> None:
        check_type("MultiLineString.value", self.value, (list, tuple))
        if not self.value:
            raise InputTypeError("MultiLineString.value must have at least one line but is empty")
        for line in self.value:
            _check_points("MultiLineString.value", line, 2)


@dataclass(eq=False)
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


def _is_skewed(ring: Sequence[Sequence[Number]]) -> bool:
    """Whether a ring of five points has a corner that is not right."""
    sides = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(ring)]
    for (ax, ay), (bx, by) in itertools.pairwise([*sides, sides[0]]):
        if abs(ax * bx + ay * by) > _SKEW * math.hypot(ax, ay) * math.hypot(bx, by):
            return True
    return False


@dataclass(eq=False)
class Box(Polygon):
    """A rectangle, possibly rotated: one ring of five points, the last equal to the first.

    Raises:
        NotSupportedError: a ring that is no rectangle; its corners may be off by half a degree, as rounding makes them.

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
        if _is_skewed(self.value[0]):
            raise NotSupportedError(f"Box.value must be a rectangle, upright or rotated, but got {self.value[0]!r}")

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


@dataclass(eq=False)
class MultiPolygon(_Geometry):
    """Polygons that count as one geometry, the union of them; not in valor_core.

    Example:
        >>> square = [(0, 0), (2, 0), (2, 2), (0, 2), (0, 0)]
        >>> MultiPolygon([[square], [[(x + 4, y) for x, y in square]]]).polygons[1].xmin
        4
    """

    value: list[list[list[tuple[Number, Number]]]]
    kind: ClassVar[str] = "MultiPolygon"

    def _check(self) -> None:
        check_type("MultiPolygon.value", self.value, (list, tuple))
        if not self.value:
            raise InputTypeError("MultiPolygon.value must have at least one polygon but is empty")
        for rings in self.value:
            _check_rings("MultiPolygon.value", rings)

    @property
    def polygons(self) -> list[Polygon]:
        """Each of them."""
        return [Polygon(rings) for rings in self.value]


_KINDS: dict[str, type[_Geometry]] = {
    kind.kind: kind for kind in (Point, MultiPoint, LineString, MultiLineString, Polygon, MultiPolygon)
}


@dataclass
class GeoJSON:
    """A GeoJSON object, kind still open.

    Example:
        >>> GeoJSON("Point", [1.0, 2.0]).geometry
        Point(value=[1.0, 2.0])
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
