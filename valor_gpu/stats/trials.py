"""Trials of two models on the same units: numbers that are proportions, by the test of McNemar. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.stats.mcnemar import compared_rights
from valor_gpu.stats.paired_test import PairedTest
from valor_gpu.stats.units import Pairing

NULL = "both models have the same expected proportion"


class Trials:
    """Trials of one model: of each unit, how many there are and how many succeeded.

    Args:
        success: int64 ``[U]``.
        trial: int64 ``[U]``.
    """

    def __init__(self, success: NDArray[Any], trial: NDArray[Any]) -> None:
        self.success, self.trial = np.asarray(success, np.int64), np.asarray(trial, np.int64)

    def tested(self, other: Trials, pairing: Pairing, confidence: float) -> PairedTest | None:
        """Returns the test of McNemar; None where the trials of both models are not the same.

        Args:
            other: trials of the other model.
            pairing: of the units of both.
            confidence: of the interval.
        """
        if pairing.drawn < pairing.units:
            return self._of_clusters(other, pairing, confidence)
        order = [np.argsort(codes) for codes in pairing.codes]
        mine, its = ((side.success[rows], side.trial[rows]) for side, rows in zip((self, other), order))
        if not np.array_equal(mine[1], its[1]) or mine[1].max(initial=0) > 1:
            return None
        held = mine[1] == 1
        return compared_rights(mine[0][held], its[0][held], None, confidence)

    def _of_clusters(self, other: Trials, pairing: Pairing, confidence: float) -> PairedTest | None:
        """The test of sums of clusters; rows of a cluster need no order."""
        parts = []
        for side, codes in zip((self, other), pairing.codes):
            if side.trial.max(initial=0) > 1:
                return None
            held = side.trial == 1
            rows = np.lexsort((side.success[held], codes[held]))
            parts.append((codes[held][rows], side.success[held][rows]))
        (codes, mine), (others, its) = parts
        return compared_rights(mine, its, codes, confidence) if np.array_equal(codes, others) else None


def tests_of_trials(
    first: Mapping[str, Trials], second: Mapping[str, Trials], pairing: Pairing, confidence: float
) -> dict[str, PairedTest]:
    """Returns the tests of the numbers whose trials are the same for both models.

    Args:
        first: trials of the first model, by the names of the numbers.
        second: of the second.
        pairing: of the units.
        confidence: of the intervals.
    """
    made = ((name, mine.tested(second[name], pairing, confidence)) for name, mine in first.items() if name in second)
    return {name: replace(test, null=NULL) for name, test in made if test is not None}
