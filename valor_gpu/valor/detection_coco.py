"""Detections by the rules of COCO: pycocotools' matching, 100 detections of a label and datum, crowds.

An annotation is a crowd where its metadata has ``iscrowd``. Geometries are compared by the metric of COCO for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.detection.mean_ap import MeanAveragePrecision
from valor_gpu.ops._runs_cpu import to_masks
from valor_gpu.valor.detection_kinds import DETECTIONS, GROUND_TRUTHS, Floats
from valor_gpu.valor.detection_request import DetectionRequest
from valor_gpu.valor.detection_scene import DetectionScene
from valor_gpu.valor.detection_sides import box_corners
from valor_gpu.valor.exceptions import NotSupportedError


class _LabelMeans(MeanAveragePrecision):
    """COCO's numbers of each label."""

    def by_label(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Labels ``[K]``, AP and largest recall ``[K, T]``; -1 for a label without ground truths that count."""
        with self.synced_state() as state:
            self._check_error()
            found = self._accumulate(state, False, full=True)
        precision, recall = found.curves.precision[:, :, :, 0, -1].mean(1).T, found.curves.recall[:, :, 0, -1].T
        return found.labels.cpu().numpy().astype(np.int64), _numpy(precision), _numpy(recall)


def _numpy(values: Any) -> Floats:
    return np.asarray(values.cpu() if isinstance(values, torch.Tensor) else values, np.float64)


def coco_numbers(
    scene: DetectionScene, request: DetectionRequest, num_labels: int
) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """AP and recall of each label and IoU threshold, float64 ``[C, T]``, and ground truths that count, ``[C]``.

    Both are NaN for a label without ground truths that count.

    Args:
        scene: the data.
        request: whose IoU thresholds are meant.
        num_labels: C.

    Raises:
        NotSupportedError: geometries that COCO has no metric for.
    """
    kind = _kind(scene)
    box_format = "xyxyxyxy" if kind == "rotated" else "xyxy"
    metric = _LabelMeans(box_format, kind, list(request.ious), max_detection_thresholds=[100])
    metric.to(scene.overlaps.labels.device)
    metric.update(_side(scene, DETECTIONS, kind), _side(scene, GROUND_TRUTHS, kind))
    labels, precision, recall = metric.by_label()
    found = np.full((2, num_labels, len(request.ious)), np.nan)
    found[0, labels], found[1, labels] = precision, recall
    found[found < 0] = np.nan
    rows = scene.rows(GROUND_TRUTHS)
    return found[0], found[1], np.bincount(rows.label[~_crowds(scene)[rows.annotation]], minlength=num_labels)


def _crowds(scene: DetectionScene) -> NDArray[np.bool_]:
    """Whether each annotation of the ground truths is a crowd."""
    metadata = scene.columns.groundtruths.metadata
    return np.array([bool((entry or {}).get("iscrowd")) for entry in metadata], np.bool_)


def _kind(scene: DetectionScene) -> str:
    sides = [scene.shapes(side) for side in (GROUND_TRUTHS, DETECTIONS)]
    kinds = np.concatenate([np.unique(shapes.kinds) for shapes in sides])
    if (kinds == 3).all():
        return "segm"
    if (kinds == 1).all():
        return "rotated" if any(len(shapes.turned) for shapes in sides) else "bbox"
    raise NotSupportedError("compat 'coco' needs boxes alone, or rasters alone, but got other geometries as well")


def _side(scene: DetectionScene, side: int, kind: str) -> list[dict[str, Any]]:
    """Each datum as the metric takes it."""
    rows, shapes = scene.rows(side), scene.shapes(side)
    device = scene.overlaps.labels.device
    ends = np.cumsum(np.bincount(rows.datum, minlength=len(scene.columns.datums)))[:-1]
    columns: dict[str, NDArray[Any]] = {"labels": rows.label.astype(np.int64)}
    if side == DETECTIONS:
        columns["scores"] = rows.score
    else:
        columns["iscrowd"] = _crowds(scene)[rows.annotation].astype(np.int64)
    if kind != "segm":
        columns["boxes"] = (shapes.boxes if kind == "bbox" else box_corners(shapes))[rows.annotation]
    parts = {name: np.split(column, ends) for name, column in columns.items()}
    items: list[dict[str, Any]] = [
        {name: torch.from_numpy(parts[name][datum]).to(device) for name in parts}
        for datum in range(len(scene.columns.datums))
    ]
    for datum, item in enumerate(items):
        if side == GROUND_TRUTHS:
            item["image_id"] = datum
        if kind == "segm":
            places = np.searchsorted(shapes.masked, np.split(rows.annotation, ends)[datum])
            item["masks"] = torch.from_numpy(to_masks(shapes.masks.take(places))).to(device)
    return items
