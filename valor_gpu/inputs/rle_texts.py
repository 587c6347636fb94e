"""A few masks in one native call: strings, lists of runs, polygons and pixels to numbers and to strings. No torch.

Every function gives None where masks are not plain, not good or not few: :mod:`valor_gpu.inputs.rle_dicts` and
:mod:`valor_gpu.ops._runs_cpu` take them then, on threads, and say what is wrong with which. Arrays are those of the
standard library, since to make one of numpy's takes longer than to read a mask.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.ops.native_types import BOX_FORMATS, NUMPY_FLOAT_TYPES

Rle = dict[str, Any]

_MOST = 1 << 16
"""Most characters, runs or coordinates: about 0.1 ms of work, as long as waking a thread takes."""
_MOST_PAIRS = 1 << 10
_SIZE, _COUNTS = itemgetter("size"), itemgetter("counts")
_LISTS = (list, tuple)
_FLOAT64, _XYWH = NUMPY_FLOAT_TYPES[np.dtype(np.float64)], BOX_FORMATS.index("xywh")
_WRONG = (KeyError, IndexError, TypeError, ValueError, OverflowError)


class Texts(NamedTuple):
    """Masks as C++ reads them.

    Attributes:
        values: the strings of all masks.
        table: address of int64: heights and widths ``[N, 2]``, then lengths ``[N]``.
        masks: N.
        kept: what the address points to.
    """

    values: Any
    table: int
    masks: int
    kept: array[int]


def areas(objects: Any) -> Any:
    """Number of set pixels, as :func:`valor_gpu.coco.mask.area` gives it; or None."""
    texts = _texts_of(objects)
    if texts is None:
        return None
    found = array("I", bytes(4 * texts.masks))
    if not _measured(texts, found.buffer_info()[0], None):
        return None
    whole: NDArray[np.uint32] = np.frombuffer(found, np.uint32)
    return whole[0] if isinstance(objects, dict) else whole


def boxes(objects: Any) -> Any:
    """Boxes as :func:`valor_gpu.coco.mask.toBbox` gives them; or None."""
    texts = _texts_of(objects)
    if texts is None:
        return None
    found = array("d", bytes(32 * texts.masks))
    if not _measured(texts, None, found.buffer_info()[0]):
        return None
    shape = (4,) if isinstance(objects, dict) else (texts.masks, 4)
    return np.ndarray(shape, np.float64, buffer=found)


def iou(dt: Any, gt: Any, crowd: Any) -> Any:
    """IoU of masks as :func:`valor_gpu.coco.mask.iou` gives it; or None."""
    found, truths = _texts_of(dt), _texts_of(gt)
    if found is None or truths is None or found.masks * truths.masks > _MOST_PAIRS:
        return None
    flags = _flags(crowd, truths.masks)
    if flags is None or isinstance(dt, dict) or isinstance(gt, dict):
        return None
    out = array("d", bytes(8 * found.masks * truths.masks + 8))
    at, good = out.buffer_info()[0], out.buffer_info()[0] + 8 * (len(out) - 1)
    native.function("valor_cpu", "valor_text_iou_cpu", "ppqppqppp")(*found[:3], *truths[:3], flags, at, good)
    if not out[-1]:
        return None
    return np.ndarray((found.masks, truths.masks), np.float64, buffer=out, order="F")


def box_iou(dt: Any, gt: Any, crowd: Any) -> Any:
    """IoU of boxes as :func:`valor_gpu.coco.mask.iou` gives it; or None."""
    for boxes in (dt, gt):
        if type(boxes) is not np.ndarray or boxes.dtype != np.float64 or boxes.ndim != 2 or boxes.shape[1] != 4:
            return None
    rows, flags = (len(dt), len(gt)), _flags(crowd, len(gt))
    pairs = rows[0] * rows[1]
    if flags is None or not 0 < pairs <= _MOST_PAIRS:
        return None
    out, offsets = array("d", bytes(8 * pairs)), array("q", (0, rows[0], 0, rows[1], 0, pairs))
    native.function("valor_cpu", "valor_box_iou_cpu", "ppiiippqpq")(
        dt.tobytes(), gt.tobytes(), _FLOAT64, _FLOAT64, _XYWH, flags, offsets.buffer_info()[0], 1,
        out.buffer_info()[0], 1,
    )  # fmt: skip
    return np.asfortranarray(np.ndarray(rows, np.float64, buffer=out))


def merge(objects: Any, intersect: bool) -> Rle | None:
    """The union or intersection of masks of one size; or None."""
    texts = None if isinstance(objects, dict) else _texts_of(objects)
    if texts is None:
        return None
    size = texts.kept[:2]
    if texts.kept[: 2 * texts.masks] != size * texts.masks:
        return None
    merged = native.function("valor_cpu", "valor_text_merge_cpu", "ppqqpp")
    made = _dicts(size, 1, lambda offsets, runs: merged(*texts[:3], intersect, offsets, runs))
    return made[0] if made else None


def from_counts(objects: Any) -> list[Rle] | None:
    """Dicts whose counts are lists of integers, with strings in their place; or None."""
    texts = _texts_of(objects, list)
    if texts is None:
        return None
    listed, values = native.function("valor_cpu", "valor_listed_runs_cpu", "ppqpp"), texts.values
    at = values.buffer_info()[0]
    return _dicts(texts.kept, texts.masks, lambda *out: listed(at, texts.table, texts.masks, *out))


def from_rings(rings: Any, height: Any, width: Any) -> list[Rle] | None:
    """Masks of polygons ``[x0, y0, x1, y1, ...]``, each a mask; or None."""
    if type(height) is not int or type(width) is not int or not set(map(type, rings)) <= {list, tuple}:
        return None
    lengths = list(map(len, rings))
    if not 0 < sum(lengths) <= _MOST or min(lengths) < 6 or any(length % 2 for length in lengths):
        return None
    try:
        xy = array("d", list(chain.from_iterable(rings)))
        table = array("q", [height, width] * len(rings) + [length // 2 for length in lengths])
    except _WRONG:
        return None
    drawn = native.function("valor_cpu", "valor_drawn_rings_cpu", "ppqpp")
    return _dicts(table, len(rings), lambda *out: drawn(xy.buffer_info()[0], table.buffer_info()[0], len(rings), *out))


def corners(boxes: Any) -> list[tuple[float, ...]] | None:
    """Boxes ``[N, 4]`` as polygons; or None for what is no array or list of four numbers each."""
    try:
        if isinstance(boxes, np.ndarray):
            if boxes.ndim != 2 or boxes.dtype.kind not in "fiu":
                return None
            boxes = boxes.tolist()
        return [(x, y, x, y + h, x + w, y + h, x + w, y) for x, y, w, h in boxes]
    except _WRONG:
        return None


def from_masks(masks: NDArray[Any]) -> list[Rle] | None:
    """Dense masks ``[N, H, W]`` of bytes, with any strides; or None."""
    count, height, width = masks.shape
    if not 0 < masks.size <= 1 << 24 or count > _MOST:
        return None
    read = native.function("valor_cpu", "valor_masks_to_runs_cpu", "pqqqqqqppq")
    given = masks.__array_interface__["data"][0], *masks.shape, *masks.strides
    table = array("q", [height, width]) * count
    return _dicts(table, count, lambda *out: read(*given, *out, native.threads()))


def _texts_of(objects: Any, kind: type | None = None) -> Texts | None:
    """Dicts with strings, or of ``kind`` list with lists of runs, as C++ reads them; or None."""
    given = [objects] if type(objects) is dict else objects
    if type(given) not in _LISTS or set(map(type, given)) != {dict}:
        return None
    try:
        counts, sizes = list(map(_COUNTS, given)), list(map(_SIZE, given))
        lengths = list(map(len, counts))
        if sum(lengths) > _MOST or len(given) > _MOST or set(map(len, sizes)) != {2}:
            return None
        kinds = set(map(type, counts))
        if kinds == {bytes} and kind is None:
            values: Any = b"".join(counts)
        elif kinds == {str} and kind is None:
            values = "".join(counts).encode("ascii")
        elif kinds == {kind} and not any(type(listed[0]) is bool for listed in counts if listed):
            values = array("q", list(chain.from_iterable(counts)))
        else:
            return None
        table = array("q", chain(chain.from_iterable(sizes), lengths))
    except _WRONG:
        return None
    return Texts(values, table.buffer_info()[0], len(given), table)


def _flags(crowd: Any, count: int) -> bytes | None:
    """``count`` flags as a byte each; or None."""
    given = crowd.tolist() if isinstance(crowd, np.ndarray) else crowd
    if type(given) not in _LISTS or len(given) != count:
        return None
    try:
        return bytes(given)
    except _WRONG:
        return None


def _measured(texts: Texts, areas: int | None, boxes: int | None) -> bool:
    good = array("q", (0,))
    measure = native.function("valor_cpu", "valor_text_measures_cpu", "ppqppp")
    measure(*texts[:3], areas, boxes, good.buffer_info()[0])
    return bool(good[0])


def _dicts(table: array[int], count: int, make: Callable[[int, int], object]) -> list[Rle] | None:
    """The strings of runs that ``make`` lists, given the addresses of offsets and of a handle; None where it has none.

    ``table`` begins with the heights and widths of ``count`` masks.
    """
    words = array("q", bytes(8 * (2 * count + 2)))  # offsets, the handle, ends
    offsets, handle = words.buffer_info()[0], words.buffer_info()[0] + 8 * (count + 1)
    make(offsets, handle)
    if not words[count + 1]:
        return None
    listed = native.function("valor_cpu", "valor_list_text_cpu", "qpqpp")
    listed(words[count + 1], offsets, count, handle + 8, handle)
    take = native.function("valor_cpu", "valor_take_text_cpu", "qp")
    try:
        ends = words[count + 2 :].tolist()
        text = array("B", bytes(ends[-1]))
    except MemoryError:
        take(words[count + 1], None)
        raise
    take(words[count + 1], text.buffer_info()[0])
    whole, sizes = text.tobytes(), table.tolist()
    return [
        {"size": sizes[2 * m : 2 * m + 2], "counts": whole[ends[m - 1] if m else 0 : ends[m]]} for m in range(count)
    ]
