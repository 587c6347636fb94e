"""Hashes of tables, free of the order of their rows. No torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_SEEDS = (0x51AFD7ED558CCD6D, 0x2545F4914F6CDD1D)  # of the two halves of a hash
_CHUNK = 1 << 15  # rows, whose words stay in the cache
_SPACE = 0x20
"""The largest byte of JSON that is white space; texts of COCO files hold none in their strings."""


def row_hashes(columns: Sequence[NDArray[Any]], start: int, stop: int) -> tuple[Words, Words]:
    """Computes the two 64-bit halves of the hash of each of some rows, uint64 ``[n]`` twice.

    Args:
        columns: ``[N, ...]`` each.
        start: the first row.
        stop: the end of the rows.
    """
    halves = [np.full(stop - start, seed, np.uint64) for seed in _SEEDS]
    for column in columns:
        for word in _words(column[start:stop]):
            halves = [_fold(half, word) for half in halves]
    return _mixed(halves[0]), _mixed(halves[1])


def multiset_hash(name: str, columns: Mapping[str, NDArray[Any]], *more: Any) -> str:
    """Computes the SHA-256 of a table whose rows may stand in any order.

    It is that of the names and types of the columns, the number of rows, the sum modulo 2^128 of the hashes of all rows
    (two halves of 64 bits by splitmix64), and what else is given. It tells data apart, and is no seal against forgery.

    Args:
        name: of what is hashed.
        columns: ``[N, ...]`` each, by name.
        more: what belongs to it, with a ``repr`` that is the same in every process.

    Returns:
        64 hexadecimal digits.

    Example:
        >>> first = multiset_hash("rows", {"score": np.array([0.5, 0.25])})
        >>> first == multiset_hash("rows", {"score": np.array([0.25, 0.5])})
        True
        >>> first == multiset_hash("rows", {"score": np.array([0.5, 0.5])})
        False
    """
    rows = len(next(iter(columns.values()))) if columns else 0
    sums = np.zeros(2, np.uint64)
    for start in range(0, rows, _CHUNK):
        halves = row_hashes([*columns.values()], start, min(start + _CHUNK, rows))
        sums += np.array([half.sum(dtype=np.uint64) for half in halves], np.uint64)
    types = [(column, str(values.dtype), values.shape[1:]) for column, values in columns.items()]
    return hashlib.sha256(repr((name, types, rows, sums.tolist(), more)).encode()).hexdigest()


def text_words(data: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Computes a hash of JSON texts without their white space, uint64 ``[n, 2]``.

    Args:
        data: uint8, the bytes that texts are in.
        places: int64 ``[n, 2]``: where each begins, and its bytes.
    """
    found = np.zeros((len(places), 2), np.uint64)
    for row, (begin, size) in enumerate(places.tolist()):
        if size:
            text = data[begin : begin + size].tobytes().translate(None, _WHITE)
            found[row] = np.frombuffer(hashlib.blake2b(text, digest_size=16).digest(), np.uint64)
    return found


_WHITE = bytes(range(_SPACE + 1))


def id_words(ids: NDArray[np.int64], texts: Sequence[str] | None) -> NDArray[Any]:
    """Returns ids as they are hashed: integers as they are, of texts a hash, uint64 ``[n]``.

    Args:
        ids: int64 ``[n]``, integers or codes of ``texts``.
        texts: None: ids are integers.
    """
    if texts is None:
        return ids
    hashes = [int.from_bytes(hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).digest(), "little")
              for text in texts]  # fmt: skip
    return np.array(hashes, np.uint64)[ids] if hashes else ids.astype(np.uint64)


def _words(column: NDArray[Any]) -> Iterable[Words]:
    """The bytes of each row as words of 64 bits, the last of them filled with zeros."""
    width = column.dtype.itemsize * int(np.prod(column.shape[1:], dtype=np.int64))
    if not len(column) or not width:
        return ()
    flat = np.ascontiguousarray(column).reshape(len(column), -1).view(np.uint8)
    if width % 8:
        flat = np.pad(flat, ((0, 0), (0, -width % 8)))
    return flat.view(np.uint64).T


def _fold(state: Words, word: Words) -> Words:
    shifted = state >> np.uint64(29)
    state = state ^ word
    state *= np.uint64(0x9E3779B97F4A7C15)
    state += shifted
    return state


def _mixed(state: Words) -> Words:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))
