"""Boxes and masks that a metric keeps beside its records, for the COCO files of :mod:`valor_gpu.detection.coco_files`.

They hang on the images table of their batch, so that they go wherever that table goes: into copies, pickles, merged
metrics and other members of a ``MetricCollection``. Why they are no state: docs/design/044-kept-inputs.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics.utilities import rank_zero_warn

from valor_gpu import native
from valor_gpu.detection.geometry import device_tables
from valor_gpu.inputs.usual_boxes import plain_boxes
from valor_gpu.ops._launch import capturing
from valor_gpu.ops.assign.cuda import PlainTables, PlainWords
from valor_gpu.ops.assign.match_batch import MatchBatch, MatchRule
from valor_gpu.ops.assign.op import PlainBoxes, assign_plain
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.runs.cpu import encode_strings
from valor_gpu.ops.runs.op import Runs

_ATTRIBUTE = "_valor_gpu_inputs"
_FLOATS, _INTEGERS = ({code: dtype for dtype, code in codes.items()} for codes in (FLOAT_TYPES, INT_TYPES))
MASK_TYPES = ("segm", "boundary")
KEPT_TYPES = ("bbox", *MASK_TYPES)
"""Kinds of IoU whose inputs COCO files can hold."""


class KeptMasks(NamedTuple):
    """Masks as COCO's compressed strings, a quarter of the bytes of their run lengths.

    Attributes:
        text: uint8 ``[B]``, all strings.
        offsets: int64 ``[N + 1]``: that of mask i is ``text[offsets[i]:offsets[i + 1]]``.
        sizes: int32 ``[N, 2]``, heights and widths.
    """

    text: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int32]

    @classmethod
    def of(cls, runs: Runs) -> KeptMasks:
        """Encodes run lengths."""
        return cls(*encode_strings(runs), runs.sizes)


class KeptInputs(NamedTuple):
    """Holds inputs of a batch beside its records; None for inputs that the metric does not compare or nobody gave.

    Attributes:
        boxes: floating ``[D, 4]`` as given.
        gt_boxes: ``[G, 4]``, likewise.
        box_format: code of the format of both.
        crowd: integer ``[G]``.
        areas: floating ``[G]``.
        masks: of detections.
        gt_masks: of ground truths.
    """

    boxes: Tensor | None
    gt_boxes: Tensor | None
    box_format: int
    crowd: Tensor | None
    areas: Tensor | None
    masks: KeptMasks | None = None
    gt_masks: KeptMasks | None = None

    def moved(self, device: torch.device) -> KeptInputs:
        """The same with tensors on ``device``."""
        parts = (self.boxes, self.gt_boxes, self.crowd, self.areas)
        boxes, gt_boxes, crowd, areas = (None if part is None else part.to(device) for part in parts)
        return self._replace(boxes=boxes, gt_boxes=gt_boxes, crowd=crowd, areas=areas)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        masks = [part for side in (self.masks, self.gt_masks) for part in side or ()]
        return sum(part.nbytes for part in (*self[:5], *masks) if not isinstance(part, (int, type(None))))


class PackedInputs(NamedTuple):
    """Holds inputs of the short way on CUDA in one piece of memory, as its kernel copied them.

    Attributes:
        memory: uint8, boxes, flags and areas as they were given.
        fields: of :class:`PlainWords`, without the words: where they lie, and their sizes and dtypes.
        box_format: code of the format of boxes.
    """

    memory: Tensor
    fields: tuple[int, ...]
    box_format: int

    def unpacked(self) -> KeptInputs:
        """Returns the inputs as views of the memory."""
        head = PlainWords(b"", *self.fields)
        rows = head.ground_truths
        boxes = self._view(head.keep_boxes, 4 * head.detections, _FLOATS[head.boxes_type])
        gt_boxes = self._view(head.keep_gt_boxes, 4 * rows, _FLOATS[head.gt_boxes_type])
        crowd = self._view(head.keep_flags, rows, _INTEGERS[head.gt_flags_type])
        areas = self._view(head.keep_areas, rows, _FLOATS[head.gt_areas_type])
        return KeptInputs(_rows_of_four(boxes), _rows_of_four(gt_boxes), self.box_format, crowd, areas)

    def _view(self, begin: int, size: int, dtype: torch.dtype) -> Tensor | None:
        return None if begin < 0 else self.memory[begin : begin + size * dtype.itemsize].view(dtype)

    def moved(self, device: torch.device) -> PackedInputs:
        """Returns the same with memory on ``device``."""
        return self._replace(memory=self.memory.to(device))

    @property
    def nbytes(self) -> int:
        """Returns the bytes of the memory."""
        return self.memory.nbytes


def _rows_of_four(numbers: Tensor | None) -> Tensor | None:
    return None if numbers is None else numbers.reshape(-1, 4)


class KeepsInputs:
    """Part of ``MeanAveragePrecision`` that keeps inputs, and warns of more detections than count."""

    iou_type: tuple[str, ...]
    keep_inputs: bool | None
    extended_summary: bool
    max_detection_thresholds: list[int]
    _rule: MatchRule
    warn_on_many_detections: bool = True
    """Warn when an image has more detections than the largest of ``max_detection_thresholds``; may be set to False."""

    def _kept_inputs(self) -> list[KeptInputs | None]:
        """Returns the inputs of every batch on this process; None where they are not kept."""
        return [kept.unpacked() if isinstance(kept, PackedInputs) else kept for kept in self._kept()]

    def _kept(self) -> list[KeptInputs | PackedInputs | None]:
        metric: Any = self
        return [getattr(table, _ATTRIBUTE, None) for table in metric.images]

    def _warn_of_many(self, sizes: Iterable[int]) -> None:
        limit = self.max_detection_thresholds[-1]
        if max(sizes, default=0) > limit:
            rank_zero_warn(
                f"Encountered more than {limit} detections in a single image: of each class, those with the largest"
                f" scores count, at most {limit}, and the others are ignored. Raise max_detection_thresholds to count"
                " them, or set warn_on_many_detections = False on the metric to hide this warning.",
                UserWarning,
            )

    def _plain_tables(self, preds: Any, target: Any, box_format: int) -> tuple[Tensor, Tensor, Tensor] | None:
        """The row tables of upright boxes in plain tensors on the CPU; None where ``read_all`` must look at them."""
        boxes = plain_boxes(preds, target)
        tables = None if boxes is None else assign_plain(boxes, self._rule, box_format)
        if boxes is None or tables is None:
            return None
        if self.warn_on_many_detections:
            self._warn_of_many(boxes.lengths[: len(boxes.lengths) // 2])
        if self.keep_inputs is not False:
            _keep_plain(tables[2], boxes, box_format, joined=type(preds) is list and len(preds) > 1)
        return tables

    def _device_tables(self, preds: Any, target: Any, box_format: int, error: Tensor) -> PlainTables | None:
        """Returns what :meth:`_plain_tables` does for tensors on CUDA, and the new error; does not synchronise."""
        found = device_tables(preds, target, self._rule, box_format, error, self.keep_inputs is not False)
        if found is None:
            return None
        boxes, tables = found
        if self.warn_on_many_detections:
            self._warn_of_many((boxes.most,))
        if tables.kept is not None:
            setattr(tables.images, _ATTRIBUTE, PackedInputs(tables.kept, boxes[1:], box_format))
        return tables

    def _note_batch(self, batch: MatchBatch, shapes: Sequence[Any]) -> Callable[[Tensor], None]:
        """Looks at a checked batch before it is matched; what it gives keeps the inputs with a table of images."""
        if self.warn_on_many_detections and batch.counts is None:
            self._warn_of_many(batch.lengths[0].tolist())
        if self.keep_inputs is False or not set(self.iou_type) <= set(KEPT_TYPES) or capturing():
            return _keep_nothing  # a replay of a CUDA graph brings other inputs
        if self.iou_type == ("bbox",):
            return _keep_nothing if self.extended_summary else functools.partial(_keep_batch, batch, None)
        masks = next(own for own in shapes if isinstance(own, tuple))
        on_host = batch.labels[0].device.type == "cpu"
        if not (self.keep_inputs or on_host) or not native.available("valor_cpu"):
            return _keep_nothing
        texts = [KeptMasks.of(side.runs) for side in masks]
        return functools.partial(_keep_batch, batch, texts)

    def _load(self, base: Mapping[str, Any], states: Mapping[str, Any], updates: int) -> None:
        given = states.get("images")
        super()._load(base, states, updates)  # type: ignore[misc]
        metric: Any = self
        if isinstance(given, list):
            _carry(given, metric.images[len(base["images"]) :])

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Any = "") -> Any:
        metric: Any = self
        before = list(metric.images)
        found = super()._apply(fn, exclude_state)  # type: ignore[misc]
        _carry(before, metric.images)
        return found

    def _move_list_states_to_cpu(self) -> None:
        metric: Any = self
        before = list(metric.images)
        super()._move_list_states_to_cpu()  # type: ignore[misc]
        _carry(before, metric.images)

    def _bytes_beside(self) -> int:
        return sum(kept.nbytes for kept in self._kept() if kept is not None)


def _carry(before: Sequence[Tensor], after: Sequence[Tensor]) -> None:
    """Lets tables have what those that they were made from had."""
    for old, new in zip(before, after):
        if old is not new and (kept := getattr(old, _ATTRIBUTE, None)) is not None:
            setattr(new, _ATTRIBUTE, kept.moved(new.device))


def _keep_plain(images: Tensor, boxes: PlainBoxes, box_format: int, joined: bool) -> None:
    """Keeps boxes of the short way on the CPU.

    Args:
        images: the table of the batch.
        boxes: the columns.
        box_format: code of their format.
        joined: the columns were made by joining those of images, so that nobody else writes into them.
    """
    given = [boxes.columns[place] for place in (0, 3, 5, 6)]
    owned = [part if part is None or joined else part.clone() for part in given]
    if boxes.rooms != (0, 0):
        owned = [_without_room(part, boxes, side) for part, side in zip(owned, (0, 1, 1, 1))]
    if any(part is not None and part.requires_grad for part in owned):
        owned = [part if part is None else part.detach() for part in owned]
    setattr(images, _ATTRIBUTE, KeptInputs(owned[0], owned[1], box_format, owned[2], owned[3]))


def _without_room(column: Tensor | None, boxes: PlainBoxes, side: int) -> Tensor | None:
    """The rows ``[N, ...]`` of padded images that count."""
    if column is None:
        return None
    number, room = len(boxes.lengths) // 2, boxes.rooms[side]
    lengths = np.array(boxes.lengths[side * number : (side + 1) * number])
    return column.flatten(0, 1)[torch.from_numpy((np.arange(room) < lengths[:, None]).reshape(-1))]


def _keep_nothing(images: Tensor) -> None:
    pass


def _keep_batch(batch: MatchBatch, texts: Sequence[KeptMasks] | None, images: Tensor) -> None:
    """Keeps copies of the boxes of a checked batch, and masks.

    Args:
        batch: with or without boxes.
        texts: masks of both sides, where the metric compares masks.
        images: its table.
    """
    batch = batch.without_gaps(torch.from_numpy)
    boxes, gt_boxes = (_joined(column, 4) for column in (batch.boxes, batch.gt_boxes))
    crowd, areas = (_joined(column, 0) for column in (batch.gt_flags, batch.gt_areas))
    masks, gt_masks = texts or (None, None)
    setattr(images, _ATTRIBUTE, KeptInputs(boxes, gt_boxes, batch.box_format, crowd, areas, masks, gt_masks))


def _joined(column: Sequence[Tensor], width: int) -> Tensor | None:
    """A copy of the rows of all images, ``[N, width]`` or, of width 0, ``[N]``; None without a column."""
    parts = [part.detach().reshape((-1, width) if width else -1) for part in column]
    return torch.cat(parts) if parts else None
