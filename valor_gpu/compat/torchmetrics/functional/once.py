"""One value of one batch, by the class that has the metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from valor_gpu.default_device import device_free
from valor_gpu.errors import InputError
from valor_gpu.graphs import outside_graphs
from valor_gpu.inputs.values import as_values

if TYPE_CHECKING:
    from torch import Tensor


def once(kind: Any, given: tuple[Any, Any, Any, Any], **arguments: Any) -> Tensor:
    """``compute`` of a metric after one ``update``.

    Args:
        kind: the class of the metric.
        given: ``preds, target`` by position or ``y_true, y_pred`` by name, in this order; the others are None.
        arguments: of the class.

    Raises:
        InputError: neither pair is complete, or both were given; or the class rejects an argument or a value.
    """
    value: Tensor = _value(kind, given, arguments)  # of curves several, for which the functions declare Any
    return value


@outside_graphs  # torch.compile cannot trace the constructor of a metric
def _value(kind: Any, given: tuple[Any, Any, Any, Any], arguments: dict[str, Any]) -> Any:
    return updated(kind, given, arguments).compute()


@device_free
def updated(kind: Any, given: tuple[Any, Any, Any, Any], arguments: dict[str, Any]) -> Any:
    """A metric on the device of the predictions after one ``update``; arguments and errors as in :func:`once`."""
    preds, target = chosen_pair(given)
    metric = alone(kind(**arguments))
    preds, target = as_values("preds", preds), as_values("target", target)
    metric.to(preds.device).update(preds, target)
    return metric


def alone(metric: Any) -> Any:
    """The metric, which takes no part in collectives: one rank may call a function by itself."""
    metric.sync_on_compute = metric._to_sync = False
    return metric


def chosen_pair(given: tuple[Any, Any, Any, Any]) -> tuple[Any, Any]:
    """``preds, target`` of whichever pair was given; arguments and errors as in :func:`once`."""
    preds, target, y_true, y_pred = given
    halves = (preds is None) != (target is None) or (y_true is None) != (y_pred is None)
    if halves or (preds is None) == (y_true is None):
        named = ("preds", "target", "y_true", "y_pred")
        got = ", ".join(name for name, value in zip(named, given) if value is not None)
        raise InputError(f"preds and target must be given, or y_true and y_pred, but got {got or 'neither'}")
    return (y_pred, y_true) if preds is None else (preds, target)
