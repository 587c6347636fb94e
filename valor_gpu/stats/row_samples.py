"""Rows that the bootstrap draws anew: means of their scores, and numbers of their counts added up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.errors import InputError
from valor_gpu.stats.clusters import codes_by_place
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.means import exact_mean
from valor_gpu.stats.paired_test import PairedTest
from valor_gpu.stats.resample import Resampled, Shared
from valor_gpu.stats.sign_flips import MOST_UNITS, sign_flips, units_of
from valor_gpu.stats.trials import Trials, tests_of_trials
from valor_gpu.stats.units import Pairing, Units
from valor_gpu.stats.weighted_sums import weighted_sums

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@frozen
class Pooled:
    """Counts of rows, and the numbers of their sums.

    Attributes:
        counts: int64 ``[N, M]``; a row without counts has zeros.
        numbers: gives the numbers by name from the sums of M counts.
        there: bool ``[N]``, the rows that have counts; None: all.
    """

    counts: Ints
    numbers: Callable[[list[int]], Mapping[str, float]]
    there: NDArray[np.bool_] | None = None


@frozen
class Arrivals:
    """Where the rows of a state came from.

    Attributes:
        places: int64 ``[N]``, the place of each among all that arrived.
        arrived: how many arrived, among them those that could not be read.
        truths: ``[N]``, equal where the references are; None: they are not known.
    """

    places: Ints
    arrived: int
    truths: NDArray[Any] | None = None


class RowSample(Resampled):
    """Rows with scores and counts, in the order of their content, so that no order or split of the rows changes a bit.

    Args:
        scores: name to float64 ``[N]``, NaN where a row has no score: the mean is over the others.
        pooled: counts that are added up before anything is divided.
        scale: of the means.
        ranges: the least and the largest value of a number, by its name; of others nothing is known.
        arrivals: of the rows; None: they are all that arrived, in this order.

    Example:
        >>> from valor_gpu.stats.intervals import Bootstrap
        >>> from valor_gpu.stats.resample import intervals_of
        >>> sample = RowSample({"score": np.repeat([0.0, 1.0], 50)})
        >>> found = intervals_of({"score": 0.5}, sample, Bootstrap(200))
        >>> 0.04 < found["score"].standard_error < 0.06
        True
    """

    def __init__(
        self,
        scores: Mapping[str, Floats],
        pooled: Sequence[Pooled] = (),
        scale: float = 1.0,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        arrivals: Arrivals | None = None,
    ) -> None:
        columns = [*scores.values(), *(column for part in pooled for column in part.counts.T)]
        self.units = len(columns[0]) if columns else 0
        self._given = dict(scores), tuple(pooled)
        self._order = np.lexsort(columns[::-1]) if columns else np.zeros(0, np.int64)
        self._names, self._scale, self._ranges = tuple(scores), scale, dict(ranges or {})
        self._arrivals = Arrivals(np.arange(self.units), self.units) if arrivals is None else arrivals
        self._places = _places([column[self._order] for column in columns])
        self._columns, self._pooled = _sorted_columns(scores, self._order), _sorted_counts(pooled, self._order)
        self._corpus = {name for part in pooled for name in part.numbers(part.counts.sum(0).tolist())}

    def family_of(self, name: str) -> str:
        """``rows`` for a mean, ``corpus`` for a number of sums."""
        return "corpus" if name in self._corpus else "rows"

    def range_of(self, name: str) -> tuple[float, float]:
        """Returns the least and the largest value that a number can have; see :meth:`Resampled.range_of`."""
        return self._ranges.get(name) or super().range_of(name)

    def replicates(self, draws: Draws) -> dict[str, Floats]:
        """Computes means and numbers of sums of every replicate; see :meth:`Resampled.replicates`."""
        found: dict[str, Floats] = {}
        if self._columns is not None:
            names, sums = len(self._names), weighted_sums(self._columns, draws)
            with np.errstate(invalid="ignore"):
                means = sums[:names] / sums[names:]
            found = dict(zip(self._names, self._scale * means))
        for part in self._pooled:
            rows = [part.numbers(sums) for sums in weighted_sums(part.counts, draws).T.tolist()]
            found |= {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}
        return found

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> Ints:
        """Returns the codes of the clusters of the rows.

        Args:
            given: the cluster of every row, in the order in which the rows came; or row number to cluster.

        Raises:
            InputError: a row has no cluster, or there are more clusters than rows.
        """
        places, arrived = self._arrivals.places[self._order].tolist(), self._arrivals.arrived
        if isinstance(given, Mapping):
            missing = next((row for row in sorted(places) if row not in given), None)
            if missing is not None:
                raise InputError(
                    f"clusters must have one for each of the {self.units} rows but has none for row {missing}"
                )
        elif len(given) != arrived:
            raise InputError(f"clusters must have one for each of the {arrived} rows but has {len(given)}")
        return codes_by_place([given[row] for row in places], self._places)

    def identities(self) -> Units:
        """Returns the rows by the place at which they came, with their references where these are known."""
        arrivals = self._arrivals
        truths = None if arrivals.truths is None else arrivals.truths[self._order]
        ranks = np.array(self._places, np.int64)
        return Units("rows", None, arrivals.places[self._order], arrivals.arrived, ranks, truths, "references")

    def shared(self, other: Resampled) -> Shared:
        """Returns the rows that both models could read; a number is of the rows that have it in both."""
        if not isinstance(other, RowSample) or other._arrivals.arrived != self._arrivals.arrived:
            return Shared(self, {}, {})
        both, *places = np.intersect1d(
            self._arrivals.places, other._arrivals.places, assume_unique=True, return_indices=True
        )
        mine, others = (side._rows(place) for side, place in zip((self, other), places))
        masks = {name: mine[name] & others[name] for name in mine if name in others}
        either = self.units + other.units - len(both)
        lost = {name: either - kept for name, mask in masks.items() if (kept := int(mask.sum())) < either}
        if not lost:
            return Shared(self, {}, {})
        return self._only(places[0], masks, lost)

    def _rows(self, places: Ints) -> dict[str, NDArray[np.bool_]]:
        """Which of some rows have a number, by its name."""
        scores, pooled = self._given
        found = {name: ~np.isnan(values[places]) for name, values in scores.items()}
        for part in pooled:
            there = np.ones(len(places), bool) if part.there is None else part.there[places]
            found |= dict.fromkeys(part.numbers([0] * part.counts.shape[1]), there)
        return found

    def _only(self, places: Ints, masks: Mapping[str, NDArray[np.bool_]], lost: Mapping[str, int]) -> Shared:
        """The state of some rows, where each number is of those of its mask."""
        values, scores, pooled = {}, {}, []
        for name, given in self._given[0].items():
            scores[name] = np.where(masks[name], given[places], np.nan) if name in masks else given[places]
            kept = scores[name][~np.isnan(scores[name])]
            if name in masks and len(kept) < np.count_nonzero(~np.isnan(given)):
                values[name] = self._scale * exact_mean(kept.tolist()) if len(kept) else math.nan
        for part in self._given[1]:
            names = part.numbers([0] * part.counts.shape[1])
            there = next((masks[name] for name in names if name in masks), np.ones(len(places), bool))
            kept_part = Pooled(np.where(there[:, None], part.counts[places], 0), part.numbers, there)
            pooled.append(kept_part)
            values |= part.numbers(kept_part.counts.sum(0).tolist())
        truths = self._arrivals.truths
        arrivals = Arrivals(
            self._arrivals.places[places], self._arrivals.arrived, None if truths is None else truths[places]
        )
        return Shared(RowSample(scores, pooled, self._scale, self._ranges, arrivals), values, lost)

    def swapping(self, other: Resampled) -> RowSample | None:
        """Returns the rows of both models; see :meth:`Resampled.swapping`."""
        if not isinstance(other, RowSample) or self._names != other._names or self._sums() != other._sums():
            return None
        found = object.__new__(type(self))
        vars(found).update(vars(self))
        found.units = self.units + other.units
        if self._columns is not None and other._columns is not None:
            found._columns = np.concatenate([side._both_columns() for side in (self, other)])
        found._pooled = [
            Pooled(np.concatenate((mine.counts, its.counts)), mine.numbers)
            for mine, its in zip(self._pooled, other._pooled)
        ]
        return found

    def _sums(self) -> list[tuple[str, ...]]:
        """Names of the numbers of each part of the counts."""
        return [tuple(part.numbers([0] * part.counts.shape[1])) for part in self._pooled]

    def paired_tests(self, other: Resampled, pairing: Pairing, confidence: float) -> dict[str, PairedTest]:
        """Returns the tests of McNemar of means of scores that are all 0 or 1, and of sign flips of other means.

        Signs are flipped of few rows, or clusters, see :data:`valor_gpu.stats.sign_flips.MOST_UNITS`.
        """
        if not isinstance(other, RowSample):
            return {}
        found = self._sign_flips(other, pairing, confidence)
        found |= tests_of_trials(self._trials(), other._trials(), pairing, confidence)
        return {name: _scaled(test, self._scale) for name, test in found.items()}

    def _sign_flips(self, other: RowSample, pairing: Pairing, confidence: float) -> dict[str, PairedTest]:
        """Tests of the means whose rows are the same in both states."""
        found: dict[str, PairedTest] = {}
        for name, given in self._given[0].items() if pairing.drawn <= MOST_UNITS else ():
            if name not in other._given[0]:
                continue
            mine = units_of(given[self._order], pairing.codes[0], pairing.drawn)
            its = units_of(other._given[0][name][other._order], pairing.codes[1], pairing.drawn)
            if np.array_equal(mine.rows, its.rows):
                test = sign_flips(its.less(mine), mine.rows, confidence)
                found |= {} if test is None else {name: test}
        return found

    def _trials(self) -> dict[str, Trials]:
        found = {}
        for name, given in self._given[0].items():
            scores = given[self._order]
            there = ~np.isnan(scores)
            if bool(np.isin(scores[there], (0, 1)).all()):
                found[name] = Trials(np.where(there, scores, 0), there)
        return found

    def _both_columns(self) -> Floats:
        """Scores and, a column for each, whether they are there."""
        assert self._columns is not None
        names = len(self._names)
        there = np.broadcast_to(self._columns[:, names:], (self.units, names))
        return np.concatenate((self._columns[:, :names], there), 1)


def _scaled(test: PairedTest, scale: float) -> PairedTest:
    """The test of means times a scale."""
    names = ("first", "second", "difference", "low", "high", "standard_error")
    return replace(test, **{name: scale * getattr(test, name) for name in names})


def _sorted_columns(scores: Mapping[str, Floats], order: Ints) -> Floats | None:
    """Scores, then whether they are there: one draw serves both."""
    if not scores:
        return None
    table = np.stack([column[order] for column in scores.values()], 1)
    there = ~np.isnan(table)
    return np.concatenate((np.where(there, table, 0.0), there[:, :1] if there.all() else there), 1)


def _sorted_counts(pooled: Sequence[Pooled], order: Ints) -> list[Pooled]:
    return [Pooled(np.ascontiguousarray(part.counts[order]), part.numbers) for part in pooled]


def _places(columns: Sequence[NDArray[Any]]) -> list[int]:
    """Places of sorted rows; equal rows have one."""
    another: Any = False
    for column in columns:
        both = np.isnan(column[1:]) & np.isnan(column[:-1])
        another = another | ((column[1:] != column[:-1]) & ~both)
    return [0, *np.cumsum(another).tolist()] if len(columns) and len(columns[0]) else []
