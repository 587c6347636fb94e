"""What is asked of an evaluation of classifications, checked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from valor_gpu.checks import check_int, check_type
from valor_gpu.compat.valor.enums import MetricType
from valor_gpu.compat.valor.evaluation import EvaluationParameters
from valor_gpu.compat.valor.labels import LabelMap, label_map_of, pairs_of, read_label_map
from valor_gpu.errors import InputError
from valor_gpu.valor.classification.rules import Request, rules_of
from valor_gpu.valor.filters import Filter

DEFAULT_METRICS = (
    MetricType.Accuracy,
    MetricType.Precision,
    MetricType.Recall,
    MetricType.F1,
    MetricType.ROCAUC,
)
_LITE_METRICS = (*DEFAULT_METRICS, MetricType.mROCAUC, MetricType.Counts, MetricType.ConfusionMatrix)
_LITE_ONLY = {MetricType.ConfusionMatrixWithExamples, MetricType.Examples, *_LITE_METRICS} - set(DEFAULT_METRICS)


def shown_parameters(request: Request) -> EvaluationParameters:
    """Returns the choices as valor_core shows them."""
    return EvaluationParameters(
        label_map=label_map_of(request.label_map),
        metrics_to_return=[MetricType(name) for name in request.metrics],
        pr_curve_max_examples=request.max_examples,
        compat=request.compat,
    )


def make_request(
    label_map: LabelMap,
    metrics_to_return: Sequence[MetricType | str] | None,
    pr_curve_max_examples: int,
    compat: str | None = None,
    score_thresholds: Sequence[float] | None = None,
    hardmax: bool | None = None,
) -> Request:
    """Checks the arguments of an evaluation.

    Raises:
        InputError: a metric that is not one of classification, a value out of its range, or ``score_thresholds`` or
            ``hardmax`` without ``compat="valor-lite"``.
    """
    rules_of(compat)
    lite = compat == "valor-lite"
    for name, value in (("score_thresholds", score_thresholds), ("hardmax", hardmax)):
        if value is not None and not lite:
            raise InputError(f"{name} needs compat 'valor-lite' but got {value!r} with compat {compat!r}")
    allowed = {*DEFAULT_METRICS, *_LITE_ONLY} if lite else {*MetricType.classification(), MetricType.ROCAUCPerLabel}
    chosen = metrics_to_return if metrics_to_return is not None else (_LITE_METRICS if lite else DEFAULT_METRICS)
    wanted = check_metrics(chosen, allowed)
    check_int("pr_curve_max_examples", pr_curve_max_examples)
    thresholds = (0.0,) if score_thresholds is None else tuple(map(float, score_thresholds))
    pairs = pairs_of(read_label_map(label_map))
    return Request(pairs, wanted, pr_curve_max_examples, compat, thresholds, hardmax is not False)


def check_metrics(chosen: Iterable[MetricType | str], allowed: Iterable[MetricType]) -> tuple[MetricType, ...]:
    """The metrics that are asked for, each once.

    Args:
        chosen: members of ``MetricType`` or their names.
        allowed: those that there are.

    Raises:
        InputError: another metric.
    """
    check_type("metrics_to_return", chosen, (list, tuple, set, frozenset))
    names = {metric.value for metric in allowed}
    for metric in chosen:
        if metric not in names:
            name = getattr(metric, "value", metric)
            raise InputError(f"metrics_to_return must be among {', '.join(sorted(names))} but holds {name!r}")
    return tuple(dict.fromkeys(MetricType(metric) for metric in chosen))


def read_filter(filters: Filter | Mapping[str, Any] | None) -> Filter:
    """A filter, from there or from its dict; None keeps everything.

    Raises:
        InputTypeError: anything else.
    """
    if isinstance(filters, Mapping):
        return Filter.from_dict(filters)
    check_type("filters", filters, (Filter, Mapping, type(None)))
    return filters or Filter()
