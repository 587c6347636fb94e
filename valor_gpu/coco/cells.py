"""What pycocotools keeps of every (image, category) cell: ``evalImgs`` and ``ious``, built from columns on the CPU."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.coco.layout import Layout, Side
from valor_gpu.coco.one_cell import ZERO_SHOWN
from valor_gpu.coco.params import Params
from valor_gpu.coco.records import match_layout, match_rule, true_areas, true_flags
from valor_gpu.ops.boxes import box_iou
from valor_gpu.ops.curves import lane_bits
from valor_gpu.ops.matching import CROWD, IGNORED, WANT_MATCHES
from valor_gpu.ragged import Ragged

Cell = dict[str, Any]

_NOTHING = slice(0, 0)


class _Cells(NamedTuple):
    """Rows of a side cell by cell: ``order`` int64 ``[n]`` rows, and the part of ``order`` that is each cell's.

    A cell is the number category * I + image.
    """

    order: NDArray[np.int64]
    parts: dict[int, slice]


def _cells_of(side: Side, images: NDArray[np.int64], most: int | None) -> _Cells:
    """Cells of ``side``; with a limit ``most``, its rows by descending score and no more than that many in a cell."""
    cell = side.labels.astype(np.int64) * len(images) + np.repeat(images, side.lengths)
    keys = (cell,) if most is None else (-side.take("score"), cell)
    order = np.lexsort(keys)
    cells, starts, sizes = np.unique(cell[order], return_index=True, return_counts=True)
    if most is not None:
        ranks = np.arange(len(order)) - np.repeat(starts, sizes)
        order, sizes = order[ranks < most], np.minimum(sizes, most)
    bounds = np.append(0, sizes.cumsum()).tolist()
    return _Cells(order, {c: slice(*pair) for c, pair in zip(cells.tolist(), pairwise(bounds))})


def build_ious(layout: Layout, params: Params) -> dict[tuple[Any, Any], Any]:
    """``COCOeval.ious``: for each (image id, category id) float64 ``[D, G]``, or [] when a side is empty."""
    categories = params.catIds if params.useCats else [-1]
    count = len(params.imgIds)
    found = _cells_of(layout.detections, layout.images, params.maxDets[-1])
    truths = _cells_of(layout.truths, layout.images, None)
    both = [c for c, part in found.parts.items() if part.start < part.stop and c in truths.parts]
    values = _iou_of_cells(layout, found, truths, both)
    shapes = {c: truths.parts[c].stop - truths.parts[c].start for c in both}
    matrices = {c: np.array(part.reshape(-1, shapes[c]), order="F") for c, part in zip(both, values)}
    return {
        (image, category): matrices.get(k * count + i, [])
        for i, image in enumerate(params.imgIds)
        for k, category in enumerate(categories)
    }


def _iou_of_cells(layout: Layout, found: _Cells, truths: _Cells, cells: list[int]) -> list[NDArray[np.float64]]:
    """float64 ``[D * G]`` IoU of each cell, row by row."""
    if not cells:
        return []
    sides = []
    for side, rows in ((layout.detections, found), (layout.truths, truths)):
        order = np.concatenate([rows.order[rows.parts[c]] for c in cells])
        lengths = torch.tensor([rows.parts[c].stop - rows.parts[c].start for c in cells])
        sides.append((Ragged(torch.from_numpy(side.take("bbox")[order]), lengths), order))
    crowd = torch.from_numpy(layout.truths.take("iscrowd")[sides[1][1]])
    iou = box_iou(sides[0][0], sides[1][0], box_format="xywh", crowd=crowd)
    return [part.numpy() for part in iou]


class _AreaColumns(NamedTuple):
    """One area range, cell after cell: detections ``[n, T]``, ground truths ``[m]`` and ``[m, T]``."""

    matches: NDArray[np.float64]
    ignored: NDArray[np.bool_]
    true_ids: NDArray[np.int64]
    true_matches: NDArray[np.float64]
    true_ignored: NDArray[np.int64]


class _Matching(NamedTuple):
    """What the areas share: rows of matching, ids, and ground truth flags."""

    taken: NDArray[np.int64]  # [n, L] row of the ground truth, -1 for none
    bits: NDArray[np.bool_]  # [n, L] ignored
    found_ids: NDArray[np.float64]
    true_ids: NDArray[np.int64]
    shown_true_ids: NDArray[np.float64]
    flags: NDArray[np.uint8]
    areas: NDArray[np.float64]
    ranges: NDArray[np.float64]


def build_eval_imgs(layout: Layout, params: Params, strict: bool) -> list[Cell | None]:
    """``COCOeval.evalImgs``: for each category, area range and image what ``evaluateImg`` gives."""
    found = _cells_of(layout.detections, layout.images, params.maxDets[-1])
    truths = _cells_of(layout.truths, layout.images, None)
    matching = _match(layout, params, found, strict)
    scores, ids = layout.detections.take("score")[found.order], layout.detections.take("id")[found.order]
    categories = params.catIds if params.useCats else [-1]
    count, areas = len(params.imgIds), len(params.areaRng)
    out: list[Cell | None] = [None] * (len(categories) * areas * count)
    for a, area_range in enumerate(params.areaRng):
        view = _area_columns(matching, truths, a, len(params.iouThrs))
        for cell in found.parts.keys() | truths.parts.keys():
            d, g = found.parts.get(cell, _NOTHING), truths.parts.get(cell, _NOTHING)
            k, i = divmod(cell, count)
            out[(k * areas + a) * count + i] = {
                "image_id": params.imgIds[i],
                "category_id": categories[k],
                "aRng": area_range,
                "maxDet": params.maxDets[-1],
                "dtIds": ids[d].tolist(),
                "gtIds": view.true_ids[g].tolist(),
                "dtMatches": view.matches[d].T.copy(),
                "gtMatches": view.true_matches[g].T.copy(),
                "dtScores": scores[d].tolist(),
                "gtIgnore": view.true_ignored[g].copy() if g.start < g.stop else np.array([]),
                "dtIgnore": view.ignored[d].T.copy(),
            }
    return out


def _match(layout: Layout, params: Params, found: _Cells, strict: bool) -> _Matching:
    rule = match_rule(params, strict, WANT_MATCHES)
    matched = match_layout(layout, rule, strict, torch.device("cpu"))
    truths, detections = layout.truths, layout.detections
    first = np.repeat(truths.lengths.cumsum() - truths.lengths, detections.lengths)[found.order, None]
    places = matched.matches.numpy()[found.order].astype(np.int64)
    rows = matched.detections[torch.from_numpy(found.order)]
    lanes = places.shape[1]
    bits = torch.stack([lane_bits(rows, lane, 1, lanes) for lane in range(lanes)], 1).numpy()
    shown = [_shown(side.take("id"), strict) for side in (detections, truths)]
    return _Matching(
        np.where(places < 0, -1, places + first), bits, shown[0][found.order], truths.take("id"), shown[1],
        true_flags(truths, strict), true_areas(truths), rule.area_ranges.numpy(),
    )  # fmt: skip


def _shown(ids: NDArray[np.int64], strict: bool) -> NDArray[np.float64]:
    """Ids as they stand in ``dtMatches`` and ``gtMatches``."""
    return (ids if strict else np.where(ids == 0, ZERO_SHOWN, ids)).astype(np.float64)


def _area_columns(m: _Matching, truths: _Cells, a: int, thresholds: int) -> _AreaColumns:
    lanes = slice(a * thresholds, (a + 1) * thresholds)
    taken = m.taken[:, lanes]
    names = np.append(m.shown_true_ids, 0.0)  # row -1, no match, is shown as 0
    true_matches = np.zeros((len(m.true_ids), thresholds))
    rows, columns = np.nonzero(taken >= 0)
    true_matches[taken[rows, columns], columns] = m.found_ids[rows]  # the last detection of a crowd stays
    outside = (m.areas < m.ranges[a, 0]) | (m.areas > m.ranges[a, 1])
    ignored = (((m.flags & (CROWD | IGNORED)) != 0) | outside).astype(np.int64)
    sizes = [part.stop - part.start for part in truths.parts.values()]
    cell = np.repeat(np.arange(len(sizes)), sizes)
    order = truths.order[np.lexsort((ignored[truths.order], cell))]
    return _AreaColumns(names[taken], m.bits[:, lanes], m.true_ids[order], true_matches[order], ignored[order])
