"""The report of ``valor-gpu detect``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from valor_gpu.report.text import bounded, plural, table
from valor_gpu.result import Result, ResultData, Signature

if TYPE_CHECKING:
    from valor_gpu.inputs.coco import Dataset

_NUMBERS = {
    "AP": "map_per_class",
    "AP50": "map_50_per_class",
    "AP75": "map_75_per_class",
}
WAY_OUT = "--convention corrected"
"""The other convention, as the command asks for it."""
_AREAS = {**dict.fromkeys(("segm", "boundary"), "the area of the mask"), "rotated": "the area of the rotated box"}
"""What stands for an area that is missing, where it is not width x height."""
_COUNTS = {"ground truths": "ground_truths_per_class", "detections": "detections_per_class"}


def class_table(result: Result) -> str:
    """One line per class: AP over all IoU thresholds, at 0.50 and 0.75, AR, and the counts behind them.

    Args:
        result: of :meth:`valor_gpu.coco.COCOeval.result`; a number that does not exist is shown as ``-``.
    """
    limit = result.signature["max_detection_thresholds"][-1]
    numbers = {**_NUMBERS, f"AR{limit}": "mar_per_class"}
    rows = [
        [
            name,
            *(_number(result.values[key][name]) for key in numbers.values()),
            *(f"{result.values[key][name]:,}" for key in _COUNTS.values()),
        ]
        for name in result.values["map_per_class"]
    ]
    return table(["class", *numbers, *_COUNTS], rows)


def point_table(points: ResultData) -> str:
    """One line for all classes together and one per class: score threshold, precision, recall and F.

    Args:
        points: of :meth:`valor_gpu.result.Result.operating_points`; a number that does not exist is shown as ``-``.
    """
    names = [name for name in points.values if f"{name}_per_class" in points.values]
    classes = points.values[f"{names[0]}_per_class"]
    rows = [["all together", *(bounded(points, name) for name in names)]]
    rows += [[name, *(bounded(points, f"{each}_per_class", name) for each in names)] for name in classes]
    return "\n".join([table(["class", *(name.replace("_", " ") for name in names)], rows), str(points.signature)])


def interval_table(result: Result) -> str:
    """One line for each number with its interval, of classes the widest, and what the intervals are of.

    Args:
        result: with intervals.
    """
    from valor_gpu.exports.intervals import interval_lines, interval_note
    from valor_gpu.exports.texts import value_text

    rows = [
        (name, "" if isinstance(value, Mapping) else value_text(value), interval_note(name, value, result.intervals))
        for name, value in result.values.items()
    ]
    shown = [row for row in rows if row[2]]
    wide = max((len(name) for name, _, _ in shown), default=0)
    lines = (f"{name:<{wide}}  {text:>6}  {note}" for name, text, note in shown)
    return "\n".join([*lines, *interval_lines(result.intervals)])


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def count_line(result: Result) -> str:
    """How many images, ground truths and detections the numbers come from."""
    counts, limit = result.counts, result.signature["max_detection_thresholds"][-1]
    text = f"{plural(counts['images'], 'image')}, {plural(counts['ground_truths'], 'ground truth')}"
    crowds = _ignored(result.signature)
    text += f" ({counts['ignored_ground_truths']:,} of them {crowds})"
    if counts["ground_truths_left_out"]:
        text += f", {counts['ground_truths_left_out']:,} more left out, of unknown images or categories"
    text += f", {plural(counts['detections'], 'detection')}"
    cell = "image" if result.signature.get("protocol") == "lvis" else "image and class"
    text += f" ({counts['detections_beyond_limit']:,} dropped: more than {limit} of one {cell})"
    if counts["detections_of_unknown_categories"]:
        text += f", {counts['detections_of_unknown_categories']:,} more left out, of unknown categories"
    if counts.get("detections_of_unsearched_categories"):
        text += f", {counts['detections_of_unsearched_categories']:,} more left out, of classes that their image was"
        text += " not searched for"
    return text


def _ignored(signature: Signature) -> str:
    """What ground truths that neither count nor do harm are."""
    kinds = [] if signature.get("protocol") == "lvis" else ["crowds"]
    kinds += ["without keypoints"] if signature["iou_type"] == "keypoints" else []
    return " or ".join([*kinds, *([] if signature["convention"] == "strict" and kinds else ["ignored"])])


def doubts(ground_truth: Dataset, detections: Dataset, result: Result, path: str) -> Iterator[str]:
    """Says which rows are left out, for the ground truth has no such category or image, and which values are doubtful.

    Args:
        ground_truth: columns of what was evaluated.
        detections: columns of the detections on it.
        result: of :meth:`valor_gpu.coco.COCOeval.result`.
        path: the ground truth file.
    """
    import numpy as np

    from valor_gpu.coco.doubtful_ids import describe_ids, without_harmless
    from valor_gpu.coco.doubtful_values import describe_doubtful_values
    from valor_gpu.coco.ids import members
    from valor_gpu.inputs._coco_records import shown
    from valor_gpu.inputs.coco_ids import aligned, row_ids
    from valor_gpu.inputs.missing_fields import describe_missing

    ground_truth, found = aligned(ground_truth, detections.annotations)
    known = {"category_id": ground_truth.category_ids, "image_id": ground_truth.image_ids}
    sides = (("detection", found), ("ground truth", ground_truth.annotations))
    for (what, rows), (name, ids) in itertools.product(sides, known.items()):
        unknown = np.flatnonzero(~members(getattr(rows, name), ids))
        if len(unknown):
            first, kind = int(unknown[0]), name.removesuffix("_id")
            many = {"category": "categories", "image": "images"}[kind]
            yield (
                f"{rows.place(first)}.{name} is {shown(row_ids(rows, name, [first])[0])}, no {kind} of {path}:"
                f" {plural(len(unknown), what)} of unknown {many} left out"
            )
    lists = {"categories": known["category_id"], "images": known["image_id"]}
    absent = [many for many, ids in lists.items() if not len(ids)]
    if not absent and not len(ground_truth.annotations):
        absent = ["annotations, so that no number exists (-1 stands for that)"]
    yield from (f"{path} lists no {many}" for many in absent)
    strict, crowdpose = result.signature["convention"] == "strict", result.signature.get("protocol") == "crowdpose"
    yield from describe_ids(without_harmless(result.counts) if crowdpose else result.counts, strict, WAY_OUT)
    yield from describe_missing(result.counts, _AREAS.get(result.signature["iou_type"], "width x height"))
    yield from describe_doubtful_values(result.counts)


def doubts_of_type(detections: Dataset, signature: Signature, given: str | None) -> Iterator[str]:
    """Says where detections have something else than what is compared.

    Args:
        detections: their columns.
        signature: of the result.
        given: the type of comparison that was asked for; None where it is the default.
    """
    rows, kind = detections.annotations, signature["iou_type"]
    masked = rows.has("segmentation")
    bare = len(rows) - int(masked.sum())
    if kind in ("segm", "boundary") and bare:
        yield f"{bare:,} of the detections {'has' if bare == 1 else 'have'} no mask: boxes are compared as masks"
    if given is not None or kind != "bbox":
        return
    lvis = signature.get("protocol") == "lvis"
    other, option = ("masks", "segm") if masked.any() or lvis else ("keypoints", "keypoints")
    if rows.around:
        yield f"boxes around {other} are compared where detections have no box: is --iou-type {option} meant?"
    elif lvis and masked.any():
        yield f"boxes are compared, but the detections have {other} too: is --iou-type {option} meant?"
