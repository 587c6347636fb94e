"""What an evaluation was asked for and what it found, as valor_core shows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from valor_gpu._headline import headline
from valor_gpu.checks import check_int, check_number, check_type
from valor_gpu.compat.valor import enums
from valor_gpu.compat.valor.labels import Label
from valor_gpu.errors import InputError

if TYPE_CHECKING:
    from valor_gpu.store.saved import SavedRun

_NONE = type(None)
_OWN_CHOICES = ("compat", "score_thresholds", "matching", "duplicates", "limit", "offset")  # not in valor_core
_OF_TEXTS = ("llm_api_params", "metric_params")  # in valor_core's parameters of generated texts alone


@dataclass
class EvaluationParameters:
    """The choices of an evaluation; those of other tasks stay at their defaults.

    Args:
        label_map: labels that count as another label.
        metrics_to_return: members of :class:`~valor_gpu.valor.enums.MetricType`, or their names.
        iou_thresholds_to_compute: IoU thresholds of detection.
        iou_thresholds_to_return: those of them that are shown.
        convert_annotations_to_type: the geometry that detection compares.
        recall_score_threshold: score from which a prediction counts for average recall.
        pr_curve_iou_threshold: IoU from which a pair counts in curves of detection.
        pr_curve_max_examples: datums shown for each kind of observation, at least 0.
        llm_api_params: which judge was asked.
        metric_params: choices by metric.
        compat: the release whose rules applied; None: the definitions of this library.
        score_thresholds: scores of detection at which counts are taken.
        matching: how detections got their ground truths.
        duplicates: whether repeated finds were a kind of observation of their own.
        limit: how many datums Examples of detections showed at most; None: all.
        offset: the first of them.

    Raises:
        InputTypeError: a choice of a wrong type.
        InputError: a number out of its range, or a name that no metric has.
    """

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
    compat: str | None = None
    score_thresholds: list[float] | None = None
    matching: str = "valor"
    duplicates: bool = False
    limit: int | None = None
    offset: int = 0

    def __post_init__(self) -> None:
        _check_labels(self.label_map)
        check_type("metrics_to_return", self.metrics_to_return, (list, _NONE))
        for metric in self.metrics_to_return or ():
            _check_member("metrics_to_return", metric, enums.MetricType)
        for name in ("iou_thresholds_to_compute", "iou_thresholds_to_return"):
            check_type(name, getattr(self, name), (list, _NONE))
            for threshold in getattr(self, name) or ():
                check_number(name, threshold, 0, 1)
        if self.convert_annotations_to_type is not None:
            _check_member("convert_annotations_to_type", self.convert_annotations_to_type, enums.AnnotationType)
        check_number("recall_score_threshold", self.recall_score_threshold, 0, 1)
        check_number("pr_curve_iou_threshold", self.pr_curve_iou_threshold, 0, 1)
        check_int("pr_curve_max_examples", self.pr_curve_max_examples)
        for name in ("llm_api_params", "metric_params"):
            check_type(name, getattr(self, name), (Mapping, _NONE))
        check_type("compat", self.compat, (str, _NONE))
        check_type("score_thresholds", self.score_thresholds, (list, _NONE))
        check_type("matching", self.matching, str)
        check_type("duplicates", self.duplicates, bool)
        check_type("limit", self.limit, (int, _NONE))
        check_int("offset", self.offset)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: labels as ``[key, value]``, the label map as pairs of these, metric types as strings.

        With ``compat="valor-core"`` the dict of valor_core: the label map as a dict of Label to Label, empty without a
        map, and no choice that valor_core does not have.
        """
        values = self._plain()
        if self.compat == "valor-core":
            return {
                name: dict(self.label_map or {}) if name == "label_map" else value
                for name, value in values.items()
                if name not in _OWN_CHOICES and (value is not None or name not in _OF_TEXTS)
            }
        return values

    def _plain(self) -> dict[str, Any]:
        """Every choice as ``json.dumps`` takes it, whatever ``compat`` is."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if self.label_map is not None:
            values["label_map"] = [[[a.key, a.value], [b.key, b.value]] for a, b in self.label_map.items()]
        if self.metrics_to_return is not None:
            values["metrics_to_return"] = [enums.MetricType(metric).value for metric in self.metrics_to_return]
        if self.convert_annotations_to_type is not None:
            values["convert_annotations_to_type"] = enums.AnnotationType(self.convert_annotations_to_type).value
        return values


def _check_labels(label_map: object) -> None:
    check_type("label_map", label_map, (dict, _NONE))
    assert label_map is None or isinstance(label_map, dict)
    for pair in (label_map or {}).items():
        for label in pair:
            check_type("label_map", label, Label)


def _check_member(name: str, value: object, kind: type[enums.MetricType] | type[enums.AnnotationType]) -> None:
    """Raises unless ``value`` is a member of an enumeration or the name of one."""
    check_type(name, value, str)
    if value not in {member.value for member in kind}:
        raise InputError(f"{name} must be of {kind.__name__} but got {value!r}")


@dataclass
class Evaluation:
    """The metrics of an evaluation, each a dict with ``type``, ``value`` and what it belongs to.

    Attributes:
        parameters: what was asked for.
        metrics: dicts with ``type``, ``value`` and, as the metric has them, ``label`` and ``parameters``.
        confusion_matrices: one dict per label key: ``label_key`` and ``entries`` of prediction, groundtruth and count.
        ignored_pred_labels: labels of predictions that no ground truth has.
        missing_pred_labels: labels of ground truths that no prediction has.
        meta: numbers of ``labels``, ``datums`` and ``annotations``, the ``duration`` in seconds, and ``reasons``: why a
            value is None.

    Raises:
        InputTypeError: a field of a wrong type.
    """

    parameters: EvaluationParameters
    metrics: list[dict[str, Any]]
    confusion_matrices: list[dict[str, Any]] | None = None
    ignored_pred_labels: list[tuple[str, str]] | None = None
    missing_pred_labels: list[tuple[str, str]] | None = None
    meta: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        check_type("Evaluation.parameters", self.parameters, EvaluationParameters)
        check_type("Evaluation.metrics", self.metrics, list)
        for name in ("confusion_matrices", "ignored_pred_labels", "missing_pred_labels"):
            check_type(f"Evaluation.{name}", getattr(self, name), (list, _NONE))
        for name, entries in (("metrics", self.metrics), ("confusion_matrices", self.confusion_matrices)):
            for entry in entries or ():
                check_type(f"Evaluation.{name}", entry, dict)
        check_type("Evaluation.meta", self.meta, (dict, _NONE))

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as a dict of plain values."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**values, "parameters": self.parameters.to_dict()}

    def to_run(self, kind: str | None = None) -> SavedRun:
        """The evaluation as a store keeps it, see :func:`valor_gpu.valor.saved_run.saved_run`."""
        from valor_gpu.valor.saved_run import saved_run

        return saved_run(self, kind)

    def __repr__(self) -> str:
        means: dict[str, Any] = {}
        for metric in self.metrics:
            if "label" not in metric and isinstance(value := metric.get("value"), (int, float, type(None))):
                iou = (metric.get("parameters") or {}).get("iou")
                means.setdefault(f"{metric.get('type')}{'' if iou is None else f' at {iou:g}'}", value)
        meta = self.meta or {}
        notes: dict[str, Any] = {name: meta[name] for name in ("datums", "labels") if name in meta}
        return headline(type(self).__name__, "", means, {"metrics": len(self.metrics), **notes})

    def __str__(self) -> str:
        import json

        return json.dumps({**self.to_dict(), "parameters": self.parameters._plain()}, indent=4)
