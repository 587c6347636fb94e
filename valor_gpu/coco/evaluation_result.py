"""What a finished :class:`valor_gpu.coco.COCOeval` found, as a :class:`valor_gpu.result.Result`."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.doubtful_ids import count_completed, count_ids
from valor_gpu.coco.doubtful_values import count_doubtful_values
from valor_gpu.coco.eval_dict import EvalDict
from valor_gpu.coco.geometry import geometry_of
from valor_gpu.coco.ids import members
from valor_gpu.coco.match_layout import evaluate_records
from valor_gpu.coco.protocols import PROTOCOLS
from valor_gpu.coco.taken_part import Part, part_of, rows_of_part
from valor_gpu.errors import InputError
from valor_gpu.inputs.coco_ids import row_codes
from valor_gpu.inputs.text_ids import Id
from valor_gpu.result import Result, Signature, grid_choice

if TYPE_CHECKING:
    from valor_gpu.coco.evaluator import COCOeval
    from valor_gpu.coco.layout import Layout, Side
    from valor_gpu.reduce.coco_summary import CocoSummary
    from valor_gpu.stats.resample import Resampled


def _no_values() -> Resampled:
    """Raises: what is imported for a state takes milliseconds, which a run without numbers spares."""
    raise InputError("intervals need the numbers that they are of: ask for the result with_values=True")


def coco_result(evaluation: COCOeval, with_values: bool = True) -> Result:
    """Returns the numbers of an evaluation, by the names that ``MeanAveragePrecision.result`` gives them.

    Args:
        evaluation: after ``accumulate()``.
        with_values: False: counts and signature alone, which take a tenth of the time.

    Returns:
        Means, numbers of every category by its name, mean precision ``[T, R]`` with its thresholds; NaN, with a reason,
        where nothing counts.
    """
    part = part_of(evaluation)
    params = part.params
    crowdpose = params.iouType == "keypoints_crowd"
    choices = {
        "metric": "COCOeval",
        "iou_type": "keypoints" if crowdpose else params.iouType,
        **({"protocol": "crowdpose"} if crowdpose else {}),
        **_sigmas(params),
        "convention": evaluation.convention,
        "iou_thresholds": grid_choice(params.iouThrs),
        "max_detection_thresholds": list(params.maxDets),
        "area_ranges": [f"{name} {low:g}-{high:g}" for name, (low, high) in zip(params.areaRngLbl, params.areaRng)],
        "average": "macro" if params.useCats else "micro",
        "rec_thresholds": grid_choice(params.recThrs),
    }
    layout, places = rows_of_part(evaluation, part)
    counts = _counts(evaluation, part, layout, places)
    served, analysis = _provenance(evaluation, part, layout), _analysis_of(evaluation, part.accumulated, choices)
    if not with_values:
        return Result({}, Signature(choices), counts, provenance=served, state=_no_values, analysis=analysis)
    from valor_gpu.coco.resampled_evaluation import resampled_evaluation
    from valor_gpu.reduce.coco_summary import absent_reasons

    values = _values(evaluation, part, layout)
    state = resampled_evaluation(evaluation)
    reasons = absent_reasons(values)
    return Result(values, Signature(choices), counts, reasons, plot, served, state=state, analysis=analysis)


def _provenance(evaluation: COCOeval, part: Part, layout: Layout) -> Callable[[], dict[str, Any]]:
    """Returns what finds the provenance, of the rows as they are now."""
    records, params, truth = evaluation._records, part.params, evaluation.cocoGt
    assert records is not None
    known, images = (len(truth.getImgIds()), len(truth.getCatIds())), list(params.imgIds)
    engine, convention = records.engine, evaluation.convention

    def found() -> dict[str, Any]:
        from valor_gpu.coco.data_hashes import annotation_hashes, coco_deviations
        from valor_gpu.provenance import provenance_of

        return provenance_of(
            engine.provenance,
            lambda: annotation_hashes(layout, params.iouType, images),
            "float64",
            lambda: coco_deviations(params, convention, known),
        )

    return found


def _analysis_of(evaluation: COCOeval, accumulated: Any, choices: Mapping[str, Any]) -> Callable[[], Any]:
    """Returns what makes the answers to questions about errors, of the evaluation as it is now."""
    kept = copy.copy(evaluation)
    kept.params = copy.deepcopy(evaluation.params)  # users go on with their own

    def made() -> Any:
        from valor_gpu.coco.analysis import coco_analysis

        return coco_analysis(kept, accumulated, choices)

    return made


def _sigmas(params: Any) -> dict[str, list[float]]:
    """The tolerances of keypoints where they are not those of the protocol."""
    usual = PROTOCOLS[params.iouType].sigmas
    if not usual or np.array_equal(params.kpt_oks_sigmas, usual):
        return {}
    return {"sigmas": np.asarray(params.kpt_oks_sigmas, np.float64).tolist()}


def _values(evaluation: COCOeval, part: Part, layout: Layout) -> dict[str, Any]:
    """The numbers of what was taken, whose rows ``layout`` has."""
    params, summary = part.params, _summary(evaluation.eval, part)
    values: dict[str, Any] = summary.scalars()
    if params.iouType == "keypoints_crowd":
        from valor_gpu.coco.crowdpose import group_means

        means = group_means(evaluation, evaluation.convention == "strict", part)
        values.update({f"map_crowding_{name}": mean if mean >= 0 else math.nan for name, mean in means.items()})
    if params.useCats:
        labels = {k: label for label, k in enumerate(dict.fromkeys(part.selection.categories))}
        places = [labels[k] for k in part.selection.categories]
        values.update(numbers_by_category(summary, layout, names_of_part(evaluation, part), places))
    values["precision"] = summary.mean_precision()
    values["iou_thresholds"] = np.asarray(params.iouThrs)
    values["recall_thresholds"] = np.asarray(params.recThrs)
    return values


def plot(result: Result, ax: Any = None, **options: Any) -> Any:
    """Draws the picture of detection, whose module most runs do not need."""
    from valor_gpu.reduce.precision_recall_plot import plot_precision_recall

    return plot_precision_recall(result, ax, **options)


def _categories(ground_truth: Any, params: Any) -> list[Mapping[str, Any]]:
    """The categories evaluated, also those that the ground truth does not list."""
    return [ground_truth.cats.get(number, {"id": number}) for number in params.catIds]


def names_of_part(evaluation: COCOeval, part: Part) -> list[str]:
    """Returns a different name for each category that was taken."""
    return category_names(_categories(evaluation.cocoGt, part.params))


def category_names(categories: Sequence[Mapping[str, Any]]) -> list[str]:
    """A different name for each category: its own, or its id where it has none; both where others have that name too.

    A category that comes again is named by its number as well: ``dog (3) #2``.

    Example:
        >>> category_names([{"id": 1, "name": "cat"}, {"id": 2}, {"id": 3, "name": "dog"}, {"id": 4, "name": "dog"}])
        ['cat', '2', 'dog (3)', 'dog (4)']
    """
    names = [str(category.get("name", category["id"])) for category in categories]
    seen: Counter[Any] = Counter()
    for place, category in enumerate(categories):
        seen[category["id"]] += 1
        names[place] += f" #{seen[category['id']]}" if seen[category["id"]] > 1 else ""
    while len(set(names)) < len(names):  # again, since another category may be called "dog (3)"
        times = Counter(names)
        names = [f"{name} ({c['id']})" if times[name] > 1 else name for name, c in zip(names, categories)]
    return names


def category_ids(ground_truth: Any, params: Any) -> dict[str, Id]:
    """Category id by the name that results give the category; empty when categories are pooled."""
    if not params.useCats:
        return {}
    categories = _categories(ground_truth, params)
    return {name: category["id"] for name, category in zip(category_names(categories), categories)}


def _summary(arrays: Mapping[str, Any], part: Part) -> CocoSummary:
    """Precision at the last limit is enough, and mostly at hand where all of it has not been built."""
    from valor_gpu.ops.accumulate.types import Curves
    from valor_gpu.reduce.coco_summary import CocoSummary

    p, last = part.params, arrays.last_precision if isinstance(arrays, EvalDict) else None
    precision = part.precision(arrays["precision"] if last is None else last)
    curves = Curves(precision, part.recall(arrays["recall"]), None)
    return CocoSummary(curves, [float(t) for t in p.iouThrs], p.maxDets, p.areaRngLbl)


def numbers_by_category(
    summary: CocoSummary, layout: Layout, names: list[str], places: Sequence[int] | None = None
) -> dict[str, dict[str, float]]:
    """Numbers and counts of every category, by the name of the number.

    Args:
        summary: of these categories.
        layout: whose rows are counted.
        names: of the categories.
        places: their labels in ``layout``; None: 0, 1, ...
    """

    def count(side: Side) -> NDArray[Any]:
        wide = len(names) if places is None else max(places, default=-1) + 1
        counts = np.bincount(side.labels, minlength=wide)
        return counts if places is None else counts[list(places)]

    def named(numbers: NDArray[Any]) -> dict[str, float]:
        return dict(zip(names, numbers.tolist()))

    return {
        "map_per_class": named(summary.average_precision()),
        "map_50_per_class": named(summary.average_precision(0.5)),
        "map_75_per_class": named(summary.average_precision(0.75)),
        "mar_per_class": named(summary.average_recall()),
        "ground_truths_per_class": named(count(layout.ground_truths)),
        "detections_per_class": named(count(layout.detections)),
    }


def _doubts(evaluation: COCOeval, part: Part, layout: Layout, whole: bool) -> Mapping[str, int]:
    """Doubtful values that matching came across: matched again where those of the part are not known."""
    records, strict = evaluation._records, evaluation.convention == "strict"
    assert records is not None
    if whole or not any(records.doubts.values()):
        return records.doubts
    geometry = geometry_of(part.params, strict)
    return evaluate_records(layout, part.params, strict, records.engine, geometry).doubts


def _counts(evaluation: COCOeval, part: Part, layout: Layout, places: NDArray[np.int64] | None) -> dict[str, int]:
    """Counts of the rows of a part, whose detections stand at ``places`` of those evaluated; None: all of them."""
    records, ground_truth = evaluation._records, evaluation.cocoGt
    assert records is not None
    beyond = records.buckets() > list(evaluation._evaluated.maxDets).index(part.params.maxDets[-1])
    images, categories = ground_truth.getImgIds(), ground_truth.getCatIds()
    ground_truths, detections = layout.ground_truths.columns, layout.detections.columns
    image_codes, codes = (
        row_codes(ground_truths, "image_id", images),
        row_codes(ground_truths, "category_id", categories),
    )
    known = members(ground_truths.image_id, image_codes) & members(ground_truths.category_id, codes)
    ignored = layout.ground_truths.take("iscrowd")
    if evaluation.convention == "corrected":
        ignored = ignored | layout.ground_truths.take("ignore")
    geometry = geometry_of(part.params, evaluation.convention == "strict")
    by_geometry = geometry.ignored(layout.ground_truths)
    ignored = ignored if by_geometry is None else ignored | by_geometry
    return {
        "images": len(layout.images),
        "ground_truths": len(layout.ground_truths),
        "ignored_ground_truths": int(ignored.sum()),
        "ground_truths_left_out": int((~known).sum()),
        "detections": len(layout.detections),
        "detections_beyond_limit": int((beyond if places is None else beyond[places]).sum()),
        "detections_of_unknown_categories": int((~members(detections.category_id, codes)).sum()),
        **count_doubtful_values(layout, part.params.iouType == "bbox"),
        **_doubts(evaluation, part, layout, places is None),
        **count_ids(ground_truth, evaluation.cocoDt, layout),
        **count_completed(layout, geometry),
    }
