"""What the result of a COCOeval answers about its errors: rows of the layout, and pairs of all classes on the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.detection import DetectionAnalysis
from valor_gpu.analysis.rows import Pairs, Rows
from valor_gpu.coco.evaluation_result import evaluated_names
from valor_gpu.coco.geometry import Geometry, geometry_of
from valor_gpu.coco.layout import Layout, Side
from valor_gpu.coco.match_layout import batch_of, gt_areas, gt_flags
from valor_gpu.coco.outcomes import _ranks, images_of
from valor_gpu.inputs.text_ids import plain_text
from valor_gpu.ops.match_batch import CROWD, IGNORED

if TYPE_CHECKING:
    from valor_gpu.coco.evaluator import COCOeval

_LOWEST = 0.0


class CocoAnalysis(DetectionAnalysis):
    """Answers from an evaluation by the steps of its own class.

    Args:
        evaluation: after ``evaluate()``.
        choices: of the signature of its result.
    """

    metric = "COCOeval"

    def __init__(self, evaluation: COCOeval, choices: Mapping[str, Any]) -> None:
        assert evaluation._layout is not None
        self._params, self._strict = evaluation._evaluated, evaluation.convention == "strict"
        self._truth = evaluation.cocoGt
        self._layout = in_order_of_ties(evaluation._layout)
        self._names = evaluated_names(evaluation) if self._params.useCats else ["all"]
        self.choices, self.recall_thresholds = choices, np.asarray(self._params.recThrs, np.float64)
        self._ids = [plain_text(i) if isinstance(i, str) else int(i) for i in self._params.imgIds]
        self.image_ids, self.images = self._ids, len(self._ids)

    def make_rows(self) -> Rows:
        """See :class:`DetectionAnalysis`."""
        layout, params = self._layout, self._params
        detections, ground_truths = layout.detections, layout.ground_truths
        geometry = geometry_of(params, self._strict)
        low, high = params.areaRng[0]
        areas, own = gt_areas(ground_truths), detections.take("area")
        outside = (areas < low) | (areas > high)
        flags = gt_flags(ground_truths, self._strict, geometry) & np.uint8(CROWD | IGNORED)
        scores = detections.take("score")
        return Rows(
            self._ids, self._names, layout.lengths(), scores, detections.labels.astype(np.int64),
            _ranks(detections, scores) < params.maxDets[-1], (own < low) | (own > high),
            ground_truths.labels.astype(np.int64), flags | outside.astype(np.uint8) * np.uint8(IGNORED),
            detections.take("id"), ground_truths.take("id"),
            boxes=self._boxes, image_fields=lambda place: self._truth.imgs[self._ids[place]],
            corners=lambda side: getattr(layout, side).take("bbox"),
            category_ids=list(params.catIds) if params.useCats else None,
        )  # fmt: skip

    def _boxes(self, side: str, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
        return [{"bbox": box} for box in getattr(self._layout, side).take("bbox")[rows].tolist()]

    def make_pairs(self) -> Pairs:
        """See :class:`DetectionAnalysis`."""
        return pairs_of(self._layout, geometry_of(self._params, self._strict), self._strict)


def pairs_of(layout: Layout, geometry: Geometry, strict: bool) -> Pairs:
    """Returns the pairs of a layout that overlap, of any classes."""
    common = batch_of(layout, strict, geometry)
    everywhere = replace(
        common,
        labels=[np.zeros(len(layout.detections), np.int32)],
        gt_labels=[np.zeros(len(layout.ground_truths), np.int32)],
    )
    from valor_gpu.coco.engine import engine_on

    made = geometry.batch(layout, everywhere, np.nextafter(0.0, 1.0), engine_on())
    if made.pairs is None:  # upright boxes, which matching compares itself
        from valor_gpu.ops._box_pairs_cpu import box_pairs

        made = box_pairs(made, float(np.nextafter(0.0, 1.0)))
    found = made.pairs
    assert found is not None
    counts = np.asarray(found.counts, np.int64)
    used = np.repeat(np.asarray(found.offsets)[:-1] - (counts.cumsum() - counts), counts) + np.arange(counts.sum())
    first = layout.ground_truths.lengths.cumsum() - layout.ground_truths.lengths
    firsts = np.repeat(first[images_of(layout.detections)], counts)
    return Pairs(_LOWEST, counts, np.asarray(found.ground_truths)[used] + firsts, np.asarray(found.similarities)[used])


def in_order_of_ties(layout: Layout) -> Layout:
    """Returns the layout with its images by ascending id, the order that breaks ties of scores."""
    order = layout.image_positions()
    if bool((order == np.arange(len(order))).all()):
        return layout
    sides = (_reordered(side, order) for side in (layout.ground_truths, layout.detections))
    return Layout(next(sides), next(sides), np.arange(len(order)))


def _reordered(side: Side, order: NDArray[np.int64]) -> Side:
    lengths: NDArray[np.int64] = side.lengths[order]
    starts: NDArray[np.int64] = (side.lengths.cumsum() - side.lengths)[order]
    begin = starts - (lengths.cumsum() - lengths)
    rows = np.repeat(begin, lengths) + np.arange(len(side))
    own: Any = rows if side.rows is None else side.rows[rows]
    return Side(side.columns, own, side.labels[rows], lengths)
