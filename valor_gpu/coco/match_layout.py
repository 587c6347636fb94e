"""From a layout of annotation columns to detection records. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.coco.doubtful_values import WAY_OUT
from valor_gpu.coco.engine import Engine
from valor_gpu.coco.geometry import Geometry
from valor_gpu.coco.ground_truth_hashes import hash_ground_truths
from valor_gpu.coco.ids import Ids, members
from valor_gpu.coco.layout import Layout, Side, lay_out
from valor_gpu.coco.params import Params, half_open
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import BIT, shown
from valor_gpu.inputs.coco import Annotations, Dataset
from valor_gpu.inputs.coco_ids import aligned, row_ids
from valor_gpu.inputs.text_ids import TextIds
from valor_gpu.ops.accumulate.types import RecordShape
from valor_gpu.ops.assign.match_batch import (
    CHECK_SCORES,
    CROWD,
    FREE,
    ID_ZERO,
    IGNORED,
    MatchBatch,
    Matched,
    MatchRule,
)

_MADE = ("id", "area", "iscrowd")  # loadRes fills these in: a message must not tell of them
_COMPLETED = ("iscrowd", "area")  # what the corrected convention does without


@frozen
class EvaluationRecords:
    """The records of one evaluation: all that accumulation needs.

    Attributes:
        engine: what made the records and can read them.
        detections: uint8 detection rows, labels being positions in the category ids; where the engine keeps them.
        ground_truths: uint8 ground truth rows, labels being the same positions.
        image_positions: int64 ``[I]``: position of each sorted image id in the order of the rows.
        lengths: int64 ``[2, I]``: detections and ground truths of each image, in the order of the rows.
        classes: K.
        shape: T, A and M.
        doubts: counts of doubtful values that matching came across, by name.
        gt_hashes: gives a hash of the ground truths of each image, int64 ``[I]`` in the order of the rows; None: they
            are not known.
    """

    engine: Engine
    detections: Any
    ground_truths: Any
    image_positions: NDArray[np.int64]
    lengths: NDArray[np.int64]
    classes: int
    shape: RecordShape
    doubts: Mapping[str, int]
    gt_hashes: Callable[[], NDArray[np.int64]] | None = None

    def buckets(self) -> NDArray[np.uint8]:
        """uint8 ``[D]``: the first limit above the rank of each detection in its cell, M beyond all limits."""
        column = self.detections[:, 12]
        return column if isinstance(column, np.ndarray) else column.cpu().numpy()  # type: ignore[no-any-return]


def match_rule(params: Params, strict: bool, options: int = 0) -> MatchRule:
    """The rule that ``params`` stand for; the corrected convention rejects NaN scores and closes ranges once."""
    ranges = params.areaRng if strict else half_open(params.areaRng)
    return MatchRule.make(params.iouThrs, ranges, params.maxDets, options | (0 if strict else CHECK_SCORES))


def layout_of(ground_truths: Dataset, detections: Dataset, params: Params, strict: bool, geometry: Geometry) -> Layout:
    """The rows that ``params`` ask for, checked for what evaluation needs of them.

    Raises:
        InputError: a row lacks a key; or, in the corrected convention, belongs to no image or category of
            ``ground_truths``.
    """
    ids = {"imgIds": params.imgIds, "catIds": params.catIds}
    asked = asked_of(ground_truths, detections, ids, strict)
    truth = asked.ground_truths.annotations
    layout = lay_out(truth, asked.detections, asked.images, asked.categories, bool(params.useCats), strict)
    return completed(geometry.laid_out(layout), geometry)


class Asked(NamedTuple):
    """Both sides of an evaluation with common codes of ids, and the ids that its parameters name.

    Attributes:
        ground_truths: all of them.
        detections: likewise.
        images: int64 ``[I]`` ids or codes.
        categories: int64 ``[K]``, likewise.
    """

    ground_truths: Dataset
    detections: Annotations
    images: Ids
    categories: Ids


def asked_of(ground_truths: Dataset, detections: Dataset, ids: Mapping[str, Any], strict: bool) -> Asked:
    """Reads the ids that parameters name.

    Args:
        ground_truths: columns.
        detections: columns.
        ids: names of the two parameters and their ids, of images and then of categories.
        strict: the convention; the other one needs every image and category of a row in ``ground_truths``.

    Raises:
        InputError: ids are of different kinds, or, in the corrected convention, a row belongs to no image or category.
    """
    (image_name, images), (category_name, categories) = ids.items()
    ground_truths, rows = aligned(ground_truths, detections.annotations, images, categories)
    if not strict:
        _check_all_known(ground_truths, rows)
    chosen = as_ids(image_name, images, rows.texts.image_id)
    return Asked(ground_truths, rows, chosen, as_ids(category_name, categories, rows.texts.category_id))


def _check_all_known(ground_truths: Dataset, detections: Annotations) -> None:
    """Raises for the first row of an image or a category that ``ground_truths`` does not list."""
    for side in (ground_truths.annotations, detections):
        _check_known(side, "image_id", ground_truths.image_ids, ground_truths.where)
        _check_known(side, "category_id", ground_truths.category_ids, ground_truths.where)


def completed(layout: Layout, geometry: Geometry) -> Layout:
    """``layout`` with the areas that ground truths lack, in the corrected convention.

    Raises:
        InputError: a row lacks what evaluation needs of it; names the first.
    """
    ground_truths, detections = layout.ground_truths, layout.detections
    fields = [name for name in _COMPLETED if name not in geometry.unread]
    strict = fields if geometry.strict else []
    _check_present(ground_truths, (*geometry.gt_needs, *strict), geometry.excused, _ways_out(geometry))
    _check_present(detections, (*geometry.needs_of(detections.columns), "score", "area"), made=_MADE)
    if geometry.strict or "area" not in fields:
        return layout
    lacking = lacks(ground_truths, "area", geometry)
    if not lacking.any():
        return layout
    rows = np.flatnonzero(lacking) if ground_truths.rows is None else ground_truths.rows[lacking]
    areas = ground_truths.columns.area.copy()
    areas[rows] = geometry.missing_areas(ground_truths.columns, rows)
    return replace(layout, ground_truths=replace(ground_truths, columns=replace(ground_truths.columns, area=areas)))


def lacks(ground_truths: Side, name: str, geometry: Geometry) -> NDArray[np.bool_]:
    """Bool ``[G]``: ground truths that lack field ``name`` and are not excused."""
    lacking: NDArray[np.bool_] = (ground_truths.take("present") & BIT[name]) == 0
    excused = geometry.excused(ground_truths, name) if lacking.any() else None
    return lacking if excused is None else lacking & ~excused


def _ways_out(geometry: Geometry) -> dict[str, str]:
    """For fields that the corrected convention can do without, the end of the error."""
    return {"iscrowd": f": {WAY_OUT} uses 0", "area": f": {WAY_OUT} uses {geometry.area_text}"}


def as_ids(name: str, values: Any, texts: TextIds | None = None) -> Ids:
    """int64 ``[N]`` of ids given as any integers, or the codes of texts.

    Args:
        name: of the parameter.
        values: the ids.
        texts: what ids are, where they are texts.
    """
    if texts is not None and len(values):
        # -1 is what accumulate() leaves in catIds where categories are not used: no category.
        odd = next((value for value in values if not isinstance(value, str) and value != -1), None)
        if odd is not None:
            got = shown(odd.item() if isinstance(odd, np.generic) else odd)
            raise InputError(f"params.{name} must be texts, as the ids of the dataset are, but has {got}")
        return texts.codes(values)
    given = np.asarray(values).reshape(-1)
    if not given.size:
        return np.zeros(0, np.int64)
    whole = given.dtype.kind in "iu" or (given.dtype.kind == "f" and bool((given == np.round(given)).all()))
    if not whole:
        raise InputError(f"params.{name} must be integers but got {given[:3].tolist()}")
    return given.astype(np.int64)


def _check_known(columns: Annotations, name: str, known: Ids, where: str) -> None:
    unknown = ~members(getattr(columns, name), known)
    if unknown.any():
        row = int(unknown.argmax())
        value = shown(row_ids(columns, name, [row])[0])
        raise InputError(f"{columns.place(row)}.{name} must be an id that {where} lists but got {value}")


def _check_present(
    side: Side,
    names: Sequence[str],
    excused: Callable[[Side, str], NDArray[np.bool_] | None] | None = None,
    ways_out: Mapping[str, str] = MappingProxyType({}),
    made: Sequence[str] = (),
) -> None:
    """Raises for the first row of ``side`` that lacks one of ``names`` and is not ``excused``; see ``_MADE``."""
    present = side.columns.present
    bits = np.uint16(sum(int(BIT[name]) for name in names))
    if not len(present) or np.bitwise_and.reduce(present) & bits == bits:
        return
    for name in names:
        lacking = (side.take("present") & BIT[name]) == 0
        free = excused(side, name) if excused is not None and lacking.any() else None
        if free is not None:
            lacking &= ~free
        if lacking.any():
            row = side.row(int(lacking.argmax()))
            has = int(present[row]) & ~sum(int(BIT[name]) for name in made)
            error = side.columns.lacking(row, name, has)
            raise InputError(f"{error}{ways_out[name]}") if name in ways_out else error


def gt_flags(side: Side, strict: bool, geometry: Geometry) -> NDArray[np.uint8]:
    """uint8 ``[G]``: sums of the flags of :mod:`valor_gpu.ops.assign.match_batch`."""
    crowd = side.take("iscrowd").astype(np.uint8) * np.uint8(CROWD)
    more = (side.take("id") == 0, ID_ZERO) if strict else (side.take("ignore"), IGNORED)
    flags: NDArray[np.uint8] = crowd | more[0].astype(np.uint8) * np.uint8(more[1])
    ignored = geometry.ignored(side)
    return flags if ignored is None else flags | ignored.astype(np.uint8) * np.uint8(IGNORED)


def gt_areas(side: Side) -> NDArray[np.float64]:
    """float64 ``[G]``; a crowd, which counts in no range, may lack its area."""
    area: NDArray[np.float64] = side.take("area")
    lacking = np.isnan(area) & side.take("iscrowd")
    return np.where(lacking, 0.0, area) if lacking.any() else area


def batch_of(layout: Layout, strict: bool, geometry: Geometry) -> MatchBatch:
    """The layout as columns to match, without geometry: those of the annotations themselves where that will do."""
    ground_truths, detections = layout.ground_truths, layout.detections
    free = detections.take("id") <= 0 if strict and len(detections) else np.zeros(0, bool)
    return MatchBatch(
        scores=[detections.take("score")],
        labels=[detections.labels],
        gt_labels=[ground_truths.labels],
        lengths=layout.lengths(),
        gt_flags=[gt_flags(ground_truths, strict, geometry)],
        gt_areas=[gt_areas(ground_truths)],
        areas=[detections.take("area")],
        flags=[free.astype(np.uint8) * np.uint8(FREE)] if free.any() else [],
    )


def match_layout(layout: Layout, rule: MatchRule, strict: bool, engine: Engine, geometry: Geometry) -> Matched:
    """Matches every image of ``layout``.

    Raises:
        InputError: a box or an area is not finite, a mask is none, or a score is NaN in the corrected convention; names
            the annotation.
    """
    try:
        if not strict and np.isinf(gt_areas(layout.ground_truths)).any():
            raise InputError("ground truth areas must be finite")  # named below
        common = batch_of(layout, strict, geometry)
        compared = geometry.pools or geometry.params.useCats or not strict
        lowest = float(rule.thresholds.min()) if compared else np.inf
        return engine.assign(geometry.batch(layout, common, lowest, engine), rule)
    except InputError as error:
        raise _named_error(layout, strict, geometry) or error from None


def _named_error(layout: Layout, strict: bool, geometry: Geometry) -> InputError | None:
    """The error for the first value that cannot be matched, by the place of its annotation."""
    ground_truths, detections = layout.ground_truths, layout.detections
    candidates = [
        *((ground_truths, *wrong) for wrong in geometry.wrong(ground_truths)),
        (ground_truths, "area", "a number", np.isnan(gt_areas(ground_truths))),
        (ground_truths, "area", "finite", np.isinf(gt_areas(ground_truths)) & (not strict)),
        *((detections, *wrong) for wrong in geometry.wrong(detections)),
        (detections, "score", "a number", np.isnan(detections.take("score")) & (not strict)),
    ]
    for side, name, need, bad in candidates:
        if bad.any():
            row = side.row(int(bad.argmax()))
            value = getattr(side.columns, name)[row].tolist()
            place = f"{side.columns.place(row)}.{name} (id {side.columns.id[row]})"
            return InputError(f"{place} must be {need} but got {value}")
    return None


def evaluate_records(
    layout: Layout, params: Params, strict: bool, engine: Engine, geometry: Geometry
) -> EvaluationRecords:
    """Matches ``layout`` and keeps the records."""
    rule = match_rule(params, strict)
    matched = match_layout(layout, rule, strict, engine, geometry)
    return EvaluationRecords(
        engine,
        matched.detections,
        matched.ground_truths,
        layout.image_positions(),
        layout.lengths(),
        len(params.catIds) if params.useCats else 1,
        RecordShape(len(rule.thresholds), len(rule.area_ranges), len(rule.limits)),
        geometry.doubts,
        partial(hash_ground_truths, layout.ground_truths),
    )
