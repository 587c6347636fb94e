"""Evaluation by the torch ops: on CUDA devices, and on the CPU without the C++ library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.ops.accumulate import op as steps
from valor_gpu.ops.accumulate.types import AccumulateChoices, Curves, Ordered, RecordShape
from valor_gpu.ops.assign.match_batch import COLUMNS, MatchBatch, Matched, MatchRule
from valor_gpu.ops.assign.op import assign
from valor_gpu.ops.boxes.op import box_iou
from valor_gpu.ops.error_codes import describe_box, raise_error
from valor_gpu.ops.keypoints.cpu import Keypoints
from valor_gpu.ops.runs.op import Runs
from valor_gpu.provenance import op_provenance
from valor_gpu.ragged import Ragged
from valor_gpu.reduce.matched_tables import Truths
from valor_gpu.reduce.resampled_tables import ordered_table, weights_on
from valor_gpu.stats.draws import Draws


@dataclass(frozen=True)
class TorchEngine:
    """The torch ops on a device; see :class:`valor_gpu.coco.engine.Engine`."""

    masks_at_once: ClassVar[int] = 1 << 62

    device: torch.device

    def assign(self, batch: MatchBatch, rule: MatchRule) -> Matched:
        """Matches on the device: views of the columns on the CPU, one copy of each elsewhere."""
        matched = assign(self._batch(batch), rule)
        raise_error(matched.error, describe_box)
        return matched

    def run_pairs(
        self, batch: MatchBatch, masks: Runs, gt_masks: Runs, lowest: float, boundaries: tuple[Runs, Runs] | None
    ) -> MatchBatch:
        """Pairs of masks, found on the device."""
        from valor_gpu.ops.run_pairs.op import run_pairs

        around = None if boundaries is None else (self._runs(boundaries[0]), self._runs(boundaries[1]))
        made = run_pairs(self._batch(batch), self._runs(masks), self._runs(gt_masks), lowest, boundaries=around)
        return made  # type: ignore[no-any-return]

    def keypoint_pairs(self, batch: MatchBatch, keypoints: Keypoints, lowest: float) -> MatchBatch:
        """Pairs of keypoints, found on the device."""
        from valor_gpu.ops.keypoints.op import find_keypoint_pairs

        points, gt_points, boxes, areas = map(self._there, keypoints[:4])
        given = Keypoints(points, gt_points, boxes, areas, keypoints.sigmas)
        return find_keypoint_pairs(self._batch(batch), given, lowest)

    def box_pairs(self, batch: MatchBatch, lowest: float) -> MatchBatch:
        """Pairs of upright boxes, found on the device."""
        from valor_gpu.ops.box_pairs.op import box_pairs

        found, error = box_pairs(self._batch(batch), MatchRule.make([lowest], [(0.0, np.inf)], [1]))
        raise_error(error, describe_box)
        return found

    def rotated_pairs(self, batch: MatchBatch, lowest: float) -> tuple[MatchBatch, int]:
        """Pairs of rotated boxes, found on the device, and an error code."""
        from valor_gpu.ops.rotated.op import find_rotated_pairs

        return find_rotated_pairs(self._batch(batch), lowest)

    def _runs(self, runs: Runs) -> Runs:
        return Runs(*(self._there(part) for part in (runs.counts, runs.offsets, runs.sizes)))

    def _batch(self, batch: MatchBatch) -> MatchBatch:
        columns: dict[str, Any] = {name: [self._there(column) for column in getattr(batch, name)] for name in COLUMNS}
        lengths = batch.lengths if isinstance(batch.lengths, Tensor) else torch.from_numpy(batch.lengths)
        return replace(batch, lengths=lengths, **columns)

    def choose(self, rows: Tensor, chosen: NDArray[np.bool_]) -> Tensor:
        """The rows that are chosen, in order."""
        return rows[self._there(chosen)]

    def order_records(
        self, detections: Any, starts: NDArray[np.int64], lengths: NDArray[np.int64], labels: NDArray[np.int64],
        limits: int,
    ) -> Ordered:  # fmt: skip
        """The order of detection rows, tensors on the device."""
        rows, images = self._there(detections), [torch.from_numpy(column) for column in (starts, lengths)]
        return steps.order_records(rows, images[0], images[1], self._there(labels), limits)

    def count_ground_truths(self, ground_truths: Any, labels: NDArray[np.int64], areas: int) -> NDArray[np.int64]:
        """Ground truths that count, int64 ``[K, A]``."""
        counts = steps.count_ground_truths(self._there(ground_truths), self._there(labels), areas)
        return counts.cpu().numpy()

    def precision_recall(
        self, detections: Any, ordered: Ordered, positives: NDArray[np.int64], recalls: NDArray[np.float64],
        shape: RecordShape, full: bool,
    ) -> Curves:  # fmt: skip
        """Precision, recall and scores."""
        rows, grid = self._there(detections), torch.from_numpy(recalls)
        found = steps.precision_recall(rows, ordered, self._there(positives), grid, shape, full)
        return Curves(*(curve.cpu().numpy() for curve in found))

    def box_iou(
        self, boxes1: NDArray[np.float64], boxes2: NDArray[np.float64], crowd: NDArray[np.bool_],
        lengths: NDArray[np.int64],
    ) -> NDArray[np.float64]:  # fmt: skip
        """IoU of xywh boxes, the pairs of each segment one after another."""
        sides = [Ragged(self._there(boxes), torch.from_numpy(n)) for boxes, n in zip((boxes1, boxes2), lengths)]
        pairs = box_iou(sides[0], sides[1], box_format="xywh", crowd=self._there(crowd))
        return pairs.values.cpu().numpy()

    def resampled(
        self, detections: Any, ground_truths: Any, images: NDArray[np.int64], choices: AccumulateChoices
    ) -> tuple[Callable[[Any], tuple[Any, Any, Any]], Truths]:
        """What gives the numbers of replicates, and the ground truths that count."""
        rows, gt_rows, table = map(self._there, (detections, ground_truths, images))
        found = ordered_table(rows, gt_rows, table, choices)
        return found.run, found.truths

    def weights(self, draws: Draws) -> Tensor:
        """The weights of draws on the device."""
        return weights_on(self.device, draws)

    def provenance(self) -> Mapping[str, Any]:
        """Device, and the kernels of the ops that this module calls."""
        pairs = (f"valor_gpu.ops.{name}.op" for name in ("run_pairs", "keypoints", "rotated"))  # imported where needed
        return op_provenance(self.device, __name__, *pairs)

    def _there(self, array: Any) -> Tensor:
        """A numpy array, or a tensor that already is one, on the device."""
        tensor = torch.from_numpy(array) if isinstance(array, np.ndarray) else array
        return tensor.to(self.device)
