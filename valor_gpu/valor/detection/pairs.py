"""The pairs of a prediction and a ground truth of one label key that overlap, of any kinds of geometry.

Design: docs/design/023-geometry-of-annotations.md.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_device
from valor_gpu.inputs.conversions import RASTER_RULES
from valor_gpu.inputs.outlines import Integers
from valor_gpu.ops.assign.match_batch import MatchBatch, MatchRule
from valor_gpu.ops.box_pairs.op import box_pairs
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.ops.overlaps.op import Overlaps
from valor_gpu.ops.polygon_areas.op import polygon_pairs
from valor_gpu.ops.polygon_sets.op import PolygonSet
from valor_gpu.ops.rotated.cpu import CORNERS
from valor_gpu.ops.rotated.op import rotated_pairs
from valor_gpu.ops.run_pairs.op import run_pairs
from valor_gpu.ops.runs.op import Runs
from valor_gpu.valor.columns import Columns
from valor_gpu.valor.detection.conversion import with_one_geometry
from valor_gpu.valor.detection.sides import POLYGON, RASTER, TURNED, UPRIGHT, Flags, PairSide
from valor_gpu.valor.enums import AnnotationType

_ABOVE_ZERO = math.ulp(0.0)  # lowest threshold: every pair that overlaps at all
_XYXY = BOX_FORMATS.index("xyxy")
_BOXES, _VECTORS = (UPRIGHT, TURNED), (UPRIGHT, TURNED, POLYGON)
_Sides = tuple[PairSide, PairSide]
_Find = Callable[[MatchBatch, MatchRule], MatchBatch]


class FoundOverlaps(NamedTuple):
    """What :func:`find_overlaps` finds.

    Attributes:
        overlaps: of all rows, datum after datum; labels are places in ``Columns.labels``, datums those of
            ``Columns.datums``.
        predictions: int64 ``[D]``, the row of ``Columns.predictions`` of each detection.
        groundtruths: int64 ``[G]``, the row of ``Columns.groundtruths`` of each ground truth.
    """

    overlaps: Overlaps
    predictions: Integers
    groundtruths: Integers


def find_overlaps(
    columns: Columns,
    *,
    convert: AnnotationType | None = None,
    raster_to_polygon: str = "outline",
    device: torch.device | str | None = None,
) -> FoundOverlaps:
    """Finds the pairs of each label key that overlap, and their IoU.

    The geometries of a pair decide how it is compared: two boxes or polygons by their exact areas, two rasters by their
    pixels, a raster and another geometry by pixels too, at the size of the raster: a pixel belongs to the other one
    where its centre does.

    Args:
        columns: of a detection.
        convert: the type in which all annotations are compared. None: the most detailed one that both sides have;
            annotations with less detail stay as they are, and rasters do where polygons are common.
        raster_to_polygon: how rasters become polygons, ``outline`` or ``hull``, see
            :func:`valor_gpu.inputs.raster_to_polygon`. With ``hull`` they also do where polygons are common, as on
            Valor's server.
        device: where pairs are found and stay; the CPU by default.

    Raises:
        InputError: naming an annotation with less detail than ``convert``, one whose raster has no pixels but has to
            become a box or a polygon, or one that is too far away or too complex to be compared.
    """
    check_choice("raster_to_polygon", raster_to_polygon, RASTER_RULES)
    place = check_device(device)
    single = with_one_geometry(columns, convert, raster_to_polygon)
    predictions, gts = (PairSide.of(single, side) for side in ("predictions", "groundtruths"))
    sides = predictions, gts
    found = [pairs for task in _TASKS for pairs in task(sides, place)]
    return FoundOverlaps(_joined(sides, found, place), predictions.order, gts.order)


class _Pairs(NamedTuple):
    """Pairs of rows in order: int64 ``[P]``, int64 ``[P]``, float64 ``[P]``."""

    rows: Tensor
    gt_rows: Tensor
    ious: Tensor


def _meeting(sides: _Sides, kinds: tuple[int, ...], gt_kinds: tuple[int, ...]) -> list[Flags] | None:
    """Rows of these kinds that meet one of the other side in a datum and label key; None where there are none."""
    masks = [np.isin(side.kinds, wanted) for side, wanted in zip(sides, (kinds, gt_kinds))]
    groups = [side.groups[mask] for side, mask in zip(sides, masks)]
    if not all(map(len, groups)):
        return None
    met = np.intersect1d(groups[0], groups[1])
    for side, mask in zip(sides, masks):
        mask &= np.isin(side.groups, met)
    return masks if len(met) else None


def _pairs_of_boxes(sides: _Sides, place: torch.device) -> list[_Pairs]:
    chosen = [side.kinds == UPRIGHT for side in sides]
    boxes = _columns(sides, chosen, lambda side, mask: side.shapes.boxes[side.annotations[mask]], place)
    return [_search(sides, chosen, place, lambda *given: box_pairs(*given)[0], **boxes, **_formats(_XYXY))]


def _pairs_of_turned_boxes(sides: _Sides, place: torch.device) -> list[_Pairs]:
    found = []
    for kinds in (((TURNED,), _BOXES), ((UPRIGHT,), (TURNED,))):
        if chosen := _meeting(sides, *kinds):
            boxes = _columns(sides, chosen, PairSide.corners, place)
            found.append(
                _search(sides, chosen, place, lambda *given: rotated_pairs(*given)[0], **boxes, **_formats(CORNERS))
            )
    return found


def _pairs_of_polygons(sides: _Sides, place: torch.device) -> list[_Pairs]:
    found = []
    for kinds in (((POLYGON,), _VECTORS), (_BOXES, (POLYGON,))):
        if chosen := _meeting(sides, *kinds):
            shapes, gt_shapes = (side.polygons(mask) for side, mask in zip(sides, chosen))
            found.append(_search(sides, chosen, place, functools.partial(_find_polygons, (shapes, gt_shapes))))
    return found


def _find_polygons(shapes: tuple[PolygonSet, PolygonSet], batch: MatchBatch, rule: MatchRule) -> MatchBatch:
    return polygon_pairs(batch, shapes, rule)[0]


def _pairs_of_rasters(sides: _Sides, place: torch.device) -> list[_Pairs]:
    sizes: Integers = np.zeros((sides[0].num_datums, 2), np.int64)
    for side in sides:
        side.read_sizes(sizes)
    found = []
    for kinds in (((RASTER,), (*_VECTORS, RASTER)), (_VECTORS, (RASTER,))):
        if chosen := _meeting(sides, *kinds):
            masks, gt_masks = (_on(side.rasters(mask, sizes), place) for side, mask in zip(sides, chosen))
            found.append(_search(sides, chosen, place, functools.partial(_find_masks, masks, gt_masks)))
    return found


def _find_masks(masks: Runs, gt_masks: Runs, batch: MatchBatch, rule: MatchRule) -> MatchBatch:
    return run_pairs(batch, masks, gt_masks, float(rule.thresholds.min()))


_TASKS = (_pairs_of_boxes, _pairs_of_turned_boxes, _pairs_of_polygons, _pairs_of_rasters)


def _formats(code: int) -> dict[str, int]:
    return {"box_format": code, "gt_box_format": code}


def _columns(
    sides: _Sides, chosen: list[Flags], read: Callable[[PairSide, Flags], Any], place: torch.device
) -> dict[str, list[Tensor]]:
    parts = [torch.from_numpy(read(side, mask)).to(place) for side, mask in zip(sides, chosen)]
    return {"boxes": parts[:1], "gt_boxes": parts[1:]}


def _on(runs: Runs, place: torch.device) -> Runs:
    return Runs(*(torch.from_numpy(part).to(place) for part in (runs.counts, runs.offsets, runs.sizes)))


def _search(sides: _Sides, chosen: list[Flags], place: torch.device, find: _Find, **geometry: Any) -> _Pairs:
    """The pairs of chosen rows of both sides.

    Args:
        sides: predictions and ground truths.
        chosen: which rows of each.
        place: where pairs are found.
        find: stores the pairs of a batch.
        geometry: the columns of the batch that it reads.
    """
    rows = [torch.from_numpy(np.flatnonzero(mask)).to(place) for mask in chosen]
    lengths = np.stack([side.lengths(mask) for side, mask in zip(sides, chosen)])
    keys = [torch.from_numpy(side.keys[mask]).to(place) for side, mask in zip(sides, chosen)]
    batch = MatchBatch(torch.from_numpy(lengths), labels=[keys[0]], gt_labels=[keys[1]], **geometry)
    pairs = find(batch, MatchRule.make([_ABOVE_ZERO], [[0, math.inf]], [1])).pairs
    assert pairs is not None
    counts = pairs.counts.long()
    used = int(counts.sum())
    detections = torch.arange(len(counts), device=place).repeat_interleave(counts, output_size=used)
    starts = counts.cumsum(0) - counts
    slots = pairs.offsets[:-1][detections] + torch.arange(used, device=place) - starts[detections]
    firsts = torch.from_numpy(np.repeat(np.cumsum(lengths[1]) - lengths[1], lengths[0])).to(place)
    gts = firsts[detections] + pairs.ground_truths[slots].long()
    return _Pairs(rows[0][detections], rows[1][gts], pairs.similarities[slots])


def _joined(sides: _Sides, found: list[_Pairs], place: torch.device) -> Overlaps:
    """All pairs, those of a detection by IoU descending, of equal ones the later ground truth first."""
    lengths = np.stack([side.lengths(np.ones(len(side.order), np.bool_)) for side in sides])
    labels, gt_labels = (torch.from_numpy(side.labels).to(place) for side in sides)
    rows, gt_rows, ious = (torch.cat(parts) for parts in zip(*found))
    if len(found) > 1:
        order = gt_rows.argsort(descending=True)
        for keys in (-ious, rows):
            order = order[keys[order].argsort(stable=True)]
        rows, gt_rows, ious = rows[order], gt_rows[order], ious[order]
    scores = torch.from_numpy(sides[0].scores).to(place)
    counts = torch.bincount(rows, minlength=len(labels))
    return Overlaps(torch.from_numpy(lengths).to(place), labels, scores, gt_labels, counts, gt_rows, ious)
