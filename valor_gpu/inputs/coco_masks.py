"""Masks of COCO annotations as run lengths: polygons, compressed and uncompressed counts, from text. No torch.

The texts of chosen rows are parsed, decoded and rasterised natively (``csrc/cpu/coco_masks.cpp``), on several threads.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import BOXES, shown
from valor_gpu.inputs._coco_values import Rows
from valor_gpu.inputs.coco import Annotations
from valor_gpu.ops.polygons.cpu import MOST_CROSSINGS
from valor_gpu.ops.runs.op import Runs

_FIELDS = ("data", "size", "places", "sizes", "boxes", "count", "lengths", "mask_sizes", "areas", "bounds")
MaskWords = type("MaskWords", (ctypes.Structure,), {"_fields_": [(name, ctypes.c_int64) for name in _FIELDS]})
"""MaskTexts of csrc/cpu/coco_masks.cpp."""

_NO_POLYGON, _NO_IMAGE_SIZE, _WRONG_STRING = 2, 5, 9
_NEEDS = (
    "",
    "a list of polygons or an object with size and counts",
    "a list of polygons, each a list of at least 6 numbers",
    "polygons of pairs x, y",
    "polygons of finite coordinates up to 2e8",
    "",
    "an object with size [height, width], integers from 0 on with a product below 2**31",
    "an object whose counts are text or a list of integers",
    "an object whose counts are from 0 on and add up to height x width",
    "an object whose counts are run lengths as text",
    f"polygons whose edges cross columns at most {MOST_CROSSINGS} times",
)
"""What a MaskProblem of csrc/cpu/coco_masks.cpp asks for."""
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


class Measures(NamedTuple):
    """Of each mask: ``areas`` int64 ``[n]`` pixels, ``boxes`` float64 ``[n, 4]`` x, y, width, height around it."""

    areas: NDArray[np.int64]
    boxes: NDArray[np.float64]


class Room:
    """Memory for run lengths that is used again: what it gave before must not be looked at any more."""

    def __init__(self) -> None:
        self._kept = np.zeros(0, np.int32)

    def take(self, size: int) -> NDArray[np.int32]:
        """int32 ``[size]``, undefined."""
        if size > len(self._kept):
            self._kept = np.empty(size + size // 4, np.int32)
        return self._kept[:size]


def read_masks(annotations: Annotations, rows: Rows, room: Room | None = None) -> Runs:
    """Masks of ``rows``, int64 ``[n]``, in their order; their runs lie in ``room`` if there is one.

    A record without ``segmentation`` in a set made by ``loadRes`` has its box for a mask.

    Raises:
        InputError: a segmentation that is no mask; names the annotation. Others of the same set do not matter.

    Example:
        >>> from valor_gpu.inputs.coco import columns_from_dataset
        >>> mask = {"id": 1, "image_id": 1, "segmentation": {"size": [2, 3], "counts": [1, 2, 3]}}
        >>> data = columns_from_dataset({"images": [{"id": 1}], "annotations": [mask]})
        >>> read_masks(data.annotations, np.array([0])).counts.tolist()
        [1, 2, 3]
    """
    lengths, sizes, handle = _read(annotations, rows, None)
    offsets = np.zeros(len(rows) + 1, np.int64)
    take = native.function("valor_cpu", "valor_coco_runs_cpu", "qpq")
    try:
        np.cumsum(lengths, out=offsets[1:])
        counts = (room or Room()).take(int(offsets[-1]))
    except BaseException:
        take(handle, None, 1)
        raise
    take(handle, counts.ctypes.data, native.threads())
    return Runs(counts, offsets, sizes)


def measure_masks(annotations: Annotations, rows: Rows) -> Measures:
    """Areas and boxes of the masks of ``rows``, which are not kept; see :func:`read_masks`."""
    found = Measures(np.zeros(len(rows), np.int64), np.zeros((len(rows), 4)))
    _read(annotations, rows, found)
    return found


def _read(annotations: Annotations, rows: Rows, measures: Measures | None) -> tuple[Any, NDArray[np.int32], int]:
    """How many runs each mask has, the sizes of masks, and a handle to the runs, of which 0 is none."""
    count, values = len(rows), annotations.values
    lengths = np.zeros(count, np.int64)
    sizes = np.full((count, 2), -1, np.int32)
    if annotations.images is not None:
        sizes = annotations.images.of(annotations.image_id[rows])
    boxes = np.ascontiguousarray(annotations.bbox[rows]) if annotations.corners else None
    out, mask_sizes = np.zeros(3, np.int64), np.zeros((count, 2), np.int32)
    if values is None:
        text, places = np.zeros(0, np.uint8), np.zeros((count, 2), np.int64)
        _call(text, places, sizes, boxes, lengths, mask_sizes, measures, out)
    else:
        try:
            with values.texts("segmentation", rows) as (text, places):
                _call(text, places, sizes, boxes, lengths, mask_sizes, measures, out)
        except BaseException:
            if out[0]:  # the runs of a file that has changed
                native.function("valor_cpu", "valor_coco_runs_cpu", "qpq")(int(out[0]), None, 1)
            raise
    handle, bad, problem = out.tolist()
    if problem:
        _raise(annotations, int(rows[bad]), problem)
    return lengths, mask_sizes, handle


def _call(
    text: Any, places: Any, sizes: Any, boxes: Any, lengths: Any, mask_sizes: Any, measures: Measures | None, out: Any
) -> None:
    kept = None if measures is not None else lengths
    arrays = (places, sizes, boxes, kept, mask_sizes, *(measures or (None, None)))
    at = [0 if array is None else array.ctypes.data for array in arrays]
    words = MaskWords(text.ctypes.data, text.nbytes, *at[:3], len(lengths), *at[3:])
    read = native.function("valor_cpu", "valor_coco_masks_cpu", "pqp")
    read(ctypes.addressof(words), native.threads(), out.ctypes.data)


def _raise(annotations: Annotations, row: int, problem: int) -> None:
    place = f"{annotations.place(row)}.segmentation (id {annotations.id[row]})"
    value = None if annotations.values is None else annotations.values.value("segmentation", row)
    if problem == _NO_IMAGE_SIZE:
        raise InputError(
            f"{place} needs height and width of image {annotations.image_id[row]}, integers from 0 on with a product"
            " below 2**31, to be drawn"
        )
    if problem == _WRONG_STRING and isinstance(value, dict):
        from valor_gpu.ops.runs.cpu import explain_string

        counts = value["counts"]
        text = counts if isinstance(counts, bytes) else _BEYOND_ASCII.sub("\0", str(counts)).encode()
        raise InputError(f"{place}.counts {explain_string(text, *map(int, value['size']))}")
    got = f"box {annotations.bbox[row].tolist()}" if value is None and annotations.corners else shown(value)
    hint = f": {BOXES}" if problem == _NO_POLYGON and annotations.has("bbox")[row] else ""
    raise InputError(f"{place} must be {_NEEDS[problem]} but got {got}{hint}")
