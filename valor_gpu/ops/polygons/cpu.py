"""Polygons to run lengths on the CPU over numpy arrays. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.ops.runs.op import Runs, check_sizes

RULES = ("coco", "centre")
"""PolygonRule in csrc/core/polygons.h, in order."""

MAX_COORDINATE = 2e8
"""Farthest from 0 that a coordinate may be, in pixels."""

_FEW_VERTICES, _MANY_CROSSINGS = 1, 3
MOST_CROSSINGS = 1 << 24
"""Most crossings of edges and columns in a mask, each of which leaves a run; kMostCrossings of csrc/core/polygons.h."""
_MASKS_PER_HELPER = 512  # waking a thread for fewer takes longer than it saves


class Rings(NamedTuple):
    """Polygons of several masks as :func:`rasterise` takes them.

    Attributes:
        vertices: float64 ``[V, 2]``, x and y in pixels.
        rings: int64 ``[R + 1]``: the vertices of ring r are ``vertices[rings[r]:rings[r + 1]]``.
        masks: int64 ``[N + 1]``: the rings of mask i are those from ``masks[i]`` to before ``masks[i + 1]``.
    """

    vertices: NDArray[np.float64]
    rings: NDArray[np.int64]
    masks: NDArray[np.int64]


def join_rings(polygons: Sequence[Sequence[Any]]) -> Rings:
    """Joins the polygons of masks, as COCO's ``segmentation`` has them, to flat arrays.

    Args:
        polygons: of each mask its rings, each ``[x0, y0, x1, y1, ...]`` or ``[n, 2]``.

    Raises:
        InputError: naming the mask and ring that is no list of an even number of at least 6 numbers.

    Example:
        >>> join_rings([[[0, 0, 4, 0, 4, 4]]]).vertices.tolist()
        [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0]]
    """
    parts = [_ring(ring, m, r) for m, rings in enumerate(polygons) for r, ring in enumerate(rings)]
    vertices = np.concatenate(parts) if parts else np.zeros((0, 2))
    return Rings(vertices, ends_of([len(part) for part in parts]), ends_of([len(rings) for rings in polygons]))


def ends_of(lengths: Any) -> NDArray[np.int64]:
    """Returns where segments of these lengths end, after a 0."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(np.asarray(lengths, np.int64))))


def _ring(ring: Any, mask: int, position: int) -> NDArray[np.float64]:
    place = f"ring {position} of mask {mask}"
    try:
        numbers = np.asarray(ring, np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError(f"{place} must be a list of numbers: {error}") from None
    if numbers.ndim not in (1, 2) or (numbers.ndim == 2 and numbers.shape[1] != 2):
        raise InputError(f"{place} must be [x0, y0, x1, y1, ...] or [n, 2] but has shape {list(numbers.shape)}")
    if numbers.size % 2 or numbers.size < 6:
        raise InputError(f"{place} must have an even number of at least 6 coordinates but has {numbers.size}")
    return numbers.reshape(-1, 2)


def rasterise(
    vertices: Any, rings: Any, masks: Any, sizes: Any, rule: str = "coco", *, threads: int | None = None
) -> Runs:
    """Returns the pixels inside polygons as run lengths, by at most ``threads`` threads (default: all).

    Arguments and rules are those of :func:`valor_gpu.ops.polygons.op.rasterise`; ``sizes`` are int32.

    Raises:
        InputError: on other shapes, on offsets that do not ascend from 0 to the number of rows, or naming the first
            ring with fewer than 3 vertices or a vertex that is not finite or too far away, the first mask whose
            size is negative or too large, or the first ring with which the edges of its mask cross columns more than
            2**24 times.
        NativeError: the C++ library is not there; ask :func:`valor_gpu.native.usable` first.

    Example:
        >>> square = join_rings([[[1, 1, 3, 1, 3, 3, 1, 3]]])
        >>> rasterise(*square, [[4, 4]]).counts.tolist()
        [5, 2, 2, 2, 5]
    """
    polygons = check_polygons(vertices, rings, masks, sizes, rule)
    counts, offsets = run(polygons, RULES.index(rule), threads or native.threads())
    return Runs(counts, offsets, polygons.sizes)


class Polygons(NamedTuple):
    """Contiguous arrays as C++ reads them; the fields are the arguments of :func:`rasterise`."""

    vertices: NDArray[np.float64]
    rings: NDArray[np.int64]
    masks: NDArray[np.int64]
    sizes: NDArray[np.int32]


def run(polygons: Polygons, rule: int, threads: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Returns counts and offsets of runs; raises :class:`InputError` for the first bad ring."""
    runs, out = np.empty(len(polygons.sizes), np.int64), np.zeros(4, np.int64)
    native.function("valor_cpu", "valor_rasterise_cpu", "ppppqqqpp")(
        *_words(polygons, rule, threads), runs.ctypes.data, out.ctypes.data
    )
    _raise_problem(polygons, out)
    take = native.function("valor_cpu", "valor_take_runs_cpu", "qp")
    handle = int(out[3])
    try:
        offsets = ends_of(runs)
        counts = np.empty(offsets[-1], np.int32)
    except MemoryError:
        take(handle, 0)
        raise
    take(handle, counts.ctypes.data)
    return counts, offsets


def rooms_of(polygons: Polygons, rule: int, threads: int) -> NDArray[np.int64]:
    """Returns int64 ``[N]``, how often edges cross columns: a mask has at most one run more.

    Raises:
        InputError: for the first bad ring.
    """
    rooms, out = np.empty(len(polygons.sizes), np.int64), np.zeros(3, np.int64)
    native.function("valor_cpu", "valor_polygon_rooms_cpu", "ppppqqqpp")(
        *_words(polygons, rule, threads), rooms.ctypes.data, out.ctypes.data
    )
    _raise_problem(polygons, out)
    return rooms


def _words(polygons: Polygons, rule: int, threads: int) -> tuple[int, ...]:
    count = len(polygons.sizes)
    return *(part.ctypes.data for part in polygons), count, rule, min(threads, 1 + count // _MASKS_PER_HELPER)


def _raise_problem(polygons: Polygons, out: NDArray[np.int64]) -> None:
    """Raises with the message of the ring that C++ found, if it found one."""
    problem, mask, ring = (int(value) for value in out[:3])
    if not problem:
        return
    place = f"ring {ring - int(polygons.masks[mask])} of mask {mask}"
    rows = polygons.vertices[polygons.rings[ring] : polygons.rings[ring + 1]]
    if problem == _FEW_VERTICES:
        raise InputError(f"{place} must have at least 3 vertices but has {len(rows)}")
    if problem == _MANY_CROSSINGS:
        width = int(polygons.sizes[mask, 1])
        raise InputError(
            f"{place} must leave the mask with at most {MOST_CROSSINGS} crossings of edges and columns but it has more,"
            f" in an image of {width} columns"
        )
    bad = int((~(np.abs(rows) <= MAX_COORDINATE)).any(1).argmax())
    x, y = (float(value) for value in rows[bad])
    raise InputError(f"{place} must have coordinates from -2e8 to 2e8 but vertex {bad} is ({x}, {y})")


def check_polygons(vertices: Any, rings: Any, masks: Any, sizes: Any, rule: str) -> Polygons:
    """Returns what :func:`rasterise` takes as contiguous arrays; raises where one is wrong, but for vertices."""
    check_choice("rule", rule, RULES)
    points = np.ascontiguousarray(vertices, np.float64)
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError(f"vertices must have shape [V, 2] but got {list(points.shape)}")
    ring_rows = _offsets("rings", rings, len(points), "vertices")
    mask_rows = _offsets("masks", masks, len(ring_rows) - 1, "rings")
    checked = check_sizes(sizes)
    if len(checked) != len(mask_rows) - 1:
        raise InputError(f"sizes must have a row for each of {len(mask_rows) - 1} masks but has {len(checked)}")
    return Polygons(points, ring_rows, mask_rows, checked)


def _offsets(name: str, offsets: Any, rows: int, of: str) -> NDArray[np.int64]:
    given = np.asarray(offsets)
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be integers [N + 1], one offset more than segments, but got {given.dtype} {list(given.shape)}"
        )
    ends = np.ascontiguousarray(given, np.int64)
    if ends[0] != 0 or ends[-1] != rows or (np.diff(ends) < 0).any():
        raise InputError(f"{name} must ascend from 0 to {rows}, the number of {of}")
    return ends
