"""Public names that are imported when they are first used (PEP 562), so that importing a package costs nothing."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NamedTuple, cast

from valor_gpu.compat.torchmetrics.sources import TASKS, has_module, names, place_of
from valor_gpu.errors import LINES, missing_package

_SHARED = ("", "functional", *TASKS)
"""Packages that torchmetrics has too, whose attributes are its modules as well; ``""`` is valor_gpu itself."""
_TASK_PREFIXES = ("Binary", "Multiclass", "Multilabel")
"""What torchmetrics' classes of a task begin with; some of our classes have no such names beside their own."""


class MissingNameError(AttributeError):
    """A package lacks the name; its message says which package has it, or which name is meant.

    The message is put together when it is read, so that ``hasattr`` stays cheap.

    Args:
        package: the package that was asked.
        name: the name that it lacks.
        parts: packages below ``package`` that may have it.
    """

    def __init__(self, package: str, name: str, parts: Sequence[str] = ()) -> None:
        super().__init__(package, name, parts, name=name)  # name: else a traceback adds a suggestion of its own

    def __str__(self) -> str:
        package, name, _ = self.args
        return f"module {package!r} has no attribute {name!r}{self.advice}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args

    @cached_property
    def advice(self) -> str:
        """Where the name is, or the name that is meant, as the end of a message; empty where nothing is known."""
        package, name, parts = self.args
        if name.startswith("_"):  # asked for by Python's own machinery
            return ""
        found = [part for part in parts if name in importlib.import_module(f"{package}.{part}").__all__]
        if found:
            return "".join(f"; {package}.{part}.{name} is there" for part in found)
        if (home := _torchmetrics_home(package, name)) is not None:
            return f" but torchmetrics has it: from {home} import {name}"
        import difflib  # here since a message alone needs it

        known = {each.lower(): each for each in getattr(sys.modules[package], "__all__", ())}
        close = difflib.get_close_matches(name.lower(), known, 1, 0.75)
        of_all = [name.removeprefix(task).lower() for task in _TASK_PREFIXES if name.startswith(task)]
        if near := [each for each in (*of_all, *close) if each in known]:
            return f"; did you mean {known[near[0]]!r}?"
        if package == "valor_gpu" and not has_module(""):
            return f"; if torchmetrics has it: pip install {LINES['torchmetrics']}"
        return ""


def lazy_names(
    package: str,
    homes: Mapping[str, str],
    parts: Sequence[str] = (),
    classes: Callable[[], Mapping[str, str]] | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for the ``__init__`` of ``package``.

    Args:
        package: its ``__name__``.
        homes: public name to the module that defines it; ``package.name`` itself when the name is that module.
        parts: packages below ``package`` which an error names where they have the name that was asked for.
        classes: gives further public names, which are classes, and the modules that have them; it is called when a
            name with a capital letter is not in ``homes``. The package then has no ``__all__`` of its own.

    Example:
        >>> find, _ = lazy_names("valor_gpu", {"InputError": "valor_gpu.errors"})
        >>> find("InputError").__name__
        'InputError'
    """

    def home_of(name: str) -> str | None:
        return homes.get(name) or (classes().get(name) if classes is not None and name != name.lower() else None)

    def find(name: str) -> Any:
        if name == "__all__" and classes is not None:
            value: Any = sorted({*homes, *classes(), "__version__"})
        elif (home := home_of(name)) is not None:
            try:
                module = importlib.import_module(home)
                value = module if home == f"{package}.{name}" else getattr(module, name)
            except ModuleNotFoundError as error:
                raise missing_package(error, f"{package}.{name}") or error from None
        else:
            return shared_module(package, name, parts)
        if is_ours(value):
            setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        module = sys.modules[package]
        return sorted({*module.__all__, *(name for name in vars(module) if name.startswith("__"))})

    return find, listed


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
            return shared_module(module, name)
        return vars(sys.modules[module]).setdefault(name, make(name))  # one step, so that no thread replaces a value

    def listed() -> list[str]:
        return sorted({*names, *(name for name in vars(sys.modules[module]) if name.startswith("__"))})

    return find, listed


def names_of_package(module: str) -> Callable[[str], Any]:
    """Returns ``__getattr__`` for a module whose path torchmetrics has too, but with other names.

    It finds torchmetrics' names of that module in the package of the task: ``valor_gpu.text.rouge.ROUGEScore``. Where
    the module has an empty ``__path__``, it finds torchmetrics' modules below it as well.

    Args:
        module: its ``__name__``.
    """
    package, _, last = module.rpartition(".")
    path = f"{package.partition('.')[2]}.{last}"

    def find(name: str) -> Any:
        if not name.startswith("_"):
            if name in names(path):
                return getattr(sys.modules[package], name)
            if "__path__" in vars(sys.modules[module]):
                return shared_module(module, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find


def shared_module(package: str, name: str, parts: Sequence[str] = ()) -> Any:
    """Returns a module below a package by its name, where torchmetrics has one: ``valor_gpu.text.rouge``.

    Args:
        package: the package.
        name: of the module.
        parts: packages below ``package`` which the error names where they have a name like that.

    Raises:
        MissingNameError: the package has no such module, or torchmetrics has none.
    """
    path, module = package.partition(".")[2], f"{package}.{name}"
    shared = path.partition(".")[0] in _SHARED and not name.startswith("_")
    both = shared and has_module(f"{path}.{name}".lstrip("."))
    if both and importlib.util.find_spec(module) is not None:
        return importlib.import_module(module)
    raise MissingNameError(package, name, parts)


class _FrontDoor(NamedTuple):
    """Finds a module that is gone and those below it: they are those by the same path of another module."""

    package: str
    home: str

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Returns a spec whose module is the one of the other package."""
        if name != self.package and not name.startswith(f"{self.package}."):
            return None
        try:
            there = importlib.util.find_spec(self.home + name.removeprefix(self.package)) is not None
        except ModuleNotFoundError:  # no such package above it
            return None
        return ModuleSpec(name, cast(Any, self)) if there else None

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves the making of a module to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module of the other package in the place of the one that Python made."""
        name = module.__name__
        sys.modules[name] = importlib.import_module(self.home + name.removeprefix(self.package))


def open_front_door(package: str, home: str) -> None:
    """Lets programs import ``home`` and the modules below it by the path of ``package``, where that has no such file.

    Both paths give one module. Pickles that name classes by their old paths load.

    Args:
        package: its ``__name__``; that of a module which is gone.
        home: name of the other package or module.
    """
    door = _FrontDoor(package, home)
    if door not in sys.meta_path:
        sys.meta_path.insert(sys.meta_path.index(PathFinder) + 1, cast(Any, door))


def is_ours(value: Any) -> bool:
    """Returns whether a module may keep a value; what a test puts in the place of ours must go when the test ends."""
    origin = getattr(value, "__module__", None)
    return not isinstance(origin, str) or origin.partition(".")[0] in ("valor_gpu", "torchmetrics")


def _torchmetrics_home(package: str, name: str) -> str | None:
    """The module of torchmetrics that has the name, for packages that both have."""
    path = package.partition(".")[2]
    return place_of(path, name) if path.partition(".")[0] in _SHARED else None
