"""The numbers of MeanAveragePrecision, of groups of images too, and what its intervals are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu._frozen import replaced
from valor_gpu.detection.extended import ExtendedRecords, PartRecords
from valor_gpu.detection.mean_ap_choices import MeanApChoices
from valor_gpu.detection.records import DetectionRecords, doubtful_boxes
from valor_gpu.exports.signature import Signature
from valor_gpu.ops.accumulate.types import AccumulateChoices, Pick
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.reduce.coco_summary import absent_reasons, summary_picks
from valor_gpu.reduce.grouped_detection import GroupNumbers, RecordTables, grouped_numbers, joined_numbers
from valor_gpu.reduce.matched_tables import MatchedTables, ReplicatedTable, Truths, on_host
from valor_gpu.reduce.resampled_detection import ResampledDetection
from valor_gpu.reduce.resampled_tables import OrderedTable, ordered_table, weights_on
from valor_gpu.reduce.table_units import KeptImages, places_among, table_units

_ID, _HAS_ID = IMAGE_COLUMNS.index("ID"), IMAGE_COLUMNS.index("HAS_ID")

Parts = Sequence[tuple[str, DetectionRecords]]


class NumberParts(NamedTuple):
    """Parts of the result of one geometry."""

    values: dict[str, Any]
    signature: Signature
    counts: dict[str, int]
    reasons: dict[str, str]


def number_parts(
    choices: MeanApChoices, state: DetectionRecords, tie_interval: bool = False, error: Tensor | None = None
) -> NumberParts:
    """Returns the numbers of one geometry.

    Args:
        choices: of the metric.
        state: its records.
        tie_interval: also give the bounds of ``map`` over all orders of tied scores.
        error: int64 ``[]`` error code of records on CUDA.
    """
    bounds = ("lowest", "highest") if tie_interval else ()
    found = choices.accumulate(state, choices.of(choices.pooled, ties=("given", *bounds)), error)
    summary, totals = choices.summary(found), found.totals
    values: dict[str, Any] = summary.scalars()
    if tie_interval:
        values["map_tie_interval"] = dict(zip(bounds, found.means[1:, 0].tolist()))
    if not choices.pooled or choices.rematched:
        classes = choices.class_summary(state, summary)
        names = [str(label) for label in found.labels.tolist()]
        values["map_per_class"] = dict(zip(names, classes.average_precision().tolist()))
        values["mar_per_class"] = dict(zip(names, classes.average_recall().tolist()))
    values["precision"] = summary.mean_precision()
    values["iou_thresholds"] = np.asarray(choices.iou_thresholds)
    values["recall_thresholds"] = np.asarray(choices.rec_thresholds)
    counts = {
        "images": totals.images, "repeated_images": totals.repeated, "ground_truths": totals.ground_truths,
        "ignored_ground_truths": totals.ignored,
        "detections": totals.detections,
        "detections_beyond_limit": totals.detections - totals.within_limits,
        **doubtful_boxes(totals),
    }  # fmt: skip
    return NumberParts(values, Signature(choices.signature()), counts, absent_reasons(values))


Matching = tuple[AccumulateChoices, Mapping[str, Pick], bool, bool]
"""Choices, names of means, whether the classes are named, and whether they were matched on their own."""


def _matchings(choices: MeanApChoices) -> Iterator[Matching]:
    """Which records give which numbers: pooled classes give means alone, and those matched on their own the others."""
    yield choices.of(choices.pooled), summary_picks(*choices.axes), not choices.pooled, False
    if choices.rematched:
        yield replaced(choices.of(False), picks=()), {}, True, True


def grouped_result_numbers(
    choices: MeanApChoices,
    records: DetectionRecords,
    images: NDArray[np.int64],
    groups: Sequence[NDArray[np.int64]],
    area: int | None = None,
) -> GroupNumbers:
    """Returns the numbers of groups of images, by the names of the result of one geometry.

    Args:
        choices: of the metric.
        records: of that geometry.
        images: int64, rows of the images table that count, in the order that breaks ties.
        groups: ascending positions in ``images`` of those of each group.
        area: which area range stands for all areas; None: the first, and numbers of the others too.
    """
    every, found, first = range(choices.shape.thresholds), [], area or 0
    kinds = {"map_per_class": "precision", "mar_per_class": "recall"}
    class_picks = {name: Pick(array, first, -1, every) for name, array in kinds.items()}
    for matching, all_picks, named, by_class in _matchings(choices):
        picks = all_picks
        if area is not None:
            picks = {name: pick._replace(area=area) for name, pick in all_picks.items() if pick.area == 0}
        matched = records.by_class() if by_class and isinstance(records, (ExtendedRecords, PartRecords)) else records
        tables = RecordTables(matched.detections, matched.ground_truths, matched.images)
        wanted = replaced(matching, images=images)
        found.append(grouped_numbers(tables, groups, wanted, picks, class_picks=class_picks if named else {}))
    return joined_numbers(found)


def resampled_images(choices: MeanApChoices, parts: Parts) -> ResampledDetection:
    """Returns the images, to be drawn anew, in the order of their keys in the first table.

    Args:
        choices: of the metric.
        parts: prefixes of geometries, and their records of all ranks.
    """
    matchings = tuple(_matchings(choices))
    tables: list[ReplicatedTable] = []
    kept: list[KeptImages] = []
    for prefix, state in parts:
        for matching, picks, named, by_class in matchings:
            matched = state.by_class() if by_class and isinstance(state, (ExtendedRecords, PartRecords)) else state
            found, source = _ordered(matched, matching)
            kept.append(KeptImages(on_host(source.images), source.kept))
            labels = [str(label) for label in source.labels.tolist()] if named else []
            named_picks, places = {prefix + name: pick for name, pick in picks.items()}, places_among(kept[0], kept[-1])
            tables.append(
                ReplicatedTable(found.run, found.truths, named_picks, labels, prefix, units=places, source=source)
            )
    named_images = kept[0].rows[:, [_HAS_ID, _ID]]
    keys = named_images[:, 1].tolist() if bool((named_images[:, 0] == 1).all()) else None
    weights = partial(weights_on, parts[0][1].images.device)
    return ResampledDetection(tables, len(kept[0].kept), keys, weights, identify=partial(table_units, kept))


def _ordered(records: DetectionRecords, choices: AccumulateChoices) -> tuple[OrderedTable, MatchedTables]:
    """The records as replicates read them, and the tables that they are of."""
    tables = records.detections, records.ground_truths, records.images
    found = ordered_table(*tables, choices)
    labels, order = found.records.labels.numpy(), partial(_order_arrays, records.images.device)
    return found, MatchedTables(*tables, found.records.images, labels, choices, order)


def _order_arrays(
    device: torch.device, detections: Any, ground_truths: Any, images: Any, choices: AccumulateChoices
) -> tuple[Callable[[Any], tuple[Any, Any, Any]], Truths]:
    """What gives the numbers of replicates of arrays, on a device, and the ground truths that count."""
    rows, gt_rows, table = (torch.from_numpy(each).to(device) for each in (detections, ground_truths, images))
    found = ordered_table(rows, gt_rows, table, choices)
    return found.run, found.truths
