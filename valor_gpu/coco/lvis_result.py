"""What a finished :class:`valor_gpu.coco.LVISEval` found, as a :class:`valor_gpu.result.Result`. No torch."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from valor_gpu.coco.doubtful_ids import count_completed, count_ids_of_dataset
from valor_gpu.coco.doubtful_values import count_doubtful_values
from valor_gpu.coco.evaluation_result import category_names, numbers_by_category, plot
from valor_gpu.coco.ids import members
from valor_gpu.coco.resampled_evaluation import Chosen, plain_ids
from valor_gpu.coco.selection import Selection
from valor_gpu.inputs.coco_ids import aligned
from valor_gpu.ops.accumulate.types import Curves, Pick
from valor_gpu.reduce.coco_summary import CocoSummary, absent_reasons, summary_picks
from valor_gpu.reduce.resampled_detection import ResampledDetection
from valor_gpu.result import Result, Signature, grid_choice

if TYPE_CHECKING:
    from valor_gpu.coco.lvis_eval import LVISEval
    from valor_gpu.coco.lvis_records import FederatedRecords

_GROUPS = {"map_rare": "APr", "map_common": "APc", "map_frequent": "APf"}


def lvis_result(evaluation: LVISEval) -> Result:
    """Returns the numbers by the names of ``COCOeval.result``, and ``map_rare``, ``map_common``, ``map_frequent``.

    Args:
        evaluation: after ``run()``.
    """
    p = evaluation.params
    choices = {
        "metric": "LVISEval",
        "iou_type": p.iou_type,
        "protocol": "lvis",
        "convention": evaluation.convention,
        "iou_thresholds": grid_choice(p.iou_thrs),
        "max_detection_thresholds": [p.max_dets],
        "area_ranges": [f"{name} {low:g}-{high:g}" for name, (low, high) in zip(p.area_rng_lbl, p.area_rng)],
        "average": "macro" if p.use_cats else "micro",
        "rec_thresholds": grid_choice(p.rec_thrs),
    }
    values, records = _values(evaluation), evaluation._records
    assert records is not None
    served = _provenance(evaluation, records)
    state = partial(resampled_of, *chosen_and_groups(evaluation))
    kept = copy.copy(evaluation)
    kept.params = copy.copy(p)  # users go on with their own
    reasons, analysis = absent_reasons(values), partial(_analysis, kept, choices)
    return Result(
        values, Signature(choices), _counts(evaluation), reasons, plot, served, state=state, analysis=analysis
    )


def _provenance(evaluation: LVISEval, records: FederatedRecords) -> Callable[[], dict[str, Any]]:
    """Returns what finds the provenance, of the rows as they are now."""
    truth, limit, convention = evaluation.lvis_gt.columns, evaluation.lvis_dt.max_dets, evaluation.convention
    known = len(set(evaluation.lvis_gt.get_img_ids())), len(set(evaluation.lvis_gt.get_cat_ids()))

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


def _analysis(evaluation: LVISEval, choices: Mapping[str, Any]) -> Any:
    """What answers questions about errors, made at the first of them."""
    from valor_gpu.coco.analysis import lvis_analysis

    return lvis_analysis(evaluation, choices)


def chosen_of(evaluation: LVISEval) -> Chosen:
    """Returns what an evaluation took of its records."""
    p, records = evaluation.params, evaluation._records
    assert records is not None
    whole = records.records
    return Chosen(
        whole,
        Selection(records.positions(), list(range(whole.shape.areas)), None, [p.max_dets], (0, 0)),
        [0],
        np.array(p.rec_thrs, np.float64).reshape(-1),
        len(p.iou_thrs),
        summary_picks([float(t) for t in p.iou_thrs], [p.max_dets], list(p.area_rng_lbl)),
        lvis_names(evaluation) if p.use_cats else (),
        list(records.params.img_ids),
        records.strict,
        plain_ids(p.cat_ids) if p.use_cats else (),
    )


def category_groups(evaluation: LVISEval) -> dict[str, list[int]] | None:
    """Returns places of the categories of each frequency; None where a number of it is no mean over one area range."""
    p = evaluation.params
    if list(p.area_rng_lbl[:1]) != ["all"] or list(p.area_rng_lbl).count("all") != 1:
        return None
    return {name: places if p.use_cats else [] for name, places in zip(_GROUPS, evaluation.freq_groups)}


def chosen_and_groups(evaluation: LVISEval) -> tuple[Chosen, dict[str, list[int]]]:
    """Returns what an evaluation took of its records, and the places of the categories of each frequency."""
    return chosen_of(evaluation), _groups(evaluation)


def _groups(evaluation: LVISEval) -> dict[str, list[int]]:
    """:func:`category_groups` that hold a category."""
    return {name: places for name, places in (category_groups(evaluation) or {}).items() if places}


def resampled_of(chosen: Chosen, groups: Mapping[str, list[int]]) -> ResampledDetection:
    """Returns the images, to be drawn anew; the categories of a frequency are read again for the mean over them."""
    pick, every = Pick("precision", 0, 0, range(chosen.thresholds)), chosen.selection.categories
    tables = [chosen.table({name: pick}, categories=[every[k] for k in groups[name]]) for name in groups]
    named = chosen.names or every
    parts = {f"categories of {name}": [named[k] for k in places] for name, places in groups.items()}
    return chosen.resampled([chosen.main_table(), *tables], parts=parts)


def _values(evaluation: LVISEval) -> dict[str, Any]:
    p, records = evaluation.params, evaluation._records
    assert records is not None
    curves = Curves(evaluation.eval["precision"][..., None], evaluation.eval["recall"][..., None], None)
    summary = CocoSummary(curves, [float(t) for t in p.iou_thrs], [p.max_dets], p.area_rng_lbl)
    values: dict[str, Any] = summary.scalars()
    for name, theirs in _GROUPS.items():
        number = float(evaluation.results[theirs])
        values[name] = number if number >= 0 else math.nan
    if p.use_cats:
        values.update(numbers_by_category(summary, records.rows.layout, lvis_names(evaluation), records.positions()))
    values["precision"] = summary.mean_precision()
    values["iou_thresholds"] = np.asarray(p.iou_thrs)
    values["recall_thresholds"] = np.asarray(p.rec_thrs)
    return values


def lvis_names(evaluation: LVISEval) -> list[str]:
    """A different name for each category that is evaluated."""
    known = {category["id"]: category for category in evaluation.lvis_gt.columns.categories}
    return category_names([known.get(number, {"id": number}) for number in evaluation.params.cat_ids])


def _counts(evaluation: LVISEval) -> dict[str, int]:
    records = evaluation._records
    assert records is not None
    layout = records.rows.layout
    truth, detections = aligned(evaluation.lvis_gt.columns, evaluation.lvis_dt.columns.annotations)
    ground_truths = truth.annotations
    known = members(ground_truths.image_id, truth.image_ids) & members(ground_truths.category_id, truth.category_ids)
    of_category = members(detections.category_id, truth.category_ids)
    return {
        "images": len(layout.images),
        "ground_truths": len(layout.ground_truths),
        "ignored_ground_truths": int(layout.ground_truths.take("ignore").sum()),
        "ground_truths_left_out": int((~known).sum()),
        "detections": len(layout.detections),
        "detections_beyond_limit": evaluation.lvis_dt.dropped,
        "detections_of_unknown_categories": int((~of_category).sum()),
        "detections_of_unsearched_categories": int(of_category.sum()) - len(layout.detections),
        **count_doubtful_values(layout, evaluation.params.iou_type == "bbox"),
        **records.records.doubts,
        **count_ids_of_dataset(truth, detections.id),
        **count_completed(layout, records.geometry()),
    }
