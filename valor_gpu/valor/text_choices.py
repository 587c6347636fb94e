"""The choices of an evaluation of generated text, checked before anything is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.judge.metrics.text_metrics import METRICS
from valor_gpu.valor.enums import MetricType

ROUGE_TYPES = ("rouge1", "rouge2", "rougeL", "rougeLsum")
BLEU_WEIGHTS = (0.25, 0.25, 0.25, 0.25)
COMPARISONS = ("BLEU", "ROUGE")
WITH_TRUTH = frozenset({"AnswerCorrectness", "BLEU", "ContextPrecision", "ContextRecall", "ROUGE"})
NAMES = (*METRICS, *COMPARISONS)
_PARAMS = {
    "BLEU": ("weights",),
    "ROUGE": ("rouge_types", "use_stemmer", "rouge_use_stemmer", "tokenizer"),
    "ContextPrecision": ("combine",),
}


def check_keys(name: str, given: Iterable[object], allowed: Sequence[str]) -> None:
    """Raises unless every key of a mapping is one of ``allowed``."""
    for key in given:
        if key not in allowed:
            needed = f"have keys among {', '.join(map(repr, allowed))}" if allowed else "be empty"
            raise InputError(f"{name} must {needed} but has {key!r}")


def check_metrics(metrics: Iterable[MetricType | str], allowed: Sequence[str]) -> list[str]:
    """Names of metrics, each once.

    Raises:
        InputError: one that is not allowed, or none.
    """
    if isinstance(metrics, str) or not isinstance(metrics, Iterable):
        raise InputTypeError(f"metrics_to_return must be a list of metrics but got {type(metrics).__name__}")
    names = list(dict.fromkeys(metric.value if isinstance(metric, MetricType) else metric for metric in metrics))
    for name in names:
        check_choice("metrics_to_return", name, sorted(allowed))
    if not names:
        raise InputError("metrics_to_return must name at least one metric but is empty")
    return names


def check_params(params: Mapping[Any, Mapping[str, Any]] | None, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Choices of each metric, with defaults where they were not given.

    Args:
        params: ``metric_params``, by metric or its name.
        names: the metrics that are asked for.

    Raises:
        InputError: choices of a metric that is not asked for, or that it does not take.
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    check_type("metric_params", {} if params is None else params, Mapping)
    for key, given in (params or {}).items():
        name = key.value if isinstance(key, MetricType) else key
        if name not in names:
            raise InputError(f"metric_params must be of metrics_to_return ({', '.join(names)}) but has {name!r}")
        check_type(f"metric_params[{name!r}]", given, Mapping)
        check_keys(f"metric_params[{name!r}]", given, _PARAMS.get(name, ()))
        found[name] = dict(given)
    if "ROUGE" in found:
        found["ROUGE"] = _rouge_params(found["ROUGE"])
    if "BLEU" in found:
        weights = found["BLEU"].get("weights", BLEU_WEIGHTS)
        check_type("metric_params['BLEU']['weights']", weights, (list, tuple))
        found["BLEU"] = {"weights": list(weights)}
    return found


def _rouge_params(given: Mapping[str, Any]) -> dict[str, Any]:
    stemmers = [given[key] for key in ("use_stemmer", "rouge_use_stemmer") if key in given]
    for stemmer in stemmers:
        check_type("use_stemmer", stemmer, bool)
    if len(set(stemmers)) > 1:
        raise InputError("use_stemmer and rouge_use_stemmer must not differ")
    types = given.get("rouge_types", ROUGE_TYPES)
    check_type("rouge_types", types, (list, tuple))
    kinds = [str(getattr(kind, "value", kind)) for kind in types]
    for kind in kinds:
        check_choice("rouge_types", kind, ROUGE_TYPES)
    found = {"rouge_types": kinds, "use_stemmer": stemmers[0] if stemmers else False}
    if given.get("tokenizer") is None:
        return found
    from valor_gpu.text.tokens import TOKENIZERS

    check_choice("tokenizer", given["tokenizer"], tuple(TOKENIZERS))
    return {**found, "tokenizer": given["tokenizer"]}
