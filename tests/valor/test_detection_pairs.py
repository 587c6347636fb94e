"""Pairs of annotations that overlap."""

from __future__ import annotations

import pytest
import torch

from tests.valor.detection_scenes import as_objects, box_frames, read
from valor_gpu.ops.boxes import box_iou
from valor_gpu.valor.columns import Columns
from valor_gpu.valor.detection_pairs import FoundOverlaps, find_overlaps

Listed = list[tuple[int, int, float]]


def listed(found: FoundOverlaps) -> Listed:
    """Pairs as rows of predictions and of ground truths, and IoU."""
    rows, gt_rows = found.predictions, found.groundtruths
    pairs = zip(
        found.overlaps.detections().tolist(), found.overlaps.ground_truths.tolist(), found.overlaps.ious.tolist()
    )
    return [(int(rows[row]), int(gt_rows[gt]), iou) for row, gt, iou in pairs]


def expected(columns: Columns) -> Listed:
    """Every pair of rows of one datum and label key whose boxes overlap, by box_iou."""
    rows, gts = columns.predictions, columns.groundtruths
    assert rows.shapes is not None
    assert gts.shapes is not None
    ious = box_iou(torch.from_numpy(rows.shapes.boxes), torch.from_numpy(gts.shapes.boxes))
    return [
        (row, gt, iou)
        for row in range(len(rows))
        for gt in range(len(gts))
        if rows.datum[row] == gts.datum[gt]
        and columns.labels[rows.label[row]][0] == columns.labels[gts.label[gt]][0]
        and (iou := ious[rows.annotation[row], gts.annotation[gt]].item()) > 0
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["frames", "objects"])
def test_boxes_of_a_key_are_paired(seed: int, kind: str) -> None:
    frames = box_frames(seed)
    columns = read(*(map(as_objects, frames) if kind == "objects" else frames))
    found = find_overlaps(columns)
    assert sorted(listed(found)) == sorted(expected(columns))
    overlaps = found.overlaps
    sizes = torch.tensor([[(side.datum == datum).sum() for datum in range(len(columns.datums))]
                          for side in (columns.predictions, columns.groundtruths)])  # fmt: skip
    assert torch.equal(overlaps.sizes, sizes)
    assert overlaps.labels.tolist() == columns.predictions.label[found.predictions].tolist()
    assert overlaps.scores.tolist() == columns.predictions.score[found.predictions].tolist()
    assert overlaps.gt_labels.tolist() == columns.groundtruths.label[found.groundtruths].tolist()
    order = [(row, -iou, -gt) for row, gt, iou in zip(overlaps.detections().tolist(), overlaps.ground_truths.tolist(),
                                                      overlaps.ious.tolist())]  # fmt: skip
    assert order == sorted(order)


def test_a_side_may_have_no_rows() -> None:
    gt_frame, frame = box_frames(0)
    columns = read(gt_frame, {key: values[:0] for key, values in frame.items()})
    overlaps = find_overlaps(columns).overlaps
    assert (len(overlaps.labels), len(overlaps.gt_labels), len(overlaps.ious)) == (0, 60, 0)
