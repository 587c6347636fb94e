"""Plans of counts of regions: a batch of label maps or one-hot maps in one native call. See valor_gpu.plans."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.inputs.pixels import PixelBatch
from valor_gpu.ops._pixel_counts_cpu import table_shape
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.labels import TRUE
from valor_gpu.ops.one_hot import one_hot_words
from valor_gpu.ops.pixel_counts import pixel_words

_PREDS, _TARGET = slice(0, 8), slice(40, 48)
"""Bytes of a PixelTask of csrc/core/pixel_counts.h where the addresses of both maps stand."""

_ADDRESS = struct.Struct("Q")


class Counted(NamedTuple):
    """Counts of a batch.

    Attributes:
        counts: int64 ``[3, C]``, or of each image ``[B, 3, C]``: true positives, predicted and true pixels.
        seen: images, pixels, and pixels that were ignored.
    """

    counts: NDArray[np.int64]
    seen: tuple[int, int, int]


RegionPlan = Callable[[Tensor, Tensor], "Counted | None"]
"""From predictions and target of one form to their counts, or None for the checked path."""


def form_of(preds: Tensor, target: Tensor) -> tuple[Any, ...] | None:
    """What a plan is made for; None of tensors that none serves."""
    for side in (preds, target):
        if side.layout is not torch.strided or side.is_neg():
            return None
    return preds.dtype, preds.shape, preds.stride(), target.dtype, target.shape, target.stride()


def region_plan(batch: PixelBatch, per_image: bool, preds: Tensor, target: Tensor) -> RegionPlan | None:
    """The plan of tensors of the form of ``preds`` and ``target``, which ``batch`` was read of; None if it has none.

    Args:
        batch: label maps or one-hot maps with at least one pixel; there is no plan of others.
        per_image: counts of each image.
        preds: as ``update`` got it.
        target: as ``update`` got it.
    """
    hot = batch.form == "one-hot"
    if batch.form == "logits" or not batch.pixels or not native.available("valor_cpu"):
        return None
    ignore = batch.ignore_index
    if hot:
        words, *sides = one_hot_words(batch.preds, batch.target, batch.classes, ignore, per_image)
    else:
        words, *sides = pixel_words(batch.preds, batch.target, batch.classes, ignore, per_image, False, False)
    if any(side.data_ptr() != given.data_ptr() for side, given in zip(sides, (preds, target))):
        return None  # kernels read a copy
    shape = table_shape(batch.shape, batch.classes, per_image, False)
    return _plan(words, hot, shape, (batch.images, batch.pixels), ignore is not None)


def _plan(words: bytes, hot: bool, shape: tuple[int, ...], seen: tuple[int, int], ignores: bool) -> RegionPlan:
    size, pixels = math.prod(shape), seen[1]
    if hot:
        run = native.function("valor_cpu", "valor_count_one_hot_cpu", "ppppq")
    else:
        run = native.function("valor_cpu", "valor_count_pixels_cpu", "pppq")
    middle, last = words[_PREDS.stop : _TARGET.start], words[_TARGET.stop :]

    def plan(preds: Tensor, target: Tensor) -> Counted | None:
        try:
            addresses = preds.data_ptr(), target.data_ptr()
        except RuntimeError:  # a tensor of torch.func without memory of its own
            return None
        if not all(addresses):
            return None
        task = _ADDRESS.pack(addresses[0]) + middle + _ADDRESS.pack(addresses[1]) + last
        room = np.zeros(size + 2, np.int64)  # counts, ignored pixels of one-hot maps, error code
        room[-1] = NO_ERROR
        start = room.ctypes.data
        ends = (start + 8 * size, start + 8 * size + 8)
        run(task, start, *(ends if hot else ends[1:]), torch.get_num_threads())
        if room[-1] != NO_ERROR:
            return None
        counts, ignored = room[:size].reshape(shape), 0
        if ignores:
            ignored = int(room[size]) if hot else pixels - int(counts[..., TRUE, :].sum())
        return Counted(counts, (*seen, ignored))

    return plan
