"""Detections are read: objects or frames become columns, and columns the overlaps of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from valor_gpu.checks import check_device
from valor_gpu.errors import InputError
from valor_gpu.ops.overlaps.op import Overlaps
from valor_gpu.valor.columns import Columns, Rows, join_columns, read_columns
from valor_gpu.valor.detection.pairs import find_overlaps
from valor_gpu.valor.detection.request import DetectionRequest
from valor_gpu.valor.detection.scene import DetectionScene
from valor_gpu.valor.detection.shapes import DETAIL
from valor_gpu.valor.enums import TaskType


def read_scene(
    groundtruths: Any, predictions: Any, request: DetectionRequest, device: Any = None, dataset: str = ""
) -> DetectionScene:
    """Reads both sides and finds what overlaps.

    Args:
        groundtruths: objects or a frame, see :func:`valor_gpu.valor.columns.read_columns`.
        predictions: likewise.
        request: whose label map applies, and choice of the geometry to compare.
        device: where pairs are found and stay; the CPU by default.
        dataset: its name in examples.

    Raises:
        InputError: a device that is not there, malformed input, or geometries that cannot be compared.
    """
    device = check_device(device)
    columns = read_columns(groundtruths, predictions, TaskType.OBJECT_DETECTION).mapped(request.label_map)
    if not request.rules.count_rows:
        sides = (columns.groundtruths, columns.predictions)
        truths, rows = (_merged(side, len(columns.labels)) for side in sides)
        columns = replace(columns, groundtruths=truths, predictions=rows)
    found = find_overlaps(
        columns, convert=request.convert, raster_to_polygon=request.rules.raster_to_polygon, device=device
    )
    return DetectionScene(columns, found.overlaps, (found.groundtruths, found.predictions), dataset)


def _merged(rows: Rows, num_labels: int) -> Rows:
    """Each label of an annotation once, with its largest score, where it came first."""
    codes = rows.annotation.astype(np.int64) * max(num_labels, 1) + rows.label
    first, place = np.unique(codes, return_index=True, return_inverse=True)[1:]
    if len(first) == len(codes):
        return rows
    best = np.full(len(first), -np.inf)
    np.maximum.at(best, place, np.nan_to_num(rows.score, nan=-np.inf))
    score = np.where(np.isnan(rows.score[first]), np.nan, best)
    order = np.argsort(first)
    return replace(rows.take(first[order]), score=score[order])


def detail_of(scene: DetectionScene) -> tuple[int, int]:
    """The most detailed geometry of ground truths and of predictions, places in ``DETAIL``; 0 without rows."""
    kinds = [scene.shapes(side).kinds[np.unique(scene.rows(side).annotation)] for side in (0, 1)]
    return int(kinds[0].max(initial=0)), int(kinds[1].max(initial=0))


def check_details(details: Sequence[tuple[int, int]]) -> None:
    """Raises unless parts were compared in the geometry in which all of them together would be.

    Args:
        details: of the parts, from :func:`detail_of`.

    Raises:
        InputError: the most detailed geometry that both sides have differs.
    """
    most = np.array(details)
    whole, both = most.max(0).min(), most[(most > 0).all(1)].min(1)
    if (both != whole).any():
        names = sorted({DETAIL[int(kind)].value for kind in (*both, whole)})
        raise InputError(
            "convert_annotations_to_type must be given where parts differ in the most detailed geometry that both "
            f"sides have but they have {' and '.join(names)}"
        )


def join_scenes(parts: Sequence[DetectionScene]) -> DetectionScene:
    """Several parts, of different datums, as one.

    Args:
        parts: at least one, on one device.
    """
    if len(parts) == 1:
        return parts[0]
    columns = join_columns([part.columns for part in parts])
    places = _joined_places(parts)
    return DetectionScene(columns, _joined_overlaps(parts, columns), places, parts[0].dataset)


def _joined_places(parts: Sequence[DetectionScene]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    found = []
    for side in (0, 1):
        first, moved = 0, []
        for part in parts:
            moved.append(part.places[side] + first)
            first += len((part.columns.groundtruths, part.columns.predictions)[side])
        found.append(np.concatenate(moved))
    return found[0], found[1]


def _joined_overlaps(parts: Sequence[DetectionScene], columns: Columns) -> Overlaps:
    codes = {label: code for code, label in enumerate(columns.labels)}
    columns_of = [list(part.overlaps.columns()) for part in parts]
    first = 0
    for part, listed in zip(parts, columns_of):
        moved = torch.tensor([codes[label] for label in part.columns.labels], dtype=torch.int64)
        moved = moved.to(listed[1].device)
        listed[1], listed[3], listed[5] = moved[listed[1]], moved[listed[3]], listed[5] + first
        first += len(listed[3])
    sizes, *others = zip(*columns_of)
    return Overlaps(torch.cat(sizes, 1), *(torch.cat(column) for column in others))
