"""Correlations of ranks: Spearman's and Kendall's, of every prediction and target."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.reduce.rank_correlation import (
    ALTERNATIVES,
    VARIANTS,
    RankSums,
    kendall,
    kendall_p_value,
    missing,
    missing_p_value,
    spearman,
)
from valor_gpu.regression.pair_rows import PairMetric, PairRows
from valor_gpu.regression.resampled_pairs import ResampledPairs, sums_of_outputs
from valor_gpu.result import Result, Signature

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import KeptPairOptions
    from valor_gpu.stats.intervals import Bootstrap

Numbers = dict[str, list[float]]
_NO_TEST = "a p-value already says how far chance alone goes: take the interval of the coefficient"


class RankCorrelation(PairMetric):
    """Base of the correlations of ranks; a subclass gives ``_numbers`` and ``_reasons`` of sums over ranks.

    Every sum is a whole number, so that no order or split of the rows, rank or device changes a bit.
    """

    higher_is_better: bool | None = True
    plot_lower_bound = -1.0
    plot_upper_bound = 1.0
    _counts_pairs = False

    @abstractmethod
    def _numbers(self, sums: RankSums) -> Mapping[str, float]:
        """The numbers of an output by name."""

    @abstractmethod
    def _reasons(self, sums: RankSums) -> Mapping[str, str]:
        """Why a number of an output is NaN, empty where it is not."""

    def _sums(self, state: PairRows) -> tuple[list[RankSums], torch.dtype, torch.device]:
        preds, target = state.pairs
        sums = sums_of_outputs(preds, target, self._counts_pairs, self.nan_policy == "omit")
        return sums, preds.dtype, preds.device

    def _computed_of(self, state: PairRows) -> list[Tensor]:
        """The numbers, each of the dtype of the rows, ``[]`` or ``[D]``."""
        sums, dtype, device = self._sums(state)
        columns = zip(*(self._numbers(each).values() for each in sums))
        found = [torch.tensor(column, dtype=dtype).to(device) for column in columns]
        return [each[0] if self.num_outputs == 1 else each for each in found]

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the numbers in float64 with the choices behind them, counts, and why a number does not exist.

        Args:
            intervals: replicates of a bootstrap of rows, or its choices: every coefficient gets an interval.
        """
        with self.synced_state() as state:
            result = self._result_of(state)
        return result if intervals is None else result.with_intervals(intervals)

    def _result_of(self, state: PairRows) -> Result:
        sums, *_ = self._sums(state)
        names = list(self._numbers(sums[0]))
        columns = {name: [self._numbers(each)[name] for each in sums] for name in names}
        reasons = {}
        for name in names:
            found = [self._reasons(each)[name] for each in sums]
            if any(found):
                reasons[name] = "; ".join(dict.fromkeys(_of_output(found)))
        single = self.num_outputs == 1
        values = {name: column[0] if single else np.array(column) for name, column in columns.items()}
        signature = Signature({"metric": type(self).__name__, **self._choices()})
        return Result(values, signature, self._counted(state, sums), reasons, state=lambda: self._resampled(state))

    def _choices(self) -> dict[str, Any]:
        omitted = {} if self.nan_policy == "propagate" else {"nan_policy": self.nan_policy}
        return {"num_outputs": self.num_outputs, **omitted}

    def _counted(self, state: PairRows, sums: Sequence[RankSums]) -> dict[str, int]:
        return {"rows": len(state.preds) + len(state.wide_preds), "nan_rows": _nan_rows(state)}

    def _resampled(self, state: PairRows) -> ResampledPairs:
        name = type(self).__name__
        preds, target = (side.double().cpu().numpy() for side in state.pairs)
        choices = self._counts_pairs, self.nan_policy == "omit"
        return ResampledPairs(name, preds, target, self._coefficient, choices, self._refused())

    def _refused(self) -> Mapping[str, str]:
        """The reasons of numbers beside the coefficient that have no interval."""
        return {}

    @abstractmethod
    def _coefficient(self, sums: RankSums) -> float:
        """The coefficient of an output."""


def _nan_rows(state: PairRows) -> int:
    """Rows with NaN in some output."""
    preds, target = state.pairs
    return int((preds.isnan() | target.isnan()).any(1).sum())


def _of_output(reasons: Sequence[str]) -> list[str]:
    """The reasons of outputs, with their numbers where there are several outputs."""
    if len(reasons) == 1:
        return list(reasons)
    return [f"output {output}: {reason}" for output, reason in enumerate(reasons) if reason]


class SpearmanCorrCoef(RankCorrelation):
    """Computes Spearman's rank correlation: Pearson's of ranks, where equal numbers share the mean of theirs.

    It is NaN for fewer than two rows, where all of a side are equal, and with a NaN in a row; :meth:`result` says why.
    Memory: 8 bytes a row and output, 16 where float64 or int32 came.

    Source: Spearman, "The proof and measurement of association between two things" (1904).

    Example:
        >>> metric = SpearmanCorrCoef()
        >>> metric.update(torch.tensor([2.5, 0.0, 2, 8]), torch.tensor([3, -0.5, 4, 7]))
        >>> metric.compute()
        tensor(0.8000)
    """

    def __init__(self, num_outputs: int = 1, **kwargs: Unpack[KeptPairOptions]) -> None:
        super().__init__(num_outputs, **kwargs)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the coefficient, ``[]`` or ``[D]``: float64 where float64, int32 or int64 came, else float32."""
        return self._computed_of(self.state())[0]

    def _numbers(self, sums: RankSums) -> Mapping[str, float]:
        return {"SpearmanCorrCoef": spearman(sums)}

    def _reasons(self, sums: RankSums) -> Mapping[str, str]:
        return {"SpearmanCorrCoef": missing(sums)}

    def _coefficient(self, sums: RankSums) -> float:
        return spearman(sums)


class KendallRankCorrCoef(RankCorrelation):
    """Computes Kendall's tau: concordant less discordant pairs of rows, by the pairs that there are.

    A pair is concordant where both sides rise from one row to the other. Pairs are counted in O(N log N) by sorting.
    It is NaN for fewer than two rows, with a NaN in a row, and in variants b and c where all of a side are equal;
    :meth:`result` says why. Memory: 8 bytes a row and output, 16 where float64 or int32 came.

    Sources: Kendall, "The treatment of ties in ranking problems" (1945); Stuart, "The estimation and comparison of
    strengths of association in contingency tables" (1953); Knight, "A computer method for calculating Kendall's tau
    with ungrouped data" (1966).

    Args:
        variant: ``a`` divides by all pairs, ``b`` by the geometric mean of the pairs that differ in preds and of those
            that differ in target, ``c`` by ``N^2 (m - 1) / (2 m)`` for m different values of the side that has fewer.
        t_test: also compute the p-value of no correlation, by the normal approximation with the ties of both sides
            (variant ``a``: without ties).
        alternative: of that test: ``two-sided``, ``less`` (tau is below 0) or ``greater``.

    Raises:
        InputError: ``t_test`` is no bool, or ``alternative`` is None with it.

    Example:
        >>> metric = KendallRankCorrCoef(t_test=True)
        >>> metric.update(torch.tensor([2.5, 0.0, 2, 8]), torch.tensor([3, -0.5, 2, 1]))
        >>> metric.compute()
        (tensor(0.3333), tensor(0.4969))
    """

    higher_is_better = None
    _counts_pairs = True

    def __init__(
        self,
        variant: str = "b",
        t_test: bool = False,
        alternative: str | None = "two-sided",
        num_outputs: int = 1,
        **kwargs: Unpack[KeptPairOptions],
    ) -> None:
        check_choice("variant", variant, VARIANTS)
        check_type("t_test", t_test, bool)
        if t_test and alternative is None:
            raise InputError("alternative must be given with t_test=True but is None")
        if t_test:
            check_choice("alternative", alternative, ALTERNATIVES)
        self.variant, self.t_test = variant, t_test
        self.alternative = alternative if t_test else None
        super().__init__(num_outputs, **kwargs)

    @gives_own_memory
    def compute(self) -> Tensor | tuple[Tensor, Tensor]:
        """Returns tau, ``[]`` or ``[D]``: float64 where float64, int32 or int64 came, else float32.

        With ``t_test`` a tuple of it and the p-value.
        """
        found = self._computed_of(self.state())
        return (found[0], found[1]) if self.t_test else found[0]

    def _numbers(self, sums: RankSums) -> Mapping[str, float]:
        tests = {"p_value": kendall_p_value(sums, self.variant, self.alternative)} if self.alternative else {}
        return {"KendallRankCorrCoef": kendall(sums, self.variant), **tests}

    def _reasons(self, sums: RankSums) -> Mapping[str, str]:
        tests = {"p_value": missing_p_value(sums, self.variant)} if self.alternative else {}
        return {"KendallRankCorrCoef": missing(sums, self.variant != "a"), **tests}

    def _coefficient(self, sums: RankSums) -> float:
        return kendall(sums, self.variant)

    def _refused(self) -> Mapping[str, str]:
        return {"p_value": _NO_TEST} if self.t_test else {}

    def _choices(self) -> dict[str, Any]:
        tests = {"alternative": self.alternative} if self.t_test else {}
        return {"variant": self.variant, **tests, **super()._choices()}

    def _counted(self, state: PairRows, sums: Sequence[RankSums]) -> dict[str, int]:
        pairs = {}
        if len(sums) == 1:
            pairs = {"concordant": sums[0].concordant, "discordant": sums[0].discordant}
        return {**super()._counted(state, sums), **pairs}
