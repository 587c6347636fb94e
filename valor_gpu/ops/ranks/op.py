"""Exact ROC AUC, average precision, and the points of the curves behind them, from ranked scores.

Ties are merged: elements of equal score, -0.0 and 0.0 among them, are one point of a curve. Elements whose weight is 0
are left out, as in scikit-learn. Unweighted results are whole numbers to the end, so that no order and no split of the
rows changes a bit. How weighted sums are ordered: :func:`running_sums` and :func:`lane_sum`.
"""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.argument_docs import arguments_of
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import register
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import NAN_SCORE, NO_ERROR, TARGET, WEIGHT, first_error
from valor_gpu.ops.ranks import cuda as _ranks_cuda
from valor_gpu.ops.score_histogram.cpu import CURVE_ROOM
from valor_gpu.ops.targets import op as targets

LANES = 256
"""Parts of a sum; kLanes in csrc/core/ranks.h."""


_MAX_ROWS = 1 << 31  # kernels keep a row and its side in 32 bits
_SMALL = 1 << 12  # elements of small_rank_curves
_ARRAYS = {torch.float16: np.float16, torch.float32: np.float32, torch.float64: np.float64}


class AurocAndAp(NamedTuple):
    """Area under the ROC curve and average precision of every class.

    Attributes:
        values: float64 ``[2, C]``: ROC AUC, NaN without positives or without negatives; average precision, NaN without
            positives.
        totals: ``[2, C]`` positives and negatives: int64 counts, or float64 weights.
        error: int64 ``[]``, see :mod:`valor_gpu.ops.error_codes`. Unless it is ``NO_ERROR`` the rest means nothing.
    """

    values: Tensor
    totals: Tensor
    error: Tensor


class RankCurves(NamedTuple):
    """Points of the curves of every class, one per distinct score, the largest first.

    Attributes:
        thresholds: ``[P]`` in the dtype of the scores.
        tp: ``[P]`` positives at or above the threshold: int64 counts, or float64 weights.
        fp: ``[P]`` negatives at or above the threshold: int64 counts, or float64 weights.
        offsets: int64 ``[C + 1]``: the points of class c are ``offsets[c]`` to ``offsets[c + 1]``.
        error: int64 ``[]``, see :mod:`valor_gpu.ops.error_codes`. Unless it is ``NO_ERROR`` the rest means nothing.
    """

    thresholds: Tensor
    tp: Tensor
    fp: Tensor
    offsets: Tensor
    error: Tensor


def auroc_and_ap(
    scores: Tensor, target: Tensor, *, ignore_index: int | None = None, weight: Tensor | None = None
) -> AurocAndAp:
    """Computes the exact area under the ROC curve and average precision of every class against the rest.

    ROC AUC is the fraction of pairs of a positive and a negative in which the positive has the larger score, a tie
    being half a pair (Hanley and McNeil, 1982). Average precision is the mean over positives of the precision among all
    that score at least as high, which is scikit-learn's ``sum (R_n - R_{n-1}) P_n`` over distinct scores.

    Memory beyond contiguous input: docs/design/003-classification.md.

    Args:
        scores: floating ``[N, C]``, any value but NaN.
        target: integers: ``[N]`` class indices, or ``[N, C]`` of 0 and 1.
        ignore_index: target value that leaves out a row, or one element of ``[N, C]``; its scores are not looked at.
        weight: float64 ``[N]``, from 0 to 1e60; weights of rows that are left out are not looked at.

    Returns:
        Values and totals on the device of ``scores``, without synchronising.

    Raises:
        InputError: shapes, dtypes or devices that do not fit.

    Example:
        >>> scores = torch.tensor([[0.9], [0.8], [0.8], [0.1]])
        >>> result = auroc_and_ap(scores, torch.tensor([[1], [1], [0], [0]]))
        >>> result.values[:, 0].tolist()
        [0.875, 0.8333333333333333]
        >>> result.totals.tolist()
        [[2], [2]]
    """
    _check(scores, target, weight)
    return AurocAndAp(*_AUROC_AND_AP(scores, target, ignore_index, weight))


@arguments_of(auroc_and_ap)
def rank_curves(
    scores: Tensor, target: Tensor, *, ignore_index: int | None = None, weight: Tensor | None = None
) -> RankCurves:
    """Counts what is at or above each distinct score of every class: the points of exact curves.

    The size of the result depends on the scores, so that on CUDA the host synchronises with the device.

    Returns:
        The points of all classes, on the device of ``scores``.

    Raises:
        InputError: shapes, dtypes or devices that do not fit.

    Example:
        >>> scores = torch.tensor([[0.75], [0.5], [0.5], [0.25]])
        >>> result = rank_curves(scores, torch.tensor([[1], [1], [0], [0]]))
        >>> result.thresholds.tolist(), result.tp.tolist(), result.fp.tolist()
        ([0.75, 0.5, 0.25], [1, 2, 2], [0, 1, 2])
    """
    _check(scores, target, weight)
    return RankCurves(*_CURVES(scores, target, ignore_index, weight))


class SmallCurves(NamedTuple):
    """What :class:`RankCurves` holds, as NumPy arrays ``[C, N]`` whose rows begin with the points of a class.

    Attributes:
        thresholds: in the dtype of the scores.
        tp: int64, or float64 with weights.
        fp: int64, or float64 with weights.
        counts: points of each class.
    """

    thresholds: NDArray[Any]
    tp: NDArray[Any]
    fp: NDArray[Any]
    counts: list[int]


def small_rank_curves(
    scores: Tensor, target: Tensor, *, ignore_index: int | None = None, weight: Tensor | None = None
) -> SmallCurves | None:
    """The points of :func:`rank_curves` of few elements on the CPU, which take less time than the way to the op.

    Returns:
        None where :func:`rank_curves` has to serve: there are many elements, NumPy lacks their dtype, a value is bad.
    """
    small = scores.is_cpu and scores.numel() <= _SMALL and scores.dtype in _ARRAYS
    if not small or torch._C._len_torch_dispatch_stack() or not native.available("valor_cpu"):
        return None
    _check(scores, target, weight)
    words, _held = _input_words(scores, target, ignore_index, weight)
    rows, classes = scores.shape
    size = rows * classes
    room = np.empty(3 * size + classes + 1, np.int64)  # thresholds, tp, fp, how many of each class, error code
    begin = room.ctypes.data
    starts = [begin + 8 * start for start in (0, size, 2 * size, 3 * size, 3 * size + classes)]
    native.function("valor_cpu", "valor_rank_curves_cpu", "pqqpppppq")(words, 0, classes, *starts, 1)
    *counts, error = room[3 * size :].tolist()
    if error != NO_ERROR:
        return None
    tp, fp = room[size : 3 * size].view(np.int64 if weight is None else np.float64).reshape(2, classes, rows)
    return SmallCurves(room.view(_ARRAYS[scores.dtype])[:size].reshape(classes, rows), tp, fp, counts)


def _check(scores: Tensor, target: Tensor, weight: Tensor | None) -> None:
    targets.check_scores(scores)
    if scores.shape[0] >= _MAX_ROWS:
        raise InputError(f"scores must have fewer than 2^31 rows but has {scores.shape[0]}")
    targets.check_target(target, scores)
    targets.check_weight(weight, ("scores", scores))


# ------------------------------------------------------------------------------------------------------- definitions


class _Ranked(NamedTuple):
    """Elements of one class by descending score, equal ones in input order; tp and fp up to each, and its tie group."""

    scores: Tensor
    positive: Tensor
    weight: Tensor
    tp: Tensor
    fp: Tensor
    first: Tensor
    last: Tensor


def running_sums(values: Tensor) -> Tensor:
    """Sums up to each value. float64 ones go in ``LANES`` parts of ``ceil(n / LANES)`` values.

    Each is the sum of the whole parts before plus the sum in its own part, which keeps them from falling.
    """
    if not values.is_floating_point() or values.numel() == 0:
        return values.cumsum(0)
    size = -(-values.numel() // LANES)
    parts = values.new_zeros(LANES * size)
    parts[: values.numel()] = values
    inside = parts.reshape(LANES, size).cumsum(1)
    before = inside[:, -1].cumsum(0)
    return (torch.cat((before.new_zeros(1), before[:-1]))[:, None] + inside).reshape(-1)[: values.numel()]


def lane_sum(values: Tensor) -> Tensor:
    """float64 sum: lane k adds values k, k + LANES and so on, then the upper half of the lanes joins the lower."""
    rows = -(-values.numel() // LANES)
    lanes = values.new_zeros(rows * LANES)
    lanes[: values.numel()] = values
    total = values.new_zeros(LANES)
    for row in lanes.reshape(rows, LANES):
        total = total + row
    while total.numel() > 1:
        half = total.numel() // 2
        total = total[:half] + total[half:]
    return total[0]


def _rank(scores: Tensor, positive: Tensor, weight: Tensor | None) -> _Ranked:
    weights = positive.new_ones(positive.shape, dtype=torch.int64) if weight is None else weight
    counts = weights > 0
    scores, positive, weights = scores[counts], positive[counts], weights[counts]
    keys = scores.double() + 0.0  # makes -0.0 0.0
    order = keys.argsort(descending=True, stable=True)
    positive, weights = positive[order], weights[order]
    _, group, sizes = keys[order].unique_consecutive(return_inverse=True, return_counts=True)
    ends = sizes.cumsum(0)
    zero = torch.zeros_like(weights)
    tp, fp = (running_sums(torch.where(side, weights, zero)) for side in (positive, ~positive))
    return _Ranked(scores[order] + 0.0, positive, weights, tp, fp, (ends - sizes)[group], ends[group] - 1)


def _values_of(ranked: _Ranked) -> tuple[list[Tensor], list[Tensor]]:
    """ROC AUC and average precision, then weight of positives and negatives."""
    zero, nan = ranked.weight.new_zeros(1), ranked.scores.new_full((), torch.nan, dtype=torch.float64)
    total_tp, total_fp = (torch.cat((zero, sums))[-1] for sums in (ranked.tp, ranked.fp))
    last, first, weight = (x[ranked.positive] for x in (ranked.last, ranked.first, ranked.weight))
    tp, fp, above = ranked.tp[last], ranked.fp[last], torch.cat((zero, ranked.fp))[first]
    wins = weight * ((total_fp - fp) + (total_fp - above))  # twice the pairs won, a tie once
    sum_wins = lane_sum(wins) if wins.is_floating_point() else wins.sum()
    precision = tp.double() / (tp + fp).double()
    average = lane_sum(weight * precision) / total_tp.double()
    auc = sum_wins.double() / (2 * total_tp * total_fp).double()
    some, both = total_tp > 0, (total_tp > 0) & (total_fp > 0)
    return [torch.where(both, auc, nan), torch.where(some, average, nan)], [total_tp, total_fp]


def _classes(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[list[_Ranked], Tensor]:
    """Every class, ranked, and the error code."""
    labels = targets.read_target(target, scores.shape[1], ignore_index)
    counted_elements = labels.kept if target.ndim == 2 else labels.kept[:, None].expand(scores.shape)
    nan = scores.isnan()
    masks = [(labels.bad, TARGET), (nan & counted_elements, NAN_SCORE)]
    if weight is not None:
        counted = labels.kept.any(1) if target.ndim == 2 else labels.kept
        masks.append((targets.bad_weights(weight) & counted, WEIGHT))
    ranked = []
    for c in range(scores.shape[1]):
        rows = counted_elements[:, c] & ~nan[:, c]
        positive = labels.values[:, c] == 1 if target.ndim == 2 else labels.values == c
        ranked.append(_rank(scores[rows, c], positive[rows], None if weight is None else weight[rows]))
    return ranked, first_error(masks)


def _auroc_and_ap_reference(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    ranked, error = _classes(scores, target, ignore_index, weight)
    results = [_values_of(column) for column in ranked]
    values, totals = (torch.stack([torch.stack(pair[i]) for pair in results], 1) for i in (0, 1))
    return values, totals, error


def _auroc_and_ap_fake(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    values = scores.new_empty((2, scores.shape[1]), dtype=torch.float64)
    totals = torch.empty_like(values, dtype=torch.int64 if weight is None else torch.float64)
    return values, totals, scores.new_empty((), dtype=torch.int64)


def _curves_reference(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    ranked, error = _classes(scores, target, ignore_index, weight)
    points = [column.last.unique_consecutive() for column in ranked]
    thresholds, tp, fp = (
        torch.cat([getattr(column, name)[index] for column, index in zip(ranked, points)])
        for name in ("scores", "tp", "fp")
    )
    ends = torch.tensor([0, *(len(index) for index in points)], device=scores.device).cumsum(0)
    return thresholds, tp, fp, ends, error


def _curves_fake(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    size = torch.library.get_ctx().new_dynamic_size()
    tp, fp = (scores.new_empty(size, dtype=torch.int64 if weight is None else torch.float64) for _ in range(2))
    offsets = scores.new_empty(scores.shape[1] + 1, dtype=torch.int64)
    return scores.new_empty(size), tp, fp, offsets, scores.new_empty((), dtype=torch.int64)


def _input_words(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[bytes, tuple[Tensor | None, ...]]:
    """The RankInput of csrc/cpu/rank_tiles.h, and the contiguous tensors that must outlive it."""
    scores, target = scores.contiguous(), target.contiguous()
    weight = None if weight is None else weight.contiguous()
    words = struct.pack(
        "4q", scores.data_ptr(), FLOAT_TYPES[scores.dtype], scores.shape[0], 0 if weight is None else weight.data_ptr()
    )
    return words + targets.target_words(target, scores.shape[1], ignore_index), (scores, target, weight)


def _auroc_and_ap_cpu(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    words, _held = _input_words(scores, target, ignore_index, weight)
    values, totals, error = _auroc_and_ap_fake(scores, target, ignore_index, weight)
    native.function("valor_cpu", "valor_auroc_and_ap_cpu", "ppppq")(
        words, values.data_ptr(), totals.data_ptr(), error.data_ptr(), torch.get_num_threads()
    )
    return values, totals, error


def _curves_cpu(
    scores: Tensor, target: Tensor, ignore_index: int | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    words, _held = _input_words(scores, target, ignore_index, weight)
    rows, classes = scores.shape
    width = min(classes, max(1, CURVE_ROOM // max(1, rows)))
    sums = torch.int64 if weight is None else torch.float64
    room = scores.new_empty(width * rows), *(torch.empty(width * rows, dtype=sums) for _ in range(2))
    counts, errors = torch.empty(classes, dtype=torch.int64), torch.empty(-(-classes // width), dtype=torch.int64)
    addresses = [part.data_ptr() for part in (*room, counts, errors)]
    run, threads = native.function("valor_cpu", "valor_rank_curves_cpu", "pqqpppppq"), torch.get_num_threads()
    columns: list[list[Tensor]] = [[], [], []]
    ends: list[int] = []
    for call, column in enumerate(range(0, classes, width)):
        size = min(width, classes - column)
        run(words, column, size, *addresses[:3], addresses[3] + 8 * column, addresses[4] + 8 * call, threads)
        found = counts.tolist()[column : column + size]
        ends += found
        for parts, part in zip(columns, room):
            points = [part[j * rows : j * rows + end] for j, end in enumerate(found)]
            parts.append(points[0] if classes == 1 else torch.cat(points))  # the next call writes over the room
    thresholds, tp, fp = (parts[0] if len(parts) == 1 else torch.cat(parts) for parts in columns)
    error = errors[0] if len(errors) == 1 else errors.min()
    return thresholds, tp, fp, torch.tensor([0, *accumulate(ends)]), error


_ARGUMENTS = "(Tensor scores, Tensor target, int? ignore_index, Tensor? weight)"

_AUROC_AND_AP = register(
    f"auroc_and_ap{_ARGUMENTS} -> (Tensor, Tensor, Tensor)",
    reference=_auroc_and_ap_reference,
    fake=_auroc_and_ap_fake,
    cpu=cpp(_auroc_and_ap_cpu),
    cuda=cuda(_ranks_cuda.auroc_and_ap),
)
_CURVES = register(
    f"rank_curves{_ARGUMENTS} -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    reference=_curves_reference,
    fake=_curves_fake,
    cpu=cpp(_curves_cpu),
    cuda=cuda(_ranks_cuda.rank_curves),
    launches=("auroc_and_ap",),
)
