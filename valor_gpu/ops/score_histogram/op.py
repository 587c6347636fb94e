"""Histograms of scores between thresholds, by class: every count at every threshold in one read of the scores.

Design: docs/design/003-classification.md.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_choice, check_dtype, check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import constant
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.activation.cuda import READINGS
from valor_gpu.ops.activation.op import ACTIVATIONS, activated, decided, decision, meant
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import (
    NAN_SCORE,
    NO_ERROR,
    TARGET,
    WEIGHT,
    first_error,
    pack_value,
    value_kind,
    value_row,
)
from valor_gpu.ops.score_histogram.cpu import histogram_block
from valor_gpu.ops.targets.op import (
    bad_weights,
    check_scores,
    check_target,
    check_weight,
    read_target,
    target_words,
)

POSITIVES, ALL = 0, 1
"""Rows of the histogram."""

MAX_THRESHOLDS = 2**25
"""Most thresholds: the counts of 16 columns, for positives and negatives, have places in 32 bits."""

_TRAVEL = 19  # words of Travel in csrc/cuda/sweep.cu


class ScoreHistogram(NamedTuple):
    """``histogram`` ``[2, C, T + 1]``, int64 or with weights float64: rows ``POSITIVES`` and ``ALL``; ``error`` int64
    ``[]``, see :mod:`valor_gpu.ops.error_codes`. Elements with an error count nowhere. ``outside`` int64 ``[1]`` with
    the activation ``auto``: 1 where it took the scores for logits, else 0; ``[0]`` with others.
    """

    histogram: Tensor
    error: Tensor
    outside: Tensor


def score_histogram(
    scores: Tensor,
    target: Tensor,
    thresholds: Tensor,
    *,
    ignore_index: int | None = None,
    weight: Tensor | None = None,
    activation: str = "none",
) -> ScoreHistogram:
    """Counts the scores of each class, and of its positives, that reach exactly b of the thresholds, for every b.

    A score reaches a threshold if ``score >= threshold`` in float64, without rounding of either; -0.0 equals 0.0. So
    what reaches threshold t is the sum over the buckets above t, see :mod:`valor_gpu.reduce.histogram_metrics`.

    Args:
        scores: float16, bfloat16, float32 or float64 ``[N, C]``.
        target: any integer dtype: ``[N]`` class indices, each class against the rest, or ``[N, C]`` of 0 and 1.
        thresholds: float64 ``[T]``, ascending, on the CPU; equal and infinite ones are allowed, T may be 0.
        ignore_index: rows, or with ``[N, C]`` elements, with this target are left out.
        weight: float64 ``[N]``, from 0 to 1e60.
        activation: what scores become first, in their own dtype: ``none``, ``sigmoid``, or ``softmax`` over the
            classes; with ``auto``, if one that counts lies outside [0, 1], the softmax for class indices and else the
            sigmoid. CUDA kernels make these of scores of up to 32 bits while they count, to 2 units in the last place
            of float32, 0 below 1.7e-38; elsewhere torch does.

    Returns:
        ScoreHistogram. Sums of weights run, for positives and for negatives, in row order within blocks of
        :func:`block_rows` rows, then over the blocks; ``ALL`` is the sum of both. So they have the same bits on every
        device and with any number of threads.

    Raises:
        InputError: on another shape, dtype or device, or thresholds out of order. A bad value is in ``error``, so
            that the host does not synchronise with the device.

    Example:
        >>> scores = torch.tensor([[0.1], [0.4], [0.5], [0.9]])
        >>> thresholds = torch.tensor([0.25, 0.5, 0.75]).double()
        >>> result = score_histogram(scores, torch.tensor([[0], [1], [0], [1]]), thresholds)
        >>> result.histogram[POSITIVES], result.histogram[ALL]
        (tensor([[0, 1, 0, 1]]), tensor([[1, 1, 1, 1]]))
    """
    check_thresholds(thresholds)
    check_choice("activation", activation, ACTIVATIONS)
    return histogram_of(scores, target, thresholds, ignore_index=ignore_index, weight=weight, activation=activation)


def histogram_of(
    scores: Tensor,
    target: Tensor,
    thresholds: Tensor,
    *,
    ignore_index: int | None = None,
    weight: Tensor | None = None,
    activation: str = "none",
) -> ScoreHistogram:
    """:func:`score_histogram` of thresholds that :func:`check_thresholds` saw before: reading them takes time."""
    check_scores(scores)
    check_target(target, scores)
    check_weight(weight, ("scores", scores))
    return ScoreHistogram(*_OP(scores, target, thresholds, ignore_index, weight, activation))


def check_thresholds(thresholds: Tensor) -> None:
    """Raises :class:`InputError` unless thresholds are float64 ``[T]`` on the CPU, ascending and no NaN."""
    check_shape("thresholds", thresholds, (None,))
    if len(thresholds) > MAX_THRESHOLDS:
        raise InputError(f"thresholds must be at most {MAX_THRESHOLDS} but are {len(thresholds)}")
    check_dtype("thresholds", thresholds, (torch.float64,))
    if thresholds.device.type != "cpu":
        raise InputError(f"thresholds must be on cpu but are on {thresholds.device}")
    if not bool((thresholds[1:] >= thresholds[:-1]).all()) or bool(thresholds[:1].isnan().any()):
        raise InputError("thresholds must be ascending and not NaN")


def _score_histogram_reference(
    scores: Tensor, target: Tensor, thresholds: Tensor, ignore_index: int | None, weight: Tensor | None,
    activation: str = "none",
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    outside = decision(scores, target, ignore_index, activation)
    values, (rows, classes) = decided(scores, target, activation, outside).double(), scores.shape
    labels = read_target(target, classes, ignore_index)
    counted = labels.kept if target.ndim == 2 else labels.kept[:, None].expand(rows, classes)
    hot = (
        torch.arange(classes, device=target.device) == labels.values[:, None]
        if target.ndim == 1
        else labels.values == 1
    )
    nan = values.isnan() & counted
    used, errors = counted & ~nan, [(labels.bad, TARGET), (nan, NAN_SCORE)]
    if weight is not None:
        wrong = bad_weights(weight)[:, None] & counted
        used, errors = used & ~wrong, [*errors, (wrong, WEIGHT)]
    buckets = torch.searchsorted(thresholds.to(scores.device), values.contiguous(), right=True)
    size = len(thresholds) + 1
    cells = (hot * classes + torch.arange(classes, device=scores.device)) * size + buckets
    block = histogram_block(rows, len(thresholds))
    counts = _count_cells(cells, used, 2 * classes * size, weight, block).view(2, classes, size)
    error = _naming_nan(first_error(errors), scores, meant(activation, target))
    return torch.stack((counts[1], counts[0] + counts[1])), error, outside.long()


def _count_cells(cells: Tensor, used: Tensor, size: int, weight: Tensor | None, block: int) -> Tensor:
    """Elements, or sums of weights, of each cell: in row order within a block of rows, then in order of the blocks."""
    if weight is None:
        return torch.bincount(cells[used], minlength=size)
    total = torch.zeros(size, dtype=torch.float64, device=cells.device)
    for first in range(0, len(cells), block):
        here, chosen = cells[first : first + block], used[first : first + block]
        spread = weight[first : first + block, None].expand_as(here)
        total += torch.zeros_like(total).index_put_((here[chosen],), spread[chosen], accumulate=True)
    return total


def _score_histogram_cpu(
    scores: Tensor, target: Tensor, thresholds: Tensor, ignore_index: int | None, weight: Tensor | None,
    activation: str = "none",
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    outside = torch.zeros(int(activation == "auto"), dtype=torch.int64)
    if activation == "none" or scores.numel() == 0:
        return *_count_cpu(scores, target, thresholds, ignore_index, weight), outside
    if activation == "auto":  # decided in the read that counts, which ends where it finds logits
        found = _count_cpu(scores, target, thresholds, ignore_index, weight, outside)
        if not outside.item():
            return *found, outside
        outside = torch.ones_like(outside)
    how = meant(activation, target)
    histogram, error = _count_cpu(activated(scores, how), target, thresholds, ignore_index, weight)
    return histogram, _naming_nan(error, scores, how) if error != NO_ERROR else error, outside


def _naming_nan(error: Tensor, scores: Tensor, how: str) -> Tensor:
    """``error``; if a NaN made a whole row of the softmax NaN, its place, and not the first of the row."""
    if how != "softmax" or scores.numel() == 0:
        return error
    row = value_row(error).clamp(max=len(scores) - 1)
    nan = scores.index_select(0, row.reshape(1))[0].isnan()
    named = pack_value(row, nan.to(torch.uint8).argmax(), NAN_SCORE)
    return torch.where((value_kind(error) == NAN_SCORE) & nan.any(), named, error)


def _count_cpu(
    scores: Tensor, target: Tensor, thresholds: Tensor, ignore_index: int | None, weight: Tensor | None,
    outside: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """With ``outside``, int64 ``[1]`` of 0: counts up to the first score that counts and lies outside [0, 1]."""
    scores, target, thresholds = scores.contiguous(), target.contiguous(), thresholds.contiguous()
    weight = None if weight is None else weight.contiguous()
    (rows, classes), count = scores.shape, len(thresholds)
    histogram = torch.zeros((2, classes, count + 1), dtype=torch.int64 if weight is None else torch.float64)
    error = torch.empty((), dtype=torch.int64)
    arguments = (
        scores.data_ptr(), FLOAT_TYPES[scores.dtype], rows, target_words(target, classes, ignore_index),
        thresholds.data_ptr(), count, 0 if weight is None else weight.data_ptr(), histogram_block(rows, count),
        histogram.data_ptr(), error.data_ptr(),
    )  # fmt: skip
    if outside is None:
        sweep = native.function("valor_cpu", "valor_sweep_cpu", "pqqppqpqppq")
        sweep(*arguments, torch.get_num_threads())
    else:
        sweep = native.function("valor_cpu", "valor_sweep_probabilities_cpu", "pqqppqpqpppq")
        sweep(*arguments, outside.data_ptr(), torch.get_num_threads())
    return histogram, error


@functools.lru_cache(64)
def _lookup(thresholds: bytes, wide: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The numbers and the tables by which CUDA kernels look float64 thresholds up, ``wide`` for float64 scores."""
    look_up = native.function("valor_cuda", "valor_sweep_lookup_cuda", "pqqpp")
    words, count = np.empty(_TRAVEL, dtype=np.int64), len(thresholds) // 8
    look_up(thresholds, count, wide, 0, words.ctypes.data)
    tables = np.zeros(-(-int(words[0]) // 8), dtype=np.int64)
    look_up(thresholds, count, wide, tables.ctypes.data, words.ctypes.data)
    return words, tables


def tables_on(thresholds: Tensor, wide: bool, device: torch.device) -> tuple[NDArray[np.int64], Tensor]:
    """Returns the numbers of thresholds for the host and their tables on the device; the first use synchronises."""
    words, tables = _lookup(thresholds.contiguous().numpy().tobytes(), wide)
    return words, constant(tables, device)


def _score_histogram_cuda(
    scores: Tensor, target: Tensor, thresholds: Tensor, ignore_index: int | None, weight: Tensor | None,
    activation: str = "none",
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    scores, target, thresholds = scores.contiguous(), target.contiguous(), thresholds.contiguous()
    words, tables = _lookup(thresholds.numpy().tobytes(), scores.dtype == torch.float64)
    with launching(scores.device) as stream:
        on_device = constant(tables, scores.device)
        task = (
            FLOAT_TYPES[scores.dtype], len(scores), target_words(target, scores.shape[1], ignore_index),
            on_device.data_ptr(), words.ctypes.data,
        )  # fmt: skip
        histogram, error, outside = _score_histogram_fake(scores, target, thresholds, ignore_index, weight, activation)
        found = histogram.zero_(), error.fill_(NO_ERROR)
        if activation == "none" or not scores.numel():
            _count_cuda(scores, target, weight, task, found, stream)
            return *found, outside.zero_()
        if weight is None and _count_activated_cuda(scores, target, activation, task, (*found, outside), stream):
            return *found, outside
        outside = decision(scores, target, ignore_index, activation)
        made = decided(scores, target, activation, outside)
        _count_cuda(made, target, weight, task, found, stream)
        return found[0], _naming_nan(found[1], scores, meant(activation, target)), outside.long()


def _count_cuda(
    scores: Tensor, target: Tensor, weight: Tensor | None, task: tuple[Any, ...], found: tuple[Tensor, Tensor],
    stream: int,
) -> None:  # fmt: skip
    (rows, classes), count = scores.shape, found[0].shape[2] - 1
    block = histogram_block(rows, count)
    if weight is None:
        workspace = _flags(scores, target)
    else:
        weight = weight.contiguous()
        workspace = scores.new_zeros((-(-rows // block), classes, 2, count + 2), dtype=torch.float64)
    native.function("valor_cuda", "valor_sweep_cuda", "pqqppppqpppp")(
        scores.data_ptr(), *task, 0 if weight is None else weight.data_ptr(), block, workspace.data_ptr(),
        *(part.data_ptr() for part in found), stream,
    )  # fmt: skip


def _count_activated_cuda(
    scores: Tensor, target: Tensor, activation: str, task: tuple[Any, ...], found: tuple[Tensor, ...], stream: int
) -> bool:
    """Counts the probabilities that a kernel makes of the scores; False, and nothing is counted, if none does."""
    how = meant(activation, target)
    if scores.dtype == torch.float64 or how != meant("auto", target):
        return False
    shares = scores.new_empty((len(scores) + 1, 2) if how == "softmax" else 0, dtype=torch.float32)
    *counted, outside = found  # where a score lies outside, the kernel writes 1 to the low word
    outside.zero_()
    flags, served = _flags(scores, target), ctypes.c_int64()
    native.function("valor_cuda", "valor_sweep_activated_cuda", "pqqpppqppppppp")(
        scores.data_ptr(), *task, READINGS[how], flags.data_ptr(), shares.data_ptr(),
        outside.data_ptr() if activation == "auto" else 0, *(part.data_ptr() for part in counted),
        ctypes.addressof(served), stream,
    )  # fmt: skip
    return bool(served.value)


def _flags(scores: Tensor, target: Tensor) -> Tensor:
    """A byte of scratch for each row of class indices."""
    return scores.new_empty(0 if target.ndim == 2 else len(scores), dtype=torch.uint8)


def _score_histogram_fake(
    scores: Tensor, target: Tensor, thresholds: Tensor, ignore_index: int | None, weight: Tensor | None,
    activation: str = "none",
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    dtype = torch.int64 if weight is None else torch.float64
    shape = (2, scores.shape[1], thresholds.shape[0] + 1)
    outside = scores.new_empty(int(activation == "auto"), dtype=torch.int64)
    return scores.new_empty(shape, dtype=dtype), scores.new_empty((), dtype=torch.int64), outside


_OP = register(
    "score_histogram(Tensor scores, Tensor target, Tensor thresholds, int? ignore_index, Tensor? weight,"
    " str activation='none') -> (Tensor, Tensor, Tensor)",
    reference=_score_histogram_reference,
    fake=_score_histogram_fake,
    cpu=cpp(_score_histogram_cpu),
    cuda=cuda(_score_histogram_cuda),
)
