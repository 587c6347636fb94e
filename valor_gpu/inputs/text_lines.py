"""Lines of text files as they are read, one at a time. UTF-8, with or without a byte order mark."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from valor_gpu.errors import InputError
from valor_gpu.inputs.files import InputFile

LONGEST_ROW = 1 << 26
"""Characters of a row (64 Mi). A longer one is an error of its own: a quote that nobody closes fills no memory."""

_MARKS = (  # byte order marks; the one of UTF-32 begins as that of UTF-16 does
    (b"\xff\xfe\x00\x00", "UTF-32 (little-endian)"),
    (b"\x00\x00\xfe\xff", "UTF-32 (big-endian)"),
    (b"\xff\xfe", "UTF-16 (little-endian)"),
    (b"\xfe\xff", "UTF-16 (big-endian)"),
)
_OTHER_FILES = (
    (b"PK\x03\x04", "a zip archive or an Excel workbook: save it as CSV UTF-8"),
    (b"PAR1", "Parquet: give it the ending .parquet"),
)
_HEAD = 8  # bytes


@contextmanager
def text_lines(file: InputFile, newline: str) -> Iterator[Iterator[tuple[int, str]]]:
    """Numbered lines with their ends; bytes that are no UTF-8 are lone surrogates, which UTF-8 itself cannot give.

    Args:
        file: of text, perhaps gzip.
        newline: as of :func:`open`: ``""`` for lines that end in any way, a line feed for lines that end in it alone.

    Raises:
        InputError: another encoding, or another kind of file.
    """
    with file.open() as raw:
        buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)  # type: ignore[type-var]
        _check_head(file.name, buffered.peek(_HEAD)[:_HEAD])
        text = io.TextIOWrapper(buffered, "utf-8-sig", "surrogateescape", newline)
        try:
            yield _numbered(text)
        finally:
            text.detach()  # whoever opened the file closes it


def _check_head(name: str, head: bytes) -> None:
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            raise InputError(f"{name} must be UTF-8 but is {encoding}, by its first bytes: save it as UTF-8")
    for magic, what in _OTHER_FILES:
        if head.startswith(magic):
            raise InputError(f"{name} must be text but is {what}")
    if len(head) == _HEAD:  # without a mark: every other byte of ASCII in UTF-16 is 0
        for order, zeros, others in (("little", head[1::2], head[::2]), ("big", head[::2], head[1::2])):
            if not any(zeros) and all(others):
                raise InputError(f"{name} must be UTF-8 but looks like UTF-16 ({order}-endian): save it as UTF-8")


def _numbered(text: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
    """A line of more than ``LONGEST_ROW`` is cut behind that length, its rest is skipped."""
    lines = iter(partial(text.readline, LONGEST_ROW + 1), "")
    for number, line in enumerate(lines, 1):
        yield number, line
        while len(line) > LONGEST_ROW and not line.endswith(("\n", "\r")):
            line = text.readline(LONGEST_ROW + 1)


def is_utf8(text: str) -> bool:
    """Returns whether all bytes of the text were UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(place: str, text: str, start: int | None = None) -> None:
    """Raises unless all bytes of ``text`` were UTF-8; with its ``start`` in the line, the error has the column."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        column = "" if start is None else f" at column {start + error.start + 1}"
        raise InputError(f"{place} must be UTF-8 but has the byte 0x{byte:02X}{column}") from None


def check_length(place: str, length: int) -> None:
    """Raises when a row has more than ``LONGEST_ROW`` characters."""
    if length > LONGEST_ROW:
        raise InputError(f"{place} must have at most {LONGEST_ROW} characters but has more")
