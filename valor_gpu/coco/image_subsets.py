"""Evaluations of some of the images that were evaluated, without matching them again. No torch."""

from __future__ import annotations

import contextlib
import copy
import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.coco.evaluator import COCOeval, _Unset
from valor_gpu.coco.geometry import geometry_of
from valor_gpu.coco.layout import Layout, select_rows
from valor_gpu.coco.match_layout import EvaluationRecords, evaluate_records

if TYPE_CHECKING:
    from valor_gpu.coco.lvis_eval import LVISEval
    from valor_gpu.coco.lvis_records import FederatedRecords
    from valor_gpu.result import Result

Ints = NDArray[np.int64]


@frozen
class Subset:
    """Some images of an evaluation.

    Attributes:
        layout: their rows.
        records: their records.
        detections: int64 ``[D']``, places of the detections among all.
    """

    layout: Layout
    records: EvaluationRecords
    detections: Ints


def subset_of(layout: Layout, records: EvaluationRecords, wanted: Ints) -> Subset:
    """Returns the rows and records of some images.

    Args:
        layout: of the evaluation.
        records: of the evaluation.
        wanted: ascending positions among the sorted ids of images.
    """
    chosen = np.zeros(len(layout.images), np.bool_)
    chosen[records.image_positions[wanted]] = True
    order = np.flatnonzero(chosen)
    (detections, rows), (ground_truths, _) = (
        select_rows(side, order) for side in (layout.detections, layout.ground_truths)
    )
    part = Layout(ground_truths, detections, np.searchsorted(wanted, layout.images[order]))
    engine, lengths, hashes = records.engine, records.lengths, records.gt_hashes
    kept = (np.repeat(chosen, of_side) for of_side in lengths)
    tables = [engine.choose(table, rows) for table, rows in zip((records.detections, records.ground_truths), kept)]
    return Subset(part, EvaluationRecords(
        engine, tables[0], tables[1], part.image_positions(), np.ascontiguousarray(lengths[:, order]), records.classes,
        records.shape, records.doubts, hashes if hashes is None else partial(_some_hashes, hashes, order),
    ), rows)  # fmt: skip


def _some_hashes(hashes: Callable[[], Ints], images: Ints) -> Ints:
    return hashes()[images]


def coco_subset(evaluation: COCOeval, accumulated: Any, wanted: Ints) -> Result:
    """Returns the result of a COCOeval of some images.

    Args:
        evaluation: after ``accumulate``, with the steps of its own class.
        accumulated: the parameters of ``accumulate``.
        wanted: ascending positions among the sorted ids of images.
    """
    layout, records = evaluation._layout, evaluation._records
    assert layout is not None and records is not None
    ids = [evaluation._evaluated.imgIds[place] for place in wanted.tolist()]
    if shares_ids(layout, evaluation._strict):
        return _fresh(evaluation, accumulated, ids)
    part, subset = copy.copy(evaluation), subset_of(layout, records, wanted)
    part._evaluated, part._paramsEval, part.params = (
        with_images(given, ids) for given in (evaluation._evaluated, evaluation._paramsEval, evaluation.params)
    )
    part._layout, part._records = subset.layout, subset.records
    if any(records.doubts.values()):  # found while matching
        strict, evaluated = evaluation._strict, part._evaluated
        part._records = evaluate_records(
            subset.layout, evaluated, strict, records.engine, geometry_of(evaluated, strict)
        )
    part._evalImgs = part._ious = part._gt_dicts = part._dt_dicts = _Unset
    with contextlib.redirect_stdout(io.StringIO()):
        COCOeval.accumulate(part, with_images(accumulated, ids))
    return COCOeval.result(part)


def shares_ids(layout: Layout, strict: bool) -> bool:
    """Whether annotations share ids in pycocotools' convention, where the last one of an id stands for all of them.

    The last one may be of another image, so that a run on some images finds other rows of them than a run on all.
    """
    return strict and any(side.columns.repeated_ids for side in (layout.ground_truths, layout.detections))


def _fresh(evaluation: COCOeval, accumulated: Any, ids: Sequence[Any]) -> Result:
    """The result of other images, matched anew."""
    evaluated = evaluation._evaluated
    chosen = {"device": evaluation.device, "convention": evaluation.convention}
    fresh = COCOeval(evaluation.cocoGt, evaluation.cocoDt, evaluated.iouType, **chosen)
    fresh.params, fresh._warns = copy.deepcopy(with_images(evaluated, ids)), False
    with contextlib.redirect_stdout(io.StringIO()):
        fresh.evaluate()
        fresh.accumulate(with_images(accumulated, ids))
    return fresh.result()


def lvis_subset(evaluation: LVISEval, wanted: Ints) -> Result:
    """Returns the result of an LVISEval of some images.

    Args:
        evaluation: after ``run``.
        wanted: ascending positions among the sorted ids of images.
    """
    records = evaluation._records
    assert records is not None
    part, params = copy.copy(evaluation), copy.copy(records.params)
    part.params, part._warns = copy.copy(evaluation.params), False
    part.params.img_ids = params.img_ids = [records.params.img_ids[place] for place in wanted.tolist()]
    if shares_ids(records.rows.layout, records.strict):
        part.evaluate()
    else:
        part._records = _lvis_records(records, params, wanted)
    part._eval_imgs, part.eval, part.results = None, {}, type(evaluation.results)()
    part.accumulate()
    part.summarize()
    return part.result()


def _lvis_records(whole: FederatedRecords, params: Any, wanted: Ints) -> FederatedRecords:
    """Records of some images, whose ids ``params`` have."""
    subset = subset_of(whole.rows.layout, whole.records, wanted)
    rows = replace(whole.rows, layout=subset.layout, flags=whole.rows.flags[subset.detections])
    part = replace(whole, params=params, rows=rows, records=subset.records)
    if not any(whole.records.doubts.values()):
        return part
    again = evaluate_records(subset.layout, part.whole, part.strict, subset.records.engine, part.geometry())
    return replace(part, records=again)


def with_images(params: Any, ids: Sequence[Any]) -> Any:
    """Returns parameters that name other images."""
    same = copy.copy(params)
    same.imgIds = list(ids)
    return same
