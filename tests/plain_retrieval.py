"""Measures of ranked documents in plain Python, one query at a time, by the definitions of trec_eval and the papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from valor_gpu.retrieval.measures import Measure, parse_measures
from valor_gpu.retrieval.tables import QueryTable


def plain_score(measure: Measure, grades: Sequence[float], judged: Sequence[float], largest: float) -> float:
    """A measure of the documents of a query.

    Args:
        measure: the measure.
        grades: of the retrieved documents, the best rank first; below 0: unjudged.
        judged: all grades of the query, in any order.
        largest: grade of all queries.
    """
    top = grades[: measure.cutoff] if measure.cutoff else grades
    hits = [grade >= measure.rel for grade in top]
    relevant = sum(grade >= measure.rel for grade in judged)
    return float(_KINDS[measure.kind](measure, list(grades), top, hits, relevant, list(judged), largest))


def _average_precision(measure: Any, grades: Any, top: Any, hits: Any, relevant: int, *_: Any) -> float:
    precisions = [sum(hits[: place + 1]) / (place + 1) for place, hit in enumerate(hits) if hit]
    return sum(precisions) / relevant if relevant else 0.0


def _gain(measure: Any, grade: float) -> float:
    return (2.0**grade - 1 if measure.exponential else grade) if grade > 0 else 0.0


def _dcg(measure: Any, top: Sequence[float]) -> float:
    return sum(_gain(measure, grade) / math.log2(place + 2) for place, grade in enumerate(top))


def _ndcg(measure: Any, grades: Any, top: Any, hits: Any, relevant: int, judged: Any, largest: float) -> float:
    best = sorted(judged, reverse=True)
    ideal = _dcg(measure, best[: measure.cutoff] if measure.cutoff else best)
    return _dcg(measure, top) / ideal if ideal else 0.0


def _err(measure: Any, grades: Any, top: Any, hits: Any, relevant: int, judged: Any, largest: float) -> float:
    found, left = 0.0, 1.0
    for place, grade in enumerate(top):
        chance = (2.0 ** max(grade, 0.0) - 1) / 2.0 ** (measure.parameter or largest)
        found += left * chance / (place + 1)
        left *= 1 - chance
    return found


def _bpref(measure: Any, grades: Any, top: Any, hits: Any, relevant: int, judged: Any, largest: float) -> float:
    others = sum(0 <= grade < measure.rel for grade in judged)
    found, above = 0.0, 0
    for grade in grades:
        if grade >= measure.rel:
            found += 1 - min(above, relevant) / min(relevant, others) if above else 1.0
        elif grade >= 0:
            above += 1
    return found / relevant if relevant else 0.0


_KINDS: dict[str, Callable[..., float]] = {
    "precision": lambda m, g, top, hits, *_: sum(hits) / m.cutoff,
    "recall": lambda m, g, top, hits, relevant, *_: sum(hits) / relevant if relevant else 0.0,
    "success": lambda m, g, top, hits, *_: float(any(hits)),
    "reciprocal_rank": lambda m, g, top, hits, *_: 1 / (hits.index(True) + 1) if any(hits) else 0.0,
    "r_precision": lambda m, g, top, hits, relevant, *_: sum(hits[:relevant]) / relevant if relevant else 0.0,
    "average_precision": _average_precision,
    "ndcg": _ndcg,
    "dcg": lambda m, g, top, *_: _dcg(m, top),
    "err": _err,
    "rbp": lambda m, g, top, hits, *_: sum(h * (1 - m.parameter) * m.parameter**k for k, h in enumerate(hits)),
    "bpref": _bpref,
    "judged": lambda m, g, top, *_: sum(grade >= 0 for grade in top) / len(top) if top else 0.0,
    "holes": lambda m, g, top, *_: sum(grade < 0 for grade in top),
}


def plain_table(indexes: Any, preds: Any, target: Any, measures: Sequence[str], *, retrieved: Any = None) -> QueryTable:
    """What :func:`valor_gpu.retrieval.tables.query_table` gives."""
    parsed, queries = parse_measures(measures), sorted(set(indexes.tolist()))
    retrieved = np.ones(len(indexes), bool) if retrieved is None else retrieved
    columns = {measure.name: np.empty(len(queries)) for measure in parsed}
    for place, query in enumerate(queries):
        rows = np.flatnonzero(indexes == query)
        there = [row for row in rows.tolist() if retrieved[row]]
        grades = [float(target[row]) for row in sorted(there, key=lambda row: -preds[row])]
        judged = [float(grade) for grade in target[rows] if grade >= 0]
        for measure in parsed:
            columns[measure.name][place] = plain_score(measure, grades, judged, max(1.0, float(target.max())))
    return QueryTable(np.array(queries, np.int64), columns)
