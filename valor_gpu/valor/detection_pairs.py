"""The pairs of a prediction and a ground truth of one label key that overlap, of any kinds of geometry."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.ops._rotated_cpu import CORNERS
from valor_gpu.ops.match_batch import MatchBatch, MatchRule
from valor_gpu.ops.overlaps import Overlaps
from valor_gpu.ops.rotated import rotated_pairs
from valor_gpu.valor.columns import Columns, Rows
from valor_gpu.valor.detection_shapes import Shapes

Integers = NDArray[np.int64]
_ABOVE_ZERO = math.ulp(0.0)  # lowest threshold: every pair that overlaps at all


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


def find_overlaps(columns: Columns, *, device: torch.device | str | None = None) -> FoundOverlaps:
    """Finds the pairs of each label key that overlap, and their IoU.

    Args:
        columns: of a detection.
        device: where pairs are found and stay; the CPU by default.
    """
    place = torch.device("cpu" if device is None else device)
    keys = list(dict.fromkeys(key for key, _ in columns.labels))
    codes = {key: code for code, key in enumerate(keys)}
    key_of_label = np.array([codes[key] for key, _ in columns.labels], np.int64)
    sides = [_Side.of(rows, len(columns.datums), key_of_label) for rows in (columns.predictions, columns.groundtruths)]
    lengths = torch.from_numpy(np.stack([side.lengths(np.ones(len(side.order), np.bool_)) for side in sides]))
    found = _box_pairs(sides, place)
    return FoundOverlaps(_joined(columns, sides, lengths, [found], place), sides[0].order, sides[1].order)


class _Side(NamedTuple):
    """Rows of one side in the order of their datums.

    Attributes:
        rows: as they came.
        order: int64 ``[N]``, places of rows.
        datums: int64 ``[N]``, of the rows in order, ascending; likewise ``keys`` and ``annotations``.
        keys: code of the label key.
        annotations: rows of ``shapes``.
        shapes: of the annotations.
        count: number of datums.
    """

    rows: Rows
    order: Integers
    datums: Integers
    keys: Integers
    annotations: Integers
    shapes: Shapes
    count: int

    @classmethod
    def of(cls, rows: Rows, datums: int, key_of_label: Integers) -> _Side:
        assert rows.shapes is not None, "columns of a detection"
        order = np.argsort(rows.datum, kind="stable")
        places, labels = rows.datum[order].astype(np.int64), rows.label[order]
        return cls(rows, order, places, key_of_label[labels], rows.annotation[order], rows.shapes, datums)

    def lengths(self, chosen: NDArray[np.bool_]) -> Integers:
        """Chosen rows of each datum, int64 ``[datums]``."""
        return np.bincount(self.datums[chosen], minlength=self.count)


class _Pairs(NamedTuple):
    """Pairs of rows in order: int64 ``[P]``, int64 ``[P]``, float64 ``[P]``."""

    rows: Tensor
    gt_rows: Tensor
    ious: Tensor


def _search(
    sides: list[_Side],
    chosen: list[NDArray[np.bool_]],
    place: torch.device,
    find: Callable[[MatchBatch, MatchRule], tuple[MatchBatch, Any]],
    **geometry: Any,
) -> _Pairs:
    """The pairs of chosen rows of both sides.

    Args:
        sides: predictions and ground truths.
        chosen: which rows of each.
        place: where pairs are found.
        find: an op that stores pairs.
        geometry: the columns of the batch that it reads.
    """
    rows = [torch.from_numpy(np.flatnonzero(mask)).to(place) for mask in chosen]
    lengths = np.stack([side.lengths(mask) for side, mask in zip(sides, chosen)])
    keys = [torch.from_numpy(side.keys[mask]).to(place) for side, mask in zip(sides, chosen)]
    batch = MatchBatch(torch.from_numpy(lengths), labels=[keys[0]], gt_labels=[keys[1]], **geometry)
    rule = MatchRule.make([_ABOVE_ZERO], [[0, math.inf]], [1])
    pairs = find(batch, rule)[0].pairs
    assert pairs is not None
    counts = pairs.counts.long()
    used = int(counts.sum())
    detections = torch.arange(len(counts), device=place).repeat_interleave(counts, output_size=used)
    starts = counts.cumsum(0) - counts
    slots = pairs.offsets[:-1][detections] + torch.arange(used, device=place) - starts[detections]
    firsts = np.cumsum(lengths[1]) - lengths[1]
    first = torch.from_numpy(np.repeat(firsts, lengths[0])).to(place)
    gts = first[detections] + pairs.ground_truths[slots].long()
    return _Pairs(rows[0][detections], rows[1][gts], pairs.similarities[slots])


def _box_pairs(sides: list[_Side], place: torch.device) -> _Pairs:
    boxes = [_corners(side.shapes)[side.annotations] for side in sides]
    given = {name: [torch.from_numpy(part).to(place)] for name, part in zip(("boxes", "gt_boxes"), boxes)}
    chosen = [np.ones(len(side.order), np.bool_) for side in sides]
    return _search(sides, chosen, place, rotated_pairs, **given, box_format=CORNERS, gt_box_format=CORNERS)


def _corners(shapes: Shapes) -> NDArray[np.float64]:
    corners: NDArray[np.float64] = shapes.boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]]
    corners[shapes.turned] = shapes.corners
    return corners


def _joined(
    columns: Columns, sides: list[_Side], lengths: Tensor, found: list[_Pairs], place: torch.device
) -> Overlaps:
    """All pairs, those of a detection by IoU descending, of equal ones the later ground truth first."""
    labels, gt_labels = (torch.from_numpy(side.rows.label[side.order].astype(np.int64)).to(place) for side in sides)
    rows, gt_rows, ious = (torch.cat(parts) for parts in zip(*found))
    if len(found) > 1:
        order = gt_rows.argsort(descending=True)
        for keys in (-ious, rows):
            order = order[keys[order].argsort(stable=True)]
        rows, gt_rows, ious = rows[order], gt_rows[order], ious[order]
    scores = torch.from_numpy(sides[0].rows.score[sides[0].order]).to(place)
    counts = torch.bincount(rows, minlength=len(labels))
    return Overlaps(lengths.to(place), labels, scores, gt_labels, counts, gt_rows, ious)
