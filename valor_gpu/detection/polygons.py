"""Polygons as the geometry of a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.detection.masks import assign_stored
from valor_gpu.inputs.polygon_rows import polygon_batch
from valor_gpu.ops.assign.match_batch import MatchBatch, Matched, MatchRule
from valor_gpu.ops.polygon_areas.op import Sides, polygon_iou, polygon_pairs


@dataclass(frozen=True)
class PolygonShapes:
    """Polygons compared by the area in both over the area in any, against a crowd over that of the detection."""

    width: int = 0

    def read(self, preds: Any, target: Any) -> tuple[MatchBatch, Sides]:
        """See :class:`valor_gpu.detection.geometry.Geometry`; likewise below."""
        return polygon_batch(preds, target)

    def pairs(self, batch: MatchBatch, shapes: Sides, rule: MatchRule) -> tuple[MatchBatch, Tensor]:  # noqa: D102
        return polygon_pairs(batch, shapes, rule)

    def match(self, batch: MatchBatch, shapes: Sides, rule: MatchRule, error: Tensor | None) -> Matched:  # noqa: D102
        return assign_stored(*self.pairs(batch, shapes, rule), rule, error)

    def ious(self, batch: MatchBatch, shapes: Sides) -> list[Tensor]:
        """float64 ``[D_i, G_i]`` of each image."""
        flags = torch.cat([t.reshape(-1) for t in batch.gt_flags]).bool() if batch.gt_flags else None
        device = batch.labels[0].device
        ends = np.pad(np.cumsum(batch.lengths.numpy(), 1), ((0, 0), (1, 0)))
        tables = []
        for image in range(ends.shape[1] - 1):
            rows, gt_rows = (np.arange(side[image], side[image + 1]) for side in ends)
            crowd = None if flags is None else flags[int(ends[1, image]) : int(ends[1, image + 1])]
            tables.append(polygon_iou(shapes[0].take(rows), shapes[1].take(gt_rows), crowd=crowd, device=device))
        return tables
