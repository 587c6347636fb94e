"""Classes whose base comes from a package that is imported when they are first used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_types(module: str, makers: Mapping[str, tuple[type, Callable[[], type]]]) -> Callable[[str], Any]:
    """``__getattr__`` of an adapter, which makes each class once, under the name where pickle looks for it.

    Args:
        module: its ``__name__``.
        makers: by name of a class its own half, which has the documentation, and what imports the trainer's half.

    Example:
        >>> class Half:
        ...     '''Says hello.'''
        >>> make = lazy_types(__name__, {"Whole": (Half, lambda: dict)})
        >>> make("Whole").__mro__[1:3], make("Whole").__doc__
        ((<class 'valor_gpu.integrations.lazy_types.Half'>, <class 'dict'>), 'Says hello.')
    """

    def find(name: str) -> Any:
        if name not in makers:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        half, base = makers[name]
        kind = type(name, (half, base()), {"__module__": module, "__doc__": half.__doc__})
        setattr(sys.modules[module], name, kind)
        return kind

    return find


def trainer_type(user: str, package: str, module: str, name: str, line: str) -> type:
    """A class of a trainer.

    Raises:
        ImportError: the package is not installed; names ``line``, which installs it.
    """
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"{user} needs {package}: {line}")
    kind: type = getattr(importlib.import_module(module), name)
    return kind
