"""What the JSON of a result becomes as a run: headline numbers, a table of classes, curves, a confusion matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.store.saved import VISION, SavedRun

_DETECTION = ("COCOeval", "LVISEval", "MeanAveragePrecision", "AP", "AR", "mAP", "mAR")
_DETECTION_STEMS = (
    *("AP", "mAP", "Detection", "OpenImages"),
    *("IntersectionOver", "GeneralizedIntersection", "DistanceIntersection", "CompleteIntersection"),
)
_SEGMENTATION = ("segment", "MeanIoU", "mIOU", "IOU")
_SEGMENTATION_STEMS = (
    "Panoptic",
    "ModifiedPanoptic",
    "Pixel",
    "Boundary",
    "Dice",
    "GeneralizedDice",
    "Hausdorff",
    "Surface",
)
_SHOWN_IOUS = (0.5, 0.75)

MOST_CURVES = 60
"""Classes whose curves are kept: those with most ground truths, or the first ones where a result has no counts."""

Numbers = Sequence[float | None]
Names = Sequence[str] | Mapping[str, str] | None


def run_of_document(
    document: Mapping[str, Any], kind: str | None = None, names: Sequence[str] | Mapping[str, str] | None = None
) -> SavedRun:
    """Sorts the values of a result by what they can be shown as.

    Args:
        document: ``values``, ``signature`` (name to choice), ``counts``, ``reasons`` and, of a result that has them,
            ``intervals`` and ``interval_choices``, as a result's ``to_dict``.
        kind: of :data:`~valor_gpu.store.saved.VISION`; None: what the signature says.
        names: of classes that are known by their numbers.

    Raises:
        InputError: the signature does not say what it is a result of.
    """
    values, signature = document["values"], document["signature"]
    if kind is not None:
        check_choice("kind", kind, VISION)
    matrix, intervals = values.get("confusion_matrix"), document.get("intervals") or {}
    return SavedRun(
        kind or _kind(signature),
        {name: list(choice) if isinstance(choice, tuple) else choice for name, choice in signature.items()},
        {name: _number(value) for name, value in values.items() if value is None or isinstance(value, (int, float))},
        counts=document["counts"],
        reasons=document["reasons"],
        intervals={name: ends for name in values if (ends := _ends(intervals.get(name)))},
        class_intervals=_class_intervals(values, intervals, names),
        interval_reasons={name: intervals[name]["reason"] for name in values if _is_refused(intervals.get(name))},
        interval_choices=document.get("interval_choices") or {},
        classes=_classes(values, names),
        curves=_curves(values, names),
        notes=_notes(values),
        matrix=_matrix(matrix, values, names) if _is_square(matrix) else None,
    )


def _kind(signature: Mapping[str, Any]) -> str:
    metric = str(signature.get("metric", ""))
    if metric in _DETECTION or metric.startswith(_DETECTION_STEMS):
        return "detection"
    if metric in _SEGMENTATION or metric.startswith(_SEGMENTATION_STEMS):
        return "segmentation"
    if signature.get("task") in ("binary", "multiclass", "multilabel"):
        return "classification"
    raise InputError(f"kind must be given, one of {', '.join(VISION)}, for a result of {metric or 'no named metric'}")


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _named(key: str, names: Names) -> str:
    """The name of a class that is known by its number."""
    if isinstance(names, Mapping):
        return str(names.get(key, key))
    return str(names[int(key)]) if names is not None and key.isdecimal() and int(key) < len(names) else key


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(each is None or isinstance(each, (int, float)) for each in value)


def _classes(values: Mapping[str, Any], names: Names) -> dict[str, dict[str, float | None]]:
    """Columns of the table of classes."""
    found: dict[str, dict[str, float | None]] = {}
    for name, value in values.items():
        if name.endswith("_per_class") and isinstance(value, Mapping):
            column = {_named(key, names): each for key, each in value.items() if not isinstance(each, (list, Mapping))}
            found[name.removesuffix("_per_class")] = column
    listed = values.get("per_class")
    if isinstance(listed, list) and _is_numbers(listed):
        for name, value in values.items():
            if _is_numbers(value) and len(value) == len(listed):
                found[name] = {_named(str(place), names): each for place, each in enumerate(value)}
    return found


def _class_intervals(
    values: Mapping[str, Any], intervals: Mapping[str, Any], names: Names
) -> dict[str, dict[str, tuple[float, float]]]:
    """The ends of intervals of :func:`_classes`, column by column."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for name, interval in intervals.items():
        column, _, key = name.partition("/")
        if ends := _ends(interval) if key and column in values else None:
            found.setdefault(column.removesuffix("_per_class"), {})[_named(key, names)] = ends
    return found


def _ends(interval: Mapping[str, Any] | None) -> tuple[float, float] | None:
    if interval is None or interval["low"] is None or interval["high"] is None:
        return None
    return interval["low"], interval["high"]


def _is_refused(interval: Mapping[str, Any] | None) -> bool:
    return interval is not None and _ends(interval) is None and bool(interval["reason"])


def _is_square(matrix: Any) -> bool:
    return bool(
        isinstance(matrix, list) and matrix and all(_is_numbers(row) and len(row) == len(matrix) for row in matrix)
    )


def _matrix(matrix: list[list[float]], values: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Only what is not 0: most classes are never taken for most others."""
    per_class: Any = next((value for name, value in values.items() if name.endswith("_per_class")), {})
    keys = list(per_class) if isinstance(per_class, Mapping) and len(per_class) == len(matrix) else None
    shown = [_named(str(place), names) if keys is None else _named(keys[place], names) for place in range(len(matrix))]
    counts = [[i, j, n] for i, row in enumerate(matrix) for j, n in enumerate(row) if n]
    return {"names": shown, "counts": counts, "note": "rows are truth, columns are prediction"}


# ---------------------------------------------------------------------------------------------------------- the curves


def _curves(values: Mapping[str, Any], names: Names) -> list[dict[str, Any]]:
    precision, recall = values.get("precision"), values.get("recall")
    grids = values.get("iou_thresholds"), values.get("recall_thresholds")
    if isinstance(precision, list) and all(isinstance(grid, list) for grid in grids):
        lines = iou_lines(grids[0] or [], grids[1] or [], precision)
        return [{"name": "mean of all classes", "lines": lines}] if lines else []
    if isinstance(precision, Mapping) and isinstance(recall, Mapping):
        return [
            {"name": _named(key, names), "lines": [{"name": "", "points": thinned(recall[key], precision[key])}]}
            for key in list(precision)[:MOST_CURVES]
        ]
    if _is_numbers(precision) and _is_numbers(recall):
        return [
            {"name": "precision and recall", "lines": [{"name": "", "points": thinned(recall or [], precision or [])}]}
        ]
    return []


def _notes(values: Mapping[str, Any]) -> tuple[str, ...]:
    precision = values.get("precision")
    if isinstance(precision, Mapping) and len(precision) > MOST_CURVES:
        return (f"Curves are kept of the first {MOST_CURVES} classes, of {len(precision):,}.",)
    return ()


def iou_lines(ious: Sequence[float], recalls: Sequence[float], precision: Sequence[Numbers]) -> list[dict[str, Any]]:
    """The lines of a curve at IoU 0.50 and 0.75, or at the lowest threshold where neither is one.

    Args:
        ious: T thresholds.
        recalls: R recalls.
        precision: ``[T, R]``; None or below 0 where nothing counts.
    """
    at = [place for place, iou in enumerate(ious) if any(abs(iou - shown) < 1e-9 for shown in _SHOWN_IOUS)] or [0]
    lines = []
    for place in at[: len(ious)]:
        row = precision[place]
        if row and all(value is not None and value >= 0 for value in row):
            lines.append({"name": f"IoU {ious[place]:.2f}", "points": thinned(recalls, row)})
    return lines


def thinned(recalls: Numbers, precisions: Numbers) -> list[list[float]]:
    """Points of a curve by recall, at most 101, without the tail where precision is 0.

    Example:
        >>> thinned([1.0, 0.5, 0.0], [0.25, 0.5, 1.0])
        [[0.0, 1.0], [0.5, 0.5], [1.0, 0.25]]
    """
    points = sorted((r, -p) for r, p in zip(recalls, precisions) if r is not None and p is not None)
    step = max(1, -(-len(points) // 101))
    kept = points[::step] + (points[-1:] if (len(points) - 1) % step else [])
    found = [[round(r, 3), round(-p, 3)] for r, p in kept]
    while len(found) > 1 and found[-1][1] == found[-2][1] == 0:
        found.pop()
    return [found[0], *(b for a, b in pairwise(found) if a != b)] if found else []
