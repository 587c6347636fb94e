"""Instance masks as the geometry of a metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.inputs.boxes import read_batch
from valor_gpu.inputs.instance_masks import InstanceMasks, instance_masks
from valor_gpu.ops.assign.match_batch import AGNOSTIC, MatchBatch, Matched, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.boundary.cpu import boundary_runs
from valor_gpu.ops.boundary.op import mask_boundary
from valor_gpu.ops.masks.op import dense_pairs
from valor_gpu.ops.run_pairs.op import deferred_run_pairs
from valor_gpu.ops.runs import cpu as _runs_cpu
from valor_gpu.ops.runs.op import Runs

Sides = tuple[InstanceMasks, InstanceMasks]


@dataclass(frozen=True)
class MaskRows:
    """Masks compared by pixels in both over pixels in any, against a crowd over those of the detection."""

    width: int = 0

    def read(self, preds: Any, target: Any) -> tuple[MatchBatch, Sides]:
        """Reads a batch, as :class:`valor_gpu.detection.geometry.Geometry` says; likewise below."""
        batch = read_batch(preds, target, None)
        return batch, self.beside(preds, target, batch)

    def beside(self, preds: Any, target: Any, batch: MatchBatch) -> Sides:
        """The masks of a batch whose other columns are read."""
        return instance_masks(preds, target, batch)

    def pairs(
        self, batch: MatchBatch, shapes: Sides, rule: MatchRule, error: Tensor | None = None
    ) -> tuple[MatchBatch, Tensor]:
        """Returns the batch with pairs, and an error code: ``error`` where it is given and pairs have no errors."""
        plain = replace(batch, boxes=[], gt_boxes=[])
        masks, gt_masks = shapes
        if masks.dense is not None and gt_masks.dense is not None:
            return dense_pairs(plain, masks.dense, gt_masks.dense, rule, error=error)
        return _coded_pairs(plain, [masks.runs, gt_masks.runs], rule)

    def match(self, batch: MatchBatch, shapes: Sides, rule: MatchRule, error: Tensor | None) -> Matched:  # noqa: D102
        return assign_stored(*self.pairs(batch, shapes, rule, error), rule, error)

    def tables(self, masks: Runs, gt_masks: Runs, crowd: Any) -> Any:
        """float64 ``[D, G]`` of the masks of an image."""
        return _runs_cpu.iou(masks, gt_masks, crowd)

    def ious(self, batch: MatchBatch, shapes: Sides) -> list[Tensor]:
        """float64 ``[D_i, G_i]`` of each image."""
        flags = torch.cat([t.reshape(-1) for t in batch.gt_flags]).cpu().numpy() != 0 if batch.gt_flags else None
        runs = [side.runs for side in shapes]
        ends = np.pad(np.cumsum(batch.lengths.numpy(), 1), ((0, 0), (1, 0)))
        tables = []
        for image in range(ends.shape[1] - 1):
            rows, gt_rows = (np.arange(side[image], side[image + 1]) for side in ends)
            crowd = None if flags is None else flags[gt_rows]
            tables.append(torch.from_numpy(self.tables(runs[0].take(rows), runs[1].take(gt_rows), crowd)))
        return tables


@dataclass(frozen=True)
class BoundaryRows(MaskRows):
    """Masks compared by the smaller one of IoU of masks and of their boundaries, against a crowd by masks alone.

    On the CPU dense masks become run lengths, whose boundaries take a sixth of the time.
    """

    def pairs(  # noqa: D102
        self, batch: MatchBatch, shapes: Sides, rule: MatchRule, error: Tensor | None = None
    ) -> tuple[MatchBatch, Tensor]:
        if batch.labels[0].is_cuda and all(side.dense is not None for side in shapes):
            return self.dense_pairs(batch, shapes, rule, error)
        runs = [side.runs for side in shapes]
        return _coded_pairs(replace(batch, boxes=[], gt_boxes=[]), runs, rule, [boundary_runs(masks) for masks in runs])

    def dense_pairs(
        self, batch: MatchBatch, shapes: Sides, rule: MatchRule, error: Tensor | None = None
    ) -> tuple[MatchBatch, Tensor]:
        """Pairs of dense masks; boundaries take as much memory as the masks."""
        masks, gt_masks = (side.dense or [] for side in shapes)
        edges, gt_edges = ([mask_boundary(image) for image in side] for side in (masks, gt_masks))
        return dense_pairs(replace(batch, boxes=[], gt_boxes=[]), masks, gt_masks, rule, (edges, gt_edges), error)

    def tables(self, masks: Runs, gt_masks: Runs, crowd: Any) -> Any:  # noqa: D102
        whole, edges = super().tables(masks, gt_masks, crowd), (boundary_runs(masks), boundary_runs(gt_masks))
        smaller = np.minimum(whole, _runs_cpu.iou(*edges, crowd))
        return smaller if crowd is None else np.where(crowd, whole, smaller)


def _coded_pairs(
    batch: MatchBatch, masks: Sequence[Runs], rule: MatchRule, boundaries: Sequence[Runs] = ()
) -> tuple[MatchBatch, Tensor]:
    """Pairs of run lengths, on the device of the labels."""
    device = batch.labels[0].device
    sides, edges = ([_tensors(runs, device) for runs in given] for given in (masks, boundaries))
    lowest, agnostic = float(rule.thresholds.min()), bool(rule.options & AGNOSTIC)
    return deferred_run_pairs(batch, sides[0], sides[1], lowest, agnostic, (edges[0], edges[1]) if edges else None)


def _tensors(runs: Runs, device: torch.device) -> Runs:
    counts, offsets, sizes = (torch.from_numpy(a).to(device) for a in (runs.counts, runs.offsets, runs.sizes))
    return Runs(counts, offsets, sizes)


def with_mask_areas(batch: MatchBatch, areas: Tensor) -> MatchBatch:
    """The batch with areas of masks where a ground truth has none of its own, as torchmetrics has it.

    Args:
        batch: ``gt_areas`` that are not positive stand for others.
        areas: float64 ``[G]``, of the masks.
    """
    areas = areas.clamp(min=torch.finfo(torch.float64).tiny)  # 0, of an empty mask, would stand for that of the box
    if not batch.gt_areas:
        return replace(batch, gt_areas=[areas])
    given = torch.cat([t.reshape(-1).double() for t in batch.gt_areas])
    return replace(batch, gt_areas=[torch.where(given <= 0, areas, given)])


def assign_stored(batch: MatchBatch, found: Tensor, rule: MatchRule, error: Tensor | None) -> Matched:
    """The records of stored pairs.

    Args:
        batch: with pairs.
        found: int64 ``[]``, the error code of the pairs; it may be ``error``.
        rule: the choices of the run.
        error: on a GPU, the code that is lowered to the first error.
    """
    matched = assign(batch, rule, found if found.is_cuda else None)
    if error is None or found is error:
        return matched
    return matched._replace(error=torch.minimum(error, found, out=error))
