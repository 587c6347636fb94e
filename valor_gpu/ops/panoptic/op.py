"""Counts of panoptic segmentations: matched and unmatched segments of each category, and the sum of their IoUs.

Definition in plain torch: ``valor_gpu/ops/panoptic/reference.py``; of maps of ids as numpy arrays, without torch:
``valor_gpu/ops/panoptic/cpu.py``. Design: docs/design/016-panoptic.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import constant
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.error_codes import LAST_ROW, NO_ERROR, value_row
from valor_gpu.ops.panoptic import reference
from valor_gpu.ops.panoptic.cpu import (
    BAD,
    VOID,
    Rule,
    Side,
    category_entries,
    check_categories,
    check_pixels,
    count_tables,
    task_words,
)
from valor_gpu.ops.pixel_counts.cpu import Map
from valor_gpu.ops.pixel_counts.op import PIXEL_TYPES


class PanopticCounts(NamedTuple):
    """What panoptic quality is computed from.

    Attributes:
        tables: int64 ``[B, 8, C]``, the rows of :mod:`valor_gpu.ops.panoptic.cpu`: matches, false positives, false
            negatives, predicted segments, true segments, and three rows of the sum of IoUs.
        error: int64 ``[]``, the first unknown category of a prediction, or ``NO_ERROR``.
    """

    tables: Tensor
    error: Tensor


def count_panoptic(
    preds: Tensor,
    target: Tensor,
    categories: Sequence[int],
    things: int,
    *,
    modified: bool = False,
    allow_unknown: bool = False,
) -> PanopticCounts:
    """Matches the segments of every image and counts them by category.

    A segment is the pixels of an image with one category and, of things, one instance. Pixels of a category that is not
    listed are void. Two segments of one category match where their IoU is above 0.5 (Kirillov et al., "Panoptic
    Segmentation", CVPR 2019, section 4.1), which is decided in integers; pixels that are void on the other side are
    left out of the union. What is not matched is a false positive or a false negative, unless more than half of it is
    void on the other side.

    The sum of IoUs is exact: each IoU, rounded to float64, is added as three words of 32 bits. So it depends neither on
    the order of segments nor of images.

    Args:
        preds: any integer dtype ``[B, ..., 2]``: category and instance of every pixel.
        target: likewise, in the shape of ``preds``.
        categories: C different ids, which fit in int64; table column i is ``categories[i]``.
        things: so many categories, the first, are things; instances of the others, stuff, do not matter.
        modified: stuff is scored without a threshold: its IoUs are added whatever they are, every true segment counts
            as a match and none as false (Porzi et al., "Seamless Scene Segmentation", CVPR 2019, section 5.1).
        allow_unknown: predicted categories that are not listed are void and no error.

    Returns:
        Tables for each image.

    Raises:
        InputError: on another shape, dtype or device, or unfit categories. An unknown category of a prediction is in
            ``error``, see :func:`panoptic_error`; it counts as void.

    Example:
        >>> target = torch.tensor([[[1, 0], [1, 0], [1, 0], [2, 0]]])  # [1, 4, 2]
        >>> preds = torch.tensor([[[1, 5], [1, 5], [2, 0], [2, 0]]])
        >>> count_panoptic(preds, target, [1, 2], things=1).tables[0, :3].tolist()
        [[1, 0], [0, 1], [0, 1]]
    """
    _check(preds, target, categories, things)
    return PanopticCounts(*_COUNT_PANOPTIC(preds, target, list(categories), things, modified, allow_unknown))


def panoptic_error(
    shape: Sequence[int], categories: Sequence[int], preds: Tensor | None = None
) -> Callable[[int], str]:
    """What the error codes of :func:`count_panoptic` mean.

    Args:
        shape: of ``preds``.
        categories: the known ones.
        preds: from which the message takes the category; None leaves it out.

    Returns:
        A function from a code to its message: the first place with an unknown category.
    """

    def describe(code: int) -> str:
        known = ", ".join(map(str, categories[:8])) + (", ..." if len(categories) > 8 else "")
        need = f"must have a category of {known}"
        image, left = value_row(code), code >> 4 & 0xFFFFFFFF
        if image >= LAST_ROW:
            return f"preds[{image} or later] {need}"
        place: list[int] = []
        for size in reversed(shape[1:-1]):
            place.insert(0, left % size)
            left //= size
        at = (image, *place, 0)
        got = "" if preds is None else f" but has {int(preds[at].item())}"
        return f"preds[{', '.join(map(str, at[:-1]))}] {need}{got}: allow_unknown_preds_category makes it void"

    return describe


def _check(preds: Tensor, target: Tensor, categories: Sequence[int], things: int) -> None:
    check_dtype("preds", preds, PIXEL_TYPES)
    check_dtype("target", target, PIXEL_TYPES)
    if preds.ndim < 3 or preds.shape[-1] != 2:
        raise InputError(f"preds must have shape [B, ..., 2] but got {list(preds.shape)}")
    if target.shape != preds.shape:
        raise InputError(f"target must have shape {list(preds.shape)} but got {list(target.shape)}")
    check_same_device(("preds", "target"), (preds, target))
    check_categories(categories, things)
    check_pixels(target.shape[:-1])
    if min(categories) < 0 and torch.uint64 in (preds.dtype, target.dtype):
        raise InputError(f"categories must be at least 0 for maps of torch.uint64 but got {min(categories)}")


# ------------------------------------------------------------------------------------------------------------ kernels


def _side(side: Tensor, entries: tuple[int, int, int], unknown: int) -> Side:
    *strides, instance = side.stride()
    return Side(Map(side.data_ptr(), PIXEL_TYPES[side.dtype], tuple(strides)), instance, entries, unknown)


def _task(
    preds: Tensor, target: Tensor, entries: tuple[int, int, int], rule: Rule, allow_unknown: bool
) -> tuple[bytes, Tensor, Tensor]:
    """The words of a task, and the tensors that must outlive them."""
    for sides in ((preds, target), (preds.contiguous(), target.contiguous())):
        if any(side.stride(-1) == 0 for side in sides):  # it would stand for no instances
            continue
        words = task_words(
            (_side(sides[0], entries, VOID if allow_unknown else BAD), _side(sides[1], entries, VOID)),
            target.shape[:-1], rule,
        )  # fmt: skip
        if words is not None:
            return words, *sides
    raise AssertionError("contiguous maps have few dimensions")


def _rule(categories: Sequence[int], things: int, modified: bool) -> Rule:
    return Rule(len(categories), things if modified else len(categories), True)


def _outputs(target: Tensor, categories: Sequence[int]) -> tuple[Tensor, Tensor]:
    tables, error = reference.count_panoptic_fake(target, target, categories, 0, False, False)
    return tables.zero_(), error.fill_(NO_ERROR)


def _count_panoptic_cpu(
    preds: Tensor, target: Tensor, categories: Sequence[int], things: int, modified: bool, allow_unknown: bool
) -> tuple[Tensor, Tensor]:
    tables, error = _outputs(target, categories)
    if target.numel():
        known = category_entries(tuple(categories), things)
        addresses = known.keys.ctypes.data, known.values.ctypes.data, len(categories)
        words, *kept = _task(preds, target, addresses, _rule(categories, things, modified), allow_unknown)
        count_tables(words, tables.data_ptr(), error.data_ptr(), torch.get_num_threads())
        del kept
    return tables, error


def _count_panoptic_cuda(
    preds: Tensor, target: Tensor, categories: Sequence[int], things: int, modified: bool, allow_unknown: bool
) -> tuple[Tensor, Tensor]:
    with launching(target.device) as stream:
        tables, error = _outputs(target, categories)
        if target.numel():
            known = [constant(column, target.device) for column in category_entries(tuple(categories), things)]
            addresses = known[0].data_ptr(), known[1].data_ptr(), len(categories)
            words, *kept = _task(preds, target, addresses, _rule(categories, things, modified), allow_unknown)
            size = np.zeros((), np.int64)
            native.function("valor_cuda", "valor_count_panoptic_bytes_cuda", "pp")(words, size.ctypes.data)
            scratch = torch.empty(int(size), dtype=torch.uint8, device=target.device)
            native.function("valor_cuda", "valor_count_panoptic_cuda", "ppppp")(
                words, scratch.data_ptr(), tables.data_ptr(), error.data_ptr(), stream
            )
            del kept
    return tables, error


_COUNT_PANOPTIC = register(
    "count_panoptic(Tensor preds, Tensor target, int[] categories, int things, bool modified, bool allow_unknown)"
    " -> (Tensor, Tensor)",
    reference=reference.count_panoptic,
    fake=reference.count_panoptic_fake,
    cpu=cpp(_count_panoptic_cpu),
    cuda=cuda(_count_panoptic_cuda),
)
