"""Scores of rows as the bootstrap asks them: exact ROC AUC and average precision, and other numbers of curves."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.classification.curves import PrecisionRecallCurve
from valor_gpu.classification.score_metric import Histogram, Ranked, ScoreMetric, ScoreRecords, pool
from valor_gpu.errors import InputError
from valor_gpu.ops.ranks.resampled import resampled_ranks
from valor_gpu.reduce.ranking import SEPARATED
from valor_gpu.stats.clusters import codes_by_name
from valor_gpu.stats.placed_areas import PlacedAreas, ScoredRows
from valor_gpu.stats.ranks import mid_ranks
from valor_gpu.stats.resample import Floats, Resampled, holders, sides_of_labels
from valor_gpu.stats.units import Units, dense_ranks

if TYPE_CHECKING:
    from valor_gpu.classification.ranking_metrics import RankingMetric
    from valor_gpu.stats.draws import Draws
    from valor_gpu.stats.intervals import Interval
    from valor_gpu.stats.paired_test import PairedTest
    from valor_gpu.stats.units import Pairing

_BYTES = 1 << 25  # of weights that are held at a time
_MOST_AT_A_TIME = 512
_FEW_COLUMNS = 4


class ResampledScores(Resampled):
    """Rows of scores and targets in the order of their content, so that no order or split of updates changes a bit.

    A row without an element that counts (by ``ignore_index``, or its weight is 0) is no unit. The activation is that
    of all rows. Scores on another device are copied to the CPU once.

    Args:
        metric: whose numbers are wanted.
        state: of it.
    """

    family = "curve"

    def __init__(self, metric: ScoreMetric, state: ScoreRecords) -> None:
        ranked = metric._ranked(state, False)
        scores, target = ranked.scores.cpu().contiguous(), ranked.target.cpu()
        weight = None if ranked.weight is None else ranked.weight.cpu()
        self._rows = len(scores)
        self._order = _ordered(scores, target, weight, _counted(target, ranked.ignore_index, weight))
        order = torch.from_numpy(self._order)
        weight = None if weight is None else weight[order]
        self._ranked = Ranked(scores[order], target[order], ranked.ignore_index, weight)
        self._set_units(len(order))

    def _set_units(self, units: int) -> None:
        self.units = units
        lanes = _BYTES // max(units, 1)
        self.chunk = max(1, min(_MOST_AT_A_TIME, lanes // 16 * 16 or lanes))

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> NDArray[np.int64]:
        """Returns the codes of the clusters of the rows, in the order of the clusters.

        Args:
            given: the cluster of every row, in the order of updates (and of ranks), or by the index of the row.

        Raises:
            InputError: a row has no cluster, or there are more of them than rows.
        """
        if isinstance(given, Mapping):
            if missing := [row for row in range(self._rows) if row not in given]:
                raise InputError(f"clusters must name that of each of {self._rows} rows but lacks row {missing[0]}")
            given = [given[row] for row in range(self._rows)]
        if len(given) != self._rows:
            raise InputError(f"clusters must have one for each of {self._rows} rows but has {len(given)}")
        return codes_by_name([given[row] for row in self._order.tolist()])

    def identities(self) -> Units:
        """Returns the rows that count by the place at which they came, with their targets and weights."""
        keys = _keys_of(self._ranked.scores, self._ranked.target, self._ranked.weight)
        sides = np.concatenate(keys[1:], 1)
        truth = "target" if self._ranked.weight is None else "target and weight"
        return Units("rows", None, self._order, self._rows, dense_ranks(np.concatenate(keys, 1)), sides, truth)

    def _stacked(self, other: ResampledScores) -> Ranked:
        """The rows of both models; scores are mid-ranks within model and class, as fractions."""
        sides = (self._ranked, other._ranked)
        weights = [side.weight for side in sides if side.weight is not None]
        return Ranked(
            torch.cat([self._fractions(side) for side in sides]),
            torch.cat([side.target for side in sides]),
            self._ranked.ignore_index,
            torch.cat(weights) if len(weights) == len(sides) else None,
        )

    def _fractions(self, ranked: Ranked) -> Tensor:
        """float64 ``[N, C]`` in (0, 1): a score that does not count is 0."""
        scores, target = ranked.scores.double().numpy(), ranked.target.numpy()
        counted = np.ones(scores.shape, bool)
        if ranked.ignore_index is not None:
            counted &= (target != ranked.ignore_index).reshape(len(target), -1)
        found = np.zeros(scores.shape)
        columns = [...] if self._one_ranking else [(slice(None), column) for column in range(scores.shape[1])]
        for column in columns:
            found[column][counted[column]] = mid_ranks(scores[column][counted[column]])
        return torch.from_numpy(found)

    @property
    def _one_ranking(self) -> bool:
        """Whether the scores of all classes are ranked together."""
        return False

    def _held(self, sides: bool, clusters: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Positive rows (or their clusters) of each class, or, of both sides, the negative ones if they are fewer."""
        target, classes = self._ranked.target.numpy(), self._ranked.scores.shape[1]
        if target.ndim == 1:
            found = sides_of_labels(target, classes, clusters)
        else:
            found = []
            for side in (1, 0):
                rows, columns = np.nonzero(target == side)
                found.append(np.array(holders(columns, rows, classes, clusters), np.int64))
        return np.minimum(*found) if sides else found[0]

    @abstractmethod
    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the numbers of replicates."""


class ResampledRanks(ResampledScores):
    """Exact ROC AUC or average precision as the bootstrap asks them, with the bits of the metric on copies of rows.

    Args:
        metric: whose numbers are wanted.
        state: of it.
    """

    def __init__(self, metric: RankingMetric, state: ScoreRecords) -> None:
        super().__init__(metric, state)
        self._metric, self._name = metric, type(metric).__name__
        self._pooled = metric.average == "micro"
        ranking = metric._ranking_values(state)
        values = ranking.value.tolist()
        self._classes = len(values)
        self._found = self._named(ranking.value.cpu().numpy()[:, None], ranking.positives.cpu().numpy()[:, None])

    def supports(self, clusters: NDArray[np.int64] | None = None) -> Mapping[str, int]:
        """Returns how many rows, or clusters, are positive for a class, of ROC AUC also negative if they are fewer."""
        held = self._held(not self._metric._row, clusters)
        if self._classes == 1:
            return {self._name: int(held.sum())}
        return {f"per_class/{c}": int(number) for c, number in enumerate(held)}

    def refused(self) -> Mapping[str, str]:
        """Returns the numbers that are 0 or 1."""
        return {name: SEPARATED for name, value in self._found.items() if value[0] in (0, 1)}

    @property
    def _one_ranking(self) -> bool:
        return self._pooled

    def swapping(self, other: Resampled) -> ResampledRanks | None:
        """Returns the rows of both models with their ranks for scores; see :meth:`Resampled.swapping`."""
        if not isinstance(other, ResampledRanks):
            return None
        found = copy.copy(self)
        found._ranked = self._stacked(other)
        found._set_units(self.units + other.units)
        return found

    def paired_tests(self, other: Resampled, pairing: Pairing, confidence: float) -> Mapping[str, PairedTest]:
        """Returns the tests of DeLong of ROC areas of rows of equal weight."""
        if not isinstance(other, ResampledRanks) or not (self._has_placements and other._has_placements):
            return {}
        clustered = pairing.drawn < pairing.units
        mine, its = (side._placed(codes, clustered) for side, codes in zip((self, other), pairing.codes))
        return mine.tests(its, confidence)

    def analytic(self, method: str, clusters: NDArray[np.int64] | None, confidence: float) -> Mapping[str, Interval]:
        """Returns the intervals of DeLong of ROC areas of rows of equal weight."""
        if method != "delong" or not self._has_placements:
            return {}
        codes = np.arange(self.units) if clusters is None else clusters
        return self._placed(codes, clusters is not None).intervals(confidence)

    @property
    def _has_placements(self) -> bool:
        return not self._metric._row and self._ranked.weight is None

    def _placed(self, codes: NDArray[np.int64], clustered: bool) -> PlacedAreas:
        scores, target = self._ranked.scores.double().numpy(), self._ranked.target.numpy()
        classes, counted = scores.shape[1], None
        if target.ndim == 1:
            held = target[:, None] == np.arange(classes)
        else:
            held = target == 1
            counted = None if self._ranked.ignore_index is None else target != self._ranked.ignore_index
        names = [self._name] if self._classes == 1 else [f"per_class/{c}" for c in range(classes)]
        mean = self._name if self._classes > 1 and self._metric.average == "macro" else ""
        return PlacedAreas(ScoredRows(scores, held, counted, names, mean), codes, clustered)

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the numbers of replicates."""
        ranked = pool(self._ranked) if self._pooled else self._ranked
        made = resampled_ranks(
            ranked.scores,
            ranked.target,
            draws.array(),
            average=bool(self._metric._row),
            ignore_index=ranked.ignore_index,
            weight=ranked.weight,
        )
        return self._named(made.values, made.positives)

    def _named(self, values: Floats, positives: Floats) -> dict[str, Floats]:
        """Numbers by their names in the result, of values ``[C, L]``."""
        if self._classes == 1:
            return {self._name: values[0]}
        found = {f"per_class/{c}": row for c, row in enumerate(values)}
        if self._metric.average != "none":
            columns = [torch.from_numpy(np.ascontiguousarray(part.T)) for part in (values, positives)]
            found[self._name] = np.array([float(self._metric._average(*pair)) for pair in zip(*columns)])
        return found


class ResampledPoints(ResampledScores):
    """Other numbers of exact curves: the rows of each replicate are written out and given to the metric.

    Args:
        metric: whose numbers are wanted.
        state: of it.
        numbers: names and numbers of a state.
        sides: whether the numbers of a class need negatives as they need positives.
    """

    def __init__(
        self,
        metric: ScoreMetric,
        state: ScoreRecords,
        numbers: Callable[[ScoreRecords], Mapping[str, float]],
        sides: bool = True,
    ) -> None:
        super().__init__(metric, state)
        self._metric, self._sides = metric, sides
        order = torch.from_numpy(self._order)
        weight = state.weight.cpu()
        self._state = ScoreRecords(
            state.scores.cpu()[order],
            state.target.cpu()[order],
            weight[order] if len(weight) else weight,
            state.score_types.cpu(),
        )
        self._numbers, self._names = numbers, tuple(numbers(self._state))

    def supports(self, clusters: NDArray[np.int64] | None = None) -> Mapping[str, int]:
        """Returns how many rows, or clusters, hold a truth of the numbers of a class; means need none."""
        held = self._held(self._sides, clusters)
        if len(held) == 1:
            return dict.fromkeys(self._names, int(held[0]))
        of_classes = (name for name in self._names if "/" in name)
        return {name: int(held[int(name.rpartition("/")[2])]) for name in of_classes}

    def swapping(self, other: Resampled) -> ResampledPoints | None:
        """Returns the rows of both models with their ranks for scores; see :meth:`Resampled.swapping`.

        None for several classes of which each row has one: their activation would mix the ranks of classes.
        """
        if not isinstance(other, ResampledPoints) or self._metric.task.kind == "multiclass":
            return None
        found, ranked = copy.copy(self), self._stacked(other)
        weight = self._state.weight if ranked.weight is None else ranked.weight
        found._state = ScoreRecords(ranked.scores, ranked.target, weight, self._state.score_types)
        found._ranked = ranked
        found._set_units(self.units + other.units)
        return found

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the numbers of replicates."""
        weights, state = draws.array(), self._state
        found = {name: np.full(draws.count, np.nan) for name in self._names}
        for lane in range(draws.count):
            rows = torch.from_numpy(np.repeat(np.arange(self.units), weights[:, lane]))
            weight = state.weight[rows] if len(state.weight) else state.weight
            copies = ScoreRecords(state.scores[rows], state.target[rows], weight, state.score_types)
            for name, number in self._numbers(copies).items():
                found[name][lane] = number
        return found


def _counted(target: Tensor, ignore_index: int | None, weight: Tensor | None) -> NDArray[np.bool_]:
    """Which rows have an element that counts."""
    counted = torch.ones_like(target, dtype=torch.bool) if ignore_index is None else target != ignore_index
    counted = counted.any(1) if counted.ndim == 2 else counted
    return (counted if weight is None else counted & (weight > 0)).numpy()


def _ordered(scores: Tensor, target: Tensor, weight: Tensor | None, counted: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Places of the rows that count, by score, target and weight: the largest first where there is one score."""
    rows = np.flatnonzero(counted)
    keys, *sides = (part[rows] for part in _keys_of(scores, target, weight))
    if keys.shape[1] <= _FEW_COLUMNS:
        columns = [*keys.T, *(column for side in sides for column in side.T)]
        return rows[np.lexsort(columns[::-1])]
    record = np.ascontiguousarray(np.concatenate([keys.astype(np.int64), *sides], 1)).view(np.uint8)
    return rows[np.argsort(record.view(f"V{record.shape[1]}").reshape(-1), kind="stable")]


def _keys_of(scores: Tensor, target: Tensor, weight: Tensor | None) -> list[NDArray[Any]]:
    """Integers by which rows are in order: of scores, targets and weights, ``[N, columns]`` each."""
    found = [_descending(scores).numpy(), (target if target.ndim == 2 else target[:, None]).long().numpy()]
    if weight is not None:
        found.append(weight.contiguous().view(torch.int64).numpy()[:, None])
    return found


def _descending(scores: Tensor) -> Tensor:
    """Integers that ascend where scores descend; every bit of a score counts."""
    types = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    bits = scores.view(types[scores.element_size()])
    return ~torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)


def resampled_points(
    metric: ScoreMetric,
    name: str,
    state: ScoreRecords | Histogram,
    single: bool,
    numbers: Callable[[ScoreRecords], list[float]],
) -> Resampled:
    """Returns the scores of a metric as the bootstrap asks them for other numbers than areas.

    Args:
        metric: whose numbers are wanted.
        name: of the number in its result.
        state: of it.
        single: whether there is one number; else one of each class.
        numbers: of a state.

    Raises:
        InputError: scores are not kept.
    """
    if isinstance(state, Histogram):
        raise InputError(f"intervals of {type(metric).__name__} need the scores: thresholds=None keeps them")

    def named(copies: ScoreRecords) -> dict[str, float]:
        values = numbers(copies)
        return {name: values[0]} if single else {f"{name}/{c}": value for c, value in enumerate(values)}

    return ResampledPoints(metric, state, named, sides=not isinstance(metric, PrecisionRecallCurve))
