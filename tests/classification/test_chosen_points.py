"""OperatingPoint, ExpectedCost and CostCurve: by a walk over all thresholds, and beside their fixed relatives."""

from __future__ import annotations

import json
import math
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu.classification import (
    CostCurve,
    ExpectedCost,
    OperatingPoint,
    PrecisionAtFixedRecall,
    RecallAtFixedPrecision,
    SensitivityAtSpecificity,
    SpecificityAtSensitivity,
)
from valor_gpu.errors import InputError

mpl.use("Agg")


def fed(metric: Any, *batch: Any) -> Any:
    metric.update(*batch)
    return metric


def drawn(seed: int, rows: int = 150, levels: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(rows, generator=generator)
    target = (torch.rand(rows, generator=generator) < 0.2 + 0.6 * scores).long()
    return ((scores * levels).round() / levels if levels else scores), target


def walk(scores: Tensor, target: Tensor) -> list[dict[str, float]]:
    """Counts and rates at every threshold, the highest first."""
    s, y = scores.double().numpy(), target.numpy()
    found = []
    for t in (math.inf, *np.unique(s)[::-1]):
        tp, fp = int(((s >= t) & (y == 1)).sum()), int(((s >= t) & (y == 0)).sum())
        p, n = int(y.sum()), int((1 - y).sum())
        found.append(
            dict(
                threshold=t, tp=tp, fp=fp, fn=p - tp,
                precision=tp / (tp + fp) if tp + fp else math.nan, recall=tp / p, specificity=(n - fp) / n,
                youden=(tp * n - fp * p) / (p * n), fbeta=5 * tp / (5 * tp + 4 * (p - tp) + fp),
            )
        )  # fmt: skip
    return found


def best(rows: list[dict[str, float]], objective: str, limits: dict[str, float]) -> dict[str, float] | None:
    fits = [r for r in rows if not math.isnan(r[objective]) and all(r[name] >= least for name, least in limits.items())]
    return max(fits, key=lambda r: (r[objective], r["recall"], r["threshold"])) if fits else None


@pytest.mark.parametrize("objective", ["precision", "recall", "specificity", "fbeta", "youden"])
@pytest.mark.parametrize("levels", [0, 8])
def test_operating_points_are_those_of_a_walk(objective: str, levels: int) -> None:
    for seed in seeds(2):
        scores, target = drawn(seed, levels=levels)
        rows = walk(scores, target)
        for limits in (
            {}, {"precision": 0.7}, {"recall": 0.5}, {"specificity": 0.6}, {"precision": 0.6, "specificity": 0.5},
            {"precision": 0.6, "recall": 0.3, "specificity": 0.3}, {"precision": 1.0, "recall": 1.0},
        ):  # fmt: skip
            named = {f"min_{name}": least for name, least in limits.items()}
            metric = fed(OperatingPoint(objective=objective, beta=2.0, **named), scores, target)
            values, expected = metric.result().values, best(rows, objective, limits)
            if expected is None:
                assert all(math.isnan(value) for value in values.values())
                assert "min_precision=1" in str(metric.result().reason("OperatingPoint"))
                continue
            assert values["OperatingPoint"] == pytest.approx(expected[objective], rel=1e-15)
            for name in ("precision", "recall", "specificity", "threshold"):
                assert values[name] == pytest.approx(expected[name], rel=1e-15, nan_ok=True), name
            value, threshold = metric.compute()
            assert float(value) == pytest.approx(expected[objective]) and float(threshold) == expected["threshold"]


def test_are_those_of_metrics_of_one_limit() -> None:
    for seed in seeds(3):
        batch = drawn(seed)
        for mine, other in (
            (OperatingPoint(objective="recall", min_precision=0.7), RecallAtFixedPrecision(min_precision=0.7)),
            (OperatingPoint(objective="precision", min_recall=0.7), PrecisionAtFixedRecall(min_recall=0.7)),
            (OperatingPoint(objective="recall", min_specificity=0.7), SensitivityAtSpecificity(min_specificity=0.7)),
            (OperatingPoint(objective="specificity", min_recall=0.7), SpecificityAtSensitivity(min_sensitivity=0.7)),
        ):
            assert float(fed(mine, *batch).compute()[0]) == float(fed(other, *batch).compute()[0])


def test_the_best_f_score_is_that_of_scikit_learn() -> None:
    scores, target = drawn(4)
    value, threshold = fed(OperatingPoint(objective="fbeta", beta=0.5), scores, target).compute()
    every = [sk.fbeta_score(target, scores >= t, beta=0.5) for t in scores.unique()]
    assert float(value) == pytest.approx(max(every))
    assert sk.fbeta_score(target, scores >= threshold, beta=0.5) == pytest.approx(float(value))


@pytest.mark.parametrize("prior", [None, 0.1, 0.75])
def test_costs_are_those_of_a_walk(prior: float | None) -> None:
    for seed in seeds(3):
        scores, target = drawn(seed, levels=20)
        rows, n, p = walk(scores, target), len(target), int(target.sum())
        for fp, fn in ((1.0, 1.0), (1.0, 10.0), (7.0, 0.5), (0.0, 1.0)):
            values = fed(ExpectedCost(cost_fp=fp, cost_fn=fn, prior=prior), scores, target).result().values
            share = p / n if prior is None else prior

            costs = [fn * share * row["fn"] / p + fp * (1 - share) * row["fp"] / (n - p) for row in rows]
            assert values["ExpectedCost"] == pytest.approx(min(costs), rel=1e-12)
            chosen = next(place for place, row in enumerate(rows) if row["threshold"] == values["threshold"])
            assert costs[chosen] == pytest.approx(min(costs), rel=1e-12)
            assert values["recall"] == rows[chosen]["recall"]
            assert values["default"] == pytest.approx(min(fn * share, fp * (1 - share)), rel=1e-12)
            assert values["normalized"] == pytest.approx(min(costs) / (fn * share + fp * (1 - share)), rel=1e-12)


def test_equal_costs_are_the_error_rate() -> None:
    scores, target = drawn(1)
    value, threshold = fed(ExpectedCost(), scores, target).compute()
    assert float(value) == pytest.approx(1 - sk.accuracy_score(target, scores >= threshold))


@pytest.mark.parametrize("points", [2, 11, 64])
def test_cost_curves_are_the_lower_envelope(points: int) -> None:
    for seed in seeds(3):
        scores, target = drawn(seed, levels=0 if seed else 6)
        rows = walk(scores, target)
        p, n = int(target.sum()), int((1 - target).sum())
        across, costs = fed(CostCurve(points=points), scores, target).compute()
        for pc, cost in zip(np.linspace(0, 1, points), costs.tolist()):
            assert cost == pytest.approx(min(row["fn"] / p * pc + row["fp"] / n * (1 - pc) for row in rows), abs=1e-7)
        assert across.tolist() == pytest.approx(np.linspace(0, 1, points).tolist())


def test_a_cost_curve_holds_the_expected_costs() -> None:
    batch = drawn(2)
    curve = fed(CostCurve(points=5), *batch).result().values
    for pc, cost in zip(curve["probability_cost"][1:-1], curve["normalized_cost"][1:-1]):
        found = fed(ExpectedCost(cost_fn=pc, cost_fp=1 - pc, prior=0.5), *batch).result().values["normalized"]
        assert cost == pytest.approx(found, rel=1e-12)


def test_areas_of_who_knows_all_and_who_knows_nothing() -> None:
    target = torch.tensor([0, 1, 0, 1])
    assert fed(CostCurve(), target.float(), target).result().values["area"] == 0
    assert fed(CostCurve(), torch.full((4,), 0.5), target).result().values["area"] == pytest.approx(0.25)


def test_classes_labels_and_bins() -> None:
    generator = torch.Generator().manual_seed(0)
    scores, target = torch.rand(100, 3, generator=generator), torch.randint(2, (100, 3), generator=generator)
    for make in (
        lambda **size: OperatingPoint(objective="youden", **size), lambda **size: ExpectedCost(cost_fn=3.0, **size),
    ):  # fmt: skip
        value, threshold = fed(make(num_labels=3), scores, target).compute()
        for c in range(3):
            one = fed(make(), scores[:, c], target[:, c]).compute()
            assert (float(value[c]), float(threshold[c])) == tuple(map(float, one))
        grid = torch.unique(torch.cat((scores.flatten(), torch.tensor([0.0]))))
        binned = fed(make(num_labels=3, thresholds=grid), scores, target)
        torch.testing.assert_close(binned.compute()[0], value)
        with pytest.raises(InputError, match="need the scores: thresholds=None keeps them"):
            binned.result(intervals=9)
    curves = fed(CostCurve(num_labels=3, points=7), scores, target).compute()[1]
    assert torch.equal(curves[1], fed(CostCurve(points=7), scores[:, 1], target[:, 1]).compute()[1])


def test_weights_stand_for_copies() -> None:
    scores, target = drawn(5, 60)
    copies = torch.arange(60) % 3
    for make in (lambda: OperatingPoint(objective="youden"), lambda: ExpectedCost(cost_fn=2.0)):
        weighted = fed(make(), scores, target, copies.double()).result().values
        repeated = fed(make(), scores.repeat_interleave(copies), target.repeat_interleave(copies)).result().values
        assert dict(weighted) == pytest.approx(dict(repeated), rel=1e-12)


def test_intervals_are_of_the_value() -> None:
    batch = drawn(6, 300)
    for metric, name in (
        (OperatingPoint(objective="youden"), "OperatingPoint"),
        (ExpectedCost(cost_fn=2.0), "normalized"),
        (CostCurve(points=21), "area"),
    ):
        found = fed(metric, *batch).result(intervals=40)
        assert found.intervals[name].low < found.values[name] < found.intervals[name].high


def test_above_all_scores_lies_infinity() -> None:
    metric = fed(ExpectedCost(cost_fp=100.0), torch.tensor([0.5, 0.25, 0.75]), torch.tensor([1, 1, 0]))
    result = metric.result()
    assert result.values["threshold"] == math.inf and result.values["recall"] == 0
    assert result.reason("precision") == "there is nothing to divide by"
    assert json.loads(json.dumps(result.to_dict()))
    assert float(metric.compute()[1]) == math.inf


def test_one_class_alone() -> None:
    ones = (torch.tensor([0.5, 0.75]), torch.tensor([1, 1]))
    assert fed(OperatingPoint(objective="recall"), *ones).result().values["OperatingPoint"] == 1
    for metric in (OperatingPoint(objective="youden"), OperatingPoint(min_specificity=0.5), ExpectedCost(prior=0.5)):
        name, result = type(metric).__name__, fed(metric, *ones).result()
        assert math.isnan(result.values[name]) and result.reason(name)
    assert fed(ExpectedCost(), *ones).result().values["ExpectedCost"] == 0
    nothing = fed(OperatingPoint(), ones[0], torch.tensor([0, 0])).result()
    assert nothing.reason("OperatingPoint") == "fbeta does not exist"
    assert fed(CostCurve(), *ones).result().reason("area") == "there are no positives or no negatives"
    assert math.isnan(float(ExpectedCost().result().values["ExpectedCost"]))


@pytest.mark.parametrize(
    ("kind", "choices", "message"),
    [
        (OperatingPoint, dict(objective="auc"), "objective must be one of 'precision', 'recall'"),
        (OperatingPoint, dict(beta=0), "beta must be a finite number above 0 but got 0"),
        (OperatingPoint, dict(min_recall=1.5), "min_recall must be a number from 0 to 1 or None but got 1.5"),
        (OperatingPoint, dict(min_precision=True), "min_precision must be a number from 0 to 1 or None but got True"),
        (ExpectedCost, dict(cost_fp=-1.0), "cost_fp must be a number from 0 to 1e60 but got -1.0"),
        (ExpectedCost, dict(cost_fn=math.nan), "cost_fn must be a number from 0 to 1e60 but got nan"),
        (ExpectedCost, dict(cost_fn=0, cost_fp=0), "cost_fp and cost_fn must not both be 0"),
        (ExpectedCost, dict(prior=1), "prior must be a number above 0 and below 1, or None, but got 1"),
        (CostCurve, dict(points=1), "points must be an int of at least 2 but got 1"),
    ],
)
def test_arguments_out_of_range(kind: Any, choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**choices)


def test_pictures() -> None:
    axes = fed(CostCurve(), *drawn(3)).result().plot()
    assert axes.get_title("left").startswith("Cost curve, area 0.") and axes.get_xlabel() == "probability cost"
    assert CostCurve(3).result().plot(ax=axes) is axes
    with pytest.raises(InputError, match="plot"):
        fed(OperatingPoint(), *drawn(3)).plot()
    mpl.pyplot.close("all")
