"""Evaluation of classifications: objects or frames in, metrics of each label key out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from valor_gpu.compat.valor.classification.key_metrics import METRICS, KeyMetrics
from valor_gpu.compat.valor.classification.lite import lite_metrics
from valor_gpu.compat.valor.enums import MetricType
from valor_gpu.compat.valor.evaluation import Evaluation
from valor_gpu.compat.valor.metrics import ConfusionMatrix, ConfusionMatrixEntry
from valor_gpu.compat.valor.objects import read_columns
from valor_gpu.compat.valor.request import make_request, read_filter, shown_parameters
from valor_gpu.compat.valor.schemas import GroundTruth, Label, Prediction
from valor_gpu.errors import InputError
from valor_gpu.valor.classification.key_numbers import key_numbers, prepare
from valor_gpu.valor.classification.rules import Request
from valor_gpu.valor.columns import Columns, Kept
from valor_gpu.valor.filters import Filter

if TYPE_CHECKING:
    from collections.abc import Iterable

    from valor_gpu.valor.frames import Frame

_RATIOS = ("Precision", "Recall", "F1")


def evaluate_classification(
    groundtruths: Iterable[GroundTruth] | Frame,
    predictions: Iterable[Prediction] | Frame,
    label_map: Mapping[Label, Label] | None = None,
    metrics_to_return: Sequence[MetricType | str] | None = None,
    pr_curve_max_examples: int = 1,
    *,
    compat: str | None = None,
    filters: Filter | Mapping[str, Any] | None = None,
    score_thresholds: Sequence[float] | None = None,
    hardmax: bool | None = None,
) -> Evaluation:
    """Compares predictions of labels with ground truths, each label key apart.

    The prediction of a datum is the label of the largest score, of equal scores the first. A ground truth whose datum
    has no prediction counts as wrong. A label that a datum does not list has score 0 in ROC AUC. Definitions, edge
    cases and the rules of each preset are in docs/valor.md.

    Args:
        groundtruths: objects, or a frame with columns ``datum_uid``, ``label_key`` and ``label_value``: pandas, polars,
            pyarrow or a mapping of arrays.
        predictions: objects or a frame too, with scores that sum to 1 for each datum and label key; a frame has a
            column ``score``.
        label_map: labels that count as another label, also of another key. Of several scores that become one label of
            a datum the largest counts.
        metrics_to_return: default: Accuracy, Precision, Recall, F1 and ROCAUC.
        pr_curve_max_examples: datums shown for each kind of observation in DetailedPrecisionRecallCurve.
        compat: None, or ``valor-api``, ``valor-core`` or ``valor-lite`` for the rules of that release.
        filters: keep only some datums, ground truths or predictions.
        score_thresholds: of ``compat="valor-lite"``: scores from which a label counts as predicted;
            default: 0.
        hardmax: of ``compat="valor-lite"``: whether only the label of the largest score counts as predicted;
            default: True.

    Raises:
        InputError: scores that do not sum to 1 or lie outside [0, 1], two scores of one label of a datum, label keys
            that differ, a metric of another task, choices of another preset, malformed input.

    Example:
        >>> from valor_gpu.valor import Annotation, Datum, GroundTruth, Label, Prediction
        >>> image = Datum("image 1")
        >>> groundtruth = GroundTruth(image, [Annotation(labels=[Label("animal", "cat")])])
        >>> scores = [Label("animal", "cat", 0.8), Label("animal", "dog", 0.2)]
        >>> prediction = Prediction(image, [Annotation(labels=scores)])
        >>> evaluate_classification([groundtruth], [prediction]).metrics[0]
        {'parameters': {'label_key': 'animal'}, 'value': 1.0, 'type': 'Accuracy'}
    """
    start = time.perf_counter()
    request = make_request(label_map, metrics_to_return, pr_curve_max_examples, compat, score_thresholds, hardmax)
    prepared = prepare(read_columns(groundtruths, predictions), request)
    return evaluate_prepared(prepared, request, filters, start)


def evaluate_classification_slices(
    groundtruths: Iterable[GroundTruth] | Frame,
    predictions: Iterable[Prediction] | Frame,
    slices: Mapping[str, Filter | Mapping[str, Any] | None],
    **choices: Any,
) -> dict[str, Evaluation]:
    """Evaluates several filters of the same data, which is read and checked once.

    Args:
        groundtruths: as :func:`evaluate_classification` takes them.
        predictions: as :func:`evaluate_classification` takes them.
        slices: name to filter; None keeps everything.
        choices: its other arguments.

    Returns:
        The evaluation of each slice by name.

    Raises:
        InputError: the data, a filter or a choice cannot be used.

    Example:
        >>> gt_frame = {"datum_uid": ["a", "b"], "label_key": ["k", "k"], "label_value": ["x", "y"]}
        >>> pred_frame = {**gt_frame, "label_value": ["x", "x"], "score": [1.0, 1.0]}
        >>> from valor_gpu.valor.filters import Filter, datum_uid
        >>> slices = {"all": None, "a": Filter(datum_uid == "a")}
        >>> shown = evaluate_classification_slices(gt_frame, pred_frame, slices)
        >>> {name: evaluation.metrics[0]["value"] for name, evaluation in shown.items()}
        {'all': 0.5, 'a': 1.0}
    """
    names = ("label_map", "metrics_to_return", "pr_curve_max_examples", "compat", "score_thresholds", "hardmax")
    for name in choices:
        if name not in names:
            raise InputError(f"evaluate_classification_slices takes {', '.join(names)} but got {name!r}")
    request = make_request(**{"label_map": None, "metrics_to_return": None, "pr_curve_max_examples": 1, **choices})
    prepared = prepare(read_columns(groundtruths, predictions), request)
    return {name: evaluate_prepared(prepared, request, filters) for name, filters in slices.items()}


def evaluate_prepared(
    columns: Columns, request: Request, filters: Filter | Mapping[str, Any] | None = None, start: float | None = None
) -> Evaluation:
    """Evaluates columns from :func:`prepare`.

    Args:
        columns: of all datums.
        request: the same that they were prepared with.
        filters: what to keep.
        start: when the evaluation began, by ``time.perf_counter``.
    """
    start = time.perf_counter() if start is None else start
    if not columns.labels:
        raise InputError("groundtruths and predictions must hold a label of a classification but hold none")
    kept = Kept(columns, *read_filter(filters).masks(columns))
    if request.compat == "valor-lite":
        found = _Found(metrics=lite_metrics(kept, request))
    else:
        found = _evaluate_keys(kept, request)
    truth_labels, labels = kept.labels
    if not truth_labels and not labels:
        found.reasons["filters"] = "the filter keeps no label"
    shown = request.rules.report_one_sided
    meta = {
        "labels": len(truth_labels | labels),
        "datums": kept.num_datums,
        "annotations": columns.annotations if filters is None else kept.num_annotations,
        "duration": time.perf_counter() - start,
        "reasons": found.reasons,
    }
    return Evaluation(
        parameters=shown_parameters(request),
        metrics=found.metrics,
        confusion_matrices=found.matrices,
        ignored_pred_labels=sorted(labels - truth_labels) if shown else [],
        missing_pred_labels=sorted(truth_labels - labels) if shown else [],
        meta=meta,
    )


@dataclass
class _Found:
    """Metrics under construction."""

    metrics: list[dict[str, Any]] = field(default_factory=list)
    matrices: list[dict[str, Any]] | None = None
    reasons: dict[str, str] = field(default_factory=dict)


def _evaluate_keys(kept: Kept, request: Request) -> _Found:
    found = _Found(matrices=[])
    for numbers in key_numbers(kept, request.rules):
        key = KeyMetrics(numbers, request, kept.columns.datums, found.reasons)
        names = request.metrics if numbers.there else [name for name in request.metrics if name in _RATIOS]
        found.metrics += [shown for name in names for shown in METRICS[MetricType(name)](key)]
        if found.matrices is not None and numbers.there and (cells := numbers.hard.matrix()) is not None:
            entries = [ConfusionMatrixEntry(*cell) for cell in cells]
            found.matrices.append(ConfusionMatrix(numbers.rows.key, entries).to_dict())
    return found
