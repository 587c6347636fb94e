"""Ratios and averages of class counts against hand-made numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from valor_gpu.reduce import ratios
from valor_gpu.reduce.ratios import Outcomes, Ratio, average_ratio, mean

Numbers = list[float]


def outcomes(tp: Numbers, fp: Numbers, fn: Numbers, tn: Numbers) -> Outcomes:
    a, b, c, d = (torch.tensor(v, dtype=torch.float64) for v in (tp, fp, fn, tn))
    return Outcomes(a, a + b, a + c, a + b + c + d)


THREE = outcomes([2, 0, 0], [1, 0, 3], [1, 4, 0], [6, 6, 7])
"""Class 1 was never predicted, class 2 never true."""


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (ratios.precision, [2 / 3, math.nan, 0]),
        (ratios.recall, [2 / 3, 0, math.nan]),
        (ratios.specificity, [6 / 7, 1, 0.7]),
        (ratios.negative_predictive_value, [6 / 7, 0.6, 1]),
        (ratios.f_beta, [2 / 3, 0, 0]),
        (ratios.jaccard, [0.5, 0, 0]),
        (ratios.agreement, [0.8, 0.6, 0.7]),
        (ratios.disagreement, [0.2, 0.4, 0.3]),
        (ratios.miss_rate, [1 / 3, 1, math.nan]),
    ],
)
def test_each_class(ratio: Callable[[Outcomes], Ratio], expected: Numbers) -> None:
    found = ratio(THREE).value()
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), equal_nan=True, rtol=0, atol=1e-15)


@pytest.mark.parametrize("beta", [0.5, 2.0])
def test_f_beta_is_the_weighted_harmonic_mean(beta: float) -> None:
    o = outcomes([5], [3], [1], [9])
    p, r = 5 / 8, 5 / 6
    expected = (1 + beta**2) * p * r / (beta**2 * p + r)
    assert float(ratios.f_beta(o, beta).value()) == pytest.approx(expected, abs=1e-15)


def test_outcomes_follow_from_the_four_sums() -> None:
    for name, expected in (("fp", [1, 0, 3]), ("fn", [1, 4, 0]), ("tn", [6, 6, 7]), ("negatives", [7, 6, 10])):
        assert getattr(THREE, name).tolist() == expected, name
    assert [float(v) for v in THREE.pooled()] == [2, 6, 7, 30]


def test_rounding_of_weights_is_no_sample() -> None:
    """0.1 + 0.2 + 0.3 in two orders: no negative remains, and no ratio of the remainder appears."""
    up, down = torch.tensor(0.1 + 0.2 + 0.3, dtype=torch.float64), torch.tensor(0.3 + 0.2 + 0.1, dtype=torch.float64)
    assert up != down
    for first, second in ((up, down), (down, up)):
        o = Outcomes(first, second, first, second)
        assert [float(v) for v in (o.fp, o.fn, o.tn, o.negatives)] == [0, 0, 0, 0]
        assert ratios.specificity(o).value().isnan() and ratios.negative_predictive_value(o).value().isnan()


def test_one_sample_among_a_hundred_billion_counts() -> None:
    big = torch.tensor(1e11, dtype=torch.float64)
    assert float(Outcomes(big - 1, big, big - 1, big).fp) == 1


def averaged(average: str | None, zero_division: float = 0.0, counted: Tensor | None = None) -> Tensor:
    counted = torch.ones(3, dtype=torch.bool) if counted is None else counted
    return average_ratio(ratios.precision, THREE, average, counted, zero_division)


@pytest.mark.parametrize(
    ("average", "zero_division", "expected"),
    [
        ("micro", 0.0, 2 / 6),
        ("macro", 0.0, 2 / 9),
        ("macro", 1.0, 5 / 9),
        ("macro", math.nan, 1 / 3),
        ("weighted", 0.0, (2 / 3 * 3) / 7),
        ("weighted", 1.0, (2 / 3 * 3 + 4) / 7),
        ("weighted", math.nan, 2 / 3),
    ],
)
def test_averages(average: str, zero_division: float, expected: float) -> None:
    assert float(averaged(average, zero_division)) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("average", ["none", None])
def test_without_average(average: str | None) -> None:
    assert averaged(average, 1.0)[1:].tolist() == [1, 0]


def test_macro_takes_the_counted_classes() -> None:
    assert float(averaged("macro", 0.0, torch.tensor([True, False, True]))) == pytest.approx(1 / 3, abs=1e-15)


@pytest.mark.parametrize("average", ["micro", "macro", "weighted"])
def test_nothing_counts(average: str) -> None:
    o = outcomes([0, 0], [0, 0], [0, 0], [0, 0])
    none = torch.zeros(2, dtype=torch.bool)
    assert float(average_ratio(ratios.recall, o, average, none, 1.0)) == (1 if average == "micro" else 0)
    assert math.isnan(float(average_ratio(ratios.recall, o, average, none, 1.0, math.nan)))


@pytest.mark.parametrize("average", ["macro", "weighted"])
def test_no_class_that_counts_has_a_denominator(average: str) -> None:
    """Labels that were never predicted have no precision, whatever stands for it in means."""
    o, every = outcomes([0, 0], [0, 0], [1, 2], [5, 4]), torch.ones(2, dtype=torch.bool)
    assert float(average_ratio(ratios.precision, o, average, every, 1.0)) == 1
    assert math.isnan(float(average_ratio(ratios.precision, o, average, every, 1.0, math.nan)))
    assert float(average_ratio(ratios.recall, o, average, every, 1.0, math.nan)) == 0


def test_mean_leaves_out_what_does_not_exist() -> None:
    nan = torch.nan
    assert float(mean(torch.tensor([0.25, nan]), torch.tensor([1.0, 1.0]))) == 0.25
    assert math.isnan(float(mean(torch.tensor([nan, nan]), torch.tensor([1.0, 1.0]))))
    assert float(mean(torch.tensor([nan, 1.0]), torch.tensor([1.0, 0.0]), 0.5)) == 0.5
