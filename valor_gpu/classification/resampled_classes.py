"""Counts of classes as the bootstrap asks them: which numbers their cells can give, and how."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.reduce.ratios import Outcomes
from valor_gpu.reduce.reliability import BIASED_ERROR
from valor_gpu.stats.counts import Counts, ResampledCounts

if TYPE_CHECKING:
    from valor_gpu.classification.class_counts import ClassCounts
    from valor_gpu.classification.class_ratio import ClassRatio
    from valor_gpu.stats.resample import Floats

SAMPLEWISE = (
    "intervals must be None with multidim_average='samplewise', whose numbers are of one sample each: take"
    " multidim_average='global' for one number of all"
)
NO_PAIRS = "counts of classes do not say which class was taken for which: keep_rows=True keeps that"
NO_LABELS = "counts of labels do not say which labels are of one row: keep_rows=True keeps that"
SAMPLES = "compare_accuracy takes what multidim_average='samplewise' computes of both models"

NO_LABELS_OF_PAIRS = (
    "counts of labels do not say which labels are of one row: it takes a metric for each label, of one column"
)
MAXIMUM = "a maximum over bins is biased upward, more so in a replicate"


def rows_of(counts: Floats, rows: int) -> Counts:
    """Returns counts of rows as integers.

    Args:
        counts: float64, of cells.
        rows: their sum, if they are counts and no sums of weights.

    Raises:
        InputError: they are sums of weights.
    """
    whole: Counts = counts.astype(np.int64)
    if not np.array_equal(whole, counts) or int(whole.sum()) != rows:
        raise InputError("intervals need rows of equal weight but sample_weight was given: leave it out")
    return whole


def cells_of_classes(metric: ClassRatio, state: ClassCounts) -> tuple[ResampledCounts, ...]:
    """Returns the counts of a metric as the bootstrap asks them: for its number, and for those of classes.

    Raises:
        InputError: they are sums of weights, or those of each sample.
    """
    if state.counts.ndim == 3:
        raise InputError(SAMPLEWISE)
    o = Outcomes(*state.counts.cpu().numpy())
    each = rows_of(np.stack((o.tp, o.fp, o.fn, o.tn), 1), _elements(metric, *state.seen.tolist()[:2]))
    return _of_average(metric, each, o), _of_classes(metric, each, o)


def _of_average(metric: ClassRatio, each: Counts, o: Outcomes) -> ResampledCounts:
    numbers, multiclass = metric._numbers, metric.task.kind == "multiclass"
    if len(each) == 1:
        tables, outcomes_of = each, _one_vs_rest
    elif multiclass and metric.average == "micro" and not _leaves_a_class_out(metric):
        right = int(each[:, 0].sum())
        tables = np.array([[right, int(each[0].sum()) - right]])
        outcomes_of = partial(_right, classes=len(each))
    elif multiclass and _needs_truths_alone(metric):
        tables, outcomes_of = each[:, [0, 2]].reshape(1, -1), _truths
    else:
        return ResampledCounts(each, None, refused=dict.fromkeys(numbers(o), NO_PAIRS if multiclass else NO_LABELS))
    name, found = type(metric).__name__, outcomes_of(tables.astype(np.float64))
    trials = _trials(metric, found) if metric._of_rows and len(found.tp) == 1 else []
    if multiclass and trials and trials[0][1] != int(tables.sum()):  # a pooled ratio of other than rows
        trials = []
    supports = {name: int(found.true[0])} if name in numbers(o) and not multiclass and not metric._of_rows else {}
    return ResampledCounts(
        tables,
        lambda table: numbers(outcomes_of(table)),
        supports=supports,
        proportions=dict(zip([name], trials)),
    )


def _of_classes(metric: ClassRatio, each: Counts, o: Outcomes) -> ResampledCounts:
    names = list(metric._class_numbers(o))
    if not names:
        return ResampledCounts(each, None)
    of_rows = metric._of_rows or (metric._of_truths and metric.task.kind == "multiclass")
    ratios = len(names) == len(each)
    return ResampledCounts(
        each,
        lambda table: metric._class_numbers(_one_vs_rest(table)),
        supports=dict(zip(names, o.true.astype(np.int64).tolist())) if ratios and not of_rows else {},
        proportions=dict(zip(names, _trials(metric, o))) if ratios and of_rows else {},
    )


def _elements(metric: ClassRatio, rows: int, ignored: int) -> int:
    """How many rows the cells of all classes count."""
    classes = metric.task.classes
    return classes * (rows - ignored) if metric.task.kind == "multiclass" else classes * rows - ignored


def _leaves_a_class_out(metric: ClassRatio) -> bool:
    """Whether an average takes fewer classes than there are, so that the others count as wrong without being rows."""
    ignored = metric.task.ignore_index
    return type(metric).__name__.endswith("JaccardIndex") and ignored is not None and 0 <= ignored < metric.task.classes


def _needs_truths_alone(metric: ClassRatio) -> bool:
    """Whether the mean over classes depends on their hits and truths alone, not on what was predicted."""
    if not metric._of_truths:
        return False
    by_support = metric.top_k > 1 and metric._top_k_by_support
    return metric.average == "weighted" or math.isnan(metric.zero_division) or by_support


def _trials(metric: ClassRatio, o: Outcomes) -> list[tuple[int, int]]:
    """Successes and trials of the ratio of each class."""
    ratio = metric._ratio(o)
    return list(zip(map(int, ratio.numerator), map(int, ratio.denominator)))


def _one_vs_rest(table: Floats) -> Outcomes:
    """Of tp, fp, fn and tn of each class, ``[C, 4]``."""
    tp, fp, fn, tn = table.T
    return Outcomes(tp, tp + fp, tp + fn, tp + fp + fn + tn)


def _right(table: Floats, classes: int) -> Outcomes:
    """Of rows that are right and wrong, ``[1, 2]``: all classes as one."""
    rows = table.sum(1)
    return Outcomes(table[:, 0], rows, rows, classes * rows)


def _truths(table: Floats) -> Outcomes:
    """Of rows of each class that are right and wrong, ``[1, 2 C]``; what was predicted is not known."""
    tp, fn = table.reshape(-1, 2).T
    true = tp + fn
    return Outcomes(tp, np.zeros_like(tp), true, np.full_like(tp, true.sum()))


def resampled_pairs(
    name: str, matrix: Floats, seen: Sequence[int], number: Callable[[Floats], float | None]
) -> ResampledCounts:
    """Returns a confusion matrix as the bootstrap asks it.

    Args:
        name: of the number.
        matrix: ``[C, C]``, or multilabel ``[L, 2, 2]``.
        seen: samples, and elements that are ignored.
        number: computes the number of a matrix; None: the metric has none, but the matrix.

    Raises:
        InputError: it holds sums of weights.
    """
    rows, ignored = seen
    several = matrix.ndim == 3
    cells = rows_of(matrix.reshape(1, -1), (len(matrix) if several else 1) * rows - ignored)
    if number(matrix) is None:
        return ResampledCounts(cells, None)
    if several and len(matrix) > 1:
        return ResampledCounts(cells.reshape(len(matrix), -1), None, refused={name: NO_LABELS_OF_PAIRS})
    return ResampledCounts(cells, lambda table: {name: cast(float, number(table.reshape(matrix.shape)))})


def refused_sums(name: str) -> ResampledCounts:
    """Raises :class:`InputError`: a metric keeps sums over samples, which do not say how samples differ."""
    raise InputError(
        f"intervals must be None: {name} keeps sums over the samples, which do not say how samples differ: wrap it in"
        " torchmetrics.wrappers.BootStrapper, which counts each batch several times"
    )


def refused_errors(rows: int) -> ResampledCounts:
    """Returns the reasons for which errors of calibration have no interval."""
    names = ("CalibrationError", "expected_error", "root_mean_square_error")
    refused = {**dict.fromkeys(names, BIASED_ERROR), "maximum_error": MAXIMUM}
    return ResampledCounts(np.array([[rows]]), None, refused=refused)
