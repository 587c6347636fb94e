"""An import of torch, torchmetrics or numpy by this package, where it is absent, says the line to type."""

from __future__ import annotations

import sys
from types import FrameType

from valor_gpu.errors import LINES, MissingPackageError


class MissingPackages:
    """Last in ``sys.meta_path``, so it is asked only for what nothing else has found."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Finds nothing.

        Raises:
            MissingPackageError: a module of valor_gpu imports a package that it depends on. Imports by other packages
                go on to the ``ModuleNotFoundError`` of Python.
        """
        if name in LINES and (importer := _importer(sys._getframe(1))) is not None:
            raise MissingPackageError(name, importer)

    @classmethod
    def install(cls) -> None:
        """Appends this class to ``sys.meta_path``, once however often valor_gpu is imported or reloaded."""
        if not any(getattr(finder, "__qualname__", "") == cls.__qualname__ for finder in sys.meta_path):
            sys.meta_path.append(cls)


def _importer(frame: FrameType | None) -> str | None:
    """The module of valor_gpu that asks; while it is itself being imported, the one whose import began that chain."""
    found = None
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != "importlib" and not frame.f_code.co_filename.startswith("<frozen importlib._bootstrap"):
            body = frame.f_code.co_name == "<module>"
            if name.partition(".")[0] != "valor_gpu" or (found is not None and not body):
                break
            found = name
            if not body:
                break
        frame = frame.f_back
    return found
