"""What pycocotools keeps of every (image, category) cell: ``evalImgs`` and ``ious``, built from columns. No torch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.engine import engine_on
from valor_gpu.coco.geometry import Geometry, geometry_of
from valor_gpu.coco.layout import Layout, Side
from valor_gpu.coco.match_layout import gt_areas, gt_flags, match_layout, match_rule
from valor_gpu.coco.one_cell import ZERO_SHOWN
from valor_gpu.coco.params import Params
from valor_gpu.ops.accumulate.cpu import setting_bits
from valor_gpu.ops.assign.match_batch import CROWD, IGNORED, WANT_MATCHES

Cell = dict[str, Any]

_NOTHING = slice(0, 0)


class _Cells(NamedTuple):
    """Rows of a side cell by cell: ``order`` int64 ``[n]`` rows, and the part of ``order`` that is each cell's.

    A cell is the number category * I + image.
    """

    order: NDArray[np.int64]
    parts: dict[int, slice]


def _cells_of(side: Side, images: NDArray[np.int64], limit: int | None) -> _Cells:
    """Cells of ``side``; with a ``limit``, its rows by descending score and at most that many in a cell."""
    cell = side.labels.astype(np.int64) * len(images) + np.repeat(images, side.lengths)
    keys = (cell,) if limit is None else (-side.take("score"), cell)
    order = np.lexsort(keys)
    cells, starts, sizes = np.unique(cell[order], return_index=True, return_counts=True)
    if limit is not None:
        ranks = np.arange(len(order)) - np.repeat(starts, sizes)
        order, sizes = order[ranks < limit], np.minimum(sizes, limit)
    bounds = np.append(0, sizes.cumsum()).tolist()
    return _Cells(order, {c: slice(*pair) for c, pair in zip(cells.tolist(), pairwise(bounds))})


def build_ious(layout: Layout, params: Params, strict: bool) -> dict[tuple[Any, Any], Any]:
    """``COCOeval.ious``: for each (image id, category id) float64 ``[D, G]``, or [] when a side is empty."""
    geometry = geometry_of(params, strict)
    categories = params.catIds if params.useCats else [-1]
    count = len(params.imgIds)
    dt_cells = _cells_of(layout.detections, layout.images, params.maxDets[-1])
    gt_cells = _cells_of(layout.ground_truths, layout.images, None)
    both = [c for c, part in dt_cells.parts.items() if part.start < part.stop and c in gt_cells.parts]
    if strict and not geometry.pools and not params.useCats:
        both = []
    values = _iou_of_cells(layout, geometry, (dt_cells, gt_cells), both)
    shapes = {c: gt_cells.parts[c].stop - gt_cells.parts[c].start for c in both}
    matrices = {c: np.array(part.reshape(-1, shapes[c]), order=geometry.order) for c, part in zip(both, values)}
    return {
        (image, category): matrices.get(k * count + i, [])
        for i, image in enumerate(params.imgIds)
        for k, category in enumerate(categories)
    }


def _iou_of_cells(
    layout: Layout, geometry: Geometry, sides: tuple[_Cells, _Cells], cells: list[int]
) -> list[NDArray[np.float64]]:
    """float64 ``[D * G]`` similarity of each cell, row by row."""
    if not cells:
        return []
    orders = [np.concatenate([rows.order[rows.parts[c]] for c in cells]) for rows in sides]
    lengths = [[rows.parts[c].stop - rows.parts[c].start for c in cells] for rows in sides]
    sizes = np.array(lengths, np.int64)
    pairs = geometry.cell_ious(layout, (orders[0], orders[1]), sizes)
    return np.split(pairs, sizes.prod(0).cumsum()[:-1])


class _AreaColumns(NamedTuple):
    """One area range, cell after cell: detections ``[n, T]``, ground truths ``[m]`` and ``[m, T]``."""

    matches: NDArray[np.float64]
    ignored: NDArray[np.bool_]
    gt_ids: NDArray[np.int64]
    gt_matches: NDArray[np.float64]
    gt_ignored: NDArray[np.int64]


class _Matching(NamedTuple):
    """What the areas share: rows of matching, ids, and ground truth flags."""

    taken: NDArray[np.int64]  # [n, S] row of the ground truth, -1 for none
    bits: NDArray[np.bool_]  # [n, S] ignored
    dt_match_ids: NDArray[np.float64]
    gt_ids: NDArray[np.int64]
    gt_match_ids: NDArray[np.float64]
    flags: NDArray[np.uint8]
    areas: NDArray[np.float64]
    ranges: NDArray[np.float64]


def build_eval_imgs(
    layout: Layout, params: Params, strict: bool, geometry: Geometry | None = None
) -> list[Cell | None]:
    """``COCOeval.evalImgs``: for each category, area range and image what ``evaluateImg`` gives.

    Args:
        layout: the rows.
        params: of the evaluation.
        strict: the convention.
        geometry: how to compare, default by ``params.iouType``.
    """
    dt_cells = _cells_of(layout.detections, layout.images, params.maxDets[-1])
    gt_cells = _cells_of(layout.ground_truths, layout.images, None)
    matching = _match(layout, params, dt_cells, strict, geometry or geometry_of(params, strict))
    scores, ids = layout.detections.take("score")[dt_cells.order], layout.detections.take("id")[dt_cells.order]
    categories = params.catIds if params.useCats else [-1]
    count, areas = len(params.imgIds), len(params.areaRng)
    out: list[Cell | None] = [None] * (len(categories) * areas * count)
    for a, area_range in enumerate(params.areaRng):
        view = _area_columns(matching, gt_cells, a, len(params.iouThrs))
        for cell in dt_cells.parts.keys() | gt_cells.parts.keys():
            d, g = dt_cells.parts.get(cell, _NOTHING), gt_cells.parts.get(cell, _NOTHING)
            k, i = divmod(cell, count)
            out[(k * areas + a) * count + i] = {
                "image_id": params.imgIds[i],
                "category_id": categories[k],
                "aRng": area_range,
                "maxDet": params.maxDets[-1],
                "dtIds": ids[d].tolist(),
                "gtIds": view.gt_ids[g].tolist(),
                "dtMatches": view.matches[d].T.copy(),
                "gtMatches": view.gt_matches[g].T.copy(),
                "dtScores": scores[d].tolist(),
                "gtIgnore": view.gt_ignored[g].copy() if g.start < g.stop else np.array([]),
                "dtIgnore": view.ignored[d].T.copy(),
            }
    return out


def _match(layout: Layout, params: Params, dt_cells: _Cells, strict: bool, geometry: Geometry) -> _Matching:
    rule = match_rule(params, strict, WANT_MATCHES)
    matched = match_layout(layout, rule, strict, engine_on(), geometry)
    ground_truths, detections = layout.ground_truths, layout.detections
    first = np.repeat(ground_truths.lengths.cumsum() - ground_truths.lengths, detections.lengths)[dt_cells.order, None]
    positions = np.asarray(matched.matches)[dt_cells.order].astype(np.int64)
    rows = np.asarray(matched.detections)[dt_cells.order]
    settings = positions.shape[1]
    bits = np.stack([setting_bits(rows, setting, 1, settings) for setting in range(settings)], 1)
    shown = [_shown(side.take("id"), strict) for side in (detections, ground_truths)]
    return _Matching(
        np.where(positions < 0, -1, positions + first),
        bits,
        shown[0][dt_cells.order],
        ground_truths.take("id"),
        shown[1],
        gt_flags(ground_truths, strict, geometry),
        gt_areas(ground_truths),
        rule.area_ranges,
    )


def _shown(ids: NDArray[np.int64], strict: bool) -> NDArray[np.float64]:
    """Ids as they stand in ``dtMatches`` and ``gtMatches``."""
    return (ids if strict else np.where(ids == 0, ZERO_SHOWN, ids)).astype(np.float64)


def _area_columns(m: _Matching, gt_cells: _Cells, a: int, thresholds: int) -> _AreaColumns:
    settings = slice(a * thresholds, (a + 1) * thresholds)
    taken = m.taken[:, settings]
    match_ids = np.append(m.gt_match_ids, 0.0)  # row -1, no match, is shown as 0
    gt_matches = np.zeros((len(m.gt_ids), thresholds))
    rows, columns = np.nonzero(taken >= 0)
    gt_matches[taken[rows, columns], columns] = m.dt_match_ids[rows]  # the last detection of a crowd stays
    outside = (m.areas < m.ranges[a, 0]) | (m.areas > m.ranges[a, 1])
    ignored = (((m.flags & (CROWD | IGNORED)) != 0) | outside).astype(np.int64)
    sizes = [part.stop - part.start for part in gt_cells.parts.values()]
    cell = np.repeat(np.arange(len(sizes)), sizes)
    order = gt_cells.order[np.lexsort((ignored[gt_cells.order], cell))]
    return _AreaColumns(match_ids[taken], m.bits[:, settings], m.gt_ids[order], gt_matches[order], ignored[order])
