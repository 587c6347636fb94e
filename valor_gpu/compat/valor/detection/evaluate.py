"""Evaluation of detections: objects or frames with boxes, polygons or masks in, metrics of each label key out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from valor_gpu.checks import check_device, check_type
from valor_gpu.compat.valor.datasets import Dataset
from valor_gpu.compat.valor.detection.request import make_detection_request, shown_parameters
from valor_gpu.compat.valor.detection.slices import DetectionEvaluation
from valor_gpu.compat.valor.enums import AnnotationType, MetricType, TaskType
from valor_gpu.compat.valor.labels import Label
from valor_gpu.compat.valor.objects import read_columns
from valor_gpu.compat.valor.request import read_filter
from valor_gpu.compat.valor.schemas import GroundTruth, Prediction
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor.columns import Columns, Kept
from valor_gpu.valor.detection.rules import DetectionRequest
from valor_gpu.valor.detection.scene import EvaluatedData
from valor_gpu.valor.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Iterable

    import torch

    from valor_gpu.valor.detection.scene import DetectionScene
    from valor_gpu.valor.frames import Frame


def evaluate_detection(
    groundtruths: Iterable[GroundTruth] | Frame | None = None,
    predictions: Iterable[Prediction] | Frame | None = None,
    label_map: Mapping[Label, Label] | None = None,
    metrics_to_return: Sequence[MetricType | str] | None = None,
    convert_annotations_to_type: AnnotationType | str | None = None,
    iou_thresholds_to_compute: Sequence[float] | None = None,
    iou_thresholds_to_return: Sequence[float] | None = None,
    recall_score_threshold: float = 0.0,
    pr_curve_iou_threshold: float = 0.5,
    pr_curve_max_examples: int = 1,
    *,
    data: Dataset | None = None,
    filters: Filter | Mapping[str, Any] | None = None,
    compat: str | None = None,
    device: torch.device | str | None = None,
    score_thresholds: Sequence[float] | None = None,
    matching: str = "valor",
    duplicates: bool = False,
    limit: int | None = None,
    offset: int = 0,
) -> DetectionEvaluation:
    """Compares predicted objects with true ones: boxes, polygons or masks, each label key apart.

    A prediction is compared with the ground truth of its label on its datum that it overlaps most; of the predictions
    that reach an IoU threshold the one of the largest score finds it, the others are false positives. Definitions, edge
    cases and the rules of each preset are in docs/valor.md.

    Args:
        groundtruths: objects whose annotations have labels, a geometry and ``is_instance=True``, or a frame with
            columns ``datum_uid``, ``label_key``, ``label_value`` and a geometry.
        predictions: likewise, with scores; a frame has a column ``score``.
        label_map: labels that count as another label, also of another key.
        metrics_to_return: default: AP, AR, mAP, mAR, APAveragedOverIOUs and mAPAveragedOverIOUs. By name also
            PrecisionRecallCurve, DetailedPrecisionRecallCurve, Precision, Recall, F1, Counts, ARAveragedOverScores,
            mARAveragedOverScores, ConfusionMatrix, ConfusionMatrixWithExamples and Examples.
        convert_annotations_to_type: the geometry to compare; default: the most detailed one that both sides have.
        iou_thresholds_to_compute: in (0, 1]; default: 0.5, 0.55, ... 0.95. AR and averages are over all of them.
        iou_thresholds_to_return: those of them that single values are returned for; default: 0.5 and 0.75, as far as
            they are computed.
        recall_score_threshold: in [0, 1]; predictions of lower scores find nothing in AR.
        pr_curve_iou_threshold: in (0, 1], of the two curves.
        pr_curve_max_examples: annotations shown for each kind of observation in DetailedPrecisionRecallCurve.
        data: both sides, in place of ``groundtruths`` and ``predictions``; each datum once on a side.
        filters: keep only some datums, ground truths or predictions.
        compat: None, or ``valor-api``, ``valor-core``, ``valor-lite`` or ``coco`` for the rules of that program.
        device: where the computation runs; default: the CPU.
        score_thresholds: of Precision, Recall, F1, Counts, ARAveragedOverScores, mARAveragedOverScores,
            ConfusionMatrix, ConfusionMatrixWithExamples and Examples; default: 0.5.
        matching: ``valor``, the rule of :func:`evaluate_detection`; ``doc``: in order of score each prediction takes
            the free ground truth of its label that it overlaps most, whatever the IoU.
        duplicates: whether predictions of a ground truth that is found already are a kind of their own in
            DetailedPrecisionRecallCurve; otherwise they are hallucinations.
        limit: how many datums Examples show; default: all.
        offset: the first of them, by its place.

    Returns:
        The evaluation; ``meta`` has the numbers of ``labels``, ``datums``, ``annotations``, ``ignored_annotations`` of
        other tasks, datums that lack a side, the ``duration`` and the ``reasons`` why values are None. Its method
        ``by`` gives the same metrics for slices of the data.

    Raises:
        InputError: a metric of another task or preset, a number out of its range, malformed input, an annotation whose
            geometry cannot be compared.

    Example:
        >>> from valor_gpu.valor import Annotation, Box, Datum, GroundTruth, Label, Prediction
        >>> image, box = Datum("image 1"), Box.from_extrema(xmin=0, xmax=10, ymin=0, ymax=10)
        >>> truth = Annotation(labels=[Label("class", "cat")], bounding_box=box, is_instance=True)
        >>> found = Annotation(labels=[Label("class", "cat", 0.9)], bounding_box=box, is_instance=True)
        >>> evaluate_detection([GroundTruth(image, [truth])], [Prediction(image, [found])]).metrics[0]
        {'label': {'key': 'class', 'value': 'cat'}, 'parameters': {'iou': 0.5}, 'value': 1.0, 'type': 'AP'}
    """
    start = time.perf_counter()
    request = make_detection_request(
        label_map, metrics_to_return, convert_annotations_to_type, iou_thresholds_to_compute, iou_thresholds_to_return,
        recall_score_threshold, pr_curve_iou_threshold, pr_curve_max_examples, compat=compat,
        score_thresholds=score_thresholds, matching=matching, duplicates=duplicates, limit=limit, offset=offset,
    )  # fmt: skip
    truths, rows = _sides(groundtruths, predictions, data)
    scene = read_scene(truths, rows, request, device, "" if data is None else data.name)
    return evaluate_scene(scene, request, filters, start)


def read_scene(
    groundtruths: Any, predictions: Any, request: DetectionRequest, device: Any = None, dataset: str = ""
) -> DetectionScene:
    """Reads both sides and finds the pairs that overlap.

    Args:
        groundtruths: objects or a frame, see :func:`valor_gpu.compat.valor.objects.read_columns`.
        predictions: likewise.
        request: whose label map applies, and choice of the geometry to compare.
        device: where pairs are found and stay; the CPU by default.
        dataset: its name in examples.

    Raises:
        InputError: a device that is not there, malformed input, or geometries that cannot be compared.
    """
    from valor_gpu.valor.detection.data import make_scene  # loads torch

    device = check_device(device)
    return make_scene(read_columns(groundtruths, predictions, TaskType.OBJECT_DETECTION), request, device, dataset)


def _sides(groundtruths: Any, predictions: Any, data: Dataset | None) -> tuple[Any, Any]:
    check_type("data", data, (Dataset, type(None)))
    if data is None:
        for name, side in (("groundtruths", groundtruths), ("predictions", predictions)):
            if side is None:
                raise InputTypeError(f"{name} must be given, or data with both sides, but got None")
        return groundtruths, predictions
    if groundtruths is not None or predictions is not None:
        raise InputError("groundtruths and predictions must not be given with data, which holds both")
    data.check_datums()
    return data.groundtruths, data.predictions


def evaluate_scene(
    scene: DetectionScene, request: DetectionRequest, filters: Filter | Mapping[str, Any] | None = None,
    start: float | None = None,
) -> DetectionEvaluation:  # fmt: skip
    """Evaluates data that was read.

    Args:
        scene: of all datums.
        request: the same that it was read with.
        filters: what to keep.
        start: when the evaluation began, by ``time.perf_counter``.
    """
    from valor_gpu.compat.valor.detection.keys import key_metrics

    start = time.perf_counter() if start is None else start
    columns = scene.columns
    if not columns.labels:
        raise _no_labels(columns)
    kept = Kept(columns, *read_filter(filters).masks(columns))
    true, predicted = kept.labels
    if request.rules.need_truths and not true:
        raise InputError(f"groundtruths must hold a label of a detection with compat {request.compat!r} but hold none")
    reasons: dict[str, str] = {}
    found, matrices = key_metrics(scene if filters is None else scene.keep(*kept.masks), request, reasons)
    if not true and not predicted:
        reasons["filters"] = "the filter keeps no label"
    without_truths, without_rows = kept.one_sided()
    meta = {
        "labels": len(true | predicted),
        "datums": len(columns.uids) if filters is None else kept.num_datums,
        "annotations": columns.annotations if filters is None else kept.num_annotations,
        "ignored_annotations": dict(columns.ignored),
        "datums_without_groundtruths": without_truths,
        "datums_without_predictions": without_rows,
        "datums_without_labels": len(columns.uids) - len(columns.datums),
        "duration": time.perf_counter() - start,
        "reasons": reasons,
    }
    evaluation = DetectionEvaluation(
        parameters=shown_parameters(request),
        metrics=found,
        confusion_matrices=matrices,
        ignored_pred_labels=sorted(predicted - true),
        missing_pred_labels=sorted(true - predicted),
        meta=meta,
    )
    evaluation.data = EvaluatedData(scene, request, kept.masks)
    return evaluation


def _no_labels(columns: Columns) -> InputError:
    counts = " and ".join(f"{number} of {side}" for side, number in columns.ignored.items())
    return InputError(
        "groundtruths and predictions must hold a label of a detection but hold none: an annotation of a detection "
        f"has labels, a geometry and is_instance=True; left out were {counts}"
    )
