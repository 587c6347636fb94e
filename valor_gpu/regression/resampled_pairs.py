"""Pairs of numbers as the bootstrap asks them: the coefficient of copies of the rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.ops.rank_sums.op import rank_sums
from valor_gpu.reduce.rank_correlation import RankSums
from valor_gpu.stats.clusters import codes_by_place
from valor_gpu.stats.resample import Floats, Resampled
from valor_gpu.stats.units import Units, dense_ranks

if TYPE_CHECKING:
    from valor_gpu.stats.draws import Draws

Ints = NDArray[np.int64]


def sums_of_outputs(preds: Tensor, target: Tensor, pairs: bool, omit: bool) -> list[RankSums]:
    """Returns the sums over the ranks of each output.

    Args:
        preds: float32 or float64 ``[N, D]``.
        target: likewise.
        pairs: also count pairs of rows.
        omit: leave out the rows of an output that have NaN there.
    """
    if omit and bool((nan := preds.isnan() | target.isnan()).any()):
        parts = [(x[~gone, None], y[~gone, None]) for x, y, gone in zip(preds.T, target.T, nan.T)]
        return [sums_of_outputs(*sides, pairs, False)[0] for sides in parts]
    return [RankSums.of(len(preds), words) for words in rank_sums(preds, target, pairs=pairs).tolist()]


class ResampledPairs(Resampled):
    """Rows of predictions and targets, in the order of their content, so that no order or split of them changes a bit.

    A row with NaN is a unit like any other: the number does not exist in a replicate that has it.

    Args:
        name: of the coefficient.
        preds: float64 ``[N, D]``.
        target: float64 ``[N, D]``.
        coefficient: the number of an output from the sums over its ranks.
        choices: whether it needs pairs of rows, and whether rows with NaN are left out.
        refused: the reasons of numbers beside it that have no interval, by their names without those of outputs.
    """

    def __init__(
        self,
        name: str,
        preds: Floats,
        target: Floats,
        coefficient: Callable[[RankSums], float],
        choices: tuple[bool, bool],
        refused: Mapping[str, str] | None = None,
    ) -> None:
        self.units, outputs = preds.shape
        self._names = _of_outputs(name, outputs)
        self._refused = {each: why for beside, why in (refused or {}).items() for each in _of_outputs(beside, outputs)}
        table = np.concatenate((preds, target), 1) + 0.0  # -0.0 is 0.0
        self._order = np.lexsort(table.T[::-1])
        self._table, self._coefficient, self._choices = table[self._order], coefficient, choices
        self._ranks = dense_ranks(_whole(self._table))

    def refused(self) -> Mapping[str, str]:
        """Returns the reasons of numbers that have no interval."""
        return self._refused

    def range_of(self, name: str) -> tuple[float, float]:
        """Returns -1 and 1."""
        return -1.0, 1.0

    def replicates(self, draws: Draws) -> Mapping[str, Floats]:
        """Computes the coefficient of every output, of each row as often as it was drawn."""
        found = np.empty((len(self._names), draws.count))
        both = torch.from_numpy(self._table)
        outputs = len(self._names)
        for lane, weights in enumerate(draws.array().T):
            drawn = both[torch.from_numpy(np.repeat(np.arange(self.units), weights))]
            sums = sums_of_outputs(drawn[:, :outputs], drawn[:, outputs:], *self._choices)
            found[:, lane] = [*map(self._coefficient, sums)]
        return dict(zip(self._names, found))

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> Ints:
        """Returns the codes of the clusters of the rows.

        Args:
            given: the cluster of every row, in the order in which the rows came; or row number to cluster.

        Raises:
            InputError: a row has no cluster, or there are more clusters than rows.
        """
        if isinstance(given, Mapping):
            missing = next((row for row in range(self.units) if row not in given), None)
            if missing is not None:
                raise InputError(
                    f"clusters must have one for each of the {self.units} rows but has none for row {missing}"
                )
        elif len(given) != self.units:
            raise InputError(f"clusters must have one for each of the {self.units} rows but has {len(given)}")
        return codes_by_place([given[row] for row in self._order.tolist()], self._ranks.tolist())

    def identities(self) -> Units:
        """Returns the rows by the place at which they came, with their targets."""
        truths = self._table[:, self._table.shape[1] // 2 :]
        truths = np.where(np.isnan(truths), np.inf, truths)  # NaN would differ from itself
        return Units("rows", None, self._order, self.units, self._ranks, truths, "target")


def _of_outputs(name: str, outputs: int) -> list[str]:
    """The leaf names of a number of so many outputs."""
    return [name] if outputs == 1 else [f"{name}/{output}" for output in range(outputs)]


def _whole(table: Floats) -> Ints:
    """The bits of numbers, of which all NaN have the same."""
    return np.where(np.isnan(table), np.nan, table).view(np.int64)
