"""Recorded detections of Valor's releases: reading them, and our evaluations in their shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.valor import cases, segmentation_scenes
from valor_gpu.valor import (
    Annotation,
    Box,
    Datum,
    Evaluation,
    GroundTruth,
    Label,
    Polygon,
    Prediction,
    Raster,
)

Sides = tuple[list[GroundTruth], list[Prediction]]


def objects(datums: Sequence[dict[str, Any]], key: str = "class") -> Sides:
    """The datums of a case; datum numbers and uids of annotations become metadata."""
    truths, found = [], []
    for place, datum in enumerate(datums):
        named = Datum(datum["uid"], metadata={"datum_id": place})
        truths.append(GroundTruth(named, [annotation(one, key) for one in datum["groundtruths"]]))
        found.append(Prediction(named, [annotation(one, key) for one in datum["predictions"]]))
    return truths, found


def annotation(one: dict[str, Any], key: str) -> Annotation:
    scores = one.get("scores") or [None] * len(one["labels"])
    labels = [
        Label(key, label, score) if isinstance(label, str) else Label(label["key"], label["value"], score)
        for label, score in zip(one["labels"], scores)
    ]
    metadata = dict(one.get("metadata") or {})
    metadata.update({name: one[name] for name in ("uid", "iscrowd") if name in one})
    return Annotation(labels=labels, is_instance=True, metadata=metadata or None, **geometry(one))


def geometry(one: dict[str, Any]) -> dict[str, Any]:
    if "bitmask" in one:
        return {"raster": Raster(segmentation_scenes.decoded(one["bitmask"]))}
    if "polygon" in one:
        return {"polygon": Polygon([[tuple(point) for point in ring] for ring in one["polygon"]])}
    if "box" in one:
        return {"bounding_box": Box([[tuple(point) for point in one["box"]]])}
    box = one["bbox"]
    x0, x1, y0, y1 = (box[name] for name in ("xmin", "xmax", "ymin", "ymax"))
    return {"bounding_box": Box([[(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)]])}


def shaped(evaluation: Evaluation) -> dict[str, Any]:
    """Metrics as the cases of valor_api and valor_core hold them."""
    found: dict[str, Any] = {}
    for metric in evaluation.metrics:
        kind, value, parameters = metric["type"], metric["value"], metric.get("parameters", {})
        place = ":".join(metric["label"].values()) if "label" in metric else parameters["label_key"]
        named = found.setdefault(kind, {})
        if kind in cases.CURVES:
            named[place] = cases.arrays(value, kind)
        elif "iou" in parameters:
            named.setdefault(place, {})[str(parameters["iou"])] = value
        else:
            named[place] = value
    for name in ("ignored_pred_labels", "missing_pred_labels"):
        if getattr(evaluation, name):
            found[name] = [list(label) for label in getattr(evaluation, name)]
    return without_negatives(found)


def without_negatives(metrics: dict[str, Any]) -> dict[str, Any]:
    """Without the columns of curves that a detection has no numbers for; some cases hold them as None."""
    for kind in cases.CURVES:
        for labels in metrics.get(kind, {}).values():
            for columns in labels.values():
                for name in ("tn", "accuracy", "tn/all"):
                    columns.pop(name, None)
    return metrics


def shaped_lite(evaluation: Evaluation) -> dict[str, Any]:
    """Metrics as the cases of valor-lite hold them: curves, counts and matrices at an IoU of 0.5 alone."""
    found: dict[str, Any] = {}
    for metric in evaluation.metrics:
        kind, value, parameters = metric["type"], metric["value"], dict(metric["parameters"])
        parameters.pop("label_key")
        label, iou, score = (parameters.get(name) for name in ("label", "iou_threshold", "score_threshold"))
        if kind == "PrecisionRecallCurve":
            place: list[str] = ["PrecisionRecallCurve101", str(label)]
        elif kind == "ConfusionMatrix":
            if iou == 0.5:
                found.setdefault(kind, []).append({**parameters, **value})
            continue
        else:
            cut = [f"score>={score}"] if iou is None else [f"iou>={iou},score>={score}"]
            cut = [str(iou)] if kind in ("AP", "mAP") else [] if score is None else cut
            place = [kind, *([] if label is None else [str(label)]), *cut]
        if kind in ("AP", "mAP") or iou in (None, 0.5):
            named = found
            for step in place[:-1]:
                named = named.setdefault(step, {})
            named[place[-1]] = value
    return found
