"""Metrics of a configuration, made by name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, cast

import torch

from valor_gpu.checks import near_names
from valor_gpu.compat.torchmetrics.sources import TASKS
from valor_gpu.detection.kept_inputs import KeepsInputs
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.metric_type import MetricType

_PACKAGES = TASKS


def make_metrics(specs: Mapping[str, Mapping[str, Any]], device: str = "cpu") -> dict[str, Metric[Any]]:
    """The metrics of a configuration, without data.

    None of them synchronises with other processes: under torchrun, one rank computes.

    Args:
        specs: name to class and arguments, see :class:`valor_gpu.offline.OfflineConfig`.
        device: where they keep their states.

    Raises:
        InputError: there is no such class, or an argument of it is wrong.

    Example:
        >>> make_metrics({"acc": {"class": "classification.Accuracy", "num_classes": 3}})["acc"]
        Accuracy()
    """
    return {name: _made(name, spec).to(device) for name, spec in specs.items()}


def _made(name: str, spec: Mapping[str, Any]) -> Metric[Any]:
    kind = _class_of(f"metrics.{name}.class", str(spec["class"]))
    choices = {key: _choice(f"metrics.{name}.{key}", key, value) for key, value in spec.items() if key != "class"}
    keeps = issubclass(kind, KeepsInputs)
    defaults = {"sync_on_compute": False, **({"keep_inputs": False} if keeps else {})}
    try:
        metric = kind(**{**defaults, **choices})
    except (TypeError, ValueError) as error:
        raise InputError(f"metrics.{name}: {error}") from error
    if isinstance(metric, KeepsInputs):
        metric.warn_on_many_detections = False  # limits on detections are part of the configuration
    return metric


def _choice(where: str, key: str, value: Any) -> Any:
    """An argument as Python has it: dtypes are named in files, ``float64``."""
    if not key.endswith("dtype") or not isinstance(value, str):
        return value
    found = getattr(torch, value.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise InputError(f"{where} must be the name of a torch dtype, such as float64, but is {value!r}")
    return found


def _class_of(where: str, path: str) -> type[Metric[Any]]:
    if ":" in path:
        module, _, name = path.partition(":")
        try:
            found = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise InputError(f"{where} must be a class that can be imported but is {path!r}: {error}") from None
    else:
        found = _own_class(where, path)
    if not isinstance(found, MetricType):
        raise InputError(f"{where} must be a metric of valor_gpu.Metric but {path!r} is none")
    return cast(type[Metric[Any]], found)


def _own_class(where: str, path: str) -> Any:
    package, _, name = path.removeprefix("valor_gpu.").rpartition(".")
    known = [f"{p}.{n}" for p in _PACKAGES for n in importlib.import_module(f"valor_gpu.{p}").__all__]
    if f"{package}.{name}" not in known:
        raise InputError(f"{where} must be a metric, such as detection.MeanAveragePrecision, or module:Class but is"
                         f" {path!r}{near_names(path, known)}")  # fmt: skip
    return getattr(importlib.import_module(f"valor_gpu.{package}"), name)
