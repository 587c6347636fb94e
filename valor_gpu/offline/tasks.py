"""Columns of rows as the arguments of ``update``, by task."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs._table import whole_text
from valor_gpu.metric import Metric
from valor_gpu.offline.chunks import Chunk
from valor_gpu.offline.config import TASKS, DataConfig, default_fields

Arguments = tuple[Any, ...]
_INT64_MAX = 2**63 - 1


@dataclass(frozen=True)
class Task:
    """What turns rows into updates.

    Attributes:
        data: fields, names of classes and the like.
        fields: argument to column or columns.
        device: where tensors are put.
        unasked: columns that must not be there, since they could be read but nothing says whether they are to be.
        is_binary: whether all metrics are of two classes, whose ``preds`` may be scores in one column.
        undecided: name and ``ignore_index`` of each metric that takes the scores of an ``update`` for logits if one of
            them is outside [0, 1].
    """

    data: DataConfig
    fields: Mapping[str, str | tuple[str, ...]]
    device: str
    unasked: frozenset[str] = frozenset()
    is_binary: bool = False
    undecided: tuple[tuple[str, int | None], ...] = ()

    @classmethod
    def of(cls, data: DataConfig, metrics: Mapping[str, Metric[Any]], device: str) -> Task:
        """The task of a configuration; which fields of COCO files are read, its metrics tell."""
        fields, unasked = data.fields, frozenset[str]()
        if data.format == "coco":
            fields = {name: name for name in _coco_fields(metrics.values())}
        elif not fields:
            fields = default_fields(data.task)
            unasked = frozenset(TASKS[data.task][1]) - set(fields)
        kinds = {getattr(getattr(metric, "task", None), "kind", None) for metric in metrics.values()}
        return cls(data, fields, device, unasked, kinds == {"binary"}, tuple(_undecided(metrics)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to be read."""
        listed = ([column] if isinstance(column, str) else column for column in self.fields.values())
        return tuple(dict.fromkeys(name for columns in listed for name in columns))

    def check_columns(self, chunk: Chunk) -> None:
        """Raises InputError for columns such as ``weight``, without which the numbers would be others."""
        if found := sorted(self.unasked & chunk.others):
            raise InputError(f"data.fields must be given since without it {', '.join(found)} would not be read")

    def updates(self, chunk: Chunk) -> Iterator[Arguments]:
        """The arguments of each ``update`` for the rows of a chunk.

        Raises:
            InputError: a value cannot be an argument; the message has its place if one row is to blame.
        """
        return _UPDATES[self.data.task](self, chunk)

    def tensor(self, values: Any) -> torch.Tensor:
        """A tensor of its own on the device; arrays of other byte orders and read-only ones are copied.

        Unsigned integers of 16 to 64 bits, for which torch has few operations, become int64.
        """
        array = np.asarray(values)
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:
            if array.size and int(array.max()) > _INT64_MAX:
                raise InputError(f"numbers must be below 2^63 but there is {array.max()}")
            array = array.astype(np.int64)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return torch.from_numpy(np.array(array)).to(self.device)


def _coco_fields(metrics: Any) -> Iterator[str]:
    """What metrics of detection read, by their ``iou_type``."""
    kinds: set[str] = set()
    for metric in metrics:
        kind = getattr(metric, "iou_type", "bbox")
        kinds |= {kind} if isinstance(kind, str) else set(kind)
    yield from ("scores", "labels", "gt_labels", "image_id", "iscrowd", "area")
    if kinds & {"bbox", "rotated", "keypoints"} or not kinds & {"segm", "boundary"}:
        yield from ("boxes", "gt_boxes")
    if kinds & {"segm", "boundary"}:
        yield from ("masks", "gt_masks", "size")
    if "keypoints" in kinds:
        yield from ("keypoints", "gt_keypoints")


def check_boxes(data: DataConfig, metrics: Mapping[str, Metric[Any]]) -> None:
    """Raises InputError for a metric that would take the boxes of COCO files, left, top, width, height, for others."""
    for name, metric in metrics.items() if data.format == "coco" else ():
        found = getattr(metric, "box_format", "xywh")
        if found in ("xyxy", "cxcywh") and "boxes" in _coco_fields([metric]):
            raise InputError(f"metrics.{name}.box_format must be xywh, as boxes of COCO files are, but is {found}")


# ----------------------------------------------------------------------------------------------------- classification


def _classification(task: Task, chunk: Chunk) -> Iterator[Arguments]:
    preds = _numbers(task, chunk, "preds")
    if preds.dtype.kind in "iub" and (preds.ndim == 2 or _may_be_scores(task, chunk, preds)):
        preds = preds.astype(np.float64)
    arguments = [preds, _numbers(task, chunk, "target")]
    _check_decided(task, chunk, *arguments)
    if "weight" in task.fields:
        arguments.append(_numbers(task, chunk, "weight"))
    yield tuple(task.tensor(values) for values in arguments)


def _whole_numbers(target: NDArray[Any]) -> NDArray[Any]:
    """Classes as integers where all are whole: pandas writes 1.0 in a column with an empty cell."""
    wide = target.astype(np.float64) if target.dtype.kind == "f" else target  # float16 has no 2^53
    if wide.dtype.kind == "f" and bool((np.isfinite(wide) & (wide % 1 == 0) & (abs(wide) < 2**53)).all()):
        return wide.astype(np.int64)
    return target


class UndecidedError(InputError):
    """Scores that a metric would take for probabilities in one update and for logits in another."""


def _undecided(metrics: Mapping[str, Metric[Any]]) -> Iterator[tuple[str, int | None]]:
    """Metrics that keep no scores decide about each ``update`` alone; those that keep them, in the end, about all."""
    for name, metric in metrics.items():
        about = json.loads(metric._identity.text)
        if about["config"].get("activation") == "auto" and "scores" not in about["fields"]:
            yield name, about["config"]["ignore_index"]


def _check_decided(task: Task, chunk: Chunk, preds: NDArray[Any], target: NDArray[Any]) -> None:
    """Raises for a score outside [0, 1], by which the number would depend on the sizes of shards and batches."""
    for name, ignored in task.undecided if preds.dtype.kind == "f" else ():
        outside = (preds < 0) | (preds > 1)
        if ignored is not None:
            counts = target != ignored
            outside &= counts if counts.ndim == preds.ndim else counts[:, None]
        if outside.any():
            row = int(outside.reshape(len(preds), -1).any(1).argmax())
            raise UndecidedError(
                f"{chunk.places[row]}: scores must be in [0, 1] where metrics.{name}.activation is auto, which decides"
                f" for each update alone, but there is {preds[outside][0]}: set it, for logits to sigmoid or softmax"
            )


def _may_be_scores(task: Task, chunk: Chunk, preds: NDArray[Any]) -> bool:
    """Whether these are scores of two classes that happen to be whole in this chunk; columns with a dtype tell."""
    is_typed = isinstance(chunk.columns[str(task.fields["preds"])], np.ndarray)
    return task.is_binary and not is_typed and bool(((preds == 0) | (preds == 1)).all())


def _numbers(task: Task, chunk: Chunk, name: str) -> NDArray[Any]:
    """``[N]`` or ``[N, C]`` of numbers; names of classes as their indices."""
    columns = task.fields[name]
    labels = () if name == "weight" or not isinstance(columns, str) else task.data.labels or ()
    index = {label: place for place, label in enumerate(labels)}
    are_classes = name == "target"
    if isinstance(columns, str):
        return _column(chunk, columns, index, are_classes)
    parts = [_column(chunk, column, index, are_classes) for column in columns]
    if any(part.ndim != 1 for part in parts):
        raise InputError(f"data.fields.{name} must be one column of lists or several of numbers but is both")
    return np.stack(parts, axis=1)


def _column(chunk: Chunk, column: str, index: Mapping[str, int], are_classes: bool) -> NDArray[Any]:
    values = chunk.columns[column]
    if isinstance(values, np.ndarray) and values.dtype.kind in "iufb":
        values = _whole_numbers(values) if are_classes else values
        if not index or values.dtype.kind == "f":
            return values
        values = values.tolist()  # whole numbers may be names of classes, as in the other formats
    if are_classes:
        values = [int(value) if isinstance(value, float) and value.is_integer() else value for value in values]
    numbers = [_number(f"{place}, column {column!r}", value, index) for place, value in zip(chunk.places, values)]
    sizes = {np.shape(number) for number in numbers}
    if len(sizes) > 1:
        raise InputError(f"{chunk.places[0]} and the rows after it, column {column!r}, must hold lists of one length")
    array = np.array(numbers)
    if array.dtype.kind not in "iufb":  # integers beyond 64 bits
        raise InputError(f"{chunk.places[0]} and the rows after it, column {column!r}, must hold numbers of 64 bits")
    return _whole_numbers(array) if are_classes else array


def _number(place: str, value: Any, index: Mapping[str, int], in_list: bool = False) -> Any:
    """A number, or a list of them; names of classes and texts of numbers as what they stand for.

    In a list, a number is a score or a mark even where a class has its name.
    """
    if isinstance(value, (np.ndarray, np.generic)):
        return value
    if isinstance(value, list):
        return [_number(place, item, index, in_list=True) for item in value]
    if not (in_list and isinstance(value, (bool, int, float))):
        for name in (str(value), whole_text(str(value))):
            if name in index:
                return index[name]
    if isinstance(value, str) and not index and "_" not in value:  # Python's own, as in 1_000
        try:
            return int(value) if value.lstrip("+-").isdecimal() else float(value)
        except ValueError:
            pass
    if isinstance(value, (bool, int, float)):
        return value
    need = f"a number or one of {', '.join(list(index)[:8])}" if index else "a number"
    raise InputError(f"{place} must hold {need} but got {value!r}"[:300])


# --------------------------------------------------------------------------------------------------------------- text


def _text(task: Task, chunk: Chunk) -> Iterator[Arguments]:
    preds, target = (str(task.fields[name]) for name in ("preds", "target"))
    columns = []
    for column in (preds, target):
        values = [value.tolist() if isinstance(value, np.ndarray) else value for value in chunk.columns[column]]
        for place, value in zip(chunk.places, values):
            listed = value if isinstance(value, list) and column == target else [value]
            if not listed or not all(isinstance(text, str) for text in listed):
                raise InputError(f"{place}, column {column!r} must hold text but got {value!r}"[:300])
        columns.append(values)
    yield tuple(columns)


# ------------------------------------------------------------------------------------------------------- segmentation


def _segmentation(task: Task, chunk: Chunk) -> Iterator[Arguments]:
    """An ``update`` for each image, whose sizes may differ."""
    preds, target = (str(task.fields[name]) for name in ("preds", "target"))
    for pred, truth in zip(chunk.columns[preds], chunk.columns[target]):
        yield task.tensor(pred)[None], task.tensor(truth)[None]


# ---------------------------------------------------------------------------------------------------------- detection

_SHAPES = {"boxes": (-1, 4), "keypoints": (0, -1, 3)}
_FLOATS = ("boxes", "scores", "area", "keypoints")


def _detection(task: Task, chunk: Chunk) -> Iterator[Arguments]:
    preds: list[dict[str, Any]] = [{} for _ in chunk.places]
    target: list[dict[str, Any]] = [{} for _ in chunk.places]
    for name, column in task.fields.items():
        side = target if name.startswith("gt_") or name in ("iscrowd", "area", "image_id", "size") else preds
        key = name.removeprefix("gt_")
        for row, (place, value) in enumerate(zip(chunk.places, chunk.columns[str(column)])):
            found = _detection_value(task, f"{place}, {column!r}", key, value)
            side[row][key] = found
            if key == "size":
                preds[row][key] = found
    yield preds, target


def _detection_value(task: Task, place: str, key: str, value: Any) -> Any:
    if value is None:
        raise InputError(f"{place} must hold a value but is null")
    if key in ("masks", "size") and not (isinstance(value, np.ndarray) and value.ndim == 3):
        return value if isinstance(value, list) else np.asarray(value).tolist()
    if key == "image_id":
        return _image_id(place, value)
    try:
        array = np.asarray(value)
        if not array.size and key in _SHAPES:  # an empty list says nothing of its width
            width = array.shape[-1] if array.ndim > 1 and array.shape[-1] else _SHAPES[key][-1]
            array = np.zeros((0, *_SHAPES[key][1:-1], width) if key == "boxes" else (0, 0, 3), np.float64)
        elif not array.size:
            array = array.reshape(-1).astype(np.float64 if key in _FLOATS else np.int64)
    except ValueError as error:
        raise InputError(f"{place} must hold lists of one length but: {error}") from None
    if array.dtype.kind not in "iufb":
        raise InputError(f"{place} must hold numbers but got {value!r}"[:300])
    if key in _FLOATS and array.dtype.kind in "iub":
        array = array.astype(np.float64)
    return task.tensor(array)


def _image_id(place: str, value: Any) -> int:
    number = value.item() if isinstance(value, (np.ndarray, np.generic)) and np.size(value) == 1 else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise InputError(f"{place} must hold a whole number but got {value!r}"[:300])
    return number


_UPDATES: Mapping[str, Callable[[Task, Chunk], Iterator[Arguments]]] = {
    "classification": _classification,
    "text": _text,
    "segmentation": _segmentation,
    "detection": _detection,
}
