"""Definition of the op in :mod:`valor_gpu.ops.grouped_means.op`: one accumulation for each group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.ops.accumulate import reference as _accumulate_reference
from valor_gpu.ops.accumulate.types import AccumulateChoices, Accumulated, Curves, PickTable, RecordShape
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS

Run = Callable[[Tensor, Tensor, Tensor, AccumulateChoices], Accumulated]

_ROWS = [IMAGE_COLUMNS.index(name) for name in ("DETECTIONS", "GROUND_TRUTHS")]


def grouped_means(
    detections: Tensor, ground_truths: Tensor, images: Tensor, units: Tensor, group_offsets: Tensor,
    group_units: Tensor, labels: Tensor, recall_thresholds: Tensor, sizes: list[int], picks: Tensor,
    pick_thresholds: Tensor, class_picks: Tensor, class_thresholds: Tensor, flags: list[bool],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """See :func:`valor_gpu.ops.grouped_means.op.grouped_means`."""
    return each_group(
        _accumulate_reference.accumulate, detections, ground_truths, images, units, group_offsets, group_units, labels,
        recall_thresholds, sizes, picks, pick_thresholds, class_picks, class_thresholds, flags,
    )  # fmt: skip


def each_group(
    run: Run, detections: Tensor, ground_truths: Tensor, images: Tensor, units: Tensor, group_offsets: Tensor,
    group_units: Tensor, labels: Tensor, recall_thresholds: Tensor, sizes: list[int], picks: Tensor,
    pick_thresholds: Tensor, class_picks: Tensor, class_thresholds: Tensor, flags: list[bool],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Computes the numbers of one group after another by ``run``, an accumulation of tables with choices."""
    agnostic, full = flags
    table, names = PickTable(picks.numpy(), pick_thresholds.numpy()), labels.numpy()
    of_class = PickTable(class_picks.numpy(), class_thresholds.numpy())
    classes = min(1, len(names)) if agnostic else len(names)
    ends, lengths = group_offsets.tolist(), images[:, _ROWS].cpu().numpy()
    means = np.full((len(ends) - 1, len(picks)), np.nan)
    class_means = np.full((len(ends) - 1, classes, len(class_picks)), np.nan)
    for group in range(len(ends) - 1):
        chosen = units.numpy()[group_units.numpy()[ends[group] : ends[group + 1]]]
        choices = AccumulateChoices(
            RecordShape(*sizes), recall_thresholds.numpy(), table.picks(), False, agnostic, full, labels=names,
            images=np.arange(len(chosen)),
        )  # fmt: skip
        found = run(*_rows_of(chosen, lengths, detections, ground_truths, images), choices)
        means[group] = found.means[0].numpy()
        class_means[group] = class_numbers(found.curves, of_class)
    return torch.from_numpy(means), torch.from_numpy(class_means)


def class_numbers(curves: Curves, picks: PickTable) -> Any:
    """Returns the mean of each class for each pick, float64 ``[K, Q]``: NaN where no ground truth of it counts."""
    arrays = [curves.precision.cpu().numpy(), curves.recall[:, None].cpu().numpy()]
    found = np.full((curves.recall.shape[1], len(picks.rows)), np.nan)
    for index, (of_recall, area, limit, start, count) in enumerate(picks.rows.tolist()):
        values = arrays[of_recall][..., area, limit][picks.thresholds[start : start + count]]
        for k, one in enumerate(np.ascontiguousarray(np.moveaxis(values, 2, 0))):
            if one.size and one.flat[0] > -1:  # a class is absent as a whole or not at all
                found[k, index] = one.mean()
    return found


def _rows_of(
    chosen: Any, lengths: Any, detections: Tensor, ground_truths: Tensor, images: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The rows of some images in their order; ``lengths`` are int64 ``[I, 2]``, rows of each side."""
    starts = lengths.cumsum(0) - lengths
    tables = []
    for side, rows in enumerate((detections, ground_truths)):
        counts = lengths[chosen, side]
        first = np.repeat(starts[chosen, side] - (counts.cumsum() - counts), counts)
        tables.append(rows[torch.from_numpy(first + np.arange(len(first))).to(rows.device)])
    return tables[0], tables[1], images[torch.from_numpy(chosen).to(images.device)]
