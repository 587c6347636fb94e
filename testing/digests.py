"""A fingerprint of nested values: equal ones have equal types, order, dtypes, shapes and bytes all the way down."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


def digest(value: Any) -> str:
    """Hexadecimal fingerprint of dicts, lists, arrays, numbers, text and None.

    numpy's scalars count as Python's; names of floating dtypes count.
    """
    hasher = hashlib.sha256()
    _feed(hasher, value)
    return hasher.hexdigest()[:24]


def _feed(hasher: Any, value: Any) -> None:
    if isinstance(value, np.ndarray):
        hasher.update(f"{value.dtype.str}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, dict):
        hasher.update(f"{{{len(value)}".encode())
        for key, item in value.items():
            _feed(hasher, key)
            _feed(hasher, item)
    elif isinstance(value, (list, tuple)):
        hasher.update(f"[{len(value)}".encode())
        for item in value:
            _feed(hasher, item)
    else:
        plain = value.item() if isinstance(value, np.generic) else value
        hasher.update(f"{type(plain).__name__}:{plain!r};".encode())
