"""The arguments of torchmetrics' classes, as the classes of this package take them."""

from __future__ import annotations

import importlib
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any

import torch

from valor_gpu.checks import check_choice
from valor_gpu.compat.torchmetrics import task_names
from valor_gpu.errors import InputError
from valor_gpu.metric_type import MetricType
from valor_gpu.options import NamedOptions

_NORMALIZATIONS = {"sigmoid": "auto", "softmax": "auto", None: "none"}
_NEEDED = frozenset(
    {"num_classes", "num_labels", "beta", "min_precision", "min_recall", "min_sensitivity", "min_specificity"}
)


def native(options: NamedOptions, **arguments: Any) -> dict[str, Any]:
    """Arguments of torchmetrics' class as its counterpart here takes them.

    Scores that are all kept are kept in float64, so that those of any dtype are taken, and thresholds that are a
    tensor of float64 are compared in it.

    Raises:
        InputError: an argument that has no default is left out, or one is none of its choices.
    """
    for name in _NEEDED & arguments.keys():
        if arguments[name] is None:
            raise InputError(f"{name} must be given but got None")
    if "normalization" in arguments:
        check_choice("normalization", arguments["normalization"], tuple(_NORMALIZATIONS))
        arguments["activation"] = _NORMALIZATIONS[arguments.pop("normalization")]
    if "thresholds" in arguments:
        thresholds = arguments["thresholds"]
        if thresholds is None or (isinstance(thresholds, torch.Tensor) and thresholds.dtype == torch.float64):
            arguments["score_dtype"] = torch.float64
    return {**arguments, **options}


class TaskType(MetricType):
    """Type of the metrics of a task: ``Accuracy(task="multiclass", num_classes=5)`` is a ``MulticlassAccuracy``.

    Type checkers read both forms in ``__init__.pyi``.
    """

    if not TYPE_CHECKING:  # where checkers saw it, they would not look at the constructors

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            """Makes a metric; with a task, as the first argument or by name, that of the task.

            Raises:
                InputError: there is no such task, or the class has none by that name.
            """
            if ("task" in kwargs or (args and isinstance(args[0], str))) and not _takes(cls, kwargs):
                return _of_task(cls, *args, **kwargs)
            return super().__call__(*args, **kwargs)

        @property
        def __signature__(cls) -> Signature:
            """Parameters of the constructor, which ``help`` and ``inspect`` would look for in ``__call__``."""
            own = signature(cls.__init__)
            return own.replace(parameters=[*own.parameters.values()][1:], return_annotation=Signature.empty)


def _takes(cls: Any, kwargs: dict[str, Any]) -> bool:
    """Returns whether a subclass has a constructor that takes ``task``, or a text in the first place, itself."""
    if cls.takes_own_task:
        return True
    own = str(cls.__init__.__module__).partition(".")[0] != __name__.partition(".")[0]
    return own and ("task" not in kwargs or "task" in signature(cls.__init__).parameters)


def _of_task(cls: type, *args: Any, **kwargs: Any) -> Any:
    named = task_names.NAMED.get(cls.__name__)
    if named is None or named.task != task_names.ANY or cls.__module__ != task_names.HOMES[named.name]:
        got = kwargs["task"] if "task" in kwargs else args[0]
        raise InputError(
            f"task must be left out: that of {cls.__name__} follows from its name, or from num_classes (multiclass),"
            f" num_labels (multilabel) or neither (binary), but got {got!r}"
        )
    wrapper = named.arguments
    if len(args) > len(wrapper):
        raise InputError(f"{cls.__name__} takes {len(wrapper)} arguments by position but got {len(args)}")
    given = dict(zip(wrapper, args))
    if twice := given.keys() & kwargs.keys():
        raise InputError(f"{sorted(twice)[0]} must be given once but came by position and by name")
    given |= kwargs
    check_choice("task", task := given.pop("task"), task_names.TASKS)
    if (name := f"{task.capitalize()}{cls.__name__}") not in task_names.MADE:
        has = [each for each in task_names.TASKS if f"{each.capitalize()}{cls.__name__}" in task_names.MADE]
        raise InputError(f"task must be {' or '.join(map(repr, has))} for {cls.__name__} but got {task!r}")
    taken = task_names.MADE[name].arguments
    defaults = {key: value for key, value in wrapper.items() if value not in (None, task_names.REQUIRED)}
    # torchmetrics takes the arguments of every task, and leaves those out that the task at hand has not.
    arguments = {key: value for key, value in {**defaults, **given}.items() if key in taken or key not in wrapper}
    kind = getattr(importlib.import_module(task_names.HOMES[name]), name)
    return kind(**arguments)
