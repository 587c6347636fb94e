"""Detections by the rules of COCO: pycocotools' matching, 100 detections of a label and datum, crowds.

An annotation is a crowd where its metadata has ``iscrowd``. Geometries are compared by the metric of COCO for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.detection.choices import AREA_RANGES
from valor_gpu.detection.geometry import GeometryChoices, choose_geometries, match_all, read_all
from valor_gpu.ops.accumulate.op import accumulate
from valor_gpu.ops.accumulate.types import AccumulateChoices, RecordShape
from valor_gpu.ops.assign.match_batch import CHECK_SCORES, HASHED, USER_INPUT, MatchRule
from valor_gpu.ops.error_codes import describe_box
from valor_gpu.ops.runs.cpu import to_masks
from valor_gpu.valor.columns import Rows
from valor_gpu.valor.detection.conversion import common_type, convert_side
from valor_gpu.valor.detection.examples import polygons_of
from valor_gpu.valor.detection.numbers import Floats
from valor_gpu.valor.detection.request import DetectionRequest
from valor_gpu.valor.detection.scene import DETECTIONS, GROUND_TRUTHS, DetectionScene
from valor_gpu.valor.detection.shapes import DETAIL, Shapes
from valor_gpu.valor.detection.sides import box_corners
from valor_gpu.valor.enums import AnnotationType
from valor_gpu.valor.exceptions import NotSupportedError

_LIMIT = 100  # detections of a label and datum that count, best first


class _LabelMeans(NamedTuple):
    """COCO's numbers of each label.

    Attributes:
        labels: int64 ``[K]``, those that occur.
        precision: AP ``[K, T]``; -1 for a label without ground truths that count.
        recall: the largest recall ``[K, T]``, likewise.
    """

    labels: NDArray[np.int64]
    precision: Floats
    recall: Floats


def _label_means(kind: str, items: Sequence[list[dict[str, Any]]], ious: Sequence[float]) -> _LabelMeans:
    """Matches and accumulates as ``MeanAveragePrecision`` does, without the class: torchmetrics loads for seconds.

    Args:
        kind: the ``iou_type``.
        items: predictions and ground truths of each datum, as the metric takes them.
        ious: T thresholds.
    """
    box_format = "xyxyxyxy" if kind == "rotated" else "xyxy"
    chosen = GeometryChoices((kind,), box_format, "degrees", "counterclockwise", None)
    geometries = choose_geometries(chosen)
    rule = MatchRule.make(ious, list(AREA_RANGES.values()), [_LIMIT], HASHED | CHECK_SCORES | USER_INPUT)
    batch, shapes = read_all(geometries, *items)
    matched = match_all(geometries, batch, shapes, rule, None)[0]
    choices = AccumulateChoices(RecordShape.of(rule), np.linspace(0.0, 1.0, 101), full=True)
    error = matched.error if matched.error.is_cuda else None
    tables = matched.detections, matched.ground_truths, matched.images
    found = accumulate(*tables, choices, error, describe_box)
    precision, recall = found.curves.precision[:, :, :, 0, -1].mean(1).T, found.curves.recall[:, :, 0, -1].T
    return _LabelMeans(found.labels.cpu().numpy().astype(np.int64), _numpy(precision), _numpy(recall))


def _numpy(values: Any) -> Floats:
    return np.asarray(values.cpu() if isinstance(values, torch.Tensor) else values, np.float64)


def coco_numbers(
    scene: DetectionScene, request: DetectionRequest, num_labels: int
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """AP of each label and IoU threshold ``[C, T]``, AR of each label and ground truths that count, ``[C]``.

    The first two are NaN for a label without ground truths that count.

    Args:
        scene: the data.
        request: whose IoU thresholds are meant.
        num_labels: C.

    Raises:
        NotSupportedError: geometries that COCO has no metric for.
    """
    sides = [_converted(scene, side, request) for side in (DETECTIONS, GROUND_TRUTHS)]
    kind = _kind(sides)
    labels, precision, recall = _label_means(kind, [_items(scene, side, kind) for side in sides], request.ious)
    found = np.full((2, num_labels, len(request.ious)), np.nan)
    found[0, labels], found[1, labels] = precision, recall
    found[found < 0] = np.nan
    rows = scene.rows(GROUND_TRUTHS)
    return found[0], found[1].mean(1), np.bincount(rows.label[~_crowds(scene)[rows.annotation]], minlength=num_labels)


def _crowds(scene: DetectionScene) -> NDArray[np.bool_]:
    """Whether each annotation of the ground truths is a crowd."""
    metadata = scene.columns.groundtruths.metadata
    return np.array([bool((entry or {}).get("iscrowd")) for entry in metadata], np.bool_)


class _Side(NamedTuple):
    """The rows of one side with the geometries that are compared.

    Attributes:
        side: ``DETECTIONS`` or ``GROUND_TRUTHS``.
        rows: by datum.
        shapes: of all annotations.
    """

    side: int
    rows: Rows
    shapes: Shapes


def _converted(scene: DetectionScene, side: int, request: DetectionRequest) -> _Side:
    name = ("groundtruths", "predictions")[side]
    rule = request.rules.raster_to_polygon
    shapes = convert_side(scene.columns, name, request.convert, common_type(scene.columns), rule)
    return _Side(side, scene.rows(side), shapes)


def _kind(sides: Sequence[_Side]) -> str:
    found = np.concatenate([side.shapes.kinds[side.rows.annotation] for side in sides])
    kinds = {DETAIL[kind] for kind in np.unique(found).tolist()}
    if kinds == {AnnotationType.RASTER}:
        return "segm"
    if AnnotationType.RASTER in kinds:
        raise NotSupportedError(
            "compat 'coco' compares rasters with rasters only but got boxes or polygons as well: "
            "convert_annotations_to_type='box' compares boxes"
        )
    if AnnotationType.POLYGON in kinds:
        return "polygon"
    turned = any(np.isin(side.shapes.turned, side.rows.annotation).any() for side in sides)
    return "rotated" if turned else "bbox"


def _items(scene: DetectionScene, side: _Side, kind: str) -> list[dict[str, Any]]:
    """Each datum as the metric takes it."""
    rows, shapes = side.rows, side.shapes
    device, datums = scene.overlaps.labels.device, len(scene.columns.datums)
    columns: dict[str, NDArray[Any]] = {"labels": rows.label.astype(np.int64)}
    if side.side == DETECTIONS:
        columns["scores"] = rows.score
    else:
        columns["iscrowd"] = _crowds(scene)[rows.annotation].astype(np.int64)
    if kind in ("bbox", "rotated"):
        columns["boxes"] = (shapes.boxes if kind == "bbox" else box_corners(shapes))[rows.annotation]
    ends = np.cumsum(np.bincount(rows.datum, minlength=datums))[:-1]
    parts = {name: np.split(column, ends) for name, column in columns.items()}
    annotations = np.split(rows.annotation, ends)
    items: list[dict[str, Any]] = []
    for datum in range(datums):
        item: dict[str, Any] = {name: torch.from_numpy(part[datum]).to(device) for name, part in parts.items()}
        if side.side == GROUND_TRUTHS:
            item["image_id"] = datum
        if kind == "segm":
            masks = shapes.masks.take(np.searchsorted(shapes.masked, annotations[datum]))
            item["masks"] = torch.from_numpy(to_masks(masks)).to(device) if len(masks) else torch.zeros(0, 1, 1).bool()
        elif kind == "polygon":
            item["polygons"] = [polygons_of(shapes, annotation) for annotation in annotations[datum].tolist()]
        items.append(item)
    return items
