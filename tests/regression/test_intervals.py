"""Intervals of metrics of exact sums, beside replicates that the metric computes itself, and pairs of models."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from valor_gpu import regression
from valor_gpu.comparison import compare
from valor_gpu.errors import InputError
from valor_gpu.stats.draws import Draws

CHOICES: list[tuple[str, dict[str, Any]]] = [
    ("MeanAbsoluteError", {}),
    ("MeanSquaredError", {"num_outputs": 2}),
    ("MeanSquaredError", {"squared": False}),
    ("MeanSquaredLogError", {}),
    ("MeanAbsolutePercentageError", {}),
    ("SymmetricMeanAbsolutePercentageError", {}),
    ("WeightedMeanAbsolutePercentageError", {}),
    ("LogCoshError", {}),
    ("MinkowskiDistance", {"p": 3}),
    ("TweedieDevianceScore", {"power": 1.5}),
    *(("NormalizedRootMeanSquaredError", {"normalization": how}) for how in ("mean", "std", "l2")),
    ("RelativeSquaredError", {"num_outputs": 2}),
    ("R2Score", {"adjusted": 2}),
    *(("R2Score", {"multioutput": how}) for how in ("raw_values", "uniform_average", "variance_weighted")),
    ("ExplainedVariance", {"multioutput": "variance_weighted"}),
    ("PearsonCorrCoef", {"num_outputs": 2}),
    ("ConcordanceCorrCoef", {}),
]


def rows(seed: int, choices: dict[str, Any], size: int = 40) -> tuple[Tensor, Tensor]:
    """Predictions and targets above 0, of two outputs where the metric has them."""
    generator = torch.Generator().manual_seed(seed)
    shape = (size, 2) if {"num_outputs", "multioutput"} & choices.keys() else (size,)
    target = torch.rand(shape, generator=generator, dtype=torch.float64) * 4 + 1
    return target + torch.rand(shape, generator=generator, dtype=torch.float64), target


@pytest.mark.parametrize(("name", "choices"), CHOICES, ids=str)
def test_replicates_are_numbers_of_repeated_rows(name: str, choices: dict[str, Any]) -> None:
    preds, target = rows(0, choices)
    metric = getattr(regression, name)(**choices, keep_rows=True)
    metric.update(preds, target)
    state = vars(metric.result())["_state"]()
    found, weights = state.replicates(Draws(40, 3)), Draws(40, 3).array()
    order = torch.from_numpy(state._order)
    for lane in range(3):
        again = getattr(regression, name)(**choices)
        repeats = torch.from_numpy(weights[:, lane].astype(np.int64))
        again.update(*(side[order].repeat_interleave(repeats, 0) for side in (preds, target)))
        values = again.compute().reshape(-1)
        expected = {name if len(values) == 1 else f"{name}/{i}": float(v) for i, v in enumerate(values)}
        for leaf, value in expected.items():
            assert math.isclose(found[leaf][lane], value, rel_tol=1e-9), leaf


def test_intervals_hold_the_number_and_need_rows() -> None:
    preds, target = rows(1, {}, 100)
    metric = regression.PearsonCorrCoef(keep_rows=True)
    metric.update(preds, target)
    result = metric.result(intervals=100)
    found = result.intervals["PearsonCorrCoef"]
    assert found.low < result.scalars()["PearsonCorrCoef"] < found.high <= 1
    with pytest.raises(InputError, match=r"make the metric with R2Score\(keep_rows=True\)"):
        regression.R2Score().result(intervals=10)
    metric.update(torch.tensor([math.nan]), torch.tensor([1.0]))
    with pytest.raises(InputError, match="need finite rows but row 100 of preds is"):
        metric.result(intervals=10)
    ranged = regression.NormalizedRootMeanSquaredError("range", keep_rows=True)
    ranged.update(preds, target)
    assert "two rows alone" in ranged.result(intervals=10).intervals["NormalizedRootMeanSquaredError"].reason


def test_two_models_are_paired_by_row() -> None:
    preds, target = rows(2, {}, 60)
    for name in ("MeanAbsoluteError", "R2Score"):
        results = []
        for shift in (0.0, 0.5):
            metric = getattr(regression, name)(keep_rows=True)
            metric.update(preds * (1 + shift), target)
            results.append(metric.result())
        found = compare(*results, replicates=200)
        first, second = (result.scalars()[name] for result in results)
        assert found.values["difference"][name] == second - first
        interval = found.intervals[f"difference/{name}"]
        assert interval.low < second - first < interval.high, name
        assert found.values["p"][name] < 0.01
    with pytest.raises(InputError, match="both sides must have the same"):
        metric.update(preds, target)
        compare(results[0], metric.result(), replicates=10)


def test_critical_success_resamples_its_cells() -> None:
    preds, target = rows(3, {}, 80)
    metric = regression.CriticalSuccessIndex(3.0)
    metric.update(preds, target)
    result = metric.result(intervals=100)
    interval = result.intervals["CriticalSuccessIndex"]
    assert interval.low < result.scalars()["CriticalSuccessIndex"] < interval.high
