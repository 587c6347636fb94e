"""Polygons of frames that are written as GeoJSON."""

from __future__ import annotations

import json
from typing import Any

from valor_gpu.checks import keys_once
from valor_gpu.errors import InputError
from valor_gpu.valor.geometry import GeoJSON, MultiPolygon, Polygon


def polygon_of(
    where: str, value: GeoJSON | dict[Any, Any] | str, kind: type[Polygon] = Polygon
) -> Polygon | MultiPolygon:
    """The object that GeoJSON stands for.

    Args:
        where: the cell, for messages.
        value: an object, a dict or its text.
        kind: what a Polygon becomes.

    Raises:
        InputError: naming the cell of what is no GeoJSON of a polygon, a box or a multipolygon.

    Example:
        >>> polygon_of("row 0", '{"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [0, 2], [0, 0]]]}').xmax
        2
    """
    found: Any = value
    if isinstance(value, str):
        try:
            found = json.loads(value, object_pairs_hook=keys_once)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} must be GeoJSON but got {value[:40]!r}, which is no JSON: {error}") from None
    if isinstance(value, GeoJSON):
        found = {"type": value.type, "coordinates": value.coordinates}
    kinds: dict[Any, type[Polygon | MultiPolygon]] = {"Polygon": kind, "MultiPolygon": MultiPolygon}
    named = found.get("type") if isinstance(found, dict) else None
    if not isinstance(named, str) or named not in kinds:
        got = f"type {named!r}" if isinstance(found, dict) else repr(found)
        raise InputError(f"{where} must be a Polygon or MultiPolygon of GeoJSON but got {got}")
    try:
        return kinds[named].from_dict(found)
    except InputError as error:
        raise type(error)(f"{where}: {error}") from None
