"""Documents of a state in the order of their ranks, and scores of their queries."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import raise_error
from valor_gpu.ops.queries.op import query_hits, query_order, query_scores
from valor_gpu.ops.queries.types import (
    BAD_GRADE,
    EXPONENTIAL,
    MEASURES,
    NO_IRRELEVANT,
    ONE_CLASS,
    describe_order,
)
from valor_gpu.retrieval.plans import narrowed

if TYPE_CHECKING:
    from valor_gpu.inputs.documents import DocumentRule
    from valor_gpu.retrieval.documents import Documents

_OF_TWO_KINDS = ("auroc", "fall_out")
"""Measures that need relevant and irrelevant documents."""


@dataclass(frozen=True)
class Ranking:
    """Ranked documents of queries.

    Attributes:
        order: int64 ``[N]`` rows, those of a query together, by their ranks.
        queries: int64 ``[Q]``, ascending.
        offsets: int64 ``[Q + 1]``: where the documents of each query begin and end in ``order``.
        preds: ``[N]``, the scores.
        target: float64 or int8 ``[N]``, -1 of unjudged documents.
        ignored: documents that were left out.
        unjudged: documents that have no judgement.
    """

    order: Tensor
    queries: Tensor
    offsets: Tensor
    preds: Tensor
    target: Tensor
    ignored: int
    unjudged: int

    @property
    def lengths(self) -> Tensor:
        """int64 ``[Q]``, the documents of each query."""
        return self.offsets.diff()

    @functools.cached_property
    def relevant(self) -> Tensor:
        """int64 ``[Q]``, the relevant documents of each query."""
        relevant: Tensor = query_hits(self.order, self.offsets, self.target, 1).relevant
        return relevant

    @property
    def highest(self) -> float:
        """The largest grade; 0 without documents."""
        return float(self.target.amax().clamp(min=0)) if len(self.target) else 0.0

    def with_relevance(self, level: float | None) -> Ranking:
        """The ranking with targets 0 and 1, from grades of which those of at least ``level`` are relevant."""
        if level is None:
            return self
        judged = self.target >= math.ceil(level) if self.target.dtype == torch.int8 else self.target >= level
        return replace(self, target=torch.where(self.target < 0, self.target, judged.to(self.target.dtype)))

    def hits(self, largest: int) -> Tensor:
        """int32 ``[Q, largest]``: relevant documents among the first k of each query, for every k from 1 on."""
        hits: Tensor = query_hits(self.order, self.offsets, self.target, largest).hits
        return hits

    def scores(
        self,
        measure: str,
        top_k: int | None = None,
        parameter: float | None = None,
        above: float | None = None,
        adaptive_k: bool = False,
    ) -> Tensor:
        """float64 ``[Q]``, NaN of queries that lack what the measure needs; see :func:`query_scores` of the op.

        A query whose documents are of one kind has an area of 0, as in torchmetrics.

        Raises:
            InputError: a grade has no exponential gain.
        """
        ranked = (self.order, self.offsets, self.preds, self.target)
        found = query_scores(measure, *ranked, top_k or 0, parameter, above=above, adaptive_k=adaptive_k)
        # Only measures that can have a status look at it: on CUDA the host would wait.
        if MEASURES[measure] in EXPONENTIAL and bool((found.status == BAD_GRADE).any()):
            raise InputError("grades must be whole numbers from 0 to 1023 where a grade g gains 2^g - 1")
        scores: Tensor = found.scores
        if measure in _OF_TWO_KINDS:
            one_kind = (found.status == ONE_CLASS) | (found.status == NO_IRRELEVANT)
            scores = torch.where(one_kind, 0.0, scores)
        return scores


def ranking_of(parts: Sequence[Tensor], state: Callable[[], Documents], rule: DocumentRule) -> Ranking:
    """The ranking of a state; metrics that share their state in a collection share it, one after another.

    Args:
        parts: all tensors that the metric holds of its state.
        state: gives the state.
        rule: of the targets.

    Raises:
        InputError: a score is NaN.
    """
    held = _Last.of(parts)
    if held is None:
        held = _ranked(state(), rule)
        _Last.keep(parts, held)
    return held


def _ranked(state: Documents, rule: DocumentRule) -> Ranking:
    indexes, preds, target = state.indexes, state.preds, state.target
    ignored = 0 if rule.ignore_index is None else int(target.isnan().sum())
    if ignored:
        counted = ~target.isnan()
        indexes, preds, target = indexes[counted], preds[counted], target[counted]
    preds, target = narrowed(preds, target)
    unjudged = 0 if rule.unjudged_index is None else int((target < 0).sum())
    order = query_order(indexes, preds)
    raise_error(order.error, describe_order)
    return Ranking(order.order, order.queries, order.offsets, preds, target, ignored, unjudged)


class _Last(NamedTuple):
    """The ranking of the last state, for as long as all of its tensors are there."""

    parts: tuple[weakref.ref[Tensor], ...]
    ranking: Ranking

    @classmethod
    def of(cls, parts: Sequence[Tensor]) -> Ranking | None:
        """The ranking of these very tensors, if it is there."""
        last = _kept.last  # once: another thread may replace it
        if last is None or len(last.parts) != len(parts) or not parts:
            return None
        return last.ranking if all(kept() is part for kept, part in zip(last.parts, parts)) else None

    @classmethod
    def keep(cls, parts: Sequence[Tensor], ranking: Ranking) -> None:
        """Keeps it in the place of the one before."""
        _kept.last = cls(tuple(weakref.ref(part, _forget) for part in parts), ranking)


class _Kept:
    last: _Last | None = None


_kept = _Kept()


def _forget(gone: weakref.ref[Tensor]) -> None:
    """Lets the ranking go with the first tensor of its state."""
    last = _kept.last
    if last is not None and any(gone is part for part in last.parts):
        _kept.last = None
