"""One LVIS evaluation: federated rows matched, their arrays, and what lvis-api keeps of every cell. No torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.accumulation import source_of_records
from valor_gpu.coco.engine import engine_on
from valor_gpu.coco.federated import FederatedRows, federated_rows
from valor_gpu.coco.ids import positions, sorted_unique
from valor_gpu.coco.match_layout import EvaluationRecords, as_ids, batch_of
from valor_gpu.coco.selection import Selection
from valor_gpu.inputs.coco import Dataset
from valor_gpu.ops.accumulate_types import RecordShape
from valor_gpu.ops.match_batch import MatchBatch, MatchRule

_NO_LIMIT = 2**31 - 1  # of a cell: the limit of an image has been applied

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class FederatedRecords:
    """What an evaluation leaves.

    Attributes:
        params: of the evaluation.
        rows: what was evaluated.
        records: of the rows, classes in the order of ``known``.
        known: int64, the categories ascending; one number for all where they are pooled.
    """

    params: Any
    rows: FederatedRows
    records: EvaluationRecords
    known: NDArray[np.int64]

    @property
    def categories(self) -> int:
        """K of the arrays."""
        return len(self.params.cat_ids) if self.params.use_cats else 1

    def arrays(self) -> tuple[Array, Array]:
        """Precision ``[T, R, K, A]`` and recall ``[T, K, A]``."""
        p, shape = self.params, self.records.shape
        chosen = positions(as_ids("cat_ids", p.cat_ids), self.known).tolist() if p.use_cats else [0]
        selection = Selection(chosen, list(range(shape.areas)), None, [_NO_LIMIT], (shape.areas, len(p.img_ids)))
        counts = [shape.thresholds, len(p.rec_thrs), len(chosen), shape.areas, 1]
        source = source_of_records(self.records, selection, [0], p.rec_thrs, counts, True)
        recall, precision = source.recall()
        return precision[..., 0], recall[..., 0]


def evaluate_federated(ground_truths: Dataset, detections: Dataset, params: Any, device: Any) -> FederatedRecords:
    """Matches the rows that LVIS evaluates.

    Args:
        ground_truths: columns with image objects.
        detections: columns.
        params: :class:`valor_gpu.coco.LVISParams`, kept as they are.
        device: see :func:`valor_gpu.coco.engine.engine_on`.
    """
    engine = engine_on(device)
    categories = as_ids("cat_ids", params.cat_ids)
    known = sorted_unique(categories) if params.use_cats else np.zeros(1, np.int64)
    rows = federated_rows(
        ground_truths,
        detections.annotations,
        as_ids("img_ids", params.img_ids),
        known if params.use_cats else categories,
        bool(params.use_cats),
    )
    rule = MatchRule.make(params.iou_thrs, params.area_rng, [_NO_LIMIT])
    matched = engine.assign(_batch(rows), rule)
    layout = rows.layout
    shape = RecordShape(len(rule.thresholds), len(rule.area_ranges), 1)
    records = EvaluationRecords(
        engine, matched.detections, matched.ground_truths, layout.image_positions(), layout.lengths(), len(known), shape
    )
    return FederatedRecords(params, rows, records, known)


def _batch(rows: FederatedRows) -> MatchBatch:
    """The rows as columns to match, with the flags of LVIS."""
    return replace(batch_of(rows.layout, True), flags=[rows.flags], gt_flags=[rows.gt_flags])
