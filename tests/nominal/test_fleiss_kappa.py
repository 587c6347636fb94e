"""Fleiss' kappa: the published example, a loop over pairs of raters, and torchmetrics but for its denominator."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.functional.nominal as tmf
from torch import Tensor

import valor_gpu
from tests.fuzz import seeds
from valor_gpu import functional
from valor_gpu.errors import InputError
from valor_gpu.nominal import FleissKappa

PUBLISHED = [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
             [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]  # fmt: skip
"""14 raters of 10 rows, in many texts on kappa: 0.210."""


def by_pairs(counts: Any) -> float:
    """Kappa by every pair of raters of every row, each row with at least two."""
    agreements, shares = [], np.zeros(len(counts[0]))
    for row in counts:
        ratings = [category for category, count in enumerate(row) for _ in range(count)]
        shares += np.bincount(ratings, minlength=len(row)) / len(ratings) / len(counts)
        if pairs := list(itertools.combinations(ratings, 2)):
            agreements.append(np.mean([first == second for first, second in pairs]))
    expected = (shares**2).sum()
    return float((np.mean(agreements) - expected) / (1 - expected))


def value(*batches: Any, **options: Any) -> float:
    metric = FleissKappa(**options)
    for batch in batches:
        metric.update(torch.as_tensor(batch))
    found: float = metric.result().values["FleissKappa"]
    assert float(metric.compute()) == pytest.approx(found, abs=1e-7)
    return found


def drawn(seed: int, raters: tuple[int, int] = (5, 5), rows: int = 30, categories: int = 4) -> Tensor:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(categories), rows)
    return torch.tensor(np.stack([rng.multinomial(rng.integers(raters[0], raters[1] + 1), row) for row in shares]))


def test_the_published_example() -> None:
    assert round(value(PUBLISHED), 3) == 0.210
    metric = FleissKappa()
    metric.update(PUBLISHED)
    values = metric.result().values
    assert [round(values[name], 3) for name in ("observed", "expected")] == [0.378, 0.213]
    np.testing.assert_allclose(values["shares"], np.sum(PUBLISHED, 0) / 140, rtol=1e-15)


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("raters", [(5, 5), (1, 6), (2, 9)])
def test_it_equals_a_loop_over_pairs(seed: int, raters: tuple[int, int]) -> None:
    counts = drawn(seed, raters)
    assert value(counts) == pytest.approx(by_pairs(counts.tolist()), abs=1e-13)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(seed))
    assert value(*counts[order].split(7)) == value(counts)
    assert value(counts.to(torch.uint8)) == value(counts.t().contiguous().t()) == value(counts)


@pytest.mark.parametrize("seed", seeds(8))
def test_with_equal_raters_it_is_that_of_torchmetrics_with_its_denominator(seed: int) -> None:
    counts = drawn(seed)
    metric = FleissKappa()
    metric.update(counts)
    values = metric.result().values
    found = (values["observed"] - values["expected"]) / (1 - values["expected"] + 1e-5)
    assert found == pytest.approx(float(tmf.fleiss_kappa(counts)), abs=2e-6)
    scores = torch.rand((30, 3, 6), generator=torch.Generator().manual_seed(seed))
    assert float(functional.fleiss_kappa(scores, mode="probs")) == pytest.approx(
        float(tmf.fleiss_kappa(scores, mode="probs")), abs=3e-5
    )


def test_more_categories_than_raters() -> None:
    """torchmetrics counts as many categories as there are raters, and fails."""
    scores = torch.eye(5)[torch.tensor([[4, 4], [3, 2], [0, 0]])].movedim(2, 1)
    assert value(scores, mode="probs") == pytest.approx(by_pairs([[0, 0, 0, 0, 2], [0, 0, 1, 1, 0], [2, 0, 0, 0, 0]]))


def test_full_agreement_is_1_and_certain_raters_have_none() -> None:
    assert value([[3, 0], [0, 3], [3, 0]]) == 1.0
    for ratings, reason in (([[3, 0], [3, 0]], "all raters chose one category"),
                            ([[1, 0], [0, 1]], "no row has two raters")):  # fmt: skip
        metric = FleissKappa()
        metric.update(ratings)
        assert metric.compute().isnan() and metric.result().reason("FleissKappa") == reason
    empty = FleissKappa()
    empty.update(torch.zeros((0, 3), dtype=torch.long))
    assert empty.compute().isnan() and empty.result().counts == {"samples": 0, "unrated": 0, "ratings": 0}


def test_a_category_and_rows_without_raters_are_left_out() -> None:
    counts = drawn(3, (4, 8))
    kept = torch.cat((counts[:, :1], counts[:, 2:]), 1)
    kept = kept[kept.sum(1) > 0]
    assert value(counts, ignore_index=1) == pytest.approx(by_pairs(kept.tolist()), abs=1e-13)
    assert value(torch.cat((counts, torch.zeros((2, 4), dtype=torch.long)))) == value(counts)
    metric = FleissKappa(ignore_index=0)
    metric.update([[3, 0, 0], [1, 1, 1]])
    assert metric.result().counts == {"samples": 2, "unrated": 1, "ratings": 2}


def test_intervals_draw_rows() -> None:
    counts = drawn(5, (3, 6), rows=80)
    metric = FleissKappa()
    metric.update(counts)
    found = metric.result(intervals=200)
    drawn_rows = [counts[np.random.default_rng(seed).integers(0, 80, 80)].tolist() for seed in range(300)]
    spread = np.std([by_pairs(rows) for rows in drawn_rows])
    interval = found.intervals["FleissKappa"]
    assert interval.low < found.values["FleissKappa"] < interval.high
    assert interval.standard_error == pytest.approx(spread, rel=0.2)
    assert found.intervals["shares/2"].low < found.values["shares"][2] < found.intervals["shares/2"].high


@pytest.mark.parametrize(
    ("options", "ratings", "message"),
    [
        ({}, torch.tensor([[1, 2], [0, -1]]), r"ratings\[1, 1\] must be from 0 to 2147483647"),
        ({}, torch.rand(3, 2), r"ratings must be integers \[N, C\] with mode='counts' but got torch.float32 \[3, 2\]"),
        ({}, torch.ones(3, dtype=torch.long), r"ratings must be integers \[N, C\]"),
        ({"mode": "probs"}, torch.ones((3, 2), dtype=torch.long), r"ratings must be floats \[N, C, R\]"),
        ({"mode": "probs"}, torch.full((2, 2, 2), math.nan), r"ratings\[0, 0\] must not be NaN"),
        ({"ignore_index": 2}, torch.tensor([[1, 2]]), "ratings must have category 2 but have 2, from 0"),
    ],
)
def test_wrong_ratings_raise_and_change_nothing(options: dict[str, Any], ratings: Tensor, message: str) -> None:
    metric = FleissKappa(**options)
    with pytest.raises(InputError, match=message):
        metric.update(ratings)
    assert metric.result().counts["samples"] == 0


def test_categories_are_the_same_in_all_updates() -> None:
    metric = FleissKappa()
    metric.update([[1, 2, 0]])
    with pytest.raises(InputError, match="ratings must have one number of categories in all updates but have 2 and 3"):
        metric.update([[1, 2]])
    other = FleissKappa()
    other.update([[1, 2]])
    with pytest.raises(InputError, match="be the same for all rows"):
        FleissKappa().merge_state({name: [*metric.metric_state[name], *part] if isinstance(part, list) else part
                                   for name, part in other.metric_state.items()})  # fmt: skip
    other.merge_state(metric)
    with pytest.raises(InputError, match="but have 2 and 3"):
        other.compute()


@pytest.mark.parametrize(("field", "part", "message"), [
    ("counts", [1, -2, 1], "be at least 0"), ("counts", [1, 2], "must have 3 elements"),
    ("categories", [0], "at least 1"),
])  # fmt: skip
def test_damaged_states_are_refused(field: str, part: list[int], message: str) -> None:
    metric = FleissKappa()
    metric.update([[1, 2, 0]])
    states = {**metric.metric_state, field: [torch.tensor(part, dtype=torch.int32)]}
    with pytest.raises(InputError, match=message):
        FleissKappa().merge_state(states)


def test_it_is_where_users_of_torchmetrics_look() -> None:
    from valor_gpu.functional.nominal import fleiss_kappa
    from valor_gpu.nominal.fleiss_kappa import FleissKappa as by_path

    assert valor_gpu.FleissKappa is by_path is FleissKappa
    assert functional.fleiss_kappa is fleiss_kappa
    with pytest.raises(InputError, match="mode must be one of"):
        FleissKappa("votes")
