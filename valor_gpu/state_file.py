"""State files: numbers with what they came from, which a later comparison needs. No pickle, no torch.

A file is little endian: magic, format version and size of the head; the head in JSON; the arrays, one after another;
SHA-256 of all that. The head has the kind of the state, the version of the package, the choices that made the state,
the document of the result, and dtype, shape and size of every array.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu._version import __version__
from valor_gpu.errors import InputError
from valor_gpu.exports.files import dtype_named, file_text, no_constant, parts_of, write_bytes
from valor_gpu.exports.leaves import leaves
from valor_gpu.exports.signature import Signature
from valor_gpu.result import Result
from valor_gpu.store.states import MAGIC

VERSION = 1
_PREFIX = struct.Struct("<8sIQ")  # magic, format version, bytes of the head
_DIGEST = 32
_LEVEL = 1  # of zlib: a fifth of the time of 6 for about the same size of detection records
_RATIO = 100
"""Arrays are stored compressed up to this ratio, so that a reader can refuse a small file that claims to be large."""
_FREE = 256 << 20
"""Bytes that arrays may have whatever the size of the file."""
_KINDS = "biuf"
"""Kinds of numpy dtypes that an array may have."""
_ROUNDING = 1e-12
"""Relative difference of two numbers that the order of additions explains."""


@frozen
class StateFile:
    """What a state file holds.

    Attributes:
        kind: of the state: which reader makes it again.
        choices: what the reader needs beside the arrays, as JSON values.
        arrays: by name.
        document: of the result, as :func:`document_of` gives it.
        version: of the package that wrote the file.
    """

    kind: str
    choices: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    document: Mapping[str, Any]
    version: str = __version__

    def result(self, state: Any = None, analysis: Any = None, plotter: Any = None) -> Result:
        """Returns the result as it was saved; arguments are those of :class:`Result`."""
        values, signature, counts, reasons, provenance, intervals = parts_of(json.loads(json.dumps(self.document)))
        return Result(values, Signature(signature), counts, reasons, plotter, provenance, intervals, state, analysis)


def document_of(result: Result) -> dict[str, Any]:
    """Returns all of a result in JSON, from which the same bits come back; see :meth:`Result.save`."""
    document = result.to_dict() | {"reasons": dict(result.reasons)}
    found: dict[str, Any] = json.loads(file_text(document, leaves(result.values), result.intervals))
    return found


def replaced(result: Result, numbers: Mapping[str, float]) -> Result:
    """Returns a result with some of its numbers made anew, those in arrays left as they are."""

    def changed(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        return {
            name: changed(value, f"{prefix}{name}/")
            if isinstance(value, Mapping)
            else numbers.get(prefix + name, value)
            for name, value in values.items()
        }

    own = vars(result)
    kept = (result.signature, result.counts, result.reasons, result.plotter, own["_provenance"], result.intervals)
    return Result(changed(result.values, ""), *kept, own["_state"], own["_analysis"])


def first_difference(saved: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    """Says where two documents of results differ first, in numbers, choices, counts or reasons; empty: nowhere.

    Numbers may differ by a relative 1e-12: the order in which NumPy adds large arrays is another one before 2.3.

    Example:
        >>> first_difference({"values": {"map": 0.5}}, {"values": {"map": 0.25}})
        'values/map is 0.5 in the file but 0.25 from its state'
    """
    for part in ("signature", "values", "arrays", "infinite", "counts", "reasons"):
        found = _difference(part, saved.get(part), made.get(part))
        if found:
            return found
    return ""


def _difference(path: str, saved: Any, made: Any) -> str:
    if isinstance(saved, Mapping) and isinstance(made, Mapping):
        for name in dict.fromkeys((*saved, *made)):
            if found := _difference(f"{path}/{name}", saved.get(name), made.get(name)):
                return found
        return ""
    if isinstance(saved, float) and isinstance(made, float) and 0 < abs(saved - made) <= _ROUNDING * abs(made):
        return ""
    mine, other = (json.dumps(each) for each in (saved, made))  # 0.0 and -0.0 are equal but written differently
    return "" if mine == other else f"{path} is {mine:.60} in the file but {other:.60} from its state"


def state_bytes(file: StateFile) -> bytes:
    """Returns the content of a state file; the same bytes for the same content.

    Example:
        >>> result = Result({"map": 0.5}, Signature({"metric": "mAP"}))
        >>> data = state_bytes(StateFile("rows", {}, {"hits": np.array([1, 0])}, document_of(result)))
        >>> found = parse_state(data, "map.state")
        >>> found.result().values["map"], found.arrays["hits"].tolist()
        (0.5, [1, 0])
    """
    stored = {name: _stored(array) for name, array in file.arrays.items()}
    head = {
        "kind": file.kind,
        "version": file.version,
        "choices": dict(file.choices),
        "result": dict(file.document),
        "arrays": {name: {**about, "bytes": len(data)} for name, (about, data) in stored.items()},
    }
    text = json.dumps(head, allow_nan=False, separators=(",", ":")).encode()
    parts = [_PREFIX.pack(MAGIC, VERSION, len(text)), text, *(data for _, data in stored.values())]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def _stored(array: NDArray[Any]) -> tuple[dict[str, Any], bytes | memoryview]:
    """An array as a file has it: columns of tables one after another, which compress to half the size of rows."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    plain = np.ascontiguousarray(little.T).reshape(-1).view(np.uint8)
    about = {"dtype": little.dtype.str, "shape": list(array.shape), "zlib": False}
    packed = zlib.compress(plain.data, _LEVEL)
    if len(packed) < plain.size <= max(_RATIO * len(packed), _FREE // _RATIO):
        return {**about, "zlib": True}, packed
    return about, plain.data


def write_state(path: str | os.PathLike[str], file: StateFile) -> None:
    """Writes a state file in one step: a reader sees an older file, or all of the new one.

    Raises:
        OSError: the file cannot be written; an older one stays as it is.
    """
    write_bytes(path, state_bytes(file))


def read_state(path: str | os.PathLike[str]) -> StateFile:
    """Reads a state file; nothing in it is executed.

    Raises:
        InputError: the file is no state file, is damaged or cut off, or has a newer format.
        OSError: the file cannot be read.
    """
    with open(path, "rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise _refused(os.fspath(path), "is another kind of file")
        file.seek(0)
        return parse_state(file.read(), os.fspath(path))


def distinct_ids(found: Any) -> list[int | float | str]:
    """Returns ids that a state file holds.

    Raises:
        ValueError: they are no list of different numbers and texts.
    """
    if not isinstance(found, list) or not all(type(each) in (int, float, str) for each in found):
        raise ValueError("ids that are no numbers and texts")
    if len(set(found)) < len(found):
        raise ValueError("an id twice")
    return list(found)


def is_state(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as state files do."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def parse_state(data: bytes, name: str) -> StateFile:
    """Returns what a state file holds.

    Args:
        data: its content.
        name: of the file, for messages.

    Raises:
        InputError: see :func:`read_state`.
    """
    if data[: len(MAGIC)] != MAGIC:
        raise _refused(name, "is another kind of file")
    if len(data) < _PREFIX.size + _DIGEST:
        raise _refused(name, "is cut off")
    _, version, size = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise _refused(
            name, f"has format version {version} and valor_gpu {__version__} reads {VERSION}: install a newer one"
        )
    whole = memoryview(data)
    if hashlib.sha256(whole[:-_DIGEST]).digest() != bytes(whole[-_DIGEST:]):
        raise _refused(name, "is damaged or cut off: its hash is not that of its content")
    try:
        head = json.loads(bytes(whole[_PREFIX.size : _PREFIX.size + size]), parse_constant=no_constant)
        return _parsed(head, whole[_PREFIX.size + size : -_DIGEST])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError, zlib.error) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise _refused(name, f"has {what}") from None


def _refused(name: str, problem: str) -> InputError:
    return InputError(f"path must be a file that save_state wrote but {name} {problem}")


def _parsed(head: Any, content: memoryview) -> StateFile:
    if not all(isinstance(head[name], dict) for name in ("choices", "result", "arrays")):
        raise ValueError("a head of another form")
    if not all(isinstance(head[name], str) for name in ("kind", "version")):
        raise ValueError("a kind or version that is no text")
    forms = {name: _Form.of(name, about) for name, about in head["arrays"].items()}
    if sum(form.stored for form in forms.values()) != len(content):
        raise ValueError("arrays of other sizes than its head says")
    if sum(form.size for form in forms.values()) > _FREE + _RATIO * len(content):
        raise ValueError("arrays that claim to be far larger than the file")
    arrays = dict(_arrays(forms, content))
    return StateFile(head["kind"], head["choices"], arrays, head["result"], head["version"])


@frozen
class _Form:
    """How an array is stored: dtype, shape, bytes in the file, and whether these are compressed."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    stored: int
    packed: bool

    @classmethod
    def of(cls, name: str, about: Mapping[str, Any]) -> _Form:
        dtype, shape, stored = dtype_named(about["dtype"]), about["shape"], about["bytes"]
        whole = all(type(size) is int and size >= 0 for size in [*shape, stored])
        if dtype.kind not in _KINDS or not whole or type(about["zlib"]) is not bool:
            raise ValueError(f"an array {name} of another form")
        return cls(dtype, tuple(shape), stored, about["zlib"])

    @property
    def size(self) -> int:
        """Bytes of the array itself."""
        return math.prod(self.shape) * self.dtype.itemsize


def _arrays(forms: Mapping[str, _Form], content: memoryview) -> Iterator[tuple[str, NDArray[Any]]]:
    start = 0
    for name, form in forms.items():
        part = content[start : start + form.stored]
        start += form.stored
        if form.packed:
            unpacker = zlib.decompressobj()
            plain: bytes | memoryview = unpacker.decompress(part, form.size + 1)
        else:
            plain = part
        if len(plain) != form.size:
            raise ValueError(f"an array {name} of another size than its head says")
        columns = np.frombuffer(plain, form.dtype).reshape(form.shape[::-1])
        yield name, columns.T.astype(form.dtype.newbyteorder("="), order="C")
