"""Average precision of detections that are mended: precision at recall samples from the ranks of hits."""

from __future__ import annotations

import numpy as np

from valor_gpu._frozen import frozen
from valor_gpu.analysis.rows import Bools, Floats, Ints

_SMALL = 2**16


def by_class(labels: Ints, order: Ints) -> Ints:
    """Returns int64 ``[N]``: the rows of ``order`` class after class, within a class as they were."""
    own = labels[order]
    narrow = own.astype(np.uint16) if own.max(initial=0) < _SMALL else own  # a radix sort
    rows: Ints = order[np.argsort(narrow, kind="stable")]
    return rows


def sampled_precision(
    labels: Ints, counted: Bools, hits: Bools, positives: Ints, recalls: Floats, least: float
) -> Floats:
    """Computes the largest precision at or above each recall of each class, 0 above the last recall.

    Args:
        labels: int64 ``[N]``, ascending; entries of a class by descending score.
        counted: bool ``[N]``: entries that exist.
        hits: bool ``[N]``: of them, true positives.
        positives: int64 ``[K]`` ground truths.
        recalls: float64 ``[R]``, in any order.
        least: added to the denominator: COCOeval has ``numpy.spacing(1)``.

    Returns:
        float64 ``[K, R]``; the row of a class without ground truths says nothing.
    """
    classes = len(positives)
    starts = np.searchsorted(labels, np.arange(classes + 1))
    upto = np.zeros(len(labels) + 1, np.int64)
    np.cumsum(counted, out=upto[1:])
    at = np.flatnonzero(hits & counted)
    own = labels[at]
    found = np.bincount(own, minlength=classes)
    true = np.arange(len(at)) - (found.cumsum() - found)[own] + 1
    precision = true / ((upto[at + 1] - upto[starts[own]]) + least)
    places = np.argsort(recalls, kind="stable")
    needed = _hits_needed(positives, recalls[places])
    # The samples that a hit reaches are a prefix, so it counts where the last of them is, and so for all before it.
    span = int(max(needed.max(initial=0), true.max(initial=0))) + 1
    keys = (needed + np.arange(classes)[:, None] * span).ravel()
    cells = np.searchsorted(keys, own * span + true, side="right") - 1
    reached = cells >= own * len(recalls)
    cells, precision = cells[reached], precision[reached]
    table = np.zeros((classes, len(recalls)))
    if len(cells):
        first = np.flatnonzero(np.r_[True, cells[1:] != cells[:-1]])
        table.ravel()[cells[first]] = np.maximum.reduceat(precision, first)
    samples = np.empty_like(table)
    samples[:, places] = np.maximum.accumulate(table[:, ::-1], axis=1)[:, ::-1]
    return samples


def _hits_needed(positives: Ints, recalls: Floats) -> Ints:
    """int64 ``[K, R]``: the smallest number of hits, at least 1, whose float64 recall reaches each ascending recall."""
    total = np.maximum(positives, 1)[:, None]
    needed = np.maximum(np.ceil(recalls * total), 1).astype(np.int64)
    needed -= (needed > 1) & ((needed - 1) / total >= recalls)
    needed += needed / total < recalls
    return needed


@frozen
class Rule:
    """How a protocol makes one number of a state of the data.

    Attributes:
        recalls: float64 ``[R]``.
        least: added to the denominator of precision.
        empty_counts: whether a class with detections and no ground truth counts, with an AP of 0.
    """

    recalls: Floats
    least: float
    empty_counts: bool


@frozen
class State:
    """Detections and ground truths as they are, or with one kind of error mended.

    Attributes:
        rows: int64 ``[N]``: rows of detections, class after class, by descending score; those that do not exist may
            be among them.
        labels: int64 ``[N]``: class of each.
        counted: bool ``[N]``: those that exist.
        hits: bool ``[N]``: true positives.
        positives: int64 ``[K]`` ground truths.
    """

    rows: Ints
    labels: Ints
    counted: Bools
    hits: Bools
    positives: Ints

    def average_precision(self, rule: Rule) -> tuple[float, Floats]:
        """Returns the mean over classes, and float64 ``[K]``; NaN where no class, or no ground truth, is left."""
        samples = sampled_precision(self.labels, self.counted, self.hits, self.positives, rule.recalls, rule.least)
        present = self.positives > 0
        samples[~present] = 0
        if rule.empty_counts:
            present = present | (np.bincount(self.labels[self.counted], minlength=len(present)) > 0)
        if not present.any() or not len(rule.recalls):
            return np.nan, np.full(len(present), np.nan)
        # In the order of COCOeval's array of precision, which decides the last bit of the mean.
        mean = np.ascontiguousarray(samples.T[:, present]).ravel().mean()
        return float(mean), np.where(present, samples.mean(axis=1), np.nan)
