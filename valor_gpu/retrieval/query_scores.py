"""Scores of every query, and the numbers that are made of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.stats.means import exact_mean

AGGREGATIONS = ("mean", "median", "min", "max")
EMPTY_ACTIONS = ("error", "skip", "neg", "pos")
Aggregation = str | Callable[..., Any]


@dataclass(frozen=True)
class QueryScores:
    """Scores of queries, on the CPU.

    Attributes:
        queries: int64 ``[Q]``, ascending.
        scores: float64 ``[Q]`` or, of curves, ``[Q, K]``; NaN: the query is skipped.
        lacking: bool ``[Q]``: what the measure needs is not among the documents of the query.
        documents: int64 ``[Q]``, how many count.
        relevant: int64 ``[Q]``, how many of them are relevant.
        ignored: documents that were left out, of all queries.
        unjudged: documents without a judgement, of all queries.
    """

    queries: NDArray[np.int64]
    scores: NDArray[np.float64]
    lacking: NDArray[np.bool_]
    documents: NDArray[np.int64]
    relevant: NDArray[np.int64]
    ignored: int
    unjudged: int

    def of(self, places: NDArray[np.int64]) -> QueryScores:
        """Returns the scores of some queries; nobody counts which of their documents were left out.

        Args:
            places: their positions, ascending.
        """
        scores, lacking = self.scores[places], self.lacking[places]
        return QueryScores(self.queries[places], scores, lacking, self.documents[places], self.relevant[places], 0, 0)

    @property
    def kept(self) -> NDArray[np.float64]:
        """The scores of queries that are not skipped, in their order."""
        return self.scores[~np.isnan(self.scores).any(tuple(range(1, self.scores.ndim)))]


def check_aggregation(aggregation: Aggregation) -> None:
    """Raises :class:`InputError` unless ``aggregation`` is a name of :data:`AGGREGATIONS` or a function."""
    if not callable(aggregation) and not (isinstance(aggregation, str) and aggregation in AGGREGATIONS):
        names = ", ".join(map(repr, AGGREGATIONS))
        raise InputError(f"aggregation must be one of {names} or a function of scores but got {aggregation!r}")


def aggregate(values: NDArray[np.float64], aggregation: Aggregation) -> float:
    """The number of scores: the median is the lower of two in the middle, as torch has it.

    Args:
        values: float64 ``[Q]``, at least one.
        aggregation: a name, or a function of a float32 tensor.

    Raises:
        InputError: the function gives several numbers.

    Example:
        >>> aggregate(np.array([0.0, 1.0, 0.5, 0.75]), "median")
        0.5
    """
    if not isinstance(aggregation, str):
        found = torch.as_tensor(aggregation(torch.from_numpy(values).float(), dim=None))
        if found.numel() != 1:
            raise InputError(f"aggregation must give one number for a result but gave shape {list(found.shape)}")
        return found.item()
    if aggregation == "mean":
        return exact_mean(values.tolist())
    middle = {"median": (len(values) - 1) // 2, "min": 0, "max": len(values) - 1}[aggregation]
    return float(np.sort(values)[middle])


def aggregate_columns(values: NDArray[np.float64], aggregation: Aggregation) -> NDArray[np.float64]:
    """The numbers of curves ``[Q, K]``, float64 ``[K]``."""
    if not isinstance(aggregation, str):
        found = torch.as_tensor(aggregation(torch.from_numpy(values).float(), dim=0))
        return np.asarray(found.double().numpy())
    if aggregation == "mean":
        return np.array([exact_mean(column) for column in values.T.tolist()], np.float64)
    middle = {"median": (len(values) - 1) // 2, "min": 0, "max": len(values) - 1}[aggregation]
    return np.asarray(np.sort(values, axis=0)[middle])


def range_of_aggregate(aggregation: Aggregation, largest: float) -> tuple[float, float]:
    """The least and the largest aggregate of scores from 0 to ``largest``; a function may give any number."""
    return (0.0, largest) if isinstance(aggregation, str) else (-math.inf, math.inf)


def standard_error(values: NDArray[np.float64]) -> float:
    """The standard error of the mean, NaN below two scores."""
    return float(np.sort(values).std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def as_number(number: float, device: torch.device) -> Tensor:
    """A number as float32 ``[]`` on ``device``."""
    return torch.scalar_tensor(number, dtype=torch.float32).to(device)
