"""Definition in plain torch of the op in :mod:`valor_gpu.ops.resampled_means.op`.

A unit of weight w is w adjacent copies of its image. So a replicate is the accumulation, as
:mod:`valor_gpu.ops.accumulate.reference` defines it, of a data set in which the image stands w times: records by
(class, score descending, unit, copy, place in the image), ground truths counted w times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.ops.accumulate import reference as accumulation
from valor_gpu.ops.accumulate.record_rows import detection_scores
from valor_gpu.ops.accumulate.types import Curves


def resampled_means(
    detections: Tensor, order: Tensor, offsets: Tensor, record_units: Tensor, truths: Tensor, truth_offsets: Tensor,
    truth_units: Tensor, weights: Tensor, recall_thresholds: Tensor, sizes: list[int], picks: Tensor,
    pick_thresholds: Tensor, flags: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """See :func:`valor_gpu.ops.resampled_means.op.resampled_means`."""
    (full,) = flags
    groups = _groups(detections, order, offsets, record_units)
    classes, replicates = len(offsets) - 1, weights.shape[1]
    found = [weights.new_empty((replicates, n), dtype=torch.float64) for n in (len(picks), classes, classes)]
    for index in range(replicates):
        column = weights[:, index].long()
        rows, ends = _repeated(order, offsets, groups, column[record_units.long()])
        positives = _positives(truths, truth_offsets, column[truth_units.long()], sizes[1])
        curves = accumulation.precision_recall(detections, rows, ends, positives, recall_thresholds, sizes, full, 0)
        found[0][index] = accumulation.present_means(curves.precision, curves.recall, picks, pick_thresholds)
        for out, values in zip(found[1:], _class_means(curves)):
            out[index] = torch.from_numpy(values)
    return found[0], found[1], found[2]


def resampled_means_fake(
    detections: Tensor, order: Tensor, offsets: Tensor, record_units: Tensor, truths: Tensor, truth_offsets: Tensor,
    truth_units: Tensor, weights: Tensor, recall_thresholds: Tensor, sizes: list[int], picks: Tensor,
    pick_thresholds: Tensor, flags: list[bool],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Shapes and dtypes of ``resampled_means``."""
    replicates, classes = weights.shape[1], offsets.shape[0] - 1
    widths: tuple[Any, ...] = (picks.shape[0], classes, classes)
    found = [weights.new_empty((replicates, width), dtype=torch.float64) for width in widths]
    return found[0], found[1], found[2]


def _groups(detections: Tensor, order: Tensor, offsets: Tensor, record_units: Tensor) -> Tensor:
    """int64 ``[N]``: number of the run of records of one class, score and unit; copies of such a run follow it."""
    scores = detection_scores(detections[order, :8])
    classes = torch.repeat_interleave(torch.arange(len(offsets) - 1, device=order.device), offsets.diff())
    tied = (scores[1:] == scores[:-1]) | (scores[1:].isnan() & scores[:-1].isnan())
    tied &= (classes[1:] == classes[:-1]) & (record_units[1:] == record_units[:-1])
    return torch.cat((order.new_zeros(min(1, len(order))), (~tied).long().cumsum(0)))


def _repeated(order: Tensor, offsets: Tensor, groups: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Order and offsets of records that stand as often as their weights say."""
    places = torch.repeat_interleave(torch.arange(len(order), device=order.device), weights)
    copies = torch.arange(len(places), device=order.device) - (weights.cumsum(0) - weights)[places]
    by_copy = torch.sort(copies, stable=True).indices
    by_group = by_copy[torch.sort(groups[places[by_copy]], stable=True).indices]
    ends = torch.cat((weights.new_zeros(1), weights.cumsum(0)))
    return order[places[by_group]], ends[offsets]


def _positives(truths: Tensor, truth_offsets: Tensor, weights: Tensor, areas: int) -> Tensor:
    """int64 ``[K, A]`` ground truths that count, each as often as its weight says."""
    bits = [(truths[:, a // 8] >> a % 8 & 1).long() * weights for a in range(areas)]
    sums = torch.stack([torch.cat((weights.new_zeros(1), bit.cumsum(0))) for bit in bits], 1)
    return sums[truth_offsets].diff(dim=0)


def _class_means(curves: Curves) -> list[Any]:
    """float64 ``[K]`` of precision and of recall in the first area range at the last limit."""
    precision, recall = curves.precision[:, :, :, 0, -1].cpu().numpy(), curves.recall[:, :, 0, -1].cpu().numpy()
    return [_present_means(np.moveaxis(precision, 2, 0)), _present_means(recall.T)]


def _present_means(values: Any) -> Any:
    """float64 ``[K]``: mean of each class, in the order of summation of numpy's mean over a contiguous array."""
    means = np.full(len(values), np.nan)
    for k, one in enumerate(np.ascontiguousarray(values)):
        if one.size and one.flat[0] > -1:  # a class is absent as a whole or not at all
            means[k] = one.mean()
    return means
