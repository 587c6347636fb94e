"""Small updates of the critical success index: one native call has the counts of the checked path."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu import native, plans
from valor_gpu.regression import CriticalSuccessIndex

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64)


def both(threshold: float, preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Counts after two updates: as they are, and by the checked path alone."""
    metric, checked = CriticalSuccessIndex(threshold), CriticalSuccessIndex(threshold)
    for each in (metric, checked):
        each.update(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]))
    metric.update(preds, target)
    with plans.checked_only():
        checked.update(preds, target)
    return metric.state().events, checked.state().events


@pytest.mark.smoke
@pytest.mark.parametrize("seed", seeds(4))
def test_plans_count_as_the_checked_path_does(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for first in DTYPES:
        for second in DTYPES:
            shape = (int(torch.randint(1, 30, (1,), generator=generator)), 2)
            preds, target = ((10 * torch.rand(shape, generator=generator)).round() / 10 for _ in range(2))
            preds[0, 0], target[-1, 0] = math.nan, math.nan
            preds[-1, 1], target[-1, 1] = math.inf, -math.inf
            sides = [
                side.nan_to_num(0, 1, 0).to(dtype) if dtype == torch.int64 else side.to(dtype)
                for side, dtype in ((preds, first), (target, second))
            ]
            for threshold in (0.1, 0.7, 0.0, -1.0):
                mine, expected = both(threshold, sides[0], sides[1])
                assert torch.equal(mine, expected), (first, second, threshold)


@pytest.mark.skipif(not native.available("valor_cpu"), reason="the C++ library is not built")
def test_small_updates_take_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = CriticalSuccessIndex(0.1)
    monkeypatch.setattr(metric, "_add", None)  # the checked path would call it
    number = torch.tensor([0.1], dtype=torch.float32)
    metric.update(number, number)
    assert metric.state().events.tolist() == [1, 0, 0, 0, 0]  # 0.1 is compared as float32
    metric.update(number.double(), number)
    assert metric.state().events.tolist() == [2, 0, 0, 0, 0]


def test_a_new_threshold_makes_a_new_plan() -> None:
    metric = CriticalSuccessIndex(0.5)
    half = torch.tensor([0.5])
    metric.update(half, half)
    metric.threshold = 0.75
    metric.update(half, half)
    assert metric.state().events.tolist() == [1, 0, 0, 1, 0]


@pytest.mark.parametrize("seed", seeds(3))
def test_plans_of_sequences_count_as_the_checked_path_does(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    shape = tuple(torch.randint(1, 5, (3,), generator=generator).tolist())
    preds, target = torch.rand((2, *shape), generator=generator)
    preds[0, 0, 0] = math.nan
    for dimension in range(3):
        metric, checked = (CriticalSuccessIndex(0.5, keep_sequence_dim=dimension) for _ in range(2))
        for dtype in (torch.float32, torch.float64):
            metric(preds.to(dtype), target.to(dtype))
            with plans.checked_only():
                checked.update(preds.to(dtype), target.to(dtype))
        assert torch.equal(metric.state().events, checked.state().events)


@pytest.mark.skipif(not native.available("valor_cpu"), reason="the C++ library is not built")
def test_sequences_take_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    metric = CriticalSuccessIndex(0.5, keep_sequence_dim=1)
    monkeypatch.setattr(metric, "_add", None)  # the checked path would call it
    metric.update(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    assert metric.state().events.tolist() == [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
