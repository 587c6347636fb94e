"""Makes the functions of classification from its table of names: each when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from valor_gpu import classification
from valor_gpu.argument_docs import arguments_of
from valor_gpu.compat.torchmetrics.functional.once import once
from valor_gpu.compat.torchmetrics.task_classes import function, parameter, passed
from valor_gpu.compat.torchmetrics.task_names import ANY, FUNCTIONS, MADE, OWN, SEVERAL, TASKS, Named

_VALUES = "ArrayLike | Tensor | None"
_DOC = """Returns the value of ``{name}`` for one batch.

See :class:`valor_gpu.classification.{name}` for the definition.

Args:
    preds: predictions, as ``update`` of the class takes them.
    target: the truth, likewise.{own}
    y_true, y_pred: ``target`` and ``preds`` by name, in place of these.

Returns:
    The value of ``compute`` of that class, on the device of the predictions.

Raises:
    InputError: an argument or a value is out of range, or predictions and truth are not given as one pair.
"""
_THRESHOLDS = """
    thresholds: None takes every distinct score as a threshold, which is exact. An int of at least 2 (thresholds evenly
        spaced from 0 to 1) or ascending numbers tie scores between two thresholds."""
_LABELS = "\n    num_labels: L, in the multilabel task: predictions and target are ``[N, L, ...]``."


def task_function(name: str) -> Callable[..., Any]:
    """Returns the function of this name, such as ``binary_precision``."""
    named = FUNCTIONS[name]
    kind, own = getattr(classification, named.name), OWN.get(named.row.family, {})
    either, by_name = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
    parameters = [
        *(Parameter(each, either, default=None, annotation=_VALUES) for each in ("preds", "target")),
        *(parameter(each, default, optional=True) for each, default in named.function_arguments.items()),
        *(Parameter(each, by_name, default=None, annotation=_VALUES) for each in ("y_true", "y_pred")),
        *(parameter(each, default, by_name=True) for each, default in own.items()),
    ]
    signature = Signature(parameters, return_annotation="Any" if named.row.family in SEVERAL else "Tensor")
    body = f"once(kind, (preds, target, y_true, y_pred), {passed([*named.function_arguments, *own])})"
    made = function("valor_gpu.functional.classification", name, signature, body, once=once, kind=kind)
    made.__doc__ = _DOC.format(name=named.name, own=_own_entries(named))
    return arguments_of(kind, getattr(classification, named.row.name))(made)


def _own_entries(named: Named) -> str:
    """Returns the entries that differ from those of the class: a function is given its task, and keeps no scores."""
    entries = _THRESHOLDS if "thresholds" in named.function_arguments else ""
    if named.task != ANY:
        return entries
    *others, last = (f"``{task}``" for task in TASKS if f"{task.capitalize()}{named.name}" in MADE)
    labels = _LABELS if "num_labels" in named.function_arguments else ""
    return f"\n    task: {', '.join(others)} or {last}.{labels}{entries}"
