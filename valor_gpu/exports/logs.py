"""Numbers of a result into the loggers of trainers. None of them is imported: an object is known by its methods."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.exports.texts import is_array

# What MLflow takes in the name of a metric; it refuses all of them where one has another character.
_MLFLOW_REFUSES = re.compile(r"[^\w.\-/ :]")


def log_scalars(logger: Any, scalars: Mapping[str, float], step: int | None) -> None:
    """Hands all numbers to ``logger`` in one call where it has one.

    Raises:
        InputTypeError: the object has no method of a logger that is known.
        InputError: the logger counts its own steps, or two names are the same to it.
    """
    if hasattr(logger, "add_scalar"):  # SummaryWriter of TensorBoard
        for name, value in scalars.items():
            logger.add_scalar(name, value, step)
    elif hasattr(logger, "log_metrics"):  # the module mlflow, MlflowLogger and others of Lightning
        logger.log_metrics(_mlflow_names(scalars) if _is_mlflow(logger) else dict(scalars), step=step)
    elif hasattr(logger, "log_dict"):  # LightningModule, Fabric
        _log_dict(logger, scalars, step)
    elif hasattr(logger, "log"):  # the module wandb, and its runs
        logger.log(dict(scalars), step=step)
    else:
        raise InputTypeError(
            "logger must be the module or a run of wandb, the module mlflow, a SummaryWriter of TensorBoard, or a"
            f" module, a logger or Fabric of Lightning but got {type(logger).__name__}"
        )


def numbers_by_class(values: Mapping[str, Any], signature: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of every class, by ``name/class``; none of curves, whose arrays have one for each threshold."""
    if "thresholds" in values:
        return
    classes = values.get("per_class")
    shown = values if classes is None else {str(signature.get("metric", "per_class")): classes}
    for name, value in shown.items():
        if is_array(value) and tuple(value.shape) == (signature.get("classes"),):
            yield from ((f"{name}/{index}", float(each)) for index, each in enumerate(value.tolist()))


def _log_dict(logger: Any, scalars: Mapping[str, float], step: int | None) -> None:
    if step is None:
        logger.log_dict(dict(scalars))
    elif "step" in inspect.signature(logger.log_dict).parameters:
        logger.log_dict(dict(scalars), step=step)
    else:
        raise InputError(f"step must be None for a {type(logger).__name__}, which logs at its own step, but got {step}")


def _is_mlflow(logger: Any) -> bool:
    return inspect.ismodule(logger) and logger.__name__ == "mlflow"


def _mlflow_names(scalars: Mapping[str, float]) -> dict[str, float]:
    """With ``_`` for what MLflow refuses, such as the plus signs of a class ``c++``."""
    named: dict[str, float] = {}
    first: dict[str, str] = {}
    for name, value in scalars.items():
        short = _MLFLOW_REFUSES.sub("_", name)
        if short in named:
            raise InputError(f"names must differ for MLflow but {first[short]!r} and {name!r} are both {short!r} there")
        named[short], first[short] = value, name
    return named
