"""Trials of rows behind the ratios that are proportions of rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.reduce.ratios import Outcomes
from valor_gpu.stats.trials import Trials

if TYPE_CHECKING:
    from valor_gpu.classification.class_ratio import ClassRatio

Ints = NDArray[np.int64]

_KINDS = np.array([[0, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]], np.float64)
"""True positives, predictions, truths and rows of a row that is tn, fp, fn or tp."""


def trials_of(metric: ClassRatio, codes: NDArray[Any], names: Iterable[str]) -> dict[str, Trials]:
    """Returns the trials of the numbers of a metric that are proportions of rows.

    Args:
        metric: whose ratio is wanted.
        codes: of rows, see :class:`valor_gpu.classification.resampled_rows.RowCounts`.
        names: of the numbers: of all classes, or ``per_class/2`` of one.
    """
    top, bottom = (np.asarray(part, np.float64) for part in metric._ratio(Outcomes(*_KINDS))[:2])
    classes = metric.task.classes
    found = {}
    for name in names:
        if "/" in name or codes.ndim == 2:
            column = int(name.rpartition("/")[2]) if "/" in name else 0
            kinds = _of_class(codes, column, classes)
            counted = kinds >= 0
            found[name] = Trials(np.where(counted, top[kinds], 0), np.where(counted, bottom[kinds], 0))
        else:
            right = (codes // classes == codes % classes).astype(np.float64)
            ones = np.ones_like(right)
            pooled = metric._ratio(Outcomes(right, ones, ones, classes * ones))
            found[name] = Trials(*(np.broadcast_to(part, right.shape) for part in pooled[:2]))
    return found


def _of_class(codes: NDArray[Any], column: int, classes: int) -> Ints:
    """Whether each row is tn, fp, fn or tp of a class; -1: it does not count."""
    if codes.ndim == 2:
        return codes[:, column].astype(np.int64)
    true, predicted = np.divmod(codes.astype(np.int64), classes)
    kinds: Ints = 2 * (true == column) + (predicted == column)
    return kinds
