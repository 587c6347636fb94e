"""What an extended summary and pooled classes need beside the plain records: boxes, and a second matching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from valor_gpu.detection.geometry import Boxes
from valor_gpu.detection.record_checks import RecordChoices, check_boxes, check_detections, real_rows
from valor_gpu.detection.records import DetectionRecords
from valor_gpu.ops.accumulate.record_rows import detection_labels, detection_scores, ground_truth_labels
from valor_gpu.ops.assign.match_batch import PADDING_BUCKET, MatchBatch, Matched, MatchRule
from valor_gpu.state import check_elements, check_rows, joined

Cell = tuple[int, int]
Overlaps = Callable[[int, Tensor, Tensor], Tensor]
"""Similarities ``[D, G]`` of an image, by its place of arrival, rows of detections and of ground truths."""


@dataclass(frozen=True)
class ExtendedRecords(DetectionRecords):
    """Plain records and, where asked for, more columns; a column that nobody asked for has no rows.

    Attributes:
        boxes: float64 ``[D, W]`` as the geometry keeps them, such as xywh.
        gt_boxes: float64 ``[G, W + 1]``, likewise with a crowd flag.
        gt_areas: float64 ``[G]``, as ``target`` had them; 0 where it had none.
        class_detections: uint8 ``[D, 13 + 2B]``, the records of matching class by class.
    """

    boxes: Tensor = joined()
    gt_boxes: Tensor = joined()
    gt_areas: Tensor = joined()
    class_detections: Tensor = joined()

    def check(self, rule: RecordChoices) -> None:
        """Raises :class:`InputError` unless the tables are such as matching by ``rule`` leaves."""
        super().check(rule)
        check_rows("gt_areas", self.gt_areas, len(self.ground_truths) * rule.boxes, "ground_truths")
        check_rows("boxes", self.boxes, len(self.detections) * rule.boxes, "detections")
        check_rows("gt_boxes", self.gt_boxes, len(self.ground_truths) * rule.boxes, "ground_truths")
        check_rows("class_detections", self.class_detections, len(self.detections) * rule.rematched, "detections")
        check_detections("class_detections", self.class_detections, rule.rule)
        if rule.boxes:
            check_boxes("boxes", self.boxes, self.detections[:, 12] != PADDING_BUCKET, crowd=False)
            real = real_rows(self.ground_truths, rule.rule.area_ranges.shape[0])
            check_boxes("gt_boxes", self.gt_boxes, real, crowd=True)
            check_elements("gt_areas", self.gt_areas, self.gt_areas.isfinite() | ~real, "be finite")

    def by_class(self) -> DetectionRecords:
        """The records of matching class by class."""
        return DetectionRecords(self.class_detections, self.ground_truths, self.images)


@dataclass(frozen=True)
class JointRecords(DetectionRecords):
    """Records of T geometries side by side: a row holds that of one geometry after that of another.

    Attributes:
        ious: float64 ``[P, T]``, similarities of all pairs of an image, where asked for.
        class_detections: uint8 ``[D, T * (13 + 2B)]``, the records of matching class by class, where asked for.
    """

    ious: Tensor = joined()
    class_detections: Tensor = joined()

    @classmethod
    def of_parts(
        cls, parts: Sequence[Matched], ious: Sequence[list[Tensor]], by_class: Sequence[Matched]
    ) -> JointRecords:
        """The state of one batch.

        Args:
            parts: what matching left, one for each geometry.
            ious: of each geometry the similarities ``[D_i, G_i]`` of each image, or none.
            by_class: what matching class by class left, one for each geometry, or none.
        """
        joint = [_beside([getattr(m, name) for m in parts]) for name in ("detections", "ground_truths", "images")]
        whole = parts[0].detections
        none = torch.empty((0, len(parts)), dtype=torch.float64, device=whole.device)
        flat = [torch.cat([table.reshape(-1) for table in tables]) for tables in ious]
        pairs = torch.stack([values.to(whole.device) for values in flat], 1) if ious else none
        if by_class:
            rows = _beside([m.detections for m in by_class])
        else:
            rows = whole.new_empty((0, sum(m.detections.shape[1] for m in parts)))
        return cls(joint[0], joint[1], joint[2], pairs, rows)

    def part(self, index: int, number: int) -> PartRecords:
        """The records of geometry ``index`` of ``number``."""
        columns = (table.chunk(number, 1)[index].contiguous() for table in self.tensors().values())
        return PartRecords(*columns)

    def check(self, rule: RecordChoices) -> None:
        """Raises :class:`InputError` unless the tables are such as matching by ``rule`` leaves."""
        parts = [self.part(index, rule.parts) for index in range(rule.parts)]
        for part in parts:
            part.check(rule)
            same = (part.images[:, 4:6] == parts[0].images[:, 4:6]).all(1)
            check_elements("images", self.images, same, "count the same rows for every geometry")


def _beside(tables: Sequence[Tensor]) -> Tensor:
    """Joins tables with the same number of rows side by side."""
    return tables[0] if len(tables) == 1 else torch.cat(list(tables), 1)


@dataclass(frozen=True)
class PartRecords(DetectionRecords):
    """What :class:`JointRecords` has of one geometry: ``ious`` float64 ``[P, 1]``."""

    ious: Tensor = joined()
    class_detections: Tensor = joined()

    def check(self, rule: RecordChoices) -> None:
        """Raises :class:`InputError` unless the tables are such as matching by ``rule`` leaves."""
        super().check(rule)
        pairs = int((self.images[:, 4] * self.images[:, 5]).sum())
        check_rows("ious", self.ious, pairs * rule.boxes, "images")
        check_elements("ious", self.ious, self.ious.isfinite(), "be finite")
        check_rows("class_detections", self.class_detections, len(self.detections) * rule.rematched, "detections")
        check_detections("class_detections", self.class_detections, rule.rule)

    def by_class(self) -> DetectionRecords:
        """The records of matching class by class."""
        return DetectionRecords(self.class_detections, self.ground_truths, self.images)


def no_joint_records(rule: MatchRule, number: int) -> JointRecords:
    """The state of ``number`` geometries without data."""
    plain = DetectionRecords.none(rule)
    tables = {name: table.repeat(1, number) for name, table in plain.tensors().items()}
    ious = torch.empty((0, number), dtype=torch.float64)
    return JointRecords(**tables, ious=ious, class_detections=tables["detections"])


def no_records(rule: MatchRule, kept: Boxes | None, rematched: bool) -> DetectionRecords:
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
        gt_areas=boxes.new_empty(0),
        class_detections=plain.detections,
    )


def batch_records(
    matched: Matched, batch: MatchBatch, kept: Boxes | None, rematched: Matched | None
) -> DetectionRecords:
    """The state of one batch, of the kind that :func:`no_records` gives for the same choices."""
    plain = DetectionRecords.of(matched)
    if kept is None and rematched is None:
        return plain
    device = matched.detections.device
    dt_boxes = torch.empty((0, 4), dtype=torch.float64, device=device)
    gt_boxes, gt_areas = dt_boxes.new_empty((0, 5)), dt_boxes.new_empty(0)
    if kept is not None:
        batch = batch.without_gaps(torch.from_numpy)
        dt_boxes = kept.kept(batch.boxes, batch.box_format)
        crowd = torch.cat([t.reshape(-1) for t in batch.gt_flags]).double() if batch.gt_flags else None
        rows = kept.kept(batch.gt_boxes, batch.gt_box_format)
        none = rows.new_zeros(len(rows))
        gt_boxes = torch.cat((rows, (none if crowd is None else crowd)[:, None]), 1)
        gt_areas = torch.cat([t.reshape(-1) for t in batch.gt_areas]).double() if batch.gt_areas else none
    by_class = plain.detections[:0] if rematched is None else rematched.detections
    kept_rows = {"boxes": dt_boxes, "gt_boxes": gt_boxes, "gt_areas": gt_areas}
    return ExtendedRecords(**plain.tensors(), **kept_rows, class_detections=by_class)


def box_overlaps(records: ExtendedRecords, geometry: Boxes) -> Overlaps:
    """Similarities of rows of ``records``, from the boxes there."""

    def overlaps(image: int, rows: Tensor, gt_rows: Tensor) -> Tensor:
        gt_boxes = records.gt_boxes[gt_rows]
        return geometry.iou(records.boxes[rows], gt_boxes[:, :-1].contiguous(), gt_boxes[:, -1] != 0)

    return overlaps


def kept_overlaps(records: PartRecords) -> Overlaps:
    """Similarities of rows of ``records``, as they were computed by ``update``."""
    sizes = records.images[:, 4:6]
    first = torch.nn.functional.pad(sizes.cumsum(0), (0, 0, 1, 0)).tolist()
    tables: list[Tensor] = list(records.ious[:, 0].split(sizes.prod(1).tolist()))

    def overlaps(image: int, rows: Tensor, gt_rows: Tensor) -> Tensor:
        (row, gt_row), (end, gt_end) = first[image], first[image + 1]
        table: Tensor = tables[image].reshape(end - row, gt_end - gt_row)[rows - row]
        return table[:, gt_rows - gt_row]

    return overlaps


def cell_ious(
    records: DetectionRecords, overlaps: Overlaps, labels: list[int], limit: int, agnostic: bool, areas: int
) -> dict[Cell, Tensor | list[int]]:
    """IoU of the detections and ground truths of every (image, label) cell, as ``COCOeval.ious`` holds them.

    Args:
        records: of one geometry.
        overlaps: the similarities of their rows.
        labels: ascending labels.
        limit: detections kept a cell, by descending score.
        agnostic: one cell per image, named by label 0.
        areas: A, the number of area ranges.

    Returns:
        (image id, or place of arrival without one; label) to float32 ``[D, G]``, or ``[]`` where a side is empty.
    """
    real, gt_real = records.detections[:, 12] != PADDING_BUCKET, real_rows(records.ground_truths, areas)
    dt_labels, gt_labels = detection_labels(records.detections), ground_truth_labels(records.ground_truths)
    scores = detection_scores(records.detections)
    every, every_gt = (torch.arange(len(labels), device=real.device) for labels in (dt_labels, gt_labels))
    out: dict[Cell, Tensor | list[int]] = {}
    dt_start = gt_start = 0
    for position, (key, has_id, _, _, dt_count, gt_count, *_) in enumerate(records.images.tolist()):
        dt_rows, gt_rows = slice(dt_start, dt_start + dt_count), slice(gt_start, gt_start + gt_count)
        dt_start, gt_start = dt_rows.stop, gt_rows.stop
        for label in [0] if agnostic else labels:
            dt_mask = real[dt_rows] if agnostic else real[dt_rows] & (dt_labels[dt_rows] == label)
            gt_mask = gt_real[gt_rows] if agnostic else gt_real[gt_rows] & (gt_labels[gt_rows] == label)
            order = torch.sort(scores[dt_rows][dt_mask], descending=True, stable=True).indices[:limit]
            iou = overlaps(position, every[dt_rows][dt_mask][order], every_gt[gt_rows][gt_mask])
            out[key if has_id else position, label] = iou.float() if iou.numel() else []
    return out
