"""Numbers of exact sums equal those of fractions: nothing cancels, and no order, split or merge changes a bit."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu import regression
from valor_gpu.errors import InputError
from valor_gpu.reduce import regression as reduced
from valor_gpu.reduce.regression import Number


def nearest_root(value: Any) -> float:
    """The float64 nearest to a root, by comparison of squares."""
    near = math.sqrt(value)
    around = [math.nextafter(near, 0), near, math.nextafter(near, math.inf)]
    middles = [(Fraction(a) + Fraction(b)) / 2 for a, b in itertools.pairwise(around)]
    return around[sum(value > middle**2 for middle in middles)]


def expected(preds: Tensor, target: Tensor) -> dict[str, float]:
    """Numbers by their definitions over fractions, rounded once; an error is a difference of float64."""
    p, t, e = ([Fraction(v) for v in side.double().tolist()] for side in (preds, target, preds.double() - target))
    n = len(p)
    mean_p, mean_t = sum(p) / n, sum(t) / n
    tt = sum((b - mean_t) ** 2 for b in t)
    pp = sum((a - mean_p) ** 2 for a in p)
    pt = sum((a - mean_p) * (b - mean_t) for a, b in zip(p, t))
    ee, mean_e = sum(v * v for v in e), sum(e) / n
    unbiased = [v / (n - 1) for v in (pp, tt, pt)]
    return {
        "MeanAbsoluteError": float(sum(map(abs, e)) / n),
        "MeanSquaredError": float(ee / n),
        "R2Score": float(1 - ee / tt),
        "ExplainedVariance": float(1 - sum((v - mean_e) ** 2 for v in e) / tt),
        "RelativeSquaredError": float(ee / tt),
        "PearsonCorrCoef": math.copysign(nearest_root(pt * pt / (pp * tt)), pt),
        "ConcordanceCorrCoef": float(2 * unbiased[2] / (unbiased[0] + unbiased[1] + (mean_p - mean_t) ** 2)),
        "NormalizedRootMeanSquaredError": nearest_root(ee / tt),
    }


def metric_of(name: str) -> Any:
    """The metric whose number :func:`expected` has."""
    return getattr(regression, name)(**({"normalization": "std"} if name.startswith("Norm") else {}))


def wild(seed: int, rows: int) -> tuple[Tensor, Tensor]:
    """Numbers of exponents from -30 to 30, some of both signs and of equal size."""
    rng = np.random.default_rng([seed, 40])
    target = rng.normal(size=rows) * 2.0 ** rng.integers(-30, 30, rows)
    preds = np.where(rng.random(rows) < 0.3, target, rng.normal(size=rows) * 2.0 ** rng.integers(-30, 30, rows))
    return torch.from_numpy(np.float32(preds)).double(), torch.from_numpy(np.float32(target)).double()


@pytest.mark.parametrize("seed", seeds(4))
def test_numbers_are_fractions_rounded_once(seed: int) -> None:
    preds, target = wild(seed, 60)
    numbers = expected(preds, target)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(60))
    for name, number in numbers.items():
        metric, shard = metric_of(name), metric_of(name)
        metric.update(preds[order[:7]], target[order[:7]])
        shard.update(preds[order[7:50]], target[order[7:50]])
        metric.merge_state(shard.to_bytes())
        metric(preds[order[50:]], target[order[50:]])
        assert metric.compute().item() == number, name
        assert metric.result().scalars()[name] == number


def test_a_small_spread_beside_a_large_mean_loses_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    target = (1e6 + 1e-2 * torch.randn(20_000, generator=generator, dtype=torch.float64)).double()
    preds = target + 1e-3 * torch.randn(20_000, generator=generator, dtype=torch.float64)
    numbers = expected(preds, target)
    for name, number in numbers.items():
        metric = metric_of(name)
        for p, t in zip(preds.split(4096), target.split(4096)):
            metric.update(p, t)
        assert metric.compute().item() == number, name
    assert 0.98 < numbers["R2Score"] < 0.995


@pytest.mark.parametrize(
    "name", ["MeanSquaredError", "RelativeSquaredError", "WeightedMeanAbsolutePercentageError", "MinkowskiDistance"]
)
def test_numbers_beyond_float32_are_infinite(name: str) -> None:
    metric = getattr(regression, name)(**({"p": 3} if name == "MinkowskiDistance" else {}))
    metric.update(torch.tensor([3e38, -3e38]), torch.tensor([0.0, 1e-10]))
    expected = 3e38 * 2 ** (1 / 3) if name == "MinkowskiDistance" else math.inf
    assert metric.compute().equal(torch.tensor(expected))
    assert math.isfinite(metric.result().values[name])


def test_many_float32_rows_sum_without_loss() -> None:
    rows = 300_000
    target = (1e6 + torch.arange(rows) % 7 * 0.0625).float()
    preds = target + 0.0625
    metric, mse = regression.PearsonCorrCoef(), regression.MeanSquaredError()
    metric.update(preds, target)
    mse.update(preds, target)
    assert metric.compute() == 1
    assert mse.compute() == 0.0625**2


@pytest.mark.parametrize("how", ["mean", "range", "std", "l2"])
def test_normalisations(how: str) -> None:
    preds, target = wild(3, 30)
    t = [Fraction(value) for value in target.tolist()]
    mean = sum(t) / 30
    sizes = {
        "mean": mean**2,
        "range": (max(t) - min(t)) ** 2,
        "std": sum((b - mean) ** 2 for b in t) / 30,
        "l2": sum(b * b for b in t),
    }
    size = nearest_root(sum(Fraction(e) ** 2 for e in (preds - target).tolist()) / 30 / sizes[how])
    metric = regression.NormalizedRootMeanSquaredError(how)
    metric.update(preds, target)
    assert metric.compute().item() == (math.copysign(size, mean) if how == "mean" else size)


def test_outputs_are_inferred_and_must_stay() -> None:
    metric = regression.R2Score(multioutput="raw_values")
    metric.update(torch.rand(5, 2), torch.rand(5, 2))
    assert metric.compute().shape == (2,)
    with pytest.raises(InputError, match="must have 2 outputs like the batches before but have 3"):
        metric.update(torch.rand(5, 3), torch.rand(5, 3))
    other = regression.R2Score(multioutput="raw_values")
    other.update(torch.rand(5, 3), torch.rand(5, 3))
    with pytest.raises(InputError, match="all batches must have the same number of outputs"):
        metric.merge_state(other)
    metric(torch.rand(5, 2), torch.rand(5, 2))
    assert metric.result().counts["rows"] == 10
    assert len(metric.sums) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: regression.MeanSquaredError(num_outputs=0), "num_outputs must be at least 1 but got 0"),
        (lambda: regression.MeanSquaredError(squared=1), "squared must be bool but got int"),
        (lambda: regression.MinkowskiDistance(0.5), r"p must be in \[1, inf\] but got 0.5"),
        (lambda: regression.TweedieDevianceScore(0.5), "power must be at most 0, or at least 1, but got 0.5"),
        (lambda: regression.R2Score(adjusted=-1), "adjusted must be at least 0 but got -1"),
        (lambda: regression.R2Score(multioutput="all"), "multioutput must be one of 'raw_values'"),
        (lambda: regression.NormalizedRootMeanSquaredError("max"), "normalization must be one of 'mean'"),
        (lambda: regression.CriticalSuccessIndex("a"), "threshold must be a number but got 'a'"),
        (lambda: regression.PearsonCorrCoef(keep_rows=1), "keep_rows must be bool but got int"),
    ],
)
def test_arguments_are_checked(make: Any, message: str) -> None:
    with pytest.raises((InputError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("metric", "batch", "message"),
    [
        (regression.MeanSquaredError(), (torch.zeros(2), torch.zeros(3)), r"the same shape but have \[2\] and \[3\]"),
        (regression.PearsonCorrCoef(), (torch.zeros(2, 3),) * 2, r"\[N\] or \[N, 1\] but got \[2, 3\]"),
        (regression.PearsonCorrCoef(2), (torch.zeros(2),) * 2, r"preds must have shape \[N, 2\] but got \[2\]"),
        (regression.R2Score(), (torch.zeros(2, 3, 4),) * 2, r"\[N\] or \[N, D\] but got \[2, 3, 4\]"),
        (
            regression.MeanSquaredLogError(),
            (torch.tensor([1.0, -2.0]), torch.ones(2)),
            r"preds\[1\] must be at least -1",
        ),
        (
            regression.TweedieDevianceScore(1),
            (torch.zeros(1), torch.ones(1)),
            r"preds\[0\] must be above 0 for power=1",
        ),
        (regression.MeanAbsoluteError(), (torch.zeros(1, dtype=torch.complex64),) * 2, "preds must have dtype"),
        (
            regression.CriticalSuccessIndex(0.5, keep_sequence_dim=1),
            (torch.zeros(2),) * 2,
            "keep_sequence_dim must be a dimension of preds but is 1",
        ),
    ],
)
def test_bad_batches_are_refused(metric: Any, batch: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        metric.update(*batch)
    assert metric.update_count == 0


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("counts", [[3, 2, 2, 0]], "be at least the rows that are in no sum"),
        ("counts", [[0, 0, 0, 0]], "must be 0 without rows"),
        ("counts", [[-1, 0, 0, 0]], "be from 0 to"),
        ("narrowest", -1, "be a mark"),
    ],
)
def test_damaged_states_are_refused(field: str, value: Any, message: str) -> None:
    metric = regression.PearsonCorrCoef()
    metric.update(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 3.0, 3.0]))
    state = dict(metric.metric_state)
    state[field] = torch.tensor(value, dtype=state[field].dtype)
    with pytest.raises(InputError, match=message):
        regression.PearsonCorrCoef().merge_state(state)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("lowest", math.nan, "be finite where targets are summed"),
        ("highest", math.inf, "be finite where targets are summed"),
        ("lowest", 2.5, "must have a mean target from lowest to highest"),
        ("highest", -2.0, "must have a mean target from lowest to highest"),
    ],
)
def test_impossible_ends_of_targets_are_refused(field: str, value: float, message: str) -> None:
    metric = regression.NormalizedRootMeanSquaredError("range")
    metric.update(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 3.0, 3.0]))
    state = dict(metric.metric_state)
    with pytest.raises(InputError, match=message):
        regression.NormalizedRootMeanSquaredError("range").merge_state(
            {**state, field: torch.tensor([value], dtype=torch.float64)}
        )


def test_other_ends_than_those_of_the_rows_are_refused() -> None:
    metric = regression.NormalizedRootMeanSquaredError("range", keep_rows=True)
    metric.update(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 3.0, 3.0]))
    state = dict(metric.metric_state)
    with pytest.raises(InputError, match="must be that of the rows"):
        regression.NormalizedRootMeanSquaredError("range", keep_rows=True).merge_state(
            {**state, "lowest": torch.zeros(1, dtype=torch.float64)}
        )


def test_states_of_targets_that_narrow_sums_cut_are_taken() -> None:
    metric = regression.NormalizedRootMeanSquaredError("range", num_outputs=300)
    values = torch.full((3, 300), 1e-200, dtype=torch.float64)
    metric.update(values, values * torch.tensor([[1.0], [1.5], [2.0]]))
    other = regression.NormalizedRootMeanSquaredError("range", num_outputs=300)
    other.merge_state(metric)
    assert torch.equal(other.compute(), metric.compute())


def test_impossible_squares_and_foreign_rows_are_refused() -> None:
    metric = regression.PearsonCorrCoef(keep_rows=True)
    metric.update(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 3.0, 3.0]))
    state = dict(metric.metric_state)
    with pytest.raises(InputError, match="must have squares of so large numbers"):
        regression.PearsonCorrCoef(keep_rows=True).merge_state({**state, "sums": state["sums"].flip(1)})
    preds = [torch.tensor([[1.0], [2.0], [5.0]], dtype=torch.float64)]
    with pytest.raises(InputError, match="must be the sums of its rows"):
        regression.PearsonCorrCoef(keep_rows=True).merge_state({**state, "preds": preds})


def test_means_over_outputs() -> None:
    numbers = [Number(0.1), Number(0.2), Number(0.3)]
    assert reduced.average(numbers) == Number(math.fsum([0.1, 0.2, 0.3]) / 3)
    assert reduced.average([Number(1.0), Number(math.nan, "none")]).reason == "output 1: none"


def test_critical_success_counts_each_number_once() -> None:
    """NaN on either side, a threshold that float32 does not hold, numbers of any dtype and order in memory."""
    preds = torch.tensor([[0.9, 0.1, math.nan], [0.7, 0.8, 0.2]])
    target = torch.tensor([[0.8, 0.9, 0.9], [0.1, math.nan, 0.3]])
    expected = {"hits": 1, "misses": 1, "false_alarms": 1, "neither": 1, "nan": 2}
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for side, other in ((preds, target), (preds.T, target.T)):
            metric = regression.CriticalSuccessIndex(0.5)
            metric.update(side.to(dtype), other.double())
            assert metric.result().counts == expected
    whole = regression.CriticalSuccessIndex(2)
    whole.update(torch.tensor([1, 2, 3]), torch.tensor([2, 2, 1]))
    assert whole.compute() == 1 / torch.tensor(3.0)
    never = regression.CriticalSuccessIndex(1e300)
    never.update(torch.tensor([3e38, math.inf]), torch.tensor([3e38, math.inf]))
    assert never.result().counts["hits"] == 1  # 1e300 is inf in the dtype of the numbers
    steps = regression.CriticalSuccessIndex(0.5, keep_sequence_dim=1)
    steps.update(preds[:, :1], target[:, :1])
    assert steps.compute() == 0.5
    steps.update(preds[:0], target[:0])
    assert steps.compute().tolist() == [0.5, 0, 0, 0]
