"""Label maps and logits in files: PNG, npy and npz. Imports no torch.

PNG need Pillow only where they are interlaced, or the C++ library is not built.

A file gives the class indices that it stores and nothing else: grey values and indices into a palette, whatever its
colours, with all bits. What could only be guessed (colours, several arrays, damage) is an error that names the file.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError, MissingExtraError
from valor_gpu.inputs.files import LARGEST_EXPANSION

FORMATS = (".png", ".npy", ".npz")
"""Ends of the names of files that can be read, in lower case."""

FREE_PIXELS = 2**28
"""Values of a compressed file that may expand as they like; with more, ``LARGEST_EXPANSION`` bytes from each byte."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY, _PALETTE = 0, 3  # colour types of PNG, ISO/IEC 15948, 11.2.2
_COLORS = {2: "RGB colours", 4: "grey with transparency", 6: "RGB colours with transparency"}
_DEPTHS = {_GREY: (1, 2, 4, 8, 16), _PALETTE: (1, 2, 4, 8)}
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
"""First column and row of each pass of interlacing, and steps across and down: ISO/IEC 15948, 8.2."""
_CRITICAL = (b"IHDR", b"PLTE", b"IDAT", b"IEND")


@frozen
class LabelMapReader:
    """Reads one label map, or logits, from each file.

    Attributes:
        key: of the array in npz files; None: they have only one.
        logits: whether npy and npz may hold logits ``[C, H, W]`` in place of a label map.
        key_option: what messages call ``key``.

    Example:
        >>> import pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "a.npy"
        ...     np.save(path, np.array([[0, 300]], np.uint16))
        ...     LabelMapReader().read(str(path))
        array([[  0, 300]], dtype=uint16)
    """

    key: str | None = None
    logits: bool = False
    key_option: str = "key"

    def read(self, path: str) -> NDArray[Any]:
        """The label map ``[H, W]`` of any integer dtype or bool, or float logits ``[C, H, W]``.

        Raises:
            InputError: the file is damaged or truncated, or holds something else; its name begins the message.
            MissingExtraError: it is a PNG that needs Pillow, which is not installed.
            OSError: it cannot be read.
        """
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise InputError(f"{path} must be a regular file but is not")
        form = os.path.splitext(path)[1].lower()
        if form == ".png":
            return _read_png(path)
        if form not in FORMATS:
            raise InputError(f"{path} must be a file whose name ends in {', '.join(FORMATS)}")
        try:
            values = _read_npy(path) if form == ".npy" else _read_npz(path, self.key, self.key_option)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # the parsers of numpy and zipfile raise many kinds
            if isinstance(error, OSError) and error.filename is not None:  # it cannot be opened
                raise
            raise InputError(f"{path} must be {form[1:]} but is damaged: {error or type(error).__name__}") from None
        self._check(path, values)
        return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))

    def _check(self, path: str, values: NDArray[Any]) -> None:
        """Raises unless the array has one of the forms."""
        if values.ndim == 2 and values.dtype.kind in "iub":
            return
        if self.logits and values.ndim == 3 and values.dtype.kind == "f" and values.dtype.itemsize <= 8:
            return
        need = "integers [height, width]" + (" or float logits [classes, height, width]" if self.logits else "")
        hint = ""
        if values.ndim == 2 and values.dtype.kind == "f":
            hint = ": save class indices as integers"
        elif values.ndim == 3 and values.dtype.kind in "iub":
            hint = ": save one map of class indices per file"
        raise InputError(f"{path} must hold {need} but has {values.dtype} {list(values.shape)}{hint}")


# ---------------------------------------------------------------------------------------------------------------- PNG


class _Header(NamedTuple):
    """What a PNG says of its pixels."""

    width: int
    height: int
    depth: int
    color: int
    interlaced: bool

    @property
    def row_bytes(self) -> int:
        return (self.width * self.depth + 7) // 8

    @property
    def raw_bytes(self) -> int:
        """Bytes of all rows, each with its filter; of pictures that are interlaced, those of their seven passes."""
        if not self.interlaced:
            return self.height * (self.row_bytes + 1)
        sizes = [
            (len(range(x, self.width, across)), len(range(y, self.height, down))) for x, y, across, down in _PASSES
        ]
        return sum(height * ((width * self.depth + 7) // 8 + 1) for width, height in sizes if width)


def _read_png(path: str) -> NDArray[Any]:
    with open(path, "rb") as file:
        data = file.read()
    header, packed = _png_parts(path, data)
    inflater = zlib.decompressobj()
    try:
        raw = inflater.decompress(packed, header.raw_bytes + 1)
    except zlib.error as error:
        raise InputError(f"{path} must be a whole PNG but is damaged: {error}") from None
    if len(raw) != header.raw_bytes or not inflater.eof:
        raise InputError(
            f"{path} must be a whole PNG but is damaged: {header.width} x {header.height} pixels are"
            f" {header.raw_bytes} bytes but it has {'more' if len(raw) > header.raw_bytes else len(raw)}"
        )
    if header.interlaced or not native.available("valor_cpu"):
        return _read_with_pillow(path, header, packed)
    return _unpack(_restore(path, header, raw), header)


def _restore(path: str, header: _Header, raw: bytes) -> NDArray[np.uint8]:
    """Rows without their filters, ``[height, row bytes]``."""
    rows, bad = np.empty((header.height, header.row_bytes), np.uint8), np.empty((), np.int64)
    source = np.frombuffer(raw, np.uint8)
    native.function("valor_cpu", "valor_png_rows_cpu", "pqqqpp")(
        source.ctypes.data,
        header.height,
        header.row_bytes,
        max(header.depth // 8, 1),
        rows.ctypes.data,
        bad.ctypes.data,
    )
    if bad >= 0:
        raise InputError(f"{path} must be a whole PNG but is damaged: row {bad} has no filter that exists")
    return rows


def _unpack(rows: NDArray[np.uint8], header: _Header) -> NDArray[Any]:
    """One value per pixel, ``[height, width]``."""
    if header.depth == 8:
        return rows
    if header.depth == 16:
        return rows.view(">u2").astype(np.uint16)
    shifts = np.arange(8 - header.depth, -1, -header.depth, dtype=np.uint8)
    values = rows[..., None] >> shifts & np.uint8(2**header.depth - 1)
    return values.reshape(header.height, -1)[:, : header.width]


def _read_with_pillow(path: str, header: _Header, packed: bytes) -> NDArray[Any]:
    """What is interlaced, or everything where the C++ library is not built."""
    if importlib.util.find_spec("PIL") is None:
        raise MissingExtraError("Pillow", "images", f"reading {path}")
    from PIL import PngImagePlugin  # Image.open would look for other formats and warn of large images

    # Pillow gives indices into a palette as they are, but grey of 2 and 4 bits multiplied.
    color = _PALETTE if header.depth < 16 else _GREY
    first = struct.pack(">IIBBBBB", header.width, header.height, header.depth, color, 0, 0, header.interlaced)
    parts = (_chunk(b"IHDR", first), _chunk(b"IDAT", packed), _chunk(b"IEND", b""))
    try:
        labels = np.asarray(PngImagePlugin.PngImageFile(io.BytesIO(_SIGNATURE + b"".join(parts))))
    except MemoryError:
        raise
    except Exception as error:  # Pillow raises OSError, SyntaxError, ValueError and more for what is damaged
        raise InputError(f"{path} must be a whole PNG but is damaged: {error}") from None
    return labels


def _png_parts(path: str, data: bytes) -> tuple[_Header, bytes]:
    """The header and the compressed pixels, both checked; what else there is (colours, text, dates) is left out."""
    if not data.startswith(_SIGNATURE):
        raise InputError(f"{path} must be a PNG, as its name says, but begins with {data[:8]!r}")
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
    whole = b"".join(packed)
    return _checked_header(path, header, len(whole)), whole


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


def _checked_header(path: str, header: bytes, packed: int) -> _Header:
    if len(header) != 13:
        raise InputError(f"{path} must be a PNG but is damaged: its header has {len(header)} bytes")
    width, height, depth, color, *methods = struct.unpack(">IIBBBBB", header)
    if color in _COLORS:
        raise InputError(
            f"{path} must have one class index per pixel, grey or palette, but has {_COLORS[color]}: save the indices"
            " of the classes, not a picture of them"
        )
    if depth not in _DEPTHS.get(color, ()) or not width or not height or methods not in ([0, 0, 0], [0, 0, 1]):
        raise InputError(f"{path} must be a PNG but is damaged: its header is {header.hex()}")
    _check_expansion(path, width * height, width * height * depth // 8, packed)
    return _Header(width, height, depth, color, bool(methods[2]))


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", len(content), kind) + content + struct.pack(">I", zlib.crc32(content, zlib.crc32(kind)))


def _check_expansion(path: str, values: int, size: int, packed: int) -> None:
    """Raises for many values out of next to nothing."""
    if values > FREE_PIXELS and size > LARGEST_EXPANSION * packed:
        raise InputError(
            f"{path} must expand at most {LARGEST_EXPANSION} times but {packed} bytes stand for {values:,} values: if"
            " that is right, save them as npy"
        )


# -------------------------------------------------------------------------------------------------------------- numpy


def _read_npy(path: str) -> NDArray[Any]:
    with open(path, "rb") as file:
        shape, columns, dtype = _array_header(path, file)
        count = math.prod(shape)
        left = os.fstat(file.fileno()).st_size - file.tell()
        if left < count * dtype.itemsize:
            raise InputError(f"{path} must have {count * dtype.itemsize} bytes of values but is truncated to {left}")
        values = np.fromfile(file, dtype, count)
    return values.reshape(shape, order="F" if columns else "C")


def _read_npz(path: str, key: str | None, key_option: str) -> NDArray[Any]:
    import zipfile

    with zipfile.ZipFile(path) as archive:
        keys = [name.removesuffix(".npy") for name in archive.namelist()]
        if key is None and len(keys) != 1:
            raise InputError(f"{key_option} must be given for {path}, which has {_listed(keys)}")
        if key is not None and key not in keys:
            raise InputError(f"{path} must have an array {key} but has {_listed(keys)}")
        entry = archive.infolist()[0 if key is None else keys.index(key)]
        with archive.open(entry) as file:
            shape, columns, dtype = _array_header(path, file)
            count = math.prod(shape)
            left = entry.file_size - file.tell()
            if left != count * dtype.itemsize:
                raise InputError(f"{path} must have {count * dtype.itemsize} bytes of values but has {left}")
            _check_expansion(path, count, left, min(entry.compress_size, os.path.getsize(path)))
            values = np.frombuffer(file.read(), dtype)
    return values.reshape(shape, order="F" if columns else "C")


def _array_header(path: str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns lie together, and dtype of an array; Python objects, which can run code, are no array."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):  # 3.0 is for names of fields
        raise InputError(f"{path} must hold plain numbers but is npy of version {version[0]}.{version[1]}")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, columns, dtype = read(file)
    if dtype.hasobject or dtype.kind not in "iubfc":
        raise InputError(f"{path} must hold numbers but has {dtype}")
    if any(size < 0 for size in shape):
        raise InputError(f"{path} must have a shape but is damaged: {list(shape)}")
    return shape, columns, dtype


def _listed(keys: list[str]) -> str:
    return "no arrays" if not keys else f"the array{'' if len(keys) == 1 else 's'} {', '.join(keys)}"
