"""Metrics that torchmetrics lacks equal their definitions, written out in plain Python."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from tests.fuzz import seeds
from valor_gpu import retrieval
from valor_gpu.errors import InputError

Grades = Sequence[int]


def err(grades: Grades, k: int, largest: int = 3) -> float:
    total, reached = 0.0, 1.0
    for rank, grade in enumerate(grades[:k], 1):
        stops = (2.0 ** max(grade, 0) - 1) / 2.0**largest
        total += reached * stops / rank
        reached *= 1 - stops
    return total


def rbp(grades: Grades, k: int) -> float:
    return 0.25 * sum(0.75**rank for rank, grade in enumerate(grades[:k]) if grade > 0)


def bpref(grades: Grades, k: int) -> float:
    relevant, irrelevant = (sum(map(test, grades)) for test in (lambda g: g > 0, lambda g: g == 0))
    total, above = 0.0, 0
    for grade in grades:
        above += grade == 0
        if grade > 0:
            total += 1 - min(above, relevant) / min(relevant, irrelevant) if above else 1
    return total / relevant if relevant else 0.0


def judged(grades: Grades, k: int) -> float:
    return sum(grade >= 0 for grade in grades[:k]) / len(grades[:k])


def holes(grades: Grades, k: int) -> float:
    return float(sum(grade < 0 for grade in grades[:k]))


def exponential_ndcg(grades: Grades, k: int) -> float:
    def gain(ranked: Grades) -> float:
        return sum((2.0 ** max(grade, 0) - 1) / math.log2(rank + 1) for rank, grade in enumerate(ranked[:k], 1))

    best = gain(sorted(grades, reverse=True))
    return gain(grades) / best if best else 0.0


_GRADES = dict(unjudged_index=-1)
OWN: list[tuple[Callable[..., Any], dict[str, Any], Callable[[Grades, int], float]]] = [
    (retrieval.RetrievalExpectedReciprocalRank, dict(top_k=4, max_grade=3, **_GRADES), err),
    (retrieval.RetrievalRBP, dict(top_k=4, persistence=0.75, relevance_level=1, **_GRADES), rbp),
    (retrieval.RetrievalBPref, dict(relevance_level=1, **_GRADES), bpref),
    (retrieval.RetrievalJudged, dict(top_k=4), judged),
    (retrieval.RetrievalHoles, dict(top_k=4), holes),
    (retrieval.RetrievalNormalizedDCG, dict(top_k=4, gain="exponential", **_GRADES), exponential_ndcg),
]


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize(("kind", "choices", "definition"), OWN, ids=[kind.__name__ for kind, _, _ in OWN])
def test_scores_are_those_of_the_definition(
    kind: Callable[..., Any], choices: dict[str, Any], definition: Callable[[Grades, int], float], seed: int
) -> None:
    rng = random.Random(seed)
    ranked = {query: [rng.choice([-1, 0, 0, 1, 2, 3]) for _ in range(rng.randrange(1, 12))] for query in range(20)}
    rows = [(-place / 16, grade, query) for query, grades in ranked.items() for place, grade in enumerate(grades)]
    rng.shuffle(rows)
    metric = kind(**choices)
    metric.update(*(torch.tensor(column) for column in zip(*rows)))
    expected = [definition(grades, 4) for grades in ranked.values()]
    result = metric.result()
    assert result.per_query()[kind.__name__].tolist() == pytest.approx(expected, rel=1e-14)
    assert result.values[kind.__name__] == pytest.approx(sum(expected) / 20, rel=1e-14)
    assert result.counts["unjudged"] == sum(grade < 0 for grades in ranked.values() for grade in grades)


def test_without_a_largest_grade_that_of_the_data_is_taken_and_a_smaller_one_is_refused() -> None:
    batch = torch.tensor([0.9, 0.8]), torch.tensor([1, 2]), torch.tensor([0, 0])
    for largest, expected in ((None, err([1, 2], 9, 2)), (4, err([1, 2], 9, 4))):
        metric = retrieval.RetrievalExpectedReciprocalRank(max_grade=largest)
        metric.update(*batch)
        assert float(metric.compute()) == pytest.approx(expected)
    metric = retrieval.RetrievalExpectedReciprocalRank(max_grade=1)
    metric.update(*batch)
    with pytest.raises(InputError, match="max_grade must be at least the largest grade, 2, but is 1"):
        metric.compute()


def test_grades_that_are_not_whole_have_a_linear_gain_alone() -> None:
    batch = torch.tensor([0.9, 0.8]), torch.tensor([0.5, 2.0]), torch.tensor([0, 0])
    linear, exponential = (retrieval.RetrievalNormalizedDCG(gain=gain) for gain in ("linear", "exponential"))
    linear.update(*batch)
    best = 2 + 0.5 / math.log2(3)
    assert float(linear.compute()) == pytest.approx((0.5 + 2 / math.log2(3)) / best)
    exponential.update(*batch)
    with pytest.raises(InputError, match="grades must be whole numbers from 0 to 1023 where a grade g gains"):
        exponential.compute()


def test_a_relevance_level_makes_grades_relevant_or_not() -> None:
    batch = torch.tensor([0.9, 0.8, 0.7]), torch.tensor([1, 3, 2]), torch.tensor([0, 0, 0])
    for level, expected in ((1, 1.0), (2, 0.5), (3, 0.5), (4, 0.0)):
        metric = retrieval.RetrievalMRR(relevance_level=level)
        metric.update(*batch)
        assert float(metric.compute()) == expected


@pytest.mark.parametrize(
    ("kind", "choices", "message"),
    [
        ("RetrievalRBP", dict(persistence=1), "persistence must be above 0 and below 1 but got 1"),
        ("RetrievalRBP", dict(persistence=1.5), r"persistence must be in \[0, 1\] but got 1.5"),
        ("RetrievalNormalizedDCG", dict(gain="cubic"), "gain must be one of 'linear', 'exponential' but got 'cubic'"),
        ("RetrievalExpectedReciprocalRank", dict(max_grade=0), "max_grade must be at least 1 but got 0"),
        ("RetrievalExpectedReciprocalRank", dict(max_grade=2000), r"max_grade must be in \[1, 1023\] but got 2000"),
        ("RetrievalAUROC", dict(max_fpr=0), "max_fpr must be above 0 and at most 1, or None, but got 0"),
        ("RetrievalAUROC", dict(max_fpr=1.5), r"max_fpr must be in \[0, 1\] but got 1.5"),
        ("RetrievalMAP", dict(relevance_level=0), "relevance_level must be above 0 but got 0"),
        ("RetrievalMAP", dict(score_above=math.nan), "score_above must be a number but got nan"),
        ("RetrievalMAP", dict(aggregation="sum"), "aggregation must be one of 'mean', 'median', 'min', 'max' or a"),
        ("RetrievalMAP", dict(empty_target_action="x"), "empty_target_action must be one of 'error', 'skip', 'neg'"),
        ("RetrievalMAP", dict(ignore_index=1.5), "ignore_index must be an int or None but got 1.5"),
        ("RetrievalMAP", dict(ignore_index=-1, unjudged_index=-1), "unjudged_index must differ from ignore_index but"),
        ("RetrievalPrecision", dict(adaptive_k=1), "adaptive_k must be bool but got int"),
        ("RetrievalPrecisionRecallCurve", dict(max_k=True), "max_k must be int but got bool"),
        ("RetrievalRecallAtFixedPrecision", dict(min_precision=2), r"min_precision must be in \[0, 1\] but got 2"),
        ("RetrievalJudged", dict(unjudged_index=None), "unjudged_index must be int but got NoneType"),
    ],
)
def test_arguments_out_of_range_are_refused(kind: str, choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        getattr(retrieval, kind)(**choices)
