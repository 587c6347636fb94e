"""The report of ``valor-gpu panoptic``."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from valor_gpu.exports.texts import spreadsheet_cell
from valor_gpu.report.text import bounded, plural, table
from valor_gpu.result import Result

_GROUPS = {"all": "", "things": "_things", "stuff": "_stuff"}
_COLUMNS = ("image_id", "file_name", "pq", "sq", "rq", "tp", "fp", "fn", "predictions", "ground_truths")


def summary(result: Result, things: Sequence[bool]) -> str:
    """PQ, SQ and RQ over all categories, over things and over stuff, and of how many categories each is the mean.

    Args:
        result: of :meth:`valor_gpu.segmentation.coco_panoptic.PanopticEvaluation.result`.
        things: which of its categories are things.
    """
    present = [not math.isnan(value) for value in result.values["pq_per_class"].values()]
    chosen = {"all": present, "things": _both(present, things), "stuff": _both(present, [not is_ for is_ in things])}
    rows = [
        [name, *(bounded(result, f"{number}{group}") for number in ("pq", "sq", "rq")), str(sum(chosen[name]))]
        for name, group in _GROUPS.items()
    ]
    return table(["", "PQ", "SQ", "RQ", "categories"], rows)


def _both(left: Sequence[bool], right: Sequence[bool]) -> list[bool]:
    return [a and b for a, b in zip(left, right)]


def class_table(result: Result) -> str:
    """One line per category with a segment that counts: its numbers, ``-`` where one does not exist, and its counts."""
    numbers, counts = ("pq", "sq", "rq"), ("tp", "fp", "fn")
    rows = [
        [
            name,
            *(bounded(result, f"{number}_per_class", name) for number in numbers),
            *(f"{result.values[f'{count}_per_class'][name]:,}" for count in counts),
        ]
        for name, pq in result.values["pq_per_class"].items()
        if not math.isnan(pq)
    ]
    return table(["class", *map(str.upper, (*numbers, *counts))], rows)


def count_line(result: Result) -> str:
    """How many images and segments the numbers come from."""
    counts = result.counts
    return (
        f"{plural(counts['images'], 'image')}, {plural(counts['ground_truths'], 'ground truth')} and"
        f" {plural(counts['crowds'], 'crowd')}, {plural(counts['predictions'], 'prediction')}"
        f" ({counts['ignored_predictions']:,} of them ignored: mostly on void or on a crowd of their category);"
        f" {counts['absent_classes']:,} of {len(result.values['pq_per_class']):,} categories have no segment that"
        " counts"
    )


def doubts(result: Result, ground_truth: str, predictions: str) -> Iterator[str]:
    """Says what is left out or missing, and where pixels and lists do not agree.

    Args:
        result: of :meth:`valor_gpu.segmentation.coco_panoptic.PanopticEvaluation.result`.
        ground_truth: the file.
        predictions: the file.
    """
    counts = result.counts
    if left := counts["images_of_predictions_left_out"]:
        yield f"{predictions} has predictions of {plural(left, 'image')} that {ground_truth} does not have: left out"
    if other := counts["segments_of_other_areas"]:
        yield (
            f"{plural(other, 'segment')} of {ground_truth} {_have(other)} another area than pixels: pixels are counted,"
            " panopticapi takes the area"
        )
    if nowhere := counts["segments_without_pixels"]:
        yield f"{plural(nowhere, 'segment')} of {ground_truth} {_have(nowhere)} no pixels: counted as missed"
    if lacking := counts["ground_truths_without_iscrowd"]:
        yield f"{plural(lacking, 'segment')} of {ground_truth} {_have(lacking)} no iscrowd: 0 is used"
    if not counts["images"]:
        yield f"{ground_truth} has no annotations, so that no number exists"


def _have(count: int) -> str:
    return "has" if count == 1 else "have"


def image_table(rows: Iterable[tuple[Any, ...]]) -> str:
    """CSV with one line per image; a number that does not exist is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        shown = ("" if isinstance(cell, float) and math.isnan(cell) else cell for cell in row)
        writer.writerow(map(spreadsheet_cell, shown))
    return text.getvalue()
