"""Which annotations and rows of frames belong to a task, and their metadata.

An annotation is a classification when it has labels and nothing else: no geometry, no embedding, no text. Labels with a
geometry belong to detection (``is_instance``) or, a mask alone, to segmentation, which takes a polygon alone as well.
Those of another task are left out. Labels whose other fields fit no task are an error, as in valor_core.
``implied_task_types`` decides where it is given.
A frame without a column ``is_instance`` has a detection in every row with a geometry when detections are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.valor import frames

DATUM, ANNOTATION = "datum_metadata", "annotation_metadata"
_GEOMETRIES = ("bounding_box", "polygon", "raster")
_EXTREMA = ("xmin", "ymin", "xmax", "ymax")
_PLACES = ("geometry", *_EXTREMA)
OTHERS = ("embedding", "text", "context_list")
_TASKS = ("implied_task_types", "implied_task_type")
SKIP, EMPTY, CLASSIFICATION, DETECTION = "skip", "empty", "classification", "object-detection"
SEGMENTATION = "semantic-segmentation"
TASK_TYPES = (SKIP, EMPTY, CLASSIFICATION, DETECTION, SEGMENTATION, "embedding", "text-generation")


_READ = {*_GEOMETRIES, *_PLACES, *OTHERS, *_TASKS, DATUM, ANNOTATION, "is_instance", "score", "annotation_id"}


def is_read(column: str) -> bool:
    """Whether a column of a frame is read, beside ``datum_uid``, ``label_key`` and ``label_value``.

    Example:
        >>> is_read("datum_metadata.night"), is_read("comment")
        (True, False)
    """
    return column in _READ or column.startswith((f"{DATUM}.", f"{ANNOTATION}."))


def no_task(name: str, uid: object) -> InputError:
    """Returns the error of labels that fit no task.

    Args:
        name: of the side.
        uid: of the datum.
    """
    return InputError(
        f"{name} must hold annotations of a task but labels of datum {uid!r} fit none: a classification has labels "
        "alone, a detection labels, one geometry and is_instance=True, a segmentation labels and a raster or a polygon"
    )


def task_rows(
    name: str, frame: Any, names: Sequence[str], uids: NDArray[Any], keys: NDArray[Any], values: NDArray[Any],
    task: str,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:  # fmt: skip
    """Places of the rows of a frame that belong to a task, and of those with labels that belong to another.

    Rows with neither a label key nor a label value are annotations without labels and in neither.

    Args:
        name: of the frame, for messages.
        frame: opened.
        names: of its columns.
        uids: of the datum of each row.
        keys: label key of each row.
        values: label value of each row.
        task: classification, object detection or semantic segmentation.

    Raises:
        InputError: a row with a label that belongs to no task, or, of detections, no column of a geometry.
    """
    detecting = task == DETECTION
    placed = _there(name, frame, names, (*_GEOMETRIES, *(_PLACES if detecting else ())), len(uids))
    other = _there(name, frame, names, OTHERS, len(uids))
    labelled = ~(_missing(keys) & _missing(values))
    if detecting and labelled.any():
        _check_geometry(name, names)
    instance, drawn = np.zeros((2, len(uids)), np.bool_)
    if placed.any():
        instance[:] = detecting
        if "is_instance" in names:
            instance[:] = _flags(name, frame, "is_instance")
        drawn = _there(name, frame, names, _GEOMETRIES[:2], len(uids))
        if task == SEGMENTATION:  # which takes a polygon alone
            drawn &= _there(name, frame, names, ("bounding_box", "raster"), len(uids))
    masked = placed & ~instance & ~drawn
    kept = {SEGMENTATION: masked, DETECTION: placed & instance}.get(task, ~placed)
    kept = kept & ~other & labelled
    skipped = (other | (placed & ~instance & drawn)) & labelled
    for row, listed in _listed_tasks(name, frame, names):
        kept[row] = task in listed
        skipped[row] = SKIP in listed
    if skipped.any():
        raise no_task(name, uids[int(np.argmax(skipped))])
    return np.flatnonzero(kept), np.flatnonzero(labelled & ~kept)


def _check_geometry(name: str, names: Sequence[str]) -> None:
    """Raises where no row can have a geometry and none says what it is for: all would be left out."""
    if not {*_GEOMETRIES, *_PLACES, *_TASKS}.intersection(names):
        raise InputError(
            f"{name} must have columns {', '.join(_EXTREMA)}, or one of bounding_box, polygon, raster and geometry, "
            f"but has {', '.join(map(repr, names))}"
        )


def _listed_tasks(name: str, frame: Any, names: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows of a frame that list their tasks."""
    for column in _TASKS:
        if column in names:
            for row, tasks in enumerate(frames.values(name, frame, column)):
                listed = [] if frames.is_missing(tasks) else [tasks] if isinstance(tasks, str) else list(tasks)
                for task in listed:
                    check_choice(f"{name} column {column!r}", task, TASK_TYPES)
                if listed:
                    yield row, listed


def _flags(name: str, frame: Any, wanted: str) -> list[bool]:
    """A column of True, False, 1, 0 and missing values, which count as False; every text would be true."""
    flags = frames.values(name, frame, wanted)
    if set(map(type, flags)) <= {bool, np.bool_}:
        return flags
    for row, flag in enumerate(flags):
        if not (isinstance(flag, (bool, np.bool_)) or frames.is_missing(flag) or (_is_number(flag) and flag in (0, 1))):
            raise InputTypeError(f"{name} column {wanted!r} must hold True or False but row {row} has {flag!r}")
    return [not frames.is_missing(flag) and bool(flag) for flag in flags]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating))


def _there(name: str, frame: Any, names: Sequence[str], columns: Sequence[str], rows: int) -> NDArray[np.bool_]:
    """Rows that have a value in any of these columns."""
    found = np.zeros(rows, np.bool_)
    for column in columns:
        if column in names:
            whole = frames.column(name, frame, column) if column in _PLACES else np.empty(0, object)
            numbers = whole.dtype.kind in "fiub"
            missing = np.isnan(whole) if numbers else frames.missing(frames.values(name, frame, column))
            found |= ~missing
    return found


def _missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype.kind in "USiub":
        return np.zeros(len(column), np.bool_)
    return frames.missing(column.tolist())


def _objects(column: NDArray[Any]) -> list[Any]:
    """Values as Python objects; numpy would make numbers of moments and durations finer than microseconds."""
    if column.dtype.kind in "mM":
        column = column.astype(f"{column.dtype.kind}8[us]")
    listed: list[Any] = column.tolist()
    return listed


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
    columns = [_objects(frames.column(name, frame, column)[rows]) for column in wanted]
    keys = [column[len(side) + 1 :] for column in wanted]
    return [
        {**(entry or {}), **{key: None if frames.is_missing(value) else value for key, value in zip(keys, row)}}
        for entry, row in zip(entries, zip(*columns))
    ]
