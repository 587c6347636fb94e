"""What is asked of an evaluation of detections, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valor_gpu.checks import check_choice, check_int, check_number, check_type
from valor_gpu.compat.valor.enums import AnnotationType, MetricType
from valor_gpu.compat.valor.evaluation import EvaluationParameters
from valor_gpu.compat.valor.labels import LabelMap, label_map_of, pairs_of, read_label_map
from valor_gpu.compat.valor.request import check_metrics
from valor_gpu.errors import InputError
from valor_gpu.valor.detection.rules import IOU_THRESHOLDS, SHOWN_THRESHOLDS, DetectionRequest, detection_rules

DEFAULT_METRICS = (
    MetricType.AP,
    MetricType.AR,
    MetricType.mAP,
    MetricType.APAveragedOverIOUs,
    MetricType.mAR,
    MetricType.mAPAveragedOverIOUs,
)
_BY_NAME = (
    MetricType.PrecisionRecallCurve,
    MetricType.DetailedPrecisionRecallCurve,
    MetricType.Precision,
    MetricType.Recall,
    MetricType.F1,
    MetricType.Counts,
    MetricType.ARAveragedOverScores,
    MetricType.mARAveragedOverScores,
    MetricType.ConfusionMatrix,
    MetricType.ConfusionMatrixWithExamples,
    MetricType.Examples,
)
_LITE_METRICS = (
    *DEFAULT_METRICS,
    MetricType.ARAveragedOverScores,
    MetricType.mARAveragedOverScores,
    MetricType.Counts,
    MetricType.Precision,
    MetricType.Recall,
    MetricType.F1,
    MetricType.PrecisionRecallCurve,
)
_LITE_BY_NAME = (MetricType.ConfusionMatrix, MetricType.ConfusionMatrixWithExamples, MetricType.Examples)


def shown_parameters(request: DetectionRequest) -> EvaluationParameters:
    """Returns the choices as valor_core shows them."""
    return EvaluationParameters(
        label_map=label_map_of(request.label_map),
        metrics_to_return=[MetricType(name) for name in request.metrics],
        iou_thresholds_to_compute=list(request.ious),
        iou_thresholds_to_return=list(request.shown_ious),
        convert_annotations_to_type=None if request.convert is None else AnnotationType(request.convert),
        recall_score_threshold=request.recall_score,
        pr_curve_iou_threshold=request.curve_iou,
        pr_curve_max_examples=request.max_examples,
        compat=request.compat,
        score_thresholds=list(request.scores),
        matching=request.matching,
        duplicates=request.duplicates,
        limit=request.page[1],
        offset=request.page[0],
    )


def make_detection_request(
    label_map: LabelMap = None,
    metrics_to_return: Sequence[MetricType | str] | None = None,
    convert_annotations_to_type: AnnotationType | str | None = None,
    iou_thresholds_to_compute: Sequence[float] | None = None,
    iou_thresholds_to_return: Sequence[float] | None = None,
    recall_score_threshold: float = 0.0,
    pr_curve_iou_threshold: float = 0.5,
    pr_curve_max_examples: int = 1,
    *,
    compat: str | None = None,
    score_thresholds: Sequence[float] | None = None,
    matching: str = "valor",
    duplicates: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> DetectionRequest:
    """Checks the arguments of an evaluation.

    Raises:
        InputError: a metric that is not one of detection or of the preset, a number out of its range, a threshold to
            return that is not computed, a choice of another preset.
    """
    detection_rules(compat)
    lite = compat == "valor-lite"
    allowed = {*_LITE_METRICS, *_LITE_BY_NAME} if lite else {*DEFAULT_METRICS, *(() if compat == "coco" else _BY_NAME)}
    chosen = metrics_to_return if metrics_to_return is not None else (_LITE_METRICS if lite else DEFAULT_METRICS)
    ious = _thresholds("iou_thresholds_to_compute", iou_thresholds_to_compute, IOU_THRESHOLDS, open_end=True)
    check_number("recall_score_threshold", recall_score_threshold, 0, 1)
    _check_iou("pr_curve_iou_threshold", pr_curve_iou_threshold)
    check_int("pr_curve_max_examples", pr_curve_max_examples)
    _check_options(compat, matching, duplicates, limit, offset, recall_score_threshold)
    if convert_annotations_to_type is not None:
        check_choice("convert_annotations_to_type", convert_annotations_to_type, [kind.value for kind in _GEOMETRIES])
    convert = convert_annotations_to_type
    return DetectionRequest(
        label_map=pairs_of(read_label_map(label_map)),
        metrics=check_metrics(chosen, allowed),
        convert=None if convert is None else AnnotationType(convert).value,
        ious=ious,
        shown_ious=_shown(iou_thresholds_to_return, ious, lite),
        recall_score=float(recall_score_threshold),
        curve_iou=float(pr_curve_iou_threshold),
        max_examples=max(pr_curve_max_examples, detection_rules(compat).least_examples),
        compat=compat,
        scores=_thresholds("score_thresholds", score_thresholds, (0.5,)),
        matching=matching,
        duplicates=duplicates,
        page=(offset, limit),
    )


_GEOMETRIES = (AnnotationType.BOX, AnnotationType.POLYGON, AnnotationType.RASTER)


def _check_options(
    compat: str | None, matching: str, duplicates: bool, limit: int | None, offset: int, recall_score: float
) -> None:
    check_choice("matching", matching, ("valor", "doc"))
    check_type("duplicates", duplicates, bool)
    if compat == "coco" and recall_score:
        raise InputError(f"recall_score_threshold must be 0 with compat 'coco' but got {recall_score}")
    if compat is not None and matching != "valor":
        raise InputError(f"matching must be 'valor' with compat {compat!r} but got {matching!r}")
    if compat is not None and duplicates:
        raise InputError(f"duplicates must be False with compat {compat!r} but got True")
    check_int("offset", offset)
    if limit is not None:
        check_int("limit", limit)


def _check_iou(name: str, value: Any) -> None:
    check_number(name, 0 if value != value else value)  # NaN is a number, out of the range below
    if not 0 < value <= 1:
        raise InputError(f"{name} must be above 0 and at most 1 but got {value}")


def _thresholds(
    name: str, values: Sequence[float] | None, default: tuple[float, ...], open_end: bool = False
) -> tuple[float, ...]:
    """Thresholds as floats, each once; ``open_end``: 0 is none of them."""
    if values is None:
        return default
    check_type(name, values, (list, tuple, set, frozenset))
    if not values:
        raise InputError(f"{name} must hold at least one number but is empty")
    for value in values:
        if open_end:
            _check_iou(name, value)
        else:
            check_number(name, value, 0, 1)
    return tuple(dict.fromkeys(map(float, values)))


def _shown(values: Sequence[float] | None, ious: tuple[float, ...], lite: bool) -> tuple[float, ...]:
    """By default 0.5 and 0.75, as far as they are computed; valor-lite shows all."""
    if values is None:
        return ious if lite else tuple(iou for iou in SHOWN_THRESHOLDS if iou in ious)
    check_type("iou_thresholds_to_return", values, (list, tuple, set, frozenset))
    for value in values:
        check_number("iou_thresholds_to_return", value, 0, 1)
        if float(value) not in ious:
            raise InputError(
                f"iou_thresholds_to_return must be among iou_thresholds_to_compute {list(ious)} but holds {value}"
            )
    return tuple(dict.fromkeys(map(float, values)))
