"""What an extended summary and pooled classes need beside the plain records: boxes, and a second matching."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from valor_gpu.detection.geometry import Geometry
from valor_gpu.detection.record_checks import RecordChoices, check_boxes, check_detections, real_rows
from valor_gpu.detection.records import DetectionRecords
from valor_gpu.ops.match_batch import PADDING_BUCKET, MatchBatch, Matched, MatchRule
from valor_gpu.ops.record_rows import detection_labels, detection_scores, ground_truth_labels
from valor_gpu.state import check_rows, joined

Cell = tuple[int, int]


@dataclass(frozen=True)
class ExtendedRecords(DetectionRecords):
    """Plain records and, where asked for, more columns; a column that nobody asked for has no rows.

    Attributes:
        boxes: float64 ``[D, W]`` as the geometry keeps them, such as xywh.
        gt_boxes: float64 ``[G, W + 1]``, likewise with a crowd flag.
        class_detections: uint8 ``[D, 13 + 2B]``, the records of matching class by class.
    """

    boxes: Tensor = joined()
    gt_boxes: Tensor = joined()
    class_detections: Tensor = joined()

    def check(self, rule: RecordChoices) -> None:
        """Raises :class:`InputError` unless the tables are such as matching by ``rule`` leaves."""
        super().check(rule)
        check_rows("boxes", self.boxes, len(self.detections) * rule.boxes, "detections")
        check_rows("gt_boxes", self.gt_boxes, len(self.ground_truths) * rule.boxes, "ground_truths")
        check_rows("class_detections", self.class_detections, len(self.detections) * rule.rematched, "detections")
        check_detections("class_detections", self.class_detections, rule.rule)
        if rule.boxes:
            check_boxes("boxes", self.boxes, self.detections[:, 12] != PADDING_BUCKET, crowd=False)
            real = real_rows(self.ground_truths, rule.rule.area_ranges.shape[0])
            check_boxes("gt_boxes", self.gt_boxes, real, crowd=True)

    def by_class(self) -> DetectionRecords:
        """The records of matching class by class."""
        return DetectionRecords(self.class_detections, self.ground_truths, self.images)


def no_records(rule: MatchRule, kept: Geometry | None, rematched: bool) -> DetectionRecords:
    """The state without data.

    Args:
        rule: thresholds, area ranges and limits.
        kept: the geometry of boxes that are kept, None to keep none.
        rematched: keep the records of matching class by class.
    """
    plain = DetectionRecords.none(rule)
    if kept is None and not rematched:
        return plain
    boxes = torch.empty((0, 4 if kept is None else kept.width), dtype=torch.float64)
    return ExtendedRecords(
        **plain.tensors(),
        boxes=boxes,
        gt_boxes=boxes.new_empty((0, boxes.shape[1] + 1)),
        class_detections=plain.detections,
    )


def batch_records(
    matched: Matched, batch: MatchBatch, kept: Geometry | None, rematched: Matched | None
) -> DetectionRecords:
    """The state of one batch, of the kind that :func:`no_records` gives for the same choices."""
    plain = DetectionRecords.of(matched)
    if kept is None and rematched is None:
        return plain
    device = matched.detections.device
    dt_boxes = torch.empty((0, 4), dtype=torch.float64, device=device)
    gt_boxes = dt_boxes.new_empty((0, 5))
    if kept is not None:
        batch = batch.without_gaps(torch.from_numpy)
        dt_boxes = kept.kept(batch.boxes, batch.box_format)
        crowd = torch.cat([t.reshape(-1) for t in batch.gt_flags]).double() if batch.gt_flags else None
        rows = kept.kept(batch.gt_boxes, batch.gt_box_format)
        gt_boxes = torch.cat((rows, (rows.new_zeros(len(rows)) if crowd is None else crowd)[:, None]), 1)
    by_class = plain.detections[:0] if rematched is None else rematched.detections
    return ExtendedRecords(**plain.tensors(), boxes=dt_boxes, gt_boxes=gt_boxes, class_detections=by_class)


def cell_ious(
    records: ExtendedRecords, geometry: Geometry, labels: list[int], limit: int, agnostic: bool
) -> dict[Cell, Tensor | list[int]]:
    """IoU of the detections and ground truths of every (image, label) cell, as ``COCOeval.ious`` holds them.

    Args:
        records: with boxes.
        geometry: of the boxes.
        labels: ascending labels.
        limit: detections kept a cell, by descending score.
        agnostic: one cell per image, named by label 0.

    Returns:
        (image id, or place of arrival without one; label) to float32 ``[D, G]``, or ``[]`` where a side is empty.
    """
    real = records.detections[:, 12] != PADDING_BUCKET
    dt_labels, gt_labels = detection_labels(records.detections), ground_truth_labels(records.ground_truths)
    scores = detection_scores(records.detections)
    out: dict[Cell, Tensor | list[int]] = {}
    dt_start = gt_start = 0
    for position, (key, has_id, _, _, dt_count, gt_count, *_) in enumerate(records.images.tolist()):
        dt_rows, gt_rows = slice(dt_start, dt_start + dt_count), slice(gt_start, gt_start + gt_count)
        dt_start, gt_start = dt_rows.stop, gt_rows.stop
        for label in [0] if agnostic else labels:
            dt_mask = real[dt_rows] if agnostic else real[dt_rows] & (dt_labels[dt_rows] == label)
            gt_mask = slice(None) if agnostic else gt_labels[gt_rows] == label
            order = torch.sort(scores[dt_rows][dt_mask], descending=True, stable=True).indices[:limit]
            boxes, gt_boxes = records.boxes[dt_rows][dt_mask][order], records.gt_boxes[gt_rows][gt_mask]
            iou = geometry.iou(boxes, gt_boxes[:, :-1].contiguous(), gt_boxes[:, -1] != 0)
            out[key if has_id else position, label] = iou.float() if iou.numel() else []
    return out
