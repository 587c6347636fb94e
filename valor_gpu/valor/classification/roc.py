"""Areas under ROC curves of the labels of a key: exact, and as Valor's releases computed them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.ops.score_histogram import cpu as _scores_cpu
from valor_gpu.valor.classification.keys import Integers, KeyRows

_CHUNK_BYTES = 1 << 26  # of dense scores at a time; the op works on as much again

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Labels:
    """Rows on datums with a ground truth of the key, sorted by label."""

    rows: KeyRows
    order: Integers
    ends: Integers
    positives: Integers

    @classmethod
    def of(cls, rows: KeyRows, *, everywhere: bool = False) -> _Labels:
        classes = len(rows.values)
        chosen = np.arange(len(rows.datum)) if everywhere else np.flatnonzero(rows.has_truth[rows.datum])
        order = chosen[np.argsort(rows.label[chosen], kind="stable")]
        ends = np.searchsorted(rows.label[order], np.arange(classes + 1))
        return cls(rows, order, ends, np.bincount(rows.true_label, minlength=classes))

    def of_label(self, first: int, last: int) -> Integers:
        """Rows of labels ``first`` to ``last - 1``."""
        return self.order[self.ends[first] : self.ends[last]]


def exact_areas(rows: KeyRows) -> Floats:
    """Area of each label against the rest, as scikit-learn's ``roc_auc_score``, ``[C]``.

    Counted on the datums that have a ground truth of the key. A label that such a datum does not list has score 0.
    NaN where a label has no positives or no negatives, and everywhere without predictions. Scores are made dense a few
    labels at a time.
    """
    rows = rows.merged
    if len(rows.datum) == 0:
        return np.full(len(rows.values), np.nan)
    labels = _Labels.of(rows)
    classes = len(rows.values)
    place = np.cumsum(rows.has_truth) - 1
    datums = int(np.count_nonzero(rows.has_truth))
    width = max(1, min(classes, _CHUNK_BYTES // (8 * max(datums, 1))))
    by_label = np.argsort(rows.true_label, kind="stable")
    true_ends = np.searchsorted(rows.true_label[by_label], np.arange(classes + 1))
    areas = np.full(classes, np.nan)
    for first in range(0, classes, width):
        last = min(first + width, classes)
        scores, target = np.zeros((datums, last - first)), np.zeros((datums, last - first), np.int64)
        listed = labels.of_label(first, last)
        scores[place[rows.datum[listed]], rows.label[listed] - first] = rows.score[listed]
        true = by_label[true_ends[first] : true_ends[last]]
        target[place[rows.true_datum[true]], rows.true_label[true] - first] = 1
        areas[first:last] = _areas(scores, target)
    return areas


def _areas(scores: Floats, target: Integers) -> Floats:
    """ROC AUC of each column, of 0 and 1 in ``target``; torch serves where the C++ library is missing."""
    if native.available("valor_cpu"):
        areas: Floats = _scores_cpu.auroc_and_ap(_scores_cpu.ScoreRows(scores, target))[0][0]
        return areas
    import torch

    from valor_gpu.ops.ranks.op import auroc_and_ap

    found: Floats = auroc_and_ap(torch.from_numpy(scores), torch.from_numpy(target)).values[0].numpy()
    return found


def _area(score: Floats, tp: Integers, fp: Integers, positives: int, negatives: int, *, origin: bool) -> float:
    """Trapezoids under the points of falling scores, equal scores as one point.

    Args:
        score: of each row.
        tp: how often each row is a true positive.
        fp: how often it is a false positive.
        positives: what 1 stands for on the vertical axis.
        negatives: what 1 stands for on the horizontal axis.
        origin: whether the curve begins at (0, 0).
    """
    order = np.argsort(-score, kind="stable")
    last = np.flatnonzero(np.diff(score[order], append=np.nan) != 0)  # of each run of equal scores
    y = tp[order].cumsum()[last] / positives
    x = fp[order].cumsum()[last] / negatives
    if origin:
        y, x = np.append(0.0, y), np.append(0.0, x)
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


def api_areas(rows: KeyRows) -> Floats:
    """As valor_api: no negatives: 1; a label that no prediction lists: NaN. ``[C]``, NaN for labels never true.

    A row counts once for each ground truth of its datum.
    """
    rows = rows.merged
    labels = _Labels.of(rows)
    areas = np.full(len(rows.values), np.nan)
    for label in np.flatnonzero(labels.positives).tolist():
        listed, positives = labels.of_label(label, label + 1), int(labels.positives[label])
        negatives = len(rows.true_label) - positives
        if negatives == 0:
            areas[label] = 1.0
        elif len(listed):
            tp, fp = rows.true_pairs[listed], rows.false_pairs[listed]
            areas[label] = _area(rows.score[listed], tp, fp, positives, negatives, origin=False)
    return areas


def core_areas(rows: KeyRows) -> Floats:
    """As valor_core: of the rows that are there; 1 without true or false ones; NaN for labels never listed, ``[C]``.

    A row counts once for each ground truth of its datum. Labels that a label map made one keep all their rows.
    """
    labels = _Labels.of(rows)
    areas = np.full(len(rows.values), np.nan)
    for label in range(len(rows.values)):
        listed = labels.of_label(label, label + 1)
        tp, fp = rows.true_pairs[listed], rows.false_pairs[listed]
        positives, negatives = int(tp.sum()), int(fp.sum())
        if positives == 0 or negatives == 0:
            areas[label] = 1.0 if len(listed) else np.nan
        else:
            areas[label] = _area(rows.score[listed], tp, fp, positives, negatives, origin=False)
    return areas


def lite_areas(rows: KeyRows) -> Floats:
    """As valor-lite: 0 where a label has no positives or no negatives among the rows that are there, ``[C]``."""
    labels = _Labels.of(rows, everywhere=True)
    areas = np.zeros(len(rows.values))
    for label in range(len(rows.values)):
        listed, positives = labels.of_label(label, label + 1), int(labels.positives[label])
        negatives = len(listed) - positives
        if positives > 0 and negatives > 0:
            tp = rows.is_true[listed].astype(np.int64)
            areas[label] = _area(rows.score[listed], tp, 1 - tp, positives, negatives, origin=True)
    return areas


AREAS = {"exact": exact_areas, "api": api_areas, "core": core_areas, "lite": lite_areas}
