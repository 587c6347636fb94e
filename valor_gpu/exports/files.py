"""Results as files of strict JSON, from which they come back with the same bits. Imports no torch."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from valor_gpu.errors import InputError
from valor_gpu.exports.intervals import infinite_ends, read_intervals
from valor_gpu.exports.texts import utf8
from valor_gpu.stats.intervals import Intervals

if TYPE_CHECKING:
    import numpy as np

FORMAT, VERSION = "valor_gpu.result", 1
_KINDS = "biuf"
"""Kinds of numpy dtypes that an array of a file may have."""

Parts = tuple[
    Mapping[str, Any], Mapping[str, Any], Mapping[str, int], Mapping[str, str], Mapping[str, Any], Intervals | None
]
"""Values, signature, counts, reasons, provenance, which files of version 0.2.0 and before lack, and intervals."""


def file_text(document: Mapping[str, Any], leaves: Iterator[tuple[str, Any]], intervals: Intervals) -> str:
    """The text of a file.

    Args:
        document: of a result: ``values`` in JSON, where what is not finite is None, ``signature``, ``counts``,
            ``reasons`` and ``provenance``.
        leaves: every number and array by its name, before JSON.
        intervals: of the result, before JSON.
    """
    arrays, infinite = {}, {}
    for name, value in leaves:
        if hasattr(value, "shape") and len(value.shape):
            arrays[name] = {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
        marks = _infinities(value)
        if marks:
            infinite[name] = marks
    whole = {"format": FORMAT, "format_version": VERSION, **document, "arrays": arrays, "infinite": infinite}
    if ends := infinite_ends(intervals):
        whole["infinite_ends"] = ends
    return json.dumps(whole, allow_nan=False, indent=1) + "\n"


def _infinities(value: Any) -> list[list[int]]:
    """Place in reading order and sign of every number that is infinite; a number that is no array has place 0."""
    numbers = [value]
    if hasattr(value, "tolist"):
        numbers = value.reshape(-1).tolist()
    return [[i, 1 if n > 0 else -1] for i, n in enumerate(numbers) if isinstance(n, float) and math.isinf(n)]


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text as :func:`~valor_gpu.exports.texts.utf8` gives it; see :func:`write_bytes`."""
    write_bytes(path, utf8(text))


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes a file in one step: a reader sees the old content or the new one, and a failure leaves the old one.

    It keeps the permissions of the old one. A device, a pipe or a descriptor is written through, never replaced.
    """
    from valor_gpu.exports.written import is_fed, take_permissions, write_all

    if is_fed(Path(path)):
        with open(path, "wb", buffering=0) as stream:
            write_all(stream, content)
        return
    whole = Path(os.path.realpath(path))
    part = whole.with_name(f".{whole.name}.{secrets.token_hex(4)}")
    try:
        part.write_bytes(content)
        take_permissions(part, whole)
        part.replace(whole)
    except OSError as error:
        if error.filename is not None:
            error.filename = os.fspath(path)  # instead of the part of it, which is gone
        raise
    finally:
        part.unlink(missing_ok=True)


def read_parts(path: str | os.PathLike[str]) -> Parts:
    """What a file holds; NaN and the infinities are back in their places, arrays are those of numpy.

    Raises:
        InputError: the file is not one of a result, is damaged, or has a newer format.
    """
    try:
        with open(path, encoding="utf-8-sig") as file:
            document = json.load(file, parse_constant=no_constant)
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError("another kind of file")
        if document["format_version"] != VERSION:
            raise ValueError(f"format version {document['format_version']}; this version reads {VERSION}")
        return parts_of(document)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, OverflowError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise InputError(f"path must be a file that Result.save wrote but {os.fspath(path)} has {what}") from None


def no_constant(text: str) -> NoReturn:
    """Raises ValueError for NaN and Infinity, which JSON has not; for ``parse_constant`` of ``json.load``."""
    raise ValueError(f"{text}, which is no JSON")


def parts_of(document: dict[str, Any]) -> Parts:
    """Returns what the document of a file holds; takes ``arrays`` and ``infinite`` out of it.

    Raises:
        ValueError, KeyError, TypeError: the document has another form.
    """
    document.setdefault("provenance", {})
    for name in ("values", "signature", "counts", "reasons", "arrays", "infinite", "provenance"):
        if not isinstance(document[name], dict):
            raise ValueError(f"{name} that is no object")
    if not all(isinstance(count, int) for count in document["counts"].values()):
        raise ValueError("a count that is no whole number")
    if not all(isinstance(reason, str) for reason in document["reasons"].values()):
        raise ValueError("a reason that is no text")
    arrays, infinite = document["arrays"], document["infinite"]
    values = _values(document["values"], arrays, infinite, "")
    if arrays or infinite:
        raise ValueError(f"no value {next(iter({**arrays, **infinite}))}")
    intervals = read_intervals(document)
    return values, document["signature"], document["counts"], document["reasons"], document["provenance"], intervals


def _values(values: dict[str, Any], arrays: dict[str, Any], infinite: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Numbers, arrays and mappings of these; takes what it has used out of ``arrays`` and ``infinite``."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        whole = prefix + name
        if whole in arrays:
            found[name] = _array(value, arrays.pop(whole), infinite.pop(whole, ()))
        elif isinstance(value, dict):
            found[name] = _values(value, arrays, infinite, f"{whole}/")
        elif value is None:
            marks = infinite.pop(whole, None)
            found[name] = marks[0][1] * math.inf if marks else math.nan
        elif isinstance(value, (bool, int, float)):
            found[name] = value
        else:
            raise ValueError(f"value {whole} that is no number")
    return found


def dtype_named(name: Any) -> np.dtype[Any]:
    """Returns the dtype that a file names.

    Args:
        name: as :attr:`numpy.dtype.str` or :attr:`numpy.dtype.name` gives it.

    Raises:
        ValueError: it is none.

    Example:
        >>> dtype_named("<f4"), dtype_named("int64")
        (dtype('float32'), dtype('int64'))
    """
    import numpy as np

    try:
        found: np.dtype[Any] = np.dtype(str(name))
        return found
    except (TypeError, ValueError, SyntaxError):  # numpy evaluates what looks like a tuple
        raise ValueError(f"no dtype {name!r:.60}") from None


def _array(value: Any, form: dict[str, Any], infinite: list[list[int]]) -> np.ndarray[Any, Any]:
    import numpy as np  # here, since results without arrays load without it

    # numpy has no bfloat16; float32 holds each of its numbers.
    kind = dtype_named("float32" if form["dtype"] == "bfloat16" else form["dtype"])
    if kind.kind not in _KINDS:
        raise ValueError(f"an array of {kind}")
    found = np.array(value, dtype=kind).reshape(form["shape"])
    flat = found.reshape(-1)
    for place, sign in infinite:
        flat[place] = sign * math.inf
    return found
