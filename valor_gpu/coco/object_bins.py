"""Numbers of the objects of a COCOeval or LVISEval whose size or shape lies in a bin. No torch import."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.grouped_evaluation import fits, mean_numbers
from valor_gpu.coco.layout import Side
from valor_gpu.coco.match_layout import batch_of, gt_areas, gt_flags, match_rule
from valor_gpu.coco.resampled_evaluation import Chosen
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.types import RecordShape
from valor_gpu.ops.assign.match_batch import CROWD, IGNORED

if TYPE_CHECKING:
    from valor_gpu.coco.analysis import Taken

Bins = Sequence[tuple[float, float]]
Floats = NDArray[np.float64]

_OTHER_AXES = (
    "slices of objects need accumulate() with the thresholds, categories in ascending order, and recall samples of"
    " evaluate() but it took others: call accumulate() without an argument"
)


def object_numbers(taken: Taken, attribute: str, bins: Bins) -> list[Mapping[str, float]]:
    """Matches anew with an attribute in place of the area and bins in place of the area ranges.

    Args:
        taken: what accumulation took of an evaluation.
        attribute: see :data:`valor_gpu.analysis.object_slices.ATTRIBUTES`.
        bins: checked.
    """
    if not fits(taken.chosen):
        raise InputError(_OTHER_AXES)
    layout, chosen = taken.layout, taken.chosen
    true, found = (_values(side, attribute) for side in (layout.ground_truths, layout.detections))
    params = copy.copy(taken.params)
    params.areaRng = [list(pair) for pair in bins]
    rule = match_rule(params, chosen.strict)
    common = replace(batch_of(layout, chosen.strict, taken.geometry), gt_areas=[true], areas=[found])
    compared = taken.geometry.pools or params.useCats or not chosen.strict
    lowest, engine = float(rule.thresholds.min()) if compared else np.inf, chosen.records.engine
    matched = engine.assign(taken.geometry.batch(layout, common, lowest, engine), rule)
    records = replace(
        chosen.records, detections=matched.detections, ground_truths=matched.ground_truths, shape=RecordShape.of(rule)
    )
    numbers: list[Mapping[str, float]] = []
    for place, (low, high) in enumerate(rule.area_ranges.tolist()):
        inside = [(column >= low) & (column <= high) for column in (true, found)]
        numbers.append({**_of_bin(replace(chosen, records=records), taken, place), **_counts(taken, *inside)})
    return numbers


def counting_objects(taken: Taken, attribute: str, bins: Bins) -> list[int]:
    """Returns how many ground truths of each bin count, among what was taken: no crowds and none that are ignored.

    Args:
        taken: what accumulation took of an evaluation.
        attribute: see :data:`valor_gpu.analysis.object_slices.ATTRIBUTES`.
        bins: checked.
    """
    chosen, side = taken.chosen, taken.layout.ground_truths
    kept = np.zeros(len(taken.layout.images), np.bool_)
    kept[chosen.images] = True
    counts = np.repeat(kept, side.lengths) & np.isin(side.labels, list(chosen.selection.categories))
    counts &= (gt_flags(side, chosen.strict, taken.geometry) & np.uint8(CROWD | IGNORED)) == 0
    values, params = _values(side, attribute)[counts], copy.copy(taken.params)
    params.areaRng = [list(pair) for pair in bins]
    ranges = match_rule(params, chosen.strict).area_ranges.tolist()
    return [int(((values >= low) & (values <= high)).sum()) for low, high in ranges]


def _of_bin(chosen: Chosen, taken: Taken, place: int) -> Mapping[str, float]:
    """The means of one area range, by the names that those of all areas have."""
    picks = {name: pick for name, pick in chosen.picks.items() if pick.area == 0}
    one = replace(chosen, selection=replace(chosen.selection, areas=[place]), picks=picks)
    return mean_numbers(one, [np.arange(len(one.images))], taken.category_groups)[0]


def _values(side: Side, attribute: str) -> Floats:
    """float64 ``[N]``: area in square pixels, or width over height; -1, which is in no bin, where both are 0."""
    if attribute == "size":
        areas: Floats = gt_areas(side)
        return areas
    boxes: Floats = side.take("bbox")
    if np.isnan(boxes).any():
        raise InputError(
            "aspect_ratio needs bbox, upright boxes, of all annotations and results, which rotated boxes and"
            " annotations without bbox have not: ask for size"
        )
    width, height = boxes[:, 2], boxes[:, 3]
    ratio = np.full(len(boxes), -1.0)
    np.divide(width, height, out=ratio, where=height > 0)
    ratio[(height <= 0) & (width > 0)] = np.inf
    return ratio


def _counts(taken: Taken, true: NDArray[np.bool_], found: NDArray[np.bool_]) -> dict[str, float]:
    """Rows in the bin of each category, among the images that were taken."""
    chosen, layout = taken.chosen, taken.layout
    if not chosen.names:
        return {}
    kept, numbers = np.zeros(len(layout.images), np.bool_), {}
    kept[chosen.images] = True
    sides = {"ground_truths": (layout.ground_truths, true), "detections": (layout.detections, found)}
    for name, (side, inside) in sides.items():
        rows = side.labels[inside & np.repeat(kept, side.lengths)]
        counts = np.bincount(rows, minlength=chosen.records.classes)[list(chosen.selection.categories)]
        numbers.update({f"{name}_per_class/{each}": float(n) for each, n in zip(chosen.names, counts.tolist())})
    return numbers
