"""Compiled templates, kept where Python keeps its compiled modules; imports jinja2."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import sys
from pathlib import Path

import jinja2
from jinja2.bccache import Bucket


class TemplateBytecode(jinja2.BytecodeCache):
    """Keeps the bytecode of templates in ``__pycache__`` beside them, by the rules that hold for modules.

    Compiling the page of a run takes longer than filling it. Nothing is written where Python writes no bytecode
    (``PYTHONDONTWRITEBYTECODE``) or may not write. jinja2 compares the hash of the template before it takes what is
    there.

    Args:
        folder: of the templates.
        mark: of the settings that they are compiled with; other settings have other files.
    """

    def __init__(self, folder: str | os.PathLike[str], mark: str) -> None:
        self._folder, self._mark = Path(folder), mark

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """The name of the template: all are of one folder."""
        return name

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fills a bucket, if there is a file that belongs to its template."""
        with contextlib.suppress(OSError, NotImplementedError), self._path(bucket).open("rb") as file:
            bucket.load_bytecode(file)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keeps what a bucket holds."""
        if sys.dont_write_bytecode:
            return
        with contextlib.suppress(OSError, NotImplementedError):  # the next process compiles it again
            path = self._path(bucket)
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
            try:
                part.write_bytes(bucket.bytecode_to_string())
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)

    def _path(self, bucket: Bucket) -> Path:
        source = self._folder / f"{bucket.key}-{self._mark}-jinja{jinja2.__version__}.py"
        return Path(importlib.util.cache_from_source(str(source)))
