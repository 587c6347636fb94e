"""The exception tree.

ValorError
├── InputError (ValueError)          user data that cannot be evaluated: names the argument, the need, what came
│   └── InputTypeError (TypeError)   an argument of a wrong type
├── MissingExtraError (ImportError)  an optional dependency is absent: names the extra that installs it
├── NativeError (RuntimeError)       a native kernel reported a failure
├── StoreError (RuntimeError)        the file of a store cannot be opened, read or written
├── LeaseError (RuntimeError)        another process works on the run
└── SyncError (RuntimeError)         ranks or saved states that do not belong together
"""

from __future__ import annotations


class ValorError(Exception):
    """Base of every error that valor_gpu raises on purpose."""


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


class NativeError(ValorError, RuntimeError):
    """A native kernel reported a failure."""


class StoreError(ValorError, RuntimeError):
    """The file of a store cannot be opened, read or written: the disk, its permissions, or another format."""


class LeaseError(ValorError, RuntimeError):
    """Another process that still lives works on the run, or has taken it over."""


class SyncError(ValorError, RuntimeError):
    """States of different configurations, or of ranks that disagree, were brought together."""
