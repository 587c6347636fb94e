"""Native scores of rows beside their definition in torch, their sums, and small updates in one call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from tests.contents import content
from tests.fuzz import seeds
from valor_gpu import native, plans
from valor_gpu.errors import InputError
from valor_gpu.functional import cosine_similarity, jensen_shannon_divergence, kl_divergence
from valor_gpu.reduce.exact_sums import exact
from valor_gpu.regression import (
    ContinuousRankedProbabilityScore,
    CosineSimilarity,
    IntervalCoverage,
    JensenShannonDivergence,
    KLDivergence,
    PinballLoss,
    QuantileCRPS,
    row_means,
)

FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "cosine": cosine_similarity,
    "kl": kl_divergence,
    "js": jensen_shannon_divergence,
}
METRICS: dict[str, tuple[Callable[..., Any], int]] = {
    "cosine": (CosineSimilarity, 0),
    "kl": (KLDivergence, 0),
    "kl of logs": (lambda **given: KLDivergence(log_prob=True, **given), 0),
    "js": (JensenShannonDivergence, 0),
    "js of logs": (lambda **given: JensenShannonDivergence(log_prob=True, **given), 0),
    "crps": (ContinuousRankedProbabilityScore, 1),
    "fair crps": (lambda **given: ContinuousRankedProbabilityScore(fair=True, **given), 1),
    "pinball": (lambda **given: PinballLoss([0.1, 0.5, 0.9], **given), 3),
    "quantiles": (lambda **given: QuantileCRPS([0.1, 0.5, 0.9], **given), 3),
    "coverage": (lambda **given: IntervalCoverage(0.8, **given), 2),
}
"""Metrics, and columns of forecasts: 0 for tables of one shape, 1 for any number."""


def batch(name: str, rows: int, seed: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Arguments of ``update``, some of them not finite."""
    generator = torch.Generator().manual_seed(seed)
    columns = METRICS[name][1]
    width = columns if columns > 1 else int(torch.randint(2, 40, (1,), generator=generator))
    first = torch.rand((rows, width), generator=generator).to(dtype).sort(1).values
    second = torch.rand(first.shape if columns == 0 else rows, generator=generator).to(dtype)
    first[-1, -1], second[0] = math.inf, math.nan
    if name.endswith("logs"):
        first, second = first.log(), second.log()
        first[rows // 2, 0] = -math.inf
    return first, second


def defined(name: str, *args: torch.Tensor, **choices: bool) -> torch.Tensor:
    """The scores of rows without the library."""
    with plans.checked_only(), mock.patch.object(row_means, "native_row_sums", return_value=None):
        return FUNCTIONS[name](*args, **choices, reduction="none")


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_scores_equal_the_definition(name: str, dtype: torch.dtype) -> None:
    for rows, columns in ((0, 3), (1, 1), (5, 7), (40, 8), (3, 1000)):
        first, second = torch.rand((2, rows, columns), generator=torch.Generator().manual_seed(rows)).to(dtype)
        first = first * (first > 0.2)  # with zeros
        for log_prob in (False, True):
            choices = {"log_prob": True} if log_prob else {}
            if log_prob and name == "cosine":
                continue
            sides = (first.log(), second.log()) if log_prob else (first, second)
            found = FUNCTIONS[name](*sides, **choices, reduction="none")
            np.testing.assert_allclose(found, defined(name, *sides, **choices), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_numbers(name: str) -> None:
    values = torch.tensor([0.0, 1.0, 5e-324, 1e308, math.inf, math.nan]).double()
    first, second = torch.cartesian_prod(values, values), torch.cartesian_prod(values, values).flip(0)
    found, expected = FUNCTIONS[name](first, second, reduction="none"), defined(name, first, second)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def test_threads_give_the_same() -> None:
    first, second = torch.rand((2, 5000, 11), generator=torch.Generator().manual_seed(1))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            found.append(content(kl_divergence(first, second, reduction="none")))
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_negative_numbers_are_named() -> None:
    first, second = torch.ones(4000, 5), torch.ones(4000, 5)
    second[3210, 4] = -1
    for function in (kl_divergence, jensen_shannon_divergence):
        with pytest.raises(InputError, match=r"q\[3210, 4\] is negative"):
            function(first, second)


@pytest.mark.smoke
@pytest.mark.skipif(not native.available("valor_cpu"), reason="the C++ library is not built")
@pytest.mark.parametrize("name", METRICS)
def test_sums_and_scores_are_those_of_the_definition(name: str) -> None:
    for seed in seeds(3):
        for rows in (1, 9, 700):
            given = batch(name, rows, seed, torch.float64 if seed % 2 else torch.float32)
            mine, checked = METRICS[name][0](keep_rows=True), METRICS[name][0](keep_rows=True)
            mine.update(*given)
            with plans.checked_only(), mock.patch.object(row_means, "native_row_sums", return_value=None):
                checked.update(*given)
            found, expected = mine.state(), checked.state()
            np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-9, atol=1e-14)
            assert torch.equal(found.counts, expected.counts)
            sums, counts = row_means._sums_of(found.scores)
            assert exact(found.sums) == exact(sums), (seed, rows)
            assert torch.equal(found.counts, counts)
            assert torch.equal(found.wide, expected.wide)


@pytest.mark.skipif(not native.available("valor_cpu"), reason="the C++ library is not built")
@pytest.mark.parametrize("choices", [{}, {"keep_rows": True}, {"reduction": "none"}], ids=str)
@pytest.mark.parametrize("name", METRICS)
def test_small_updates_take_a_plan(name: str, choices: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    if METRICS[name][1] and "reduction" in choices:
        choices = {}
    batches = [batch(name, 8, seed, dtype) for seed in seeds(2) for dtype in (torch.float32, torch.float64)]
    mine, checked = METRICS[name][0](**choices), METRICS[name][0](**choices)
    with plans.checked_only():
        for given in batches:
            checked.update(*given)
        value = content(checked.compute())
    monkeypatch.setattr(mine, "_add", None)  # the checked path would call it
    for given in batches:
        mine(*given)
    found, expected = mine.state(), checked.state()
    for field in ("counts", "wide", "scores"):
        if hasattr(expected, field):
            assert content(getattr(found, field)) == content(getattr(expected, field)), field
    if hasattr(expected, "sums"):
        assert exact(found.sums) == exact(expected.sums)
    assert content(mine.compute()) == value


def test_a_score_depends_on_its_row_alone() -> None:
    first, second = torch.rand((2, 300, 21), generator=torch.Generator().manual_seed(2)).double()
    first[7, 3], second[11, 4] = 1e-310, 0.0  # numbers that leave the vectors
    for function in FUNCTIONS.values():
        together = function(first, second, reduction="none")
        for rows in (slice(7, 8), slice(5, 12), slice(100, 300)):
            part = function(first[rows], second[rows], reduction="none")
            assert content(part.reshape(-1)) == content(together[rows])


def test_ensembles_of_many_members() -> None:
    members, target = torch.rand((2, 400), generator=torch.Generator().manual_seed(3)), torch.rand(2)
    for size in (255, 256, 257, 400):  # beyond 256 they are sorted
        metric = ContinuousRankedProbabilityScore()
        metric.update(members[:, :size].double(), target.double())
        apart = (members[:, :size, None] - members[:, None, :size]).double().abs().mean((1, 2)) / 2
        expected = ((members[:, :size].double() - target.double()[:, None]).abs().mean(1) - apart).mean()
        np.testing.assert_allclose(metric.compute(), expected, rtol=1e-7)


def test_plans_leave_bad_numbers_to_the_checks() -> None:
    metric = IntervalCoverage(0.8)
    with pytest.raises(InputError, match=r"preds\[1\] has the larger number first"):
        metric.update(torch.tensor([[0.0, 1.0], [2.0, 1.0]]), torch.zeros(2))
    divergence = KLDivergence()
    with pytest.raises(InputError, match=r"p\[0, 1\] is negative"):
        divergence.update(torch.tensor([[0.5, -0.5]]), torch.tensor([[0.5, 0.5]]))
    assert int(divergence.state().counts.sum()) == 0


def test_new_choices_make_new_plans() -> None:
    metric = ContinuousRankedProbabilityScore()
    given = torch.tensor([[0.0, 1.0]]), torch.tensor([0.5])
    metric.update(*given)
    metric.fair = True
    metric.update(*given)
    assert float(metric.compute()) == 0.125  # of 0.25 and 0
