"""Means of exact sums by the library: the bits of the quotient of whole numbers of Python."""

from __future__ import annotations

import math
import random
from typing import Any
from unittest import mock

import pytest
import torch

from tests.contents import content
from tests.fuzz import seeds
from valor_gpu import native, plans
from valor_gpu.reduce.exact_sums import exact, quotient, unit
from valor_gpu.regression import KLDivergence, MeanAbsoluteError, MeanSquaredError, sums_base
from valor_gpu.regression.plans import mean_of_sum

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason="the C++ library is not built")
LIMBS = (24, 136)


def tensor_of(number: int, limbs: int) -> torch.Tensor:
    """A number of units as limbs, the last of which has the sign."""
    digits = [number >> 32 * place & 0xFFFFFFFF for place in range(limbs - 1)]
    return torch.tensor([*digits, number >> 32 * (limbs - 1)])


def mean(sums: torch.Tensor, rows: int, differences: bool = False) -> torch.Tensor | None:
    """The native mean in float64."""
    state = dict(MeanAbsoluteError().__dict__)
    counts, mark = torch.tensor([[rows, 0, 0, 0]]), torch.tensor(0, dtype=torch.int8)
    return mean_of_sum({**state, "sums": sums, "counts": counts, "mark": mark}, "mark", differences)


def assert_rounded(number: int, rows: int, limbs: int) -> None:
    found = mean(tensor_of(number, limbs)[None, None], rows)
    expected = quotient(number, rows << 16 * limbs)
    assert found is not None and content(found) == content(torch.tensor(expected, dtype=torch.float64)), (number, rows)


@pytest.mark.smoke
@pytest.mark.parametrize("limbs", LIMBS)
@pytest.mark.parametrize("seed", seeds(3))
def test_means_are_rounded_once(seed: int, limbs: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        number = rng.getrandbits(rng.randint(1, 32 * limbs - 8)) * rng.choice((-1, 1))
        assert_rounded(number, rng.randint(1, 2 ** rng.randint(1, 53)), limbs)


@pytest.mark.parametrize("limbs", LIMBS)
def test_ties_and_ends(limbs: int) -> None:
    one = 1 << 16 * limbs
    for number in (0, 1, -1, one, 2 * one - 1, (2**53 + 1) * one, (2**53 + 3) * one, (2**53 + 1) * one + 1):
        for rows in (1, 2, 3, 2**53, 2**53 - 1):
            assert_rounded(number, rows, limbs)
    least = max(one >> 1074, 1)
    for number in (least >> 1, least // 2 + 1, 3 * (least >> 1), 5 * (least >> 1) - 1, one >> 1022, (one >> 1022) - 1):
        assert_rounded(number, 1, limbs)
    if limbs == max(LIMBS):
        top = (2**53 - 1) << 971
        for number in (top, top + (1 << 969), top + (1 << 970), 1 << 1030):
            assert_rounded(number * one, 1, limbs)


@pytest.mark.parametrize("seed", seeds(3))
def test_limbs_of_any_sign_and_differences(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for limbs in LIMBS:
        sums = torch.randint(-(2**62), 2**62, (2, limbs), generator=generator)
        sums[:, int(torch.randint(4, limbs, (1,), generator=generator)) :] = 0
        first, second = exact(sums)
        found, difference = mean(sums[:1, None], 7), mean(sums, 7, differences=True)
        assert found is not None and difference is not None
        assert float(found) == quotient(first, 7 * unit(sums))
        assert float(difference) == quotient(first - second, 7 * unit(sums))


def test_compute_gives_the_same_either_way() -> None:
    generator = torch.Generator().manual_seed(0)
    makers: tuple[Any, ...] = (MeanAbsoluteError, MeanSquaredError, KLDivergence, lambda: MeanSquaredError(False))
    for make in makers:
        for dtype in (torch.float32, torch.float64):
            metric = make()
            metric.update(*torch.rand((2, 9, 1), generator=generator).to(dtype))
            value, metric._computed = metric.compute(), None
            with plans.checked_only():
                assert content(metric.compute()) == content(value)


def test_bad_rows_and_no_rows_are_left_to_python() -> None:
    metric = MeanAbsoluteError()
    with mock.patch.object(sums_base, "mean_of_sum", wraps=mean_of_sum) as called:
        metric.update(torch.tensor([1.0, math.inf]), torch.tensor([0.0, 0.0]))
        assert metric.compute() == math.inf
        assert called.call_count == 1
        metric.update(torch.tensor([math.nan]), torch.tensor([0.0]))
        assert metric.compute().isnan()
    assert mean(torch.zeros((1, 1, 24), dtype=torch.int64), 0) is None
