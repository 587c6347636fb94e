"""Rows of a file of predictions as the bootstrap asks them."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.classification.array_numbers import decided_numbers
from valor_gpu.errors import InputError
from valor_gpu.inputs.predictions import IGNORED, Predictions
from valor_gpu.reduce.ranking import SEPARATED
from valor_gpu.reduce.ratios import Outcomes
from valor_gpu.reduce.reliability import BIASED_ERROR
from valor_gpu.stats.clusters import codes_by_name
from valor_gpu.stats.placed_areas import PlacedAreas, ScoredRows
from valor_gpu.stats.resample import Floats, Resampled, sides_of_labels
from valor_gpu.stats.trials import Trials, tests_of_trials
from valor_gpu.stats.units import Units, dense_ranks

if TYPE_CHECKING:
    from valor_gpu.classification.array_numbers import Areas
    from valor_gpu.stats.counts import Proportions
    from valor_gpu.stats.draws import Draws
    from valor_gpu.stats.intervals import Interval
    from valor_gpu.stats.paired_test import PairedTest
    from valor_gpu.stats.units import Pairing

AREAS = ("roc_auc", "average_precision")
_PROPORTIONS = ("precision", "recall")
_TABLE_AT_A_TIME = 1 << 20


class ClassifiedRows(Resampled):
    """Rows of predictions as the bootstrap asks them; those that are ignored are none.

    Args:
        predictions: without weights.
        decided: int64 ``[N]``, predicted classes.
        average: ``macro``, ``micro`` or ``weighted``.
        areas: computes the results of :data:`AREAS` of predictions; None: they are no scores.
        of_classes: names of the numbers that are also given of each class.

    Raises:
        InputError: rows have weights.
    """

    family = "ratio"

    def __init__(
        self,
        predictions: Predictions,
        decided: NDArray[np.int64],
        average: str,
        areas: Areas | None,
        of_classes: Collection[str],
    ) -> None:
        if predictions.weight is not None:
            raise InputError("intervals need rows of equal weight but weights were given: leave them out")
        self._kept = predictions.target != IGNORED
        self._names, self._binary, self._average, self._areas = predictions.names, predictions.binary, average, areas
        self._of_classes, self._rows = of_classes, len(predictions.target)
        self._sides = len(predictions.names)
        self._set_cells((predictions.target * self._sides + decided)[self._kept])
        self._predictions = _rows_of(predictions, np.flatnonzero(self._kept))
        self._sorted = _rows_of(self._predictions, _order_of(self._predictions)) if areas else self._predictions
        self._swapped = False

    def _set_cells(self, cells: NDArray[np.int64]) -> None:
        self._cells, self.units = cells, len(cells)
        self._table = np.bincount(cells, minlength=self._sides**2).astype(np.int64)
        self.chunk = max(1, min(64, _TABLE_AT_A_TIME // max(1, int((self._table > 0).sum()), self.units // 8)))

    def family_of(self, name: str) -> str:
        """Returns the family of a number."""
        return "curve" if name.startswith(AREAS) else self.family

    def supports(self, clusters: NDArray[np.int64] | None = None) -> Mapping[str, int]:
        """Returns the rows, or the clusters, of a class, of its numbers that are no proportions of rows.

        Of clusters proportions need them, too: Wilson's interval is of rows that stand alone.
        """
        rows, others = sides_of_labels(self._cells // self._sides, self._sides, clusters)
        both = np.minimum(rows, others)  # a ROC curve needs negatives as it needs positives
        held = {"f1": rows, "roc_auc": both, "average_precision": rows}
        if clusters is not None:
            held |= dict.fromkeys(_PROPORTIONS, rows)
        if self._binary:
            return {name: int(held[name][1]) for name in ("f1", *AREAS)}
        found = ((f"{name}_per_class", each) for name, each in held.items())
        return {f"{name}/{key}": int(count) for name, each in found for key, count in zip(self._names, each)}

    def proportions(self) -> Proportions:
        """Returns successes and trials of the numbers that are proportions of rows."""
        matrix = self._table.reshape(self._sides, -1)
        found = {"accuracy": (int(matrix.trace()), self.units)}
        if self._average == "micro" and not self._binary:  # the same number by other names
            found |= dict.fromkeys(_PROPORTIONS, found["accuracy"])
        for name, sums in zip(_PROPORTIONS, (matrix.sum(0), matrix.sum(1))):
            trials = list(zip(matrix.diagonal().tolist(), sums.tolist()))
            if self._binary:
                found[name] = trials[1]
            else:
                found |= {f"{name}_per_class/{each}": trial for each, trial in zip(self._names, trials)}
        return found

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers that have no interval."""
        if self._areas is None:
            return {}
        found = self._area_numbers(self._predictions)
        return {"calibration_error": BIASED_ERROR, **{n: SEPARATED for n, value in found.items() if value in (0, 1)}}

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> NDArray[np.int64]:
        """Returns the codes of the clusters of the rows that count, in the order of the clusters.

        Raises:
            InputError: there is not one cluster for each row.
        """
        if isinstance(given, Mapping) or len(given) != self._rows:
            raise InputError(f"clusters must be one for each of {self._rows} rows but are {len(given)}")
        return codes_by_name([given[row] for row in np.flatnonzero(self._kept).tolist()])

    def identities(self) -> Units:
        """Returns the rows that count by the place at which they came, with the names of their targets."""
        rows, ranks = self._predictions, self._cells
        if self._areas is not None:
            order, ranks = _order_of(rows), np.empty(self.units, np.int64)
            ranks[order] = dense_ranks(_content_of(rows)[order].view(np.int64))
        names = np.array(self._names)[rows.target]
        return Units("rows", None, np.flatnonzero(self._kept), self._rows, ranks, names, "target")

    def swapping(self, other: Resampled) -> ClassifiedRows | None:
        """Returns the rows of both models, with their ranks for scores; see :meth:`Resampled.swapping`."""
        if not isinstance(other, ClassifiedRows):
            return None
        found = copy.copy(self)
        found._swapped, sides = True, (self, other)
        found._set_cells(np.concatenate([side._cells for side in sides]))
        if self._areas is not None and other._areas is not None:
            ranked = [side._areas.ranked(side._predictions) for side in sides if side._areas is not None]
            scores = np.concatenate([np.asarray(side.scores) for side in ranked])
            target = np.concatenate([side.target for side in ranked])
            found._predictions, found._areas = replace(ranked[0], target=target, scores=scores), self._areas.of_ranks()
        return found

    def paired_tests(self, other: Resampled, pairing: Pairing, confidence: float) -> Mapping[str, PairedTest]:
        """Returns the tests of McNemar of accuracy and recall, and those of DeLong of areas under ROC curves."""
        if not isinstance(other, ClassifiedRows):
            return {}
        found = dict(tests_of_trials(self._trials(), other._trials(), pairing, confidence))
        if self._has_placements and other._has_placements:
            clustered = pairing.drawn < pairing.units
            mine, its = (side._placed(codes, clustered) for side, codes in zip((self, other), pairing.codes))
            found |= mine.tests(its, confidence)
        return found

    def analytic(self, method: str, clusters: NDArray[np.int64] | None, confidence: float) -> Mapping[str, Interval]:
        """Returns the intervals of DeLong of areas under ROC curves, or those of proportions."""
        if method != "delong":
            return super().analytic(method, clusters, confidence)
        if not self._has_placements:
            return {}
        codes = np.arange(self.units) if clusters is None else clusters
        return self._placed(codes, clusters is not None).intervals(confidence)

    @property
    def _has_placements(self) -> bool:
        return self._areas is not None and self._areas.exact

    def _trials(self) -> dict[str, Trials]:
        """Trials of the numbers that are proportions of rows whatever is predicted."""
        true, decided = np.divmod(self._cells, self._sides)
        right = true == decided
        found = {"accuracy": Trials(right, np.ones_like(right))}
        if self._average == "micro" and not self._binary:
            found |= dict.fromkeys(_PROPORTIONS, found["accuracy"])
        held = {name: true == place for place, name in enumerate(self._names)}
        if self._binary:
            positive = held[self._names[1]]
            return found | {"recall": Trials(right & positive, positive)}
        return found | {f"recall_per_class/{name}": Trials(right & mine, mine) for name, mine in held.items()}

    def _placed(self, codes: NDArray[np.int64], clustered: bool) -> PlacedAreas:
        assert self._areas is not None
        scores = np.asarray(self._areas.ranked(self._predictions).scores)
        of = self._predictions.target
        if self._binary:
            return PlacedAreas(ScoredRows(scores[:, None], (of == 1)[:, None], None, ["roc_auc"]), codes, clustered)
        held = of[:, None] == np.arange(self._sides)
        pooled = self._average == "micro"
        names = ["roc_auc"] if pooled else [f"roc_auc_per_class/{name}" for name in self._names]
        mean = "roc_auc" if self._average == "macro" else ""
        return PlacedAreas(ScoredRows(scores, held, None, names, mean), codes, clustered)

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the numbers of replicates."""
        together = self._swapped or draws.clusters is not None
        weights = draws.array() if together or self._areas else np.empty((0, draws.count), np.uint8)
        held = np.flatnonzero(self._table)
        cells = None if together else draws.cells(self._table[held])
        rows = self._predictions if together else self._sorted
        found: dict[str, Floats] = {}
        table: NDArray[Any]
        for column in range(draws.count):
            if cells is None:
                table = np.bincount(self._cells, weights[:, column], self._sides**2)
            else:
                table = np.zeros(self._sides**2)
                table[held] = cells[:, column]
            numbers = self._decided(table)
            if self._areas:
                # Copies, not weights: sums of weights round average precision in another order.
                numbers |= self._area_numbers(_rows_of(rows, np.repeat(np.arange(self.units), weights[:, column])))
            for name, number in numbers.items():
                found.setdefault(name, np.empty(draws.count))[column] = number
        return found

    def _decided(self, table: NDArray[Any]) -> dict[str, float]:
        """The numbers of a confusion matrix, of which the first class of the binary task is no class."""
        matrix = table.reshape(self._sides, -1).astype(np.float64)
        outcomes = Outcomes(matrix.diagonal().copy(), matrix.sum(0), matrix.sum(1), np.full(self._sides, matrix.sum()))
        if self._binary:
            outcomes = Outcomes(*(part[1:] for part in outcomes))
        pairs = decided_numbers(outcomes, matrix, self._binary, self._average)
        return self._by_name(pairs)

    def _area_numbers(self, rows: Predictions) -> dict[str, float]:
        assert self._areas is not None
        parts = self._areas(rows)
        return self._by_name(
            {n: (parts[n].values[parts[n].signature["metric"]], parts[n].values.get("per_class")) for n in AREAS}
        )

    def _by_name(self, numbers: Mapping[str, tuple[Any, Any]]) -> dict[str, float]:
        found = {}
        for name, (value, by_class) in numbers.items():
            found[name] = float(value)
            if by_class is not None and name in self._of_classes:
                found |= {f"{name}_per_class/{each}": float(v) for each, v in zip(self._names, by_class)}
        return found


def _rows_of(predictions: Predictions, rows: NDArray[Any]) -> Predictions:
    scores, labels = predictions.scores, predictions.labels
    return replace(
        predictions,
        target=predictions.target[rows],
        scores=None if scores is None else scores[rows],
        labels=None if labels is None else labels[rows],
        clusters=None,
    )


def _order_of(predictions: Predictions) -> NDArray[Any]:
    """The order of the rows by the bytes of what they hold, which no order of the file changes."""
    rows = _content_of(predictions)
    return np.argsort(rows.view(f"V{rows.shape[1] * rows.itemsize}").reshape(-1), kind="stable")


def _content_of(predictions: Predictions) -> NDArray[np.float64]:
    """Targets and scores, float64 ``[N, 1 + C]``."""
    scores = np.asarray(predictions.scores).reshape(len(predictions.target), -1) + 0.0  # -0.0 is 0.0
    return np.ascontiguousarray(np.column_stack((predictions.target.astype(np.float64), scores)))
