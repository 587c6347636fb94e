"""Which annotations and rows of frames belong to a classification, and their metadata.

An annotation is a classification when it has labels and nothing else: no geometry, no embedding, no text. Labels with a
geometry belong to detection (``is_instance``) or to segmentation (a mask); they are left out here. Labels whose other
fields fit no task are an error, as in valor_core. ``implied_task_types`` decides where it is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import frames
from valor_gpu.valor.enums import TaskType
from valor_gpu.valor.schemas import Annotation

DATUM, ANNOTATION = "datum_metadata", "annotation_metadata"
_GEOMETRIES = ("bounding_box", "polygon", "raster")
_OTHERS = ("embedding", "text", "context_list")
_TASKS = ("implied_task_types", "implied_task_type")
_TASK_NAMES = tuple(task.value for task in TaskType)


def is_classification(name: str, uid: str, annotation: Annotation) -> bool:
    """Whether an annotation with labels belongs to a classification.

    Args:
        name: of the side, for messages.
        uid: of the datum, for messages.
        annotation: an annotation with labels.

    Raises:
        InputError: the annotation belongs to no task.
    """
    tasks = annotation.implied_task_types or ()
    if TaskType.CLASSIFICATION.value in tasks:
        return True
    if TaskType.SKIP.value in tasks:
        raise _no_task(name, uid)
    return False


def _no_task(name: str, uid: object) -> InputError:
    return InputError(
        f"{name} must hold annotations of a task but labels of datum {uid!r} fit none: a classification has labels "
        "alone, a detection labels, one geometry and is_instance=True, a segmentation labels and a raster"
    )


def classification_rows(
    name: str, frame: Any, names: Sequence[str], uids: NDArray[Any], keys: NDArray[Any], values: NDArray[Any]
) -> NDArray[np.int64]:
    """Places of the rows of a frame that belong to a classification.

    Rows with neither a label key nor a label value are annotations without labels and left out too.

    Args:
        name: of the frame, for messages.
        frame: opened.
        names: of its columns.
        uids: of the datum of each row.
        keys: label key of each row.
        values: label value of each row.

    Raises:
        InputError: a row with a label that belongs to no task.
    """
    placed = _there(name, frame, names, _GEOMETRIES, len(uids))
    other = _there(name, frame, names, _OTHERS, len(uids))
    kept = ~placed & ~other & ~(_missing(keys) & _missing(values))
    skipped = other.copy()
    if placed.any():
        instance = np.zeros(len(uids), np.bool_)
        if "is_instance" in names:
            flags = frames.values(name, frame, "is_instance")
            instance[:] = [not frames.is_missing(flag) and bool(flag) for flag in flags]
        drawn = _there(name, frame, names, _GEOMETRIES[:2], len(uids))
        skipped |= placed & ~instance & drawn
    skipped &= ~(_missing(keys) & _missing(values))
    for column in _TASKS:
        if column in names:
            for row, tasks in enumerate(frames.values(name, frame, column)):
                listed = [] if frames.is_missing(tasks) else [tasks] if isinstance(tasks, str) else list(tasks)
                for task in listed:
                    check_choice(f"{name} column {column!r}", task, _TASK_NAMES)
                if listed:
                    kept[row] = TaskType.CLASSIFICATION.value in listed
                    skipped[row] = TaskType.SKIP.value in listed
    if skipped.any():
        raise _no_task(name, uids[int(np.argmax(skipped))])
    return np.flatnonzero(kept)


def _there(name: str, frame: Any, names: Sequence[str], columns: Sequence[str], rows: int) -> NDArray[np.bool_]:
    """Rows that have a value in any of these columns."""
    found = np.zeros(rows, np.bool_)
    for column in columns:
        if column in names:
            found |= [not frames.is_missing(value) for value in frames.values(name, frame, column)]
    return found


def _missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype.kind in "USiub":
        return np.zeros(len(column), np.bool_)
    return np.fromiter(map(frames.is_missing, column.tolist()), np.bool_, len(column))


def read_metadata(
    name: str, frame: Any, names: Sequence[str], side: str, rows: NDArray[np.int64]
) -> Sequence[Mapping[str, Any] | None]:
    """The metadata of these rows: of a column of dicts, and of columns ``side.key``; missing values are None.

    Args:
        name: of the frame, for messages.
        frame: opened.
        names: of its columns.
        side: ``datum_metadata`` or ``annotation_metadata``.
        rows: places.

    Raises:
        InputTypeError: the column of dicts holds something else.
    """
    wanted = [column for column in names if column.startswith(f"{side}.")]
    entries: list[Mapping[str, Any] | None] = [None] * len(rows)
    if side in names:
        whole = frames.values(name, frame, side)
        entries = [None if frames.is_missing(whole[row]) else whole[row] for row in rows.tolist()]
        for entry in entries:
            if entry is not None and not isinstance(entry, Mapping):
                raise InputTypeError(f"{name} column {side!r} must hold dicts but got {type(entry).__name__}")
    if not wanted:
        return entries
    columns = [frames.column(name, frame, column)[rows].tolist() for column in wanted]
    keys = [column[len(side) + 1 :] for column in wanted]
    return [
        {**(entry or {}), **{key: None if frames.is_missing(value) else value for key, value in zip(keys, row)}}
        for entry, row in zip(entries, zip(*columns))
    ]
