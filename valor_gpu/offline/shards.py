"""Shards: files in their order, and what tells whether one is still the same. No torch."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from valor_gpu.errors import InputError
from valor_gpu.inputs.files import sha256_of
from valor_gpu.offline.config import DataConfig
from valor_gpu.offline.patterns import expanded

Stamp = list[list[int]]
"""Of each file: size in bytes, times of change of content and of the file in nanoseconds, inode."""

RESULT = "result.json"
_DIGITS = re.compile(r"(\d+)")
_STATES = "states-[0-9a-f]{16}"
_IS_STATES = re.compile(_STATES).fullmatch
_OUTPUT = re.compile(rf"/{_STATES}/|/{re.escape(RESULT)}\.part-[^/]*$")


@dataclass(frozen=True)
class Shard:
    """One unit of work.

    Attributes:
        number: its place in the order of merging, from 0.
        files: what each file is (``data``, or ``ground_truth`` and ``detections``) to its path.
    """

    number: int
    files: Mapping[str, str]

    @property
    def name(self) -> str:
        """How messages call it."""
        return " + ".join(self.files.values())

    @property
    def key(self) -> str:
        """Name of its record on disk: a hash of the paths."""
        return hashlib.sha256("\0".join(self.files.values()).encode("utf-8", "surrogateescape")).hexdigest()[:32]

    def stamp(self) -> Stamp:
        """Changes whenever a file is written or replaced.

        The time of change of the file itself (ctime) cannot be set back by ``touch`` or by unpacking an archive.

        Raises:
            OSError: a file is not there.
        """
        found = [os.stat(path) for path in self.files.values()]
        return [[each.st_size, each.st_mtime_ns, each.st_ctime_ns, each.st_ino] for each in found]

    def check_files(self) -> None:
        """Raises InputError for a file that is none, such as a pipe, whose reader would wait for ever.

        Raises:
            OSError: a file is not there.
        """
        for path in self.files.values():
            mode = os.stat(path).st_mode
            if not stat.S_ISREG(mode):
                what = "a folder" if stat.S_ISDIR(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
                raise InputError(f"{path} must be a regular file but is {what}")

    def content(self) -> str:
        """SHA-256 over the SHA-256 of every file, in hexadecimal; reads them whole.

        Raises:
            OSError: a file cannot be read.
        """
        parts = [sha256_of(path)[1] for path in self.files.values()]
        return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {"number": self.number, "files": dict(self.files)}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Shard:
        """What :meth:`to_dict` gave."""
        return cls(found["number"], found["files"])


def find_shards(data: DataConfig) -> list[Shard]:
    """The shards of a configuration in the order of merging: patterns as given, files of a pattern by natural order.

    Natural order has ``part-2`` before ``part-10``. A file that two patterns match is one shard. What an offline
    evaluation has written, states and results, matches no pattern. What is no file, such as a pipe or a link to
    nothing, is a shard that fails, not one to be left out; so is a folder, unless a pattern ends with ``*`` alone.

    Raises:
        InputError: a pattern matches no file, a file is there with and without compression, or there are not as many
            detections as ground truths.
    """
    if data.format != "coco":
        paths = _matching("data.files", data.files)
        return [Shard(number, {"data": path}) for number, path in enumerate(paths)]
    truths = _matching("data.ground_truth", data.ground_truth)
    detections = _matching("data.detections", data.detections)
    if len(truths) != len(detections):
        raise InputError(
            f"data.detections must be as many files as data.ground_truth, {len(truths)}, but are {len(detections)}"
        )
    pairs = enumerate(zip(truths, detections))
    return [Shard(number, {"ground_truth": truth, "detections": found}) for number, (truth, found) in pairs]


def _matching(name: str, patterns: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for pattern in patterns:
        paths = [pattern] if os.path.lexists(pattern) else [*_not_written_here(expanded(pattern))]
        folders = [path for path in paths if os.path.isdir(path)]
        if len(folders) == len(paths):
            hint = f": write {folders[0]}/*" if folders else ""
            raise InputError(f"{name} must match at least one file but {pattern!r} matches"
                             f" {'a folder' if folders else 'none'}{hint}")  # fmt: skip
        if not os.path.basename(pattern).strip("*"):  # it means whatever is there, and folders are no shards
            paths = [path for path in paths if not os.path.isdir(path)]
        found.update(dict.fromkeys(sorted(paths, key=natural)))
    twin = next((path for path in found if f"{path}.gz" in found), None)
    if twin is not None:
        raise InputError(f"{name} must match each file once but match {twin} and {twin}.gz, with the same rows")
    return list(found)


def _not_written_here(paths: Iterable[str]) -> Iterator[str]:
    """Leaves out states, records and results of this and other evaluations, which ``**/*.json`` would match."""
    outputs: dict[str, bool] = {}
    for path in paths:
        folder, name = os.path.split(path)
        if _OUTPUT.search(path):
            continue
        if name == RESULT and outputs.setdefault(folder, any(_IS_STATES(each) for each in os.listdir(folder or "."))):
            continue
        yield path


def natural(path: str) -> list[tuple[bool, int, str]]:
    """Sorts runs of digits by their numbers.

    Example:
        >>> sorted(["part-10", "part-9", "part"], key=natural)
        ['part', 'part-9', 'part-10']
    """
    parts = _DIGITS.split(path)
    key = [(part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts if part]
    return key
