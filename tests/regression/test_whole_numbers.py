"""int64 numbers that float64 rounds: errors of whole numbers are exact, anything else is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from valor_gpu import regression
from valor_gpu.errors import InputError
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.regression.whole_numbers import exact_differences, held_by_float64, rounding_error

EDGE = 2**53
NANOSECONDS = 1_795_680_374_000_000_001
LEAST, LARGEST = -(2**63), 2**63 - 1

OF_DIFFERENCES: list[tuple[str, dict[str, Any], Any]] = [
    ("MeanAbsoluteError", {}, lambda e: sum(map(abs, e)) / len(e)),
    ("MeanSquaredError", {}, lambda e: sum(v * v for v in e) / len(e)),
    ("MinkowskiDistance", {"p": 3}, lambda e: sum(abs(v) ** 3 for v in e) ** (1 / 3)),
    ("LogCoshError", {}, lambda e: sum(math.log(math.cosh(v)) for v in e) / len(e)),
]
REFUSING: list[tuple[str, dict[str, Any]]] = [
    ("R2Score", {}),
    ("PearsonCorrCoef", {}),
    ("WeightedMeanAbsolutePercentageError", {}),
    ("MeanAbsolutePercentageError", {}),
    ("TweedieDevianceScore", {}),
    ("SpearmanCorrCoef", {}),
    ("KendallRankCorrCoef", {}),
    ("MeanAbsoluteError", {"keep_rows": True}),
]
FORECASTS: list[tuple[str, dict[str, Any], int]] = [
    ("ContinuousRankedProbabilityScore", {}, 2),
    ("PinballLoss", {"quantiles": [0.1, 0.9]}, 2),
    ("QuantileCRPS", {"quantiles": [0.1, 0.9]}, 2),
    ("IntervalCoverage", {}, 2),
]


def made(name: str, choices: dict[str, Any]) -> Any:
    return getattr(regression, name)(**choices)


@pytest.mark.parametrize(("name", "choices", "expected"), OF_DIFFERENCES, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("start", [NANOSECONDS, -NANOSECONDS, LARGEST - 20, LEAST + 20, EDGE])
def test_errors_of_int64_are_exact(name: str, choices: dict[str, Any], expected: Any, start: int) -> None:
    errors = [0, 1, -3, 7, 2]
    target = torch.full((5,), start)
    metric, whole = made(name, choices), made(name, choices)
    metric.update(target + torch.tensor(errors), target)
    whole.update(torch.tensor(errors), torch.zeros(5, dtype=torch.int32))
    assert metric.result().values[name] == whole.result().values[name] == pytest.approx(expected(errors), rel=1e-12)
    assert metric.compute().dtype == torch.float32


def test_errors_beside_another_whole_dtype_are_exact() -> None:
    metric = regression.MeanAbsoluteError()
    metric.update(torch.tensor([EDGE + 1, 5]), torch.tensor([2, 5], dtype=torch.int32))
    assert metric.result().values["MeanAbsoluteError"] == (EDGE - 1) / 2


@pytest.mark.parametrize(("name", "choices"), REFUSING, ids=str)
@pytest.mark.parametrize("bad", [EDGE + 1, -EDGE - 1, LEAST, LARGEST])
def test_what_float64_rounds_is_refused_before_anything_changes(name: str, choices: dict[str, Any], bad: int) -> None:
    metric, fine = made(name, choices), torch.tensor([3, 1, EDGE, 2])
    metric.update(fine, fine.flip(0))
    before = metric.to_bytes()
    with pytest.raises(InputError, match=r"target must be at most 2\^53 in size but row 2 is larger"):
        metric.update(fine, torch.tensor([3, 1, bad, 2]))
    with pytest.raises(InputError, match=r"preds must be at most 2\^53 in size but row 1 is larger"):
        metric.update(torch.tensor([3, bad, 1, 2]), fine)
    assert metric.to_bytes() == before


@pytest.mark.parametrize("other", [torch.float32, torch.float64])
def test_int64_beside_floats_is_refused(other: torch.dtype) -> None:
    metric, target = regression.MeanSquaredError(), torch.tensor([1, EDGE + 2])
    with pytest.raises(InputError, match=r"target must be at most .* row 1 is larger: pass float64 to have it rounded"):
        metric.update(torch.ones(2, dtype=other), target)
    metric.update(torch.ones(2, dtype=other), target.double())
    assert metric.result().values["MeanSquaredError"] == EDGE**2 / 2


@pytest.mark.parametrize("pair", [(LARGEST, -1), (LEAST, 1), (LEAST, LARGEST), (EDGE, -1), (-EDGE, 1)])
def test_errors_beyond_float64_are_refused(pair: tuple[int, int]) -> None:
    preds, target = (torch.tensor([0, EDGE + 1, value]) for value in pair)
    if max(map(abs, pair)) <= EDGE:  # the numbers themselves decide which way they go
        target[1] = EDGE + 3
    with pytest.raises(InputError, match=r"differ by at most 2\^53 but those of row 2 do not"):
        regression.MeanAbsoluteError().update(preds, target)


@pytest.mark.parametrize(("name", "choices", "columns"), FORECASTS, ids=str)
def test_forecasts_refuse_what_float64_rounds(name: str, choices: dict[str, Any], columns: int) -> None:
    preds, target = torch.tensor([[1, 2], [3, EDGE]]), torch.tensor([1, 5])
    metric = made(name, choices)
    metric.update(preds, target)
    with pytest.raises(InputError, match=r"target must be at most .* row 0"):
        metric.update(preds, torch.tensor([LEAST, 5]))
    with pytest.raises(InputError, match=r"preds must be at most .* row 1"):
        metric.update(torch.tensor([[1, 2], [3, EDGE + 1]]), target)


@pytest.mark.parametrize("value", [EDGE, -EDGE, EDGE + 1, -EDGE - 1, LEAST, LARGEST])
def test_both_sides_of_the_edge(value: int) -> None:
    side = torch.tensor([[0, 1], [value, 2]])
    held = abs(value) <= EDGE
    assert held_by_float64(side) == held
    assert (rounding_error((side, side)) is None) == held
    assert held_by_float64(side.double())
    assert held_by_float64(side[:0])
    many = side.repeat(100, 1)
    assert held_by_float64(many) == held
    assert (rounding_error((many, many)) is None) == held
    difference, error = exact_differences(side, torch.zeros_like(side))
    assert torch.equal(difference, side)
    assert (int(error) == NO_ERROR) == held


@pytest.mark.parametrize("kind", [regression.MeanSquaredError, regression.R2Score, regression.MinkowskiDistance])
def test_small_updates_of_int64_still_take_plans(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    metric, small = kind(*(2,) * (kind is regression.MinkowskiDistance)), torch.arange(4)

    def checked(preds: Tensor, target: Tensor, name: str = "target") -> None:
        raise AssertionError("the checked path served a small batch")

    monkeypatch.setattr(metric, "_add_rows", checked)
    metric.update(small, small + 1)
    with pytest.raises(AssertionError, match="checked path"):
        metric.update(small + EDGE, small)


@pytest.mark.parametrize(
    ("name", "choices", "words"),
    [
        ("R2Score", {}, "target must be at most"),
        ("MeanAbsoluteError", {}, "differ by at most"),
        ("SpearmanCorrCoef", {}, "target must be at most"),
        ("PinballLoss", {}, "target must be at most"),
        ("IntervalCoverage", {}, "target must be at most"),
    ],
)
def test_on_a_device_compute_refuses(
    name: str, choices: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way of CUDA tensors, whose errors nobody reads in ``update``."""
    for module in ("sums_base", "pair_rows", "row_means"):
        monkeypatch.setattr(f"valor_gpu.regression.{module}.raise_or_defer", lambda error, describe: error)
    metric = made(name, choices)
    preds = torch.tensor([[0, 1], [1, 2]]) if name == "IntervalCoverage" else torch.tensor([1, 2])
    metric.update(preds, torch.tensor([EDGE + 3, 1]))
    with pytest.raises(InputError, match=words):
        metric.compute()
