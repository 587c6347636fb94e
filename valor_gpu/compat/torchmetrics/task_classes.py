"""Makes the classes of one task from the table of names: each when it is first used."""

from __future__ import annotations

import importlib
import linecache
from collections.abc import Iterable
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any

from numpy.typing import ArrayLike
from torch import Tensor
from typing_extensions import Unpack

from valor_gpu.compat.torchmetrics.task_arguments import native
from valor_gpu.compat.torchmetrics.task_names import MADE, REQUIRED
from valor_gpu.options import NamedOptions

TYPES = {
    "average": "str | None", "beta": "float", "fpr_range": "tuple[float, float]", "ignore_index": "int | None",
    "max_fpr": "float | None",
    "min_precision": "float", "min_recall": "float", "min_sensitivity": "float", "min_specificity": "float",
    "multiclass_mode": "str", "multidim_average": "str", "n_bins": "int", "norm": "str", "normalization": "str | None",
    "normalize": "str | None", "num_classes": "int", "num_labels": "int", "separate_ones": "bool", "squared": "bool",
    "task": "str", "threshold": "float", "thresholds": "int | ArrayLike | Tensor | None", "top_k": "int",
    "validate_args": "bool", "weights": "str | None", "zero_division": "float",
}  # fmt: skip
"""Argument to its annotation; ``| None`` is added where None is the default."""
_ANNOTATIONS = {"Any": Any, "ArrayLike": ArrayLike, "NamedOptions": NamedOptions, "Tensor": Tensor, "Unpack": Unpack}
"""Names in annotations, for ``typing.get_type_hints`` and the programs that make command lines of signatures."""
_DOC = """Computes ``{name}`` of the {task} task.

The arguments are those of that task alone, in the order of torchmetrics. For the definition see
:class:`valor_gpu.classification.{name}`.
"""
_ENTRIES = {
    "num_labels": """
    num_labels: L, of predictions and target ``[N, L, ...]``.""",
    "thresholds": """
    score_dtype: dtype in which scores are kept and compared: by default float64 where all scores are kept or
        ``thresholds`` is a tensor of float64, else float32. Scores that are all kept must not change in it. A
        histogram rounds scores and thresholds to it, so that a score that equals a threshold reaches it.""",
}
"""Argument of a class of one task to an entry that differs from that of the class it is made of."""


def task_class(name: str) -> type:
    """Returns the class of one task of this name, such as ``BinaryPrecision``."""
    named = MADE[name]
    module = f"valor_gpu.classification.{named.task}"
    base = getattr(importlib.import_module(f"valor_gpu.classification.{named.row.module}"), named.row.name)
    parameters = [
        Parameter("self", Parameter.POSITIONAL_OR_KEYWORD),
        *(parameter(argument, default) for argument, default in named.arguments.items()),
        Parameter("kwargs", Parameter.VAR_KEYWORD, annotation="Unpack[NamedOptions]"),
    ]
    body = f"super(kind, self).__init__(**native(kwargs, {passed(named.arguments)}))"
    init = function(module, f"{name}.__init__", Signature(parameters, return_annotation="None"), body, native=native)
    own = "".join(_ENTRIES[argument] for argument in named.arguments if argument in _ENTRIES)
    doc = _DOC.format(name=base.__name__, task=named.task) + (f"\nArgs:{own}\n" if own else "")
    kind: type = type(base)(name, (base,), {"__init__": init, "__module__": module, "__doc__": doc})
    init.__globals__["kind"] = kind
    return kind


def parameter(name: str, default: Any, *, optional: bool = False, by_name: bool = False) -> Parameter:
    """Returns a parameter of the table with its annotation; ``optional``: None is the default of a required one."""
    default = None if optional and default is REQUIRED else default
    none = " | None" if default is None and "None" not in TYPES[name] else ""
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY if by_name else Parameter.POSITIONAL_OR_KEYWORD,
        default=Parameter.empty if default is REQUIRED else default,
        annotation=f"{TYPES[name]}{none}",
    )


def passed(names: Iterable[str]) -> str:
    """Returns the arguments of a call that passes each name on."""
    return ", ".join(f"{name}={name}" for name in names)


def function(module: str, name: str, signature: Signature, body: str, **names: Any) -> FunctionType:
    """Returns a function of Python, whose errors of unknown or missing arguments are Python's own.

    Args:
        module: that it is from.
        name: its qualified name.
        signature: with defaults and annotations.
        body: an expression over the parameters and ``names``; its value is returned.
        names: what the body refers to beside parameters.
    """
    parameters = signature.parameters.values()
    bare = Signature([each.replace(default=Parameter.empty, annotation=Parameter.empty) for each in parameters])
    scope = {**_ANNOTATIONS, **names, "__name__": module}
    source, file = f"def {(short := name.rpartition('.')[2])}{bare}: return {body}\n", f"<{module}.{name}>"
    linecache.cache[file] = (len(source), None, [source], file)  # for torch.jit.script, which reads constructors
    exec(compile(source, file, "exec"), scope)
    made: FunctionType = scope.pop(short)
    made.__qualname__ = name
    given = [each for each in parameters if each.default is not each.empty]
    made.__defaults__ = tuple(each.default for each in given if each.kind is not each.KEYWORD_ONLY)
    made.__kwdefaults__ = {each.name: each.default for each in given if each.kind is each.KEYWORD_ONLY}
    annotated = {each.name: each.annotation for each in parameters if each.annotation is not each.empty}
    made.__annotations__ = {**annotated, "return": signature.return_annotation}
    return made
