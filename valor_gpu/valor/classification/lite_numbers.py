"""Numbers of each label key of a classification by the rules of valor-lite: counts at score thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.valor.classification.keys import Integers, KeyRows, split_keys
from valor_gpu.valor.classification.rules import Request
from valor_gpu.valor.columns import Columns, Kept, Mask
from valor_gpu.valor.ratios import RATIOS

_ZERO = 1e-8  # numpy.isclose to 0: such a score is never a prediction


class LiteCut(NamedTuple):
    """Outcomes at one score threshold.

    Attributes:
        threshold: of the score.
        passing: rows that are predictions, bool ``[R]``.
        missed: datums whose ground truth is a false negative, bool ``[D]``.
        unmatched: datums where nothing passes and the ground truth is listed, bool ``[D]``.
    """

    threshold: float
    passing: Mask
    missed: Mask
    unmatched: Mask


class LiteRow(NamedTuple):
    """A prediction: places of its datum, of the ground truth's label and of its own, whether these are equal, score."""

    datum: int
    true: int
    label: int
    is_true: bool
    score: float


@dataclass(frozen=True)
class LiteNumbers:
    """Numbers of one label key.

    Attributes:
        rows: of the label key.
        wins: whether each row has the largest score of its datum, bool ``[R]``.
        request: the choices of the evaluation.
    """

    rows: KeyRows
    wins: Mask
    request: Request

    @cached_property
    def true(self) -> Integers:
        """Label of each datum, -1 where a filter left out its ground truth, int64 ``[D]``."""
        found = np.full(self.rows.num_datums, -1, np.int64)
        found[self.rows.true_datum] = self.rows.true_label
        return found

    @cached_property
    def cuts(self) -> list[LiteCut]:
        """Outcomes at each score threshold."""
        rows, listed, cuts = self.rows, self._any(self.rows.is_true), []
        for threshold in self.request.score_thresholds:
            passing = (rows.score >= threshold) & (np.abs(rows.score) > _ZERO)
            passing &= self.wins | (not self.request.hardmax)
            unmatched = listed & ~self._any(passing)
            cuts.append(LiteCut(threshold, passing, unmatched | self._any(passing & ~rows.is_true), unmatched))
        return cuts

    def _any(self, rows: Mask) -> Mask:
        """Returns the datums with any of these rows."""
        found = np.zeros(self.rows.num_datums, np.bool_)
        found[self.rows.datum[rows]] = True
        return found

    def _by_label(self, rows: Mask) -> Integers:
        return np.bincount(self.rows.label[rows], minlength=len(self.rows.values))

    @cached_property
    def counts(self) -> list[dict[str, Integers]]:
        """tp, fp, fn and tn of each label, at each threshold."""
        true = self.rows.is_true
        return [
            {
                "tp": self._by_label(cut.passing & true),
                "fp": self._by_label(cut.passing & ~true),
                "fn": np.bincount(self.true[cut.missed], minlength=len(self.rows.values)),
                "tn": self._by_label(~cut.passing & ~true),
            }
            for cut in self.cuts
        ]

    def ratios(self, name: str) -> Iterator[list[float]]:
        """Returns Precision, Recall or F1 of each label, at each threshold; 0 where the denominator is 0."""
        for tp, fp, fn, _ in map(dict.values, self.counts):
            part, whole = RATIOS[name](tp, fp, fn)
            yield (part / np.maximum(whole, 1)).tolist()

    def accuracies(self) -> list[float]:
        """Returns true positives over datums, at each threshold."""
        total = max(int(np.count_nonzero(self.true >= 0)), 1)
        return [float(counts["tp"].sum() / total) for counts in self.counts]

    @cached_property
    def areas(self) -> list[float]:
        """ROC AUC of each label."""
        from valor_gpu.valor.classification.roc import lite_areas

        areas: list[float] = lite_areas(self.rows).tolist()
        return areas

    def mean_area(self) -> float:
        """Returns the mean of ROC AUC over all labels, also those that are only predicted."""
        return math.fsum(self.areas) / len(self.areas)

    def matrix(self, cut: LiteCut) -> tuple[list[list[int]], list[int]]:
        """Returns the counts of each true and predicted label, and of each true label without a prediction."""
        size = len(self.rows.values)
        pairs = self.true[self.rows.datum[cut.passing]] * size + self.rows.label[cut.passing]
        counts = np.bincount(pairs, minlength=size**2).reshape(size, size).tolist()
        return counts, np.bincount(self.true[cut.unmatched], minlength=size).tolist()

    def predictions(self, cut: LiteCut) -> Iterator[LiteRow]:
        """Returns the rows that pass a threshold."""
        rows, chosen = self.rows, np.flatnonzero(cut.passing)
        datum = rows.datum[chosen]
        columns = (datum, self.true[datum], rows.label[chosen], rows.is_true[chosen], rows.score[chosen])
        return map(LiteRow._make, zip(*(column.tolist() for column in columns)))

    def labelled(self, chosen: Mask | None = None) -> Iterator[tuple[int, int]]:
        """Returns datum and true label of the datums of a mask; by default of all that have a ground truth."""
        datums = np.flatnonzero(self.true >= 0 if chosen is None else chosen)
        return zip(datums.tolist(), self.true[datums].tolist())


def lite_numbers(kept: Kept, request: Request) -> Iterator[LiteNumbers]:
    """Returns the numbers of each label key.

    Args:
        kept: the data. The winner of a datum is found before a filter; labels that it emptied stay, with zeros.
        request: the choices of the evaluation.

    Raises:
        InputError: a datum with another number of ground truths than one, or without predictions.
    """
    columns = kept.columns
    left = Columns(columns.datums, columns.datum_metadata, columns.labels, *kept.sides, columns.annotations)
    for full, part in zip(split_keys(columns, every_label=True), split_keys(left, kept.datums, every_label=True)):
        full, part = full.merged, part.merged
        _check(full, columns)
        part = part.keep(part.has_truth[part.datum])
        winner = full.label[full.winner]  # of every datum
        yield LiteNumbers(part, winner[part.datums[part.datum]] == part.label, request)


def _check(rows: KeyRows, columns: Columns) -> None:
    truths = np.bincount(rows.true_datum, minlength=rows.num_datums)
    listed = np.bincount(rows.datum, minlength=rows.num_datums)
    bad = np.flatnonzero((truths != 1) | (listed == 0))
    if len(bad):
        raise InputError(
            f"compat 'valor-lite' needs one ground truth and at least one prediction of each datum but datum "
            f"{columns.datums[bad[0]]!r} has {truths[bad[0]]} and {listed[bad[0]]} of key {rows.key!r}"
        )
