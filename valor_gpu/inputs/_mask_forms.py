"""Lists of masks in the forms of users, polygons beside dicts of run lengths, as run lengths. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs.rle_dicts import from_dicts
from valor_gpu.ops.polygons import cpu as polygons
from valor_gpu.ops.runs.op import Runs, check_sizes

RLE, POLYGONS = "run lengths", "polygons"


def runs_of(
    entries: Sequence[Any], sizes: NDArray[np.int32] | None, rule: str, name: str = "masks", size_name: str = "size"
) -> Runs:
    """The masks of a list.

    Args:
        entries: dicts of run lengths, or lists of polygons as COCO or GeoJSON nest them.
        sizes: int32 ``[N, 2]``: heights and widths for polygons; None: there are none.
        rule: of polygons, ``coco`` or ``centre``.
        name: what messages call the list.
        size_name: what they call ``sizes``.

    Raises:
        InputError: naming the first entry that is no mask.
    """
    kinds = [_kind(f"{name}[{i}]", entry) for i, entry in enumerate(entries)]
    places = {kind: [i for i, k in enumerate(kinds) if k == kind] for kind in (RLE, POLYGONS)}
    parts = []
    if encoded := places[RLE]:
        parts.append(from_dicts([entries[i] for i in encoded], name, encoded)[0])
    if sizes is not None:
        _check_given(places[RLE], parts, sizes, name, size_name)
    if drawn := places[POLYGONS]:
        if sizes is None:
            raise InputError(
                f"{size_name} must be [height, width] of the image for {name}[{drawn[0]}], a polygon, but is None"
            )
        for i in drawn:
            _check_no_pixels(f"{name}[{i}]", entries[i], sizes[i].tolist())
        rings = [_rings(f"{name}[{i}]", entry) if kinds[i] == POLYGONS else [] for i, entry in enumerate(entries)]
        parts.append(_drawn(rings, sizes, rule, name).take(drawn))
    order = np.argsort([*places[RLE], *places[POLYGONS]], kind="stable")
    return parts[0] if len(parts) == 1 else Runs.join(parts).take(order)


def _drawn(rings: Sequence[Any], sizes: NDArray[np.int32], rule: str, name: str) -> Runs:
    """The pixels of polygons."""
    with _named(name):
        return polygons.rasterise(*polygons.join_rings(rings), sizes, rule)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Messages of what is done inside begin with the name of the argument."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{name}: {error}") from None


def _check_given(
    places: Sequence[int], parts: Sequence[Runs], sizes: NDArray[np.int32], name: str, size_name: str
) -> None:
    """Raises unless dicts have the size that was given."""
    for i, found in zip(places, parts[0].sizes.tolist() if places else []):
        if found != sizes[i].tolist():
            raise InputError(f"{name}[{i}]['size'] must be {size_name}, {sizes[i].tolist()}, but is {found}")


def _kind(name: str, entry: Any) -> str:
    if isinstance(entry, dict):
        return RLE
    if isinstance(entry, (list, tuple)) or (isinstance(entry, np.ndarray) and entry.dtype.kind in "iuf"):
        return POLYGONS
    raise InputError(
        f"{name} must be a dict with 'size' and 'counts' or a list of polygons but got {type(entry).__name__}"
    )


def _check_no_pixels(name: str, entry: Any, size: list[int]) -> None:
    """Raises for a map of pixels, whose rows would be taken for rings of points at the corner of the image."""
    height, width = size
    if height < 2 or len(entry) != height or np.size(entry[0]) != width:  # few polygons have so many rings
        return
    try:
        values = np.unique(np.asarray(entry))
    except ValueError:  # rows of several lengths
        return
    if values.dtype.kind in "biuf" and len(values) <= 2 and values[-1] in (0, 1, 255) and values[0] in (0, values[-1]):
        raise InputError(
            f"{name} must be a dict with 'size' and 'counts' or a list of polygons but is a map of {height} x {width}"
            " pixels: give all masks of the image as one array [N, H, W], or as run lengths"
        )


def _rings(name: str, entry: Any) -> list[Any]:
    """The rings of a mask: ``[ring, ...]``, or ``[[ring, ...], ...]`` of a multipolygon."""
    rings: list[Any] = []
    for part in entry:
        depth = _depth(part)
        if depth == 1 or (depth == 2 and len(part[0]) == 2):
            rings.append(part)
        elif depth == 2 or (depth == 3 and len(part[0][0]) == 2):
            rings += list(part)
        else:
            raise InputError(
                f"{name} must hold rings [x0, y0, x1, y1, ...] or [[x, y], ...], or lists of such rings, but has"
                f" {part!r:.60}"
            )
    return rings


def _depth(value: Any) -> int:
    """How deep lists are nested, by their first entries, up to 4."""
    depth = 0
    while depth < 4 and isinstance(value, (list, tuple, np.ndarray)) and len(value):
        depth += 1
        value = value[0]
    return depth


def has_polygons(entries: Sequence[Any]) -> bool:
    """Whether an entry of a list of masks is no dict, so that :func:`runs_of` needs sizes."""
    return not all(isinstance(entry, dict) for entry in entries)


def sizes_of(size: Any, count: int, name: str = "size") -> NDArray[np.int32]:
    """Heights and widths int32 ``[N, 2]`` of one size for all, or one each."""
    try:
        given = np.asarray(size)
    except ValueError:  # rows of different lengths
        given = np.empty(0)
    if given.shape not in ((2,), (count, 2)) or given.dtype.kind not in "iu":
        raise InputError(f"{name} must be [height, width], or one of each of {count} masks, but got {size!r:.60}")
    with _named(name):
        checked: NDArray[np.int32] = check_sizes(given.reshape(-1, 2))
    return np.broadcast_to(checked, (count, 2))
