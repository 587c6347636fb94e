"""Ranked documents beside judgements: one row for each document of each query. Imports no torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.inputs.rankings import DocumentRows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TIES = ("document", "file")
"""How documents of equal scores are ranked: by descending id, as trec_eval does, or in the order of the file."""
UNJUDGED = -1.0
"""The grade of a document that nobody judged; every grade below 0 means it."""


@frozen
class RankedLists:
    """Documents of the judged queries, those that were retrieved first, in the order of their ranks.

    Attributes:
        indexes: int64 ``[N]``, the query of each document, its place in the file of judgements.
        preds: float64 ``[N]``, falling along the ranks, no two equal.
        target: float64 ``[N]``, grades, :data:`UNJUDGED` where there is none.
        retrieved: bool ``[N]``, False for judged documents that the run lacks.
        queries: of the judgements, whether each has retrieved documents: bool ``[Q]``.
        unknown_queries: queries of the run that have no judgements; their documents are left out.
    """

    indexes: Ints
    preds: Floats
    target: Floats
    retrieved: NDArray[np.bool_]
    queries: NDArray[np.bool_]
    unknown_queries: int

    @property
    def documents(self) -> int:
        """How many documents were retrieved for judged queries."""
        return int(self.retrieved.sum())

    @property
    def judged_documents(self) -> int:
        """How many of them are judged."""
        return int((self.target[self.retrieved] >= 0).sum())


class Judgements:
    """Judgements that runs are looked up in.

    Args:
        rows: of :func:`valor_gpu.inputs.rankings.read_judgements`.
    """

    def __init__(self, rows: DocumentRows) -> None:
        self.rows = rows
        self._grades = np.where(rows.numbers < 0, UNJUDGED, rows.numbers)
        keys = self._keys(rows.query, rows.document)
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    @property
    def queries(self) -> tuple[str, ...]:
        """Ids of the queries in the order of the file."""
        return tuple(self.rows.queries)

    @cached_property
    def has_relevant(self) -> NDArray[np.bool_]:
        """Bool ``[Q]``: whether a query has a document of a grade above 0."""
        found = np.zeros(len(self.rows.queries), bool)
        found[self.rows.query[self._grades > 0]] = True
        return found

    def marks(self) -> NDArray[np.uint64]:
        """Returns a hash of the judgements of each query, uint64 ``[Q]``, whatever their order."""
        found = [0] * len(self.rows.queries)
        ids, grades = self.rows.documents, self._grades.tolist()
        for query, document, grade in zip(self.rows.query.tolist(), self.rows.document.tolist(), grades):
            digest = hashlib.blake2b(f"{grade:g} {ids[document]}".encode(errors="surrogatepass"), digest_size=8)
            found[query] = (found[query] + int.from_bytes(digest.digest(), "little")) % 2**64
        return np.array(found, np.uint64)

    def lists(self, run: DocumentRows, ties: str = "document") -> RankedLists:
        """Returns the documents of a run with their grades, and after them the judged ones that it lacks.

        Args:
            run: of :func:`valor_gpu.inputs.rankings.read_run`.
            ties: one of :data:`TIES`.
        """
        query = _places(run.queries, self.rows.queries)[run.query]
        kept = np.flatnonzero(query >= 0)
        order = kept[_ranked(query[kept], run.numbers[kept], run, kept if ties == "document" else None)]
        query, document = query[order], _places(run.documents, self.rows.documents)[run.document[order]]
        rows = self._rows_of(query, document)
        target = np.where(rows >= 0, self._grades[rows], UNJUDGED) if len(self._grades) else np.empty(0)
        lacking = np.ones(len(self.rows), bool)
        lacking[rows[rows >= 0]] = False
        there = np.zeros(len(self.rows.queries), bool)
        there[query] = True
        unknown = len(np.unique(run.query)) - int(there.sum())
        count = len(order)
        return RankedLists(
            np.concatenate((query, self.rows.query[lacking])),
            np.arange(count + int(lacking.sum()), 0, -1, dtype=np.float64),
            np.concatenate((target, self._grades[lacking])),
            np.arange(count + int(lacking.sum())) < count,
            there,
            unknown,
        )

    def _keys(self, query: Ints, document: Ints) -> Ints:
        """A number for each pair of query and document."""
        keys: Ints = query * max(len(self.rows.documents), 1) + document
        return keys

    def _rows_of(self, query: Ints, document: Ints) -> Ints:
        """The judgement of each document, -1 where there is none."""
        keys = self._keys(query, document)
        places = np.minimum(np.searchsorted(self._sorted, keys), max(len(self._sorted) - 1, 0))
        if not len(self._sorted):
            return np.full(len(query), -1, np.int64)
        return np.where((document >= 0) & (self._sorted[places] == keys), self._order[places], -1)


def _places(ids: Sequence[str], known: Sequence[str]) -> Ints:
    """The place of each id among those known, -1 where it is none of them."""
    places = {each: place for place, each in enumerate(known)}
    return np.fromiter(map(places.get, ids, repeat(-1)), np.int64, len(ids))


def _ranked(query: Ints, scores: Floats, run: DocumentRows, rows: Ints | None) -> Ints:
    """The order of documents by query and descending score.

    Args:
        query: int64 ``[N]``.
        scores: float64 ``[N]``.
        run: whose ids decide between equal scores, the last in the order of code points first.
        rows: int64 ``[N]``, the row of the run of each document; None: equal scores stay in their order.
    """
    later = (query[1:] > query[:-1]) | ((query[1:] == query[:-1]) & (scores[1:] <= scores[:-1]))
    order = np.arange(len(query)) if later.all() else np.lexsort((-scores, query))
    if rows is None or len(order) < 2:
        return order
    same = (query[order[1:]] == query[order[:-1]]) & (scores[order[1:]] == scores[order[:-1]])
    tied = np.zeros(len(order), bool)
    tied[1:] |= same
    tied[:-1] |= same
    where = np.flatnonzero(tied)
    if not len(where):
        return order
    group = np.cumsum(~np.concatenate(([False], same)))[where]
    codes, document = np.unique(run.document[rows[order[where]]], return_inverse=True)
    texts = [run.documents[code] for code in codes.tolist()]
    ranks = np.empty(len(texts), np.int64)
    ranks[np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)] = np.arange(len(texts))
    order[where] = order[where][np.lexsort((-ranks[document], group))]
    return order
