"""Scores of forecasts beside torchmetrics, scikit-learn, integrals and the plain definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torchmetrics.functional.regression import continuous_ranked_probability_score as their_crps

from tests.contents import content
from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.functional import (
    continuous_ranked_probability_score,
    interval_coverage,
    pinball_loss,
    quantile_crps,
)
from valor_gpu.regression import ContinuousRankedProbabilityScore, IntervalCoverage, PinballLoss, QuantileCRPS
from valor_gpu.stats import Bootstrap

Floats = NDArray[np.float64]


def drawn(seed: int) -> tuple[Tensor, Tensor]:
    """Ensembles with equal members, and targets that may equal one."""
    rng = np.random.default_rng(seed)
    rows, members = (int(rng.integers(low, 20)) for low in (1, 2))
    preds = rng.integers(-9, 9, (rows, members)) / 4 + (seed % 3) * 1e6
    return torch.from_numpy(preds), torch.from_numpy(rng.integers(-9, 9, rows) / 4 + (seed % 3) * 1e6)


def by_definition(members: Floats, target: float, fair: bool) -> float:
    size = len(members)
    pairs = sum(abs(float(a) - float(b)) for a in members for b in members)
    return float(np.abs(members - target).mean()) - pairs / (2 * size * (size - 1 if fair else size))


def by_integral(members: Floats, target: float) -> float:
    """The integral of the squared difference of both distribution functions, which are steps."""
    ends = np.sort([*members, target])
    below = np.array([(members <= end).mean() - (target <= end) for end in ends[:-1]])
    return float((below**2 * np.diff(ends)).sum())


@pytest.mark.parametrize("seed", seeds(20))
def test_crps(seed: int) -> None:
    preds, target = drawn(seed)
    pairs = list(zip(preds.numpy(), target.tolist()))
    found = continuous_ranked_probability_score(preds, target).item()
    assert found == pytest.approx(their_crps(preds, target).item(), abs=1e-9)
    assert found == pytest.approx(np.mean([by_definition(*pair, False) for pair in pairs]), abs=1e-9)
    assert found == pytest.approx(np.mean([by_integral(*pair) for pair in pairs]), abs=1e-9)
    fair = continuous_ranked_probability_score(preds, target, fair=True).item()
    assert fair == pytest.approx(np.mean([by_definition(*pair, True) for pair in pairs]), abs=1e-9)
    levels = [(2 * i + 1) / (2 * preds.shape[1]) for i in range(preds.shape[1])]
    assert quantile_crps(preds.sort(1).values, target, levels).item() == pytest.approx(found, abs=1e-9)


def test_a_fair_score_does_not_depend_on_the_size() -> None:
    """The CRPS of N(0, 1) forecasts of N(0, 1) is 1 / sqrt(pi) in the mean."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(40_000, generator=generator)
    for members in (2, 5):
        preds = torch.randn((40_000, members), generator=generator)
        fair, plain = (continuous_ranked_probability_score(preds, target, fair=each).item() for each in (True, False))
        assert fair == pytest.approx(math.pi**-0.5, abs=0.015)
        assert plain == pytest.approx(math.pi**-0.5 * (1 + 1 / members), abs=0.015)


def test_large_numbers_keep_their_differences() -> None:
    preds, target = torch.tensor([[1.0, 2.0, 4.0]]).double(), torch.tensor([2.0]).double()
    near = continuous_ranked_probability_score(preds, target)
    assert continuous_ranked_probability_score(preds + 1e9, target + 1e9) == near


@pytest.mark.parametrize("seed", seeds(8))
def test_pinball(seed: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    levels = sorted(rng.uniform(0.01, 0.99, 3).tolist())
    preds, target = rng.normal(size=(50, 3)), rng.normal(size=50)
    expected = [metrics.mean_pinball_loss(target, preds[:, k], alpha=level) for k, level in enumerate(levels)]
    np.testing.assert_allclose(pinball_loss(preds, target, levels).numpy(), expected, rtol=1e-12)
    for column, level in enumerate(levels):
        assert pinball_loss(preds[:, column], target, level).item() == pytest.approx(expected[column], rel=1e-12)
        assert pinball_loss(preds[:, [column]], target, [level]).item() == pytest.approx(expected[column], rel=1e-12)
    assert quantile_crps(preds, target, levels).item() == pytest.approx(2 * np.mean(expected), rel=1e-12)
    assert pinball_loss(preds[:, 0], target).item() == pytest.approx(np.abs(preds[:, 0] - target).mean() / 2)


def test_names_of_levels() -> None:
    metric = PinballLoss([0.1, 0.25])
    metric.update(torch.tensor([[1.0, 2.0]]), torch.tensor([2.0]))
    assert metric.result().values["PinballLoss"] == {"0.1": 0.1, "0.25": 0.0}
    metric.update(torch.tensor([[1.0, math.nan]]), torch.tensor([2.0]))
    result = metric.result()
    assert result.reasons == {"PinballLoss/0.25": "rows with NaN: 1"} and result.values["PinballLoss"]["0.1"] == 0.1
    assert metric.compute()[0] == pytest.approx(0.1) and metric.compute()[1].isnan()


def test_intervals_of_forecasts() -> None:
    preds = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [2.0, 2.0], [-1.0, 3.0]])
    target = torch.tensor([0.0, 1.0, 1.5, 2.0, -2.0])
    found = interval_coverage(preds, target, 0.8)
    assert {name: value.item() for name, value in found.items()} == pytest.approx(
        {"coverage": 0.6, "mean_width": 7 / 5, "interval_score": (1 + 1 + 6 + 0 + 14) / 5}
    )
    losses = pinball_loss(preds, target, [0.1, 0.9]).sum().item()  # the interval score is that of its ends
    assert found["interval_score"].item() == pytest.approx(losses * 2 / 0.2)
    for place in range(2):
        broken = preds.clone()
        broken[0, place] = math.nan
        assert all(value.isnan() for value in interval_coverage(broken, target, 0.8).values())
    broken = target.index_fill(0, torch.tensor([1]), math.nan)
    found = interval_coverage(preds, broken)
    assert {name for name, value in found.items() if value.isnan()} == {"coverage", "interval_score"}
    infinite = interval_coverage([[-math.inf, 1.0], [math.inf, math.inf]], [0.0, 0.0])
    assert infinite["coverage"] == 0.5 and infinite["interval_score"].isnan()


def test_weighted_interval_score() -> None:
    """Twice the mean pinball loss of median and ends is the weighted interval score of Bracher et al. (2021)."""
    rng = np.random.default_rng(1)
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    preds, target = np.sort(rng.normal(size=(30, 5)), 1), rng.normal(size=30)
    scores = [
        alpha / 2 * interval_coverage(preds[:, [low, high]], target, 1 - alpha)["interval_score"].item()
        for low, high, alpha in ((0, 4, 0.1), (1, 3, 0.5))
    ]
    expected = (np.abs(preds[:, 2] - target).mean() / 2 + sum(scores)) / 2.5
    assert quantile_crps(preds, target, levels).item() == pytest.approx(expected)


KINDS: dict[str, tuple[Any, int]] = {
    "crps": (ContinuousRankedProbabilityScore, 4),
    "fair crps": (lambda **options: ContinuousRankedProbabilityScore(fair=True, **options), 4),
    "pinball": (lambda **options: PinballLoss([0.1, 0.5, 0.9], **options), 3),
    "quantiles": (lambda **options: QuantileCRPS([0.1, 0.5, 0.9], **options), 3),
    "intervals": (IntervalCoverage, 2),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("keep_rows", [False, True])
def test_any_order_and_split_gives_the_same_bits(name: str, keep_rows: bool) -> None:
    make, width = KINDS[name]
    generator = torch.Generator().manual_seed(width)
    preds = torch.randn((307, width), generator=generator).sort(1).values
    target = torch.randn(307, generator=generator)
    whole, parts = make(keep_rows=keep_rows), make(keep_rows=keep_rows)
    whole.update(preds, target)
    for part in torch.randperm(307, generator=generator).split(40):
        parts.update(preds[part], target[part])
    assert content(parts.compute()) == content(whole.compute())
    if keep_rows:
        found = [metric.result(intervals=Bootstrap(20)).intervals for metric in (whole, parts)]
        assert dict(found[0]) == dict(found[1]) and all(each.low < each.high for each in found[0].values())
    else:
        with pytest.raises(InputError, match=r"make the metric with \w+\(keep_rows=True\)"):
            whole.result(intervals=20)


def test_what_does_not_fit_is_refused_before_anything_changes() -> None:
    table, target = torch.zeros(3, 2), torch.zeros(3)
    for metric, preds, match in (
        (ContinuousRankedProbabilityScore(), table[:, :1], "at least 2 members for each row"),
        (ContinuousRankedProbabilityScore(), target, r"preds must have shape \[N, D\] but got \[3\]"),
        (ContinuousRankedProbabilityScore(), table[:2], r"target must have shape \[2\] but got \[3\]"),
        (PinballLoss([0.1, 0.2, 0.3]), table, r"preds must have shape \[N, 3\] but got \[3, 2\]"),
        (QuantileCRPS([0.1]), table, r"preds must have shape \[N, 1\] but got \[3, 2\]"),
        (IntervalCoverage(), torch.zeros(3, 3), r"preds must have shape \[N, 2\] but got \[3, 3\]"),
        (IntervalCoverage(), torch.eye(3)[:, :2], r"but preds\[0\] has the larger number first"),
    ):
        with pytest.raises(InputError, match=match):
            metric.update(preds, target)
        assert metric.counts.sum() == 0 and metric.update_count == 0
    for make, match in (
        (lambda: ContinuousRankedProbabilityScore(fair=1), "fair must be"),  # type: ignore[arg-type]
        (lambda: PinballLoss(1.0), "quantiles must be above 0 and below 1 but got 1"),
        (lambda: PinballLoss([]), "quantiles must hold at least one level"),
        (lambda: PinballLoss([0.5, 1.5]), "quantiles must"),
        (lambda: QuantileCRPS([]), "quantiles must hold at least one level"),
        (lambda: IntervalCoverage(95), "confidence must"),
    ):
        with pytest.raises(InputError, match=match):
            make()
