"""The modules of docs/api as they are at run time, for tools/docs_extension.py, which imports none of them.

mkdocstrings reads sources. They lack the arguments that a docstring takes over from base classes, and the names in an
``__all__`` that is computed.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def modules(folder: Path) -> list[str]:
    """The modules that the pages of a folder show."""
    pages = sorted(folder.glob("*.md"))
    return [name for page in pages for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)]


def public(module: Any) -> dict[str, Any]:
    """The classes and functions among the public names of a module."""
    defined = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    names = getattr(module, "__all__", [name for name in defined if not name.startswith("_")])
    found = {name: getattr(module, name) for name in names}
    return {name: value for name, value in found.items() if inspect.isclass(value) or inspect.isroutine(value)}


def docstrings(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """(path, docstring) of a class or function, and of the public methods that a class defines."""
    own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    if own:
        yield path, inspect.cleandoc(own)
    for name, member in vars(value).items() if inspect.isclass(value) else ():
        function = getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function):
            yield from docstrings(function, f"{path}.{name}")


def names(folder: Path) -> dict[str, list[str]]:
    """The classes and functions of every module that the pages of a folder show."""
    return {name: list(public(importlib.import_module(name))) for name in modules(folder)}


def found(folder: Path) -> dict[str, str]:
    """Path below its module to docstring, of all that the pages of a folder show."""
    return {
        path: text
        for name in modules(folder)
        for own, value in public(importlib.import_module(name)).items()
        for path, text in docstrings(value, f"{name}.{own}")
    }
