"""Scores of probabilistic forecasts: ensembles, quantiles and intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_number, check_type
from valor_gpu.errors import InputError
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.ops._device_tables import constant
from valor_gpu.ops.error_codes import first_error, value_row
from valor_gpu.plans import Planner
from valor_gpu.regression.row_kernels import COVERAGE, ENSEMBLE, FAIR_ENSEMBLE, QUANTILE_LOSSES, QUANTILE_SCORE, Scoring
from valor_gpu.regression.row_means import RowMeans
from valor_gpu.regression.vectors import row_sums, tables
from valor_gpu.regression.whole_numbers import describe_rounding, rounding_error

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import CorpusOptions


class Forecast(RowMeans):
    """Base of the scores of forecasts that have several numbers for each target."""

    higher_is_better: bool | None = False
    _numbers_of_row = 0  # what preds must have; 0: any

    def _tables(self, preds: Values, target: Values) -> tuple[Tensor, Tensor, bool, Tensor | None]:
        """Both in one dtype, whether float64 came, and the error code of whole numbers that float64 rounds."""
        given = as_values("preds", preds), as_values("target", target)
        first, second, wide = tables(("preds", "target"), given, second=1)
        if self._numbers_of_row and first.shape[1] != self._numbers_of_row:
            raise InputError(f"preds must have shape [N, {self._numbers_of_row}] but got {list(first.shape)}")
        return first, second, wide, rounding_error(given)

    def _describe_error(self, code: int) -> str:
        return describe_rounding(code) or f"an update failed with code {code}"


class ContinuousRankedProbabilityScore(Forecast):
    """Computes the continuous ranked probability score (CRPS) of ensembles: the mean over rows.

    ``mean |x - y| - sum |x - x'| / (2 M^2)`` of M members x and the target y, which is the integral of the squared
    difference of the ensemble's distribution function and that of the target. A row takes one sort of its members.

    Sources: Matheson and Winkler, "Scoring rules for continuous probability distributions" (1976); Gneiting and
    Raftery, "Strictly proper scoring rules, prediction, and estimation" (2007); Ferro, "Fair scores for ensemble
    forecasts" (2014).

    Args:
        fair: divide the sum of differences of members by ``2 M (M - 1)``: the mean is then that of an ensemble of
            infinitely many members, so that ensembles of different sizes compare. It can be below 0.

    Raises:
        InputError: ``fair`` is no bool.

    Example:
        >>> metric = ContinuousRankedProbabilityScore()
        >>> metric.update(torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 1.0]]), torch.tensor([2.0, 0.5]))
        >>> metric.compute()
        tensor(0.3056)
    """

    def __init__(self, *, fair: bool = False, **kwargs: Unpack[CorpusOptions]) -> None:
        check_type("fair", fair, bool)
        self.fair = fair
        super().__init__(["ContinuousRankedProbabilityScore"], {"fair": fair}, **kwargs)

    def update(self, preds: Values, target: Values) -> None:
        """Adds a batch.

        Args:
            preds: members of ensembles ``[N, M]``, M from 2 on, in any order; any real dtype.
            target: what happened, ``[N]``.

        Raises:
            InputError: naming the argument, for another shape or dtype, or an int64 beyond 2^53, which CUDA raises in
                ``compute`` instead.
        """
        members, happened, wide, error = self._tables(preds, target)
        if members.shape[1] < 2:
            raise InputError(f"preds must have at least 2 members for each row but has shape {list(members.shape)}")
        if error is not None or not self._kept(members, happened, wide):
            self._keep(ensemble_scores(members.double(), happened.double(), self.fair)[:, None], wide, error)

    def _planner(self) -> Planner:
        return self._planner_by("reduction", "fair")

    def _scoring(self) -> Scoring:
        return Scoring(FAIR_ENSEMBLE if self.fair else ENSEMBLE, least=2)


class PinballLoss(Forecast):
    """Computes the pinball loss of predicted quantiles: the mean over rows, for each level.

    ``max(q (y - x), (q - 1) (y - x))`` of the quantile x of level q and the target y: half the absolute error for the
    median. Lowest for the true quantile.

    Source: Koenker and Bassett, "Regression quantiles" (1978).

    Args:
        quantiles: the level of the predictions, or their levels, above 0 and below 1.

    Raises:
        InputError: a level is not above 0 and below 1, or there is none.

    Example:
        >>> metric = PinballLoss([0.1, 0.9])
        >>> metric.update(torch.tensor([[1.0, 3.0], [2.0, 5.0]]), torch.tensor([2.0, 6.0]))
        >>> metric.compute()
        tensor([0.2500, 0.5000])
    """

    def __init__(self, quantiles: float | Sequence[float] = 0.5, **kwargs: Unpack[CorpusOptions]) -> None:
        self._single = isinstance(quantiles, (int, float))
        self.quantiles = levels("quantiles", quantiles)
        names = ["PinballLoss"] if self._single else [f"PinballLoss/{level:g}" for level in self.quantiles]
        super().__init__(names, {"quantiles": list(self.quantiles)}, **kwargs)
        self._numbers_of_row = len(self.quantiles)

    def update(self, preds: Values, target: Values) -> None:
        """Adds a batch.

        Args:
            preds: predicted quantiles ``[N, Q]``, of a single level also ``[N]``; any real dtype.
            target: what happened, ``[N]``.

        Raises:
            InputError: naming the argument, for another shape or dtype, or an int64 beyond 2^53, which CUDA raises in
                ``compute`` instead.
        """
        preds = as_values("preds", preds)
        if preds.ndim == 1 and len(self.quantiles) == 1:
            preds = preds[:, None]
        predicted, happened, wide, error = self._tables(preds, target)
        if error is not None or not self._kept(predicted, happened, wide):
            self._keep(pinball_losses(predicted.double(), happened.double(), self.quantiles), wide, error)

    def _planner(self) -> Planner:
        return self._planner_by("reduction", "quantiles")

    def _scoring(self) -> Scoring:
        return Scoring(QUANTILE_LOSSES, self.quantiles, columns=len(self.quantiles), flat=len(self.quantiles) == 1)

    def _shaped(self, numbers: Tensor) -> Any:
        return numbers[0] if self._single else numbers


class QuantileCRPS(Forecast):
    """Computes the CRPS of forecasts that are quantiles: twice the mean pinball loss over levels, the mean over rows.

    The CRPS is twice the integral of the pinball loss over all levels; here the given levels stand for it, each for as
    many. Of the levels ``(i - 1/2) / Q`` it is exactly the CRPS of the ensemble of the Q quantiles, and of the ends of
    central intervals and the median it is the weighted interval score.

    Sources: Gneiting and Ranjan, "Comparing density forecasts using threshold- and quantile-weighted scoring rules"
    (2011); Bröcker, "Evaluating raw ensembles with the continuous ranked probability score" (2012); Bracher et al.,
    "Evaluating epidemic forecasts in an interval format" (2021).

    Args:
        quantiles: the levels of the predictions, above 0 and below 1.

    Raises:
        InputError: a level is not above 0 and below 1, or there is none.

    Example:
        >>> metric = QuantileCRPS([0.25, 0.5, 0.75])
        >>> metric.update(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([2.5]))
        >>> metric.compute()
        tensor(0.5000)
    """

    def __init__(self, quantiles: Sequence[float], **kwargs: Unpack[CorpusOptions]) -> None:
        self.quantiles = levels("quantiles", quantiles)
        super().__init__(["QuantileCRPS"], {"quantiles": list(self.quantiles)}, **kwargs)
        self._numbers_of_row = len(self.quantiles)

    def update(self, preds: Values, target: Values) -> None:
        """Adds a batch.

        Args:
            preds: predicted quantiles ``[N, Q]``, in the order of ``quantiles``; any real dtype.
            target: what happened, ``[N]``.

        Raises:
            InputError: naming the argument, for another shape or dtype, or an int64 beyond 2^53, which CUDA raises in
                ``compute`` instead.
        """
        predicted, happened, wide, error = self._tables(preds, target)
        if error is not None or not self._kept(predicted, happened, wide):
            losses = row_sums(pinball_losses(predicted.double(), happened.double(), self.quantiles))
            self._keep((2 * losses / len(self.quantiles))[:, None], wide, error)

    def _planner(self) -> Planner:
        return self._planner_by("reduction", "quantiles")

    def _scoring(self) -> Scoring:
        return Scoring(QUANTILE_SCORE, self.quantiles, columns=len(self.quantiles))


class IntervalCoverage(Forecast):
    """Computes how often targets lie inside predicted intervals, with the mean width and the interval score.

    ``coverage`` is the share of targets from ``low`` to ``high``, to be compared with ``confidence``. ``mean_width`` is
    the mean of ``high - low``. ``interval_score`` adds to the width ``2 / (1 - confidence)`` times the distance to the
    interval of a target outside, and is lowest for the true quantiles.

    Sources: Winkler, "A decision-theoretic approach to interval estimation" (1972); Gneiting and Raftery, "Strictly
    proper scoring rules, prediction, and estimation" (2007).

    Args:
        confidence: share of the targets that the intervals are to hold, above 0 and below 1.

    Raises:
        InputError: ``confidence`` is not above 0 and below 1.

    Example:
        >>> metric = IntervalCoverage(0.8)
        >>> metric.update(torch.tensor([[1.0, 3.0], [2.0, 5.0]]), torch.tensor([2.0, 6.0]))
        >>> {name: round(value.item(), 4) for name, value in metric.compute().items()}
        {'coverage': 0.5, 'mean_width': 2.5, 'interval_score': 7.5}
    """

    higher_is_better = None
    _numbers_of_row = 2

    def __init__(self, confidence: float = 0.9, **kwargs: Unpack[CorpusOptions]) -> None:
        self.confidence = _level("confidence", confidence)
        super().__init__(["coverage", "mean_width", "interval_score"], {"confidence": self.confidence}, **kwargs)

    def update(self, preds: Values, target: Values) -> None:
        """Adds a batch.

        Args:
            preds: ends of intervals ``[N, 2]``, the lower one first; any real dtype.
            target: what happened, ``[N]``.

        Raises:
            InputError: naming the argument. On CUDA, ends in the wrong order and an int64 beyond 2^53 are raised by
                ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        ends, happened, wide, error = self._tables(preds, target)
        if error is None and self._kept(ends, happened, wide):
            return
        low, high = ends.double().unbind(1)
        order = first_error([(low > high, 1)])
        error = order if error is None else torch.minimum(order, error)
        self._keep(interval_numbers(low, high, happened.double(), self.confidence), wide, error)

    def _planner(self) -> Planner:
        return self._planner_by("reduction", "confidence")

    def _scoring(self) -> Scoring:
        return Scoring(COVERAGE, confidence=self.confidence, columns=2)

    def _shaped(self, numbers: Tensor) -> Any:
        return dict(zip(self.names, numbers.unbind(-1)))

    def _describe_error(self, code: int) -> str:
        order = f"preds must hold the lower end first but preds[{value_row(code)}] has the larger number first"
        return describe_rounding(code) or order


def ensemble_scores(members: Tensor, target: Tensor, fair: bool) -> Tensor:
    """Returns the CRPS of each row, float64 ``[N]``.

    Args:
        members: float64 ``[N, M]``.
        target: float64 ``[N]``.
        fair: whether the spread is that of infinitely many members.
    """
    size = members.shape[1]
    errors = (members - target[:, None]).sort(dim=1).values  # less the target, so that no digit of the spread is lost
    places = torch.arange(1 - size, size, 2, dtype=torch.float64, device=members.device)
    spread = row_sums(errors * places) / (size * (size - 1 if fair else size))
    scores = row_sums(errors.abs()) / size - spread
    return scores if fair else scores.clamp(min=0)  # rounding leaves some below 0


def pinball_losses(preds: Tensor, target: Tensor, quantiles: Sequence[float]) -> Tensor:
    """Returns the pinball loss of each row and level, float64 ``[N, Q]``.

    Args:
        preds: float64 ``[N, Q]``.
        target: float64 ``[N]``.
        quantiles: Q levels.
    """
    errors = target[:, None] - preds
    level = constant(np.array(quantiles, np.float64), preds.device)
    return torch.maximum(level * errors, (level - 1) * errors)


def interval_numbers(low: Tensor, high: Tensor, target: Tensor, confidence: float) -> Tensor:
    """Returns whether the target lies inside, the width and the interval score of each row, float64 ``[N, 3]``.

    Args:
        low: float64 ``[N]``.
        high: likewise.
        target: likewise.
        confidence: of the intervals.
    """
    width = high - low
    outside = torch.maximum((low - target).clamp(min=0), (target - high).clamp(min=0))
    inside = torch.where(outside.isnan(), math.nan, ((low <= target) & (target <= high)).double())
    return torch.stack((inside, width, width + 2 / (1 - confidence) * outside), 1)


def levels(name: str, given: float | Sequence[float]) -> tuple[float, ...]:
    """Returns levels of quantiles, checked.

    Args:
        name: of the argument.
        given: one or several.

    Raises:
        InputError: a level is not above 0 and below 1, or there is none.
    """
    check_type(name, given, (int, float, Sequence, np.ndarray, Tensor))
    several = np.atleast_1d(given.tolist() if isinstance(given, Tensor) else given).tolist()  # lists become float64
    if not several:
        raise InputError(f"{name} must hold at least one level but is empty")
    return tuple(_level(name, level) for level in several)


def _level(name: str, level: float) -> float:
    check_number(name, level, 0, 1)
    if level in (0, 1):
        raise InputError(f"{name} must be above 0 and below 1 but got {level}")
    return float(level)
