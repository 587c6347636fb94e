"""Softmax and sigmoid of float64 scores: close to the exact values, the same in the metrics, NaN where torch has it."""

from __future__ import annotations

import decimal

import numpy as np
import pytest
import torch

from valor_gpu import native
from valor_gpu.ops.activation.cpu import activated as activated_array
from valor_gpu.ops.activation.op import activated

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason=native.reason("valor_cpu"))

LOGITS = np.random.default_rng(0).normal(size=(40, 5)) * 6
EDGES = [
    [np.nan, 1.0],
    [np.inf, 1.0],
    [-np.inf, -np.inf],
    [-np.inf, 0.0],
    [1e300, -1e300],
    [-0.0, 0.0],
    [800.0, -800.0],
]


def test_values_are_as_near_the_exact_ones_as_differences_of_scores() -> None:
    softmax, sigmoid = (activated_array(LOGITS, how) for how in ("softmax", "sigmoid"))
    unit = decimal.Decimal(2) ** -52
    with decimal.localcontext(prec=40):
        for row, shares, parts in zip(LOGITS.tolist(), softmax.tolist(), sigmoid.tolist()):
            powers = [decimal.Decimal(x).exp() for x in row]
            for x, power, share, part in zip(row, powers, shares, parts):
                whole, spread = sum(powers), decimal.Decimal(max(row) - x)  # which is rounded to half a unit
                assert abs(decimal.Decimal(share) - power / whole) <= power / whole * unit * (3 + spread / 2)
                assert abs(decimal.Decimal(part) - power / (1 + power)) <= power / (1 + power) * unit * 2


@pytest.mark.parametrize("how", ["softmax", "sigmoid"])
@pytest.mark.parametrize("rows", [0, 1, 31, 5000])
def test_shapes_and_layouts(how: str, rows: int) -> None:
    logits = np.random.default_rng(rows).normal(size=(7, rows)).T  # not contiguous; 5,000 rows are split over threads
    found = activated_array(logits, how)
    expected = getattr(torch, how)(torch.from_numpy(logits), *([1] if how == "softmax" else []))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-14)
    np.testing.assert_array_equal(found, activated(torch.from_numpy(logits), how).numpy())
    if rows:
        np.testing.assert_array_equal(found[-1:], activated_array(logits[-1:], how))


@pytest.mark.parametrize("how", ["softmax", "sigmoid"])
def test_edges(how: str) -> None:
    edges = torch.tensor(EDGES, dtype=torch.float64)
    expected = edges.softmax(1) if how == "softmax" else edges.sigmoid()
    torch.testing.assert_close(activated(edges, how), expected, rtol=1e-14, atol=1e-300, equal_nan=True)


def test_sigmoid_keeps_the_shape() -> None:
    assert activated(torch.zeros(3, 4, 5, dtype=torch.float64), "sigmoid").tolist() == [[[0.5] * 5] * 4] * 3


def test_transforms_of_torch_take_the_functions_of_torch() -> None:
    logits = torch.from_numpy(LOGITS)[:, None]
    found = torch.func.vmap(lambda row: activated(row, "softmax"))(logits)
    torch.testing.assert_close(found, logits.softmax(2), rtol=0, atol=0)
