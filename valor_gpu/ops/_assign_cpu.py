"""Assignment on the CPU over addresses and sizes, for numpy arrays and tensors alike. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import describe_box, raise_error
from valor_gpu.ops.match_batch import (
    COLUMNS,
    DETECTIONS,
    GROUND_TRUTHS,
    HASHED,
    TYPED,
    WANT_MATCHES,
    BatchWords,
    MatchBatch,
    Matched,
    MatchRule,
    allocate,
    check_sizes,
)
from valor_gpu.ops.native_types import NUMPY_FLOAT_TYPES, NUMPY_INT_TYPES

_SIDES = {"detections": "labels", "ground_truths": "gt_labels"}
_STORED = ("areas", "gt_own_areas")


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
    """Matches the detections of every image against its ground truths; see :func:`valor_gpu.ops.assign.assign`.

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
    raise_error(matched.error, describe_box)


def run(batch: MatchBatch, rule: MatchRule, access: Access) -> Matched:
    """Matches, and leaves the error code in the result."""
    wholes = _wholes(batch, access)  # kept alive while C++ reads their addresses
    rows = _rows(wholes, batch, rule)
    check_sizes(rows, batch.lengths)
    out = allocate(access.empty, rows, rule)
    if rule.options & WANT_MATCHES:
        out.matches[:] = -1
    words = {name: access.address(whole) for name, whole in wholes.items()}
    for name, column in COLUMNS.items():
        if name in wholes:
            words[f"{name}_stride"] = wholes[name].dtype.itemsize * column.width
    types = {name: access.codes[wholes[name].dtype] if name in wholes else 0 for name in TYPED}
    words.update(zip(("detections", "ground_truths", "images"), rows))
    if batch.pairs is not None:
        words["pairs"] = len(batch.pairs.similarities)
    words["room"], words["gt_room"] = batch.room, batch.gt_room
    native.function("valor_cpu", "valor_assign_cpu", "pppppppq")(
        bytes(BatchWords(**words)), rule.words(types, batch.box_format, batch.gt_box_format),
        *map(access.address, out), access.threads(),
    )  # fmt: skip
    return out


def _wholes(batch: MatchBatch, access: Access) -> dict[str, Any]:
    """Every array of the batch, one for all images, by its name in ``BatchWords``."""
    wholes = {}
    for name in COLUMNS:
        if len(parts := getattr(batch, name)):
            wholes[name] = access.contiguous(parts[0]) if len(parts) == 1 else _join(parts, access)
    if len(ids := batch.image_ids):
        flat = [x.reshape(-1) for x in ids]
        wholes["image_ids"] = access.contiguous(flat[0]) if len(ids) == 1 else access.join(flat)
    singles = {name: getattr(batch, name) for name in ("lengths", "counts", "gt_counts")}
    if batch.pairs is not None:
        singles.update({f"pair_{name}": value for name, value in vars(batch.pairs).items()})
    wholes.update({name: access.contiguous(value) for name, value in singles.items() if value is not None})
    return wholes


def _join(parts: Sequence[Any], access: Access) -> Any:
    """One array; an empty one of boxes may have any shape."""
    return access.join([x.reshape(-1, 4) if x.ndim == 2 else x for x in parts])


def _rows(wholes: Mapping[str, Any], batch: MatchBatch, rule: MatchRule) -> tuple[int, int, int]:
    """Detections, ground truths and images; raises where columns differ in rows or are missing."""
    rows = {side: wholes[name].shape[0] if name in wholes else 0 for side, name in _SIDES.items()}
    for name, column in COLUMNS.items():
        if name in wholes and wholes[name].shape[0] != rows[column.side]:
            raise InputError(
                f"{name} must have {rows[column.side]} rows, one for each label, but has {wholes[name].shape[0]}"
            )
    for i, (side, room) in enumerate(((DETECTIONS, batch.room), (GROUND_TRUTHS, batch.gt_room))):
        if room:
            rows[side] = _rows_in_rooms(side, room, batch.lengths[i], rows[side])
    if batch.pairs is not None:
        check_pairs(wholes, rows, rule)
    return rows[DETECTIONS], rows[GROUND_TRUTHS], batch.lengths.shape[1]


def _rows_in_rooms(side: str, room: int, lengths: Any, rows: int) -> int:
    """Rows that are used where every image has ``room`` rows; raises where one needs more, or there are others."""
    if len(lengths) and (rows != len(lengths) * room or int(lengths.max()) > room):
        raise InputError(
            f"{side} must have {len(lengths)} rooms of {room} rows but have {rows} rows, {lengths.tolist()}"
        )
    return int(lengths.sum())


def check_pairs(wholes: Mapping[str, Any], rows: Mapping[str, int], rule: MatchRule) -> None:
    """Raises unless a batch of stored pairs has what boxes would give."""
    for name in (*_STORED, *(("hashes", "gt_hashes") if rule.options & HASHED else ())):
        if name not in wholes and rows[COLUMNS[name].side]:
            raise InputError(f"{name} must come with stored pairs but is absent")
    for name, need in (("offsets", rows[DETECTIONS] + 1), ("counts", rows[DETECTIONS])):
        if (found := wholes[f"pair_{name}"].shape[0]) != need:
            raise InputError(f"pairs.{name} must have {need} entries, by detection, but has {found}")
