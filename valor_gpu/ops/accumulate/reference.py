"""Accumulation of detection records in plain torch: the definition.

pycocotools ``COCOeval.accumulate`` (Dollar and Lin, 2015), for each class k, IoU threshold t, area range a and
max-detection limit m. Take the detections whose rank in their image is below the limit, by score descending; equal
scores by position of the image, then by index. Leave out those that are ignored in (t, a). With ``tp_i`` and ``fp_i``
the matched and unmatched ones among the first i, and ``n`` the ground truths that count::

    recall_i = tp_i / n                 precision_i = tp_i / (fp_i + tp_i + numpy.spacing(1))
    recall[t, k, a, m] = recall_last    (0 without detections)
    precision[t, r, k, a, m] = max of precision_j over j >= searchsorted(recall, r)
    scores[t, r, k, a, m] = score at searchsorted(recall, r)

Precision and scores are 0 from the first r that is not reached, and everything is -1 where ``n`` is 0. AP is the mean
of precision over thresholds, recall samples and classes, AR the mean of recall over thresholds and classes; what is -1
takes no part, and a mean of nothing is NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops.accumulate.cpu import means_of_table, setting_bits
from valor_gpu.ops.accumulate.record_rows import (
    detection_labels,
    detection_scores,
    ground_truth_bit,
    ground_truth_labels,
)
from valor_gpu.ops.accumulate.types import (
    AccumulateChoices,
    Accumulated,
    Curves,
    LabelCounts,
    Ordered,
    PickTable,
    Totals,
)
from valor_gpu.ops.assign.image_order import check_row_counts, choose_images
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS, PADDING_BUCKET

_SPACING = 2.220446049250313e-16  # numpy.spacing(1)
_DETECTIONS, _GROUND_TRUTHS, _NEGATIVE, _REACH = map(
    IMAGE_COLUMNS.index, ("DETECTIONS", "GROUND_TRUTHS", "NEGATIVE_SIZES", "REACHES")
)


def label_counts(detections: Tensor, ground_truths: Tensor, areas: int) -> LabelCounts:
    """See :func:`valor_gpu.ops.accumulate.op.label_counts`."""
    found = detections[detections[:, 12] != PADDING_BUCKET]
    real = ground_truths[ground_truth_bit(ground_truths, areas)]
    labels = torch.unique(torch.cat((detection_labels(found), ground_truth_labels(real))))
    ignored = int(ground_truth_bit(real, areas + 1).sum())
    return LabelCounts(labels, torch.tensor([len(found), len(real), ignored]))


def count_ground_truths(ground_truths: Tensor, labels: Tensor, areas: int, agnostic: bool) -> Tensor:
    """See :func:`valor_gpu.ops.accumulate.op.count_ground_truths`."""
    bits = torch.stack([ground_truth_bit(ground_truths, a) for a in range(areas)], 1)
    out = torch.zeros((len(labels) + 1, areas), dtype=torch.int64, device=ground_truths.device)
    if len(labels):
        names = labels[:1].repeat(len(ground_truths)) if agnostic else ground_truth_labels(ground_truths)
        at = torch.searchsorted(labels, names).clamp(max=len(labels) - 1)
        out.index_add_(0, torch.where(labels[at] == names, at, len(labels)), bits.long())
    return out[:-1]


def order_records(
    detections: Tensor, starts: Tensor, lengths: Tensor, labels: Tensor, limits: int, agnostic: bool
) -> Ordered:
    """See :func:`valor_gpu.ops.accumulate.op.order_records`."""
    device, total = detections.device, int(lengths.sum())
    before = lengths.cumsum(0) - lengths
    shift, repeats = to_device(torch.stack((starts - before, lengths)), device)
    shift = torch.repeat_interleave(shift, repeats, output_size=total)
    rows = torch.arange(total, device=device) + shift
    records = detections[rows, :13]
    names = torch.zeros_like(rows) if agnostic else detection_labels(records)
    classes = torch.zeros_like(rows)
    kept = records[:, 12] < limits
    if not agnostic and len(labels):
        classes = torch.searchsorted(labels, names).clamp(max=len(labels) - 1)
        kept = kept & (labels[classes] == names)
    classes = torch.where(kept & bool(len(labels)), classes, len(labels))
    scores = detection_scores(records)
    keys = torch.where(scores.isnan(), torch.nan, 0.0 - scores)  # a NaN with its sign bit set may sort first on CUDA
    by_score = torch.sort(keys, stable=True).indices
    by_class = torch.sort(classes[by_score], stable=True)
    offsets = torch.searchsorted(by_class.values, torch.arange(len(labels) + 1, device=device))
    return Ordered(rows[by_score[by_class.indices]][: int(offsets[-1])], offsets)


def _reorder_ties(scores: Tensor, true: Tensor, ties: int) -> Tensor:
    """Positions with the true positives of each run of tied scores first (1) or last (2)."""
    group = torch.cat((scores.new_zeros(1), (scores[1:] != scores[:-1]).double().cumsum(0)))[: len(scores)]
    late = ~true if ties == 1 else true
    return torch.sort(group * 2 + late, stable=True).indices


def _one_curve(
    true: Tensor, false: Tensor, scores: Tensor, positives: int, grid: Tensor
) -> tuple[Tensor, float, Tensor]:
    """Precision samples, final recall and score samples of one class, setting and limit."""
    samples, sample_scores = torch.zeros_like(grid), torch.zeros_like(grid)
    if len(true) == 0:
        return samples, 0.0, sample_scores
    tp, fp = true.cumsum(0).double(), false.cumsum(0).double()
    recall, precision = tp / positives, tp / (fp + tp + _SPACING)
    envelope = precision.flip(0).cummax(0).values.flip(0)
    at = torch.searchsorted(recall, grid)
    missed = (at == len(true)).nonzero()
    stop = int(missed[0]) if len(missed) else len(grid)
    samples[:stop], sample_scores[:stop] = envelope[at[:stop]], scores[at[:stop]]
    return samples, float(recall[-1]), sample_scores


def empty_curves(detections: Tensor, positives: Tensor, recalls: int, sizes: list[int], full: bool) -> Curves:
    """Arrays in which nothing counts."""
    thresholds, areas, limits = sizes
    shape = (thresholds, recalls, positives.shape[0], areas, limits if full else 1)

    def absent(shape: tuple[int, ...]) -> Tensor:
        return torch.full(shape, -1.0, dtype=torch.float64, device=detections.device)

    return Curves(absent(shape), absent((thresholds, shape[2], areas, limits)), absent(shape if full else (0,)))


def precision_recall(
    detections: Tensor, order: Tensor, offsets: Tensor, positives: Tensor, recall_thresholds: Tensor,
    sizes: list[int], full: bool, ties: int,
) -> Curves:  # fmt: skip
    """See :func:`valor_gpu.ops.accumulate.op.precision_recall`."""
    thresholds, areas, limits = sizes
    grid = recall_thresholds.to(detections.device)
    out = empty_curves(detections, positives, len(grid), sizes, full)
    ends = offsets.tolist()
    for k, counts in enumerate(positives.tolist()):
        rows = detections[order[ends[k] : ends[k + 1]]]
        for a, t, m in ((a, t, m) for a in range(areas) for t in range(thresholds) for m in range(limits) if counts[a]):
            kept = rows[rows[:, 12] <= m]
            setting = a * thresholds + t
            matched, ignored = (setting_bits(kept, setting, field, thresholds * areas) for field in (0, 1))
            scores = detection_scores(kept)
            if ties:
                again = _reorder_ties(scores, matched & ~ignored, ties)
                matched, ignored, scores = matched[again], ignored[again], scores[again]
            samples, recall, at = _one_curve(matched & ~ignored, ~matched & ~ignored, scores, counts[a], grid)
            out.recall[t, k, a, m] = recall
            if full:
                out.precision[t, :, k, a, m], out.scores[t, :, k, a, m] = samples, at
            elif m == limits - 1:
                out.precision[t, :, k, a, 0] = samples
    return out


def present_means(precision: Tensor, recall: Tensor, picks: Tensor, thresholds: Tensor) -> Tensor:
    """See :func:`valor_gpu.ops.accumulate.op.present_means`."""
    curves = Curves(precision.cpu().numpy(), recall.cpu().numpy(), None)
    means = means_of_table(curves, PickTable(picks.numpy(), thresholds.numpy()))
    return torch.from_numpy(means).to(precision.device)


def accumulate(detections: Tensor, ground_truths: Tensor, images: Tensor, choices: AccumulateChoices) -> Accumulated:
    """See :func:`valor_gpu.ops.accumulate.op.accumulate`."""
    table = images.cpu().numpy()
    check_row_counts(table, len(detections), len(ground_truths))
    kept = choose_images(table, choices.by_key) if choices.images is None else choices.images
    found, true = (_rows_of(rows, table, kept, column) for rows, column in
                   ((detections, _DETECTIONS), (ground_truths, _GROUND_TRUTHS)))  # fmt: skip
    names, counts = label_counts(found, true, choices.shape.areas)
    labels = names if choices.labels is None else torch.from_numpy(choices.labels).to(detections.device)
    classes = labels[:1] if choices.agnostic else labels
    lengths = table[:, _DETECTIONS]
    starts = torch.from_numpy((np.cumsum(lengths) - lengths)[kept])
    sizes = [choices.shape.thresholds, choices.shape.areas, choices.shape.limits]
    ordered = order_records(
        detections, starts, torch.from_numpy(lengths[kept]), classes, sizes[2], choices.agnostic and len(classes) > 0
    )
    positives = count_ground_truths(true, classes, sizes[1], choices.agnostic)
    grid, picks = torch.from_numpy(choices.recall_thresholds), [torch.from_numpy(x) for x in choices.pick_table()]
    curves = [
        Curves(*precision_recall(detections, *ordered, positives, grid, sizes, choices.full, ties))
        for ties in choices.tie_codes
    ]
    means = torch.stack([present_means(one.precision, one.recall, *picks) for one in curves])
    totals = _totals(table, kept, counts.tolist(), len(ordered[0]))
    labels = labels.cpu()
    return Accumulated(labels, positives, totals, Ordered(*ordered), curves[0], means.cpu())


def _rows_of(rows: Tensor, table: Any, kept: Any, column: int) -> Tensor:
    """The rows of a table, whose row counts stand in ``column``, that belong to kept images."""
    keep = np.zeros(len(table), bool)
    keep[kept] = True
    return rows if keep.all() else rows[torch.from_numpy(np.repeat(keep, table[:, column])).to(rows.device)]


def _totals(table: Any, kept: Any, counts: list[int], within_limits: int) -> Totals:
    rows = table[kept]
    negative = rows[:, _NEGATIVE : _NEGATIVE + 1].copy().view(np.int32).sum(0, dtype=np.int64).tolist()
    reach = rows[:, _REACH : _REACH + 1].copy().view(np.float32).max(0, initial=0).tolist()
    return Totals(*[len(kept), len(table) - len(kept), *counts, within_limits, *negative, *reach])
