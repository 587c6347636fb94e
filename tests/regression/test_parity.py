"""Metrics of exact sums beside torchmetrics, scikit-learn and SciPy, on random rows and at the edges."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.functional.regression as their_functions
import torchmetrics.regression as theirs
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu import functional, regression

sk = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")

POSITIVE = ("TweedieDevianceScore", "MeanSquaredLogError")
SINGLE: list[tuple[str, dict[str, Any]]] = [
    ("MeanAbsoluteError", {}),
    ("MeanSquaredError", {}),
    ("MeanSquaredError", {"squared": False}),
    ("MeanSquaredLogError", {}),
    ("MeanAbsolutePercentageError", {}),
    ("SymmetricMeanAbsolutePercentageError", {}),
    ("WeightedMeanAbsolutePercentageError", {}),
    ("LogCoshError", {}),
    *(("MinkowskiDistance", {"p": p}) for p in (1, 1.5, 2, 3)),
    *(("TweedieDevianceScore", {"power": power}) for power in (-1, 0, 1, 1.5, 2, 3)),
    *(("NormalizedRootMeanSquaredError", {"normalization": how}) for how in ("mean", "range", "std", "l2")),
    ("RelativeSquaredError", {}),
    ("RelativeSquaredError", {"squared": False}),
    ("R2Score", {}),
    ("R2Score", {"adjusted": 2}),
    ("ExplainedVariance", {}),
    ("PearsonCorrCoef", {}),
    ("ConcordanceCorrCoef", {}),
    ("CriticalSuccessIndex", {"threshold": 1.5}),
]
SEVERAL: list[tuple[str, dict[str, Any]]] = [
    *((name, {"num_outputs": 3}) for name in ("MeanAbsoluteError", "MeanSquaredError", "LogCoshError")),
    *((name, {"num_outputs": 3}) for name in ("PearsonCorrCoef", "ConcordanceCorrCoef", "RelativeSquaredError")),
    *(
        ("NormalizedRootMeanSquaredError", {"normalization": how, "num_outputs": 3})
        for how in ("mean", "range", "std", "l2")
    ),
    *(
        (name, {"multioutput": how, **more})
        for how in ("raw_values", "uniform_average", "variance_weighted")
        for name, more in (("R2Score", {}), ("R2Score", {"adjusted": 2}), ("ExplainedVariance", {}))
    ),
    ("CriticalSuccessIndex", {"threshold": 1.5, "keep_sequence_dim": 0}),
]
FUNCTIONS = {
    "MeanAbsoluteError": "mean_absolute_error",
    "MeanSquaredError": "mean_squared_error",
    "MeanSquaredLogError": "mean_squared_log_error",
    "MeanAbsolutePercentageError": "mean_absolute_percentage_error",
    "SymmetricMeanAbsolutePercentageError": "symmetric_mean_absolute_percentage_error",
    "WeightedMeanAbsolutePercentageError": "weighted_mean_absolute_percentage_error",
    "LogCoshError": "log_cosh_error",
    "MinkowskiDistance": "minkowski_distance",
    "TweedieDevianceScore": "tweedie_deviance_score",
    "NormalizedRootMeanSquaredError": "normalized_root_mean_squared_error",
    "RelativeSquaredError": "relative_squared_error",
    "R2Score": "r2_score",
    "ExplainedVariance": "explained_variance",
    "PearsonCorrCoef": "pearson_corrcoef",
    "ConcordanceCorrCoef": "concordance_corrcoef",
    "CriticalSuccessIndex": "critical_success_index",
}
INFERRED = ("LogCoshError", "RelativeSquaredError", "PearsonCorrCoef", "ConcordanceCorrCoef")


def rows(seed: int, name: str, shape: tuple[int, ...], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Targets around 2, above 0 where the metric needs that, and predictions near them."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randn(shape, generator=generator, dtype=torch.float64) + 2
    preds = target + torch.randn(shape, generator=generator, dtype=torch.float64) / 2
    if name in POSITIVE:
        target, preds = target.abs() + 0.1, preds.abs() + 0.1
    return preds.to(dtype), target.to(dtype)


def near(ours: Tensor, expected: Any, rtol: float = 1e-9) -> bool:
    """Fails unless both have one shape and equal numbers; returns whether there was a number to compare."""
    expected = torch.as_tensor(expected)
    assert ours.shape == expected.shape
    torch.testing.assert_close(ours.double(), expected.double(), rtol=rtol, atol=rtol, equal_nan=True)
    return bool(expected.numel() and not expected.isnan().all())


@pytest.mark.parametrize("seed", seeds(2))
@pytest.mark.parametrize(("name", "choices"), [*SINGLE, *SEVERAL], ids=str)
def test_batches_give_the_number_of_torchmetrics(name: str, choices: dict[str, Any], seed: int) -> None:
    several = (name, choices) in SEVERAL
    cuts = sorted(np.random.default_rng(seed).integers(1, 39, 2).tolist())
    ours, peer = getattr(regression, name)(**choices), getattr(theirs, name)(**choices)
    for preds, target in zip(*(side.tensor_split(cuts) for side in rows(seed, name, (40, 3) if several else (40,)))):
        if len(preds):
            ours.update(preds.float(), target.float())
            peer.update(preds.float(), target.float())
    near(ours.compute(), peer.compute(), 3e-5)
    assert ours.compute().dtype == torch.float32


@pytest.mark.parametrize(("name", "choices"), [*SINGLE, *SEVERAL], ids=str)
def test_functions_give_the_numbers_of_torchmetrics(name: str, choices: dict[str, Any]) -> None:
    several = (name, choices) in SEVERAL
    given = {key: value for key, value in choices.items() if key != "num_outputs" or name not in INFERRED}
    preds, target = rows(5, name, (30, 3) if several else (30,))
    ours, peer = getattr(functional, FUNCTIONS[name]), getattr(their_functions, FUNCTIONS[name])
    assert near(ours(preds, target, **given), peer(preds, target, **given))
    assert near(ours(preds.float().tolist(), target.numpy(), **given), peer(preds.float().double(), target, **given))


@pytest.mark.parametrize("seed", seeds(3))
def test_scikit_learn_and_scipy_agree(seed: int) -> None:
    preds, target = rows(seed, "MeanSquaredLogError", (50, 2))
    p, t = preds.numpy(), target.numpy()
    expected: list[tuple[str, dict[str, Any], Callable[..., Any]]] = [
        ("MeanAbsoluteError", {"num_outputs": 2}, lambda: sk.mean_absolute_error(t, p, multioutput="raw_values")),
        ("MeanSquaredError", {"num_outputs": 2}, lambda: sk.mean_squared_error(t, p, multioutput="raw_values")),
        ("MeanSquaredLogError", {}, lambda: sk.mean_squared_log_error(t.ravel(), p.ravel())),
        ("MeanAbsolutePercentageError", {}, lambda: sk.mean_absolute_percentage_error(t.ravel(), p.ravel())),
        ("PearsonCorrCoef", {"num_outputs": 2}, lambda: [stats.pearsonr(p[:, i], t[:, i]).statistic for i in (0, 1)]),
        *(
            (name, {"multioutput": how}, lambda function=function, how=how: function(t, p, multioutput=how))
            for how in ("raw_values", "uniform_average", "variance_weighted")
            for name, function in (("R2Score", sk.r2_score), ("ExplainedVariance", sk.explained_variance_score))
        ),
        *(
            ("TweedieDevianceScore", {"power": k}, lambda k=k: sk.mean_tweedie_deviance(t.ravel(), p.ravel(), power=k))
            for k in (-0.5, 0, 1, 1.3, 2, 2.5)
        ),
    ]
    for name, choices, peer in expected:
        metric = getattr(regression, name)(**choices)
        metric.update(preds, target)
        assert metric.compute().dtype == torch.float64
        near(metric.compute(), torch.as_tensor(np.asarray(peer(), np.float64)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int16, torch.int64])
def test_halves_and_integers_are_read_as_they_are(dtype: torch.dtype) -> None:
    preds, target = (torch.randint(1, 30, (40,)).to(dtype) for _ in range(2))
    for name, choices in SINGLE:
        metric, wide = (getattr(regression, name)(**choices) for _ in range(2))
        metric.update(preds, target)
        wide.update(preds.double(), target.double())
        assert metric.compute().dtype == torch.float32
        assert torch.equal(metric.compute(), wide.compute().float())


def test_functions_of_one_column_keep_its_dimension() -> None:
    preds, target = rows(5, "", (20, 1))
    for name in ("r2_score", "explained_variance"):
        ours, peer = getattr(functional, name), getattr(their_functions, name)
        raw = {"multioutput": "raw_values"}
        assert ours(preds, target, **raw).shape == (1,)
        assert near(ours(preds, target, **raw), peer(preds, target, **raw))
        assert near(ours(preds, target), peer(preds, target))
    for name in ("pearson_corrcoef", "concordance_corrcoef", "log_cosh_error", "relative_squared_error"):
        assert near(getattr(functional, name)(preds, target), getattr(their_functions, name)(preds, target))


def test_any_shape_and_layout() -> None:
    preds, target = rows(3, "", (4, 3, 5), torch.float32)
    for name in ("MeanAbsoluteError", "MeanSquaredError", "WeightedMeanAbsolutePercentageError"):
        kind = getattr(regression, name)
        one, other = kind(), kind()
        one.update(preds, target)
        other.update(preds.permute(2, 0, 1), target.permute(2, 0, 1))
        assert torch.equal(one.compute(), other.compute())
        near(one.compute(), getattr(their_functions, FUNCTIONS[name])(preds.flatten(), target.flatten()), 1e-5)
    metric = regression.MeanSquaredError()
    metric.update(torch.tensor(3.0), torch.tensor(1.0))
    assert metric.compute() == 4


def test_numbers_without_rows_or_spread() -> None:
    one, empty = torch.tensor([1.5]), torch.zeros(0)
    flat = torch.tensor([2.0, 2.0, 2.0])
    varied = torch.tensor([1.0, 2.0, 4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, choices in SINGLE:
            for preds, target in ((one, one + 1), (flat, flat), (varied, flat), (flat, varied)):
                if name in ("ConcordanceCorrCoef", "R2Score") and (len(target) == 1 or choices or name[0] == "C"):
                    continue  # other numbers here, see below
                metric, peer = getattr(regression, name)(**choices), getattr(theirs, name)(**choices)
                metric.update(preds, target)
                peer.update(preds, target)
                near(metric.compute(), peer.compute(), 1e-5)
                value = metric.result().scalars()[name]
                assert math.isfinite(value) or metric.result().reason(name)
            metric = getattr(regression, name)(**choices)
            metric.update(empty, empty)
            assert metric.result().reason(name) or name in ("MinkowskiDistance", "CriticalSuccessIndex")


def test_stand_ins_of_r2_are_those_of_scikit_learn() -> None:
    for preds, expected in (([2.0, 2.0], 1.0), ([2.0, 3.0], 0.0)):
        metric = regression.R2Score()
        metric.update(torch.tensor(preds), torch.tensor([2.0, 2.0]))
        assert metric.compute() == expected == sk.r2_score([2.0, 2.0], preds)
        assert math.isnan(metric.result().scalars()["R2Score"])
        assert metric.result().reason("R2Score") == "the target is constant"
    adjusted = regression.R2Score(adjusted=2)
    adjusted.update(torch.tensor([1.0, 2.0, 4.0]), torch.tensor([1.0, 2.0, 3.0]))
    assert adjusted.compute() == 0.5
    assert adjusted.result().reason("R2Score") == "3 rows are too few for 2 regressors"
    alone = regression.R2Score()
    alone.update(torch.tensor([1.0]), torch.tensor([1.0]))
    assert alone.compute().isnan()
    assert alone.result().reason("R2Score") == "fewer than two rows"


def test_concordance_of_one_constant_side_is_0() -> None:
    metric = regression.ConcordanceCorrCoef()
    metric.update(torch.tensor([2.0, 2.0]), torch.tensor([1.0, 4.0]))
    assert metric.compute() == 0


def test_nan_and_infinity_are_counted_and_shown() -> None:
    preds, target = torch.tensor([1.0, math.nan, 3.0]), torch.tensor([1.0, 2.0, math.inf])
    for name, choices in SINGLE:
        metric = getattr(regression, name)(**choices)
        metric.update(preds[:2], target[:2])
        assert metric.compute().isnan(), name
        assert "NaN" in str(metric.result().reason(name))
    for name, expected in (("MeanAbsoluteError", math.inf), ("MeanSquaredError", math.inf), ("R2Score", math.nan)):
        metric = getattr(regression, name)()
        metric.update(preds[::2], target[::2])
        result = metric.result()
        assert repr(metric.compute().item()) == repr(expected)
        assert result.counts["rows"] == 2 and result.counts["nan_rows"] + result.counts["infinite_rows"] == 1
        assert result.reason(name)
    infinite = regression.R2Score()
    infinite.update(torch.tensor([1.0, math.inf]), torch.tensor([1.0, 2.0]))
    assert infinite.compute() == -math.inf
