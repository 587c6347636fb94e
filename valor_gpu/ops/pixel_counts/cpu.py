"""Counts of label maps and class logits over addresses and numpy arrays, by the C++ library. No torch import.

Callers ask ``native.usable("valor_cpu")`` first: without the library the torch ops of
:mod:`valor_gpu.ops.pixel_counts.op` serve.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_int, check_type
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import NO_ERROR, Names, describe_pixel, raise_error
from valor_gpu.ops.native_types import NUMPY_FLOAT_TYPES, NUMPY_INT_TYPES

MAX_CLASSES = 2**15 - 1
"""Most classes: kernels hold a class in 16 bits. The matrix of so many takes 8.6 GB."""

MAX_PIXELS = 2**32
"""Places after the first dimension that an error code can tell apart."""

PIXEL_TYPES = {
    **NUMPY_INT_TYPES,
    np.dtype(np.uint16): 6,
    np.dtype(np.uint32): 7,
    np.dtype(np.uint64): NUMPY_INT_TYPES[np.dtype(np.int64)],  # from 2**63 on they are negative, and no class
}
"""IntType in csrc/core/load.h and WideIntType in csrc/core/pixel_counts.h."""


LEAST_PIXELS = 2**16
"""kLeastPixels in csrc/cpu/pixel_counts.cpp: no more pixels than these are counted by one thread."""

_pack_task = struct.Struct("20q").pack
_first_byte = ctypes.c_char.from_buffer


class Map(NamedTuple):
    """A map as C++ reads it: its first address, the code of its type, and its strides in elements.

    ``strides`` are those of the dimensions that are left without channels, None where the map is contiguous;
    ``channel_stride`` is 0 of labels.
    """

    address: int
    type: int
    strides: tuple[int, ...] | None
    channel_stride: int = 0


def place_pixels(
    shape: Sequence[int], sides: Sequence[Sequence[int] | None], per_image: bool
) -> list[list[int]] | None:
    """Merges neighbouring dimensions that every side can step through with one stride.

    Args:
        shape: of the pixels, at least one of them.
        sides: strides of each side, in elements; None where it is contiguous.
        per_image: the first dimension stays as it is.

    Returns:
        Sizes of images, rows and columns, then the strides of each side, three numbers each; None where there are more
        dimensions: such sides must be copied.

    Example:
        >>> place_pixels((2, 4, 8), [(32, 8, 1), (64, 16, 1)], False)
        [[1, 8, 8], [0, 8, 1], [0, 16, 1]]
    """
    if not any(sides):
        images = shape[0] if per_image else 1
        inner = math.prod(shape) // images
        return [[images, 1, inner], *([[inner, 0, 1]] * len(sides))]
    dense = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    dims = [list(dim) for dim in zip(shape, *(dense if side is None else side for side in sides))]
    one = [1] + [0] * len(sides)  # a dimension that is not there
    lead = dims.pop(0) if per_image else one
    merged: list[list[int]] = []
    for dim in dims:
        if merged and all(outer == inner * dim[0] for outer, inner in zip(merged[-1][1:], dim[1:])):
            merged[-1] = [merged[-1][0] * dim[0], *dim[1:]]
        elif dim[0] > 1:
            merged.append(dim)
    if len(merged) == 3 and not per_image:
        lead = merged.pop(0)
    if len(merged) > 2:
        return None
    placed = [lead, *([one] * (2 - len(merged))), *merged]
    return [list(column) for column in zip(*placed)]


def code_pixels(shape: Sequence[int]) -> int:
    """Pixels of what an error code calls a row: all after the first dimension, where there are others.

    Raises:
        InputError: for more than an error code can tell apart.
    """
    pixels = math.prod(shape[1:] if len(shape) > 1 else shape)
    if pixels > MAX_PIXELS:
        raise InputError(f"target must have at most {MAX_PIXELS} pixels an image but has shape {list(shape)}")
    return max(pixels, 1)


def task_words(
    preds: Map, target: Map, shape: Sequence[int], num_classes: int, ignore_index: int | None,
    per_image: bool, pairs: bool,
) -> bytes | None:  # fmt: skip
    """The PixelTask of csrc/core/pixel_counts.h; None where the sides must be copied to be contiguous."""
    layout = _layout(tuple(shape), preds.strides, target.strides, per_image)
    if layout is None:
        return None
    steps, target_steps, sizes = layout
    return _pack_task(
        preds.address, preds.type, *steps, target.address, target.type, *target_steps, preds.channel_stride,
        *sizes, num_classes, ignore_index is not None, ignore_index or 0, per_image, pairs,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _layout(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, target_strides: tuple[int, ...] | None, per_image: bool
) -> tuple[tuple[int, ...], ...] | None:
    """Steps of both sides, then sizes and the pixels of a row of error codes: kept, since images repeat their sizes."""
    placed = place_pixels(shape, (strides, target_strides), per_image)
    if placed is None:
        return None
    sizes, steps, target_steps = placed
    return tuple(steps), tuple(target_steps), (*sizes, code_pixels(shape))


def check_choices(num_classes: object, ignore_index: object, shape: Sequence[int], per_image: bool) -> None:
    """Raises unless the arguments that both entries share are good."""
    check_int("num_classes", num_classes, 1)
    if isinstance(num_classes, int) and num_classes > MAX_CLASSES:
        raise InputError(f"num_classes must be at most {MAX_CLASSES} but got {num_classes}")
    if ignore_index is not None:
        check_type("ignore_index", ignore_index, int)
        if not -(2**63) <= int(ignore_index) < 2**63:  # type: ignore[call-overload]
            raise InputError(f"ignore_index must fit in int64 but got {ignore_index}")
    if per_image and len(shape) < 2:
        raise InputError(f"target must have a dimension of images with per_image but has shape {list(shape)}")


def table_shape(shape: Sequence[int], num_classes: int, per_image: bool, pairs: bool) -> tuple[int, ...]:
    """Shape of the counts: ``[3, C]``, or of pairs ``[C, C]``, with ``per_image`` after the images."""
    table = (num_classes if pairs else 3, num_classes)
    return (shape[0], *table) if per_image else table


def count_pixels(
    preds: NDArray[Any],
    target: NDArray[Any],
    num_classes: int,
    *,
    ignore_index: int | None = None,
    per_image: bool = False,
    pairs: bool = False,
    names: tuple[str, str] = ("preds", "target"),
    threads: int | None = None,
) -> NDArray[np.int64]:
    """Counts what :func:`valor_gpu.ops.pixel_counts.op.count_pixels` counts, of numpy arrays.

    Args:
        preds: any integer dtype, any shape: class indices.
        target: likewise, of the same shape.
        num_classes: C, from 1 to 32,767.
        ignore_index: pixels with this target are left out, whatever their prediction.
        per_image: counts for each index of the first dimension.
        pairs: the confusion matrix, rows are true classes, in place of the counts by class.
        names: what messages call both, such as their files.
        threads: how many count, by default one for each CPU.

    Returns:
        int64 ``[3, C]``: true positives, predicted and true pixels; with ``pairs`` ``[C, C]``; with ``per_image``
        ``[B, ...]``.

    Raises:
        InputError: another dtype or shape; or a label out of range, by its place and value.

    Example:
        >>> labels = np.array([[0, 1], [1, 255]], np.uint8)
        >>> count_pixels(np.ones_like(labels), labels, 2, ignore_index=255).tolist()
        [[0, 2], [0, 3], [1, 2]]
    """
    check_arrays(preds, target, names)
    preds, target = _whole(preds), _whole(target)
    return _count(preds, target, _labels_map(preds), num_classes, names, ignore_index, per_image, pairs, threads)


def count_logits(
    logits: NDArray[Any],
    target: NDArray[Any],
    *,
    ignore_index: int | None = None,
    per_image: bool = False,
    pairs: bool = False,
    names: tuple[str, str] = ("logits", "target"),
    threads: int | None = None,
) -> NDArray[np.int64]:
    """Counts what :func:`valor_gpu.ops.pixel_counts.op.count_logits` counts, of numpy arrays.

    Args:
        logits: float16, float32 or float64 ``[B, C, ...]``.
        target: any integer dtype ``[B, ...]``.
        ignore_index: see :func:`count_pixels`.
        per_image: see :func:`count_pixels`.
        pairs: see :func:`count_pixels`.
        names: see :func:`count_pixels`.
        threads: see :func:`count_pixels`.

    Returns:
        As :func:`count_pixels`.

    Raises:
        InputError: see :func:`count_pixels`.

    Example:
        >>> logits = np.array([[[0.0, 2.0, 1.0], [1.0, 0.0, 1.0]]], np.float32)  # [1, 2, 3]
        >>> count_logits(logits, np.array([[1, 0, 1]])).tolist()
        [[1, 1], [2, 1], [1, 2]]
    """
    if logits.ndim < 2 or logits.dtype not in NUMPY_FLOAT_TYPES or logits.shape[1] == 0:
        types = " or ".join(map(str, NUMPY_FLOAT_TYPES))
        raise InputError(f"{names[0]} must be {types} [B, C, ...] but got {logits.dtype} {list(logits.shape)}")
    shape = (logits.shape[0], *logits.shape[2:])
    if logits.strides[1] == 0:  # it stands for labels
        logits = np.ascontiguousarray(logits)
    _check_labels(names[1], target, shape)
    logits, target = _whole(logits), _whole(target)
    classes = logits.shape[1]
    return _count(logits, target, _logits_map(logits), classes, names, ignore_index, per_image, pairs, threads)


def check_arrays(preds: NDArray[Any], target: NDArray[Any], names: tuple[str, str] = ("preds", "target")) -> None:
    """Raises unless both are integers of one shape."""
    _check_labels(names[0], preds, preds.shape)
    _check_labels(names[1], target, preds.shape)


def _check_labels(name: str, labels: NDArray[Any], shape: tuple[int, ...]) -> None:
    if labels.dtype not in PIXEL_TYPES:
        raise InputError(f"{name} must have an integer dtype but got {labels.dtype}")
    if labels.shape != shape:
        raise InputError(f"{name} must have shape {list(shape)} but got {list(labels.shape)}")


def _whole(array: NDArray[Any]) -> NDArray[Any]:
    """The array, or a copy where its elements are not aligned."""
    return array if array.flags.aligned else array.copy()


def _address(array: Any) -> int:
    """Where the first element lies; ``array.ctypes`` takes four times as long, as long as 2,000 pixels."""
    if array.flags.carray and array.size:
        return ctypes.addressof(_first_byte(array))
    return int(array.ctypes.data)


def _labels_map(labels: NDArray[Any]) -> Map:
    steps = None if labels.flags.c_contiguous else tuple(step // labels.itemsize for step in labels.strides)
    return Map(_address(labels), PIXEL_TYPES[labels.dtype], steps)


def _logits_map(logits: NDArray[Any]) -> Map:
    steps = [step // logits.itemsize for step in logits.strides]
    channel_stride = steps.pop(1) or 1  # a channel that is alone may have any stride, but 0 stands for labels
    return Map(_address(logits), NUMPY_FLOAT_TYPES[logits.dtype], tuple(steps), channel_stride)


def _count(
    preds: NDArray[Any], target: NDArray[Any], source: Map, classes: int, names: tuple[str, str],
    ignore_index: int | None, per_image: bool, pairs: bool, threads: int | None,
) -> NDArray[np.int64]:  # fmt: skip
    shape = target.shape
    check_choices(classes, ignore_index, shape, per_image)
    if (ignore_index or 0) < 0 and target.dtype == np.uint64:
        ignore_index = None  # read as int64, the largest label of uint64 would be -1
    tables = np.zeros(table_shape(shape, classes, per_image, pairs), np.int64)
    if target.size == 0:
        return tables
    words = task_words(source, _labels_map(target), shape, classes, ignore_index, per_image, pairs)
    if words is None:
        preds, target = np.ascontiguousarray(preds), np.ascontiguousarray(target)
        whole = _logits_map(preds) if source.channel_stride else _labels_map(preds)
        words = task_words(whole, _labels_map(target), shape, classes, ignore_index, per_image, pairs)
    if threads is None:
        threads = 1 if target.size <= LEAST_PIXELS else native.threads()
    error = ctypes.c_int64(NO_ERROR)
    count = native.function("valor_cpu", "valor_count_pixels_cpu", "pppq")
    count(words, _address(tables), ctypes.byref(error), threads)
    if error.value != NO_ERROR:
        known = Names(classes, scores=names[0], target=names[1])
        raise_error(error.value, lambda code: describe_pixel(code, shape, known, (preds, target)))
    return tables
