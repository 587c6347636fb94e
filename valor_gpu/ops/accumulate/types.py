"""What accumulation takes and gives. No torch import: arrays are numpy arrays, or tensors on any device.

Row layouts: docs/design/001-detection-records.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS, MatchRule

TIE_ORDERS = ("given", "highest", "lowest")
"""Orders of tied scores: as given, true positives first (highest precision) or last. TieOrder in csrc/core/curves.h."""

CURVE_ARRAYS = ("precision", "recall")


class RecordShape(NamedTuple):
    """What the bits of a record stand for: T IoU thresholds, A area ranges, M max-detection limits."""

    thresholds: int
    areas: int
    limits: int

    @classmethod
    def of(cls, rule: MatchRule) -> RecordShape:
        """The shape of the records that matching by ``rule`` leaves."""
        return cls(rule.thresholds.shape[0], rule.area_ranges.shape[0], rule.limits.shape[0])

    @property
    def settings(self) -> int:
        """T x A, setting ``s = a * T + t``."""
        return self.thresholds * self.areas

    @property
    def columns(self) -> tuple[int, int, int]:
        """Columns of the tables of detections, ground truths and images."""
        return 13 + 2 * ((self.settings + 7) // 8), 4 + (self.areas + 2 + 7) // 8, len(IMAGE_COLUMNS)

    def check_tables(self, detections: Any, ground_truths: Any, images: Any) -> None:
        """Raises :class:`InputError` unless the tables have the columns of such records; takes arrays and tensors."""
        row, gt_row, columns = self.columns
        needs = (("uint8", row), ("uint8", gt_row), ("int64", columns))
        tables = {"detections": detections, "ground_truths": ground_truths, "images": images}
        for (name, table), (dtype, columns) in zip(tables.items(), needs):
            found = str(table.dtype).removeprefix("torch.")
            if found != dtype or tuple(table.shape[1:]) != (columns,):
                raise InputError(f"{name} must be {dtype} [N, {columns}] but is {found} {list(table.shape)}")


class LabelCounts(NamedTuple):
    """Ascending ``labels`` int64 ``[K]``; ``totals`` int64 ``[3]`` on the host: detections, ground truths, ignored."""

    labels: Any
    totals: Any


class Ordered(NamedTuple):
    """Row numbers: class k is ``order[offsets[k]:offsets[k + 1]]``, int64 ``order [N]`` and ``offsets [K + 1]``."""

    order: Any
    offsets: Any


class Curves(NamedTuple):
    """float64 ``precision [T, R, K, A, C]``, ``recall [T, K, A, M]``, ``scores`` as precision; -1: nothing counts.

    C is M for full curves, and 1 (the last limit) with empty scores otherwise.
    """

    precision: Any
    recall: Any
    scores: Any


class Pick(NamedTuple):
    """What one mean is taken over: an array, indices of its area range and limit, indices of its IoU thresholds."""

    array: str
    area: int
    limit: int
    thresholds: Sequence[int]


class PickTable(NamedTuple):
    """Picks as numbers.

    Attributes:
        rows: int64 ``[P, 5]``: 0 for precision and 1 for recall, area, limit, start and count in ``thresholds``.
        thresholds: int64: the threshold indices of all picks, one after another.
    """

    rows: NDArray[np.int64]
    thresholds: NDArray[np.int64]

    @classmethod
    def of(cls, picks: Iterable[Pick], shape: RecordShape, curves: int) -> PickTable:
        """The table of ``picks``, where indices may be negative.

        Args:
            picks: what to take means over.
            shape: T, A and M of the arrays.
            curves: C, the limits of precision.

        Raises:
            InputError: an array other than ``precision`` and ``recall``.
        """
        rows: list[list[int]] = []
        thresholds: list[int] = []
        for pick in picks:
            check_choice("picks array", pick.array, CURVE_ARRAYS)
            array = CURVE_ARRAYS.index(pick.array)
            limit = pick.limit % (shape.limits if array else curves)
            rows.append([array, pick.area % shape.areas, limit, len(thresholds), len(pick.thresholds)])
            thresholds += [t % shape.thresholds for t in pick.thresholds]
        return cls(np.array(rows, np.int64).reshape(-1, 5), np.array(thresholds, np.int64))

    def picks(self) -> tuple[Pick, ...]:
        """The picks that the table was made of."""
        chosen = [self.thresholds[start : start + count].tolist() for *_, start, count in self.rows.tolist()]
        rows = self.rows[:, :3].tolist()
        return tuple(Pick(CURVE_ARRAYS[array], area, limit, ts) for (array, area, limit), ts in zip(rows, chosen))


@frozen
class AccumulateChoices:
    """The choices of an accumulation.

    Attributes:
        shape: T, A and M of the records.
        recall_thresholds: float64 ``[R]``, any order.
        picks: what to take means over.
        by_key: images are ordered by id (or content hash), not by arrival, which breaks ties of scores.
        agnostic: all classes are pooled into one.
        full: all M limits and the scores, not precision at the last limit alone.
        ties: orders of tied scores, of :data:`TIE_ORDERS`; the arrays are those of the first, means come for each.
        labels: int64 ``[K]`` ascending labels wanted; None: all that detections and ground truths have.
        images: int64 rows of the images table that are wanted, in the order that breaks ties of scores (``by_key`` then
            has no meaning and no image is looked for twice); None: all, without the copies of an image.
    """

    shape: RecordShape
    recall_thresholds: NDArray[np.float64]
    picks: tuple[Pick, ...] = ()
    by_key: bool = True
    agnostic: bool = False
    full: bool = False
    ties: tuple[str, ...] = ("given",)
    labels: NDArray[np.int64] | None = None
    images: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        if not self.ties:
            check_choice("ties", None, TIE_ORDERS)
        for order in self.ties:
            check_choice("ties", order, TIE_ORDERS)
        for name, array in (("labels", self.labels), ("images", self.images)):
            if array is not None and (array.dtype != np.int64 or array.ndim != 1):
                raise InputError(f"choices.{name} must be int64 [N] but is {array.dtype} {list(array.shape)}")
        if self.labels is not None and not bool((self.labels[1:] > self.labels[:-1]).all()):
            raise InputError("choices.labels must ascend, each label once")
        if self.images is not None and len(np.unique(self.images)) < len(self.images):
            raise InputError("choices.images must name each row of images at most once")

    @property
    def curves(self) -> int:
        """C, the limits of the precision array."""
        return self.shape.limits if self.full else 1

    def curve_shapes(self, classes: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays of :class:`Curves` for K classes, by name."""
        shape = self.shape
        samples = (shape.thresholds, len(self.recall_thresholds), classes, shape.areas, self.curves)
        recall = (shape.thresholds, classes, shape.areas, shape.limits)
        return {"precision": samples, "recall": recall, "scores": samples if self.full else (0,)}

    def class_numbers(self) -> int:
        """How many numbers the arrays of :class:`Curves` hold for each class."""
        return sum(map(math.prod, self.curve_shapes(1).values()))

    @property
    def tie_codes(self) -> list[int]:
        """The orders of ties as numbers."""
        return [TIE_ORDERS.index(order) for order in self.ties]

    def pick_table(self) -> PickTable:
        """The picks as numbers."""
        return PickTable.of(self.picks, self.shape, self.curves)


class Totals(NamedTuple):
    """What the images that count hold.

    Attributes:
        images: images that count.
        repeated: images left out because their id and ground truth came before.
        detections: detections within or beyond the max-detection limits, without padding rows.
        ground_truths: ground truths that count in no or some area range, without padding rows.
        ignored: ground truths that are crowds or ignored.
        within_limits: detections of the wanted classes within the last max-detection limit.
        negative_detections: detections whose width or height is negative.
        negative_ground_truths: ground truths whose width or height is negative.
        detections_reach: largest absolute x, y, width or height of a detection, float32; 0 without one.
        ground_truths_reach: the same of ground truths.
    """

    images: int
    repeated: int
    detections: int
    ground_truths: int
    ignored: int
    within_limits: int
    negative_detections: int
    negative_ground_truths: int
    detections_reach: float
    ground_truths_reach: float

    @classmethod
    def of(cls, words: Any) -> Totals:
        """From int64 ``[9]`` on the host: eight counts, then two float32 (detections in the low half)."""
        table = np.asarray(words)
        return cls(*table[:8].tolist(), *table[8:].view(np.float32).tolist())

    def words(self) -> NDArray[np.int64]:
        """What :meth:`of` reads."""
        return np.concatenate((np.array(self[:8], np.int64), np.array(self[8:], np.float32).view(np.int64)))


@frozen
class Accumulated:
    """Accumulated detections: all that the numbers of an evaluation are read from.

    Attributes:
        labels: int64 ``[K']`` ascending labels, wanted or found. K is K', or at most 1 where classes are pooled.
        positives: int64 ``[K, A]`` ground truths that count.
        totals: counts of images and rows.
        ordered: detections by class and score.
        curves: precision, recall and scores for the first order of ties.
        means: float64 ``[orders of ties, P]``: the mean of each pick, NaN where nothing counts.
    """

    labels: Any
    positives: Any
    totals: Totals
    ordered: Ordered
    curves: Curves
    means: Any
