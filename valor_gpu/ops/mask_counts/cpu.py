"""Counts of labelled masks of two sides: pixels of labels, of pairs of labels, and where both sides agree. No torch.

Masks of a side may overlap: a pixel then belongs to several labels. Label maps, where it has one, are counted by
:mod:`valor_gpu.ops.pixel_counts.op`. Definitions in plain numpy, which also serve where the C++ library is not built:
``valor_gpu/ops/mask_counts/reference.py``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops.mask_counts import reference
from valor_gpu.ops.mask_counts.reference import TOTALS, MaskCounts, MaskSet
from valor_gpu.ops.pairs.cpu import words

GROUP_BYTES = 1 << 27
"""Tables, and copies of masks that are not contiguous, that are held at once, unless those of one image are more."""

PIECE = 1 << 20  # pixels that one thread counts before it takes more; a multiple of 64
_PIXELS_PER_HELPER = 1 << 20  # waking a thread for less takes longer than it saves

TaskWords = words("TaskWords", ("masks", "labels", "sets", "pieces", "tables", "exclusive", "pairs"))
"""MaskTask of csrc/cpu/mask_counts.cpp."""


def count_mask_sets(sets: Sequence[MaskSet], *, exclusive: bool = False, pairs: bool = False) -> Iterator[MaskCounts]:
    """Counts the pixels of each image, as they are asked for.

    A label has the pixels of all its masks, each once. Every mask is read once; beside the inputs and outputs the
    memory is 1 KiB a label and thread, and copies of masks that are not contiguous, ``GROUP_BYTES`` at a time.

    Args:
        sets: the masks of each image.
        exclusive: of masks of a side that overlap the first keeps the pixel; else it belongs to each of their labels.
        pairs: also count pairs of labels, 8 (C + 1)^2 bytes an image.

    Raises:
        InputError: masks of an image of different shapes, of another dtype than bool and uint8, or a label out of
            range, by its place.

    Example:
        >>> left, both = np.array([[True, False]]), np.array([[True, True]])
        >>> (found,) = count_mask_sets([MaskSet([left], [0], [both], [0], 1)])
        >>> found.counts.tolist(), found.agreeing
        ([[1], [2], [1]], 1)
    """
    for place, one in enumerate(sets):
        _check(place, one)
    if not native.usable("valor_cpu"):
        return (reference.count_mask_set(one, exclusive, pairs) for one in sets)
    return (counts for group in _groups(sets, pairs) for counts in _count(group, exclusive, pairs))


def _check(place: int, one: MaskSet) -> None:
    shape = None
    for name, masks, labels in (("gt_masks", one.gt_masks, one.gt_labels), ("masks", one.masks, one.labels)):
        if len(masks) != len(labels):
            raise InputError(f"{name} of set {place} must have one label each but {len(masks)} have {len(labels)}")
        for i, (mask, label) in enumerate(zip(masks, labels)):
            shape = mask.shape if shape is None else shape
            if mask.dtype not in (np.bool_, np.uint8) or mask.shape != shape:
                raise InputError(
                    f"{name}[{i}] of set {place} must be bool or uint8 {list(shape)} but is {mask.dtype} "
                    f"{list(mask.shape)}"
                )
            if not 0 <= label < one.num_labels:
                raise InputError(
                    f"label of {name}[{i}] of set {place} must be from 0 to {one.num_labels - 1} but is {label}"
                )


def _table_size(labels: int, pairs: bool) -> int:
    return 3 * labels + TOTALS + (labels + 1) ** 2 * pairs


def _groups(sets: Sequence[MaskSet], pairs: bool) -> Iterator[list[MaskSet]]:
    """Sets whose tables and copies fit into ``GROUP_BYTES``; at least one."""
    group: list[MaskSet] = []
    used = 0
    for one in sets:
        copied = sum(mask.nbytes for mask in (*one.gt_masks, *one.masks) if not mask.flags.c_contiguous)
        size = copied + 8 * _table_size(one.num_labels, pairs)
        if group and used + size > GROUP_BYTES:
            yield group
            group, used = [], 0
        group.append(one)
        used += size
    if group:
        yield group


def _count(sets: Sequence[MaskSet], exclusive: bool, pairs: bool) -> Iterator[MaskCounts]:
    sizes = [_table_size(one.num_labels, pairs) for one in sets]
    starts = np.cumsum([0, *sizes])
    table = np.zeros((len(sets), 5), np.int64)
    kept: list[NDArray[Any]] = []
    labels: list[int] = []
    pieces: list[tuple[int, int, int]] = []
    pixels = 0
    for i, one in enumerate(sets):
        first = len(kept)
        kept += [np.ascontiguousarray(mask) for mask in (*one.gt_masks, *one.masks)]
        labels += [*one.gt_labels, *one.labels]
        table[i] = first, first + len(one.gt_masks), len(kept), one.num_labels, starts[i]
        size = kept[first].size if len(kept) > first else 0
        pieces += [(i, begin, min(begin + PIECE, size)) for begin in range(0, size, PIECE)]
        pixels += size * (len(kept) - first)
    tables = np.zeros(int(starts[-1]), np.int64)
    addresses, codes = np.array([_address(mask) for mask in kept], np.int64), np.array(labels, np.int64)
    listed = np.array(pieces, np.int64).reshape(-1, 3)
    arrays = (addresses, codes, table, listed, tables)
    task = TaskWords(*(_address(array) for array in arrays), exclusive, pairs)
    threads = min(native.threads(), 1 + pixels // _PIXELS_PER_HELPER)
    native.function("valor_cpu", "valor_count_mask_sets_cpu", "pqq")(ctypes.addressof(task), len(listed), threads)
    for one, start, size in zip(sets, starts.tolist(), sizes):
        yield MaskCounts.read(tables[start : start + size], one.num_labels, pairs)


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])
