"""Definitions in plain torch of the ops in :mod:`valor_gpu.ops.queries.op`.

Numbers of float64 that are no whole numbers are added by rank: ``index_add_`` of CPU tensors does so.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.ops.error_codes import NAN_SCORE, first_error
from valor_gpu.ops.queries.types import (
    BAD_GRADE,
    EXPONENTIAL,
    LARGEST_GRADE,
    MEASURES,
    NO_DOCUMENTS,
    NO_IRRELEVANT,
    NO_RELEVANT,
    ONE_CLASS,
    Choices,
    rank_table,
)

_NAMES = {number: name for name, number in MEASURES.items() if name != "success"}
_NEEDS_RELEVANT = frozenset(
    MEASURES[name] for name in MEASURES if name not in ("fall_out", "dcg", "dcg_exp", "err", "judged", "holes", "rbp")
)


def query_order(indexes: Tensor, preds: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """See :func:`valor_gpu.ops.queries.op.query_order`."""
    order = (preds.double() + 0.0).argsort(descending=True, stable=True)  # -0.0 becomes 0.0
    order = order[indexes[order].argsort(stable=True)]
    queries, counts = indexes[order].long().unique_consecutive(return_counts=True)
    offsets = torch.cat((counts.new_zeros(1), counts.cumsum(0)))
    return order, queries, offsets, first_error([(preds.isnan(), NAN_SCORE)])


def query_hits(order: Tensor, offsets: Tensor, target: Tensor, max_k: int) -> tuple[Tensor, Tensor]:
    """See :func:`valor_gpu.ops.queries.op.query_hits`."""
    docs = _Documents.of(order, offsets, None, target)
    inside = docs.relevant & (docs.rank < max_k)
    hits = order.new_zeros((len(docs.sizes), max_k))
    hits[docs.query[inside], docs.rank[inside]] = 1
    return hits.cumsum(1).int(), docs.number(docs.relevant)


def query_scores(
    measure: int, order: Tensor, offsets: Tensor, preds: Tensor, target: Tensor, top_k: int, parameter: float,
    above: float, adaptive_k: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """See :func:`valor_gpu.ops.queries.op.query_scores`."""
    choices = Choices(measure, top_k, parameter, above, adaptive_k)
    docs = _Documents.of(order, offsets, preds, target).cut(choices)
    scores = _SCORES[_NAMES[measure]](docs, choices)
    status = _status(docs, choices)
    return torch.where(status == 0, scores, torch.nan), status


class _Documents(NamedTuple):
    """Documents of all queries by rank.

    Attributes:
        query: int64 ``[M]``, the query of each document.
        rank: int64 ``[M]``, from 0.
        score: float64 ``[M]``, or empty.
        grade: float64 ``[M]``.
        relevant: bool ``[M]``.
        sizes: int64 ``[Q]``.
        limits: int64 ``[Q]``, the documents that count: retrieved and within top_k.
        inside: bool ``[M]``, whether each counts.
    """

    query: Tensor
    rank: Tensor
    score: Tensor
    grade: Tensor
    relevant: Tensor
    sizes: Tensor
    limits: Tensor
    inside: Tensor

    @classmethod
    def of(cls, order: Tensor, offsets: Tensor, preds: Tensor | None, target: Tensor) -> _Documents:
        """Gathers the documents that ``offsets`` span, all of which count."""
        sizes = offsets.diff()
        query = torch.arange(len(sizes), device=order.device).repeat_interleave(sizes)
        rank = torch.arange(len(query), device=order.device) - (offsets[:-1] - offsets[:1])[query]
        rows = order[offsets[0] : offsets[-1]]
        grade = target[rows].double()
        score = grade.new_empty(0) if preds is None else preds[rows].double()
        return cls(query, rank, score, grade, grade > 0, sizes, sizes, torch.ones_like(query, dtype=torch.bool))

    def cut(self, choices: Choices) -> _Documents:
        """Leaves documents out that are not retrieved or lie below ``top_k``."""
        retrieved = self.number(~(self.score <= choices.above))
        limits = retrieved.clamp(max=choices.top_k) if choices.top_k else retrieved
        return self._replace(limits=limits, inside=self.rank < limits[self.query])

    def number(self, chosen: Tensor) -> Tensor:
        """Number of chosen documents of each query, int64 ``[Q]``."""
        return torch.zeros_like(self.sizes).index_add_(0, self.query[chosen], torch.ones_like(self.query[chosen]))

    def add(self, terms: Tensor, chosen: Tensor) -> Tensor:
        """Sum of chosen terms of each query by rank, float64 ``[Q]``."""
        sums = torch.zeros_like(self.sizes, dtype=torch.float64)
        return sums.index_add_(0, self.query[chosen], terms[chosen])

    def before(self, chosen: Tensor) -> Tensor:
        """Number of chosen documents above each document of its query, int64 ``[M]``."""
        numbers = chosen.long()
        running = numbers.cumsum(0) - numbers
        return running - running[(self.sizes.cumsum(0) - self.sizes)[self.query]] if len(running) else running

    def ties(self) -> tuple[Tensor, Tensor]:
        """Groups of documents of a query with equal score: the group of each document ``[M]``, where each begins."""
        first = torch.ones_like(self.relevant)
        first[1:] = (self.score[1:] != self.score[:-1]) | (self.rank[1:] == 0)
        return first.cumsum(0) - 1, first.nonzero()[:, 0]


def _status(docs: _Documents, choices: Choices) -> Tensor:
    """int8 ``[Q]``; of several reasons the one of the largest number, but NO_DOCUMENTS before all."""
    status = torch.zeros_like(docs.sizes, dtype=torch.int8)
    relevant, name = docs.number(docs.relevant), _NAMES[choices.measure]
    if name in ("auroc", "fall_out"):
        status[relevant == docs.sizes] = NO_IRRELEVANT
    if name == "auroc":
        within = docs.number(docs.relevant & docs.inside)
        status[(status == 0) & ((within == 0) | (within == docs.limits))] = ONE_CLASS
    if choices.measure in _NEEDS_RELEVANT:
        status[relevant == 0] = NO_RELEVANT
    if choices.measure in EXPONENTIAL:
        largest = choices.parameter if name == "err" else LARGEST_GRADE
        bad = docs.relevant & ((docs.grade != docs.grade.floor()) | (docs.grade > largest))
        status[docs.number(bad) > 0] = BAD_GRADE
    if name == "judged":
        status[docs.limits == 0] = NO_DOCUMENTS
    status[docs.sizes == 0] = NO_DOCUMENTS
    return status


# -------------------------------------------------------------------------------------------- counts of documents


def _hits(docs: _Documents) -> Tensor:
    return docs.number(docs.relevant & docs.inside)


def _precision(docs: _Documents, choices: Choices) -> Tensor:
    if choices.top_k == 0:
        return _hits(docs).double() / docs.sizes.double()
    sizes = torch.full_like(docs.sizes, choices.top_k)
    return _hits(docs).double() / (sizes.minimum(docs.sizes) if choices.adaptive_k else sizes).double()


def _recall(docs: _Documents, choices: Choices) -> Tensor:
    return _hits(docs).double() / docs.number(docs.relevant).double()


def _hit_rate(docs: _Documents, choices: Choices) -> Tensor:
    return (_hits(docs) > 0).double()


def _fall_out(docs: _Documents, choices: Choices) -> Tensor:
    return docs.number(~docs.relevant & docs.inside).double() / docs.number(~docs.relevant).double()


def _r_precision(docs: _Documents, choices: Choices) -> Tensor:
    relevant = docs.number(docs.relevant)
    return docs.number(docs.relevant & docs.inside & (docs.rank < relevant[docs.query])).double() / relevant.double()


def _reciprocal_rank(docs: _Documents, choices: Choices) -> Tensor:
    first = docs.relevant & docs.inside & (docs.before(docs.relevant) == 0)
    return docs.add(1.0 / (docs.rank + 1).double(), first)


def _judged(docs: _Documents, choices: Choices) -> Tensor:
    return docs.number(~(docs.grade < 0) & docs.inside).double() / docs.limits.double()


def _holes(docs: _Documents, choices: Choices) -> Tensor:
    return docs.number((docs.grade < 0) & docs.inside).double()


# ------------------------------------------------------------------------------------------------ sums over ranks


def _precisions(docs: _Documents) -> Tensor:
    """Sum of the precision at each relevant document that counts."""
    terms = (docs.before(docs.relevant) + 1).double() / (docs.rank + 1).double()
    return docs.add(terms, docs.relevant & docs.inside)


def _average_precision(docs: _Documents, choices: Choices) -> Tensor:
    hits = _hits(docs)
    return torch.where(hits > 0, _precisions(docs) / hits.double(), 0.0)


def _trec_average_precision(docs: _Documents, choices: Choices) -> Tensor:
    return _precisions(docs) / docs.number(docs.relevant).double()


def _gains(docs: _Documents, choices: Choices) -> Tensor:
    """Gain of each document, 0 where it is not relevant."""
    gain = docs.grade
    if choices.measure in EXPONENTIAL:
        whole = gain.clamp(0, LARGEST_GRADE).long()
        gain = (whole + 1023 << 52).view(torch.float64) - 1.0  # the bits of a power of 2, which pow() may miss
    return torch.where(docs.relevant, gain, 0.0)


def _dcg(docs: _Documents, choices: Choices) -> Tensor:
    gains, (group, starts) = _gains(docs, choices), docs.ties()
    sums, counts = torch.zeros((2, len(starts)), dtype=torch.float64, device=group.device)
    sums.index_add_(0, group, gains)
    counts.index_add_(0, group, torch.ones_like(gains))
    return docs.add((sums / counts)[group] * _weights(docs, choices), docs.inside)


def _ndcg(docs: _Documents, choices: Choices) -> Tensor:
    gains = _gains(docs, choices)
    best = gains.argsort(descending=True, stable=True)
    best = best[docs.query[best].argsort(stable=True)]
    limits = docs.sizes.clamp(max=choices.top_k) if choices.top_k else docs.sizes
    ideal = docs.add(gains[best] * _weights(docs, choices), docs.rank < limits[docs.query])
    return (_dcg(docs, choices) / ideal).clamp(max=1.0)  # rounding of means over ties can pass it


def _err(docs: _Documents, choices: Choices) -> Tensor:
    stops = _gains(docs, choices) / 2.0**choices.parameter
    parts = stops.split(docs.sizes.tolist())
    reached = [torch.cat((part.new_ones(1), 1.0 - part)).cumprod(0)[:-1] for part in parts]
    terms = torch.cat([stops[:0], *reached]) * stops / (docs.rank + 1).double()
    return docs.add(terms, docs.inside)


def _rbp(docs: _Documents, choices: Choices) -> Tensor:
    return docs.add(_weights(docs, choices), docs.relevant & docs.inside) * (1.0 - choices.parameter)


def _bpref(docs: _Documents, choices: Choices) -> Tensor:
    irrelevant = docs.grade == 0
    relevant = docs.number(docs.relevant)
    most = relevant.minimum(docs.number(irrelevant))
    above = docs.before(irrelevant).minimum(relevant[docs.query])
    terms = torch.where(above == 0, 1.0, 1.0 - above.double() / most[docs.query].double())
    return docs.add(terms, docs.relevant & docs.inside) / relevant.double()


def _weights(docs: _Documents, choices: Choices) -> Tensor:
    """Weight of each document by its rank; below ``top_k`` it means nothing."""
    longest = int(docs.sizes.max()) if len(docs.sizes) else 0
    table = rank_table(choices, longest)
    return torch.tensor(table, device=docs.grade.device)[docs.rank.clamp(max=len(table) - 1)]


# --------------------------------------------------------------------------------------------------------- AUROC


def _auroc(docs: _Documents, choices: Choices) -> Tensor:
    """Areas under steps from group to group of equal scores: whole numbers, but for the last step of a part."""
    group, starts = docs.ties()
    query = docs.query[starts]
    sides = [docs.relevant & docs.inside, ~docs.relevant & docs.inside]
    tp, fp = (docs.before(side)[starts] for side in sides)
    more_tp, more_fp = (torch.zeros_like(starts).index_add_(0, group, side.long()) for side in sides)
    positives, negatives = (docs.number(side) for side in sides)
    end = negatives.double() * choices.parameter
    whole = (fp + more_fp).double() <= end[query]
    area = torch.zeros_like(negatives).index_add_(0, query[whole], (more_fp * (2 * tp + more_tp))[whole])
    last = ~whole & (fp.double() <= end[query])
    width = end[query] - fp.double()
    height = tp.double() + more_tp.double() * width / more_fp.double()
    part = torch.zeros_like(end).index_add_(0, query[last], (width * (tp.double() + height))[last])
    found = (area.double() + part) / (2 * positives * negatives).double()
    if choices.parameter == 1.0:
        return found
    least = 0.5 * choices.parameter * choices.parameter
    return 0.5 * (1.0 + (found - least) / (choices.parameter - least))


_SCORES = {
    "precision": _precision, "recall": _recall, "hit_rate": _hit_rate, "average_precision": _average_precision,
    "trec_average_precision": _trec_average_precision, "reciprocal_rank": _reciprocal_rank, "fall_out": _fall_out,
    "r_precision": _r_precision, "ndcg": _ndcg, "ndcg_exp": _ndcg, "dcg": _dcg, "dcg_exp": _dcg, "err": _err,
    "auroc": _auroc, "judged": _judged, "holes": _holes, "bpref": _bpref, "rbp": _rbp,
}  # fmt: skip
