"""COCO's results and dataset from what a metric of detections holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.detection.extended import ExtendedRecords, JointRecords
from valor_gpu.detection.kept_inputs import KEPT_TYPES, KeptInputs, KeptMasks
from valor_gpu.detection.record_checks import real_rows
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.record_rows import detection_labels, detection_scores, ground_truth_labels
from valor_gpu.ops.assign.match_batch import PADDING_BUCKET
from valor_gpu.ops.boxes.op import to_xywh
from valor_gpu.ops.runs import cpu as _runs_cpu

Item = dict[str, Any]
Floats = NDArray[np.float64]


@dataclass
class Side:
    """Rows of one side in order of arrival, padding among them.

    Attributes:
        sizes: int64 ``[I]``, rows of each image.
        real: bool ``[N]``, which rows are no padding.
        labels: int64 ``[N]``.
        boxes: float64 ``[N, 4]`` x, y, width, height, or None.
        masks: one dict for each row, with its ``size`` and its compressed ``counts``, or None.
        mask_areas: int64 ``[N]`` pixels, or None.
        crowd: int64 ``[N]``.
        areas: float64 ``[N]`` as given, 0 where none was.
    """

    sizes: NDArray[np.int64]
    real: NDArray[np.bool_]
    labels: NDArray[np.int64]
    boxes: Floats | None
    masks: list[Item] | None
    mask_areas: NDArray[np.int64] | None
    crowd: NDArray[np.int64]
    areas: Floats

    def rows(self, ids: NDArray[np.int64], first: NDArray[np.bool_]) -> list[Item]:
        """The annotations of images that come first, with the keys of torchmetrics in its order.

        Args:
            ids: of all images.
            first: whether each image is the first of its id.
        """
        owners = ids.repeat(self.sizes)
        made: list[Item] = []
        for row in np.flatnonzero(first.repeat(self.sizes) & self.real).tolist():
            box = None if self.boxes is None else self.boxes[row].tolist()
            areas = {} if box is None else {"area_bbox": box[2] * box[3]}
            if self.mask_areas is not None:
                areas["area_segm"] = int(self.mask_areas[row])
            given = float(self.areas[row])
            item = {
                "id": len(made) + 1,
                "image_id": int(owners[row]),
                "area": given if given > 0 else [*areas.values()][-1],
                "category_id": int(self.labels[row]),
                "iscrowd": int(self.crowd[row]),
                **(areas if len(areas) > 1 and not given > 0 else {}),
            }
            if box is not None:
                item["bbox"] = box
            if self.masks is not None:
                item["segmentation"] = self.masks[row]
            made.append(item)
        return made


@dataclass
class Inputs:
    """What is written.

    Attributes:
        ids: int64 ``[I]``, of all images.
        first: bool ``[I]``, which image is the first of its id.
        preds: the detections.
        scores: float64 ``[D]`` of them.
        target: the ground truths.
    """

    ids: NDArray[np.int64]
    first: NDArray[np.bool_]
    preds: Side
    scores: Floats
    target: Side


def written_inputs(metric: Any) -> Inputs:
    """The records of a metric with the boxes and masks that belong to them.

    Raises:
        InputError: these are not kept, or not of a kind that COCO files hold.
    """
    kinds: tuple[str, ...] = metric.iou_type
    if not set(kinds) <= set(KEPT_TYPES):
        need = f"iou_type of {', '.join(map(repr, KEPT_TYPES))}, which COCO files can hold"
        raise InputError(f"tm_to_coco needs {need}, but the metric has {kinds}")
    state = metric.state()
    records = state.part(0, len(kinds)) if isinstance(state, JointRecords) else state
    stored = records if isinstance(records, ExtendedRecords) and metric.extended_summary else None
    kept = [] if stored else _all_kept(metric)
    key, has_id, sizes, gt_sizes = records.images[:, [0, 1, 4, 5]].cpu().numpy().T
    ids = key if bool(has_id.all()) else np.arange(len(key))
    first = np.zeros(len(ids), bool)
    first[np.unique(ids, return_index=True)[1]] = True
    real = _array(records.detections[:, 12] != PADDING_BUCKET)
    gt_real = _array(real_rows(records.ground_truths, len(metric._area_ranges)))
    boxes, gt_boxes, crowd, areas = _stored_boxes(stored) if stored else _kept_boxes(kept, len(gt_real))
    masks, mask_areas = _masks([each.masks for each in kept])
    gt_masks, gt_mask_areas = _masks([each.gt_masks for each in kept])
    labels, gt_labels = detection_labels(records.detections), ground_truth_labels(records.ground_truths)
    none = np.zeros(len(real))
    return Inputs(
        ids, first,
        Side(sizes, real, _array(labels), boxes, masks, mask_areas, none.astype(np.int64), none),
        _array(detection_scores(records.detections)),
        Side(gt_sizes, gt_real, _array(gt_labels), gt_boxes, gt_masks, gt_mask_areas, crowd, areas),
    )  # fmt: skip


def _all_kept(metric: Any) -> list[KeptInputs]:
    kept = metric._kept_inputs()
    if lost := sum(len(table) for table, each in zip(metric.images, kept) if each is None):
        boxes = metric.iou_type == ("bbox",)
        if metric.keep_inputs is False:
            why = "the metric has keep_inputs=False"
        elif metric.keep_inputs is None and not boxes and metric.error.is_cuda:
            why = "masks on CUDA are kept with keep_inputs=True alone, which reads them back in update"
        else:
            why = "they came from a state file, another process or a CUDA graph, whose records alone are there"
            why += ", or from a member of a MetricCollection with keep_inputs=False that shares its state"
            why += "; with extended_summary=True states hold boxes" if boxes else ""
        raise InputError(
            f"tm_to_coco needs {'boxes' if boxes else 'boxes and masks'} of all {sum(map(len, metric.images))} images"
            f" but those of {lost} are not kept: {why}"
        )
    return [each for each in kept if each is not None]


def _array(rows: Tensor) -> Any:
    return rows.cpu().numpy()


def _stored_boxes(records: ExtendedRecords) -> tuple[Floats | None, Floats | None, NDArray[np.int64], Floats]:
    rows = _array(records.gt_boxes)
    return _array(records.boxes), rows[:, :4], rows[:, 4].astype(np.int64), _array(records.gt_areas)


def _kept_boxes(
    kept: Sequence[KeptInputs], gt_rows: int
) -> tuple[Floats | None, Floats | None, NDArray[np.int64], Floats]:
    """Boxes of both sides, crowd flags and areas of ground truths."""
    sides: list[Floats | None] = []
    for name in ("boxes", "gt_boxes"):
        parts = [to_xywh(rows, each.box_format) for each in kept if (rows := getattr(each, name)) is not None]
        sides.append(_array(torch.cat(parts)).astype(np.float64) if parts else None)
    crowd, areas = np.zeros(gt_rows, np.int64), np.zeros(gt_rows)
    start = 0
    for each in kept:
        count = next(len(rows) for rows in (each.gt_boxes, each.gt_masks and each.gt_masks.sizes) if rows is not None)
        for column, found in ((crowd, each.crowd), (areas, each.areas)):
            if found is not None:
                column[start : start + count] = _array(found)
        start += count
    return sides[0], sides[1], crowd, areas


def _masks(kept: Sequence[KeptMasks | None]) -> tuple[list[Item] | None, NDArray[np.int64] | None]:
    """Masks as dicts that JSON can hold, and their pixels; None where the metric compares none."""
    items: list[Item] = []
    areas = []
    for masks in kept:
        if masks is None:
            return None, None
        text, ends = masks.text.tobytes().decode("ascii"), masks.offsets.tolist()
        items += [
            {"size": size, "counts": text[start:end]} for size, start, end in zip(masks.sizes.tolist(), ends, ends[1:])
        ]
        areas.append(_runs_cpu.areas(_runs_cpu.decode_strings(masks.text, masks.offsets, masks.sizes)))
    return (items, np.concatenate(areas)) if kept else (None, None)


def documents(inputs: Inputs) -> tuple[list[Item], Item]:
    """COCO's list of results and its dataset."""
    preds = inputs.preds.rows(inputs.ids, inputs.first)
    scores = inputs.scores[inputs.first.repeat(inputs.preds.sizes) & inputs.preds.real].tolist()
    for item, score in zip(preds, scores):
        item["score"] = score
    annotations = inputs.target.rows(inputs.ids, inputs.first)
    sizes = {
        item["image_id"]: item["segmentation"]["size"] for item in (*preds, *annotations) if "segmentation" in item
    }
    images = [
        {"id": key, **({"height": sizes[key][0], "width": sizes[key][1]} if key in sizes else {})}
        for key in inputs.ids[inputs.first].tolist()
    ]
    categories = [
        {"id": label, "name": str(label)} for label in sorted({r["category_id"] for r in preds + annotations})
    ]
    info = {"description": "Written by valor_gpu from what a metric of detections holds"}
    return preds, {"images": images, "annotations": annotations, "categories": categories, "info": info}
