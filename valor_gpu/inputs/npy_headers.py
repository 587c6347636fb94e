"""Headers of npy files, read by one thread at a time. Imports no torch."""

from __future__ import annotations

import os
import threading
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_locks = [threading.Lock()]  # one, in a list so that a forked process can have another


class NpyHeader(NamedTuple):
    """Shape of an array, whether its columns lie together, and its dtype."""

    shape: tuple[int, ...]
    columns: bool
    dtype: np.dtype[Any]


def lock() -> threading.Lock:
    """Returns the lock of whoever reads a header.

    numpy evaluates headers; where two threads do, CPython 3.11 may raise SystemError (gh-106905).
    """
    return _locks[0]


def _after_fork() -> None:
    """A thread that held the lock is not in the forked process, and would never release it."""
    _locks[0] = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def read_npy_header(file: IO[bytes]) -> NpyHeader | tuple[int, int]:
    """Returns the header at the beginning of a file, which is left behind it.

    A version other than 1.0 and 2.0 is returned in place of the header: 3.0 is for names of fields.

    Raises:
        ValueError: it is no npy file, or its header is damaged.
    """
    version: tuple[int, int] = npy.read_magic(file)
    if version not in _READERS:
        return version
    with lock():
        return NpyHeader(*_READERS[version](file))
