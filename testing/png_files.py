"""PNG written bit by bit, also those that no library writes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", len(content), kind) + content + struct.pack(">I", zlib.crc32(kind + content))


def filtered(rows: NDArray[np.uint8], filters: Sequence[int], step: int) -> bytes:
    """ISO/IEC 15948, 9.2: each byte less what its filter predicts of the bytes left of it and above."""
    above, out = np.zeros(rows.shape[1] + step, int), []
    for row, kind in zip(rows, filters):
        now = np.concatenate([np.zeros(step, int), row])
        a, b, c = now[:-step], above[step:], above[:-step]
        p = a + b - c
        distances = np.stack([abs(p - a), abs(p - b), abs(p - c)])
        paeth = np.choose(distances.argmin(0), [a, b, c])
        predicted = [0 * a, a, b, (a + b) // 2, paeth][kind]
        out += [bytes([kind]), ((row - predicted) % 256).astype(np.uint8).tobytes()]
        above = now
    return b"".join(out)


def png_of(labels: NDArray[Any], depth: int, color: int = 0, *extra: bytes, filters: Sequence[int] = (0,)) -> bytes:
    """A PNG written here, bit by bit, with these filters row by row: no library is trusted with them."""
    height, width = labels.shape
    raw = raw_of(labels, depth, filters)
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return made(header, *extra, chunk(b"IDAT", zlib.compress(raw)))


def raw_of(labels: NDArray[Any], depth: int, filters: Sequence[int]) -> bytes:
    height, width = labels.shape
    bits = np.unpackbits(labels.astype(">u2").view(np.uint8).reshape(height, width, 2), axis=2)[..., 16 - depth :]
    rows = np.packbits(bits.reshape(height, width * depth), axis=1)
    return filtered(rows, [filters[row % len(filters)] for row in range(height)], max(depth // 8, 1))


def made(header: bytes, *parts: bytes) -> bytes:
    """A PNG of these bytes in its header and these parts."""
    return b"".join([SIGNATURE, chunk(b"IHDR", header), *parts, chunk(b"IEND", b"")])
