"""Precision-recall curves over the score thresholds 0.05 to 0.95, counted from the rows that are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.valor.classification.keys import Integers, KeyRows

THRESHOLDS = np.arange(5, 100, 5) / 100


@dataclass(frozen=True)
class KeyCurves:
    """Counts of every label of a key at every threshold.

    A row passes a threshold when its score is at least the threshold; its bucket is the number of thresholds that it
    passes. A label that a datum does not list passes none.

    Args:
        rows: with one row for each datum and label, unless ``count_rows``.
        total: datums that true negatives and accuracy are counted in.
        counted: which ground truths count, bool ``[G]``; the others are neither positive nor negative.
        count_pairs: a row that equals a ground truth is also a false positive beside another one.
        count_rows: true negatives are what the other counts leave of ``total``, which may be less than 0.
        missing: whether there are false negatives at all.
    """

    rows: KeyRows
    total: int
    counted: NDArray[np.bool_]
    count_pairs: bool = False
    count_rows: bool = False
    missing: bool = True

    @cached_property
    def bucket(self) -> Integers:
        """Of each row, ``[R]``."""
        return np.searchsorted(THRESHOLDS, self.rows.score, side="right")

    @cached_property
    def own_bucket(self) -> Integers:
        """Of the largest score of each ground truth's label, 0 where it is not listed, ``[G]``."""
        classes = len(self.rows.values)
        truths, place = np.unique(self.rows.true_datum * classes + self.rows.true_label, return_inverse=True)
        listed = self.rows.is_true
        codes = self.rows.datum[listed] * classes + self.rows.label[listed]
        buckets = np.zeros(len(truths), np.int64)
        np.maximum.at(buckets, np.searchsorted(truths, codes), self.bucket[listed])
        return buckets[place]

    @cached_property
    def is_false(self) -> NDArray[np.bool_]:
        """Whether each row is a false positive when it passes, bool ``[R]``."""
        return ~self.rows.is_true | (self.rows.false_pairs > 0) if self.count_pairs else ~self.rows.is_true

    @cached_property
    def best_bucket(self) -> Integers:
        """Of the largest score of each ground truth's datum, 0 where it has none, ``[G]``."""
        winner = self.rows.winner[self.rows.true_datum]
        if len(self.bucket) == 0:
            return np.zeros(len(winner), np.int64)
        return np.where(winner >= 0, self.bucket[winner], 0)

    def _passing(self, labels: Integers, buckets: Integers) -> Integers:
        """How many pass each threshold, ``[C, T]``."""
        classes, steps = len(self.rows.values), len(THRESHOLDS) + 1
        counts = np.bincount(labels * steps + buckets, minlength=classes * steps).reshape(classes, steps)
        return counts[:, :0:-1].cumsum(axis=1)[:, ::-1]

    @cached_property
    def tp(self) -> Integers:
        """True positives, ``[C, T]``."""
        right = self.rows.is_true
        return self._passing(self.rows.label[right], self.bucket[right])

    @cached_property
    def fp(self) -> Integers:
        """False positives, ``[C, T]``."""
        return self._passing(self.rows.label[self.is_false], self.bucket[self.is_false])

    @cached_property
    def fn(self) -> Integers:
        """False negatives: ground truths that count and whose label does not pass, ``[C, T]``."""
        labels = self.rows.true_label[self.counted]
        positives = np.bincount(labels, minlength=len(self.rows.values))[:, None]
        return (positives - self._passing(labels, self.own_bucket[self.counted])) * self.missing

    @cached_property
    def fn_misclassified(self) -> Integers:
        """False negatives of datums where another label passes, ``[C, T]``."""
        labels = self.rows.true_label[self.counted]
        best, own = self.best_bucket[self.counted], self.own_bucket[self.counted]
        return (self._passing(labels, best) - self._passing(labels, own)) * self.missing

    @cached_property
    def tn(self) -> Integers:
        """True negatives: datums that neither have the label nor pass, ``[C, T]``."""
        if self.count_rows:
            return self.total - self.tp - self.fp - self.fn
        truths = np.bincount(self.rows.true_label, minlength=len(self.rows.values))[:, None]
        wrong = ~self.rows.is_true
        return self.total - truths - self._passing(self.rows.label[wrong], self.bucket[wrong])


def curve_columns(curves: KeyCurves) -> dict[str, list[list[Any]]]:
    """Returns counts and ratios by label and threshold; a ratio that does not exist is -1, as in Valor."""
    tp, fp, fn, tn = curves.tp, curves.fp, curves.fn, curves.tn
    precision, recall = _ratio(tp, tp + fp), _ratio(tp, tp + fn)
    both = tp > 0
    f1 = np.where(both, 2 * precision * recall / np.where(both, precision + recall, 1), -1.0)
    columns = {
        "tp": tp,
        "fp": fp,
        "fn": fn,
        "tn": tn,
        "accuracy": _ratio(tp + tn, np.full_like(tp, curves.total)),
        "precision": precision,
        "recall": recall,
        "f1_score": f1,
    }
    return {name: values.tolist() for name, values in columns.items()}


def _ratio(part: Integers, whole: Integers) -> NDArray[np.float64]:
    return np.where(whole > 0, part / np.maximum(whole, 1), -1.0)


def kind_columns(curves: KeyCurves) -> dict[tuple[str, str], list[list[int]]]:
    """Returns the counts of each kind of observation by label and threshold."""
    missed = curves.fn - curves.fn_misclassified
    counts = (curves.tp, curves.tn, curves.fp, curves.fn_misclassified, missed)
    return {kind: column.tolist() for kind, column in zip(KINDS, counts)}


KINDS = (
    ("tp", "all"),
    ("tn", "all"),
    ("fp", "misclassifications"),
    ("fn", "misclassifications"),
    ("fn", "no_predictions"),
)


class CurveExamples:
    """The first datums of each kind of observation, by label.

    Args:
        curves: the counts.
        uids: of ``Columns.datums``.
        most: number of examples of each kind; 0: none.
    """

    def __init__(self, curves: KeyCurves, uids: Sequence[str], most: int) -> None:
        self._curves, self._uids, self._most = curves, uids, most
        rows = curves.rows
        wrong = np.flatnonzero(curves.is_false & (curves.bucket > 0)) if most else np.zeros(0, np.int64)
        self._wrong = wrong[np.lexsort((rows.datum[wrong], rows.label[wrong]))]
        self._wrong_ends = np.searchsorted(rows.label[self._wrong], np.arange(len(rows.values) + 1))
        self._true = np.argsort(rows.true_label, kind="stable")  # ground truths are in order of datums
        self._true_ends = np.searchsorted(rows.true_label[self._true], np.arange(len(rows.values) + 1))

    def of_label(self, label: int) -> dict[tuple[str, str], list[list[tuple[str]]]]:
        """Returns the examples of each kind at each threshold."""
        if not self._most:
            return {kind: [[] for _ in THRESHOLDS] for kind in KINDS}
        curves = self._curves
        wrong = self._wrong[self._wrong_ends[label] : self._wrong_ends[label + 1]]
        fp_datum, fp_bucket = curves.rows.datum[wrong], curves.bucket[wrong]
        true = self._true[self._true_ends[label] : self._true_ends[label + 1]]
        all_datum = curves.rows.true_datum[true]
        counted = true[curves.counted[true]]
        datum = curves.rows.true_datum[counted]
        own, best = curves.own_bucket[counted], curves.best_bucket[counted]
        found: dict[tuple[str, str], list[list[tuple[str]]]] = {kind: [] for kind in KINDS}
        for step in range(len(THRESHOLDS)):
            fp = fp_datum[fp_bucket > step]
            found["tp", "all"].append(self._first(datum[own > step]))
            found["tn", "all"].append(self._first(self._others(np.concatenate((all_datum, fp)))))
            found["fp", "misclassifications"].append(self._first(fp))
            found["fn", "misclassifications"].append(self._first(datum[(own <= step) & (best > step)]))
            found["fn", "no_predictions"].append(self._first(datum[best <= step]))
        return found

    def _first(self, datums: Integers) -> list[tuple[str]]:
        if self._curves.count_rows:
            datums = np.unique(datums)  # they ascend already, but may repeat
        return [(self._uids[place],) for place in self._curves.rows.datums[datums[: self._most]].tolist()]

    def _others(self, taken: Integers) -> Integers:
        """The first datums that are not taken; among the first ``most + len(taken)`` there are enough."""
        end = min(self._curves.rows.num_datums, self._most + len(taken))
        free = np.ones(end, np.bool_)
        free[taken[taken < end]] = False
        return np.flatnonzero(free)[: self._most]
