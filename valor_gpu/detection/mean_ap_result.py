"""The result of MeanAveragePrecision, and what its intervals are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from valor_gpu._frozen import replaced
from valor_gpu.detection.extended import ExtendedRecords, PartRecords
from valor_gpu.detection.records import DetectionRecords, doubtful_boxes
from valor_gpu.ops.accumulate_types import AccumulateChoices, Pick
from valor_gpu.ops.match_batch import IMAGE_COLUMNS
from valor_gpu.reduce.coco_summary import absent_reasons, joint_result, summary_picks
from valor_gpu.reduce.precision_recall_plot import plot_precision_recall
from valor_gpu.reduce.resampled_detection import ReplicatedTable, ResampledDetection
from valor_gpu.reduce.resampled_tables import ordered_table, weights_on
from valor_gpu.result import Result, Signature, grid_choice

if TYPE_CHECKING:
    from valor_gpu.detection.mean_ap import MeanAveragePrecision

_HAS_ID = IMAGE_COLUMNS.index("HAS_ID")

Parts = Sequence[tuple[str, DetectionRecords]]


def mean_ap_result(metric: MeanAveragePrecision, parts: Parts, tie_interval: bool) -> Result:
    """Returns all numbers of a metric.

    Args:
        metric: whose choices hold.
        parts: prefixes of geometries, and their records of all ranks.
        tie_interval: also give the bounds of ``map`` over all orders of tied scores.
    """
    state = partial(_resampled, tuple(parts), tuple(_matchings(metric)))
    found = [(prefix, _result(metric, records, tie_interval, state)) for prefix, records in parts]
    return found[0][1] if len(found) == 1 else joint_result(found, state)


def _result(metric: MeanAveragePrecision, state: DetectionRecords, tie_interval: bool, resampled: Any) -> Result:
    """The result of one geometry."""
    bounds = ("lowest", "highest") if tie_interval else ()
    found = metric._accumulate(state, metric.average == "micro", ties=("given", *bounds))
    summary, totals = metric._summary(found), found.totals
    values: dict[str, Any] = summary.scalars()
    if tie_interval:
        values["map_tie_interval"] = dict(zip(bounds, found.means[1:, 0].tolist()))
    if metric.average == "macro" or metric._rematches:
        classes = metric._class_summary(state, summary)
        names = [str(label) for label in found.labels.tolist()]
        values["map_per_class"] = dict(zip(names, classes.average_precision().tolist()))
        values["mar_per_class"] = dict(zip(names, classes.average_recall().tolist()))
    values["precision"] = summary.mean_precision()
    values["iou_thresholds"] = np.asarray(metric.iou_thresholds)
    values["recall_thresholds"] = np.asarray(metric.rec_thresholds)
    counts = {
        "images": totals.images, "repeated_images": totals.repeated, "ground_truths": totals.ground_truths,
        "ignored_ground_truths": totals.ignored,
        "detections": totals.detections,
        "detections_beyond_limit": totals.detections - totals.within_limits,
        **doubtful_boxes(totals),
    }  # fmt: skip
    grids = {name: grid_choice(getattr(metric, name)) for name in ("iou_thresholds", "rec_thresholds")}
    choices = {"metric": "MeanAveragePrecision", **metric._config(), **grids, "tie_order": metric.tie_order}
    signature = Signature({name: value for name, value in choices.items() if name != "extended_summary"})
    return Result(values, signature, counts, absent_reasons(values), plot_precision_recall, state=resampled)


Matching = tuple[AccumulateChoices, Mapping[str, Pick], bool, bool]
"""Choices, names of means, whether the classes are named, and whether they were matched on their own."""


def _matchings(metric: MeanAveragePrecision) -> Iterator[Matching]:
    """Which records give which numbers: pooled classes give means alone, and those matched on their own the others."""
    picks = summary_picks(*metric._axes())
    pooled = metric.average == "micro"
    yield metric._choices(pooled), picks, not pooled, False
    if metric._rematches:
        yield replaced(metric._choices(False), picks=()), {}, True, True


def _resampled(parts: Parts, matchings: Sequence[Matching]) -> ResampledDetection:
    """The images; of several geometries, each has them in the order of its own keys, which ids make the same."""
    tables, ordered = [], []
    for prefix, state in parts:
        for choices, picks, named, by_class in matchings:
            matched = state.by_class() if by_class and isinstance(state, (ExtendedRecords, PartRecords)) else state
            table = ordered_table(matched.detections, matched.ground_truths, matched.images, choices)
            labels = [str(label) for label in table.records.labels.tolist()] if named else []
            named_picks = {prefix + name: pick for name, pick in picks.items()}
            tables.append(ReplicatedTable(table.run, table.truths, named_picks, labels, prefix))
            ordered.append(table.records)
    images = parts[0][1].images
    keys = ordered[0].keys.tolist() if bool((images[:, _HAS_ID] == 1).all()) else None
    return ResampledDetection(tables, ordered[0].units, keys, partial(weights_on, images.device))
