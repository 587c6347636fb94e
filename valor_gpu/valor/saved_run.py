"""An evaluation by Valor's rules as a store keeps it: numbers, classes, confusions. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.store.saved import VISION, SavedRun

_KINDS = {
    "detection": ("AP", "mAP", "AR", "mAR", "APAveragedOverIOUs", "mAPAveragedOverIOUs"),
    "segmentation": ("IOU", "mIOU"),
    "classification": ("Accuracy", "ROCAUC", "Precision", "Recall", "F1"),
}
"""Types of metrics, and the first task whose evaluations have them."""


class Evaluation(Protocol):
    """Metrics of an evaluation, in the dicts of valor_core."""

    metrics: list[dict[str, Any]]
    confusion_matrices: list[dict[str, Any]] | None
    meta: dict[str, Any] | None


def saved_run(evaluation: Evaluation, kind: str | None = None) -> SavedRun:
    """What :meth:`valor_gpu.store.Store.save` keeps of an evaluation.

    Args:
        evaluation: of detection, classification or segmentation.
        kind: ``detection``, ``segmentation`` or ``classification``; by default its metrics say it.

    Raises:
        InputError: its metrics do not say what it is an evaluation of.
    """
    types = [str(metric.get("type")) for metric in evaluation.metrics]
    if kind is not None:
        check_choice("kind", kind, VISION)
    metrics: dict[str, float | None] = {}
    classes: dict[str, dict[str, float | None]] = {}
    keys = _label_keys(evaluation)
    curves = 0
    for metric in evaluation.metrics:
        value = metric.get("value")
        if isinstance(value, Mapping):  # a curve, which has as many values as thresholds
            curves += 1
            continue
        name = _name(metric, len(keys) > 1)
        if "label" in metric:
            classes.setdefault(name, {})[
                _label(metric["label"].get("key"), metric["label"].get("value"), len(keys) > 1)
            ] = _number(value)
        else:
            metrics[name] = _number(value)
    meta = evaluation.meta or {}
    return SavedRun(
        kind or _kind(types),
        {"metric": "Valor", "types": list(dict.fromkeys(types))},
        metrics,
        counts={name: int(meta[name]) for name in ("datums", "labels", "annotations") if meta.get(name) is not None},
        classes=classes,
        matrix=_matrix(evaluation.confusion_matrices or [], len(keys) > 1),
        notes=[f"{curves:,} curves of the evaluation are not kept."] if curves else [],
    )


def _label_keys(evaluation: Evaluation) -> set[str]:
    """Keys of labels; where there are several, names have them."""
    found = {metric["label"].get("key") for metric in evaluation.metrics if "label" in metric}
    found |= {(metric.get("parameters") or {}).get("label_key") for metric in evaluation.metrics}
    found |= {matrix.get("label_key") for matrix in evaluation.confusion_matrices or ()}
    return {str(key) for key in found if key is not None}


def _kind(types: list[str]) -> str:
    for kind, of_kind in _KINDS.items():
        if set(types) & set(of_kind):
            return kind
    raise InputError(f"kind must be given, one of {', '.join(VISION)}, for metrics {', '.join(types) or '(none)'}")


def _name(metric: Mapping[str, Any], several_keys: bool) -> str:
    """Type and choices of a metric: ``AP IoU 0.5``."""
    parts = [str(metric.get("type"))]
    for name, value in (metric.get("parameters") or {}).items():
        if name == "label_key":
            parts += [str(value)] if several_keys else []
        elif name == "iou":
            parts.append(f"IoU {value:g}")
        elif name == "ious":
            parts.append(f"IoU {min(value):g} to {max(value):g}")
    return " ".join(parts)


def _label(key: Any, value: Any, several_keys: bool) -> str:
    return f"{key}: {value}" if several_keys else str(value)


def _number(value: Any) -> float | None:
    """-1 stands for a number that does not exist where valor_core's own results are asked for."""
    return None if value is None or not math.isfinite(value) or value == -1 else float(value)


def _matrix(matrices: list[dict[str, Any]], several_keys: bool) -> dict[str, Any] | None:
    """The matrices of all label keys as one, since labels of two keys are never confused."""
    pairs = [
        (*(_label(matrix.get("label_key"), entry[side], several_keys) for side in ("groundtruth", "prediction")), entry)
        for matrix in matrices
        for entry in matrix.get("entries") or ()
    ]
    names = list(dict.fromkeys(name for truth, guess, _ in pairs for name in (truth, guess)))
    places = {name: place for place, name in enumerate(names)}
    counts = [[places[truth], places[guess], int(entry["count"])] for truth, guess, entry in pairs if entry["count"]]
    note = "rows are truth, columns are prediction"
    return {"names": names, "counts": counts, "note": note} if counts else None
