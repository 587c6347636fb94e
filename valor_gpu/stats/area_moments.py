"""Variances and covariances of areas under ROC curves, of classes and of their mean, by placements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.stats.placements import Placements, exact_dot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FLAT = 1e-24  # below the variance of the area of any rows that fit in memory


@frozen
class Areas:
    """One model: an area, or those of classes against the rest, of which the mean is wanted.

    Attributes:
        classes: placements of the rows of each class that has an area.
        codes: of each class int64 ``[N]``, the cluster of each row, or a unit that is the same for all classes; None:
            there is one class, and each row stands alone, in the same order for both models.
        units: clusters or rows.
    """

    classes: Sequence[Placements]
    codes: Sequence[Ints] | None = None

    @property
    def value(self) -> float:
        """Area, or mean of those of classes; NaN where one has no positives or no negatives."""
        if not all(places.positives and places.negatives for places in self.classes):
            return math.nan
        values = [places.value for places in self.classes]
        return values[0] if len(values) == 1 else float(np.mean(values))

    @property
    def units(self) -> int:
        """Rows, or clusters."""
        if self.codes is None:
            return len(self.classes[0].twice)
        return len(np.unique(np.concatenate(self.codes)))

    def ranks_like(self, other: Areas) -> bool:
        """Whether another model ranks the rows of each class alike, as far as their units tell."""
        if self.codes is None or other.codes is None:
            return all(np.array_equal(a.twice, b.twice) for a, b in zip(self.classes, other.classes))
        pairs = zip(_parts(self), _parts(other))
        return all(
            np.array_equal(a.positives, b.positives) and np.array_equal(a.negatives, b.negatives) for a, b in pairs
        )


@frozen
class _Parts:
    """What units add to the area of a class, and how many there are.

    Attributes:
        positives: float64 ``[U]``, by the positive rows of each unit.
        negatives: by its negative ones.
        with_positives: units with positive rows.
        with_negatives: units with negative ones.
        units: units with rows.
    """

    positives: Floats
    negatives: Floats
    with_positives: int
    with_negatives: int
    units: int


@frozen
class Moments:
    """Variances of the areas of two models, and what they are made of.

    Attributes:
        variances: of both.
        covariance: of both.
        sides: for the positives and the negatives of each class, the variances of both models and their covariance
            that come from them, and how many units hold them.
    """

    variances: tuple[float, float]
    covariance: float
    sides: tuple[tuple[float, float, float, int], ...]

    @property
    def flat(self) -> bool:
        """Whether neither area varies, but for rounding."""
        return max(self.variances) <= _FLAT

    def freedom(self, factors: tuple[float, float]) -> float:
        """Returns the degrees of freedom of the variance of a sum of both areas by factors, after Satterthwaite.

        Args:
            factors: of the first and the second area.
        """
        a, b = factors
        total = square = 0.0
        for first, second, both, units in self.sides:
            part = max(a * a * first + b * b * second + 2 * a * b * both, 0.0)
            total += part
            square += part * part / (units - 1)
        return total * total / square if square else math.inf


def moments(first: Areas, second: Areas) -> Moments:
    """Computes variances and covariance of the areas of two models; the same for any order of rows.

    Args:
        first: of one model.
        second: of another one, or the same.

    Source: DeLong et al. (1988); with clusters equations 3 to 5 of Obuchowski (1997). The mean over classes has the
    variance of the mean of what each unit adds to the areas.
    """
    if first.codes is None or second.codes is None:
        return _of_rows(first.classes[0], second.classes[0])
    sides = list(_parts(first)), list(_parts(second))
    found = []
    for mine, other in zip(*sides):
        for a, b, held in (
            (mine.positives, other.positives, mine.with_positives),
            (mine.negatives, other.negatives, mine.with_negatives),
        ):
            factor = held / (held - 1) / len(first.classes) ** 2
            found.append((factor * _dot(a, a), factor * _dot(b, b), factor * _dot(a, b), held))
    if len(first.classes) == 1:
        crossed = [_crossed(*pair) for pair in ((sides[0][0],) * 2, (sides[1][0],) * 2, (sides[0][0], sides[1][0]))]
        one, two, both = (sum(side[i] for side in found) + crossed[i] for i in range(3))
    else:
        whole = [_whole(parts) for parts in sides]
        one, two, both = _dot(whole[0], whole[0]), _dot(whole[1], whole[1]), _dot(*whole)
    return Moments((max(one, 0.0), max(two, 0.0)), both, tuple(found))


def _of_rows(first: Placements, second: Placements) -> Moments:
    """Moments of one class whose rows stand alone, correctly rounded."""
    m, n = first.positives, first.negatives
    pairs = (first, first), (second, second), (first, second)
    parts = []
    for side, held in ((first.positive, m), (~first.positive, n)):
        kept = {id(places): places.twice[side] for places in (first, second)}
        squares = [held * exact_dot(kept[id(a)], kept[id(b)]) - a.total * b.total for a, b in pairs]
        parts.append([(square, 4 * (m * n) ** 2 * (held - 1)) for square in squares])
    one, two, both = (
        (a * bottom_b + b * bottom_a) / (bottom_a * bottom_b) for (a, bottom_a), (b, bottom_b) in zip(*parts)
    )
    sides = tuple((*(top / bottom for top, bottom in part), held) for part, held in zip(parts, (m, n)))
    return Moments((one, two), both, sides)  # type: ignore[arg-type]


def _parts(areas: Areas) -> Iterator[_Parts]:
    """What units add to the area of each class."""
    assert areas.codes is not None
    units = max(int(codes.max(initial=-1)) for codes in areas.codes) + 1
    for places, codes in zip(areas.classes, areas.codes):
        sums, rows = [], []
        for side, held, other in (
            (places.positive, places.positives, places.negatives),
            (~places.positive, places.negatives, places.positives),
        ):
            rows.append(np.bincount(codes[side], minlength=units))
            twice = np.bincount(codes[side], places.twice[side], units)  # whole numbers: exact in any order
            sums.append((twice / (2 * other) - rows[-1] * places.value) / held)
        holding = [int((each > 0).sum()) for each in (*rows, rows[0] + rows[1])]
        yield _Parts(sums[0], sums[1], *holding)


def _crossed(one: _Parts, two: _Parts) -> float:
    """Covariance of positives and negatives of the same clusters."""
    both = _dot(one.positives, two.negatives) + _dot(one.negatives, two.positives)
    return one.units / (one.units - 1) * both


def _whole(parts: Sequence[_Parts]) -> Floats:
    """What units add to the mean of the areas of classes."""
    total = np.zeros_like(parts[0].positives)
    for part in parts:
        for side, held in ((part.positives, part.with_positives), (part.negatives, part.with_negatives)):
            total += math.sqrt(held / (held - 1)) * side
    whole: Floats = total / len(parts)
    return whole


def _dot(first: Floats, second: Floats) -> float:
    """Sum of products, the same for any order of units."""
    return math.fsum((first * second).tolist())
