"""PNG files of numbers: their parts are checked here, their rows restored by the C++ library. Imports no torch.

Pillow unpacks interlaced pictures, and all of them where the library was not built. It is given the header and the
pixels alone: it checks no sums of pixels, takes a second header or the frame of an animation for the picture, and
unpacks text and colour profiles.
"""

from __future__ import annotations

import importlib.util
import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError, MissingExtraError, NativeError

GREY, RGB, PALETTE = 0, 2, 3  # colour types of PNG: ISO/IEC 15948, 11.2.2
COLORS = {GREY: "grey", RGB: "RGB", PALETTE: "palette", 4: "grey with transparency", 6: "RGB with transparency"}
"""Names of all colour types, for messages."""

_DEPTHS = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")
_NO_FILTER = "a row has no filter that exists"
_LAST_FILTER = 4  # of those of a row: ISO/IEC 15948, 9.2
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""First column and row of each pass of interlacing, and steps across and down: ISO/IEC 15948, 8.2."""


class Png(NamedTuple):
    """A PNG all of whose parts are there and have the right checksum.

    Attributes:
        path: of the file, for messages.
        width: in pixels, at least 1.
        height: in pixels, at least 1.
        depth: bits per channel.
        color: a key of ``COLORS``.
        interlaced: whether the pixels come in seven passes.
        packed: the compressed pixels.
    """

    path: str
    width: int
    height: int
    depth: int
    color: int
    interlaced: bool
    packed: bytes

    def unpack(self) -> NDArray[Any]:
        """The stored numbers: uint8 or uint16 ``[H, W]`` of grey and palette, uint8 ``[H, W, 3]`` of RGB of 8 bits.

        The array is read-only. Its size is not limited here: check ``width`` and ``height`` first.

        Raises:
            InputError: the pixels are damaged or too few.
            MissingExtraError: Pillow is not installed.
        """
        if importlib.util.find_spec("PIL") is None:
            raise MissingExtraError("Pillow", "images", f"reading {self.path}")
        try:
            if not self.interlaced and native.usable("valor_cpu"):
                return self._restored()
            return self._unpacked_by_pillow()
        except (MemoryError, InputError, NativeError):
            raise
        except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and more for what is damaged
            raise InputError(f"{self.path} must be a whole PNG but is damaged: {error}") from None

    def _restored(self) -> NDArray[Any]:
        """The numbers of all rows, of a picture that is not interlaced."""
        ((rows, size),) = self._pass_sizes()
        raw = np.frombuffer(self._raw(rows * size), np.uint8)
        values, bad = np.empty((rows, size - 1), np.uint8), np.empty(1, np.int64)
        step = max(1, self.depth * (3 if self.color == RGB else 1) // 8)
        restore = native.function("valor_cpu", "valor_png_rows_cpu")
        restore(raw.ctypes.data, rows, size - 1, step, values.ctypes.data, bad.ctypes.data)
        if bad[0] >= 0:
            raise self._damaged(_NO_FILTER)
        numbers = _numbers(values, self.depth, self.width)
        numbers = numbers.reshape(rows, self.width, 3) if self.color == RGB else numbers
        numbers.flags.writeable = False
        return numbers

    def _unpacked_by_pillow(self) -> NDArray[Any]:
        from PIL import PngImagePlugin  # Image.open would look for other formats and warn of large images

        # Pillow gives indices into a palette as they are, but grey of 2 and 4 bits multiplied by 85 and 17.
        color = PALETTE if self.color == GREY and self.depth < 16 else self.color
        header = struct.pack(">IIBBBBB", self.width, self.height, self.depth, color, 0, 0, self.interlaced)
        parts = (_chunk(b"IHDR", header), _chunk(b"IDAT", self.packed), _chunk(b"IEND", b""))
        values = np.asarray(PngImagePlugin.PngImageFile(io.BytesIO(_SIGNATURE + b"".join(parts))))
        # Pillow takes a stream that ends after any row for whole, and leaves zeros in the other rows.
        if self.interlaced or not values[-1].any():
            self._check_rows()
        return values

    def _check_rows(self) -> None:
        """Raises unless there are all rows, with filters that exist.

        Pillow finds bad filters, unless another part of the program has it load truncated images.
        """
        passes = list(self._pass_sizes())
        raw = self._raw(sum(rows * size for rows, size in passes))
        start = 0
        for rows, size in passes:
            stop = start + rows * size
            if max(raw[start:stop:size]) > _LAST_FILTER:
                raise self._damaged(_NO_FILTER)
            start = stop

    def _raw(self, need: int) -> bytes:
        """The rows with their filters, as many bytes as there must be; what comes behind them is left out.

        Raises:
            InputError: there are fewer.
            zlib.error: they are damaged.
        """
        raw = zlib.decompressobj().decompress(self.packed, need)
        if len(raw) < need:
            raise self._damaged(f"{self.width} x {self.height} pixels are {need} bytes but it has {len(raw)}")
        return raw

    def _damaged(self, why: str) -> InputError:
        return InputError(f"{self.path} must be a whole PNG but is damaged: {why}")

    def _pass_sizes(self) -> Iterator[tuple[int, int]]:
        """Rows of each pass that has pixels, and bytes of a row with the one of its filter."""
        bits = self.depth * (3 if self.color == RGB else 1)
        for x, y, across, down in _PASSES if self.interlaced else ((0, 0, 1, 1),):
            columns, rows = len(range(x, self.width, across)), len(range(y, self.height, down))
            if columns and rows:
                yield rows, (columns * bits + 7) // 8 + 1


def _numbers(values: NDArray[np.uint8], depth: int, width: int) -> NDArray[Any]:
    """The numbers in bytes of rows: uint8, or uint16 of 16 bits.

    Example:
        >>> _numbers(np.array([[0b00_01_10_11, 0b11_00_00_00]], np.uint8), 2, 5)
        array([[0, 1, 2, 3, 3]], dtype=uint8)
    """
    if depth == 16:
        return np.asarray(values.view(">u2"), np.uint16)
    if depth == 8:
        return values
    shifts = np.arange(8 - depth, -1, -depth, dtype=np.uint8)  # the first number has the highest bits
    numbers: NDArray[Any] = ((values[:, :, None] >> shifts) & (2**depth - 1)).reshape(len(values), -1)
    return numbers[:, :width].copy()


def parse_png(path: str, data: bytes) -> Png:
    """The header and the compressed pixels of a file; what else there is (colours, text, dates) is left out.

    Args:
        path: begins all messages.
        data: all bytes of the file.

    Raises:
        InputError: it is no PNG, or damaged, truncated or an animation.
    """
    if not data.startswith(_SIGNATURE):
        raise InputError(f"{path} must be a PNG but begins with {data[:8]!r}")
    header, packed, ended = b"", [], False
    for kind, content in _chunks(path, data):
        if (kind == b"IHDR") == bool(header):
            raise InputError(f"{path} must be a PNG with one header at its beginning but has {kind.decode('latin-1')}")
        if kind == b"acTL":
            raise InputError(f"{path} must be one picture but is an animation")
        if kind not in _CRITICAL and not kind[0] & 32:  # bit 5: ancillary, ISO/IEC 15948, 5.4
            raise InputError(f"{path} must be a PNG but has an unknown part {kind!r}")
        if kind == b"IHDR":
            header = bytes(content)
        elif kind == b"IDAT":
            packed.append(content)
        ended = kind == b"IEND"
    if not ended:
        raise InputError(f"{path} must be a whole PNG but is truncated after {len(data)} bytes")
    return Png(path, *_fields(path, header), b"".join(packed))


def _fields(path: str, header: bytes) -> tuple[int, int, int, int, bool]:
    """Width, height, depth, colour type, and whether the picture is interlaced."""
    if len(header) != 13:
        raise InputError(f"{path} must be a PNG but is damaged: its header has {len(header)} bytes")
    width, height, depth, color, *methods = struct.unpack(">IIBBBBB", header)
    if depth not in _DEPTHS.get(color, ()) or not width or not height or methods not in ([0, 0, 0], [0, 0, 1]):
        raise InputError(f"{path} must be a PNG but is damaged: its header is {header.hex()}")
    return width, height, depth, color, bool(methods[2])


def _chunks(path: str, data: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Kind and content of each part, up to the last or to where the file is cut."""
    view, at, kind = memoryview(data), len(_SIGNATURE), b""
    while kind != b"IEND" and at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 8 + size
        if end + 4 > len(data):
            return
        if zlib.crc32(view[at + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            raise InputError(
                f"{path} must be a whole PNG but is damaged: the checksum of its part at byte {at} is wrong"
            )
        yield kind, view[at + 8 : end]
        at = end + 4


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", len(content), kind) + content + struct.pack(">I", zlib.crc32(content, zlib.crc32(kind)))
