"""ROC AUC and average precision of resampled rows, on the CPU; :func:`by_copies` defines them."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops.ranks.op import _input_words, auroc_and_ap

Floats = NDArray[np.float64]


class RanksOfDraws(NamedTuple):
    """Numbers of each class and replicate.

    Attributes:
        values: float64 ``[C, L]``; NaN where the number does not exist.
        positives: float64 ``[C, L]``, counts or sums of weights.
        negatives: likewise.
    """

    values: Floats
    positives: Floats
    negatives: Floats


def resampled_ranks(
    scores: Tensor,
    target: Tensor,
    draws: NDArray[np.uint8],
    *,
    average: bool,
    ignore_index: int | None = None,
    weight: Tensor | None = None,
) -> RanksOfDraws:
    """Computes a number of every class for every replicate, from CPU tensors whose values are known to be good.

    A row that is drawn w times counts as w copies of it side by side, so that the numbers have the bits of
    :func:`valor_gpu.ops.ranks.op.auroc_and_ap` of the copies.

    Args:
        scores: floating ``[N, C]``.
        target: integers ``[N]`` or ``[N, C]``.
        draws: ``[U, L]`` how often a unit is drawn; N / U rows that follow each other are a unit.
        average: whether the number is the average precision; else the ROC AUC.
        ignore_index: target value that leaves out a row, or an element.
        weight: float64 ``[N]``.
    """
    if not native.usable("valor_cpu"):
        return by_copies(scores, target, draws, average=average, ignore_index=ignore_index, weight=weight)
    words, _held = _input_words(scores, target, ignore_index, weight)
    draws = np.ascontiguousarray(draws)
    (units, lanes), (rows, classes) = draws.shape, scores.shape
    values, totals = np.empty((classes, lanes)), np.empty((2, classes, lanes))
    error = np.empty(1, np.int64)
    addresses = values.ctypes.data, totals.ctypes.data
    call = struct.pack("6q", draws.ctypes.data, lanes, rows // max(units, 1) or 1, average, *addresses)
    run = native.function("valor_cpu", "valor_resampled_ranks_cpu", "pppq")
    run(words, call, error.ctypes.data, torch.get_num_threads())
    return RanksOfDraws(values, *totals)


def by_copies(
    scores: Tensor,
    target: Tensor,
    draws: NDArray[np.uint8],
    *,
    average: bool,
    ignore_index: int | None = None,
    weight: Tensor | None = None,
) -> RanksOfDraws:
    """Computes what :func:`resampled_ranks` does, of the rows written out."""
    found = np.empty((3, scores.shape[1], draws.shape[1]))
    per_unit = len(scores) // max(len(draws), 1)
    for lane in range(draws.shape[1]):
        units = np.repeat(np.arange(len(draws)), draws[:, lane])
        rows = torch.from_numpy((units[:, None] * per_unit + np.arange(per_unit)).reshape(-1))
        copies = None if weight is None else weight[rows]
        made = auroc_and_ap(scores[rows], target[rows], ignore_index=ignore_index, weight=copies)
        found[:, :, lane] = torch.stack((made.values[int(average)], *made.totals.double())).numpy()
    return RanksOfDraws(*found)
