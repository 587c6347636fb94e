"""What is special to a kind of boxes: how they are read, matched, kept for an extended summary, and compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.detection.masks import BoundaryRows, MaskRows, assign_stored, with_mask_areas
from valor_gpu.detection.polygons import PolygonShapes
from valor_gpu.errors import InputError
from valor_gpu.inputs.boxes import detection_batch
from valor_gpu.inputs.device_boxes import device_boxes
from valor_gpu.inputs.keypoints import area_error, keypoint_batch
from valor_gpu.inputs.rotated_boxes import rotated_batch
from valor_gpu.ops._launch import capturing, on_host
from valor_gpu.ops._library import disabled
from valor_gpu.ops.assign import cuda as _assign_cuda
from valor_gpu.ops.assign.cuda import PlainTables, PlainWords
from valor_gpu.ops.assign.match_batch import MatchBatch, Matched, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.box_pairs.op import box_pairs
from valor_gpu.ops.boxes.op import box_iou, to_xywh
from valor_gpu.ops.error_codes import describe_box, raise_or_defer
from valor_gpu.ops.keypoints.cpu import COCO_SIGMAS, Keypoints, check_sigmas
from valor_gpu.ops.keypoints.op import keypoint_pairs, keypoint_similarity
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.ops.rotated.cpu import CHECKED_CORNERS, CORNERS, DEGREES, ROTATED_FORMATS
from valor_gpu.ops.rotated.op import checked_format, in_degrees, pairwise_iou, rotated_pairs

IOU_TYPES = ("bbox", "segm", "boundary", "rotated", "polygon", "keypoints")
TOGETHER = ("bbox", "segm", "boundary")
"""Those that one metric computes together."""

OVERLAP_TYPES = ("bbox", "segm", "rotated", "polygon")
"""Those whose geometry is :class:`Overlapping`."""

_MASKS = {"segm": MaskRows(), "boundary": BoundaryRows()}


class Geometry(Protocol):
    """What decides how similar a detection and a ground truth are."""

    @property
    def width(self) -> int:
        """Numbers per box that an extended summary keeps; 0 where it keeps similarities instead."""

    def read(self, preds: Any, target: Any) -> tuple[MatchBatch, Any]:
        """The batch of what a user gives to ``update``, and what :meth:`match` needs beside it."""

    def match(self, batch: MatchBatch, shapes: Any, rule: MatchRule, error: Tensor | None) -> Matched:
        """The records of a batch; on a GPU the error code ``error``, if given, is lowered to the first error."""


class Overlapping(Geometry, Protocol):
    """A geometry whose pairs Valor's metrics keep."""

    def pairs(self, batch: MatchBatch, shapes: Any, rule: MatchRule) -> tuple[MatchBatch, Tensor]:
        """The batch with pairs in place of shapes, and an error code; on the CPU an error is raised at once."""


class Boxes(Geometry, Protocol):
    """A geometry whose rows an extended summary keeps."""

    def kept(self, boxes: Sequence[Tensor], code: int) -> Tensor:
        """float64 ``[N, width]`` of the boxes of all images, whose format has ``code``."""

    def iou(self, boxes: Tensor, gt_boxes: Tensor, crowd: Tensor) -> Tensor:
        """float64 ``[D, G]`` of boxes as kept."""


class Shapes(Geometry, Protocol):
    """A geometry whose similarities an extended summary keeps."""

    def ious(self, batch: MatchBatch, shapes: Any) -> list[Tensor]:
        """float64 ``[D_i, G_i]`` of each image."""


@dataclass(frozen=True)
class UprightBoxes:
    """Boxes whose edges are parallel to the axes, in ``box_format``."""

    box_format: str
    width: int = 4

    def read(self, preds: Any, target: Any) -> tuple[MatchBatch, None]:
        """See :class:`Geometry`; likewise below."""
        return detection_batch(preds, target, self.box_format), None

    def match(self, batch: MatchBatch, shapes: None, rule: MatchRule, error: Tensor | None) -> Matched:  # noqa: D102
        return assign(batch, rule, error)

    def pairs(self, batch: MatchBatch, shapes: None, rule: MatchRule) -> tuple[MatchBatch, Tensor]:  # noqa: D102
        return box_pairs(batch, rule)

    def kept(self, boxes: Sequence[Tensor], code: int) -> Tensor:  # noqa: D102
        return to_xywh(torch.cat([t.reshape(-1, 4) for t in boxes]), code)

    def iou(self, boxes: Tensor, gt_boxes: Tensor, crowd: Tensor) -> Tensor:  # noqa: D102
        return box_iou(boxes, gt_boxes, box_format="xywh", crowd=crowd)

    def ious(self, batch: MatchBatch, shapes: None) -> list[Tensor]:  # noqa: D102
        boxes, gt_boxes = (self.kept(b, c) for b, c in (
            (batch.boxes, batch.box_format), (batch.gt_boxes, batch.gt_box_format),
        ))  # fmt: skip
        sides = zip(boxes.split(batch.lengths[0].tolist()), gt_boxes.split(batch.lengths[1].tolist()))
        return [self.iou(*side, crowd) for side, crowd in zip(sides, crowd_flags(batch))]


@dataclass(frozen=True)
class RotatedBoxes:
    """Rotated boxes or convex quadrilaterals, of the quad format ``code``; kept in degrees, or as corners."""

    code: int

    @property
    def width(self) -> int:
        """See :class:`Geometry`; likewise below."""
        return 8 if self.code == CORNERS else 5

    def read(self, preds: Any, target: Any) -> tuple[MatchBatch, None]:  # noqa: D102
        return rotated_batch(preds, target, self.code), None

    def match(self, batch: MatchBatch, shapes: None, rule: MatchRule, error: Tensor | None) -> Matched:  # noqa: D102
        return assign_stored(*self.pairs(batch, shapes, rule), rule, error)

    def pairs(self, batch: MatchBatch, shapes: None, rule: MatchRule) -> tuple[MatchBatch, Tensor]:  # noqa: D102
        return rotated_pairs(batch, rule)

    def kept(self, boxes: Sequence[Tensor], code: int) -> Tensor:  # noqa: D102
        return in_degrees(torch.cat([t.reshape(-1, self.width) for t in boxes]).double(), code)

    def iou(self, boxes: Tensor, gt_boxes: Tensor, crowd: Tensor) -> Tensor:  # noqa: D102
        return pairwise_iou(boxes, gt_boxes, crowd, CHECKED_CORNERS if self.code == CORNERS else DEGREES)


@dataclass(frozen=True)
class KeypointRows:
    """Keypoints of persons or other objects, compared by object keypoint similarity."""

    sigmas: tuple[float, ...]
    box_format: str
    width: int = 0

    def read(self, preds: Any, target: Any) -> tuple[MatchBatch, Keypoints]:
        """See :class:`Geometry`; likewise below."""
        return keypoint_batch(preds, target, self.sigmas, self.box_format)

    def match(self, batch: MatchBatch, shapes: Keypoints, rule: MatchRule, error: Tensor | None) -> Matched:  # noqa: D102
        found, code = keypoint_pairs(batch, shapes, rule)
        if batch.areas:
            found = replace(found, areas=batch.areas)
            code = torch.minimum(code, area_error(batch))
            raise_or_defer(code, describe_box)
        return assign_stored(found, code, rule, error)

    def ious(self, batch: MatchBatch, shapes: Keypoints) -> list[Tensor]:  # noqa: D102
        sizes, gt_sizes = batch.lengths.tolist()
        gts = (shapes.gt_points, shapes.gt_areas, shapes.gt_boxes)
        parts = [[None] * len(sizes) if t is None else t.split(gt_sizes) for t in gts]
        return [
            keypoint_similarity(points, gt_points, areas, sigmas=self.sigmas, gt_boxes=boxes)
            for points, gt_points, areas, boxes in zip(shapes.points.split(sizes), *parts)
        ]


def crowd_flags(batch: MatchBatch) -> list[Tensor]:
    """Bool ``[G_i]`` of each image: which ground truths are crowds."""
    sizes = batch.lengths[1].tolist()
    if not batch.gt_flags:
        device = batch.labels[0].device if batch.labels else torch.device("cpu")
        return [torch.zeros(size, dtype=torch.bool, device=device) for size in sizes]
    return list(torch.cat([t.reshape(-1) for t in batch.gt_flags]).bool().split(sizes))


@dataclass(frozen=True)
class GeometryChoices:
    """The arguments of a metric that name its geometries.

    Attributes:
        iou_type: one or more of ``bbox``, ``segm`` and ``boundary``, or one of ``rotated``, ``polygon`` and
            ``keypoints``.
        box_format: a format of boxes.
        angle_unit: of rotated boxes.
        angle_direction: of rotated boxes.
        sigmas: of keypoints.
    """

    iou_type: tuple[str, ...]
    box_format: str
    angle_unit: str
    angle_direction: str
    sigmas: Sequence[float] | None


def choose_geometries(choices: GeometryChoices) -> dict[str, Geometry]:
    """The geometries that the arguments of a metric name; raises :class:`InputError` where they name none."""
    names = choices.iou_type
    for name in names:
        check_choice("iou_type", name, IOU_TYPES)
    if not names or len(set(names)) < len(names) or (len(names) > 1 and not set(names) <= set(TOGETHER)):
        raise InputError(f"iou_type must be one name, or different ones of {TOGETHER}, but got {list(names)}")
    return {name: _geometry(name, choices) for name in names}


def read_all(geometries: Mapping[str, Geometry], preds: Any, target: Any) -> tuple[MatchBatch, list[Any]]:
    """The batch of what a user gives to ``update``, and what each geometry needs beside it; masks are read once."""
    first = geometries.get("bbox") or next(iter(geometries.values()))
    batch, own = first.read(preds, target)
    masks = own if isinstance(first, MaskRows) else None
    shapes = []
    for kind in geometries.values():
        if isinstance(kind, MaskRows) and masks is None:
            batch = batch.without_gaps(torch.from_numpy)
            masks = kind.beside(preds, target, batch)
        shapes.append(masks if isinstance(kind, MaskRows) else own)
    return batch, shapes


def match_all(
    geometries: Mapping[str, Geometry],
    batch: MatchBatch,
    shapes: Sequence[Any],
    rule: MatchRule,
    error: Tensor | None,
    stored: Mapping[str, tuple[MatchBatch, Tensor]] | None = None,
) -> list[Matched]:
    """The records of each geometry; with masks, areas of ground truths are those of masks for boxes too.

    Args:
        geometries: by name.
        batch: what they have in common.
        shapes: what each needs beside it.
        rule: the choices of the run.
        error: on a GPU, the code that is lowered to the first error.
        stored: pairs by ``rule`` that are already found, and their error codes, by the name of their geometry.
    """
    found: dict[str, Matched] = {}
    stored = stored or {}
    for (name, kind), own in zip(geometries.items(), shapes):
        if name in stored or isinstance(kind, MaskRows):
            pairs, problem = stored.get(name) or cast(MaskRows, kind).pairs(batch, own, rule, error)
            found[name] = assign_stored(pairs, problem, rule, error)
            if "bbox" in geometries:
                areas = torch.cat([t.reshape(-1) for t in pairs.gt_own_areas])
    for (name, kind), own in zip(geometries.items(), shapes):
        if name not in found:
            given = with_mask_areas(batch, areas) if found else batch
            found[name] = kind.match(given, own, rule, error)
    return [found[name] for name in geometries]


def plain_code(geometries: Mapping[str, Geometry]) -> int | None:
    """The code of the box format if upright boxes are all that there is."""
    first = geometries.get("bbox")
    return BOX_FORMATS.index(first.box_format) if isinstance(first, UprightBoxes) and len(geometries) == 1 else None


def device_tables(
    preds: Any, target: Any, rule: MatchRule, code: int, error: Tensor, keep: bool = False
) -> tuple[PlainWords, PlainTables] | None:
    """Returns plain upright boxes on the CUDA device of ``error``, int64 ``[]``, and their row tables.

    None where :func:`read_all` must look at them. With ``keep`` there is a copy of what a metric keeps.
    """
    if capturing() or disabled("assign") or not on_host("valor_cuda"):
        return None
    boxes = device_boxes(preds, target, error.get_device())
    tables = None if boxes is None else _assign_cuda.assign_plain(boxes, rule, code, error, keep)
    return None if boxes is None or tables is None else (boxes, tables)


def _geometry(name: str, choices: GeometryChoices) -> Geometry:
    code = _box_code(name, choices)
    if choices.sigmas is not None and name != "keypoints":
        raise InputError(f"sigmas must be None but got {choices.sigmas!r}: only iou_type='keypoints' has keypoints")
    if name == "keypoints":
        given = COCO_SIGMAS if choices.sigmas is None else choices.sigmas
        return KeypointRows(check_sigmas(given), choices.box_format)
    if name == "polygon":
        return PolygonShapes()
    if name in _MASKS:
        return _MASKS[name]
    return RotatedBoxes(code) if name == "rotated" else UprightBoxes(choices.box_format)


def _box_code(name: str, choices: GeometryChoices) -> int:
    """The code of rotated boxes, else 0; raises :class:`InputError` for box formats and angles that do not fit."""
    box_format, rotated = choices.box_format, name == "rotated"
    formats = {"bbox": BOX_FORMATS, "rotated": ROTATED_FORMATS}
    for kind, others in formats.items():
        if (kind == "rotated") != rotated and box_format in others:
            allowed = ", ".join(map(repr, formats["rotated" if rotated else "bbox"]))
            raise InputError(
                f"box_format must be one of {allowed} but got {box_format!r}: that needs iou_type={kind!r}"
            )
    if rotated:
        return checked_format(box_format, choices.angle_unit, choices.angle_direction)
    check_choice("box_format", box_format, BOX_FORMATS)
    for key, usual in (("angle_unit", "degrees"), ("angle_direction", "counterclockwise")):
        if (value := getattr(choices, key)) != usual:
            raise InputError(f"{key} must be {usual!r} but got {value!r}: only iou_type='rotated' with"
                             f" box_format='cxcywha' has angles")  # fmt: skip
    return 0
