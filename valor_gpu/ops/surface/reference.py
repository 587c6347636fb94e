"""Definition in plain torch of :func:`valor_gpu.ops.surface.op.surface_distances`, and its shapes and dtypes."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

_LANES = 256  # kSumLanes in csrc/core/surface.h
_AT_ONCE = 1 << 22  # pairs of pixels whose distances are made together


def surface_distances(
    preds: Tensor, target: Tensor, rule: Sequence[int], numbers: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.surface.op.surface_distances`.

    Args:
        preds: labels or masks.
        target: likewise.
        rule: metric, first class, number of classes.
        numbers: spacing of each axis, quantile, tolerance.
    """
    metric, first, classes = rule
    *spacing, quantile, tolerance = numbers
    counts, statistics = fake(preds, target, rule, numbers)
    counts.zero_()
    statistics.fill_(math.nan)
    for image in range(len(preds)):
        for label in range(first, classes):
            masks = [
                side[image, label] if side.dtype == torch.bool else side[image] == label for side in (preds, target)
            ]
            places = [boundary(mask).nonzero() for mask in masks]
            for side in range(2):
                here, there = places[side], places[1 - side]
                counts[image, label - first, side, 0] = len(here)
                if len(here) and len(there):
                    distances = nearest(here, there, metric, spacing)
                    counts[image, label - first, side, 1] = (distances <= tolerance).sum()
                    numbers_of = (lane_sum(distances), distances.max(), percentile(distances, quantile))
                    statistics[image, label - first, side] = torch.stack(numbers_of)
    return counts, statistics


def boundary(mask: Tensor) -> Tensor:
    """The pixels of a bool mask that have a neighbour along an axis outside of it, or of the image."""
    inner = mask.clone()
    for axis in range(mask.ndim):
        length = mask.shape[axis]
        edge = torch.zeros_like(mask.narrow(axis, 0, min(1, length)))
        inner &= torch.cat((edge, mask.narrow(axis, 0, max(length - 1, 0))), axis)
        inner &= torch.cat((mask.narrow(axis, min(1, length), max(length - 1, 0)), edge), axis)
    return mask & ~inner


def nearest(here: Tensor, there: Tensor, metric: int, spacing: Sequence[float]) -> Tensor:
    """The distance of each place ``[N, axes]`` to the nearest of other places ``[M, axes]``, float64 ``[N]``.

    Costs of the axes are added as kernels do: rows, then planes, then columns.
    """
    parts = []
    for chunk in here.split(max(1, _AT_ONCE // len(there))):
        steps = (chunk[:, None] - there).abs().double() * torch.tensor(spacing, dtype=torch.float64, device=here.device)
        *planes, rows, columns = (steps.square() if metric == 0 else steps).unbind(-1)
        join = torch.maximum if metric == 1 else torch.add
        cost = functools.reduce(join, (rows, *planes, columns)).amin(1)
        parts.append(_root(cost) if metric == 0 else cost)
    return torch.cat(parts)


def _root(values: Tensor) -> Tensor:
    """The rounded square root: on the CPU that of numpy, since torch's (of MKL) may miss the last bit."""
    return values.sqrt() if values.is_cuda else torch.from_numpy(np.sqrt(values.numpy()))


def lane_sum(values: Tensor) -> Tensor:
    """The sum of ``[N]`` in the order of the kernels: value i to lane i modulo 256, then halves on halves."""
    padded = torch.nn.functional.pad(values, (0, -len(values) % _LANES)).reshape(-1, _LANES)
    lanes = functools.reduce(torch.add, padded.unbind())
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return lanes[0]


def percentile(values: Tensor, quantile: float) -> Tensor:
    """What ``numpy.percentile(values, 100 * quantile)`` gives, to the bit."""
    ordered, place = values.sort().values, (len(values) - 1) * quantile
    lower = min(math.floor(place), len(values) - 1)
    low, high = ordered[lower], ordered[min(lower + 1, len(values) - 1)]
    part = place - math.floor(place)
    return high - (high - low) * (1 - part) if part >= 0.5 else low + (high - low) * part


def fake(preds: Tensor, target: Tensor, rule: Sequence[int], numbers: Sequence[float]) -> tuple[Tensor, Tensor]:
    """Shapes and dtypes of ``surface_distances``."""
    shape = (len(preds), rule[2] - rule[1], 2)
    return preds.new_empty((*shape, 2), dtype=torch.int64), preds.new_empty((*shape, 3), dtype=torch.float64)
