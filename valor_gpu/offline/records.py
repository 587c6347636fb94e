"""What is known of a shard: its record on disk, and the states that lie beside it. No torch.

A folder of states belongs to one configuration. It holds, for each shard, a record (JSON, by the paths of its files)
and, for each content, one state file (by its SHA-256), so that a shard that is evaluated twice is there once.

State file: magic, length of the header, header (JSON: content, names and sizes of the states, what counted), the states
of the metrics as their ``to_bytes`` gives them, deflated where that halves them (counts of few cells of a large table),
CRC-32 of all before it; numbers are little endian.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from valor_gpu.errors import InputError, StoreError
from valor_gpu.offline.config import OfflineConfig
from valor_gpu.offline.files import remove_parts, unwritten, write_whole
from valor_gpu.offline.shards import Shard, Stamp

DONE, FAILED = "done", "failed"

_MAGIC = b"VALOROF4"
_HEAD = struct.Struct("<8sI")
_CRC = struct.Struct("<I")
_SAMPLES, _SAMPLE = 64, 1024  # pieces of a state, and bytes of each, that tell whether to deflate it


@dataclass(frozen=True)
class BadRow:
    """A row that could not be evaluated.

    Attributes:
        place: file and row.
        message: why.
    """

    place: str
    message: str


@dataclass(frozen=True)
class Counted:
    """Rows of a shard that counts.

    Attributes:
        rows: how many counted.
        bad_rows: those that were left out.
        files: the paths of the shard.
        classes: label, as text, to the name that the shard gives it, where its format has names.
        texts: what numbers stand for where ids are texts, see :data:`valor_gpu.offline.text_ids.Texts`.
        missing: counts of what its rows lack and what metrics take something for.
    """

    rows: int = 0
    bad_rows: tuple[BadRow, ...] = ()
    files: tuple[str, ...] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    def at(self, shard: Shard) -> Counted:
        """The same of a shard with the same content, whose files may have other names."""
        names = tuple(shard.files.values())
        bad = tuple(BadRow(*(_renamed(text, self.files, names) for text in (row.place, row.message)))
                    for row in self.bad_rows)  # fmt: skip
        return Counted(self.rows, bad, names, missing=self.missing)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Counted:
        """What :meth:`to_dict` gave."""
        bad = tuple(BadRow(**row) for row in found["bad_rows"])
        texts, missing = (found.get(name, {}) for name in ("texts", "missing"))
        return cls(found["rows"], bad, tuple(found["files"]), found["classes"], texts, missing)


def _renamed(text: str, old: Sequence[str], new: Sequence[str]) -> str:
    for before, after in zip(old, new):
        text = text.replace(before, after)
    return text


@dataclass(frozen=True)
class Record:
    """How a shard went.

    Attributes:
        name: its files.
        status: ``done`` or ``failed``.
        stamp: of its files before they were read.
        content: SHA-256; empty where it is not known.
        rows: how many rows counted.
        bad_rows: of a failed shard the row that failed it; of a shard that counts the rows that were left out.
        error: why it failed.
        seconds: that it took.
        cpu_seconds: of the CPUs, all threads of the process.
        peak_bytes: largest resident memory of the process until then.
        classes: see :class:`Counted`; on disk they are in the state file alone.
        texts: likewise.
        missing: see :class:`Counted`.
    """

    name: str
    status: str
    stamp: Stamp
    content: str = ""
    rows: int = 0
    bad_rows: tuple[BadRow, ...] = ()
    error: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_bytes: int = 0
    classes: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Record:
        """What :meth:`to_dict` gave."""
        kept = {
            each.name: found[each.name]
            for each in fields(cls)
            if each.name != "texts" and (each.name != "missing" or "missing" in found)
        }
        return cls(**{**kept, "bad_rows": tuple(BadRow(**row) for row in found["bad_rows"])})


@dataclass(frozen=True)
class StateFolder:
    """States and records of one configuration.

    Attributes:
        path: the folder.
    """

    path: Path
    _seen: dict[str, Counted] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, config: OfflineConfig) -> StateFolder:
        """The folder of a configuration, which need not be there."""
        return cls(Path(config.output) / f"states-{config.digest}")

    def prepare(self) -> None:
        """Makes the folder, and removes what killed processes left.

        Raises:
            StoreError: it cannot be made, as where its place is a file.
        """
        try:
            for folder in (self.path, self.path / "shards"):
                folder.mkdir(parents=True, exist_ok=True)
                remove_parts(folder)
        except OSError as error:
            raise unwritten(self.path, error) from error

    def state_path(self, content: str) -> Path:
        """Where the states of a content lie."""
        return self.path / f"{content}.state"

    def save(self, shard: Shard, record: Record, states: Mapping[str, bytes] | None) -> None:
        """Writes how a shard went, each file whole or not at all.

        The states come first, so that a record that says done has them.
        """
        if states is not None:
            about = (record.rows, record.bad_rows, tuple(shard.files.values()))
            counted = Counted(*about, record.classes, record.texts, record.missing)
            write_whole(self.state_path(record.content), dump_states(record.content, counted, states))
        text = json.dumps(replace(record, classes={}, texts={}).to_dict())
        write_whole(self._record_path(shard), text.encode("utf-8", "surrogateescape"))

    def last_record(self, shard: Shard) -> Record | None:
        """How a shard went when it was last evaluated, None where that is not known."""
        try:
            return Record.from_dict(json.loads(self._record_path(shard).read_bytes()))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None  # a damaged record costs its shard's work, no more

    def record(self, shard: Shard) -> Record | None:
        """How a shard went, None where it is not known or its files have changed since."""
        found = self.last_record(shard)
        if found is None or (found.status == FAILED and not found.stamp):  # it failed before its files were seen
            return found
        try:
            same = found.stamp == shard.stamp()
        except OSError:
            same = False
        return found if same else None

    def finished(self, shard: Shard) -> Record | None:
        """The record of a shard whose states are there and sound, and say the same, else None."""
        record = self.record(shard)
        there = self.known(record.content) if record and record.status == DONE else None
        if record is None or there is None:
            return None
        counted = there.at(shard)  # a record has no checksum, the states have one
        said, known = (record.name, record.rows, record.bad_rows), (shard.name, counted.rows, counted.bad_rows)
        return record if said == known else None

    def known(self, content: str) -> Counted | None:
        """What counted of a content whose states are there and sound; a damaged file is as none."""
        if content not in self._seen:
            try:
                # Names and texts are many, and not needed again.
                self._seen[content] = replace(self._read(content)[0], classes={}, texts={})
            except (OSError, StoreError):
                return None
        return self._seen[content]

    def state(self, content: str, name: str) -> bytes | memoryview:
        """The state of a metric for a content.

        Raises:
            StoreError: the file is damaged.
            OSError: it cannot be read.
        """
        states = self._read(content)[1]
        try:
            if name not in states:
                raise InputError(f"it must have a state of {name} but has {', '.join(states) or 'none'}")
            return inflated(*states[name])
        except InputError as error:
            raise self._damaged(content, error) from error

    def _read(self, content: str) -> tuple[Counted, dict[str, tuple[memoryview, int]]]:
        try:
            return parse_states(self.state_path(content).read_bytes(), content)
        except InputError as error:
            raise self._damaged(content, error) from error

    def _damaged(self, content: str, error: InputError) -> StoreError:
        return StoreError(f"{self.state_path(content)} is damaged: {error}; run again, which makes it anew")

    def names(self, content: str) -> tuple[Mapping[str, str], Mapping[str, Mapping[str, str]]]:
        """Names of the classes of a content, and what numbers stand for where ids are texts, from the header alone.

        Raises:
            StoreError: the file of its states is damaged.
            OSError: it cannot be read.
        """
        path = self.state_path(content)
        with open(path, "rb") as file:
            try:
                magic, size = _HEAD.unpack(file.read(_HEAD.size))
                counted: Mapping[str, Any] = json.loads(file.read(size))["counted"]
                if magic == _MAGIC:
                    return dict(counted["classes"]), dict(counted["texts"])
            except (struct.error, ValueError, KeyError, TypeError):
                pass
        raise StoreError(f"{path} is damaged: run again, which makes it anew")

    def others(self) -> list[Path]:
        """Folders of states of other configurations with the same output."""
        return sorted(path for path in self.path.parent.glob("states-*") if path != self.path)

    def _record_path(self, shard: Shard) -> Path:
        return self.path / "shards" / f"{shard.key}.json"


def dump_states(content: str, counted: Counted, states: Mapping[str, bytes]) -> bytes:
    """A state file of a content."""
    stored = {name: _deflated(state) for name, state in states.items()}
    sizes = {name: [len(stored[name]), len(state)] for name, state in states.items()}
    header = json.dumps({"content": content, "counted": counted.to_dict(), "states": sizes}).encode(
        "utf-8", "surrogateescape"
    )
    whole = b"".join((_HEAD.pack(_MAGIC, len(header)), header, *stored.values()))
    return whole + _CRC.pack(zlib.crc32(whole))


def _deflated(state: bytes) -> bytes:
    """The state in fewer bytes; as it is where samples say that it would not become half as long."""
    step = max(len(state) // _SAMPLES, _SAMPLE)
    sample = b"".join(state[at : at + _SAMPLE] for at in range(0, len(state), step))
    if len(state) < _SAMPLE or 2 * len(zlib.compress(sample, 1)) > len(sample):
        return state
    packed = zlib.compress(state, 1)
    return packed if len(packed) < len(state) else state


def parse_states(data: bytes, content: str) -> tuple[Counted, dict[str, tuple[memoryview, int]]]:
    """What counted, and of each state the bytes in the file, a view of ``data``, and its size; see :func:`inflated`.

    Raises:
        InputError: ``data`` is no state file of this content, or damaged.
    """
    try:
        return _parsed(memoryview(data), content)
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise InputError(f"its head must be as this package writes it but has {what}") from None


def _parsed(whole: memoryview, content: str) -> tuple[Counted, dict[str, tuple[memoryview, int]]]:
    if len(whole) < _HEAD.size + _CRC.size or bytes(whole[:8]) != _MAGIC:
        raise InputError(f"it must be a file of offline states but begins with {bytes(whole[:8])!r}")
    end = len(whole) - _CRC.size
    if _CRC.unpack_from(whole, end)[0] != zlib.crc32(whole[:end]):
        raise InputError("its checksum must match its content but does not")
    start = _HEAD.size + _HEAD.unpack_from(whole)[1]
    about = json.loads(bytes(whole[_HEAD.size : start]))
    if about["content"] != content:
        raise InputError(f"it must be of content {content} but is of {about['content']}, as after a copy")
    states = {}
    for name, (stored, size) in about["states"].items():
        states[name] = whole[start : start + stored], size
        start += stored
    return Counted.from_dict(about["counted"]), states


def inflated(stored: memoryview, size: int) -> bytes | memoryview:
    """The state of ``size`` bytes that a file has in these bytes.

    Raises:
        InputError: they are damaged, or stand for another number of bytes.
    """
    if len(stored) == size:
        return stored
    try:
        state = zlib.decompressobj().decompress(stored, size + 1)
    except (zlib.error, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"its states must be packed but cannot be unpacked: {error}") from None
    if len(state) != size:
        raise InputError(f"a state must have {size} bytes but has {'more' if len(state) > size else len(state)}")
    return state


def duplicates_of(contents: Sequence[str | None]) -> dict[int, int]:
    """Number of a shard to that of the first shard with the same content; None has no content.

    Example:
        >>> duplicates_of(["a", "b", None, "a"])
        {3: 0}
    """
    first: dict[str, int] = {}
    found = {}
    for number, content in enumerate(contents):
        if content is not None and first.setdefault(content, number) != number:
            found[number] = first[content]
    return found


def folder_bytes(folder: Path) -> int:
    """Bytes of the states of a folder."""
    return sum(os.path.getsize(path) for path in folder.glob("*.state"))
