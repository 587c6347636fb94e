"""What became of every detection and ground truth at one IoU threshold, and the images with most errors. No torch."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.checks import check_int, check_number
from valor_gpu.coco.engine import engine_on
from valor_gpu.coco.geometry import Geometry, geometry_of
from valor_gpu.coco.layout import Layout, Side
from valor_gpu.coco.match_layout import gt_areas, gt_flags, match_layout, match_rule
from valor_gpu.coco.params import Params
from valor_gpu.errors import InputError
from valor_gpu.inputs.text_ids import Id, plain_text
from valor_gpu.ops.accumulate.cpu import setting_bits
from valor_gpu.ops.assign.match_batch import CROWD, IGNORED, WANT_MATCHES

if TYPE_CHECKING:
    from valor_gpu.coco.dataset import COCO
    from valor_gpu.coco.evaluator import COCOeval
    from valor_gpu.coco.lvis_eval import LVISEval

TP, FP, FN, LEFT_OUT = range(4)
"""Detections: correct, wrong. Ground truths: found (``TP``), missed. Both: of no account, such as crowds."""


class ImageErrors(NamedTuple):
    """How many objects of an image are right and wrong.

    Attributes:
        position: of the image in the layout of its :class:`Outcomes`.
        image_id: its id, an integer or a text.
        tp: correct detections.
        fp: wrong detections.
        fn: missed ground truths.
    """

    position: int
    image_id: Id
    tp: int
    fp: int
    fn: int


@frozen
class Outcomes:
    """Every row of an evaluation at one IoU threshold.

    Attributes:
        layout: the rows, image after image.
        image_ids: I integers or texts in the order of the layout.
        detections: uint8 ``[D]``: ``TP``, ``FP``, or ``LEFT_OUT``: ignored, below the lowest score or beyond the limit.
        ground_truths: uint8 ``[G]``: ``TP``, ``FN`` or ``LEFT_OUT``.
        iou_threshold: of a match.
        lowest_score: of a detection.
        partners: int64 ``[D]``: the row of the ground truth that each detection matches, -1 for none.
    """

    layout: Layout
    image_ids: list[Id]
    detections: NDArray[np.uint8]
    ground_truths: NDArray[np.uint8]
    iou_threshold: float
    lowest_score: float
    partners: NDArray[np.int64]

    def worst_images(self, count: int = 10) -> list[ImageErrors]:
        """At most ``count`` images with an error, those with most wrong and missed objects first, then by id."""
        check_int("count", count)
        images = len(self.image_ids)
        rows = {side: images_of(getattr(self.layout, side)) for side in ("detections", "ground_truths")}

        def number(side: str, outcome: int) -> NDArray[np.int64]:
            return np.bincount(rows[side][getattr(self, side) == outcome], minlength=images)

        tp, fp, fn = number("detections", TP), number("detections", FP), number("ground_truths", FN)
        order = np.lexsort((self.layout.images, -(fp + fn)))[:count]
        return [
            ImageErrors(i, self.image_ids[i], int(tp[i]), int(fp[i]), int(fn[i]))
            for i in order.tolist()
            if fp[i] + fn[i]
        ]

    def rows_of(self, position: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of the detections and of the ground truths of the image at ``position``."""
        ends = [side.lengths[: position + 1].sum() for side in (self.layout.detections, self.layout.ground_truths)]
        sizes = self.layout.lengths()[:, position]
        return np.arange(ends[0] - sizes[0], ends[0]), np.arange(ends[1] - sizes[1], ends[1])


def outcomes(evaluation: COCOeval | LVISEval, iou_threshold: float = 0.5, lowest_score: float = 0.0) -> Outcomes:
    """Matches the rows of an evaluation once more, at one IoU threshold and without regard to areas.

    Args:
        evaluation: after ``evaluate()``. Of LVIS the rows are those of the categories that an image was searched for,
            and a wrong detection is left out where the image is not annotated exhaustively.
        iou_threshold: from which on a detection matches, in (0, 1].
        lowest_score: detections below it are left out; those above it match as they did.

    Raises:
        InputError: the evaluation did not happen, or by overridden steps; or an argument is out of range.
    """
    from valor_gpu.coco.lvis_eval import LVISEval

    check_number("iou_threshold", iou_threshold, 0, 1)
    check_number("lowest_score", lowest_score)
    chosen = float(iou_threshold), float(lowest_score)
    if isinstance(evaluation, LVISEval):
        if (records := evaluation._records) is None:
            raise _not_evaluated()
        return _outcomes(records.rows.layout, records.whole, records.strict, records.geometry(), *chosen)
    if evaluation._layout is None:
        raise _not_evaluated()
    params, strict = evaluation._evaluated, evaluation.convention == "strict"
    return _outcomes(evaluation._layout, params, strict, geometry_of(params, strict), *chosen)


def _not_evaluated() -> InputError:
    return InputError("evaluation must have run evaluate() with the steps of its own class but has not")


def _outcomes(
    layout: Layout, evaluated: Params, strict: bool, geometry: Geometry, iou_threshold: float, lowest_score: float
) -> Outcomes:
    """Those of rows that were evaluated with these parameters."""
    params = copy.deepcopy(evaluated)
    params.iouThrs, params.areaRng = np.array([iou_threshold]), params.areaRng[:1]
    rule = match_rule(params, strict, WANT_MATCHES)
    matched = match_layout(layout, rule, strict, engine_on(), geometry)
    scores = layout.detections.take("score")
    kept = (scores >= lowest_score) & (_ranks(layout.detections, scores) < params.maxDets[-1])
    positions = np.asarray(matched.matches)[:, 0].astype(np.int64)
    ignored = setting_bits(np.asarray(matched.detections), 0, 1, 1)
    found = np.where(positions >= 0, TP, FP)
    detections = np.where(ignored | ~kept, LEFT_OUT, found).astype(np.uint8)
    ground_truths = layout.ground_truths
    first = ground_truths.lengths.cumsum() - ground_truths.lengths
    takers = (positions >= 0) & kept
    taken = np.zeros(len(ground_truths), np.bool_)
    partners = np.where(takers, positions + first[images_of(layout.detections)], -1)
    taken[partners[takers]] = True
    areas, (low, high) = gt_areas(ground_truths), rule.area_ranges[0]
    of_no_account = (gt_flags(ground_truths, strict, geometry) & (CROWD | IGNORED)) != 0
    of_no_account |= (areas < low) | (areas > high)
    missed = np.where(of_no_account, LEFT_OUT, np.where(taken, TP, FN)).astype(np.uint8)
    known = [plain_text(image) if isinstance(image, str) else int(image) for image in params.imgIds]
    ids = [known[place] for place in layout.images.tolist()]
    return Outcomes(layout, ids, detections, missed, iou_threshold, lowest_score, partners)


def compared(evaluation: COCOeval | LVISEval) -> tuple[COCO, str]:
    """The ground truths as objects, and the type of comparison."""
    from valor_gpu.coco.lvis_eval import LVISEval

    if isinstance(evaluation, LVISEval):
        return evaluation.lvis_gt._index, evaluation.params.iou_type
    return evaluation.cocoGt, evaluation.params.iouType


def images_of(side: Side) -> NDArray[np.int64]:
    """int64 ``[N]``: the position of the image of each row."""
    return np.repeat(np.arange(len(side.lengths)), side.lengths)


def _ranks(side: Side, scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """int64 ``[N]``: how many rows of the same image and class come before a row by score."""
    cell: Any = images_of(side) * (1 + int(side.labels.max(initial=0))) + side.labels
    order = np.lexsort((-scores, cell))
    starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    return ranks
