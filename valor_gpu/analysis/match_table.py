"""Detections and missed ground truths with what became of them: the table of ``matches()``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.analysis.image_table import choices_of, ids_of, ignored_of, image_ids_of, scored
from valor_gpu.analysis.match_export import coco_text
from valor_gpu.analysis.matched import MatchedDetections
from valor_gpu.analysis.rows import (
    FN,
    FP,
    IGNORED_DETECTION,
    OUTCOMES,
    TP,
    Bools,
    Floats,
    Ints,
    Listed,
    Matching,
    Rows,
    at,
)
from valor_gpu.analysis.tide_kinds import CLASSIFICATION, DETECTION_KINDS, LOCALIZATION, ErrorKinds, kinds_of
from valor_gpu.checks import check_number
from valor_gpu.exports.column_table import ColumnTable
from valor_gpu.exports.files import write_text

_MISSED = len(DETECTION_KINDS)
_KINDS = (*DETECTION_KINDS, "missed", None)
"""Values of the column ``kind``; the last, place -1, is that of what is no error."""


class MatchTable(ColumnTable):
    """Detections and missed ground truths with what became of them; see :meth:`valor_gpu.result.Result.matches`.

    To pickle it gives a plain :class:`~valor_gpu.exports.column_table.ColumnTable`, without :meth:`to_coco`.

    Args:
        listed: the rows.
        metric: name of the metric, for messages.
        choices: what the table depends on.
    """

    def __init__(self, listed: Listed, metric: str, choices: dict[str, Any]) -> None:
        super().__init__(_columns(listed), choices)
        self._listed, self._metric = listed, metric

    def take(self, rows: NDArray[np.int64]) -> MatchTable:
        """Returns the rows at these positions, in their order."""
        taken = super().take(rows)
        taken._listed = self._listed.take(rows)
        return taken

    def __reduce__(self) -> tuple[Any, ...]:
        return ColumnTable, (self.columns, self.choices)

    def __copy__(self) -> MatchTable:
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        return found

    def to_coco(
        self, path: str | os.PathLike[str], outcomes: Sequence[str] = ("false positive", "false negative")
    ) -> None:
        """Writes rows as COCO annotations, in one step: for a labelling tool such as CVAT, Label Studio or FiftyOne.

        Images are those of the rows. An annotation has the shape of the detection, or of the missed ground truth,
        ``score`` where it is a detection, and ``attributes``: ``outcome``, ``kind``, ``iou``, ``detection_id``,
        ``ground_truth_id`` and ``ground_truth_class`` as the table has them; what is missing is left out. Its own id is
        its place in the file, from 1 on.

        Args:
            path: of the file.
            outcomes: which rows: ``true positive``, ``false positive``, ``false negative``, ``ignored``.

        Raises:
            InputError: an outcome is none of these, or the metric keeps no shapes, as
                :class:`valor_gpu.detection.MeanAveragePrecision`: ask the result of a COCOeval.
            OSError: the file cannot be written; an older one stays as it is.
        """
        write_text(path, coco_text(self._listed, self.columns, self._metric, outcomes))


def match_table(
    analysis: MatchedDetections, iou: float = 0.5, score: float | None = None, background: float = 0.1
) -> MatchTable:
    """Returns the table of :meth:`valor_gpu.result.Result.matches` of a detection result."""
    used = scored(analysis.rows, score)
    matching = analysis.matching(iou)
    if str(analysis.choices.get("iou_type", "")).startswith("keypoints"):
        kinds = _no_kinds(matching)
    else:
        check_number("background", background, 0, 1)
        analysis.pairs_from(min(iou, background))
        kinds = kinds_of(analysis, iou, background)
    choices = choices_of(analysis, iou=iou, score=score, background=background)
    return MatchTable(_in_order(_listed(matching, kinds, used)), analysis.metric, choices)


def _no_kinds(matching: Matching) -> ErrorKinds:
    """Kinds where none are defined: TIDE tells them apart by IoU, which keypoints do not have."""
    count = len(matching.hits)
    none = np.zeros(len(matching.rows.gt_flags), np.bool_)
    return ErrorKinds(np.full(count, -1, np.int8), np.full(count, -1), np.full(count, np.nan), none, none)


def _listed(matching: Matching, errors: ErrorKinds, used: Bools) -> Listed:
    """Detections that are used, then missed ground truths."""
    rows = matching.rows
    assert matching.partners is not None and matching.ious is not None
    codes = np.full(len(used), -1, np.int8)
    for outcome, chosen in (
        (TP, matching.hits),
        (FP, matching.false_positives),
        (IGNORED_DETECTION, ignored_of(matching)),
    ):
        codes[chosen & used] = outcome
    detections = np.flatnonzero(codes >= 0)
    codes = codes[detections]
    right = codes == TP
    others = np.where(right, matching.partners[detections], errors.targets[detections])
    ious = np.where(right, matching.ious[detections], errors.ious[detections])
    found = np.zeros(len(rows.gt_flags), np.bool_)
    found[others[right]] = True
    missed = np.flatnonzero(rows.gt_counts & ~found)
    causes = _causes(rows, errors, used)[missed]
    explained = causes >= 0
    return Listed(
        rows,
        np.concatenate((detections, causes)),
        np.concatenate((others, missed)),
        np.concatenate((codes, np.full(len(missed), FN, np.int8))),
        np.concatenate((errors.kinds[detections], np.where(explained, at(errors.kinds, causes), _MISSED))).astype(
            np.int8
        ),
        np.concatenate((ious, np.where(explained, at(errors.ious, causes), np.nan))),
    )


def _causes(rows: Rows, errors: ErrorKinds, used: Bools) -> Ints:
    """int64 ``[G]``: the detection of highest score whose misplaced box or wrong class accounts for a miss, or -1."""
    detections = np.flatnonzero(used & ((errors.kinds == CLASSIFICATION) | (errors.kinds == LOCALIZATION)))
    causes = np.full(len(rows.gt_flags), -1)
    # Written from the lowest score to the highest, of equal ones the first at last: the last write stays.
    order = np.argsort(-rows.scores[detections], kind="stable")[::-1]
    causes[errors.targets[detections[order]]] = detections[order]
    return causes


def _in_order(listed: Listed) -> Listed:
    """The rows image after image; detections by descending score, then missed ground truths."""
    missed = listed.missed
    scores = np.where(missed, 0.0, at(listed.rows.scores, listed.detections))
    return listed.take(np.lexsort((-scores, missed, listed.images)))


def _columns(listed: Listed) -> dict[str, Any]:
    rows, missed = listed.rows, listed.missed
    detections, ground_truths = listed.detections, listed.ground_truths
    names = np.array([*rows.classes, None], object)
    return {
        "image_id": image_ids_of(rows)[listed.images],
        "outcome": np.array(OUTCOMES, object)[listed.outcomes],
        "kind": np.array(_KINDS, object)[listed.kinds],
        "class": names[listed.labels],
        "score": np.where(missed, np.nan, at(rows.scores, detections)),
        "detection_id": _ids(rows.detection_ids, rows.lengths[0], rows.images, detections),
        "ground_truth_id": _ids(rows.ground_truth_ids, rows.lengths[1], rows.gt_images, ground_truths),
        "ground_truth_class": names[np.where(ground_truths < 0, -1, at(rows.gt_labels, ground_truths))],
        "iou": listed.ious,
        **_boxes(listed),
    }


def _boxes(listed: Listed) -> dict[str, Floats]:
    """The columns of the box of the detection, or of the missed ground truth, where boxes are known."""
    corners = listed.rows.corners
    if corners is None:
        return {}
    own, other = corners("detections"), corners("ground_truths")
    if np.isnan(own).all() and np.isnan(other).all():  # keypoints without boxes
        return {}
    found = np.where(listed.missed[:, None], at(other, listed.ground_truths), at(own, listed.detections))
    return dict(zip(("x", "y", "width", "height"), np.ascontiguousarray(found.T)))


def _ids(known: Any, lengths: Ints, images: Ints, places: Ints) -> Any:
    """Ids of rows, or their places in their images; missing where there is no row."""
    if known is None:
        known = np.arange(len(images)) - (lengths.cumsum() - lengths)[images]
    ids = known if isinstance(known, np.ndarray) and known.dtype.kind in "iu" else ids_of(list(known))
    found = at(ids, places)
    if ids.dtype == object:
        found[places < 0] = None  # a copy, which taking made
        return found
    return np.ma.MaskedArray(found, places < 0) if (places < 0).any() else found
