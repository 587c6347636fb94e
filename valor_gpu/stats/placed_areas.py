"""Areas under ROC curves of classes, and their mean, by DeLong: intervals, and the test of two models. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.stats.area_ends import area_ends
from valor_gpu.stats.area_moments import Areas, moments
from valor_gpu.stats.auroc import UNVARIED, compared_areas, unusable
from valor_gpu.stats.intervals import Interval
from valor_gpu.stats.paired_test import PairedTest
from valor_gpu.stats.placements import Placements, placements

Codes = NDArray[np.int64]


@frozen
class ScoredRows:
    """Scores of rows for classes, and which of them are right.

    Attributes:
        scores: ``[N, C]``, compared within a class.
        held: bool ``[N, C]``: whether the row is of the class.
        counted: bool ``[N, C]``: whether the element counts; None: all do.
        names: of the number of each class; one name: of all elements as those of one class.
        mean: name of the mean over classes; empty where there is none.
    """

    scores: NDArray[Any]
    held: NDArray[np.bool_]
    counted: NDArray[np.bool_] | None
    names: Sequence[str]
    mean: str = ""


class PlacedAreas:
    """Areas of a model by the names of the numbers.

    Args:
        rows: of the model.
        codes: int64 ``[N]``: the pair of rows that each row belongs to, or its cluster.
        clustered: whether several rows may have one code.
    """

    def __init__(self, rows: ScoredRows, codes: Codes, clustered: bool) -> None:
        pooled = len(rows.names) == 1
        columns = rows.scores.shape[1]
        self._clustered = clustered or (pooled and columns > 1)  # elements of a row belong together
        order = np.argsort(codes, kind="stable")
        parts = (rows.scores, rows.held, np.ones_like(rows.held) if rows.counted is None else rows.counted)
        sides = [part[order].reshape(-1, 1) if pooled else part[order] for part in parts]
        codes = np.repeat(codes[order], columns) if pooled else codes[order]
        self._names, self._mean = rows.names, rows.mean
        self._codes, self._places = [], []
        for scores, held, counted in zip(*(side.T for side in sides)):
            self._codes.append(codes[counted])
            self._places.append(placements(scores[counted], held[counted]))

    def areas(self) -> Iterator[tuple[str, Areas, str]]:
        """Yields the name of each number, its areas, and why they have no variance, which is empty where they do."""
        usable: list[tuple[Placements, Codes]] = []
        doubt = ""
        for name, places, codes in zip(self._names, self._places, self._codes):
            reason = unusable(places, codes if self._clustered else None)
            yield name, Areas([places], [codes] if self._clustered else None), reason
            if places.positives and places.negatives:
                usable.append((places, codes))
                doubt = doubt or (reason if reason and not places.separated else "")
        if self._mean and usable:
            whole = Areas([places for places, _ in usable], [codes for _, codes in usable])
            yield self._mean, whole, doubt or (f"the area is {whole.value:g}" if whole.value in (0, 1) else "")

    def intervals(self, confidence: float) -> dict[str, Interval]:
        """Returns the intervals of the numbers, or the reasons why they have none."""
        found = {}
        for name, areas, reason in self.areas():
            if reason:
                found[name] = Interval(reason=reason)
                continue
            made = moments(areas, areas)
            if made.flat:
                found[name] = Interval(reason=UNVARIED)
                continue
            ends = area_ends(areas.value, made.variances[0], made.freedom((1.0, 0.0)), confidence)
            found[name] = Interval(*ends, math.sqrt(made.variances[0]))
        return found

    def tests(self, other: PlacedAreas, confidence: float) -> Mapping[str, PairedTest]:
        """Returns the tests of the numbers of both models on the same rows."""
        return {
            name: compared_areas(mine, its, confidence, reason or why)
            for (name, mine, reason), (_, its, why) in zip(self.areas(), other.areas())
        }
