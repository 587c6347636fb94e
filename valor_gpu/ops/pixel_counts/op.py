"""Counts of label maps and of class logits: of each class, or of pairs of classes, in one read of the pixels.

Definitions in plain torch: ``valor_gpu/ops/pixel_counts/reference.py``; over numpy arrays, without torch:
``valor_gpu/ops/pixel_counts/cpu.py``. Design: docs/design/010-pixel-counts.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_dtype, check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda, cuda_or_triton, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR, Names, describe_pixel
from valor_gpu.ops.labels.op import Counts, Pairs
from valor_gpu.ops.pixel_counts import reference
from valor_gpu.ops.pixel_counts.cpu import Map, check_choices, code_pixels, place_pixels, table_shape, task_words

PIXEL_TYPES = {**INT_TYPES, torch.uint16: 6, torch.uint32: 7, torch.uint64: INT_TYPES[torch.int64]}
"""PIXEL_TYPES of numpy arrays, of tensors."""


def count_pixels(
    preds: Tensor, target: Tensor, num_classes: int, *, ignore_index: int | None = None, per_image: bool = False
) -> Counts:
    """True positives, predicted and true pixels of each class of label maps.

    Intersection over union of class c is ``tp / (predicted + true - tp)``.

    Args:
        preds: any integer dtype, any shape, class indices.
        target: class indices of any integer dtype and the shape of ``preds``.
        num_classes: C, from 1 to 32,767.
        ignore_index: pixels with this target are left out, whatever their prediction; it need not be a class.
        per_image: counts for each index of the first dimension.

    Returns:
        Counts ``[3, C]``, with ``per_image`` ``[B, 3, C]``; the rows are those of
        :data:`valor_gpu.ops.labels.op.TRUE_POSITIVES`, ``PREDICTED`` and ``TRUE``.

    Raises:
        InputError: on another shape, dtype or device. A label out of range is in ``error``, see
            :func:`pixel_error`; such pixels count nowhere.

    Example:
        >>> target = torch.tensor([[0, 1], [1, 255]], dtype=torch.uint8)
        >>> count_pixels(torch.ones(2, 2, dtype=torch.int64), target, 2, ignore_index=255).counts
        tensor([[0, 2],
                [0, 3],
                [1, 2]])
    """
    _check(preds, target, num_classes, ignore_index, per_image)
    ignored = ignored_label(ignore_index, target)
    return Counts(*_COUNT_PIXELS(preds, target, num_classes, ignored, per_image, False))


@arguments_of(count_pixels)
def count_pixel_pairs(
    preds: Tensor, target: Tensor, num_classes: int, *, ignore_index: int | None = None, per_image: bool = False
) -> Pairs:
    """The confusion matrix of label maps; :func:`count_pixels` has what most metrics need of it.

    Args:
        num_classes: C; the matrix takes 8 C^2 bytes, 800 MB for 10,000 classes, and nothing else of that size is made.

    Returns:
        Pairs ``[C, C]``, with ``per_image`` ``[B, C, C]``; rows are true classes.

    Raises:
        InputError: see :func:`count_pixels`.

    Example:
        >>> count_pixel_pairs(torch.tensor([[0, 1]]), torch.tensor([[0, 0]]), 2).matrix
        tensor([[1, 1],
                [0, 0]])
    """
    _check(preds, target, num_classes, ignore_index, per_image)
    ignored = ignored_label(ignore_index, target)
    return Pairs(*_COUNT_PIXELS(preds, target, num_classes, ignored, per_image, True))


@arguments_of(count_pixels)
def count_logits(logits: Tensor, target: Tensor, *, ignore_index: int | None = None, per_image: bool = False) -> Counts:
    """Counts of :func:`count_pixels` where each pixel has the class of its largest logit.

    No map of labels is made and nothing is transposed. Ties and NaN are those of ``torch.argmax``: of equal logits the
    lowest class, and NaN is larger than every number.

    Args:
        logits: float16, bfloat16, float32 or float64 ``[B, C, ...]``, also with ``memory_format=channels_last``.
        target: any integer dtype ``[B, ...]``.

    Returns:
        Counts ``[3, C]``, with ``per_image`` ``[B, 3, C]``.

    Raises:
        InputError: on another shape, dtype or device. A target out of range is in ``error``.

    Example:
        >>> logits = torch.tensor([[[0.0, 2.0, 1.0], [1.0, 0.0, 1.0]]])  # [1, 2, 3]
        >>> count_logits(logits, torch.tensor([[1, 0, 1]])).counts
        tensor([[1, 1],
                [2, 1],
                [1, 2]])
    """
    _check_logits(logits, target, ignore_index, per_image)
    return Counts(*_COUNT_LOGITS(logits, target, ignored_label(ignore_index, target), per_image, False))


@arguments_of(count_logits)
def count_logit_pairs(
    logits: Tensor, target: Tensor, *, ignore_index: int | None = None, per_image: bool = False
) -> Pairs:
    """The confusion matrix of :func:`count_pixel_pairs` where each pixel has the class of its largest logit.

    Returns:
        Pairs ``[C, C]``, with ``per_image`` ``[B, C, C]``.

    Raises:
        InputError: see :func:`count_logits`.

    Example:
        >>> logits = torch.tensor([[[0.0, 2.0, 1.0], [1.0, 0.0, 1.0]]])
        >>> count_logit_pairs(logits, torch.tensor([[1, 0, 1]])).matrix
        tensor([[1, 0],
                [1, 1]])
    """
    _check_logits(logits, target, ignore_index, per_image)
    return Pairs(*_COUNT_LOGITS(logits, target, ignored_label(ignore_index, target), per_image, True))


def ignored_label(ignore_index: int | None, target: Tensor) -> int | None:
    """The label that is left out; None where the target can have no such label.

    Kernels read uint64 as int64: to them -1 would be the largest label of uint64.
    """
    return None if target.dtype == torch.uint64 and (ignore_index or 0) < 0 else ignore_index


def pixel_error(
    preds: Tensor | None, target: Tensor, num_classes: int, *, names: tuple[str, str] = ("preds", "target")
) -> Callable[[int], str]:
    """What :func:`valor_gpu.ops.error_codes.raise_error` asks for the message of a code.

    Args:
        preds: the label maps, None for logits, whose predictions have no errors.
        target: the target; a message reads the value from it, so that one on CUDA is waited for.
        num_classes: C.
        names: what messages call both.

    Returns:
        A function from a code to its message: the first place with a label out of range, and the label.

    Example:
        >>> labels = torch.tensor([[0, 1], [1, 7]])
        >>> pixel_error(labels, labels, 2)(int(count_pixels(labels, labels, 2).error))
        'target[1, 1] must be a class index from 0 to 1 but is 7'
    """
    sides = (target if preds is None else preds, target)
    known = Names(num_classes, scores=names[0], target=names[1])
    return lambda code: describe_pixel(code, target.shape, known, sides)


def _check(preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, per_image: bool) -> None:
    check_dtype("preds", preds, PIXEL_TYPES)
    _check_target(target, preds, tuple(preds.shape), "preds")
    check_choices(num_classes, ignore_index, preds.shape, per_image)


def _check_logits(logits: Tensor, target: Tensor, ignore_index: int | None, per_image: bool) -> None:
    check_dtype("logits", logits, FLOAT_TYPES)
    if logits.ndim < 2 or logits.shape[1] == 0:
        raise InputError(f"logits must have shape [B, C, ...] but got {list(logits.shape)}")
    _check_target(target, logits, (logits.shape[0], *logits.shape[2:]), "logits")
    check_choices(logits.shape[1], ignore_index, target.shape, per_image)


def _check_target(target: Tensor, like: Tensor, shape: tuple[int, ...], name: str) -> None:
    check_dtype("target", target, PIXEL_TYPES)
    if tuple(target.shape) != shape:
        raise InputError(f"target must have shape {list(shape)} but got {list(target.shape)}")
    check_same_device((name, "target"), (like, target))


# ------------------------------------------------------------------------------------------------------------ kernels


def _map(tensor: Tensor, channels: bool) -> Map:
    if not channels:
        steps = None if tensor.is_contiguous() else tensor.stride()
        return Map(tensor.data_ptr(), PIXEL_TYPES[tensor.dtype], steps)
    first, channel_stride, *rest = tensor.stride()
    channel_stride = channel_stride or 1  # a channel that is alone may have any stride, but 0 stands for labels
    return Map(tensor.data_ptr(), FLOAT_TYPES[tensor.dtype], (first, *rest), channel_stride)


def pixel_words(
    preds: Tensor, target: Tensor, classes: int, ignore_index: int | None, per_image: bool, pairs: bool,
    channels: bool,
) -> tuple[bytes, Tensor, Tensor]:  # fmt: skip
    """The words of a task, and the tensors that must outlive them."""
    if channels and preds.stride(1) == 0:  # it would stand for labels
        preds = preds.contiguous()
    for sides in ((preds, target), (preds.contiguous(), target.contiguous())):
        maps = _map(sides[0], channels), _map(sides[1], False)
        words = task_words(*maps, target.shape, classes, ignore_index, per_image, pairs)
        if words is not None:
            return words, *sides
    raise AssertionError("contiguous maps have few dimensions")


def _count_cpu(
    preds: Tensor, target: Tensor, classes: int, ignore_index: int | None, per_image: bool, pairs: bool,
    channels: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    tables, error = _outputs(target, classes, per_image, pairs)
    if target.numel():
        words, *kept = pixel_words(preds, target, classes, ignore_index, per_image, pairs, channels)
        native.function("valor_cpu", "valor_count_pixels_cpu")(
            words, tables.data_ptr(), error.data_ptr(), torch.get_num_threads()
        )
        del kept
    return tables, error


def _count_cuda(
    preds: Tensor, target: Tensor, classes: int, ignore_index: int | None, per_image: bool, pairs: bool,
    channels: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    if not target.numel():
        return _outputs(target, classes, per_image, pairs)
    with launching(target.device) as stream:
        tables = target.new_empty(table_shape(target.shape, classes, per_image, pairs), dtype=torch.int64)
        error = target.new_empty((), dtype=torch.int64)
        words, *kept = pixel_words(preds, target, classes, ignore_index, per_image, pairs, channels)
        native.function("valor_cuda", "valor_add_pixels_cuda")(
            words, sums_words(tables.data_ptr(), error.data_ptr(), stream)
        )
        del kept
    return tables, error


pack_sums = struct.Struct("13Q").pack
"""Packs a RegionSums of csrc/cuda/region_counts.h."""


def sums_words(tables: int, error: int, stream: int, *, ignored: int = 0) -> bytes:
    """Packs a RegionSums for the counts of a batch without a state: the addresses of the outputs.

    Args:
        tables: of the counts.
        error: of the error code.
        stream: on which kernels run.
        ignored: of the number of ignored pixels, 0 where nobody asks.
    """
    return pack_sums(0, 0, 0, tables, 0, 0, 0, error, 0, ignored, 0, 0, stream)


def _outputs(target: Tensor, classes: int, per_image: bool, pairs: bool) -> tuple[Tensor, Tensor]:
    tables = target.new_zeros(table_shape(target.shape, classes, per_image, pairs), dtype=torch.int64)
    return tables, torch.full((), NO_ERROR, device=target.device)


def _count_pixels_cpu(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, per_image: bool, pairs: bool
) -> tuple[Tensor, Tensor]:
    return _count_cpu(preds, target, num_classes, ignore_index, per_image, pairs, False)


def _count_pixels_cuda(
    preds: Tensor, target: Tensor, num_classes: int, ignore_index: int | None, per_image: bool, pairs: bool
) -> tuple[Tensor, Tensor]:
    return _count_cuda(preds, target, num_classes, ignore_index, per_image, pairs, False)


def _count_logits_cpu(
    logits: Tensor, target: Tensor, ignore_index: int | None, per_image: bool, pairs: bool
) -> tuple[Tensor, Tensor]:
    return _count_cpu(logits, target, logits.shape[1], ignore_index, per_image, pairs, True)


def _count_logits_cuda(
    logits: Tensor, target: Tensor, ignore_index: int | None, per_image: bool, pairs: bool
) -> tuple[Tensor, Tensor]:
    return _count_cuda(logits, target, logits.shape[1], ignore_index, per_image, pairs, True)


_BITS = {
    torch.float16: (torch.int16, 0x7FFF, 0x7C00),
    torch.bfloat16: (torch.int16, 0x7FFF, 0x7F80),
    torch.float32: (torch.int32, 0x7FFFFFFF, 0x7F800000),
    torch.float64: (torch.int64, 0x7FFFFFFFFFFFFFFF, 0x7FF0000000000000),
}
"""Of each dtype the integers of its width, all bits but the sign, and infinity: FloatBits in csrc/core/labels.h."""


def _count_logits_triton(
    logits: Tensor, target: Tensor, ignore_index: int | None, per_image: bool, pairs: bool
) -> tuple[Tensor, Tensor]:
    """Counts by Triton where its histogram has room, else by CUDA C++, or by the definition where that is missing."""
    from valor_gpu.ops.triton import pixel_counts as kernels

    classes, shape = logits.shape[1], target.shape
    inner = target.numel() // max(shape[0], 1)
    if kernels.bins_of(classes, pairs) > kernels.MOST_BINS or inner > kernels.MOST_PIXELS:
        wide = _count_logits_cuda if native.available("valor_cuda") else reference.count_logits
        return wide(logits, target, ignore_index, per_image, pairs)
    with launching(target.device):
        tables, error = _outputs(target, classes, per_image, pairs)
        if target.numel():
            placed = place_pixels(shape, (_spatial(logits), target.stride()), True)
            if placed is None:
                logits, target = logits.contiguous(), target.contiguous()
                placed = place_pixels(shape, (_spatial(logits), target.stride()), True)
            assert placed is not None  # contiguous maps have few dimensions
            integers, *constants = _BITS[logits.dtype]
            kernels.count_logits(
                logits.view(integers), target.view(torch.uint8) if target.dtype == torch.bool else target, tables,
                error, placed, logits.stride(1), code_pixels(shape), ignore_index, pairs, constants,
            )  # fmt: skip
    return tables, error


def _spatial(logits: Tensor) -> tuple[int, ...]:
    return (logits.stride(0), *logits.stride()[2:])


_COUNT_PIXELS = register(
    "count_pixels(Tensor preds, Tensor target, int num_classes, int? ignore_index, bool per_image, bool pairs)"
    " -> (Tensor, Tensor)",
    reference=reference.count_pixels,
    fake=reference.count_pixels_fake,
    cpu=cpp(_count_pixels_cpu),
    cuda=cuda(_count_pixels_cuda),
)
_COUNT_LOGITS = register(
    "count_logits(Tensor logits, Tensor target, int? ignore_index, bool per_image, bool pairs) -> (Tensor, Tensor)",
    reference=reference.count_logits,
    fake=reference.count_logits_fake,
    cpu=cpp(_count_logits_cpu),
    # On an H100 faster than Triton (73.0 and 77.0 us for 2 million pixels of 19 classes, see the design). Triton's
    # launches cost the host more, and its first launch of a form compiles for a second.
    cuda=cuda_or_triton(_count_logits_cuda, _count_logits_triton),
)
