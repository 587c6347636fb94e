"""The exception tree.

ValorError
├── InputError (ValueError)          user data that cannot be evaluated: names the argument, the need, what came
│   └── InputTypeError (TypeError)   an argument of a wrong type
├── MissingExtraError (ImportError)  an optional dependency is absent: names the extra that installs it
├── MissingPackageError (ModuleNotFoundError)  a dependency is absent, as after pip install --no-deps: the line to type
├── NativeError (RuntimeError)       a native kernel reported a failure
├── StoreError (RuntimeError)        the file of a store cannot be opened, read or written
│   └── DamageError                  bytes of a store are not what was written: names the place
├── LeaseError (RuntimeError)        another process works on the run
└── SyncError (RuntimeError)         ranks or saved states that do not belong together
"""

from __future__ import annotations

import os
from typing import Any, cast


class ValorError(Exception):
    """Base of every error that valor_gpu raises on purpose."""

    def __reduce__(self) -> tuple[Any, ...]:
        kind, message, *state = cast(tuple[Any, ...], super().__reduce__())
        return _remade, (kind, message), *state


def _remade(kind: type[ValorError], message: tuple[Any, ...]) -> ValorError:
    """An error that a worker has sent, made without the arguments of its class."""
    error = kind.__new__(kind, *message)
    Exception.__init__(error, *message)
    if isinstance(error, ImportError):
        ImportError.__init__(error, *message)
    return error


class InputError(ValorError, ValueError):
    """User data that cannot be evaluated."""


class InputTypeError(InputError, TypeError):
    """An argument of a wrong type.

    It is a ``ValueError`` like every :class:`InputError`, and a ``TypeError``, which callers of Valor catch.
    """


class MissingExtraError(ValorError, ImportError):
    """An optional dependency is missing.

    Args:
        package: the module that could not be imported.
        extra: the extra of valor_gpu that installs it.
        purpose: what needs it, as a noun phrase.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'valor_gpu[{extra}]'")
        self.package = package
        self.extra = extra


class MissingPackageError(ValorError, ModuleNotFoundError):
    """A package that valor_gpu depends on is missing, as after ``pip install --no-deps``; an ``ImportError``.

    Args:
        package: the module that could not be imported, of :data:`LINES`.
        purpose: what needs it, as a noun phrase.

    Example:
        >>> print(MissingPackageError("torch", "valor_gpu.detection.MeanAveragePrecision"))
        valor_gpu.detection.MeanAveragePrecision needs torch: pip install 'torch>=2.6' 'torchmetrics>=1.9'
    """

    def __init__(self, package: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install {LINES[package]}", name=package)
        self.package = package


_TORCH = "'torch>=2.6' 'torchmetrics>=1.9'"
LINES = {"torch": _TORCH, "torchmetrics": _TORCH, "numpy": "'numpy>=2.0'"}
"""What pip installs for each package that valor_gpu depends on."""


def missing_package(error: ModuleNotFoundError, purpose: str) -> MissingPackageError | None:
    """The error that names the line to type, where it is a dependency of valor_gpu that is missing."""
    package = (error.name or "").partition(".")[0]
    return MissingPackageError(package, purpose) if package in LINES else None


class NativeError(ValorError, RuntimeError):
    """A native kernel reported a failure."""


class StoreError(ValorError, RuntimeError):
    """The file of a store cannot be opened, read or written: the disk, its permissions, or another format."""


def check_command(path: str | os.PathLike[str]) -> str:
    """Returns the command that lists every damaged place of a store.

    Example:
        >>> check_command("my runs.sqlite")
        "valor-gpu store check 'my runs.sqlite'"
    """
    return store_command("check", path)


def store_command(name: str, path: str | os.PathLike[str]) -> str:
    """Returns a command of ``valor-gpu store`` with the path of a store quoted for a shell."""
    from shlex import quote  # here, since few errors need it

    return f"valor-gpu store {name} {quote(os.fspath(path))}"


class DamageError(StoreError):
    """Bytes of a store that cannot be what was written.

    Args:
        place: what is damaged, in words, such as ``row 17 of run 3f2a``.
        what: what is wrong with it.
        path: file of the store; empty while it is not known.

    Attributes:
        place: as given.
        what: as given.
        path: as given.

    Example:
        >>> DamageError("row 17 of run 3f2a", "its text is not UTF-8").place
        'row 17 of run 3f2a'
    """

    def __init__(self, place: str, what: str, path: str = "") -> None:
        told = f"{place}: {what}" if place else what
        if path:
            told = (
                f"store {path} is damaged: {told}; `{check_command(path)}` lists every damaged place, "
                f"`{store_command('export', path)} NEW` saves the rest into a new store"
            )
        super().__init__(told)
        self.place, self.what, self.path = place, what, path


class LeaseError(ValorError, RuntimeError):
    """Another process that still lives works on the run, or has taken it over."""


class SyncError(ValorError, RuntimeError):
    """States of different configurations, or of ranks that disagree, were brought together."""
