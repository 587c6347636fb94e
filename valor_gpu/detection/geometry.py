"""What is special to a kind of boxes: how they are read, matched, kept for an extended summary, and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.inputs.boxes import detection_batch
from valor_gpu.inputs.rotated_boxes import rotated_batch
from valor_gpu.ops._rotated_cpu import CHECKED_CORNERS, CORNERS, DEGREES, ROTATED_FORMATS
from valor_gpu.ops.assign import assign
from valor_gpu.ops.boxes import box_iou, to_xywh
from valor_gpu.ops.match_batch import MatchBatch, Matched, MatchRule
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.ops.rotated import checked_format, in_degrees, pairwise_iou, rotated_pairs


class Geometry(Protocol):
    """A kind of boxes.

    Attributes:
        width: numbers per box that an extended summary keeps.
    """

    @property
    def width(self) -> int:
        """Numbers per box that an extended summary keeps."""

    def read(self, preds: Any, target: Any) -> MatchBatch:
        """The batch of what a user gives to ``update``."""

    def match(self, batch: MatchBatch, rule: MatchRule, error: Tensor | None) -> Matched:
        """The records of a batch; on a GPU the error code ``error``, if given, is lowered to the first error."""

    def kept(self, boxes: Sequence[Tensor], code: int) -> Tensor:
        """float64 ``[N, width]`` of the boxes of all images, whose format has ``code``."""

    def iou(self, boxes: Tensor, gt_boxes: Tensor, crowd: Tensor) -> Tensor:
        """float64 ``[D, G]`` of boxes as kept."""


@dataclass(frozen=True)
class UprightBoxes:
    """Boxes whose edges are parallel to the axes, in ``box_format``."""

    box_format: str
    width: int = 4

    def read(self, preds: Any, target: Any) -> MatchBatch:
        """See :class:`Geometry`; likewise below."""
        return detection_batch(preds, target, self.box_format)

    def match(self, batch: MatchBatch, rule: MatchRule, error: Tensor | None) -> Matched:  # noqa: D102
        return assign(batch, rule, error)

    def kept(self, boxes: Sequence[Tensor], code: int) -> Tensor:  # noqa: D102
        return to_xywh(torch.cat([t.reshape(-1, 4) for t in boxes]), code)

    def iou(self, boxes: Tensor, gt_boxes: Tensor, crowd: Tensor) -> Tensor:  # noqa: D102
        return box_iou(boxes, gt_boxes, box_format="xywh", crowd=crowd)


@dataclass(frozen=True)
class RotatedBoxes:
    """Rotated boxes or convex quadrilaterals, of the quad format ``code``; kept in degrees, or as corners."""

    code: int

    @property
    def width(self) -> int:
        """See :class:`Geometry`; likewise below."""
        return 8 if self.code == CORNERS else 5

    def read(self, preds: Any, target: Any) -> MatchBatch:  # noqa: D102
        return rotated_batch(preds, target, self.code)

    def match(self, batch: MatchBatch, rule: MatchRule, error: Tensor | None) -> Matched:  # noqa: D102
        stored, found = rotated_pairs(batch, rule)
        matched = assign(stored, rule, found if found.is_cuda else None)
        return matched if error is None else matched._replace(error=error.copy_(torch.minimum(error, found)))

    def kept(self, boxes: Sequence[Tensor], code: int) -> Tensor:  # noqa: D102
        return in_degrees(torch.cat([t.reshape(-1, self.width) for t in boxes]).double(), code)

    def iou(self, boxes: Tensor, gt_boxes: Tensor, crowd: Tensor) -> Tensor:  # noqa: D102
        return pairwise_iou(boxes, gt_boxes, crowd, CHECKED_CORNERS if self.code == CORNERS else DEGREES)


def choose_geometry(iou_type: tuple[str, ...], box_format: str, angle_unit: str, angle_direction: str) -> Geometry:
    """The kind of boxes that the arguments of a metric name; raises :class:`InputError` where they name none."""
    if iou_type not in (("bbox",), ("rotated",)):
        given = iou_type[0] if len(iou_type) == 1 else list(iou_type)
        raise InputError(f"iou_type must be one of 'bbox', 'rotated' but got {given!r}")
    rotated = iou_type == ("rotated",)
    formats = {"bbox": BOX_FORMATS, "rotated": ROTATED_FORMATS}
    for kind, others in formats.items():
        if kind != iou_type[0] and box_format in others:
            names = ", ".join(map(repr, formats[iou_type[0]]))
            raise InputError(f"box_format must be one of {names} but got {box_format!r}: that needs iou_type={kind!r}")
    if rotated:
        code = checked_format(box_format, angle_unit, angle_direction)
    else:
        check_choice("box_format", box_format, BOX_FORMATS)
    usual = {"angle_unit": (angle_unit, "degrees"), "angle_direction": (angle_direction, "counterclockwise")}
    for name, (value, default) in usual.items():
        if value != default and not rotated:
            raise InputError(f"{name} must be {default!r} but got {value!r}: only iou_type='rotated' with"
                             f" box_format='cxcywha' has angles")  # fmt: skip
    return RotatedBoxes(code) if rotated else UprightBoxes(box_format)
