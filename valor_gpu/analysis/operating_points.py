"""Score thresholds that serve a purpose, chosen among all scores, and the numbers of detections there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.analysis.olrp import NO_HIT, NO_TRUTH, chosen
from valor_gpu.analysis.points_result import OperatingPoints
from valor_gpu.analysis.rows import Floats
from valor_gpu.analysis.score_rankings import Kept, Ranking, ResampledRankings, Weights, rankings_of
from valor_gpu.analysis.thresholds import NOTHING, Purpose
from valor_gpu.checks import check_int, check_number
from valor_gpu.errors import InputError
from valor_gpu.exports.signature import Signature
from valor_gpu.result_data import ResultData
from valor_gpu.stats.draws import SPLITS, philox

if TYPE_CHECKING:
    from valor_gpu.analysis.matched import MatchedDetections
    from valor_gpu.stats.intervals import Bootstrap

THRESHOLD = "score_threshold"
_CHOOSING = " of the images that thresholds are chosen on"
_REPORTED = " of the images that are reported"


def operating_points(
    analysis: MatchedDetections,
    beta: float | None = None,
    precision: float | None = None,
    recall: float | None = None,
    cost: tuple[float, float] | None = None,
    iou: float = 0.5,
    split: float | None = None,
    seed: int = 0,
    intervals: int | Bootstrap | None = None,
) -> OperatingPoints:
    """Chooses score thresholds; see :meth:`valor_gpu.result.Result.operating_points`."""
    purpose = Purpose.of(beta, precision, recall, cost)
    matching = analysis.matching(iou)
    rows = matching.rows
    check_int("seed", seed, 0)
    part = None if split is None else chosen_images(rows.lengths.shape[1], split, seed)
    pooled, rankings = rankings_of(matching)
    chooser = Chooser(purpose, part)
    whole, *found = (chooser.point(ranking) for ranking in (pooled, *rankings))
    values: dict[str, Any] = {name: float(number) for name, number in whole.numbers.items()}
    reasons = {name: whole.reason(name, "all classes") for name, number in values.items() if math.isnan(number)}
    for name in whole.numbers:
        values[f"{name}_per_class"] = {of: float(each.numbers[name]) for of, each in zip(rows.classes, found)}
        for of, each in zip(rows.classes, found):
            if math.isnan(each.numbers[name]):
                reasons[f"{name}_per_class/{of}"] = each.reason(name, "the class")
    drawn = {} if split is None else {"split": float(split), "seed": seed}
    signature = Signature(
        {"metric": "OperatingPoints", "of": analysis.metric, **chosen(analysis), "iou_threshold": float(iou)}
        | purpose.choices() | drawn
    )  # fmt: skip
    state = partial(
        ResampledRankings, matching, analysis.image_ids, partial(_replicates, chooser, pooled, rankings, rows.classes),
        [f"{name}_per_class" for name in whole.numbers], len(pooled.scores),
    )  # fmt: skip
    result = ResultData(values, signature, _counts(matching, part, found), reasons, state=state)
    points = OperatingPoints(result, purpose.f_name, pooled, dict(zip(rows.classes, rankings)))
    return points if intervals is None else points.with_intervals(intervals)


def chosen_images(images: int, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Returns which images are drawn as a fraction of all, bool ``[images]``, the same for a seed on every machine.

    Raises:
        InputError: the fraction is not between 0 and 1, or one of both parts would have no image.
    """
    check_number("split", fraction)
    check_int("seed", seed, 0)
    if not 0 < fraction < 1:
        raise InputError(f"split must be above 0 and below 1 but got {fraction}")
    number = round(fraction * images)
    if not 0 < number < images:
        raise InputError(f"split must leave images on both sides but {fraction} of {images} images are {number}")
    counter = np.zeros((images, 4), np.uint32)
    counter[:, 0], counter[:, 3] = np.arange(images), SPLITS
    words = philox(counter, seed).astype(np.uint64)
    ranks = np.argsort(words[:, 0] << np.uint64(32) | words[:, 1], kind="stable")
    found = np.zeros(images, np.bool_)
    found[ranks[:number]] = True
    return found


def _no_truth(of: str) -> str:
    return NO_TRUTH if of == "the class" else NO_TRUTH.replace(" of the class", "")


@frozen
class Point:
    """The chosen threshold of a ranking.

    Attributes:
        numbers: threshold, precision, recall, F and, where it is the purpose, cost; NaN where one does not exist.
        purpose: of the threshold.
        choosing: what thresholds keep of the images that they are chosen on.
        place: of the threshold, or ``NOTHING``.
        split: whether other images are reported.
    """

    numbers: Mapping[str, Any]
    purpose: Purpose
    choosing: Kept
    place: int
    split: bool

    def reason(self, name: str, of: str) -> str:
        """Why a number is NaN.

        Args:
            name: of the number.
            of: ``the class`` or ``all classes``.
        """
        if not self.choosing.positives:
            return _no_truth(of) + _CHOOSING * self.split
        if self.place == NOTHING:
            return self._unreached(of)
        if name == "precision":
            return f"no detection of {of}{_REPORTED} reaches the threshold"
        return _no_truth(of) + _REPORTED * self.split

    def _unreached(self, of: str) -> str:
        tp, fp, purpose = self.choosing.tp, self.choosing.fp, self.purpose
        if purpose.name == "cost":
            return "to keep no detection costs least"
        if not len(tp):
            return NO_HIT.replace("the class", of)
        found = tp / (tp + fp) if purpose.name == "precision" else tp / self.choosing.positives
        return (
            f"no threshold reaches {purpose.name} {purpose.number:g}: the highest {purpose.name} is {found.max():.4g}"
        )


@frozen
class Chooser:
    """Chooses the thresholds of rankings.

    Attributes:
        purpose: of the thresholds.
        part: bool ``[U]``, the images that they are chosen on, while the others are reported; None: both are all.
    """

    purpose: Purpose
    part: NDArray[np.bool_] | None

    def point(self, ranking: Ranking) -> Point:
        """Returns the point of a ranking."""
        if self.part is None:
            kept = ranking.kept()
            place = self.purpose.best(kept)
            return Point(self._numbers(ranking, kept, kept, place), self.purpose, kept, int(place), False)
        choosing, reported = (_first(ranking.kept(side)) for side in self.sides(np.ones((len(self.part), 1), np.uint8)))
        place = self.purpose.best(choosing)
        numbers = self._numbers(ranking, choosing, reported, place)
        return Point(numbers, self.purpose, choosing, int(place), True)

    def sides(self, weights: NDArray[np.uint8]) -> tuple[Weights, Weights]:
        """Returns the weights of the images that thresholds are chosen on, and of those that are reported.

        Args:
            weights: uint8 ``[U, L]`` of all images.
        """
        if self.part is None:
            return (both := Weights(weights)), both
        return Weights(weights * self.part[:, None]), Weights(weights * ~self.part[:, None])

    def replicates(self, ranking: Ranking, sides: tuple[Weights, Weights]) -> dict[str, NDArray[Any]]:
        """Returns the numbers of replicates, float64 ``[L]`` by name; thresholds are chosen in each anew."""
        choosing = ranking.kept(sides[0])
        reported = choosing if self.part is None else ranking.kept(sides[1])
        return self._numbers(ranking, choosing, reported, self.purpose.best(choosing))

    def _numbers(self, ranking: Ranking, choosing: Kept, reported: Kept, place: Any) -> dict[str, NDArray[Any]]:
        thresholds = np.append(ranking.thresholds, np.nan)[place]  # NOTHING is the last place
        found = {THRESHOLD: thresholds, **self.purpose.numbers(reported, place)}
        there = np.asarray(choosing.positives) > 0
        return {name: np.where(there, number, np.nan) for name, number in found.items()}


def _first(kept: Kept) -> Kept:
    """The only replicate."""
    return Kept(kept.tp[0], kept.fp[0], int(kept.positives[0]))


def _replicates(
    chooser: Chooser,
    pooled: Ranking,
    rankings: Sequence[Ranking],
    classes: Sequence[str],
    weights: NDArray[np.uint8],
) -> dict[str, Floats]:
    """Numbers of replicates by leaf names."""
    sides = chooser.sides(weights)
    found = dict(chooser.replicates(pooled, sides))
    for of, ranking in zip(classes, rankings):
        found |= {f"{name}_per_class/{of}": each for name, each in chooser.replicates(ranking, sides).items()}
    return found


def _counts(matching: Any, part: NDArray[np.bool_] | None, points: Sequence[Point]) -> dict[str, int]:
    rows = matching.rows
    images = rows.lengths.shape[1]
    sides = {} if part is None else {"images_chosen_on": int(part.sum()), "images_reported": int((~part).sum())}
    return {
        "images": images,
        **sides,
        "ground_truths": int(matching.positives.sum()),
        "detections": int((matching.hits | matching.false_positives).sum()),
        "classes_without_threshold": sum(math.isnan(point.numbers[THRESHOLD]) for point in points),
    }
