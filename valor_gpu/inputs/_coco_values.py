"""Values of COCO records that are read when somebody asks: lists of numbers, masks, sizes. No torch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import BIT, SIZES, Columns, number_or_nan, shown
from valor_gpu.inputs.files import InputFile
from valor_gpu.inputs.text_ids import TextIds

Rows = NDArray[np.int64]
Texts = tuple[NDArray[np.uint8], NDArray[np.int64]]
TEXTS = ("segmentation", "keypoints", "rotated")
"""Fields whose values are read when somebody asks; ``rotated`` is the ``bbox`` of rotated boxes."""
_KEYS = {"rotated": "bbox"}
"""Keys of records, where the name of a field is another."""


class Values(Protocol):
    """Values of N records that stay where they are, in a file or in objects."""

    def column(self, name: str) -> NDArray[np.float64]:
        """float64 ``[N]`` of a field of ``SIZES``: NaN where it is absent or no number."""
        ...

    def numbers(self, name: str, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        """The lists of numbers of ``rows``: all numbers, ``[n + 1]`` where each list begins, how many are good.

        The first list that is not one of numbers, and all after it, are undefined; an absent one is empty.
        """
        ...

    def texts(self, name: str, rows: Rows) -> AbstractContextManager[Texts]:
        """The values of ``rows`` as JSON, for the time of a ``with``: bytes, and where the text of each row is.

        The places are int64 ``[n, 2]``: where a text begins, and how many bytes it has, 0 where the value is absent.
        """
        ...

    def value(self, name: str, row: int) -> Any:
        """One value as Python objects, for a message; text where Python's ``json`` cannot read it."""
        ...

    def take(self, rows: NDArray[Any]) -> Values:
        """Those of these records, int64 ``[n]`` or bool ``[N]``."""
        ...


@frozen
class FileValues:
    """Values in a JSON file that has been scanned, and is the same still when they are read.

    Attributes:
        file: the file.
        columns: those of the scan.
    """

    file: InputFile
    columns: Columns

    @classmethod
    def of_scan(cls, file: InputFile, columns: Columns) -> FileValues | None:
        """The columns of a scan that belong here; None where no record has anything, so that no file is kept."""
        present = np.bitwise_or.reduce(columns["present"], initial=np.uint16(0))
        found = {name: columns[name] for name in TEXTS if name in columns and present & BIT[name]}
        found |= {name: columns[name] for name in SIZES if name in columns and not np.isnan(columns[name]).all()}
        return cls(file, {**found, "present": columns["present"]}) if found else None

    def column(self, name: str) -> NDArray[np.float64]:
        """See :class:`Values`."""
        column = self.columns.get(name)
        return np.full(len(self.columns["present"]), np.nan) if column is None else column

    def places(self, name: str, rows: Rows) -> NDArray[np.int64]:
        """int64 ``[n, 2]``: where the text of each row begins and how many bytes it has, 0 where it is absent."""
        column = self.columns.get(name)
        if column is None:
            return np.zeros((len(rows), 2), np.int64)
        has = (self.columns["present"][rows] & BIT[name]) != 0
        return np.where(has[:, None], column[rows], 0)

    @contextmanager
    def texts(self, name: str, rows: Rows) -> Iterator[Texts]:
        """See :class:`Values`; :class:`InputError` if the file has changed."""
        with self.file.mapped() as data:
            yield np.frombuffer(data, np.uint8), self.places(name, rows)

    def numbers(self, name: str, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        """See :class:`Values`."""
        places = self.places(name, rows)
        given = np.flatnonzero(places[:, 1])
        if len(given) < len(rows):
            return self._with_absent(name, rows, given)
        order = np.arange(len(rows))
        offsets, good = np.zeros(len(rows) + 1, np.int64), np.array([len(rows)])
        with self.texts(name, rows) as (text, places):
            where = (text.ctypes.data, text.nbytes, places.ctypes.data, order.ctypes.data, len(rows))
            rooms = native.function("valor_cpu", "valor_coco_number_rooms_cpu")
            rooms(*where, offsets.ctypes.data, native.threads())
            values = np.empty(int(offsets[-1]))
            read = native.function("valor_cpu", "valor_coco_numbers_cpu")
            read(*where, offsets.ctypes.data, values.ctypes.data, native.threads(), good.ctypes.data)
        return values, offsets, int(good[0])

    def _with_absent(self, name: str, rows: Rows, given: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        """As :meth:`numbers`, where only the ``given`` of the rows have the field: the lists of others are empty."""
        values, parts, good = self.numbers(name, rows[given])
        lengths = np.zeros(len(rows), np.int64)
        lengths[given] = np.diff(parts)
        whole = good == len(given)
        return values, np.append(0, lengths.cumsum()), len(rows) if whole else int(given[good])

    def value(self, name: str, row: int) -> Any:
        """See :class:`Values`."""
        with self.texts(name, np.array([row])) as (text, places):
            begin, size = places[0].tolist()
            given = bytes(text[begin : begin + size])
        try:
            return json.loads(given) if size else None
        except (ValueError, RecursionError):  # integers of thousands of digits, thousands of brackets
            return given.decode("utf-8", "replace")

    def take(self, rows: NDArray[Any]) -> FileValues:
        """See :class:`Values`."""
        return FileValues(self.file, {name: column[rows] for name, column in self.columns.items()})


@frozen
class ObjectValues:
    """Values of records that are Python objects.

    Attributes:
        records: mappings.
    """

    records: Sequence[Mapping[str, Any]]

    def column(self, name: str) -> NDArray[np.float64]:
        """See :class:`Values`."""
        return np.fromiter((number_or_nan(r.get(name)) for r in self.records), np.float64, len(self.records))

    def numbers(self, name: str, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        """See :class:`Values`."""
        parts: list[NDArray[np.float64]] = []
        with contextlib.suppress(TypeError, ValueError):
            for row in rows.tolist():
                value = self.value(name, row)
                parts.append(_numbers(() if value is None else value))
        good = len(parts)
        parts += [np.zeros(0)] * (len(rows) - good)
        offsets = np.cumsum([0, *map(len, parts)])
        return np.concatenate([np.zeros(0), *parts]), offsets.astype(np.int64), good

    @contextmanager
    def texts(self, name: str, rows: Rows) -> Iterator[Texts]:
        """See :class:`Values`; what is no JSON becomes a text that is no value."""
        parts = [_json_of(self.value(name, row)) for row in rows.tolist()]
        sizes = np.array([len(part) for part in parts], np.int64)
        yield np.frombuffer(b"".join(parts), np.uint8), np.stack((sizes.cumsum() - sizes, sizes), 1)

    def value(self, name: str, row: int) -> Any:
        """See :class:`Values`."""
        return self.records[row].get(_KEYS.get(name, name))

    def take(self, rows: NDArray[Any]) -> ObjectValues:
        """See :class:`Values`."""
        return ObjectValues([self.records[row] for row in np.arange(len(self.records))[rows].tolist()])


@frozen
class KeptNumbers:
    """Values of which the lists of numbers of one field have been read.

    Attributes:
        values: where the others are.
        name: the field.
        kept: float64 ``[S]``, the numbers of all rows.
        offsets: int64 ``[N + 1]``, where those of each row begin.
    """

    values: Values
    name: str
    kept: NDArray[np.float64]
    offsets: NDArray[np.int64]

    def column(self, name: str) -> NDArray[np.float64]:
        """See :class:`Values`."""
        return self.values.column(name)

    def numbers(self, name: str, rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
        """See :class:`Values`."""
        if name != self.name:
            return self.values.numbers(name, rows)
        if len(rows) == len(self.offsets) - 1 and (rows == np.arange(len(rows))).all():
            return self.kept, self.offsets, len(rows)
        begins = self.offsets[:-1][rows]
        lengths = self.offsets[1:][rows] - begins
        offsets = np.append(0, lengths.cumsum())
        places = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], lengths)
        return self.kept[places], offsets, len(rows)

    def texts(self, name: str, rows: Rows) -> AbstractContextManager[Texts]:
        """See :class:`Values`."""
        return self.values.texts(name, rows)

    def value(self, name: str, row: int) -> Any:
        """See :class:`Values`."""
        return self.values.value(name, row)

    def take(self, rows: NDArray[Any]) -> KeptNumbers:
        """See :class:`Values`."""
        chosen = np.arange(len(self.offsets) - 1)[rows]
        kept, offsets, _ = self.numbers(self.name, chosen)
        return KeptNumbers(self.values.take(rows), self.name, kept, offsets)


def _json_of(value: Any) -> bytes:
    """The JSON text of a value that may hold arrays and bytes, empty for None."""
    if value is None:
        return b""
    try:
        return json.dumps(value, default=_plain, check_circular=False).encode()
    except (TypeError, ValueError, RecursionError):
        return b"?"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError


def _numbers(value: Any) -> NDArray[np.float64]:
    """A list of numbers as float64; an integer beyond the doubles is infinite, as in files."""
    if isinstance(value, (str, bytes, Mapping)):
        raise TypeError
    if isinstance(value, np.ndarray):
        if value.ndim != 1 or value.dtype.kind not in "iuf":
            raise TypeError
        return value.astype(np.float64)
    numbers = np.fromiter(map(number_or_nan, value), np.float64, len(value))
    if np.isnan(numbers).any() and not all(isinstance(v, (int, float, np.number)) for v in value):
        raise TypeError
    return numbers


def read_keypoints(
    values: Values | None, rows: Rows, where: str, count: int | None = None, unlabelled: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """float64 ``[n, K, 3]`` keypoints of ``rows``: x, y, visibility.

    Args:
        values: of the records.
        rows: int64 ``[n]`` which records.
        where: what stands before ``[row]`` in a message.
        count: K; None takes that of the first row that has keypoints.
        unlabelled: bool ``[n]``, rows that may have none, or an empty list: all of theirs are 0.

    Raises:
        InputError: keypoints that are absent, or are not 3 x K finite numbers; says where.
    """
    if values is None or not len(rows):
        numbers, offsets, good = np.zeros(0), np.zeros(len(rows) + 1, np.int64), len(rows)
    else:
        numbers, offsets, good = values.numbers("keypoints", rows)
    lengths = np.diff(offsets)
    bare = np.zeros(len(rows), np.bool_) if unlabelled is None else unlabelled & (lengths == 0)
    bare[good:] = False
    given = lengths[~bare]
    wanted = 3 * count if count is not None else int(given[0]) // 3 * 3 if len(given) else 0
    bad = (lengths != max(wanted, 3)) & ~bare
    bad[good:] = True
    unusable = np.flatnonzero(~np.isfinite(numbers[: offsets[good]]))
    bad[np.searchsorted(offsets, unusable, side="right") - 1] = True
    if not bad.any():
        if not bare.any():
            return numbers.reshape(len(rows), wanted // 3, 3)
        points = np.zeros((len(rows), wanted // 3, 3))
        points[~bare] = numbers.reshape(-1, wanted // 3, 3) if len(given) else 0
        return points
    row = int(rows[bad.argmax()])
    got = shown(values.value("keypoints", row)) if values is not None else "none"
    raise InputError(f"{where}[{row}].keypoints must be {max(wanted, 3)} finite numbers, x, y and visibility of each"
                     f" of {max(wanted, 3) // 3} points, but got {got}")  # fmt: skip


def keep_keypoints(values: Values | None, count: int, where: str) -> tuple[Values, NDArray[np.float64]]:
    """Values whose keypoints are read, and float64 ``[N, 4]`` x, y, width, height of the box around those of each row.

    All keypoints of a row count, seen or not. Records may have different numbers of them.

    Args:
        values: of the records.
        count: N, how many there are.
        where: what stands before ``[row]`` in a message.

    Raises:
        InputError: keypoints that are not three finite numbers each, or are none; says where.
    """
    boxes, bad = np.empty((count, 4)), np.zeros(1, np.int64)
    if values is None:
        raise _no_points(where, 0, None)
    numbers, offsets, good = values.numbers("keypoints", np.arange(count))
    read = native.function("valor_cpu", "valor_point_boxes_cpu")
    read(numbers.ctypes.data, offsets.ctypes.data, good, boxes.ctypes.data, native.threads(), bad.ctypes.data)
    if bad[0] < count:
        raise _no_points(where, int(bad[0]), values.value("keypoints", int(bad[0])))
    return KeptNumbers(values, "keypoints", numbers, offsets), boxes


def _no_points(where: str, row: int, given: Any) -> InputError:
    return InputError(f"{where}[{row}].keypoints must be finite numbers, x, y and visibility of each point, but got"
                      f" {shown(given)}")  # fmt: skip


@frozen
class ImageSizes:
    """Heights and widths of the images of a dataset, in pixels.

    Attributes:
        ids: int64 ``[I]`` image ids; of equal ones the last counts, as in pycocotools.
        values: of the image records; None where they are not known.
        texts: what the ids stand for, where ids are texts.
    """

    ids: NDArray[np.int64]
    values: Values | None
    texts: TextIds | None = None

    def of(self, image_ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """int32 ``[n, 2]``: height and width of these images; -1 where they are no integers from 0 to 2**31 - 1.

        Example:
            >>> sizes = ImageSizes(np.array([7]), ObjectValues([{"id": 7, "height": 480, "width": "640"}]))
            >>> sizes.of(np.array([7, 8])).tolist()
            [[480, -1], [-1, -1]]
        """
        ids, sizes = self._by_id
        if not len(ids):
            return np.full((len(image_ids), 2), -1, np.int32)
        place = np.maximum(np.searchsorted(ids, image_ids, side="right") - 1, 0)
        found: NDArray[np.int32] = np.where((ids[place] == image_ids)[:, None], sizes[place], np.int32(-1))
        return found

    @cached_property
    def _by_id(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Ids in ascending order, equal ones as they come, and the sizes of their images."""
        if self.values is None:
            return self.ids[:0], np.zeros((0, 2), np.int32)
        order = np.argsort(self.ids, kind="stable")
        sizes = np.empty((len(order), 2), np.int32)
        for c, name in enumerate(("height", "width")):
            column = self.values.column(name)[order]
            good = (column >= 0) & (column < 2**31) & (np.trunc(column) == column)
            sizes[:, c] = np.where(good, column, -1)
        return self.ids[order], sizes
