"""What an evaluation was asked for and what it found, as valor_core shows them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from valor_gpu.valor import enums

if TYPE_CHECKING:
    from valor_gpu.valor.schemas import Label


@dataclass
class EvaluationParameters:
    """The choices of an evaluation; those of other tasks stay at their defaults."""

    label_map: dict[Label, Label] | None = None
    metrics_to_return: list[enums.MetricType] | None = None
    iou_thresholds_to_compute: list[float] | None = None
    iou_thresholds_to_return: list[float] | None = None
    convert_annotations_to_type: enums.AnnotationType | None = None
    recall_score_threshold: float = 0.0
    pr_curve_iou_threshold: float = 0.5
    pr_curve_max_examples: int = 1
    llm_api_params: dict[str, str | int | dict[str, Any]] | None = None
    metric_params: dict[str, dict[str, Any]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values: labels as ``[key, value]``, the label map as pairs of these, metric types as strings."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.label_map is not None:
            values["label_map"] = [[[a.key, a.value], [b.key, b.value]] for a, b in self.label_map.items()]
        if self.metrics_to_return is not None:
            values["metrics_to_return"] = [enums.MetricType(metric).value for metric in self.metrics_to_return]
        if self.convert_annotations_to_type is not None:
            values["convert_annotations_to_type"] = enums.AnnotationType(self.convert_annotations_to_type).value
        return values


@dataclass
class Evaluation:
    """The metrics of an evaluation, each a dict with ``type``, ``value`` and what it belongs to.

    Attributes:
        parameters: what was asked for.
        metrics: dicts with ``type``, ``value`` and, as the metric has them, ``label`` and ``parameters``.
        confusion_matrices: one dict a label key: ``label_key`` and ``entries`` of prediction, groundtruth and count.
        ignored_pred_labels: labels of predictions that no ground truth has.
        missing_pred_labels: labels of ground truths that no prediction has.
        meta: numbers of ``labels``, ``datums`` and ``annotations``, the ``duration`` in seconds, and ``reasons``: why a
            value is None.
    """

    parameters: EvaluationParameters
    metrics: list[dict[str, Any]]
    confusion_matrices: list[dict[str, Any]] | None = None
    ignored_pred_labels: list[tuple[str, str]] | None = None
    missing_pred_labels: list[tuple[str, str]] | None = None
    meta: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as a dict of plain values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**values, "parameters": self.parameters.to_dict()}

    def __str__(self) -> str:
        import json

        return json.dumps(self.to_dict(), indent=4)
