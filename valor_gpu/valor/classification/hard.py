"""Counts of hard labels: the label of the largest score against the true ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from valor_gpu.reduce import ratios
from valor_gpu.valor.classification.keys import Integers, KeyRows
from valor_gpu.valor.classification.rules import Rules


@dataclass(frozen=True)
class HardCounts:
    """What was predicted for each ground truth that counts.

    Attributes:
        rows: of the label key.
        true, predicted: int64 ``[G]``; predicted is C where there is no prediction.
        overlap: whether any ground truth has a prediction.
        rules: of the preset.
    """

    rows: KeyRows
    true: Integers
    predicted: Integers
    overlap: bool
    rules: Rules

    def accuracy(self) -> float | None:
        """Fraction of ground truths that are right; None without ground truths."""
        if len(self.true):
            return float(np.count_nonzero(self.true == self.predicted) / len(self.true))
        return 0.0 if self.rules.roc != "exact" else None

    def precision(self) -> list[float]:
        """Of each label; 0 where it is never predicted, -1 where it is also never true."""
        return self._ratio(ratios.precision)

    def recall(self) -> list[float]:
        """Of each label; 0 where it is never true, -1 where it is also never predicted."""
        return self._ratio(ratios.recall)

    def f1(self) -> list[float]:
        """Of each label; -1 where it is neither true nor predicted."""
        return self._ratio(ratios.f_beta)

    def _ratio(self, ratio: Callable[[ratios.Outcomes], ratios.Ratio]) -> list[float]:
        if not self.overlap and not self.rules.count_unpredicted:
            return [0.0] * len(self.rows.values)
        classes = len(self.rows.values)
        tp, predicted, true = (
            np.bincount(labels, minlength=classes + 1)[:classes].astype(np.float64)
            for labels in (self.true[self.true == self.predicted], self.predicted, self.true)
        )
        outcomes = ratios.Outcomes(tp, predicted, true, np.full_like(tp, len(self.true)))
        values = ratio(outcomes).value(0.0)
        found: list[float] = np.where(predicted + true > 0, values, -1.0).tolist()
        return found

    def matrix(self) -> list[tuple[str, str, int]] | None:
        """Returns prediction, ground truth and count of each pair, by name; None where valor_api has no matrix."""
        if not self.overlap and not self.rules.count_unpredicted:
            return None
        classes, values = len(self.rows.values), self.rows.values
        both = self.predicted < classes
        pairs, counts = np.unique(self.true[both] * classes + self.predicted[both], return_counts=True)
        cells = [
            (values[pair % classes], values[pair // classes], count)
            for pair, count in zip(pairs.tolist(), counts.tolist())
        ]
        return sorted(cells)


def count_hard(rows: KeyRows, rules: Rules) -> HardCounts:
    """Pair every ground truth with the hard label of its datum."""
    winner = rows.winner[rows.true_datum]
    listed = winner >= 0
    predicted = np.full(len(winner), len(rows.values), np.int64)
    predicted[listed] = rows.label[winner[listed]]
    counted = listed | rules.count_unpredicted
    return HardCounts(rows, rows.true_label[counted], predicted[counted], bool(listed.any()), rules)
