"""From a layout of annotation columns to detection records, on the device that does the matching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.coco.layout import Ids, Layout, Side, lay_out
from valor_gpu.coco.params import Params, half_open
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import BIT, missing_field
from valor_gpu.inputs.coco import Annotations, Dataset
from valor_gpu.ops.curves import RecordShape
from valor_gpu.ops.dtypes import BOX_FORMATS
from valor_gpu.ops.error_codes import describe_box, raise_error
from valor_gpu.ops.matching import (
    CHECK_SCORES,
    CROWD,
    FREE,
    ID_ZERO,
    IGNORED,
    DetectionBatch,
    Matched,
    MatchRule,
    match_boxes,
)

_XYWH = BOX_FORMATS.index("xywh")
_MADE = ("id", "area", "iscrowd")  # loadRes fills these in: a message must not tell of them


@dataclass(frozen=True, eq=False)
class Records:
    """The records of one evaluation: all that accumulation needs.

    Attributes:
        detections: uint8 detection rows, labels being positions in the category ids.
        truths: uint8 ground truth rows, likewise.
        places: int64 ``[I]`` on the CPU: place of each sorted image id in the order of the rows.
        lengths: int64 ``[2, I]`` on the CPU: detections and ground truths of each image, in the order of the rows.
        classes: K.
        shape: T, A and M.
    """

    detections: Tensor
    truths: Tensor
    places: Tensor
    lengths: Tensor
    classes: int
    shape: RecordShape


def usable_device(device: Any) -> torch.device:
    """``device`` (None: CPU), or :class:`InputError` when it cannot be used here."""
    try:
        found = torch.device("cpu" if device is None else device)
    except (RuntimeError, TypeError):
        raise InputError(f"device must be cpu, cuda or cuda:N but got {device!r}") from None
    there = torch.cuda.device_count()
    if found.type == "cuda" and (found.index or 0) >= there:
        text = f"{there or 'no'} CUDA device{'s' * (there > 1)}"
        raise InputError(f"device must be available but got {str(device)!r} and torch {torch.__version__} finds {text}")
    if found.type not in ("cpu", "cuda"):
        raise InputError(f"device must be a CPU or CUDA device but got {str(device)!r}")
    return found


def match_rule(params: Params, strict: bool, options: int = 0) -> MatchRule:
    """The rule that ``params`` stand for; the corrected convention refuses NaN scores and closes ranges once."""
    ranges = params.areaRng if strict else half_open(params.areaRng)
    return MatchRule.make(params.iouThrs, ranges, params.maxDets, options | (0 if strict else CHECK_SCORES))


def layout_of(truths: Dataset, detections: Dataset, params: Params, strict: bool) -> Layout:
    """The rows that ``params`` ask for, checked for what evaluation needs of them.

    Raises:
        InputError: a row lacks a key; or, in the corrected convention, belongs to no image or category of ``truths``.
    """
    if not strict:
        for side in (truths.annotations, detections.annotations):
            _check_known(side, "image_id", truths.image_ids, truths.where)
            _check_known(side, "category_id", truths.category_ids, truths.where)
    images, categories = as_ids("imgIds", params.imgIds), as_ids("catIds", params.catIds)
    layout = lay_out(truths.annotations, detections.annotations, images, categories, bool(params.useCats), strict)
    _check_present(layout.truths, ("bbox", "iscrowd"))
    _check_present(layout.truths, ("area",), layout.truths.take("iscrowd"))
    _check_present(layout.detections, ("bbox", "score", "area"), made=_MADE)
    return layout


def as_ids(name: str, values: Any) -> Ids:
    """int64 ``[N]`` of ids given as any integers."""
    given = np.asarray(values).reshape(-1)
    if not given.size:
        return np.zeros(0, np.int64)
    whole = given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool((given == np.round(given)).all()))
    if not whole:
        raise InputError(f"params.{name} must be integers but got {given[:3].tolist()}")
    return given.astype(np.int64)


def _check_known(columns: Annotations, name: str, known: Ids, where: str) -> None:
    unknown = ~np.isin(getattr(columns, name), known)
    if unknown.any():
        row = int(unknown.argmax())
        value = int(getattr(columns, name)[row])
        raise InputError(f"{columns.place(row)}.{name} must be an id that {where} lists but got {value}")


def _check_present(
    side: Side, names: Sequence[str], excused: NDArray[np.bool_] | None = None, made: Sequence[str] = ()
) -> None:
    """Raise for the first row of ``side`` that lacks one of ``names`` and is not ``excused``; see ``_MADE``."""
    present = side.columns.present
    bits = np.uint16(sum(int(BIT[name]) for name in names))
    if not len(present) or np.bitwise_and.reduce(present) & bits == bits:
        return
    for name in names:
        lacking = (side.take("present") & BIT[name]) == 0
        if excused is not None:
            lacking &= ~excused
        if lacking.any():
            row = side.row(int(lacking.argmax()))
            has = int(present[row]) & ~sum(int(BIT[name]) for name in made)
            raise missing_field(side.columns.where, row, name, has)


def true_flags(side: Side, strict: bool) -> NDArray[np.uint8]:
    """uint8 ``[G]``: sums of the truth flags of ``valor_gpu.ops.matching``."""
    crowd = side.take("iscrowd").astype(np.uint8) * np.uint8(CROWD)
    more = (side.take("id") == 0, ID_ZERO) if strict else (side.take("ignore"), IGNORED)
    flags: NDArray[np.uint8] = crowd | more[0].astype(np.uint8) * np.uint8(more[1])
    return flags


def true_areas(side: Side) -> NDArray[np.float64]:
    """float64 ``[G]``; a crowd, which counts in no range, may lack its area."""
    area: NDArray[np.float64] = side.take("area")
    lacking = np.isnan(area) & side.take("iscrowd")
    return np.where(lacking, 0.0, area) if lacking.any() else area


def batch_of(layout: Layout, strict: bool, device: torch.device) -> DetectionBatch:
    """The layout as tensors on ``device``: views of the columns on the CPU, one copy of each elsewhere."""
    truths, found = layout.truths, layout.detections

    def tensor(array: NDArray[Any]) -> list[Tensor]:
        return [torch.from_numpy(array).to(device)]

    free = found.take("id") <= 0 if strict and len(found) else np.zeros(0, bool)
    return DetectionBatch(
        boxes=tensor(found.take("bbox")),
        scores=tensor(found.take("score")),
        labels=tensor(found.labels),
        true_boxes=tensor(truths.take("bbox")),
        true_labels=tensor(truths.labels),
        lengths=torch.from_numpy(np.stack((found.lengths, truths.lengths))),
        true_flags=tensor(true_flags(truths, strict)),
        true_areas=tensor(true_areas(truths)),
        areas=tensor(found.take("area")),
        flags=tensor(free.astype(np.uint8) * np.uint8(FREE)) if free.any() else [],
        box_format=_XYWH,
        true_box_format=_XYWH,
    )


def match_layout(layout: Layout, rule: MatchRule, strict: bool, device: torch.device) -> Matched:
    """Match every image of ``layout``.

    Raises:
        InputError: a box or an area is not finite, or a score is NaN where that is refused; names the annotation.
    """
    try:
        matched = match_boxes(batch_of(layout, strict, device), rule)
        raise_error(matched.error, describe_box)
    except InputError as error:
        raise _named_error(layout, bool(rule.options & CHECK_SCORES)) or error from None
    return matched


def _named_error(layout: Layout, check_scores: bool) -> InputError | None:
    """The error for the first value that cannot be matched, by the place of its annotation."""
    truths, found = layout.truths, layout.detections
    candidates = [
        (truths, "bbox", "finite", ~np.isfinite(truths.take("bbox")).all(1)),
        (truths, "area", "a number", np.isnan(true_areas(truths))),
        (found, "bbox", "finite", ~np.isfinite(found.take("bbox")).all(1)),
        (found, "score", "a number", np.isnan(found.take("score")) & check_scores),
    ]
    for side, name, need, bad in candidates:
        if bad.any():
            row = side.row(int(bad.argmax()))
            value = getattr(side.columns, name)[row].tolist()
            place = f"{side.columns.place(row)}.{name} (id {side.columns.id[row]})"
            return InputError(f"{place} must be {need} but got {value}")
    return None


def evaluate_records(layout: Layout, params: Params, strict: bool, device: torch.device) -> Records:
    """Match ``layout`` and keep the records."""
    rule = match_rule(params, strict)
    matched = match_layout(layout, rule, strict, device)
    return Records(
        matched.detections,
        matched.truths,
        torch.from_numpy(layout.places()),
        torch.from_numpy(np.stack((layout.detections.lengths, layout.truths.lengths))),
        len(params.catIds) if params.useCats else 1,
        RecordShape(len(rule.thresholds), len(rule.area_ranges), len(rule.limits)),
    )
