"""Files as bytes: regular files, pipes and standard input, plain or gzip-compressed. Imports no torch."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError

Path = str | os.PathLike[str]

STANDARD_INPUT = "-"
GZIP = b"\x1f\x8b"
LARGEST_EXPANSION = 256
"""How many bytes each byte of gzip may become, once it is more than ``FREE_EXPANSION`` bytes in all."""
FREE_EXPANSION = 64 << 20

_CHUNK = 1 << 20  # bytes
_Stamp = tuple[int, int, int]  # device-wide number, size in bytes, time of change in nanoseconds


def source_name(path: Path) -> str:
    """How messages call a file."""
    return "standard input" if os.fspath(path) == STANDARD_INPUT else os.fspath(path)


def sha256_of(path: Path) -> tuple[int, str]:
    """Bytes and hexadecimal SHA-256 of a file as it lies on disk; other threads run meanwhile."""
    import hashlib  # here, since most runs hash nothing

    digest, size = hashlib.sha256(), 0
    view = memoryview(bytearray(_CHUNK))
    with open(path, "rb", buffering=0) as file:
        while count := file.readinto(view):
            digest.update(view[:count])
            size += count
    return size, digest.hexdigest()


class InputFile:
    """A file that may be read several times, and is the same each time.

    What begins with the two bytes of gzip is unpacked. Standard input (``-``), pipes and devices are read once and kept
    in memory.

    Args:
        path: of the file, or ``-``.

    Raises:
        InputError: there is no standard input.
        OSError: there is no such file.

    Example:
        >>> import gzip, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "a.txt.gz"
        ...     _ = path.write_bytes(gzip.compress(b"hello"))
        ...     InputFile(path).read()
        b'hello'
    """

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        self.is_standard_input = self.path == STANDARD_INPUT
        self.name = source_name(path)
        if self.is_standard_input and sys.stdin is None:
            raise InputError("standard input must be open but is closed")
        self.is_stream = self.is_standard_input or not stat.S_ISREG(os.stat(self.path).st_mode)
        self._stamp: _Stamp | None = None
        self._descriptor = -1  # of the file while it is read

    def offset(self) -> int:
        """Bytes on disk up to which the file was read by who reads it now; 0 while nobody does, and of a stream."""
        try:
            return os.lseek(self._descriptor, 0, os.SEEK_CUR)
        except OSError:
            return 0

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The bytes, unpacked, from the beginning.

        Raises:
            InputError: the file changed since it was first opened, or is damaged gzip.
        """
        if self.is_stream:
            yield io.BytesIO(self._kept)
            return
        with self.unchanged(), open(self.path, "rb") as raw:
            self._descriptor = raw.fileno()
            try:
                yield self._unpacked(raw)
            finally:
                self._descriptor = -1

    def read(self) -> bytes:
        """All bytes, unpacked."""
        with self.open() as file:
            return file.read()

    @contextmanager
    def mapped(self) -> Iterator[bytes | NDArray[np.uint8]]:
        """All bytes, unpacked; those of a plain file as the system maps it, only inside the ``with``.

        Mapping costs no copy. Where a mapped file is cut, its bytes read as zeros, and leaving raises.

        Raises:
            InputError: as :meth:`open`.
        """
        self._check_unchanged()  # before a file is opened that may be a pipe by now
        if self.is_stream or self.path.lower().endswith(".gz") or self._begins_as_gzip():
            yield self.read()
            return
        slot, lost = np.zeros(1, np.int64), np.zeros(1, np.int64)
        with self.unchanged():
            pages = _pages(self.path)
            native.function("valor_cpu", "valor_guard")(pages.ctypes.data, pages.nbytes, slot.ctypes.data)
            if slot[0] < 0:
                raise InputError(f"{self.name} must be one of fewer files that are read at the same time")
            try:
                yield pages
            finally:
                native.function("valor_cpu", "valor_unguard")(int(slot[0]), lost.ctypes.data)
            if lost[0]:
                raise InputError(f"{self.name} must be readable to its end but a part of it could not be read")

    def _begins_as_gzip(self) -> bool:
        with open(self.path, "rb") as raw:
            return raw.read(len(GZIP)) == GZIP

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raises :class:`InputError` when a regular file changes while the body runs, or did since the first time."""
        self._check_unchanged()
        try:
            yield
        except Exception:
            self._check_unchanged()  # what the body met may come of the change
            raise
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        if self.is_stream:
            return
        stamp: _Stamp | None = None
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(self.path)
            stamp = status.st_ino, status.st_size, status.st_mtime_ns
        if self._stamp not in (None, stamp):
            raise InputError(f"{self.name} must stay as it is while it is read but has changed: read it again")
        self._stamp = stamp

    @cached_property
    def _kept(self) -> bytes:
        if self.is_standard_input:
            return self._unpacked(sys.stdin.buffer).read()
        with open(self.path, "rb") as raw:
            return self._unpacked(raw).read()

    def _unpacked(self, raw: BinaryIO) -> BinaryIO:
        buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)  # type: ignore[type-var]
        magic = buffered.peek(len(GZIP))[: len(GZIP)]
        if magic == GZIP:
            return io.BufferedReader(_Unpacked(buffered, self.name), 1 << 20)
        if self.path.lower().endswith(".gz"):
            raise InputError(f"{self.name} must be gzip, as its name says, but begins with {magic!r}")
        return buffered


def _pages(path: str) -> NDArray[np.uint8]:
    """The bytes of a file, mapped; ``numpy.memmap`` takes 0.1 ms longer, and masks are read in many parts."""
    with open(path, "rb") as raw:
        if not os.fstat(raw.fileno()).st_size:
            return np.empty(0, np.uint8)
        return np.frombuffer(mmap.mmap(raw.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)


class _Unpacked(io.RawIOBase):
    """The bytes inside gzip; damage is an :class:`InputError`."""

    def __init__(self, packed: BinaryIO, name: str) -> None:
        import gzip  # here, since most files are plain

        self._packed = _Counted(packed)
        self._gzip = gzip.GzipFile(fileobj=self._packed, mode="rb")
        self._name = name
        self._given = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        import gzip
        import zlib

        try:
            size = int(self._gzip.readinto(buffer))
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{self._name} must be gzip but is damaged: {error}") from None
        self._given += size
        if self._given > max(FREE_EXPANSION, LARGEST_EXPANSION * self._packed.taken):
            raise InputError(
                f"{self._name} must be gzip that expands at most {LARGEST_EXPANSION} times but"
                f" {self._packed.taken} bytes give {self._given} and more: if that is right, unpack it first"
            )
        return size


class _Counted:
    """A file that counts the bytes it gives, for :class:`gzip.GzipFile`."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.taken = 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self.taken += len(data)
        return data

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self._file.seek(offset, whence)
