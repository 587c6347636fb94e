"""Modules by the paths of torchmetrics, such as ``valor_gpu.text.wer``, made when a program imports them.

They hold no code: a module of metrics gives those that the package here has, one of ``PASSED`` what torchmetrics has.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

from valor_gpu._lazy import MissingNameError, is_ours, shared_module
from valor_gpu.compat.torchmetrics.sources import PASSED, TASKS, has_module, is_package, names

_ROOT = "valor_gpu."


class TorchmetricsPaths:
    """Finds and makes these modules; last in ``sys.meta_path``, so that files of this package come first."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Returns a spec for a module that torchmetrics has by the same path and of which something is here.

        Raises:
            ModuleNotFoundError: an import statement asks for a module that torchmetrics alone has.
            ImportError: ``from ... import`` asks a package for a name that another one has.
        """
        below = name.removeprefix(_ROOT)
        if below == name or any(part.startswith("_") for part in below.split(".")):
            return None
        if has_module(below) and (below.partition(".")[0] in PASSED or _shared(below)):
            return ModuleSpec(name, cast(Any, TorchmetricsPaths()), is_package=is_package(below))
        # importlib.util.find_spec() asks in other words, and gets None as for every module that is missing.
        if sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":
            _advise(name, below)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns an empty module, whose names are looked up when they are used."""
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Gives the module its ``__getattr__``, ``__dir__`` and docstring."""
        below = module.__name__.removeprefix(_ROOT)
        parent, _, last = module.__name__.rpartition(".")
        if last in getattr(sys.modules[parent], "__all__", ()):
            sys.modules[parent].__class__ = _KeepsNames
        theirs = f"torchmetrics.{below}"
        passed = below.partition(".")[0] in PASSED
        owner = theirs if passed else f"{_ROOT}{below.partition('.')[0]}"

        def find(name: str) -> Any:
            if name == "__all__":
                return sorted(names(below) if passed else _shared(below))
            if name.startswith("__") or not (passed or name in _shared(below)):
                return shared_module(module.__name__, name)
            value = getattr(importlib.import_module(owner), name)
            if is_ours(value):
                setattr(module, name, value)
            return value

        module.__doc__ = f"Names of {theirs}, from {owner}."
        vars(module).update(__getattr__=find, __dir__=lambda: sorted({*vars(module), *module.__all__}))

    @classmethod
    def install(cls) -> None:
        """Appends this finder to ``sys.meta_path``, once however often valor_gpu is imported or reloaded."""
        if not any(getattr(finder, "__qualname__", "") == cls.__qualname__ for finder in sys.meta_path):
            sys.meta_path.append(cls)


class _KeepsNames(ModuleType):
    """A package that has functions by the names of modules below it, such as ``functional.classification.accuracy``.

    After an import Python binds the module to its name in the package. Here, as in torchmetrics, that is the function.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)


def _shared(below: str) -> frozenset[str]:
    """Names of a module of torchmetrics that the package here has as well; none unless it is a package of metrics."""
    part = below.partition(".")[0]
    if part not in (*TASKS, "functional"):
        return frozenset()
    return names(below) & frozenset(importlib.import_module(f"{_ROOT}{part}").__all__)


def _advise(name: str, below: str) -> None:
    """Raises where the name is, if it is known."""
    if has_module(below):
        raise ModuleNotFoundError(f"No module named {name!r} but torchmetrics has it: import torchmetrics.{below}")
    package, _, last = name.rpartition(".")
    try:
        getattr(sys.modules[package], last)
    except MissingNameError as error:
        if error.advice:
            raise ImportError(f"cannot import name {last!r} from {package!r}{error.advice}", name=package) from None
    except (AttributeError, KeyError):
        return
