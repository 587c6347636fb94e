"""Boxes and masks that a metric keeps beside its records, for the COCO files of :mod:`valor_gpu.detection.coco_files`.

They hang on the images table of their batch, so that they go wherever that table goes: into copies, pickles, merged
metrics and other members of a ``MetricCollection``. Why they are no state: docs/design/044-kept-inputs.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics.utilities import rank_zero_warn

from valor_gpu import native
from valor_gpu.detection.geometry import device_tables
from valor_gpu.inputs.box_columns import AREA, FLAG
from valor_gpu.inputs.usual_boxes import plain_boxes
from valor_gpu.ops._launch import capturing
from valor_gpu.ops.assign.match_batch import MatchBatch, MatchRule
from valor_gpu.ops.assign.op import PlainBoxes, assign_plain
from valor_gpu.ops.runs.cpu import encode_strings
from valor_gpu.ops.runs.op import Runs

_ATTRIBUTE = "_valor_gpu_inputs"
_BOXES, _LABELS = itemgetter("boxes"), itemgetter("labels")
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
    """What a batch had beside its records; None for what the metric does not compare or nobody gave.

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
        """Of every batch on this process; None where they are not kept."""
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

    def _device_tables(
        self, preds: Any, target: Any, box_format: int, error: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
        """As :meth:`_plain_tables` for tensors on CUDA, with the new error; does not synchronise."""
        found = device_tables(preds, target, self._rule, box_format, error)
        if found is None:
            return None
        if self.warn_on_many_detections:
            self._warn_of_many(_sizes_of(preds))
        if self.keep_inputs is not False:
            _keep_device(found[2], preds, target, box_format)
        return found

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
        return sum(kept.nbytes for kept in self._kept_inputs() if kept is not None)


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


def _keep_device(images: Tensor, preds: Any, target: Any, box_format: int) -> None:
    """Keeps copies of boxes of the short way on CUDA, which has checked them; does not synchronise.

    Args:
        images: the table of the batch.
        preds: lists of dicts, or padded dicts.
        target: likewise.
        box_format: code of the format.
    """
    items, gt_items = ([side] if isinstance(side, dict) else side for side in (preds, target))
    boxes, gt_boxes = (_joined(list(map(_BOXES, side)), 4) for side in (items, gt_items))
    crowd, areas = (_joined([item[key] for item in gt_items if key in item], 0) for key in (FLAG, AREA))
    setattr(images, _ATTRIBUTE, KeptInputs(boxes, gt_boxes, box_format, crowd, areas))


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


def _sizes_of(preds: Any) -> Iterable[int]:
    """Detections of each image, as far as the host knows them: not of padded ones with counts."""
    if isinstance(preds, dict):
        return () if "counts" in preds else (int(_LABELS(preds).shape[1]),)
    return map(len, map(_LABELS, preds))
