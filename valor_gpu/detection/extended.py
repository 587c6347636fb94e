"""What an extended summary and pooled classes need beside the plain records: boxes, and a second matching."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from valor_gpu.detection.records import DetectionRecords
from valor_gpu.ops.boxes import box_iou, to_xywh
from valor_gpu.ops.curves import detection_labels, record_labels, record_scores
from valor_gpu.ops.matching import PADDING_BUCKET, DetectionBatch, Matched, MatchRule
from valor_gpu.state import joined

Cell = tuple[int, int]


@dataclass(frozen=True)
class ExtendedRecords(DetectionRecords):
    """Plain records and, where asked for, more columns; a column that nobody asked for has no rows.

    Attributes:
        boxes: float64 ``[D, 4]`` xywh.
        true_boxes: float64 ``[G, 5]`` xywh and crowd flag.
        class_detections: uint8 ``[D, 13 + 2B]``, the records of matching class by class.
    """

    boxes: Tensor = joined()
    true_boxes: Tensor = joined()
    class_detections: Tensor = joined()

    def by_class(self) -> DetectionRecords:
        """The records of matching class by class."""
        return DetectionRecords(self.class_detections, self.truths, self.images)


def no_records(rule: MatchRule, boxes: bool, rematched: bool) -> DetectionRecords:
    """The state without data.

    Args:
        rule: thresholds, area ranges and limits.
        boxes: keep boxes.
        rematched: keep the records of matching class by class.
    """
    plain = DetectionRecords.none(rule)
    if not (boxes or rematched):
        return plain
    return ExtendedRecords(
        **plain.tensors(),
        boxes=torch.empty((0, 4), dtype=torch.float64),
        true_boxes=torch.empty((0, 5), dtype=torch.float64),
        class_detections=plain.detections,
    )


def batch_records(matched: Matched, batch: DetectionBatch, boxes: bool, rematched: Matched | None) -> DetectionRecords:
    """The state of one batch, of the kind that :func:`no_records` gives for the same choices."""
    plain = DetectionRecords.of(matched)
    if not (boxes or rematched):
        return plain
    device = matched.detections.device
    own = torch.empty((0, 4), dtype=torch.float64, device=device)
    true = own.new_empty((0, 5))
    if boxes:
        own = _joined_boxes(batch.boxes, batch.box_format)
        crowd = torch.cat([t.reshape(-1) for t in batch.true_flags]).double() if batch.true_flags else None
        true_own = _joined_boxes(batch.true_boxes, batch.true_box_format)
        true = torch.cat((true_own, (own.new_zeros(len(true_own)) if crowd is None else crowd)[:, None]), 1)
    again = plain.detections[:0] if rematched is None else rematched.detections
    return ExtendedRecords(**plain.tensors(), boxes=own, true_boxes=true, class_detections=again)


def _joined_boxes(boxes: list[Tensor], box_format: int) -> Tensor:
    return to_xywh(torch.cat([t.reshape(-1, 4) for t in boxes]), box_format)


def cell_ious(
    records: ExtendedRecords, labels: list[int], limit: int, agnostic: bool
) -> dict[Cell, Tensor | list[int]]:
    """IoU of the detections and ground truths of every (image, label) cell, as ``COCOeval.ious`` holds them.

    Args:
        records: with boxes.
        labels: ascending labels.
        limit: detections kept a cell, by descending score.
        agnostic: one cell an image, named by label 0.

    Returns:
        (image id, or place of arrival without one; label) to float32 ``[D, G]``, or ``[]`` where a side is empty.
    """
    real = records.detections[:, 12] != PADDING_BUCKET
    names, true_names = detection_labels(records.detections), record_labels(records.truths)
    scores = record_scores(records.detections)
    out: dict[Cell, Tensor | list[int]] = {}
    at = true_at = 0
    for place, (key, has_id, *_, size, true_size) in enumerate(records.images.tolist()):
        rows, true_rows = slice(at, at + size), slice(true_at, true_at + true_size)
        at, true_at = at + size, true_at + true_size
        for label in [0] if agnostic else labels:
            own = real[rows] if agnostic else real[rows] & (names[rows] == label)
            true = torch.ones_like(true_names[true_rows], dtype=torch.bool)
            true = true if agnostic else true_names[true_rows] == label
            order = torch.sort(scores[rows][own], descending=True, stable=True).indices[:limit]
            boxes, truths = records.boxes[rows][own][order], records.true_boxes[true_rows][true]
            iou = box_iou(boxes, truths[:, :4].contiguous(), box_format="xywh", crowd=truths[:, 4] != 0)
            out[key if has_id else place, label] = iou.float() if iou.numel() else []
    return out
