"""The numbers of an LVIS evaluation as a :class:`valor_gpu.result.Result`. No torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from valor_gpu.coco.doubtful_ids import count_completed, count_ids_of_dataset
from valor_gpu.coco.doubtful_values import count_doubtful_values
from valor_gpu.coco.evaluation_result import numbers_by_category, plot
from valor_gpu.coco.federated_evaluation import GROUPS, FederatedEvaluation, resampled_of
from valor_gpu.coco.ids import members
from valor_gpu.inputs.coco_ids import aligned, listed_ids
from valor_gpu.ops.accumulate.types import Curves
from valor_gpu.reduce.coco_summary import CocoSummary, absent_reasons
from valor_gpu.result import Result, Signature, grid_choice


def lvis_result(evaluation: FederatedEvaluation) -> Result:
    """Returns the numbers by the names of ``COCOeval.result``, and ``map_rare``, ``map_common``, ``map_frequent``."""
    p, convention = evaluation.params, "strict" if evaluation.strict else "corrected"
    choices = {
        "metric": "LVISEval",
        "iou_type": p.iou_type,
        "protocol": "lvis",
        "convention": convention,
        "iou_thresholds": grid_choice(p.iou_thrs),
        "max_detection_thresholds": [p.max_dets],
        "area_ranges": [f"{name} {low:g}-{high:g}" for name, (low, high) in zip(p.area_rng_lbl, p.area_rng)],
        "average": "macro" if p.use_cats else "micro",
        "rec_thresholds": grid_choice(p.rec_thrs),
    }
    values, served = _values(evaluation), _provenance(evaluation, convention)
    state = partial(resampled_of, *evaluation.chosen_and_groups())
    reasons, analysis = absent_reasons(values), partial(_analysis, evaluation, choices)
    return Result(
        values, Signature(choices), _counts(evaluation), reasons, plot, served, state=state, analysis=analysis
    )


def _provenance(evaluation: FederatedEvaluation, convention: str) -> Callable[[], dict[str, Any]]:
    """Returns what finds the provenance."""
    truth, limit, records = evaluation.ground_truths, evaluation.limit, evaluation.records
    known = len(set(listed_ids(truth, "image_id"))), len(set(listed_ids(truth, "category_id")))

    def found() -> dict[str, Any]:
        from valor_gpu.coco.data_hashes import annotation_hashes, federated_hash, lvis_deviations
        from valor_gpu.provenance import provenance_of

        p = records.params
        return provenance_of(
            records.records.engine.provenance,
            lambda: annotation_hashes(records.rows.layout, p.iou_type, p.img_ids, federated_hash(truth, p.img_ids)),
            "float64",
            lambda: lvis_deviations(p, convention, limit, known),
        )

    return found


def _analysis(evaluation: FederatedEvaluation, choices: Mapping[str, Any]) -> Any:
    """What answers questions about errors, made at the first of them."""
    from valor_gpu.coco.analysis import lvis_analysis

    return lvis_analysis(evaluation, choices, lvis_result)


def _values(evaluation: FederatedEvaluation) -> dict[str, Any]:
    p, records = evaluation.params, evaluation.records
    curves = Curves(evaluation.arrays["precision"][..., None], evaluation.arrays["recall"][..., None], None)
    summary = CocoSummary(curves, [float(t) for t in p.iou_thrs], [p.max_dets], p.area_rng_lbl)
    values: dict[str, Any] = summary.scalars()
    for name, theirs in GROUPS.items():
        number = float(evaluation.means[theirs])
        values[name] = number if number >= 0 else math.nan
    if p.use_cats:
        values.update(numbers_by_category(summary, records.rows.layout, evaluation.names(), records.positions()))
    values["precision"] = summary.mean_precision()
    values["iou_thresholds"] = np.asarray(p.iou_thrs)
    values["recall_thresholds"] = np.asarray(p.rec_thrs)
    return values


def _counts(evaluation: FederatedEvaluation) -> dict[str, int]:
    records = evaluation.records
    layout = records.rows.layout
    truth, detections = aligned(evaluation.ground_truths, evaluation.detections.annotations)
    ground_truths = truth.annotations
    known = members(ground_truths.image_id, truth.image_ids) & members(ground_truths.category_id, truth.category_ids)
    of_category = members(detections.category_id, truth.category_ids)
    return {
        "images": len(layout.images),
        "ground_truths": len(layout.ground_truths),
        "ignored_ground_truths": int(layout.ground_truths.take("ignore").sum()),
        "ground_truths_left_out": int((~known).sum()),
        "detections": len(layout.detections),
        "detections_beyond_limit": evaluation.dropped,
        "detections_of_unknown_categories": int((~of_category).sum()),
        "detections_of_unsearched_categories": int(of_category.sum()) - len(layout.detections),
        **count_doubtful_values(layout, evaluation.params.iou_type == "bbox"),
        **records.records.doubts,
        **count_ids_of_dataset(truth, detections.id),
        **count_completed(layout, records.geometry()),
    }
