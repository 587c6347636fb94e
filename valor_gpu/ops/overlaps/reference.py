"""Definition in plain torch of the ops in :mod:`valor_gpu.ops.overlaps.op`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor

from valor_gpu.ops.error_codes import NO_ERROR, pack_box
from valor_gpu.ops.overlaps.run import (
    COUNT_TOTAL,
    COUNTS,
    GROUND_TRUTH,
    IOU,
    SCORES,
    SIZE_TOTAL,
    SIZES,
    partner_room,
    ranked_room,
)

_Pair = tuple[int, int, float]


def rank_overlaps(
    sizes: Tensor, labels: Tensor, scores: Tensor, gt_labels: Tensor, counts: Tensor, ground_truths: Tensor,
    ious: Tensor, document: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """See :func:`valor_gpu.ops.overlaps.op.rank_overlaps`; the last is an error code."""
    error = _first_error(sizes, labels, scores, gt_labels, counts, ground_truths, ious)
    if int(error) != NO_ERROR:
        return *ranked_room(labels)[:-1], error
    label, gt_label, score = labels.tolist(), gt_labels.tolist(), scores.tolist()
    best, found, before, others = [-1] * len(label), [0.0] * len(label), [0.0] * len(label), [0.0] * len(label)
    pairs = _pairs_of_detections(counts, ground_truths, ious)
    for rows in _datums(sizes):
        taken: set[int] = set()
        for row in sorted(rows, key=lambda row: -score[row]) if document else rows:
            same = [(iou, -gt) for _, gt, iou in pairs[row] if gt_label[gt] == label[row] and gt not in taken]
            others[row] = max((iou for _, gt, iou in pairs[row] if gt_label[gt] != label[row]), default=0.0)
            if same:
                found[row], best[row] = max(same)[0], -max(same)[1]
            taken |= {best[row]} if document else set()
        reached: dict[int, float] = {}
        for row in sorted(rows, key=lambda row: (-score[row], -found[row])):
            before[row] = 0.0 if document else reached.get(best[row], 0.0)
            if score[row] > 0 and best[row] >= 0:
                reached[best[row]] = max(before[row], found[row])
    return (
        torch.tensor(best, dtype=torch.int64, device=labels.device),
        *(torch.tensor(column, dtype=torch.float64, device=labels.device) for column in (found, before, others)),
        error,
    )  # type: ignore[return-value]


def confuse_overlaps(
    sizes: Tensor, labels: Tensor, scores: Tensor, gt_labels: Tensor, counts: Tensor, ground_truths: Tensor,
    ious: Tensor, thresholds: Tensor, dissolve: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """See :func:`valor_gpu.ops.overlaps.op.confuse_overlaps`; the last is an error code."""
    error = _first_error(sizes, labels, scores, gt_labels, counts, ground_truths, ious)
    if int(error) != NO_ERROR:
        return partner_room(labels, thresholds)[0], error
    score = scores.tolist()
    pairs = _pairs_of_detections(counts, ground_truths, ious)
    partner = torch.full((len(thresholds), len(score)), -1, dtype=torch.int64)
    for rows in _datums(sizes):
        every = (pair for row in rows for pair in pairs[row])
        ordered = sorted(every, key=lambda pair: (-score[pair[0]], -pair[2], pair[1], pair[0]))
        for place, threshold in enumerate(thresholds.tolist()):
            used: set[tuple[str, int]] = set()
            for row, gt, iou in ordered:
                if (iou < threshold and not dissolve) or {("row", row), ("gt", gt)} & used:
                    continue
                used |= {("row", row), ("gt", gt)}
                if iou >= threshold:
                    partner[place, row] = gt
    return partner.to(labels.device), error


def _pairs_of_detections(counts: Tensor, ground_truths: Tensor, ious: Tensor) -> list[list[_Pair]]:
    """Row, ground truth and IoU of each pair, by detection."""
    pairs = iter(zip(ground_truths.tolist(), ious.tolist()))
    return [[(row, gt, iou) for gt, iou in itertools.islice(pairs, count)] for row, count in enumerate(counts.tolist())]


def _datums(sizes: Tensor) -> Iterator[range]:
    """The detections of each datum."""
    ends = [0, *itertools.accumulate(sizes[0].tolist())]
    return (range(first, end) for first, end in itertools.pairwise(ends))


def _first_error(
    sizes: Tensor, labels: Tensor, scores: Tensor, gt_labels: Tensor, counts: Tensor, ground_truths: Tensor,
    ious: Tensor,
) -> Tensor:  # fmt: skip
    """The smallest code of what is wrong with the columns, int64 ``[]``; pairs are read where all else is right."""
    totals = torch.tensor([len(labels), len(gt_labels)], device=sizes.device)
    bad = {
        SIZES: ((sizes < 0) | (sizes > totals[:, None])).reshape(-1),
        SIZE_TOTAL: sizes.sum(1) != totals,
        SCORES: scores.isnan(),
        COUNTS: (counts < 0) | (counts > len(ious)),
        COUNT_TOTAL: (counts.sum() != len(ious))[None],
    }
    if not any(bool(mask.any()) for column, mask in bad.items() if column != SCORES):
        datums, gt_datums = (torch.arange(sizes.shape[1], device=sizes.device).repeat_interleave(n) for n in sizes)
        inside = (ground_truths >= 0) & (ground_truths < len(gt_labels))
        found = gt_datums[ground_truths.where(inside, 0)] if len(gt_labels) else ground_truths
        bad |= {GROUND_TRUTH: ~inside | (found != datums.repeat_interleave(counts)), IOU: ~((ious > 0) & (ious <= 1))}
    codes = [pack_box(column, int(mask.nonzero()[0]), 1) for column, mask in bad.items() if mask.any()]
    return torch.tensor(min(codes, default=NO_ERROR), device=sizes.device)
