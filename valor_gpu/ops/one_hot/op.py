"""Counts of one-hot maps, of both sides or of one beside a map of labels, by class, in one read of the pixels.

Channels may overlap, or leave a pixel without any. Definition in plain torch: ``valor_gpu/ops/one_hot/reference.py``.
Design: docs/design/014-regions.md.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.error_codes import NO_ERROR, TARGET, Names, describe_pixel, value_kind
from valor_gpu.ops.one_hot import reference
from valor_gpu.ops.one_hot.reference import Output, is_one_hot
from valor_gpu.ops.pixel_counts.cpu import MAX_PIXELS, Map, check_choices, table_shape, task_words
from valor_gpu.ops.pixel_counts.op import PIXEL_TYPES, ignored_label, sums_words


class OneHotCounts(NamedTuple):
    """Counts by class, and what they are not of.

    Attributes:
        counts: int64 ``[3, C]``, or of each image ``[B, 3, C]``: true positives, predicted and true pixels.
        ignored: int64 ``[]``, pixels that were left out.
        error: int64 ``[]``, an error code, see :func:`one_hot_error`.
    """

    counts: Tensor
    ignored: Tensor
    error: Tensor


def count_one_hot(
    preds: Tensor, target: Tensor, num_classes: int, *, ignore_index: int | None = None, per_image: bool = False
) -> OneHotCounts:
    """True positives, predicted and true pixels of each class, where a side has one channel for each class.

    No copy of a one-hot side is made, unless its strides are those of no view of fewer dimensions.

    Args:
        preds: one-hot ``[B, C, ...]``, bool or any integer dtype, 0 and 1; or class indices ``[B, ...]``.
        target: likewise; at least one side is one-hot, which the number of dimensions tells.
        num_classes: C, from 1 to 32,767.
        ignore_index: pixels are left out where the target has this class index, or where its channel of this number
            is 1; a number that is no channel of a one-hot target leaves out nothing.
        per_image: counts for each image.

    Returns:
        OneHotCounts.

    Raises:
        InputError: on another shape, dtype or device. A value of a one-hot side other than 0 and 1, which counts as 0,
            and a label out of range, which is no class, are in ``error``.

    Example:
        >>> preds = torch.tensor([[[1, 1, 0], [0, 1, 1]]])  # [1, 2, 3]: the second pixel has both classes
        >>> count_one_hot(preds, torch.tensor([[0, 1, 1]]), 2).counts
        tensor([[1, 2],
                [2, 2],
                [1, 2]])
    """
    _check(preds, target, num_classes, ignore_index)
    ignored = ignored_label(ignore_index, target)
    return OneHotCounts(*_COUNT_ONE_HOT(preds, target, num_classes, ignored, per_image))


def one_hot_error(preds: Tensor, target: Tensor, num_classes: int) -> Callable[[int], str]:
    """What :func:`valor_gpu.ops.error_codes.raise_error` asks for the message of a code of :func:`count_one_hot`.

    Args:
        preds: the predictions.
        target: the target; a message reads the value, so that one on CUDA is waited for.
        num_classes: C.

    Returns:
        A function from a code to its message: the first place with a bad value, and the value.

    Example:
        >>> preds = torch.tensor([[[1, 2, 0], [0, 1, 1]]])
        >>> one_hot_error(preds, preds, 2)(int(count_one_hot(preds, torch.tensor([[0, 1, 1]]), 2).error))
        'preds[0, 0, 1] must be 0 or 1 but is 2'
    """
    hot = is_one_hot(preds, target)

    def message(code: int) -> str:
        of_target = value_kind(code) == TARGET
        side = (preds, target)[of_target]
        text = describe_pixel(code, side.shape, Names(num_classes), (preds, target))
        return text.replace(f"a class index from 0 to {num_classes - 1}", "0 or 1") if hot[of_target] else text

    return message


def _check(preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None) -> None:
    sides = {"preds": preds, "target": target}
    check_choices(num_classes, ignore_index, target.shape, False)
    pixels: list[tuple[int, ...]] = []
    for (name, side), one_hot in zip(sides.items(), is_one_hot(preds, target)):
        check_dtype(name, side, PIXEL_TYPES)
        if one_hot and (side.ndim < 2 or side.shape[1] != num_classes):
            raise InputError(f"{name} must have shape [B, {num_classes}, ...] but got {list(side.shape)}")
        if one_hot and math.prod(side.shape[1:]) > MAX_PIXELS:
            raise InputError(f"{name} must have at most {MAX_PIXELS} values an image but has {list(side.shape)}")
        pixels.append((side.shape[0], *side.shape[2:]) if one_hot else tuple(side.shape))
    if pixels[0] != pixels[1]:
        raise InputError(
            f"target must have the images and pixels of preds, {list(pixels[0])}, but has {list(pixels[1])}: preds are"
            f" {list(preds.shape)} and target is {list(target.shape)}"
        )
    check_same_device(tuple(sides), tuple(sides.values()))


# ------------------------------------------------------------------------------------------------------------ kernels


def _map(side: Tensor, one_hot: bool) -> Map:
    steps = list(side.stride())
    channel_stride = steps.pop(1) if one_hot else 0
    dense = not one_hot and side.is_contiguous()
    return Map(side.data_ptr(), PIXEL_TYPES[side.dtype], None if dense else tuple(steps), channel_stride)


def one_hot_words(
    preds: Tensor, target: Tensor, classes: int, ignore_index: int | None, per_image: bool
) -> tuple[bytes, Tensor, Tensor]:
    """The OneHotTask of csrc/core/one_hot.h, and the tensors that must outlive it."""
    hot = is_one_hot(preds, target)
    shape = target.shape if not hot[1] else (target.shape[0], *target.shape[2:])
    for prepared in (Tensor.detach, Tensor.contiguous):  # a copy only where the strides need one
        sides = prepared(preds), prepared(target)
        maps = [_map(side, one_hot) for side, one_hot in zip(sides, hot)]
        words = task_words(maps[0], maps[1], shape, classes, ignore_index, per_image, False)
        if words is not None:
            return words + struct.pack("3q", maps[1].channel_stride, *hot), *sides
    raise AssertionError("contiguous maps have few dimensions")


def _outputs(target: Tensor, classes: int, per_image: bool) -> Output:
    counts = target.new_zeros(table_shape(target.shape, classes, per_image, False), dtype=torch.int64)
    return counts, target.new_zeros((), dtype=torch.int64), torch.full((), NO_ERROR, device=target.device)


def _pixels(preds: Tensor, target: Tensor) -> int:
    return min(preds.numel(), target.numel())


def _count_one_hot_cpu(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, per_image: bool
) -> Output:
    outputs = _outputs(target, num_classes, per_image)
    if _pixels(preds, target):
        words, *kept = one_hot_words(preds, target, num_classes, ignore_index, per_image)
        native.function("valor_cpu", "valor_count_one_hot_cpu", "ppppq")(
            words, *(output.data_ptr() for output in outputs), torch.get_num_threads()
        )
        del kept
    return outputs


def _count_one_hot_cuda(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, per_image: bool
) -> Output:
    if not _pixels(preds, target):
        return _outputs(target, num_classes, per_image)
    with launching(target.device) as stream:
        counts = target.new_empty(table_shape(target.shape, num_classes, per_image, False), dtype=torch.int64)
        ignored, error = (target.new_empty((), dtype=torch.int64) for _ in range(2))
        words, *kept = one_hot_words(preds, target, num_classes, ignore_index, per_image)
        native.function("valor_cuda", "valor_add_one_hot_cuda", "pp")(
            words, sums_words(counts.data_ptr(), error.data_ptr(), stream, ignored=ignored.data_ptr())
        )
        del kept
    return counts, ignored, error


_COUNT_ONE_HOT = register(
    "count_one_hot(Tensor preds, Tensor target, int num_classes, int? ignore_index, bool per_image)"
    " -> (Tensor, Tensor, Tensor)",
    reference=reference.count_one_hot,
    fake=reference.count_one_hot_fake,
    cpu=cpp(_count_one_hot_cpu),
    cuda=cuda(_count_one_hot_cuda),
)
