"""All metrics of an evaluation of detections: each label key in the order in which it came."""

from __future__ import annotations

from typing import Any

from valor_gpu.compat.valor.detection.lite import LITE_METRICS, LiteDetectionKey
from valor_gpu.compat.valor.detection.metrics import METRICS, DetectionKey
from valor_gpu.compat.valor.enums import MetricType
from valor_gpu.valor.detection.numbers import DetectionNumbers
from valor_gpu.valor.detection.rules import DetectionRequest
from valor_gpu.valor.detection.scene import DetectionScene

Metric = dict[str, Any]


def key_metrics(
    scene: DetectionScene, request: DetectionRequest, reasons: dict[str, str], numbers: DetectionNumbers | None = None
) -> tuple[list[Metric], list[Metric]]:
    """The metrics that are asked for, and confusion matrices where these are.

    Args:
        scene: what a filter left.
        request: what is asked for.
        reasons: where to note why a value is None.
        numbers: of the scene, where they are known.
    """
    numbers = numbers or DetectionNumbers(scene.overlaps, len(scene.columns.labels), request)
    if request.compat == "coco":
        from valor_gpu.valor.detection.coco import coco_numbers  # which other presets need not load

        found_by_coco = coco_numbers(scene, request, numbers.num_labels)
        numbers.average_precision, numbers.recall, numbers.ground_truths = found_by_coco
    found: list[Metric] = []
    matrices: list[Metric] = []
    for name, labels in _keys(scene, numbers).items():
        if request.compat == "valor-lite":
            key = LiteDetectionKey(name, labels, scene, numbers, reasons)
            found += [metric for wanted in request.metrics for metric in LITE_METRICS[MetricType(wanted)](key)]
            continue
        plain = DetectionKey(name, labels, scene, numbers, reasons)
        found += [metric for wanted in request.metrics for metric in METRICS[MetricType(wanted)](plain)]
        if {MetricType.ConfusionMatrix, MetricType.ConfusionMatrixWithExamples}.intersection(request.metrics):
            matrices += plain.entries()
    return found, matrices


def _keys(scene: DetectionScene, numbers: DetectionNumbers) -> dict[str, list[int]]:
    """The labels of each key that have rows; valor-lite keeps those that a filter emptied."""
    there = numbers.ground_truths + numbers.predictions > 0
    keys: dict[str, list[int]] = {}
    for place, (key, _) in enumerate(scene.columns.labels):
        if there[place] or numbers.request.compat == "valor-lite":
            keys.setdefault(key, []).append(place)
    return keys
