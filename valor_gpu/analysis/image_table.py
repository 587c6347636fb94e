"""Outcomes of each image at one IoU threshold: the table of ``images()``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.rows import Bools, Floats, Ints, Matching, Rows
from valor_gpu.checks import check_number
from valor_gpu.exports.column_table import ColumnTable

if TYPE_CHECKING:
    from valor_gpu.analysis.matched import MatchedDetections

_WITHOUT_EFFECT = ("iou_thresholds", "rec_thresholds", "average", "version")
"""Choices of the numbers that change no outcome at one threshold."""


def image_table(analysis: MatchedDetections, iou: float = 0.5, score: float | None = None) -> ColumnTable:
    """Returns the table of :meth:`valor_gpu.result.Result.images` of a detection result."""
    matching, rows = analysis.matching(iou), analysis.rows
    used = scored(rows, score)
    count = rows.lengths.shape[1]

    def number(of: Bools, images: Ints) -> Ints:
        return np.bincount(images[of], minlength=count).astype(np.int64)

    hits = matching.hits & used
    tp, fp = number(hits, rows.images), number(matching.false_positives & used, rows.images)
    positives = number(rows.gt_counts, rows.gt_images)
    fn = positives - tp if (missed := missed_of(matching, hits)) is None else number(missed, rows.gt_images)
    columns: dict[str, Any] = {
        "image_id": image_ids_of(rows),
        **_file_names(rows, count),
        "ground_truths": positives,
        "detections": tp + fp,
        "true_positives": tp,
        "false_positives": fp,
        "false_negatives": fn,
        "precision": _quotient(tp, tp + fp),
        "recall": _quotient(tp, positives),
        "f1": _quotient(2 * tp, 2 * tp + fp + fn),
        **_mean_ious(matching, hits, tp),
        "ignored_ground_truths": number(~rows.gt_counts, rows.gt_images),
        "ignored_detections": number(ignored_of(matching) & used, rows.images),
    }
    return ColumnTable(columns, choices_of(analysis, iou=iou, score=score))


def choices_of(analysis: MatchedDetections, **own: Any) -> dict[str, Any]:
    """Returns the choices behind a table of outcomes: its own, and those of the metric that bear on it."""
    kept = {name: choice for name, choice in analysis.choices.items() if name not in _WITHOUT_EFFECT}
    return {**kept, **own}


def scored(rows: Rows, score: float | None) -> Bools:
    """Bool ``[D]``: detections whose score is at least ``score``; all without one."""
    if score is None:
        return np.ones(len(rows.scores), np.bool_)
    check_number("score", score)
    return np.asarray(rows.scores >= score)


def ignored_of(matching: Matching) -> Bools:
    """Bool ``[D]``: detections within the limit that are neither right nor wrong."""
    return np.asarray(matching.rows.kept & ~matching.hits & ~matching.false_positives)


def missed_of(matching: Matching, hits: Bools) -> Bools | None:
    """Bool ``[G]``: ground truths that count and that none of these hits is of; None where partners are not known.

    They are those that count less the hits, unless detections of ids of 0 or below share one.
    """
    if matching.partners is None:
        return None
    missed = matching.rows.gt_counts.copy()
    missed[matching.partners[hits]] = False
    return missed


def image_ids_of(rows: Rows) -> NDArray[Any]:
    """Ids of the images, or their places where they have none."""
    return ids_of(rows.image_ids if len(rows.image_ids) else range(rows.lengths.shape[1]))


def ids_of(ids: Sequence[Any]) -> NDArray[Any]:
    """Ids as int64 ``[N]``, or as objects where one is a text."""
    if any(isinstance(each, str) for each in ids):
        found = np.empty(len(ids), object)
        found[:] = ids
        return found
    return np.asarray(ids, np.int64)


def _file_names(rows: Rows, count: int) -> dict[str, list[Any]]:
    """The column of file names, where images have some."""
    if rows.image_fields is None:
        return {}
    names = [rows.image_fields(position).get("file_name") for position in range(count)]
    return {"file_name": names} if any(name is not None for name in names) else {}


def _mean_ious(matching: Matching, hits: Bools, tp: Ints) -> dict[str, Floats]:
    """The column of mean IoUs, where the state knows them."""
    if matching.ious is None:
        return {}
    sums = np.bincount(matching.rows.images[hits], matching.ious[hits], minlength=len(tp))
    return {"mean_iou": _quotient(sums, tp)}


def _quotient(numerator: NDArray[Any], denominator: Ints) -> Floats:
    """The quotient, NaN where the denominator is 0."""
    found = np.full(len(denominator), np.nan)
    np.divide(numerator, denominator, out=found, where=denominator > 0)
    return found
