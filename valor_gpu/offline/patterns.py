"""Paths that a pattern matches, in folders below too, where links may lead back into a folder above. No torch."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

from valor_gpu.errors import InputError

_BELOW = "**"


def expanded(pattern: str) -> list[str]:
    """Like ``glob.glob(pattern, recursive=True)``, but a link to a folder above is not followed, and errors are told.

    ``glob`` follows such a link 40 times, and two of them in one folder 2^40 times.

    Raises:
        InputError: a folder that ``**`` leads into cannot be read.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     (pathlib.Path(folder) / "loop").symlink_to(folder)
        ...     (pathlib.Path(folder) / "a.csv").touch()
        ...     len(expanded(f"{folder}/**/*.csv"))
        1
    """
    parts = pattern.split(os.sep)
    if _BELOW not in parts:
        return glob.glob(pattern)
    at = parts.index(_BELOW)
    rest = parts[at + 1 :]
    while rest[:1] == [_BELOW]:
        rest = rest[1:]
    found: dict[str, None] = {}
    for start in glob.glob(os.sep.join(parts[:at]) or os.sep):
        for folder in _folders_below(start) if os.path.isdir(start) else ():
            below = os.path.join(glob.escape(folder), *(rest or ["*"]))
            found.update(dict.fromkeys(expanded(below)))
    return list(found)


def _folders_below(start: str) -> Iterator[str]:
    """A folder and those below it, without hidden ones."""
    waiting: list[tuple[str, frozenset[tuple[int, int]]]] = [(start, frozenset())]
    while waiting:
        folder, above = waiting.pop()
        try:
            status = os.stat(folder)
            key = status.st_dev, status.st_ino
            if key in above:
                continue
            with os.scandir(folder) as entries:
                inner = sorted(entry.path for entry in entries if not entry.name.startswith("."))
        except OSError as error:
            raise InputError(f"{folder} must be a folder that can be read, for {_BELOW}, but: {error}") from error
        yield folder
        waiting += [(path, above | {key}) for path in reversed(inner) if os.path.isdir(path)]
