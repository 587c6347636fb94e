"""COCO records as Python objects to numpy columns, and the wording of what is wrong with one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs.text_ids import TextIds

# Bit f of a row's `present` stands for FIELDS[f]; csrc/core/coco_records.h has the same order.
FIELDS = (
    "id",
    "image_id",
    "category_id",
    "bbox",
    "area",
    "score",
    "iscrowd",
    "ignore",
    "segmentation",
    "keypoints",
    "caption",
    "num_keypoints",
    "height",
    "width",
)
BIT = {field: np.uint16(1 << f) for f, field in enumerate(FIELDS)}
BIT["rotated"] = np.uint16(1 << 15)
"""``rotated`` stands for a ``bbox`` of 5 or 8 numbers, a rotated box; such a record has no ``bbox``."""

SIZES = ("num_keypoints", "height", "width")
"""Fields that few evaluations need: not in ``present``, and what is no number is no error until somebody asks."""

RECORD_FIELDS = FIELDS[: -len(SIZES)]

CONVERT = "export it as COCO JSON, or convert it"
"""The way out of a file in another format."""
BOXES = "iou type bbox compares boxes"
"""The way out of annotations that have boxes and no masks."""

IDS = ("id", "image_id", "category_id")
"""Fields whose values are integers or texts; the ids of annotations, which other records do not name, are integers."""

TEXT_COLUMNS = tuple(f"{field} texts" for field in IDS)
"""Columns that are there where ids are texts: object ``[n]``, what their codes stand for, ascending."""

_ID = "a 64-bit integer or a text"
_NEED = {
    "id": _ID,
    "image_id": _ID,
    "category_id": _ID,
    "bbox": "4 numbers [x, y, width, height]",
    "area": "a number",
    "score": "a number",
    "iscrowd": "a number or a boolean",
    "ignore": "a number or a boolean",
}
_INTEGERS = {int, np.int64, np.int32}
_WIDE = {int, float, np.float64}
_NUMBERS = _INTEGERS | _WIDE | {np.float32, np.float16}

Columns = dict[str, NDArray[Any]]


def shown(value: object) -> str:
    """``repr`` for a message, cut after 60 characters."""
    try:
        text = repr(value)
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deeply to show"
    return text if len(text) <= 60 else f"{text[:60]}..."


def wrong_value(where: str, row: int, field: str, value: object, need: str | None = None) -> InputError:
    """The error for a field of the wrong type; ``need`` says what it must be where that is not the usual."""
    is_longer = field == "bbox" and isinstance(value, (list, tuple)) and len(value) > 4
    hint = ": iou type rotated takes 5 numbers, or the 8 of four corners" if is_longer else ""
    return InputError(f"{where}[{row}].{field} must be {need or _NEED[field]} but got {shown(value)}{hint}")


def wrong_record(where: str, row: int, value: object) -> InputError:
    """The error for an element that is not an object."""
    return InputError(f"{where}[{row}] must be an object but got {shown(value)}")


def present_fields(present: int) -> list[str]:
    """The fields whose bits ``present`` has."""
    return [name for name in FIELDS if present & int(BIT[name])]


def missing_field(where: str, row: int, field: str, present: int) -> InputError:
    """The error for a record without ``field``; ``present`` has the bits of the fields it has."""
    has = present_fields(present)
    hint = f"; {BOXES}" if field == "segmentation" and "bbox" in has else ""
    return InputError(f"{where}[{row}] must have {field} but has only {', '.join(has) or 'other keys'}"
                      f" (null counts as missing{hint})")  # fmt: skip


def check_keys(where: str, keys: Collection[str]) -> None:
    """Raises for an object that has other keys in place of those of COCO, as annotation tools save their own."""
    if not keys or not {"images", "annotations", "categories", "info", "licenses"}.isdisjoint(keys):
        return
    names = [key if len(key) <= 30 else f"{key[:30]}..." for key in map(str, islice(keys, 5))]
    more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
    raise InputError(f"{where} must have images, annotations and categories but has only {', '.join(names)}{more}:"
                     f" {CONVERT}")  # fmt: skip


def check_no_dataset(where: str, keys: Sequence[str]) -> None:
    """Raises for results that are an object with ``annotations``, whose keys are given: what tools export."""
    if "annotations" in keys:
        raise InputError(
            f"{where} must be an array of objects but is an object with {', '.join(keys[:6])}: if its annotations are"
            " the detections, jq .annotations extracts them"
        )


def check_array(where: str, value: object) -> None:
    """Raises unless ``value`` is a list or a tuple of records."""
    if not isinstance(value, (list, tuple)):
        raise InputError(f"{where} must be an array of objects but got {shown(value)}")


def count_repeats(ids: NDArray[np.int64]) -> int:
    """How many of the ids, int64 ``[N]``, an earlier one equals.

    Example:
        >>> count_repeats(np.array([5, 6, 5, 5]))
        2
    """
    if bool((ids[1:] > ids[:-1]).all()):
        return 0
    ordered = np.sort(ids)
    return int((ordered[1:] == ordered[:-1]).sum())


def columns_from_records(
    records: Sequence[Mapping[str, Any]], where: str, wanted: Sequence[str] = RECORD_FIELDS
) -> Columns:
    """A column for each field that decides a number, and ``present``: which fields each record has.

    Args:
        records: annotations or results as ``json.load`` gives them; numbers may be numpy's.
        where: what stands before ``[row]`` in a message.
        wanted: the fields to look at.
    """
    count = len(records)
    if not set(map(type, records)) <= {dict}:
        for row, record in enumerate(records):
            if not isinstance(record, Mapping):
                raise wrong_record(where, row, record)
    columns: Columns = {"present": np.zeros(count, np.uint16)}
    for field in wanted:
        values = [record.get(field) for record in records]
        given = next((value for value in values if value is not None), None) if may_be_text(field, wanted) else None
        if isinstance(given, str):
            columns[field], has, columns[f"{field} texts"] = _text_column(values, field, where)
        elif field in _NEED:
            columns[field], has = _column(values, field, where, need_of(field, wanted))
        else:
            has = np.fromiter((value is not None for value in values), np.bool_, count)
        columns["present"][has] |= BIT[field]
        if field == "bbox" and not has.all():
            rotated = np.fromiter((_is_rotated(value) for value in values), np.bool_, count)
            columns["present"][rotated] |= BIT["rotated"]
    return columns


def _column(values: list[Any], field: str, where: str, need: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """The values of one field and which rows have it."""
    dtype, absent, kinds, _ = _CONVERSIONS[field]
    flat: Iterable[Any] = values
    if field == "bbox":
        is_plain = set(map(type, values)) <= {list, tuple} and set(map(len, values)) <= {4}
        flat = chain.from_iterable(values) if is_plain else [None]
    if set(map(type, flat)) <= kinds:
        try:
            column: NDArray[Any] = np.array(values, dtype=np.float64 if dtype is np.bool_ else dtype)
            return column.reshape(len(values), *np.shape(absent)).astype(dtype, copy=False), np.ones(
                len(values), np.bool_
            )
        except OverflowError:  # an integer beyond the column: found one by one below
            pass
    return _column_one_by_one(values, field, where, need)


def may_be_text(field: str, wanted: Collection[str]) -> bool:
    """Whether an id can be a text in records of the fields ``wanted``: of annotations their own id cannot.

    Matches name annotations in arrays of numbers.
    """
    return field in IDS and not (field == "id" and "image_id" in wanted)


def need_of(field: str, wanted: Collection[str]) -> str:
    """What ``field`` must be in records of the fields ``wanted``, for a message."""
    return _NEED[field] if field not in IDS or may_be_text(field, wanted) else "a 64-bit integer"


def mixed_ids(where: str, first: int, row: int, field: str, value: object) -> InputError:
    """The error for an id of another kind than that of record ``first``."""
    need = "a 64-bit integer" if isinstance(value, str) else "a text"
    like = f"{where.rpartition(': ')[2]}[{first}].{field}"
    return InputError(f"{where}[{row}].{field} must be {need}, as {like} is, but got {shown(value)}")


def _text_column(values: list[Any], field: str, where: str) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """The codes of texts, which rows have one, and the texts."""
    has = np.fromiter((value is not None for value in values), np.bool_, len(values))
    for row in np.flatnonzero(has).tolist():
        if not isinstance(values[row], str):
            try:
                _integer(values[row])
            except (TypeError, ValueError, OverflowError):
                raise wrong_value(where, row, field, values[row]) from None
            raise mixed_ids(where, int(has.argmax()), row, field, values[row])
    ids = TextIds.of(value for value in values if value is not None)
    codes = np.where(has, ids.codes(values), 0)
    return codes, has, np.array(ids.texts, object)


def _column_one_by_one(values: list[Any], field: str, where: str, need: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """As :func:`_column`, for absent values, unusual types and errors."""
    dtype, absent, _, convert = _CONVERSIONS[field]
    column = np.full((len(values), *np.shape(absent)), absent, dtype)
    has = np.zeros(len(values), np.bool_)
    for row, value in enumerate(values):
        if value is None or (
            field == "bbox" and ((isinstance(value, (list, tuple)) and not value) or _is_rotated(value))
        ):
            continue
        try:
            column[row] = convert(value)
        except (TypeError, ValueError, OverflowError):
            if need == _ID and isinstance(value, str):
                raise mixed_ids(where, int(has.argmax()), row, field, value) from None
            raise wrong_value(where, row, field, value, need) from None
        has[row] = True
    return column, has


def _number(value: Any) -> float:
    """Any real number but a boolean; an integer beyond the doubles is infinite, as 1e400 is."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        raise TypeError
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def number_or_nan(value: Any) -> float:
    """The number, or NaN for what is none."""
    try:
        return _number(value)
    except (TypeError, ValueError):
        return _NAN


def _integer(value: Any) -> int:
    """Any integer but a boolean; 1.0 is one."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError
    try:
        return operator.index(value)
    except TypeError:
        number = _number(value)
        if not number.is_integer():
            raise
        return int(number)


def _flag(value: Any) -> bool:
    return bool(value) if isinstance(value, (bool, np.bool_)) else _number(value) != 0


def _is_rotated(value: Any) -> bool:
    """Whether a ``bbox`` is a list of 5 or 8 numbers."""
    if value is None or isinstance(value, (str, bytes, Mapping)) or not hasattr(value, "__len__"):
        return False
    if len(value) not in (5, 8):
        return False
    try:
        return all(_number(part) is not None for part in value)
    except (TypeError, ValueError):
        return False


def _box(value: Any) -> list[float]:
    if isinstance(value, (str, bytes, Mapping)) or len(value) != 4:
        raise TypeError
    return [_number(part) for part in value]


_NAN = float("nan")
_CONVERSIONS: dict[str, tuple[type, Any, set[type], Callable[[Any], Any]]] = {
    "id": (np.int64, 0, _INTEGERS, _integer),
    "image_id": (np.int64, 0, _INTEGERS, _integer),
    "category_id": (np.int64, 0, _INTEGERS, _integer),
    "bbox": (np.float64, [_NAN] * 4, _NUMBERS, _box),
    "area": (np.float64, _NAN, _NUMBERS, _number),
    "score": (np.float64, _NAN, _NUMBERS, _number),
    "iscrowd": (np.bool_, False, _NUMBERS | {bool}, _flag),
    "ignore": (np.bool_, False, _NUMBERS | {bool}, _flag),
}


def box_areas(boxes: Sequence[Any], column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Width x height as pycocotools computes it: in the precision of the numbers given, then float64.

    Args:
        boxes: the N boxes as given.
        column: the same as float64 ``[N, 4]``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if set(map(type, chain.from_iterable(boxes))) <= _WIDE:
            return column[:, 2] * column[:, 3]
        return np.array([float(box[2] * box[3]) for box in boxes], np.float64)
