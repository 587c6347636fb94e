"""Histograms of scores, areas and points of curves over NumPy arrays, by the C++ library. No torch import.

What they are is said in :mod:`valor_gpu.ops.score_histogram.op` and :mod:`valor_gpu.ops.ranks.op`, whose torch ops call
the same kernels.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.ops.error_codes import NO_ERROR, Names
from valor_gpu.ops.targets.cpu import FLOAT64, Labels, Numbers, address_of, array_target, block_rows, check_values

CURVE_ROOM = 1 << 22
"""Points of one call."""

_ROWS_PER_BUCKET = 40


class ScoreRows(NamedTuple):
    """N rows of C scores.

    Attributes:
        scores: float64 ``[N, C]``.
        target: int64 class indices ``[N]``, or 0 and 1 ``[N, C]``.
        ignore_index: rows, or with ``[N, C]`` elements, with this target are left out.
        weight: float64 ``[N]``, from 0 to 1e60, or None.
    """

    scores: Numbers
    target: Labels
    ignore_index: int | None = None
    weight: Numbers | None = None

    @property
    def names(self) -> Names:
        """What messages call the values."""
        return Names(self.scores.shape[1], self.target.ndim == 2)

    @property
    def target_words(self) -> bytes:
        """The Target of csrc/core/targets.h."""
        return array_target(self.target, self.scores.shape[1], self.ignore_index)

    @property
    def words(self) -> bytes:
        """The RankInput of csrc/cpu/rank_tiles.h."""
        rows = struct.pack("4q", address_of(self.scores), FLOAT64, len(self.scores), address_of(self.weight))
        return rows + self.target_words

    @property
    def sums(self) -> type[Any]:
        """Dtype of counts, or of sums of weights."""
        return np.int64 if self.weight is None else np.float64


def histogram_block(rows: int, thresholds: int) -> int:
    """Rows of a block whose tables take at most 0.4 bytes per element of the scores, or one table."""
    return block_rows(rows, _ROWS_PER_BUCKET * (thresholds + 1))


def score_histogram(rows: ScoreRows, thresholds: Numbers) -> NDArray[Any]:
    """Counts ``[2, C, T + 1]`` of positives and of all between ascending thresholds: int64, or with weights float64.

    Raises:
        InputError: a target, a score or a weight is out of range.

    Example:
        >>> found = ScoreRows(np.array([[0.1], [0.4], [0.9]]), np.array([[0], [1], [1]]))
        >>> score_histogram(found, np.array([0.25, 0.5])).tolist()
        [[[0, 1, 1]], [[1, 1, 1]]]
    """
    (count, classes), size = rows.scores.shape, len(thresholds)
    histogram, error = np.zeros((2, classes, size + 1), rows.sums), np.array(NO_ERROR)
    native.function("valor_cpu", "valor_sweep_cpu", "pqqppqpqppq")(
        address_of(rows.scores), FLOAT64, count, rows.target_words, address_of(thresholds), size,
        address_of(rows.weight), histogram_block(count, size), address_of(histogram), address_of(error),
        native.threads(),
    )  # fmt: skip
    check_values(int(error), rows.names)
    return histogram


def auroc_and_ap(rows: ScoreRows) -> tuple[Numbers, NDArray[Any]]:
    """ROC AUC and average precision ``[2, C]``, NaN where there is none, and totals ``[2, C]``, positives first.

    Raises:
        InputError: a target, a score or a weight is out of range.

    Example:
        >>> values, totals = auroc_and_ap(ScoreRows(np.array([[0.9], [0.8], [0.1]]), np.array([[1], [0], [0]])))
        >>> values.tolist(), totals.tolist()
        ([[1.0], [1.0]], [[1], [2]])
    """
    values, totals = np.empty((2, rows.scores.shape[1])), np.empty((2, rows.scores.shape[1]), rows.sums)
    error = np.array(NO_ERROR)
    native.function("valor_cpu", "valor_auroc_and_ap_cpu", "ppppq")(
        rows.words, address_of(values), address_of(totals), address_of(error), native.threads()
    )
    check_values(int(error), rows.names)
    return values, totals


def rank_curves(rows: ScoreRows) -> Iterator[tuple[Numbers, NDArray[Any], NDArray[Any]]]:
    """Of each class the distinct scores, which descend, and the positives and negatives that reach them.

    Raises:
        InputError: a target, a score or a weight is out of range.

    Example:
        >>> found = ScoreRows(np.array([[0.75], [0.5], [0.5]]), np.array([[1], [1], [0]]))
        >>> [[part.tolist() for part in points] for points in rank_curves(found)]
        [[[0.75, 0.5], [1, 2], [0, 1]]]
    """
    count, classes = rows.scores.shape
    width = min(classes, max(1, CURVE_ROOM // max(1, count)))
    for column in range(0, classes, width):
        size = min(width, classes - column)
        parts = np.empty((size, count)), *(np.empty((size, count), rows.sums) for _ in range(2))
        ends, error = np.empty(size, np.int64), np.array(NO_ERROR)
        native.function("valor_cpu", "valor_rank_curves_cpu", "pqqpppppq")(
            rows.words, column, size, *map(address_of, (*parts, ends, error)), native.threads()
        )
        check_values(int(error), rows.names)
        for index, end in enumerate(ends.tolist()):
            yield tuple(part[index, :end] for part in parts)  # type: ignore[misc]
