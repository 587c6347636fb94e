"""COCO JSON files to numpy columns by the native scanner: no Python object for a record."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import (
    BIT,
    CONVERT,
    FIELDS,
    IDS,
    Columns,
    may_be_text,
    mixed_ids,
    need_of,
    wrong_record,
    wrong_value,
)
from valor_gpu.inputs.files import InputFile, Path
from valor_gpu.inputs.text_ids import TextIds

CHUNK_BYTES = 1 << 20

# json::Need and kWrongType of csrc/core.
_NEEDS = (
    "",
    "a value",
    "a key in double quotes",
    "':'",
    "',' or '}'",
    "',' or ']'",
    "the closing quote of the string",
    "an escape such as \\n or \\u00e9",
    "a string without control characters",
    "UTF-8",
)
_WRONG_TYPE = 16
# kTextIds of csrc/core/coco_records.h: rows whose id is a text, in whose column stands where it begins.
_TEXT_MARK = {field: np.uint16(1 << FIELDS.index("num_keypoints") + f) for f, field in enumerate(IDS)}
_TEXT_MARKS = np.bitwise_or.reduce([*_TEXT_MARK.values()])
# In the order of csrc/core/coco_records.h: kIds to kWidthsOfImages.
_COLUMNS: tuple[tuple[str, type, tuple[int, ...]], ...] = (
    ("id", np.int64, ()),
    ("image_id", np.int64, ()),
    ("category_id", np.int64, ()),
    ("bbox", np.float64, (4,)),
    ("area", np.float64, ()),
    ("score", np.float64, ()),
    ("iscrowd", np.bool_, ()),
    ("ignore", np.bool_, ()),
    ("present", np.uint16, ()),
    ("segmentation", np.int64, (2,)),  # where its text begins and how many bytes it has; undefined where absent
    ("keypoints", np.int64, (2,)),
    ("num_keypoints", np.float64, ()),
    ("height", np.float64, ()),
    ("width", np.float64, ()),
)
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SHORT_TEXT = 32  # bytes, with both quotes
_TEXTS_AT_ONCE = 1 << 14
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio: sums of different words differ mostly
_SPACE = re.compile(rb"[ \t\n\r]*")
_BYTES_SHOWN = 24
_MOST_NESTED = 100
_OTHER_FILES = {b"PK\x03\x04": "a zip archive: unpack it", b"\xff\xfe": "in UTF-16", b"\xfe\xff": "in UTF-16"}


class JsonFile:
    """A JSON file in memory, and places in it.

    What Python's json module rejects is rejected, anywhere in the file. NaN and Infinity are numbers, as there.
    """

    def __init__(self, file: InputFile, data: bytes | NDArray[np.uint8], threads: int, chunk_bytes: int) -> None:
        self.file = file
        self.name = file.name
        self._threads = threads
        self._chunk_bytes = chunk_bytes
        self._is_mapping = isinstance(data, np.memmap)
        self._bytes: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
        if not len(self._bytes):
            raise InputError(f"{self.name}: byte 0: needed a value but the file is empty")
        self._text = self._bytes.data
        for magic, kind in _OTHER_FILES.items():
            if self._text[: len(magic)] == magic:
                raise InputError(f"{self.name}: byte 0: needed JSON in UTF-8 but the file is {kind}")

    @classmethod
    @contextmanager
    def open(cls, path: Path, *, threads: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[JsonFile]:
        """A file, to be read inside the ``with``.

        Args:
            path: of the file, plain or gzip-compressed, or ``-`` for standard input.
            threads: how many read.
            chunk_bytes: how much of an array a thread takes at a time.
        """
        file = InputFile(path)
        with file.mapped() as data:
            yield cls(file, data, threads, chunk_bytes)

    def fail(self, at: int, need: str) -> NoReturn:
        """Raises for what stands at byte ``at``."""
        found = bytes(self._text[at : at + _BYTES_SHOWN])
        got = f"got {found.decode('utf-8', 'replace')!r}" if found else "the file ends"
        is_other_format = found[:1] not in (b"", b"{", b"[") and at == self.start
        raise InputError(f"{self.name}: byte {at}: needed {need} but {got}{f': {CONVERT}' if is_other_format else ''}")

    @property
    def start(self) -> int:
        """The place of the first byte that is not space, behind a byte order mark."""
        mark = codecs.BOM_UTF8
        return self.skip_space(len(mark) if self._text[: len(mark)] == mark else 0)

    def keys(self) -> list[str]:
        """The keys of the object that the file holds; none where it holds something else or is damaged."""
        found: list[str] = []
        if bytes(self._text[self.start : self.start + 1]) != b"{":
            return found

        def skip(key: str, at: int) -> int:
            found.append(key)
            return self.skip_value(at)

        try:
            self.each_member(self.start, skip)
        except InputError:  # reported by who reads it
            return []
        return found

    def skip_space(self, at: int) -> int:
        """The first byte at ``at`` or later that is not space."""
        found = _SPACE.match(self._text, at)
        return found.end() if found else at

    def token(self, at: int, allowed: str, need: str) -> str:
        """The character at ``at``, which must be one of ``allowed``."""
        character = chr(self._text[at]) if at < len(self._text) else ""
        if not character or character not in allowed:
            self.fail(at, need)
        return character

    def skip_value(self, at: int) -> int:
        """The end of the value at ``at``."""
        return self._skip(at)[0]

    def _skip(self, at: int) -> tuple[int, int]:
        """The end of the value at ``at``, and how deep it is nested."""
        out = np.zeros(3, np.int64)
        skip = native.function("valor_cpu", "valor_json_skip")
        skip(self._bytes.ctypes.data, len(self._text), at, out.ctypes.data)
        end, need, depth = out.tolist()
        if need:
            self.fail(end, _NEEDS[need])
        return end, depth

    def value(self, at: int) -> Any:
        """The value at ``at`` as Python objects."""
        end, depth = self._skip(at)
        if depth > _MOST_NESTED:  # Python's stack ends at about 1,000, and what works on the value needs some of it
            need = f"a value of at most {_MOST_NESTED} nested arrays and objects"
            raise InputError(f"{self.name}: byte {at}: needed {need} but got {depth}")
        try:
            return json.loads(str(self._text[at:end], "utf-8"))
        except ValueError as error:
            raise InputError(f"{self.name}: byte {at}: needed a JSON value but: {error}") from None

    def each_member(self, at: int, read: Callable[[str, int], int]) -> int:
        """Calls ``read(key, place)`` for each member of the object at ``at``, which returns where the value ends."""
        self.token(at, "{", "a JSON object")
        at = self.skip_space(at + 1)
        mark = self.token(at, '}"', "a key in double quotes or '}'")
        while mark != "}":
            colon = self.skip_space(self.skip_value(at))
            self.token(colon, ":", "':'")
            at = self.skip_space(read(str(self.value(at)), self.skip_space(colon + 1)))
            mark = self.token(at, ",}", "',' or '}'")
            if mark == ",":
                at = self.skip_space(at + 1)
                self.token(at, '"', "a key in double quotes")
        return at + 1

    def finish(self, at: int) -> None:
        """Raises unless only space follows."""
        if self.skip_space(at) < len(self._text):
            self.fail(self.skip_space(at), "the end of the file")

    def array(self, at: int, wanted: Collection[str], where: str, end: int | None = None) -> tuple[Columns, int]:
        """Columns of the array of objects at ``at``, and where it ends.

        Args:
            at: the place of the bracket.
            wanted: names out of FIELDS; columns of other fields are not made, but with ``bbox`` and without ``area``
                the areas are those of the boxes.
            where: what stands before ``[row]`` in a message.
            end: how much of the file to look at, when the end of the array is known.
        """
        self.token(at, "[", "an array of objects")
        size = len(self._text) if end is None else end
        room = (size - at) // self._chunk_bytes + 1
        plan = np.zeros((2, room), np.int64)  # starts, bounds
        chunks = np.zeros(1, np.int64)
        data, threads = self._bytes.ctypes.data, self._threads
        places = (plan[0].ctypes.data, plan[1].ctypes.data)
        native.function("valor_cpu", "valor_coco_plan")(
            data, size, at, self._chunk_bytes, threads, *places, chunks.ctypes.data
        )
        count = int(chunks[0])
        bound = int(plan[1, :count].sum())
        columns: Columns = {
            name: np.empty((bound, *shape), dtype)
            for name, dtype, shape in _COLUMNS
            if name == "present" or name in wanted or (name == "area" and "bbox" in wanted)
        }
        pointers = np.array([columns[c].ctypes.data if c in columns else 0 for c, _, _ in _COLUMNS], np.uintp)
        fields = int(sum(int(BIT[field]) for field in wanted))
        out = np.zeros(3, np.int64)
        native.function("valor_cpu", "valor_coco_scan")(
            data, size, *places, count, fields, threads, self._is_mapping, pointers.ctypes.data, out.ctypes.data
        )
        rows, stop, need = out.tolist()
        if need:
            self._fail_in_array(stop, need, where, rows, wanted)
        for column in columns.values():
            column.resize((rows, *column.shape[1:]), refcheck=False)
        marks = np.bitwise_or.reduce(columns["present"], initial=np.uint16(0))
        if "bbox" in columns and marks & BIT["rotated"]:
            columns["rotated"] = _places_of_rotated(columns)
        if marks & _TEXT_MARKS:
            for field in (each for each in IDS if each in wanted):
                self._read_text_ids(columns, field, where, wanted)
            columns["present"] &= ~_TEXT_MARKS
        return columns, stop

    def _read_text_ids(self, columns: Columns, field: str, where: str, wanted: Collection[str]) -> None:
        """Codes in place of the places of ids that are texts, and what they stand for in a column of its own."""
        marked = (columns["present"] & _TEXT_MARK[field]) != 0
        if not marked.any():
            return
        row = int(marked.argmax())
        if not may_be_text(field, wanted):
            value = self.value(int(columns[field][row]))
            raise wrong_value(where, row, field, value, need_of(field, wanted))
        has = (columns["present"] & BIT[field]) != 0
        first = int(has.argmax())
        others = has & (marked != marked[first])
        if others.any():
            row = int(others.argmax())
            value = self.value(int(columns[field][row])) if marked[row] else columns[field][row].item()
            raise mixed_ids(where, first, row, field, value)
        found, forms = self._forms(columns[field][marked])
        texts = json.loads(b"[" + b",".join(forms) + b"]")
        ids = TextIds.of(texts)
        columns[field][marked] = ids.codes(texts)[found]
        columns[f"{field} texts"] = np.array(ids.texts, object)

    def _forms(self, places: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[bytes]]:
        """Which of some forms stands at each place; a form is a text as it is written, with its quotes."""
        forms: dict[bytes, int] = {}
        found = np.empty(len(places), np.int64)
        for begin in range(0, len(places), _TEXTS_AT_ONCE):
            part = places[begin : begin + _TEXTS_AT_ONCE]
            plain, short = self._short_texts(part)
            first, group = _groups(short)
            texts = short[first].view(f"S{_SHORT_TEXT}")[:, 0].tolist()  # JSON writes NUL as an escape
            numbers = np.array([forms.setdefault(text, len(forms)) for text in texts], np.int64)
            out = found[begin : begin + _TEXTS_AT_ONCE]
            out[plain] = numbers[group]
            others = (self._written(at) for at in part[~plain].tolist())
            out[~plain] = np.array([forms.setdefault(text, len(forms)) for text in others], np.int64)
        return found, list(forms)

    def _short_texts(self, places: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        """Bool ``[N]``: texts without escapes of at most 32 bytes; and these, filled with zeros, ``[n, 4]``."""
        last = len(self._bytes) - _SHORT_TEXT
        if last < 0:
            return np.zeros(len(places), np.bool_), np.zeros((0, _SHORT_TEXT // 8), np.uint64)
        windows = np.lib.stride_tricks.sliding_window_view(self._bytes, _SHORT_TEXT)[np.minimum(places, last)]
        closing = windows == ord('"')
        closing[:, 0] = False
        ends = closing.argmax(1).astype(np.uint8)
        windows[np.arange(_SHORT_TEXT, dtype=np.uint8) > ends[:, None]] = 0
        plain = (places <= last) & (ends > 0) & ~(windows == ord("\\")).any(1)
        return plain, windows[plain].view(np.uint64)

    def _written(self, at: int) -> bytes:
        """The text at ``at`` as it is written, of any length."""
        found = _TEXT.match(self._text, at)
        assert found is not None  # the scanner has read it
        return bytes(found.group())

    def _fail_in_array(self, at: int, need: int, where: str, row: int, wanted: Collection[str]) -> NoReturn:
        if need < _WRONG_TYPE:
            self.fail(at, _NEEDS[need])
        field = need - _WRONG_TYPE
        if field == len(FIELDS):
            raise wrong_record(where, row, self.value(at))
        raise wrong_value(where, row, FIELDS[field], self.value(at), need_of(FIELDS[field], wanted))


def _groups(rows: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A row of each group of equal rows of ``[N, W]``, and int64 ``[N]`` the group of each; groups may be equal."""
    odd = np.arange(1, 2 * rows.shape[1], 2).astype(np.uint64) * _MULTIPLIER
    _, first, group = np.unique((rows * odd).sum(1), return_index=True, return_inverse=True)
    if (rows[first[group]] != rows).any():  # different rows with one sum
        first = group = np.arange(len(rows))
    return first, group


def _places_of_rotated(columns: Columns) -> NDArray[np.int64]:
    """int64 ``[N, 2]``: where the text of a rotated box begins and how many bytes it has, out of ``bbox``."""
    places = np.zeros((len(columns["present"]), 2), np.int64)
    rotated = (columns["present"] & BIT["rotated"]) != 0
    places[rotated] = columns["bbox"][rotated, :2]
    columns["bbox"][rotated] = np.nan
    return places
