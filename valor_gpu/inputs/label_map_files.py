"""Label maps and logits in files: PNG, npy and npz. Imports no torch.

PNG need Pillow, the extra ``images``: see :mod:`valor_gpu.inputs.png`.

A file gives the class indices that it stores and nothing else: grey values and indices into a palette, whatever its
colours, with all bits. What could only be guessed (colours, several arrays, damage) is an error that names the file.
"""

from __future__ import annotations

import io
import math
import os
import stat
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.inputs.files import LARGEST_EXPANSION
from valor_gpu.inputs.npy_headers import NpyHeader, read_npy_header
from valor_gpu.inputs.png import COLORS, GREY, PALETTE, parse_png

FORMATS = (".png", ".npy", ".npz")
"""Ends of the names of files that can be read, in lower case."""

FREE_PIXELS = 2**28
"""Values of a compressed file that may expand as they like; with more, ``LARGEST_EXPANSION`` bytes from each byte."""


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
            MissingExtraError: it is a PNG and Pillow is not installed.
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
            hint = ": save class indices as integers, for a binary mask 1 where the probability is above 0.5"
        elif values.ndim == 3 and values.dtype.kind in "iub":
            hint = ": save one map of class indices per file"
        raise InputError(f"{path} must hold {need} but has {values.dtype} {list(values.shape)}{hint}")


# ---------------------------------------------------------------------------------------------------------------- PNG


def _read_png(path: str) -> NDArray[Any]:
    with open(path, "rb") as file:
        return label_map_of_png(path, file.read())


def label_map_of_png(path: str, data: bytes) -> NDArray[Any]:
    """The class indices ``[H, W]`` of a PNG.

    Args:
        path: begins all messages.
        data: all bytes of the file.

    Raises:
        InputError: it is no PNG, damaged, or a picture in colours.
        MissingExtraError: Pillow is not installed.
    """
    png = parse_png(path, data)
    if png.color not in (GREY, PALETTE):
        raise InputError(
            f"{path} must have one class index per pixel, grey or palette, but has {COLORS[png.color]}: save the"
            " indices of the classes, not a picture of them"
        )
    values = png.width * png.height
    _check_expansion(path, values, values * png.depth // 8, len(png.packed))
    return png.unpack()


def _check_expansion(path: str, values: int, size: int, packed: int) -> None:
    """Raises for many values out of next to nothing."""
    if values > FREE_PIXELS and size > LARGEST_EXPANSION * packed:
        raise InputError(
            f"{path} must expand at most {LARGEST_EXPANSION} times but {packed} bytes stand for {values:,} values: if"
            " that is right, save them as npy"
        )


# -------------------------------------------------------------------------------------------------------------- numpy


def array_of_bytes(path: str, data: bytes, form: str) -> NDArray[Any]:
    """The array of an npy file, or the only one of an npz file, from its bytes.

    Args:
        path: begins all messages.
        data: all bytes of the file.
        form: ``npy`` or ``npz``.

    Raises:
        InputError: it is damaged, or holds something else than numbers.
    """
    try:
        if form == "npz":
            return _array_of_npz(path, io.BytesIO(data), len(data), None, "key")
        file = io.BytesIO(data)
        shape, columns, dtype = _array_header(path, file)
        count = math.prod(shape)
        if len(data) - file.tell() != count * dtype.itemsize:
            left = len(data) - file.tell()
            raise InputError(f"{path} must have {count * dtype.itemsize} bytes of values but has {left}")
        return np.frombuffer(data, dtype, count, file.tell()).reshape(shape, order="F" if columns else "C")
    except (InputError, MemoryError):
        raise
    except Exception as error:  # the parsers of numpy and zipfile raise many kinds
        raise InputError(f"{path} must be {form} but is damaged: {error or type(error).__name__}") from None


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
    return _array_of_npz(path, path, os.path.getsize(path), key, key_option)


def _array_of_npz(path: str, source: str | IO[bytes], size: int, key: str | None, key_option: str) -> NDArray[Any]:
    import zipfile

    with zipfile.ZipFile(source) as archive:
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
            _check_expansion(path, count, left, min(entry.compress_size, size))
            values = np.frombuffer(file.read(), dtype)
    return values.reshape(shape, order="F" if columns else "C")


def _array_header(path: str, file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns lie together, and dtype of an array; Python objects, which can run code, are no array."""
    header = read_npy_header(file)
    if not isinstance(header, NpyHeader):
        raise InputError(f"{path} must hold plain numbers but is npy of version {header[0]}.{header[1]}")
    shape, columns, dtype = header
    if dtype.hasobject or dtype.kind not in "iubfc":
        raise InputError(f"{path} must hold numbers but has {dtype}")
    if any(size < 0 for size in shape):
        raise InputError(f"{path} must have a shape but is damaged: {list(shape)}")
    return shape, columns, dtype


def _listed(keys: list[str]) -> str:
    return "no arrays" if not keys else f"the array{'' if len(keys) == 1 else 's'} {', '.join(keys)}"
