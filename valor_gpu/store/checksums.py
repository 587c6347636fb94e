"""Checksums of what a store keeps, and errors that name the damaged place. Standard library alone."""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import sqlite3
import struct
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from valor_gpu.errors import DamageError

_HASH = hashlib.blake2b
_NUMBER = struct.Struct("<q")
_COUNT = struct.Struct("<i")
_REAL = struct.Struct("<d")
_FORMAT = 2  # of marshal: without references, whose use depends on how often an object is used elsewhere
_DIGIT = 15  # bits
WRONG = "its checksum differs, so what stands there is not what was written"


class RunDamage(DamageError):
    """Damage of a run of which the number is known; the database puts the id of the run behind the place.

    Args:
        place: words that end before the id.
        what: what is wrong.
        run: number of the run.
    """

    def __init__(self, place: str, what: str, run: int) -> None:
        super().__init__(place, what)
        self.run = run


def _encoded_by_hand(values: Sequence[Any]) -> bytes:
    """Returns what :data:`encoded` returns, whatever ``marshal`` of this Python writes."""
    return b"(" + _COUNT.pack(len(values)) + b"".join(map(_encoded_value, values))


def _encoded_value(value: Any) -> bytes:
    """Returns a type tag, a length where the type has no fixed one, and the bytes of a value."""
    if value is None:
        return b"N"
    if isinstance(value, str):
        return _counted(b"u", value.encode(errors="surrogatepass"))
    if isinstance(value, bytes):
        return _counted(b"s", value)
    if isinstance(value, float):
        return b"g" + _REAL.pack(value)
    if -(1 << 31) <= value < 1 << 31:
        return b"i" + _COUNT.pack(value)
    rest, digits = abs(value), b""
    while rest:
        digits += struct.pack("<H", rest & (1 << _DIGIT) - 1)
        rest >>= _DIGIT
    return b"l" + _COUNT.pack(len(digits) // 2 * (1 if value > 0 else -1)) + digits


def _counted(tag: bytes, content: bytes) -> bytes:
    return tag + _COUNT.pack(len(content)) + content


def _by_marshal(values: Sequence[Any]) -> bytes:
    return marshal.dumps(tuple(values), _FORMAT)


_SAMPLE = (None, 1, -1, 1 << 40, -(1 << 62), 0.5, -0.0, "", "plain", "\u00e9 \ud800", b"\xe9", b"")
# The format of marshal is not promised for ever, and a checksum has to be: 0.3 us a value list instead of 5.
_IS_AS_BY_HAND = _by_marshal(_SAMPLE) == _encoded_by_hand(_SAMPLE)
encoded = _by_marshal if _IS_AS_BY_HAND else _encoded_by_hand
"""Unambiguous bytes of values."""


def checksum(values: Sequence[Any]) -> int:
    """Returns a signed 64-bit number of values, as they are bound to a statement.

    Args:
        values: texts, bytes, integers of 64 bits, floats and None. A float counts by its bits, and a text differs from
            bytes.

    Example:
        >>> checksum((1, "a")) == checksum((1, "a")), checksum((1, "a")) == checksum((1, b"a"))
        (True, False)
    """
    number: int = _NUMBER.unpack(_HASH(encoded(values), digest_size=8).digest())[0]
    return number


def is_right(
    values: tuple[Any, ...], kept: Any, dumps: Any = marshal.dumps, make: Any = _HASH, unpack: Any = _NUMBER.unpack
) -> bool:
    """Returns whether values have the checksum that was kept: :func:`checksum` of a tuple, without calls in between."""
    if _IS_AS_BY_HAND:
        return bool(unpack(make(dumps(values, 2), digest_size=8).digest()) == (kept,))
    return bool(checksum(values) == kept)


def compare_all(found: Sequence[tuple[Any, ...]], run: int, place: Callable[[tuple[Any, ...]], str]) -> None:
    """Compares records of a run with their checksums: :func:`is_right` of each, without a call for each.

    Args:
        found: values of the columns behind the number of the run, and behind them the checksum, or None.
        run: number of the run.
        place: returns the place of such values, in words that end before the id of the run.

    Raises:
        DamageError: of the first record that is not what was written.
    """
    dumps, make, unpack = marshal.dumps, _HASH, _NUMBER.unpack
    for values in found:
        if values[-1] is None:
            continue
        if _IS_AS_BY_HAND and unpack(make(dumps((run, *values[:-1]), 2), digest_size=8).digest()) == values[-1:]:
            continue
        if not is_right((run, *values[:-1]), values[-1]):
            raise damage(place(values), WRONG, run)


def sealed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns values with their checksum behind them."""
    if _IS_AS_BY_HAND:  # most of what a store keeps: spared the calls of :func:`checksum`
        return values + _NUMBER.unpack(_HASH(marshal.dumps(values, _FORMAT), digest_size=8).digest())
    return (*values, checksum(values))


def check(values: Sequence[Any], kept: Any, place: str, run: int | None = None) -> None:
    """Raises :class:`DamageError` where values do not have the checksum that was kept; None was not kept.

    Args:
        values: as SQLite gives them.
        kept: checksum.
        place: of the values, in words; of a run they end before its id.
        run: number of the run.
    """
    if kept is not None and not is_right(tuple(values), kept):
        raise damage(place, WRONG, run)


def damage(place: str, what: str, run: int | None = None) -> DamageError:
    """Returns an error for a damaged place."""
    return DamageError(place, what) if run is None else RunDamage(place, what, run)


_MET: ContextVar[list[DamageError] | None] = ContextVar("damages", default=None)


@contextlib.contextmanager
def damages_met() -> Iterator[list[DamageError]]:
    """A context in which lists that leave out what is damaged say so in a list of errors, in place of a warning."""
    found: list[DamageError] = []
    token = _MET.set(found)
    try:
        yield found
    finally:
        _MET.reset(token)


@contextlib.contextmanager
def told(path: str | os.PathLike[str]) -> Iterator[None]:
    """A context of one entry of a list: where it is damaged, that is said by :func:`tell`, and the list goes on."""
    try:
        yield
    except DamageError as error:
        tell(error, path, 5)


def tell(error: DamageError, path: str | os.PathLike[str], level: int = 3) -> None:
    """Says of a damaged entry of a list that it is left out: in :func:`damages_met`, else as a warning.

    Args:
        error: with its place.
        path: of the store.
        level: of the call that the warning is about: 2 is the caller.
    """
    whole, met = DamageError(error.place, error.what, os.fspath(path)), _MET.get()
    if met is None:
        warnings.warn(f"what is damaged is left out of the list: {whole}", stacklevel=level)
    elif str(whole) not in map(str, met):
        met.append(whole)


class placed(contextlib.AbstractContextManager[None, None]):  # a third of the time of a generator
    """Context whose damages without a place are those of a place.

    Args:
        place: in words; of a run they end before its id.
        run: number of the run.
    """

    __slots__ = ("_place", "_run")

    def __init__(self, place: str, run: int | None = None) -> None:
        self._place, self._run = place, run

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DamageError):
            raise named(error, self._place, self._run) from error.__cause__


def named(error: DamageError, place: str, run: int | None = None) -> DamageError:
    """Returns a damage with a place where it has none."""
    return error if error.place else damage(place, error.what, run)


def whole(value: Any) -> int:
    """Returns an integer as SQLite gives it; the column of another type is damaged."""
    if type(value) is not int:
        raise DamageError("", f"a number is kept as {kind(value)}")
    return value


def real(value: Any) -> float:
    """Returns a float as SQLite gives it; the column of another type is damaged."""
    if type(value) is not float:
        raise DamageError("", f"a number is kept as {kind(value)}")
    return value


def real_or_none(value: Any) -> float | None:
    """Returns a float or None as SQLite gives it; the column of another type is damaged."""
    return None if value is None else real(value)


def kind(value: Any) -> str:
    """Returns the type of a value of SQLite, in words."""
    kinds = {str: "a text", int: "an integer", float: "a real number", type(None): "nothing"}
    return kinds.get(type(value), "bytes")


_DAMAGED = ("malformed", "decode to UTF-8", "no query solution", "no such", "corrupt", "too big", "constructor failed")


def is_damage(error: sqlite3.Error) -> bool:
    """Returns whether an error of SQLite is one of a damaged file, by its words."""
    return any(each in str(error) for each in _DAMAGED)


class Broken(bytes):
    """Bytes of a text that is no UTF-8."""


def _text(content: bytes) -> str | Broken:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return Broken(content)


def fetched(connection: sqlite3.Connection, sql: str, values: Any = ()) -> list[Any]:
    """Returns what a statement selects; a text that is no UTF-8 is :class:`Broken`, so that others can be read.

    SQLite's module for Python decodes texts itself, and says only in which column one cannot be decoded.
    """
    try:
        return connection.execute(sql, values).fetchall()
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):
            raise
    connection.text_factory = _text
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.text_factory = str
