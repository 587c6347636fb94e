"""Documents of queries for ``query_order``, ``query_scores`` and ``query_hits``: ragged, shuffled, with ties."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing.datasets import BoxDataset
from testing.examples_ranks import FLOATS, scores
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.queries import reference
from valor_gpu.ops.queries.types import MEASURES

Arguments = tuple[Any, ...]
Documents = tuple[Tensor, Tensor, Tensor]
"""Indexes, scores and grades."""

SIZES = (0, 1, 31, 33, 1000)
INDEX_RANGES = {
    "near": (0, 9),
    "negative": (-4, 5),
    "far": (-(2**62), 2**62),
    "32 bits": (5 - 2**31, 2**31 - 5),
    "farthest": (-(2**63), 2**63 - 1),
}
PARAMETERS = {"err": 4.0, "auroc": 1.0, "rbp": 0.8}


def indexes(rng: np.random.Generator, rows: int, queries: int = 9, kind: str = "near") -> Tensor:
    """``[rows]``: ``queries`` values between the ends of a range, which occur if there are rows enough."""
    low, high = INDEX_RANGES[kind]
    values = np.array([low, high, *rng.integers(low, high, max(queries - 2, 0), endpoint=True).tolist()])[:queries]
    return torch.from_numpy(values[rng.integers(0, queries, rows)])


def grades(rng: np.random.Generator, rows: int, unjudged: float = 0.2) -> Tensor:
    """``[rows]`` from 0 to 4, half of them 0, and -1 where unjudged."""
    found = np.maximum(rng.integers(-4, 5, rows), 0)
    return torch.from_numpy(np.where(rng.random(rows) < unjudged, -1, found))


def documents(rng: np.random.Generator, rows: int, queries: int = 9, kind: str = "near") -> Documents:
    """Shuffled documents with few distinct scores; the last query has no relevant one, the first no other."""
    where, grade = indexes(rng, rows, queries, kind), grades(rng, rows)
    if rows:
        grade = torch.where(where == where.max(), grade.clamp(max=0), grade)
        grade = torch.where(where == where.min(), grade.abs() + 1, grade).clamp(max=4)
    return where, scores(rng, rows, 1)[:, 0], grade


def distinct(rng: np.random.Generator, rows: int, queries: int) -> Documents:
    """As :func:`documents`, but without ties."""
    return indexes(rng, rows, queries), torch.from_numpy(rng.permutation(rows) / (rows + 1)), grades(rng, rows)


def order_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``query_order``."""
    rng = np.random.default_rng(37)
    for rows in SIZES:
        for kind in INDEX_RANGES:
            yield f"{rows} documents, {kind}", documents(rng, rows, kind=kind)[:2]
    for dtype in FLOATS:
        for queries in (1, 40):
            where, score, _ = documents(rng, 500, queries)
            yield f"{dtype}, {queries} queries", (where, score.to(dtype))
            yield f"{dtype}, {queries} queries, int32, grouped", (where.sort().values.int(), score.to(dtype))
            yield f"{dtype}, {queries} queries, descending", (where.sort(descending=True).values, score.to(dtype))
    where, score, _ = documents(rng, 6000, 2)
    yield "long queries", (where, score)
    yield "long queries, float64", (where, score.double() + torch.rand(6000, dtype=torch.float64) * 1e-12)
    yield "one document each", (torch.from_numpy(rng.permutation(3000)), scores(rng, 3000, 1)[:, 0])
    where, score, _ = documents(rng, 300)
    yield "not contiguous", (where.repeat(2, 1).T[:, 0], torch.stack([score, score], 1)[:, 1])
    yield "NaN", (where, score.index_fill(0, torch.tensor([17, 250]), torch.nan))
    yield "NaN, far, float64", (indexes(rng, 300, 5, "far"), torch.full((300,), torch.nan).double())
    many = 20_000 if quick else 300_000
    yield "many", (torch.from_numpy(rng.integers(0, many // 30, many)), torch.from_numpy(rng.random(many)).float())


def defined(result: Any) -> tuple[Tensor, ...]:
    """The outputs of ``query_order``; the error code alone where a score is NaN."""
    *outputs, error = result
    return (*outputs, error) if int(error) == NO_ERROR else (error,)


def ranked(documents_: Documents) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Order, offsets, scores and grades of documents."""
    where, score, grade = documents_
    order, _, offsets, _ = reference.query_order(where, score)
    return order, offsets, score, grade


def arguments(
    measure: str, documents_: Documents, top_k: int = 0, parameter: float | None = None, *,
    above: float = math.nan, adaptive_k: bool = False,
) -> Arguments:  # fmt: skip
    """Arguments of ``query_scores``."""
    parameter = PARAMETERS.get(measure, 0.0) if parameter is None else parameter
    return MEASURES[measure], *ranked(documents_), top_k, parameter, above, adaptive_k


def score_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``query_scores``."""
    rng = np.random.default_rng(41)
    for measure in MEASURES:
        for rows in SIZES[: 4 if quick else 5]:
            yield f"{measure}, {rows} documents", arguments(measure, documents(rng, rows))
        few = documents(rng, 200, 7)
        for top_k in (1, 2, 5, 33, 2**40):
            yield f"{measure}@{top_k}", arguments(measure, few, top_k, above=0.25)
            yield f"{measure}@{top_k}, adaptive", arguments(measure, distinct(rng, 90, 5), top_k, adaptive_k=True)
        yield f"{measure}, long queries", arguments(measure, documents(rng, 700, 2), above=-math.inf)
        yield f"{measure}, none retrieved", arguments(measure, few, above=math.inf)
        equal = few[0], torch.zeros(200), few[2]
        yield f"{measure}, equal scores", arguments(measure, equal)
    yield from _typed_examples(rng)
    yield "all discounts", arguments("ndcg", documents(rng, 300 if quick else 9000, 1))
    for most in (0.1, 0.5, 0.999):
        yield f"auroc, fpr {most}", arguments("auroc", documents(rng, 300), parameter=most)
    order, offsets, score, grade = ranked(documents(rng, 300))
    rest = 0, 0.0, math.nan, False
    yield "some of the queries", (MEASURES["ndcg"], order, offsets[2:6], score, grade, *rest)
    yield "no query", (MEASURES["ndcg"], order, offsets[3:4], score, grade, *rest)
    empty = torch.cat((offsets[:1], offsets, offsets[-1:]))
    for measure in MEASURES:
        given = arguments(measure, documents(rng, 9))[5:]
        yield f"{measure}, queries without documents", (MEASURES[measure], order, empty, score, grade, *given)


def _typed_examples(rng: np.random.Generator) -> Iterator[tuple[str, Arguments]]:
    where, score, grade = documents(rng, 300)
    for dtype in FLOATS:
        yield f"scores {dtype}", arguments("ndcg", (where, score.to(dtype), grade), 7)
        yield f"grades {dtype}", arguments("ndcg_exp", (where, score, grade.to(dtype)), 7)
    for kind in (torch.int8, torch.int16, torch.int32, torch.uint8, torch.bool):
        yield f"grades {kind}", arguments("ndcg", (where, score, grade.clamp(min=0).to(kind)))
    real = torch.from_numpy(rng.random(300))
    yield "grades that are no whole numbers", arguments("ndcg", (where, score, real))
    yield "grades beyond those that are counted", arguments("ndcg", (where, score, grade * 1000))
    for measure in ("ndcg_exp", "dcg_exp", "err"):
        yield f"{measure} of real grades", arguments(measure, (where, score, real))
        yield f"{measure} of large grades", arguments(measure, (where, score, grade * 300))


def hits_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``query_hits``."""
    rng = np.random.default_rng(43)
    for rows in SIZES:
        for max_k in (1, 3, 40):
            order, offsets, _, grade = ranked(documents(rng, rows))
            yield f"{rows} documents, {max_k}", (order, offsets, grade, max_k)
    order, offsets, _, grade = ranked(documents(rng, 500 if quick else 50_000, 40))
    for name, target in (("float", grade / 2), ("bool", grade > 0), ("int8", grade.to(torch.int8))):
        yield name, (order, offsets, target, 9)
    yield "some of the queries", (order, offsets[5:20], grade, 9)
    yield "queries without documents", (order, torch.cat((offsets[:1], offsets)), grade, 9)


def _load() -> Documents:
    rng = np.random.default_rng(47)
    where = torch.from_numpy(rng.permutation(8000 * 40) // 40)
    return where, torch.from_numpy(rng.random(len(where))).float(), grades(rng, len(where), 0.0)


def order_load(scene: BoxDataset) -> Arguments:
    """8,000 queries of 40 documents, shuffled, whatever the scene."""
    return _load()[:2]


def score_load(scene: BoxDataset) -> Arguments:
    """nDCG of them."""
    return arguments("ndcg", _load(), 10)


def hits_load(scene: BoxDataset) -> Arguments:
    """Ten hits of each."""
    order, offsets, _, grade = ranked(_load())
    return order, offsets, grade, 10
