"""Evaluations of some of the images that were evaluated, without matching them again. No torch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.coco.evaluation import Accumulated, Evaluation, evaluate
from valor_gpu.coco.federated_evaluation import FederatedEvaluation
from valor_gpu.coco.layout import Layout, select_rows
from valor_gpu.coco.lvis_records import FederatedRecords, evaluate_federated
from valor_gpu.coco.match_layout import EvaluationRecords, evaluate_records
from valor_gpu.coco.taken_part import part_of

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


def coco_subset(found: Accumulated, wanted: Ints) -> Accumulated:
    """Evaluates some images, accumulated by the same parameters.

    Args:
        found: the evaluation of all images.
        wanted: ascending positions among the sorted ids of images.
    """
    whole, accumulated = found.evaluation, part_of(found).accumulated
    ids = [whole.evaluated.imgIds[place] for place in wanted.tolist()]
    return _images_of(whole, ids, wanted).accumulate(with_images(accumulated, ids))


def _images_of(whole: Evaluation, ids: Sequence[Any], wanted: Ints) -> Evaluation:
    """The evaluation of some images, matched anew where other rows or doubts come of that."""
    evaluated, engine = with_images(whole.evaluated, ids), whole.records.engine
    if shares_ids(whole.layout, whole.strict):
        return evaluate(whole.ground_truth, whole.detections, evaluated, whole.convention, engine)
    subset = subset_of(whole.layout, whole.records, wanted)
    named = {"evaluated": evaluated, "params": with_images(whole.params, ids)}
    part = replace(whole, **named, layout=subset.layout, records=subset.records, cells=None)
    if not any(whole.records.doubts.values()):  # found while matching
        return part
    return replace(part, records=evaluate_records(part.layout, evaluated, part.strict, engine, part.geometry()))


def shares_ids(layout: Layout, strict: bool) -> bool:
    """Whether annotations share ids in pycocotools' convention, where the last one of an id stands for all of them.

    The last one may be of another image, so that a run on some images finds other rows of them than a run on all.
    """
    return strict and any(side.columns.repeated_ids for side in (layout.ground_truths, layout.detections))


def lvis_subset(whole: FederatedEvaluation, wanted: Ints) -> FederatedEvaluation:
    """Evaluates some images by the protocol of LVIS.

    Args:
        whole: the evaluation of all images.
        wanted: ascending positions among the sorted ids of images.
    """
    records = whole.records
    params, evaluated = copy.copy(whole.params), copy.copy(records.params)
    params.img_ids = evaluated.img_ids = [evaluated.img_ids[place] for place in wanted.tolist()]
    if shares_ids(records.rows.layout, records.strict):
        sides, engine = (whole.ground_truths, whole.detections), records.records.engine
        part = evaluate_federated(*sides, evaluated, engine, records.strict)
    else:
        part = _lvis_records(records, evaluated, wanted)
    return whole.of_records(part, params)


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
