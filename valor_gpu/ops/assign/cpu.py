"""Assignment on the CPU over addresses and sizes, for numpy arrays and tensors alike. No torch."""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError, NativeError
from valor_gpu.ops.assign.match_batch import (
    BATCH_FIELDS,
    COLUMNS,
    DETECTIONS,
    FLOATS,
    GROUND_TRUTHS,
    HASHED,
    INTEGERS,
    PAIR_TYPES,
    TYPED,
    WANT_MATCHES,
    MatchBatch,
    Matched,
    MatchRule,
    Pairs,
    allocate,
    check_sizes,
)
from valor_gpu.ops.error_codes import raise_error
from valor_gpu.ops.native_types import NUMPY_FLOAT_TYPES, NUMPY_INT_TYPES
from valor_gpu.ops.pairs import errors as _pair_errors

_LABELS = {DETECTIONS: "labels", GROUND_TRUTHS: "gt_labels"}
_PAIR_COLUMNS = ("scores", "labels", "gt_labels")
_BOX_COLUMNS = ("boxes", "gt_boxes", *_PAIR_COLUMNS)
_DTYPES = {
    FLOATS: ("float16", "bfloat16", "float32", "float64"),
    INTEGERS: ("int8", "uint8", "int16", "int32", "int64", "bool"),
}
_PLAN = tuple((name, column, f"{name}_stride", name in TYPED) for name, column in COLUMNS.items())
_COLUMNS_OF = attrgetter(*COLUMNS)
_NO_WORDS = dict.fromkeys(BATCH_FIELDS, 0)
_NO_TYPES = dict.fromkeys(TYPED, 0)


class Access(NamedTuple):
    """How arrays of a library are read: numpy's, or torch's.

    Attributes:
        address: where the first value of an array lies.
        codes: the code of a dtype, as C++ knows it.
        join: one array of many.
        contiguous: the array itself, or a contiguous copy.
        empty: an array of a shape and a dtype, by name.
        threads: how many threads may work.
    """

    address: Callable[[Any], int]
    codes: Mapping[Any, int]
    join: Callable[[Sequence[Any]], Any]
    contiguous: Callable[[Any], Any]
    empty: Callable[[tuple[int, ...], str], Any]
    threads: Callable[[], int]


def _numpy_address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


NUMPY = Access(
    _numpy_address,
    {**NUMPY_FLOAT_TYPES, **NUMPY_INT_TYPES},
    np.concatenate,
    np.ascontiguousarray,
    np.empty,
    native.threads,
)


def assign(batch: MatchBatch, rule: MatchRule) -> Matched:
    """Matches the detections of every image against its ground truths; see :func:`valor_gpu.ops.assign.op.assign`.

    Args:
        batch: the images, of numpy arrays.
        rule: thresholds, area ranges, limits and options.

    Returns:
        Row tables as numpy arrays.

    Raises:
        InputError: for the first row whose values cannot be matched.
        NativeError: the C++ library is not there; ask :func:`valor_gpu.native.usable` first.

    Example:
        >>> import numpy as np
        >>> rule = MatchRule.make([0.5, 0.75], [[0, 1e10]], [100], WANT_MATCHES)
        >>> box = np.array([[0.0, 0.0, 10.0, 10.0]])
        >>> batch = MatchBatch(
        ...     np.array([[1], [1]]), [box], [np.array([0.9])], [np.array([3])],
        ...     gt_boxes=[box * 0.8], gt_labels=[np.array([3])],
        ... )
        >>> assign(batch, rule).matches.tolist()
        [[0, -1]]
    """
    matched = run(batch, rule, NUMPY)
    raise_if_bad(matched, batch)
    return matched


def raise_if_bad(matched: Matched, batch: MatchBatch) -> None:
    """Raises :class:`InputError` for the error that ``matched`` reports."""
    raise_error(matched.error, lambda code: _pair_errors.describe(code, batch))


def run(batch: MatchBatch, rule: MatchRule, access: Access) -> Matched:
    """Matches, and leaves the error code in the result."""
    words = _NO_WORDS.copy()
    kept: dict[str, Any] = {}  # arrays must live while C++ reads them
    types = _add_columns(batch, kept, words, access)
    if batch.room or batch.gt_room:
        _add_rooms(batch, words)
    words["images"] = images = batch.lengths.shape[1]
    rows = (words[DETECTIONS], words[GROUND_TRUTHS], images)
    check_sizes(rows, batch.lengths)
    of_images = (batch.lengths, _joined_ids(batch.image_ids, access), batch.counts, batch.gt_counts)
    for name, values in zip(("lengths", "image_ids", "counts", "gt_counts"), of_images):
        if values is not None:
            _add_images(name, values, images, kept, words, access)
    if batch.pairs is not None:
        _add_pairs(batch, rule, kept, words, access)
    out = allocate(access.empty, rows, rule)
    if rule.options & WANT_MATCHES:
        out.matches[:] = -1
    try:
        native.function("valor_cpu", "valor_assign_cpu", "pppppppq")(
            array("q", words.values()).tobytes(), rule.words(types, batch.box_format, batch.gt_box_format),
            *map(access.address, out), access.threads(),
        )  # fmt: skip
    except NativeError:
        _check_lengths(np.asarray(batch.lengths), rows)
        raise
    return out


_PLAIN_COLUMNS = tuple(
    (name, f"{name}_stride", COLUMNS[name].width)
    for name in ("boxes", "scores", "labels", "gt_boxes", "gt_labels", "gt_flags", "gt_areas")
)


def assign_plain(boxes: Any, rule: MatchRule, box_format: int, tables: Sequence[int], access: Access) -> int:
    """Fills the row tables of detections, ground truths and images; returns the error code.

    Args:
        boxes: a :class:`valor_gpu.ops.assign.op.PlainBoxes`; its columns may be numpy arrays too.
        rule: thresholds, area ranges, limits and options without ``WANT_MATCHES``.
        box_format: code of the format of all boxes.
        tables: addresses of the tables.
        access: how columns are read.
    """
    words, types = _NO_WORDS.copy(), _NO_TYPES.copy()
    for (name, stride, width), column in zip(_PLAIN_COLUMNS, boxes.columns):
        if column is not None:
            dtype = column.dtype
            types[name] = access.codes[dtype]
            words[name] = access.address(column)
            words[stride] = dtype.itemsize * width
    words["images"], words["lengths"] = len(boxes.lengths) // 2, boxes.lengths.buffer_info()[0]
    words[DETECTIONS], words[GROUND_TRUTHS] = boxes.rows
    words["room"], words["gt_room"] = boxes.rooms
    if boxes.image_ids is not None:
        words["image_ids"] = access.address(boxes.image_ids)
    error = array("q", (0,))
    native.function("valor_cpu", "valor_assign_cpu", "pppppppq")(
        array("q", words.values()).tobytes(), rule.words(types, box_format, box_format), *tables, None,
        error.buffer_info()[0], access.threads(),
    )  # fmt: skip
    return error[0]


def _check_lengths(lengths: NDArray[np.int64], rows: tuple[int, int, int]) -> None:
    """Raises unless the lengths of the images sum up to the rows of each side; asked after C++ has failed."""
    for side, of_side, total in zip((DETECTIONS, GROUND_TRUTHS), lengths.tolist(), rows):
        if min(of_side, default=0) < 0 or sum(of_side) != total:
            raise InputError(f"lengths must be counts that sum up to the {total} {side} but are {of_side[:8]}")


def _add_columns(batch: MatchBatch, kept: dict[str, Any], words: dict[str, int], access: Access) -> dict[str, int]:
    """Fills addresses, strides and row counts into ``words``; returns the dtype codes of columns that have several."""
    types = _NO_TYPES.copy()
    for (name, column, stride, typed), parts in zip(_PLAN, _COLUMNS_OF(batch)):
        if not parts:
            continue
        if len(parts) == 1:
            check_sizes((parts[0].shape[0], 0, 0), batch.lengths)  # before a copy that memory may not hold
        kept[name] = whole = access.contiguous(parts[0]) if len(parts) == 1 else _join(parts, access)
        dtype = whole.dtype
        check_dtype(name, dtype, column.dtype)
        if typed:
            types[name] = access.codes[dtype]
        words[name] = access.address(whole)
        words[stride] = dtype.itemsize * column.width
    for side, labels in _LABELS.items():
        words[side] = kept[labels].shape[0] if labels in kept else 0
    for name, whole in kept.items():
        _check_shape(name, whole.shape, words)
    check_present(batch, words)
    return types


def check_present(batch: MatchBatch, rows: Mapping[str, int]) -> None:
    """Raises unless the columns that every kernel reads are there.

    Args:
        batch: the images.
        rows: how many ``DETECTIONS`` and ``GROUND_TRUTHS`` it has.
    """
    for name in _BOX_COLUMNS if batch.pairs is None else _PAIR_COLUMNS:
        if rows[COLUMNS[name].side] and not getattr(batch, name):
            raise InputError(f"{name} must have {rows[COLUMNS[name].side]} rows, one for each label, but is absent")


def _check_shape(name: str, shape: Sequence[int], words: Mapping[str, int]) -> None:
    """Raises unless a column has a row for each label, and as many values in a row as C++ reads."""
    column = COLUMNS[name]
    if shape[0] != words[column.side]:
        raise InputError(f"{name} must have {words[column.side]} rows, one for each label, but has {shape[0]}")
    if column.width > 1 and shape[0] and tuple(shape[1:]) != (column.width,):
        raise InputError(f"{name} must have shape [{shape[0]}, {column.width}] but has {list(shape)}")


def _join(parts: Sequence[Any], access: Access) -> Any:
    """One array; an empty one of boxes may have any shape."""
    return access.join([x.reshape(-1, 4) if x.ndim == 2 else x for x in parts])


def _joined_ids(ids: Sequence[Any], access: Access) -> Any:
    """One array of all ids, None without any."""
    if len(ids) > 1:
        return access.join([x.reshape(-1) for x in ids])
    return ids[0] if len(ids) else None


def _add_images(
    name: str, array: Any, images: int, kept: dict[str, Any], words: dict[str, int], access: Access
) -> None:
    """Fills the address of an array of one int64 for each image into ``words``."""
    check_dtype(name, array.dtype, "int64")
    if array.shape[-1] != images:
        raise InputError(f"{name} must have {images} entries, one for each image, but has {array.shape[-1]}")
    kept[name] = whole = access.contiguous(array)
    words[name] = access.address(whole)


def _add_rooms(batch: MatchBatch, words: dict[str, int]) -> None:
    """Counts the rows that are used where every image has a room; raises where one needs more, or there are others."""
    words["room"], words["gt_room"] = batch.room, batch.gt_room
    for side, room, lengths in zip((DETECTIONS, GROUND_TRUTHS), (batch.room, batch.gt_room), batch.lengths.tolist()):
        if not room:
            continue
        if lengths and (words[side] != len(lengths) * room or min(lengths) < 0 or max(lengths) > room):
            raise InputError(
                f"{side} must have {len(lengths)} rooms of {room} rows but have {words[side]} rows, {lengths}"
            )
        words[side] = sum(lengths)


@functools.cache  # a dtype is looked up faster than its name
def check_dtype(name: str, dtype: Any, need: str) -> None:
    """Raises :class:`InputError` unless an array of numpy or torch has the dtype that is needed.

    Args:
        name: of the array, for the message.
        dtype: that it has.
        need: ``FLOATS``, ``INTEGERS`` or the name of a dtype.
    """
    found = str(dtype).removeprefix("torch.")
    if found not in _DTYPES.get(need, (need,)):
        raise InputError(f"{name} must be {need} but is {found}")


def _add_pairs(batch: MatchBatch, rule: MatchRule, kept: dict[str, Any], words: dict[str, int], access: Access) -> None:
    """Fills the pairs into ``words``."""
    assert batch.pairs is not None
    check_pairs(batch.pairs, kept.keys(), words, rule)
    words["pairs"] = batch.pairs.similarities.shape[0]
    for name in PAIR_TYPES:
        kept[f"pair_{name}"] = access.contiguous(getattr(batch.pairs, name))
        words[f"pair_{name}"] = access.address(kept[f"pair_{name}"])


def check_pairs(pairs: Pairs, present: Collection[str], rows: Mapping[str, int], rule: MatchRule) -> None:
    """Raises unless a batch of stored pairs has what boxes would give.

    Args:
        pairs: the pairs, numpy arrays or tensors.
        present: the columns of the batch.
        rows: how many ``DETECTIONS`` and ``GROUND_TRUTHS`` it has.
        rule: the choices of the run.
    """
    for name, dtype in PAIR_TYPES.items():
        check_dtype(f"pairs.{name}", getattr(pairs, name).dtype, dtype)
    detections, total = rows[DETECTIONS], pairs.similarities.shape[0]
    for name, need in (("offsets", detections + 1), ("counts", detections), ("ground_truths", total)):
        if (entries := getattr(pairs, name).shape[0]) != need:
            raise InputError(
                f"pairs.{name} must have {need} entries, for {detections} detections and {total} similarities, but has"
                f" {entries}"
            )
    for name in ("areas", "gt_own_areas", *(("hashes", "gt_hashes") if rule.options & HASHED else ())):
        if name not in present and rows[COLUMNS[name].side]:
            raise InputError(f"{name} must come with stored pairs but is absent")
