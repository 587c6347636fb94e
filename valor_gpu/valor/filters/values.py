"""Values that a condition compares: numbers, texts, flags, moments, times, durations and geometries of GeoJSON.

Metadata may hold Python objects, or dicts ``{"type": "date", "value": "2024-05-01"}`` as Valor's client writes them. A
moment without time zone is one of UTC, a date is its midnight in UTC, a duration in a dict is a number of seconds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.valor.filters.names import choose
from valor_gpu.valor.geometry import (
    Box,
    GeoJSON,
    LineString,
    MultiLineString,
    MultiPoint,
    MultiPolygon,
    Point,
    Polygon,
)

Geometry = Point | MultiPoint | LineString | MultiLineString | Polygon | MultiPolygon
_GEOMETRIES = (Point, MultiPoint, LineString, MultiLineString, Polygon, MultiPolygon)
_KINDS = {kind.kind.lower(): kind for kind in _GEOMETRIES} | {"box": Box}

COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "contains": lambda value, wanted: wanted in value,
    "isin": lambda value, wanted: value in wanted,
}


def _moment(value: Any) -> datetime:
    return datetime.fromisoformat(value)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return value


def _of(kind: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError
        return value

    return read


_READERS: dict[str, Callable[[Any], Any]] = {
    "bool": _of(bool),
    "boolean": _of(bool),
    "integer": _number,
    "float": _number,
    "string": _of(str),
    "tasktype": _of(str),
    "datetime": _moment,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "duration": lambda value: timedelta(seconds=_number(value)),
    "geojson": lambda value: GeoJSON(**value).geometry,
    **_KINDS,
}


def read_value(place: str, value: Any) -> Any:
    """A value as a Python object that compares with others of its type.

    Args:
        place: the field or condition, for messages.
        value: an object; a dict of type and value, as Valor's client writes them; a GeoJSON dict.

    Raises:
        InputError: a dict of a type that there is not, or whose value is none of the type.
    """
    if isinstance(value, Mapping):
        return _read_mapping(place, value)
    if isinstance(value, GeoJSON):
        return value.geometry
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, _ATOMS) else _comparable(place, value)


_ATOMS = (str, bool, int, float, type(None))


def _read_mapping(place: str, value: Mapping[str, Any]) -> Any:
    if set(value) == {"type", "coordinates"}:
        name, content = "geojson", dict(value)
    elif set(value) == {"type", "value"}:
        name, content = str(value["type"]).lower(), value["value"]
    else:
        return value
    reader = _READERS[choose(f"type of {place}", name, _READERS)]
    if isinstance(content, reader if isinstance(reader, type) else ()):
        return content
    try:
        return _comparable(place, reader(content))
    except (TypeError, ValueError, KeyError) as error:
        why = f": {error}" if str(error) else ""
        raise InputError(f"{place} must hold a {name} but holds {content!r}{why}") from None


def _comparable(place: str, value: Any) -> Any:
    """Moments with a time zone; everything else as it is."""
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    if isinstance(value, time) and value.tzinfo is not None:
        raise InputError(f"{place} must hold a time of day without time zone but holds {value!r}")
    return value


def is_geometry(value: object) -> bool:
    """Whether a value is a point, a line or a polygon, or several."""
    return isinstance(value, _GEOMETRIES)


def holds(place: str, op: str, value: Any, wanted: Any) -> bool:
    """Whether a value compares with the wanted one, both from :func:`read_value`.

    Args:
        place: the field, for messages.
        op: one of ``COMPARE``.
        value: what a datum or annotation has; a missing one compares with nothing.
        wanted: what it is compared with; a text is read as the type of a moment or time on the other side.

    Raises:
        InputError: values of types that do not compare.
    """
    if value is None:
        return False
    if isinstance(value, _ATOMS) and isinstance(wanted, (str, bool, int, float, frozenset)):
        pass
    elif op == "isin":
        return any(holds(place, "eq", value, one) for one in wanted)
    elif op != "contains":
        value, wanted = _alike(place, op, value, wanted)
    try:
        return bool(COMPARE[op](value, wanted))
    except TypeError:
        raise InputError(f"{place} must compare with {wanted!r} by {op} but holds {value!r}") from None


_TIMES = (datetime, time, timedelta)


def _alike(place: str, op: str, value: Any, wanted: Any) -> tuple[Any, Any]:
    """Both as moments, times or durations where one of them is."""
    for kind, name in zip(_TIMES, ("datetime", "time", "duration")):
        if not isinstance(value, kind) and not isinstance(wanted, kind):
            continue
        pair = [
            read_value(place, {"type": name, "value": one}) if isinstance(one, str) and kind is not timedelta else one
            for one in (value, wanted)
        ]
        if not all(isinstance(one, kind) for one in pair):
            raise InputError(f"{place} must compare with {wanted!r} by {op} but holds {value!r}")
        return pair[0], pair[1]
    if is_geometry(value) or is_geometry(wanted):
        raise InputError(f"{place} must be a geometry for intersects, inside or outside, which {op!r} is not")
    return value, wanted
