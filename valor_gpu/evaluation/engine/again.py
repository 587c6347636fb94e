"""The arguments of evaluate() that make a stored run again. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.evaluation.config import RunConfig
from valor_gpu.evaluation.engine.services import embedding_config_of, model_config_of

_AS_THEY_ARE = (
    "evaluation_name", "task_type", "repeats", "epochs", "thresholds", "slice_by", "key", "limit", "max_cost", "prices",
    "on_error", "seed", "cache", "output_path", "baseline",
)  # fmt: skip
_OF_TARGET = ("kind", "name", "version", "parameters", "masked")
_ONLY_TEXT = "${target}"  # what data_mapping cannot say: the only text that a target returns


def arguments_of(config: RunConfig) -> dict[str, Any]:
    """Keyword arguments of :func:`valor_gpu.evaluate` for another run like a stored one.

    Args:
        config: of the run, of its store or of ``config`` in its file ``run.json``.

    Raises:
        InputError: something that was an object of its process, or that had a secret by value; the message names it.

    Example:
        >>> config = RunConfig(evaluation_name="capitals", data={"source": "rows.csv"}, limit=5)
        >>> found = arguments_of(config)
        >>> found["data"], found["limit"], found["metrics_list"]
        ('rows.csv', 5, [])
    """
    found: dict[str, Any] = {name: getattr(config, name) for name in _AS_THEY_ARE}
    found |= {name: config.limits.get(name) for name in ("max_concurrency", "rpm", "tpm", "timeout")}
    found["data"] = config.data.get("source")
    found["data_mapping"] = {field: text for field, text in config.data_mapping.items() if text != _ONLY_TEXT}
    found["metrics_list"] = [_metric(each) for each in config.evaluators if each["source"] != "custom"]
    own = {each["name"]: _metric(each) for each in config.evaluators if each["source"] == "custom"}
    found["evaluators"] = own or None
    found["metric_params"] = dict(config.metric_params)
    if config.judge is not None:
        found["model_config"] = model_config_of(config.judge)
    if config.embedding is not None:
        found["embedding_config"] = embedding_config_of(config.embedding)
    if config.target is not None:
        found["target"] = _target(config.target)
    if config.parameters:
        found["params_grid"] = [dict(config.parameters)]
    return {name: value for name, value in found.items() if value is not None}


def _metric(described: Mapping[str, Any]) -> str:
    name = str(described["name"])
    if described["source"] == "builtin":
        return name
    if described.get("origin") is None:
        raise InputError(f"evaluator {name!r} must be named module:function to be made again, but was an object")
    return str(described["origin"])


def _target(config: Mapping[str, Any]) -> Any:
    if config.get("kind") == "function":
        if not config.get("origin"):
            raise InputError(f"target {config.get('name')!r} must be named module:function to be made again")
        return config["origin"]
    if config.get("masked"):
        raise InputError(f"target {config.get('name')!r} must be given again, since it had a secret by value")
    return {name: value for name, value in config.items() if name not in _OF_TARGET}
