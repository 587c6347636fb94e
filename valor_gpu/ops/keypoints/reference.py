"""Definition of object keypoint similarity and of its pairs: one detection and one ground truth at a time."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import torch
from torch import Tensor

from valor_gpu.ops.assign.match_batch import IGNORED, MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR, pack_box
from valor_gpu.ops.keypoints.cpu import FoundKeypoints, Keypoints
from valor_gpu.ops.pairs.cpu import Found, first_rows
from valor_gpu.ops.pairs.reference import find, joined, row_hashes, valid_rows

_KEYPOINTS, _GT_BOX, _GT_FLAG = 24, 4, 7
_NEGATIVE_AREA, _NOT_POSITIVE_AREA = 26, 27


def rounded_exp(values: Tensor) -> Tensor:
    """The double nearest to the exponential of each value, which is at most 0; 0 below -708."""
    with localcontext() as context:
        context.prec = 40
        rounded = [float(Decimal(value).exp()) if value >= -708 else 0.0 for value in values.tolist()]
    return torch.tensor(rounded, dtype=torch.float64)


def _sum(values: Tensor) -> float:
    """In numpy's order."""
    return float(values.numpy().sum())


def _extent(points: Tensor) -> Tensor:
    """Xywh of the keypoints ``[K, 3]``."""
    low, high = points[:, :2].amin(0), points[:, :2].amax(0)
    return torch.cat((low, high - low))


def oks(points: Tensor, gt_points: Tensor, gt_box: Tensor | None, gt_area: Tensor, variances: Tensor) -> float:
    """The similarity of two rows of keypoints, float64 ``[K, 3]`` on the CPU."""
    visible = gt_points[:, 2] > 0
    if bool(visible.any()):
        d = points[:, :2] - gt_points[:, :2]
    else:
        box = _extent(gt_points) if gt_box is None else gt_box
        low, high = box[:2] - box[2:], box[:2] + box[2:] * 2
        d = (low - points[:, :2]).clamp(min=0) + (points[:, :2] - high).clamp(min=0)
        visible = ~visible
    e = (d[:, 0] * d[:, 0] + d[:, 1] * d[:, 1]) / variances / (gt_area + 2.0**-52) / 2
    return _sum(rounded_exp(-e[visible])) / int(visible.sum())


def _variances(given: Keypoints) -> Tensor:
    return torch.from_numpy((np.asarray(given.sigmas, np.float64) * 2) ** 2)


def similarity(given: Keypoints) -> tuple[Tensor, Tensor]:
    """The similarities of all pairs, and an error code."""
    device, variances = given.points.device, _variances(given)
    points, gts, areas = (x.double().cpu() for x in (given.points, given.gt_points, given.gt_areas))
    boxes = None if given.gt_boxes is None else given.gt_boxes.cpu()
    rows = [
        [oks(a, b, None if boxes is None else boxes[j], areas[j], variances) for j, b in enumerate(gts)] for a in points
    ]
    codes = [NO_ERROR, *(code for i, row in enumerate(points) if (code := _error(row, 0, i)) != NO_ERROR)]
    codes += [_gt_error(given, j, 0, j, 0, False) for j in range(len(gts))]
    table = torch.tensor(rows, dtype=torch.float64, device=device).reshape(len(points), len(gts))
    return table, torch.tensor(min(codes), device=device)


def _error(points: Tensor, image: int, position: int) -> int:
    return NO_ERROR if bool(points[:, :2].isfinite().all()) else pack_box(image, position, _KEYPOINTS)


def _gt_error(given: Keypoints, row: int, image: int, position: int, flag: int, user: bool) -> int:
    """The code of a ground truth."""
    area, kind = float(given.gt_areas[row]), 0
    if not bool(given.gt_points[row].isfinite().all()):
        kind = _KEYPOINTS + 1
    elif given.gt_boxes is not None and not bool(given.gt_boxes[row].isfinite().all()):
        kind = _GT_BOX
    elif not np.isfinite(area) or area < 0 or (user and area == 0):
        kind = _NOT_POSITIVE_AREA if user else _NEGATIVE_AREA
    elif user and flag not in (0, 1):
        kind = _GT_FLAG
    return pack_box(image, position, kind) if kind else NO_ERROR


def _used(sizes: list[int], valid: list[int]) -> list[tuple[int, int] | None]:
    """Of each row its image and its position there, None for padding."""
    rows = enumerate(zip(sizes, valid))
    return [(image, at) if at < n else None for image, (size, n) in rows for at in range(size)]


def run(batch: MatchBatch, given: Keypoints, lowest: float, agnostic: bool, user: bool) -> FoundKeypoints:
    """Reference of the op; see :func:`valor_gpu.ops.keypoints.op.keypoint_pairs` for the definition."""
    device, variances, sizes = given.points.device, _variances(given), batch.lengths.tolist()
    first_rows(batch.lengths)
    places = [_used(*side) for side in zip(sizes, valid_rows(batch))]
    points, gts, own = (x.double().cpu() for x in (given.points, given.gt_points, given.gt_areas))
    boxes = None if given.gt_boxes is None else given.gt_boxes.cpu()
    flags = joined(batch.gt_flags).long().cpu() if batch.gt_flags else torch.zeros(len(gts), dtype=torch.int64)

    def similarity(row: int, j: int, crowd: bool) -> float:
        return oks(points[row], gts[j], None if boxes is None else boxes[j], own[j], variances)

    pairs = find(batch, lowest, agnostic, similarity, device)
    codes = [NO_ERROR, *(_error(points[i], *place) for i, place in enumerate(places[0]) if place)]
    codes += [_gt_error(given, j, *place, int(flags[j]), user) for j, place in enumerate(places[1]) if place]
    used = [torch.tensor([place is not None for place in side], dtype=torch.bool) for side in places]
    extents = [_extent(row)[2:].prod() for row in points]
    areas = torch.stack(extents) if extents else torch.zeros(0, dtype=torch.float64)
    content = gts.flatten(1) if boxes is None else torch.cat((gts.flatten(1), boxes), 1)
    hidden = (gts[:, :, 2] > 0).any(1).logical_not() & user
    columns = (areas, own, row_hashes(points.flatten(1)), row_hashes(content), flags | hidden * IGNORED)
    clean = [torch.where(used[i % 2], column, 0).to(device) for i, column in zip((0, 1, 0, 1, 1), columns)]
    error = torch.tensor(min(codes), device=device)
    return FoundKeypoints(Found._make([*vars(pairs).values(), *clean[:4], error]), clean[4].to(torch.uint8))
