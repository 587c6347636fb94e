"""Open Images annotations to one batch for matching: classes expanded, detections of unverified classes left out.

Definition: Open Images Challenge, evaluation of the object detection track
(https://storage.googleapis.com/openimages/web/evaluation.html#object_detection_eval).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from valor_gpu.checks import check_dense
from valor_gpu.errors import InputError
from valor_gpu.inputs.boxes import detection_batch
from valor_gpu.inputs.expansion import HierarchyTables, Rows, contains, wide
from valor_gpu.inputs.hierarchy import ClassHierarchy
from valor_gpu.inputs.values import as_values
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops.assign.match_batch import CROWD, GROUP, MatchBatch
from valor_gpu.ops.dtypes import INT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR, describe_box

_BOX, _SCORE, _LABEL, _GT_BOX, _GT_LABEL, _FLAG = 1, 2, 3, 4, 5, 7
_UNKNOWN_LABEL, _UNKNOWN_GT_LABEL, _WIDE_POSITIVE, _WIDE_NEGATIVE = range(24, 28)
_UNKNOWN_POSITIVE, _UNKNOWN_NEGATIVE, _CONTRADICTION = range(28, 31)
_UNKNOWN = "must be a label of class_labels or of the hierarchy"
_MESSAGES = {
    _FLAG: ("target", "is_group_of", "must be 0 or 1"),
    _UNKNOWN_LABEL: ("preds", "labels", _UNKNOWN),
    _UNKNOWN_GT_LABEL: ("target", "labels", _UNKNOWN),
    _WIDE_POSITIVE: ("target", "positive_labels", "must fit in int32"),
    _WIDE_NEGATIVE: ("target", "negative_labels", "must fit in int32"),
    _UNKNOWN_POSITIVE: ("target", "positive_labels", _UNKNOWN),
    _UNKNOWN_NEGATIVE: ("target", "negative_labels", _UNKNOWN),
    _CONTRADICTION: ("target", "negative_labels", "must not be one of the positive_labels of the image as well"),
}
_LABEL_LISTS = ("positive_labels", "negative_labels")

GIVEN = ("ground_truths", "groups", "detections", "unverified_detections")
"""Columns of ``OpenImagesBatch.given``."""


class OpenImagesBatch(NamedTuple):
    """A batch to match, and what it was made of.

    Attributes:
        batch: every ground truth once for its class and once for each ancestor; detections of verified classes.
        given: int64 ``[I, 4]``: ground truths, groups among them, and detections, as the user gave them; detections
            (after expansion, if they are expanded) that were left out since their class is not verified.
        error: int64 ``[]``, code of the first bad row; :func:`describe_error` reads it.
    """

    batch: MatchBatch
    given: Tensor
    error: Tensor


class Expansion(NamedTuple):
    """What a batch is made of.

    Attributes:
        hierarchy: ancestors of classes, and which labels there are.
        detections: whether detections count for the ancestors of their class as well.
        group_weight: 1 or 0, how many ground truths a group counts as.
    """

    hierarchy: ClassHierarchy
    detections: bool
    group_weight: int


def describe_error(code: int) -> str:
    """The message of an error code of :class:`OpenImagesBatch` or of matching.

    Example:
        >>> describe_error((3 << 28 | 5) << 5 | 7)
        "target[3]['is_group_of'][5] must be 0 or 1"
    """
    return describe_box(code, _MESSAGES)


def open_images_batch(preds: Any, target: Any, box_format: str, expansion: Expansion) -> OpenImagesBatch:
    """Reads a batch of Open Images.

    Args:
        preds: as :func:`valor_gpu.inputs.boxes.detection_batch` takes them.
        target: likewise, with ``is_group_of`` (0 or 1) for ``iscrowd`` and without ``area``; a dict of one image may
            also hold ``positive_labels [P]`` and ``negative_labels [N]``, verified labels of the image.
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``, of plain tensors.
        expansion: the hierarchy, and what it is applied to.

    Raises:
        InputError: naming the image and key, what is needed and what came; bad values are in ``error`` instead.
    """
    raw = detection_batch(preds, target, box_format, flag="is_group_of").without_gaps(torch.from_numpy)
    if raw.lengths.shape[1] == 0:
        return OpenImagesBatch(raw, torch.empty((0, len(GIVEN)), dtype=torch.int64), torch.tensor(NO_ERROR))
    device = raw.labels[0].device if raw.labels else torch.device("cpu")
    tables = HierarchyTables.of(expansion.hierarchy, device)
    user = _UserRows.of(raw, device)
    verified = _Verified.of(target, raw.lengths.shape[1], tables, device)
    every_gt = user.ground_truths.expanded(tables)
    every = user.detections.expanded(tables) if expansion.detections else user.detections
    here = verified.rows(every, every_gt, tables)
    kept, counts = every.only(here).compact()
    kept_gt, gt_counts = every_gt.compact()
    flags = torch.where(user.groups != 0, CROWD | GROUP if expansion.group_weight else CROWD, 0).to(torch.uint8)
    batch = MatchBatch(
        torch.stack((kept.lengths, kept_gt.lengths)),
        boxes=[user.boxes[kept.source]], scores=[user.scores[kept.source]], labels=[kept.labels], counts=counts,
        gt_boxes=[user.gt_boxes[kept_gt.source]], gt_labels=[kept_gt.labels], gt_flags=[flags[kept_gt.source]],
        gt_counts=gt_counts, image_ids=raw.image_ids, box_format=raw.box_format, gt_box_format=raw.gt_box_format,
    )  # fmt: skip
    given = torch.stack((*user.counts(), every.count(every.real & ~here)), 1)
    return OpenImagesBatch(batch, given, torch.minimum(user.error(tables), verified.error))


class _UserRows(NamedTuple):
    """The rows of a batch as the user gave them, all images after one another.

    Attributes:
        detections: labels of detections.
        boxes: ``[D, 4]``, likewise ``gt_boxes`` ``[G, 4]``.
        scores: ``[D]``.
        ground_truths: labels of ground truths.
        groups: integer ``[G]``, 1 for a group.
    """

    detections: Rows
    boxes: Tensor
    scores: Tensor
    ground_truths: Rows
    gt_boxes: Tensor
    groups: Tensor

    @classmethod
    def of(cls, raw: MatchBatch, device: torch.device) -> _UserRows:
        ground_truths = Rows.of(raw.gt_labels, raw.lengths[1], raw.gt_counts, device)
        return cls(
            Rows.of(raw.labels, raw.lengths[0], raw.counts, device),
            _joined(raw.boxes, 4),
            _joined(raw.scores),
            ground_truths,
            _joined(raw.gt_boxes, 4),
            _joined(raw.gt_flags) if len(raw.gt_flags) else torch.zeros_like(ground_truths.labels),
        )

    def counts(self) -> tuple[Tensor, Tensor, Tensor]:
        """int64 ``[I]`` each: ground truths, groups, detections."""
        real = self.ground_truths.real
        counted = (self.ground_truths.count(real), self.ground_truths.count(real & (self.groups != 0)))
        return (*counted, self.detections.count(self.detections.real))

    def error(self, tables: HierarchyTables) -> Tensor:
        """int64 ``[]``, code of the first bad row."""
        labels, gt_labels = self.detections.labels, self.ground_truths.labels
        of_detections = self.detections.first_error({
            _BOX: ~self.boxes.isfinite().all(1), _SCORE: self.scores.isnan(), _LABEL: wide(labels),
            _UNKNOWN_LABEL: tables.unknown(labels),
        })  # fmt: skip
        of_ground_truths = self.ground_truths.first_error({
            _GT_BOX: ~self.gt_boxes.isfinite().all(1), _GT_LABEL: wide(gt_labels),
            _FLAG: (self.groups != 0) & (self.groups != 1), _UNKNOWN_GT_LABEL: tables.unknown(gt_labels),
        })  # fmt: skip
        return torch.minimum(of_detections, of_ground_truths)


def _joined(column: Sequence[Tensor], width: int = 0) -> Tensor:
    return torch.cat([part.reshape(-1, width) if width else part.reshape(-1) for part in column])


class _Verified(NamedTuple):
    """The labels of images that somebody verified.

    Attributes:
        everything: bool ``[I]``, images that do not say: all labels count as verified. None if no image says.
        positive: rows of labels of objects that are there.
        negative: rows of labels of objects that are not there.
        error: int64 ``[]``.
    """

    everything: Tensor | None
    positive: Rows
    negative: Rows
    error: Tensor

    @classmethod
    def of(cls, target: Any, images: int, tables: HierarchyTables, device: torch.device) -> _Verified:
        columns = [_label_lists(target, key, images, device) for key in _LABEL_LISTS]
        says = torch.tensor([any(key in item for key in _LABEL_LISTS) for item in _items(target)], dtype=torch.bool)
        positive, negative = (
            Rows.of([part for part in column if part is not None], _lengths(column), None, device) for column in columns
        )
        both = contains(positive.keys(positive.labels).sort().values, negative.keys(negative.labels))
        error = torch.minimum(
            positive.first_error(
                {
                    _WIDE_POSITIVE: wide(positive.labels),
                    _UNKNOWN_POSITIVE: tables.unknown(positive.labels),
                }
            ),
            negative.first_error(
                {
                    _WIDE_NEGATIVE: wide(negative.labels),
                    _UNKNOWN_NEGATIVE: tables.unknown(negative.labels),
                    _CONTRADICTION: both,
                }
            ),
        )
        everything = to_device(~says, device) if bool(says.any()) else None
        return cls(everything, positive, negative, error)

    def rows(self, detections: Rows, ground_truths: Rows, tables: HierarchyTables) -> Tensor:
        """Which detections are of a verified class, bool ``[N]``.

        A class with a ground truth in the image is there, and so is every ancestor of a class that is there. A class is
        not there if one of its ancestors is not.
        """
        if self.everything is None:
            return torch.ones_like(detections.real)
        there = self.positive.expanded(tables)
        keys = [rows.keys(rows.labels).where(rows.real, -1) for rows in (there, ground_truths)]
        missing = self.negative.keys(self.negative.labels).sort().values
        labels, above = tables.with_ancestors(detections.labels)
        return (
            self.everything[detections.image]
            | contains(torch.cat(keys).sort().values, detections.keys(detections.labels))
            | (contains(missing, detections.keys(labels)) & above).any(1)
        )


def _lengths(column: list[Tensor | None]) -> Tensor:
    return torch.tensor([0 if part is None else len(part) for part in column], dtype=torch.int64)


def _items(target: Any) -> Any:
    return () if isinstance(target, Mapping) else target


def _label_lists(target: Any, key: str, images: int, device: torch.device) -> list[Tensor | None]:
    """The tensors of a key of every image, None where an image has none."""
    if isinstance(target, Mapping):
        if any(name in target for name in _LABEL_LISTS):
            raise InputError(f"target must be a list of dicts, one per image, to hold {' or '.join(_LABEL_LISTS)}"
                             " but is a dict of padded tensors")  # fmt: skip
        return [None] * images
    given = [(f"target[{i}][{key!r}]", item.get(key)) for i, item in enumerate(target)]
    column = [None if value is None else as_values(name, value) for name, value in given]
    for (name, _), value in zip(given, column):
        if value is None:
            continue
        check_dense(name, value)
        if value.ndim != 1 or (value.dtype not in INT_TYPES and value.numel()):
            raise InputError(f"{name} must be integer labels of shape [N] but got {value.dtype} {list(value.shape)}")
        if value.device != device:
            raise InputError(f"{name} must be on {device} like preds[0]['boxes'] but is on {value.device}")
    return column
