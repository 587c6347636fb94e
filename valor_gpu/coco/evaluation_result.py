"""What a finished :class:`valor_gpu.coco.COCOeval` found, as a :class:`valor_gpu.result.Result`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.doubtful_values import count_doubtful_values
from valor_gpu.coco.eval_dict import EvalDict
from valor_gpu.coco.ids import members
from valor_gpu.result import Result, Signature, grid_choice

if TYPE_CHECKING:
    from valor_gpu.coco.layout import Layout
    from valor_gpu.coco.match_layout import EvaluationRecords
    from valor_gpu.coco.params import Params
    from valor_gpu.reduce.coco_summary import CocoSummary


def coco_result(
    layout: Layout,
    records: EvaluationRecords,
    arrays: Mapping[str, Any],
    params: Params,
    ground_truth: Any,
    convention: str,
    with_values: bool = True,
) -> Result:
    """Returns the numbers of an evaluation, by the names that ``MeanAveragePrecision.result`` gives them.

    Args:
        layout: the rows that were evaluated.
        records: their records.
        arrays: ``COCOeval.eval``.
        params: the parameters of the evaluation.
        ground_truth: the COCO object of the ground truths.
        convention: ``strict`` or ``corrected``.
        with_values: False: counts and signature alone, which take a tenth of the time.

    Returns:
        Means, numbers of every category by its name, mean precision ``[T, R]`` with its thresholds; NaN, with a reason,
        where nothing counts.
    """
    choices = {
        "metric": "COCOeval",
        "iou_type": params.iouType,
        "convention": convention,
        "iou_thresholds": grid_choice(params.iouThrs),
        "max_detection_thresholds": list(params.maxDets),
        "area_ranges": [f"{name} {low:g}-{high:g}" for name, (low, high) in zip(params.areaRngLbl, params.areaRng)],
        "average": "macro" if params.useCats else "micro",
        "rec_thresholds": grid_choice(params.recThrs),
    }
    counts = _counts(layout, records, ground_truth, convention, params.iouType)
    if not with_values:
        return Result({}, Signature(choices), counts)
    from valor_gpu.reduce.coco_summary import absent_reasons

    values = _values(layout, arrays, params, ground_truth)
    return Result(values, Signature(choices), counts, absent_reasons(values), _plot)


def _values(layout: Layout, arrays: Mapping[str, Any], params: Params, ground_truth: Any) -> dict[str, Any]:
    summary = _summary(arrays, params)
    values: dict[str, Any] = summary.scalars()
    if params.useCats:
        categories = _categories(ground_truth, params)
        values.update(_by_category(summary, layout, category_names(categories)))
    values["precision"] = summary.mean_precision()
    values["iou_thresholds"] = np.asarray(params.iouThrs)
    values["recall_thresholds"] = np.asarray(params.recThrs)
    return values


def _plot(result: Result, ax: Any = None, **options: Any) -> Any:
    """Draws the picture of detection, whose module most runs do not need."""
    from valor_gpu.reduce.precision_recall_plot import plot_precision_recall

    return plot_precision_recall(result, ax, **options)


def _categories(ground_truth: Any, params: Any) -> list[Mapping[str, Any]]:
    """The categories evaluated, also those that the ground truth does not list."""
    return [ground_truth.cats.get(number, {"id": number}) for number in params.catIds]


def category_names(categories: Sequence[Mapping[str, Any]]) -> list[str]:
    """A different name for each category: its own, or its id where it has none; both where others have that name too.

    Example:
        >>> category_names([{"id": 1, "name": "cat"}, {"id": 2}, {"id": 3, "name": "dog"}, {"id": 4, "name": "dog"}])
        ['cat', '2', 'dog (3)', 'dog (4)']
    """
    names = [str(category.get("name", category["id"])) for category in categories]
    while len(set(names)) < len(names):  # again, since another category may be called "dog (3)"
        times = Counter(names)
        names = [f"{name} ({c['id']})" if times[name] > 1 else name for name, c in zip(names, categories)]
    return names


def category_ids(ground_truth: Any, params: Any) -> dict[str, int]:
    """Category id by the name that results give the category; empty when categories are pooled."""
    if not params.useCats:
        return {}
    categories = _categories(ground_truth, params)
    return {name: category["id"] for name, category in zip(category_names(categories), categories)}


def _summary(arrays: Mapping[str, Any], p: Any) -> CocoSummary:
    """Precision at the last limit is enough, and mostly at hand where all of it has not been built."""
    from valor_gpu.ops.accumulate_types import Curves
    from valor_gpu.reduce.coco_summary import CocoSummary

    last = arrays.last_precision if isinstance(arrays, EvalDict) else None
    curves = Curves(arrays["precision"] if last is None else last, arrays["recall"], None)
    return CocoSummary(curves, [float(t) for t in p.iouThrs], p.maxDets, p.areaRngLbl)


def _by_category(summary: CocoSummary, layout: Layout, names: list[str]) -> dict[str, dict[str, float]]:
    def named(numbers: NDArray[Any]) -> dict[str, float]:
        return dict(zip(names, numbers.tolist()))

    return {
        "map_per_class": named(summary.average_precision()),
        "map_50_per_class": named(summary.average_precision(0.5)),
        "map_75_per_class": named(summary.average_precision(0.75)),
        "mar_per_class": named(summary.average_recall()),
        "ground_truths_per_class": named(np.bincount(layout.ground_truths.labels, minlength=len(names))),
        "detections_per_class": named(np.bincount(layout.detections.labels, minlength=len(names))),
    }


def _counts(
    layout: Layout, records: EvaluationRecords, ground_truth: Any, convention: str, iou_type: str
) -> dict[str, int]:
    images, categories = ground_truth.getImgIds(), ground_truth.getCatIds()
    ground_truths, detections = layout.ground_truths.columns, layout.detections.columns
    known = members(ground_truths.image_id, images) & members(ground_truths.category_id, categories)
    ignored = layout.ground_truths.take("iscrowd")
    if convention == "corrected":
        ignored = ignored | layout.ground_truths.take("ignore")
    return {
        "images": len(layout.images),
        "ground_truths": len(layout.ground_truths),
        "ignored_ground_truths": int(ignored.sum()),
        "ground_truths_left_out": int((~known).sum()),
        "detections": len(layout.detections),
        "detections_beyond_limit": int((records.detections[:, 12] == records.shape.limits).sum()),
        "detections_of_unknown_categories": int((~members(detections.category_id, categories)).sum()),
        **count_doubtful_values(layout, iou_type == "bbox"),
    }
