"""Reads which names torchmetrics has from its source files: importing it would load torch, which takes seconds."""

from __future__ import annotations

import importlib.util
import os
from _thread import RLock  # threading takes longer to import
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

PASSED = ("aggregation", "collections", "utilities", "wrappers")
"""Modules of torchmetrics that hold no metric of predictions: valor_gpu has them by the same paths."""

TASKS = ("classification", "detection", "nominal", "regression", "retrieval", "segmentation", "text")
"""Packages of metrics that both have."""

_PARSE = 0x400  # ast.PyCF_ONLY_AST; importing the module ast takes longer than parsing
_PARSING = RLock()
"""Of the thread that parses: two at once get a SystemError now and then (CPython 3.11)."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_PARSING.acquire, after_in_parent=_PARSING.release, after_in_child=_PARSING.release)


def names(module: str) -> frozenset[str]:
    """Returns the names of ``__all__``, or without it the public classes and functions that a module defines.

    Args:
        module: its path below torchmetrics, such as ``text.rouge``; ``""`` for torchmetrics itself. A module that is
            not there has no names.
    """
    file = _file(module)
    return _read(file)[0] if file is not None else frozenset()


def has_module(module: str) -> bool:
    """Returns whether torchmetrics has a module that is not private at this path below it; ``""``: is installed."""
    return not any(part.startswith("_") for part in module.split(".")) and _file(module) is not None


def is_package(module: str) -> bool:
    """Returns whether the module at this path below torchmetrics has modules of its own."""
    return (_file(module) or "").endswith("__init__.py")


def passed_through() -> dict[str, str]:
    """Returns torchmetrics' collection, aggregations, wrappers and compositions: name to the module that has it."""
    if (file := _file("")) is None:
        return {}
    modules = [f"torchmetrics.{part}" for part in PASSED]
    found = {name: home for name, home in _read(file)[1].items() if home in modules}
    found |= dict.fromkeys(names("wrappers"), "torchmetrics.wrappers")
    return found | {each: "torchmetrics.metric" for each in names("metric") if each == "CompositionalMetric"}


def place_of(module: str, name: str) -> str | None:
    """Returns the module of torchmetrics to import a name or module from, or None where torchmetrics has neither.

    Args:
        module: path below torchmetrics. Where it lacks the name, so does the answer unless a package below it has it,
            as ``functional.classification`` has functions that ``functional`` lacks.
        name: public name of a class, function or module.
    """
    below = _packages(module) if module in ("", "functional") else ()
    for part in (module, *below):
        if name in names(part) or has_module(_joined(part, name)):
            return _joined("torchmetrics", part)
    return None


def _packages(module: str) -> Iterable[str]:
    """Paths of the packages below a package; functions have their own counterpart here."""
    file = _file(module)
    parts = sorted(os.listdir(os.path.dirname(file))) if file else []
    return [path for path in (_joined(module, part) for part in parts) if path != "functional" and is_package(path)]


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def _file(module: str) -> str | None:
    """The source file of a module, found without importing torchmetrics."""
    try:
        spec = importlib.util.find_spec("torchmetrics")
    except (ImportError, ValueError):  # absent, as after pip install --no-deps, or a stand-in that a test made
        return None
    for folder in (spec and spec.submodule_search_locations) or ():
        path = os.path.join(folder, *module.split(".")) if module else folder
        for file in (os.path.join(path, "__init__.py"), f"{path}.py"):
            if os.path.isfile(file):
                return file
    return None


@cache
def _read(file: str) -> tuple[frozenset[str], dict[str, str]]:
    """Public names of a source file, and the modules of torchmetrics that it imports names from."""
    with open(file, "rb") as source, _PARSING:
        tree: Any = compile(source.read(), file, "exec", _PARSE, dont_inherit=True)
    listed: set[str] = set()
    defined: set[str] = set()
    homes: dict[str, str] = {}
    for node in _statements(tree.body):
        kind = type(node).__name__
        if kind == "ImportFrom" and str(node.module).partition(".")[0] == "torchmetrics":
            homes |= {each.asname or each.name: node.module for each in node.names}
        elif kind in ("ClassDef", "FunctionDef"):
            defined.add(node.name)
        elif kind in ("Assign", "AugAssign") and _target(node) == "__all__":
            listed |= {each.value for each in getattr(node.value, "elts", ())}
    return frozenset(listed or {name for name in defined if not name.startswith("_")}), homes


def _statements(body: Iterable[Any]) -> Iterator[Any]:
    """Statements of a module, with those below ``if`` and ``try``: names that need an optional package."""
    for node in body:
        yield node
        if type(node).__name__ in ("If", "Try"):
            yield from _statements((*node.body, *node.orelse))


def _target(node: Any) -> str:
    """The name that an assignment sets, where it is a single name."""
    [target, *others] = node.targets if hasattr(node, "targets") else [node.target]
    return "" if others else getattr(target, "id", "")
