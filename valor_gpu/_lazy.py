"""Public names that are imported when they are first used (PEP 562), so that importing a package costs nothing."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from valor_gpu.errors import missing_package


def lazy_names(
    package: str, homes: Mapping[str, str], parts: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for the ``__init__`` of ``package``.

    Args:
        package: its ``__name__``.
        homes: public name to the module that defines it; ``package.name`` itself when the name is that module.
        parts: packages below ``package`` which an error names where they have the name that was asked for.

    Example:
        >>> find, _ = lazy_names("valor_gpu", {"InputError": "valor_gpu.errors"})
        >>> find("InputError").__name__
        'InputError'
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}{_elsewhere(package, name, parts)}")
        try:
            module = importlib.import_module(homes[name])
            value = module if homes[name] == f"{package}.{name}" else getattr(module, name)
        except ModuleNotFoundError as error:
            raise missing_package(error, f"{package}.{name}") or error from None
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        module = vars(sys.modules[package])
        return sorted({*module["__all__"], *(name for name in module if name.startswith("__"))})

    return find, names


def _elsewhere(package: str, name: str, parts: Sequence[str]) -> str:
    """What an error adds for a name that packages below ``package`` have."""
    if name.startswith("_"):  # asked for by Python's own machinery
        return ""
    found = [part for part in parts if name in importlib.import_module(f"{package}.{part}").__all__]
    return "".join(f"; {package}.{part}.{name} is there" for part in found)


def made_names(
    module: str, names: Collection[str], make: Callable[[str], Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns ``__getattr__`` and ``__dir__`` for a module whose public values are made on first use.

    Every access gives the same value, also where threads ask at once.

    Args:
        module: its ``__name__``.
        names: those of the values.
        make: returns the value of a name.
    """

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return vars(sys.modules[module]).setdefault(name, make(name))  # one step, so that no thread replaces a value

    def listed() -> list[str]:
        return sorted({*names, *(name for name in vars(sys.modules[module]) if name.startswith("__"))})

    return find, listed
