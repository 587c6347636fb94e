"""Headers of npy files, read by one thread at a time. Imports no torch."""

from __future__ import annotations

import threading
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_lock = (
    threading.Lock()
)  # numpy evaluates a header; where two threads do, CPython 3.11 may raise SystemError (gh-106905)


class NpyHeader(NamedTuple):
    """Shape of an array, whether its columns lie together, and its dtype."""

    shape: tuple[int, ...]
    columns: bool
    dtype: np.dtype[Any]


def read_npy_header(file: IO[bytes]) -> NpyHeader | tuple[int, int]:
    """Returns the header at the beginning of a file, which is left behind it.

    A version other than 1.0 and 2.0 is returned in place of the header: 3.0 is for names of fields.

    Raises:
        ValueError: it is no npy file, or its header is damaged.
    """
    version: tuple[int, int] = npy.read_magic(file)
    if version not in _READERS:
        return version
    with _lock:
        return NpyHeader(*_READERS[version](file))
