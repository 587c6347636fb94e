"""Base classes of the metrics of texts: means of scores of rows, and numbers of a corpus."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.computed import gives_own_memory
from valor_gpu.metric import Metric
from valor_gpu.plans import Planner, Step
from valor_gpu.result import Result, Signature
from valor_gpu.state import ROUNDING, State, check_elements, joined
from valor_gpu.stats.row_samples import RowSample
from valor_gpu.text.tokens import as_list

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions
    from valor_gpu.stats.intervals import Bootstrap

Texts = Sequence[str]
References = Sequence[str | Sequence[str]]
NO_ROWS = "no row was added"


@dataclass(frozen=True)
class RowScores(State):
    """Scores of every row.

    Attributes:
        scores: float64 ``[N, M]``, M scores per row.
    """

    scores: Tensor = joined()
    hashed: ClassVar[str | None] = "rows"
    row_fields: ClassVar[tuple[str, ...]] = ("scores",)

    def check(self, rule: None) -> None:
        """Raises :class:`InputError` unless every score lies between 0 and 1."""
        check_elements("scores", self.scores, (self.scores >= 0) & (self.scores <= 1 + ROUNDING), "be from 0 to 1")


def as_rows(preds: Any, target: Any) -> tuple[Any, Any]:
    """Rows of texts: a text alone is one row, whose references are one text or the texts of a list.

    Arrays and columns of tables become lists; tensors, which are embeddings, stay.
    """
    preds, target = (value if isinstance(value, Tensor) else as_list(value) for value in (preds, target))
    if isinstance(preds, str):
        listed = isinstance(target, Sequence) and len(target) == 1 and isinstance(target[0], (list, tuple))
        return [preds], target if listed else [target]
    return preds, [target] if isinstance(target, str) else target


def numbers_as_tensors(numbers: Mapping[str, float], device: torch.device) -> dict[str, Tensor]:
    """Numbers by name as float64 ``[]`` on ``device``, by one copy."""
    if device.type == "cpu":
        return {name: torch.scalar_tensor(number, dtype=torch.float64) for name, number in numbers.items()}
    return dict(zip(numbers, torch.tensor([*numbers.values()], dtype=torch.float64).to(device).unbind()))


def number_as_tensor(number: float, device: torch.device) -> Tensor:
    """A number as float64 ``[]`` on ``device``."""
    return torch.scalar_tensor(number, dtype=torch.float64).to(device)


class RowMetric(Metric[RowScores]):
    """Base of the metrics that are means of scores of rows; a subclass gives ``names`` and ``_scores``.

    The mean is taken over sorted scores, so that no split, order or number of ranks changes a bit.

    Args:
        config: the choices that scores depend on, by name.
        kwargs: keyword arguments of :class:`valor_gpu.metric.Metric`.
    """

    higher_is_better = True
    plot_lower_bound = 0.0
    plot_upper_bound: float | None = 1.0  # type: ignore[assignment]
    _takes_lists = True
    names: tuple[str, ...]
    _rows_kind: type[RowScores] = RowScores

    def __init__(self, config: Mapping[str, Any], **kwargs: Unpack[MetricOptions]) -> None:
        self._choices = dict(config)
        super().__init__(
            self._rows_kind(torch.zeros((0, len(self.names)), dtype=torch.float64)), self._choices, **kwargs
        )

    @abstractmethod
    def _scores(self, preds: Texts, target: References) -> NDArray[np.float64]:
        """float64 ``[N, M]``."""

    def update(self, preds: str | Texts, target: str | References) -> None:
        """Scores rows and keeps their scores.

        Args:
            preds: one text per row; a text alone is one row.
            target: for each row one text or several.

        Raises:
            InputError: a row is not text, or the lengths differ.
        """
        self._add(self._rows_kind(self._rows(preds, target).to(self.error.device, non_blocking=True)))

    def _rows(self, preds: str | Texts, target: str | References) -> Tensor:
        return torch.from_numpy(self._scores(*as_rows(preds, target)).reshape(-1, len(self.names)))

    def _planner(self) -> Planner:
        def step(base: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step | None:
            return None if kwargs or len(args) != 2 else Step({}, (("scores", self._rows(*args)),))

        return step

    def _means(self, scores: Tensor) -> list[float]:
        """Mean of every score, NaN of none."""
        table = scores.cpu().numpy()
        if len(table) <= 1:
            return list(table[0].tolist()) if len(table) else [math.nan] * len(self.names)
        return list(np.sort(table, axis=0).mean(0).tolist())

    def _errors(self, scores: Tensor) -> list[float]:
        """Standard error of every mean, NaN below two rows."""
        table = np.sort(scores.cpu().numpy(), axis=0)
        none = np.full(len(self.names), np.nan)
        return list((table.std(0, ddof=1) / np.sqrt(len(table)) if len(table) > 1 else none).tolist())

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns means with their standard errors (``<name>_stderr``, NaN below two rows) and the number of rows.

        Args:
            intervals: replicates of a bootstrap of rows, or its choices: every mean gets an interval.
        """
        with self.synced_state() as state:
            result = self._result_of(state.scores)
        return result if intervals is None else result.with_intervals(intervals)

    def _sample(self, scores: Tensor) -> RowSample:
        """What the means are resampled from."""
        return RowSample(dict(zip(self.names, scores.cpu().numpy().T)))

    def _result_of(self, scores: Tensor) -> Result:
        means, errors, rows = self._means(scores), self._errors(scores), len(scores)
        values = dict(zip(self.names, means))
        values |= {f"{name}_stderr": error for name, error in zip(self.names, errors)}
        reasons = dict.fromkeys((f"{name}_stderr" for name in self.names), "fewer than two rows") if rows < 2 else {}
        reasons |= dict.fromkeys(self.names, NO_ROWS) if not rows else {}
        return Result(values, self._signature(), {"rows": rows}, reasons, state=lambda: self._sample(scores))

    def _signature(self) -> Signature:
        return Signature({"metric": type(self).__name__, **self._choices})


class NamedMeans(RowMetric):
    """Base of the means of several scores."""

    @gives_own_memory
    def compute(self) -> dict[str, Tensor]:
        """Returns the mean of every score by name, float64 ``[]``; NaN without a row."""
        return numbers_as_tensors(dict(zip(self.names, self._means(self.state().scores))), self.error.device)


class OneMean(RowMetric):
    """Base of the mean of one score."""

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the mean, float64 ``[]``; NaN without a row."""
        return number_as_tensor(self._means(self.state().scores)[0], self.error.device)
