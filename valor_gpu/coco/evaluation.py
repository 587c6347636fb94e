"""A COCO evaluation as data: what was matched by which parameters, and the arrays made of it. No torch."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from valor_gpu._frozen import frozen
from valor_gpu.coco.accumulation import Source, source_of_cells, source_of_records
from valor_gpu.coco.annotation_sets import columns_of
from valor_gpu.coco.engine import Engine
from valor_gpu.coco.eval_dict import EvalDict
from valor_gpu.coco.geometry import Geometry, geometry_of
from valor_gpu.coco.ids import sorted_ids
from valor_gpu.coco.layout import Layout
from valor_gpu.coco.match_layout import EvaluationRecords, evaluate_records, layout_of
from valor_gpu.coco.outcomes import MatchedRows
from valor_gpu.coco.params import check_grids
from valor_gpu.coco.selection import Cell, Selection, limit_positions, select


@frozen
class Evaluation:
    """What ``evaluate`` leaves.

    Attributes:
        ground_truth: COCO object of the ground truths, ours or pycocotools'.
        detections: COCO object of the detections.
        evaluated: parameters that the rows were matched by.
        params: parameters that ``accumulate`` takes as evaluated, ``COCOeval._paramsEval``: the same, unless a program
            changed them, as programs do that merge evaluations.
        convention: ``strict`` or ``corrected``.
        layout: rows of both sides, image after image.
        records: of the rows.
        cells: ``evalImgs`` if somebody looked at it, since it may have changed; None: the records count.
    """

    ground_truth: Any
    detections: Any
    evaluated: Any
    params: Any
    convention: str
    layout: Layout
    records: EvaluationRecords
    cells: Sequence[Cell | None] | None = None

    @property
    def strict(self) -> bool:
        """Whether the convention is pycocotools'."""
        return self.convention == "strict"

    def geometry(self) -> Geometry:
        """Returns what the rows were compared by."""
        return geometry_of(self.evaluated, self.strict)

    def _matched_rows(self) -> MatchedRows:
        return MatchedRows(self.layout, self.evaluated, self.strict, self.geometry())

    def holds(self, chosen: Selection, thresholds: int) -> bool:
        """Returns whether the records suffice for a selection and so many thresholds."""
        records = self.records
        return (
            self.cells is None
            and records.shape.thresholds <= thresholds
            and chosen.inside(records.classes, records.shape.areas, records.lengths.shape[1])
            and set(chosen.limits) <= set(self.evaluated.maxDets)
        )

    def source(self, p: Any, counts: list[int], chosen: Selection | None = None) -> Source:
        """Returns the records and curves of what ``p`` selects, or of ``chosen``.

        Args:
            p: parameters to accumulate by.
            counts: [T, R, K, A, M], sizes of the arrays.
            chosen: positions among what was evaluated.
        """
        chosen = chosen or select(p, self.params, self.strict)
        if self.holds(chosen, counts[0]):
            limits = limit_positions(chosen.limits, self.evaluated.maxDets)
            return source_of_records(self.records, chosen, limits, p.recThrs, counts, self.strict)
        cells = self.cells
        if cells is None:
            from valor_gpu.coco.cells import build_eval_imgs  # here, since most runs need no cells

            cells = build_eval_imgs(self.layout, self.evaluated, self.strict)
        return source_of_cells(chosen.cells(cells), chosen.limits, p.recThrs, counts, self.strict)

    def accumulate(self, p: Any) -> Accumulated:
        """Returns the evaluation with the arrays of what ``p`` selects."""
        counts = sizes_of(p, self.strict)
        return Accumulated(self, arrays_of(p, counts, self.source(p, counts)))


@frozen
class Accumulated:
    """An evaluation and what ``accumulate`` made of it.

    Attributes:
        evaluation: as it was then.
        arrays: ``COCOeval.eval``.
    """

    evaluation: Evaluation
    arrays: Mapping[str, Any]


def evaluate(ground_truth: Any, detections: Any, params: Any, convention: str, engine: Engine) -> Evaluation:
    """Matches every image.

    Args:
        ground_truth: COCO object of the ground truths, ours or pycocotools'.
        detections: COCO object of the detections.
        params: whose ids and limits ascend, see :func:`sort_params`; they are copied.
        convention: ``strict`` or ``corrected``.
        engine: what matches.

    Raises:
        InputError: see :meth:`valor_gpu.coco.COCOeval.evaluate`.
    """
    evaluated, strict = copy.deepcopy(params), convention == "strict"
    geometry = geometry_of(evaluated, strict)
    chosen = evaluated if strict else None  # "corrected" looks at what is not evaluated, too
    sides = columns_of("cocoGt", ground_truth, chosen), columns_of("cocoDt", detections, chosen)
    layout = layout_of(*sides, evaluated, strict, geometry)
    records = evaluate_records(layout, evaluated, strict, engine, geometry)
    return Evaluation(ground_truth, detections, evaluated, evaluated, convention, layout, records)


def sort_params(p: Any) -> None:
    """Sorts the ids and limits of parameters in place and drops repeated ids, as ``evaluate`` of pycocotools does."""
    p.imgIds = sorted_ids("imgIds", p.imgIds)
    if p.useCats:
        p.catIds = sorted_ids("catIds", p.catIds)
    p.maxDets = sorted(p.maxDets)


def sizes_of(p: Any, strict: bool) -> list[int]:
    """Returns [T, R, K, A, M] of arrays; strict names pooled categories -1 in ``p``, as pycocotools does.

    Raises:
        InputError: (corrected) a threshold or recall sample lies outside 0 to 1.
    """
    if not strict:
        check_grids(p)
    elif p.useCats != 1:
        p.catIds = [-1]
    return [len(p.iouThrs), len(p.recThrs), len(p.catIds) if p.useCats else 1, len(p.areaRng), len(p.maxDets)]


def arrays_of(p: Any, counts: list[int], source: Source) -> EvalDict:
    """Returns ``COCOeval.eval``.

    Args:
        p: parameters to accumulate by.
        counts: [T, R, K, A, M], sizes of the arrays.
        source: of the curves.
    """
    recall, last_precision = source.recall()
    date = datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S")
    known = {"params": p, "counts": counts, "date": date, "precision": None, "recall": recall, "scores": None}
    last = last_precision if source.ends_with_last_limit else None
    return EvalDict(known, source.samples, last, source.chosen, copy.deepcopy(p))
