"""Detections and ground truths of an evaluation, and the pairs of them that overlap: what errors are told from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CROWD, IGNORED, ID_ZERO = 1, 2, 4
"""Flags of ground truths, as in :mod:`valor_gpu.ops.assign.match_batch`."""


@frozen
class Rows:
    """Detections and ground truths, image after image; images in the order that breaks ties of scores.

    Attributes:
        image_ids: of I images; their places of arrival where some have no id.
        classes: names of K classes.
        lengths: int64 ``[2, I]``: detections and ground truths of each image.
        scores: float64 ``[D]``.
        labels: int64 ``[D]``, positions in ``classes``.
        kept: bool ``[D]``: within the limit of detections.
        unmatched_ignored: bool ``[D]``: no false positive where it matches nothing, for its area is out of range or its
            class is not annotated exhaustively.
        gt_labels: int64 ``[G]``, positions in ``classes``.
        gt_flags: uint8 ``[G]``: 0, or a sum of ``CROWD``, ``IGNORED`` and ``ID_ZERO``; what has one of the first two
            neither counts nor makes a false positive, what matches the last is unmatched to pycocotools.
        detection_ids: ids of annotations ``[D]``; None: a row is known by its place in its image.
        ground_truth_ids: likewise ``[G]``.
        boxes: returns COCO annotation objects (``bbox``, ``segmentation``) of rows of one side, ``detections`` or
            ``ground_truths``; None where shapes were not kept.
        image_fields: returns the COCO image object of an image by its position, such as width and file_name; None
            where none are known.
        free: bool ``[D]``: detections whose ground truth others may match too, the effect of an id of 0 or below in
            pycocotools; None for none.
        corners: returns float64 ``[N, 4]``, x, y, width and height in pixels, of all rows of one side; None where boxes
            were not kept.
        category_ids: of the classes, in their order; None where they have none.
        file_order: returns int64 ``[I]``: the place of each image in the file, or among the updates, that it came from;
            None: as the images stand here.
    """

    image_ids: Sequence[Any]
    classes: Sequence[str]
    lengths: Ints
    scores: Floats
    labels: Ints
    kept: Bools
    unmatched_ignored: Bools
    gt_labels: Ints
    gt_flags: NDArray[np.uint8]
    detection_ids: Any = None
    ground_truth_ids: Any = None
    boxes: Callable[[str, Ints], Sequence[Mapping[str, Any]]] | None = None
    image_fields: Callable[[int], Mapping[str, Any]] | None = None
    free: Bools | None = None
    corners: Callable[[str], Floats] | None = None
    category_ids: Sequence[Any] | None = None
    file_order: Callable[[], Ints] | None = None

    @cached_property
    def images(self) -> Ints:
        """int64 ``[D]``: the position of the image of each detection."""
        return np.repeat(np.arange(self.lengths.shape[1]), self.lengths[0])

    @cached_property
    def gt_images(self) -> Ints:
        """int64 ``[G]``: the position of the image of each ground truth."""
        return np.repeat(np.arange(self.lengths.shape[1]), self.lengths[1])

    @cached_property
    def gt_counts(self) -> Bools:
        """Bool ``[G]``: ground truths that count."""
        counts: Bools = (self.gt_flags & np.uint8(CROWD | IGNORED)) == 0
        return counts


@frozen
class Pairs:
    """Pairs of a detection and a ground truth of its image, of any classes, whose IoU reaches ``lowest``.

    The pairs of a detection follow one another, detection after detection, by IoU descending, of equal ones the later
    ground truth first. The IoU with a crowd is intersection over the area of the detection.

    Attributes:
        lowest: IoU from which on pairs are known; 0: every pair that overlaps.
        counts: int64 ``[D]``, pairs of each detection.
        ground_truths: int64 ``[P]``, rows of ground truths among all.
        ious: float64 ``[P]``.
    """

    lowest: float
    counts: Ints
    ground_truths: Ints
    ious: Floats

    @cached_property
    def detections(self) -> Ints:
        """int64 ``[P]``: the row of the detection of each pair."""
        return np.repeat(np.arange(len(self.counts)), self.counts)


@frozen
class Matching:
    """Outcomes of all rows at one IoU threshold; a detection is left out, a hit, or a false positive.

    Attributes:
        rows: detections and ground truths.
        iou: the threshold.
        hits: bool ``[D]``: kept and matched to a ground truth that counts.
        false_positives: bool ``[D]``: kept, no hit and not ignored.
        partners: int64 ``[D]``: the ground truth of each hit, a row among all, -1 of others; None where the state keeps
            no pairs.
        ious: float64 ``[D]``: IoU of each hit with it, NaN of others; None likewise.
        found: bool ``[G]``: ground truths that count and have a hit; None likewise.
    """

    rows: Rows
    iou: float
    hits: Bools
    false_positives: Bools
    partners: Ints | None = None
    ious: Floats | None = None
    found: Bools | None = None

    @cached_property
    def positives(self) -> Ints:
        """int64 ``[K]``: ground truths that count, by class."""
        rows = self.rows
        return np.bincount(rows.gt_labels[rows.gt_counts], minlength=len(rows.classes))


# ------------------------------------------------------------------------------------------------------ match tables

OUTCOMES = ("true positive", "false positive", "false negative", "ignored")
"""Values of the column ``outcome`` of a table of matches."""

TP, FP, FN, IGNORED_DETECTION = range(4)
"""Places in ``OUTCOMES``."""


@frozen
class Listed:
    """Rows of a table of matches.

    Attributes:
        rows: detections and ground truths.
        detections: int64 ``[N]``: the detection, -1 for none.
        ground_truths: int64 ``[N]``: the ground truth on the other side, or the missed one; -1 for none.
        outcomes: int8 ``[N]``, places in ``OUTCOMES``.
        kinds: int8 ``[N]``, places in the kinds of errors, -1 for none.
        ious: float64 ``[N]``: IoU of both, NaN without one of them.
    """

    rows: Rows
    detections: Ints
    ground_truths: Ints
    outcomes: NDArray[np.int8]
    kinds: NDArray[np.int8]
    ious: Floats

    def take(self, places: Any) -> Listed:
        """Returns the rows at these places."""
        parts = (self.detections, self.ground_truths, self.outcomes, self.kinds, self.ious)
        return Listed(self.rows, *(part[places] for part in parts))

    @property
    def missed(self) -> Bools:
        """Bool ``[N]``: rows of missed ground truths."""
        return np.asarray(self.outcomes == FN)

    @property
    def images(self) -> Ints:
        """int64 ``[N]``: the position of the image of each row."""
        return self._either(self.rows.images, self.rows.gt_images)

    @property
    def labels(self) -> Ints:
        """int64 ``[N]``: the class of the detection, or of the missed ground truth."""
        return self._either(self.rows.labels, self.rows.gt_labels)

    def _either(self, own: Ints, other: Ints) -> Ints:
        return np.where(self.missed, at(other, self.ground_truths), at(own, self.detections))


def at(column: NDArray[Any], places: Ints) -> NDArray[Any]:
    """Returns values at places, of which those below 0 get any value."""
    if not len(column):
        return np.zeros((len(places), *column.shape[1:]), column.dtype)
    return np.asarray(column[np.maximum(places, 0)])
