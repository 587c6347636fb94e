"""Evaluation of classifications: objects or frames in, metrics of each label key out."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.valor.classification.curves import THRESHOLDS
from valor_gpu.valor.classification.key_metrics import METRICS, KeyMetrics
from valor_gpu.valor.classification.keys import check_bounds, check_keys, check_once, check_sums, empty_rows, split_keys
from valor_gpu.valor.classification.lite import lite_metrics
from valor_gpu.valor.columns import Columns, Rows, count_annotations, read_columns
from valor_gpu.valor.enums import MetricType
from valor_gpu.valor.evaluation import Evaluation
from valor_gpu.valor.filters import Filter
from valor_gpu.valor.request import Request, make_request, read_filter
from valor_gpu.valor.schemas import GroundTruth, Label, Prediction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from valor_gpu.valor.frames import Frame


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


def prepare(columns: Columns, request: Request) -> Columns:
    """Columns after checks and label map."""
    rules = request.rules
    check_once(columns)
    if rules.sum_tolerance is not None:
        check_sums(columns, rules.sum_tolerance)
        if rules.bounded:
            check_bounds(columns, rules.sum_tolerance)
    mapped = columns.mapped(request.label_map)
    check_keys(mapped)
    return mapped


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
    datums, truths, rows = read_filter(filters).masks(columns)
    if request.compat == "valor-lite":
        found = _Found(metrics=lite_metrics(columns, request, datums, truths, rows))
    else:
        kept = replace(
            columns, groundtruths=columns.groundtruths.take(truths), predictions=columns.predictions.take(rows)
        )
        found = _evaluate_keys(kept, request, datums)
    truth_labels, labels = (
        columns.labels_of(side.take(mask))
        for side, mask in ((columns.groundtruths, truths), (columns.predictions, rows))
    )
    if not truths.any() and not rows.any():
        found.reasons["filters"] = "the filter keeps no label"
    shown = request.rules.report_one_sided
    meta = {
        "labels": len(truth_labels | labels),
        "datums": int(np.count_nonzero(datums)),
        "annotations": columns.annotations if filters is None else count_annotations(columns, truths, rows),
        "duration": time.perf_counter() - start,
        "reasons": found.reasons,
    }
    return Evaluation(
        parameters=request.parameters(),
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


def _evaluate_keys(columns: Columns, request: Request, datums: NDArray[np.bool_]) -> _Found:
    rules = request.rules
    untrue: dict[str, set[str]] = {}
    if rules.count_rows:
        columns = replace(columns, predictions=_in_order_of_text(columns.predictions))
    if not rules.count_untrue:
        true = np.zeros(len(datums), np.bool_)
        true[columns.groundtruths.datum] = True
        untrue = _winners(columns, datums & ~true) if rules.count_rows else {}
        datums = datums & true
        predictions = columns.predictions
        columns = replace(columns, predictions=predictions.take(datums[predictions.datum]))
    found = _Found(matrices=[])
    keys = list(split_keys(columns, datums, repeated=rules.count_rows))
    any_true = any(bool(np.any(rows.is_true & (rows.score >= THRESHOLDS[0]))) for rows in keys)
    any_found = any(len(rows.datum) > 0 for rows in keys)
    for rows in keys:
        values = sorted(untrue.pop(rows.key, ()))
        key = KeyMetrics(rows, request, columns.datums, found.reasons, values, any_true, any_found)
        for metric in request.metrics:
            found.metrics.extend(METRICS[metric](key))
        matrix = key.hard.matrix()
        if matrix is not None and found.matrices is not None:
            found.matrices.append(matrix.to_dict())
    for name, left in untrue.items():  # keys without any ground truth
        key = KeyMetrics(empty_rows(name), request, columns.datums, found.reasons, sorted(left))
        for metric in request.metrics:
            if metric in (MetricType.Precision, MetricType.Recall, MetricType.F1):
                found.metrics.extend(METRICS[metric](key))
    return found


def _winners(columns: Columns, datums: NDArray[np.bool_]) -> dict[str, set[str]]:
    """Label key to values that have the largest score of one of these datums, or occur on no others."""
    predictions = columns.predictions
    elsewhere = set(columns.groundtruths.label.tolist())
    elsewhere.update(predictions.label[~datums[predictions.datum]].tolist())
    found: dict[str, set[str]] = {}
    for label in set(predictions.label.tolist()) - elsewhere:
        key, value = columns.labels[label]
        found.setdefault(key, set()).add(value)
    untrue = replace(columns, predictions=predictions.take(datums[predictions.datum]))
    untrue = replace(untrue, groundtruths=columns.groundtruths.take(np.zeros(0, np.int64)))
    for rows in split_keys(untrue, datums):
        winners = rows.label[rows.winner[rows.winner >= 0]].tolist()
        found.setdefault(rows.key, set()).update(rows.values[label] for label in winners)
    return found


def _in_order_of_text(rows: Rows) -> Rows:
    """Rows of each annotation by the text of their place in it, 10 before 2; annotations as they came."""
    order = np.argsort(rows.annotation, kind="stable")
    starts = np.flatnonzero(np.diff(rows.annotation[order], prepend=-1))
    sizes = np.diff(starts, append=len(order))
    if sizes.max(initial=0) <= 10:
        return rows
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    return rows.take(order[np.lexsort((place.astype(str), rows.annotation[order]))])
