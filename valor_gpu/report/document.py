"""What ``--json`` writes around the numbers: schema version, command, versions and inputs with their hashes.

docs/json.md explains every key. There is no time of day in it: equal inputs give equal bytes.
"""

from __future__ import annotations

import platform
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from valor_gpu._version import __version__
from valor_gpu.inputs.files import STANDARD_INPUT, sha256_of
from valor_gpu.result import Result

SCHEMA_VERSION = 1
"""Goes up when a key changes its meaning, name or type, or goes; not when one is added."""


class Described(Protocol):
    """What knows the files that were read."""

    def describe(self) -> dict[str, dict[str, Any]]:
        """What an input is, to its path, size and hash."""


class Inputs:
    """Hashes the input files of a command in a thread, while torch loads and the files are parsed.

    Args:
        files: what an input is, for example ``detections``, to its path.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "empty"
        ...     path.touch()
        ...     Inputs({"data": path}).describe()["data"]["sha256"][:8]
        'e3b0c442'
    """

    def __init__(self, files: Mapping[str, str | Path]) -> None:
        self._files = {what: Path(path) for what, path in files.items()}
        self._found: dict[str, dict[str, Any]] = {}
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._hash_all, daemon=True)
        self._thread.start()

    def describe(self) -> dict[str, dict[str, Any]]:
        """``path``, ``bytes`` and ``sha256`` of each file, the last two None of what can be read only once, as a pipe.

        Raises:
            OSError: a file could not be read.
        """
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found

    def _hash_all(self) -> None:
        try:
            for name, path in self._files.items():
                once = str(path) == STANDARD_INPUT or not path.is_file()
                size, digest = (None, None) if once else sha256_of(path)
                self._found[name] = {"path": str(path), "bytes": size, "sha256": digest}
        except OSError as error:
            self._error = error


def document(command: str, result: Result, inputs: Described, device: str, **more: Any) -> dict[str, Any]:
    """All that ``--json`` writes; no NaN, but null with a reason.

    Args:
        command: ``detect``, ``classify`` or ``segment``.
        result: values, signature, counts and reasons.
        inputs: the files that were read.
        device: where the numbers were counted.
        more: keys of one command alone.
    """
    return {**document_head(command), "inputs": inputs.describe(), "device": device, **more, **result.to_dict()}


def document_head(command: str) -> dict[str, Any]:
    """What every document begins with: ``schema_version``, ``command`` and ``versions``."""
    return {"schema_version": SCHEMA_VERSION, "command": command, "versions": versions()}


def versions() -> dict[str, str | None]:
    """Versions of what computes; None of what was not loaded."""
    loaded = {name: getattr(sys.modules.get(name), "__version__", None) for name in ("torch", "numpy")}
    versions = {name: None if version is None else str(version) for name, version in loaded.items()}
    return {"valor_gpu": __version__, "python": platform.python_version(), **versions}
