"""AURC, EAURC and points of the risk-coverage curve: by their definitions, over all orders of ties, in any order."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu.classification import AURC, EAURC, CoverageAtRisk, RiskAtCoverage
from valor_gpu.errors import InputError
from valor_gpu.reduce.selective import area_under_risk, least_area

C = 4


def fed(metric: Any, *batch: Any) -> Any:
    metric.update(*batch)
    return metric


def drawn(seed: int, rows: int = 200, levels: int = 0) -> tuple[Tensor, Tensor]:
    """Probabilities, rounded to so many levels where there are ties, and classes."""
    generator = torch.Generator().manual_seed(seed)
    preds = (torch.randn(rows, C, generator=generator) * 2).softmax(1)
    target = torch.where(torch.rand(rows, generator=generator) < 0.6, preds.argmax(1), 0)
    return (preds * levels).round() / levels if levels else preds, target


def by_definition(confidence: Any, wrong: Any) -> float:
    """The mean risk of the k most confident; confidences differ."""
    errors = np.asarray(wrong, np.float64)[np.argsort(-np.asarray(confidence), kind="stable")]
    return float((errors.cumsum() / np.arange(1, len(errors) + 1)).mean())


def test_equals_the_definition_where_no_two_are_equally_sure() -> None:
    for seed in seeds(5):
        preds, target = drawn(seed)
        wrong, sure = preds.argmax(1) != target, preds.amax(1)
        values = fed(AURC(C), preds, target).result().values
        assert values["AURC"] == pytest.approx(by_definition(sure, wrong), rel=1e-13)
        n, errors = len(target), int(wrong.sum())
        optimal = by_definition(np.arange(n)[::-1], np.arange(n) >= n - errors)
        assert values["optimal"] == pytest.approx(optimal, rel=1e-13)
        assert values["excess"] == pytest.approx(values["AURC"] - optimal, rel=1e-10)
        assert values["error_rate"] == errors / n
        assert float(fed(EAURC(C), preds, target).compute()) == pytest.approx(values["excess"], rel=1e-6)


def test_ties_are_the_mean_over_their_orders() -> None:
    sure = torch.tensor([0.9, 0.7, 0.7, 0.7, 0.6, 0.6])
    wrong = np.array([0, 1, 0, 1, 1, 0])
    orders = [
        [0, *middle, *last] for middle in itertools.permutations([1, 2, 3]) for last in itertools.permutations([4, 5])
    ]
    expected = np.mean([by_definition(-np.arange(6), wrong[order]) for order in orders])
    found = fed(AURC(), sure, torch.from_numpy(1 - wrong)).result().values["AURC"]
    assert found == pytest.approx(expected, rel=1e-14)


def test_closed_form_is_near_to_the_least_area() -> None:
    for errors in (1, 1000, 40_000, 99_999):
        rate = errors / 100_000
        assert least_area(100_000 - errors, errors) == pytest.approx(rate + (1 - rate) * math.log1p(-rate), abs=1e-5)
    assert least_area(0, 5) == 1 and math.isnan(least_area(0, 0))


def test_who_is_least_sure_of_errors_has_no_excess() -> None:
    sure = torch.linspace(0.51, 1, 50)
    target = (torch.arange(50) >= 20).long()
    assert float(fed(EAURC(), sure, target).compute()) == 0
    assert float(fed(EAURC(), sure, 1 - target).compute()) > 0.3
    assert float(fed(EAURC(), torch.full((50,), 0.75), target).compute()) > 0


def test_any_order_and_split_has_the_same_bits() -> None:
    for seed in seeds(3):
        preds, target = drawn(seed, 1000, levels=20)
        preds = preds / preds.sum(1, keepdim=True)
        whole, parts = fed(AURC(C), preds, target), AURC(C)
        for rows in torch.randperm(1000, generator=torch.Generator().manual_seed(seed)).split(77):
            parts.update(preds[rows], target[rows])
        assert whole.result().values == parts.result().values


@pytest.mark.parametrize("levels", [0, 12])
def test_points_are_the_first_and_the_last_that_will_do(levels: int) -> None:
    for seed in seeds(3):
        preds, target = drawn(seed, levels=levels)
        wrong, sure = (preds.argmax(1) != target).numpy(), preds.amax(1).double().numpy()
        thresholds = np.unique(sure)[::-1]
        points = [(wrong[sure >= t].mean(), (sure >= t).mean(), t) for t in thresholds]
        for coverage in (0.1, 0.5, 0.8, 1.0):
            risk, covered, threshold = next(point for point in points if point[1] >= coverage)
            metric = fed(RiskAtCoverage(C, coverage=coverage, activation="none"), preds, target)
            values = metric.result().values
            assert values == {"RiskAtCoverage": risk, "coverage": covered, "threshold": threshold}
            assert [float(part) for part in metric.compute()] == [pytest.approx(risk), threshold]
        for limit in (0.3, 0.4, 1.0):
            fits = [point for point in points if point[0] <= limit]
            risk, covered, threshold = fits[-1] if fits else (math.nan, 0.0, math.nan)
            values = fed(CoverageAtRisk(C, max_risk=limit, activation="none"), preds, target).result().values
            assert values == pytest.approx(
                {"CoverageAtRisk": covered, "risk": risk, "threshold": threshold}, nan_ok=True
            )


def test_no_confidence_is_safe_enough() -> None:
    metric = fed(CoverageAtRisk(max_risk=0.25), torch.tensor([0.875, 0.125]), torch.tensor([0, 0]))
    value, threshold = metric.compute()
    assert float(value) == 0 and math.isnan(float(threshold))
    assert metric.result().reason("threshold") == "no confidence has a risk of at most 0.25"


def test_binary_confidence_is_that_of_the_predicted_class() -> None:
    preds, target = torch.tensor([0.9, 0.2, 0.5, 0.6], dtype=torch.float64), torch.tensor([1, 1, 0, 1])
    two = torch.stack((1 - preds, preds), 1)
    one = fed(AURC(), preds, target).result().values
    assert one["error_rate"] == 0.25
    assert one == fed(AURC(2), two, target).result().values
    logits = torch.special.logit(preds)
    assert float(fed(AURC(activation="sigmoid"), logits, target).compute()) == pytest.approx(one["AURC"])


def test_own_confidence_with_scores_or_classes() -> None:
    preds, target = drawn(1)
    sure = torch.randn(200, generator=torch.Generator().manual_seed(7))
    expected = by_definition(sure, preds.argmax(1) != target)
    for given in (preds, preds.argmax(1)):
        assert float(fed(AURC(C), given, target, sure).compute()) == pytest.approx(expected, rel=1e-6)
    wide = sure.double() + 1e-12 * torch.arange(200)
    assert fed(AURC(C), preds, target, wide).result().values["AURC"] == by_definition(wide, preds.argmax(1) != target)
    binary = fed(AURC(), torch.tensor([1, 0, 1]), torch.tensor([1, 1, 1]), torch.tensor([3.0, 1.0, 2.0]))
    assert binary.result().values["AURC"] == pytest.approx(1 / 9)


def test_ignored_rows_are_left_out_whatever_they_hold() -> None:
    preds, target = drawn(2)
    sure = preds.amax(1).clone()
    expected = fed(AURC(C), preds[target != 0], target[target != 0]).result()
    sure[target == 0] = math.nan
    preds[target == 0] = 7.0
    for given in ((), (sure,)):
        result = fed(AURC(C, ignore_index=0), preds, target, *given).result()
        assert result.values == expected.values and result.counts["ignored"] == int((target == 0).sum())


def test_maps_are_rows() -> None:
    preds, target = drawn(6, 24)
    maps, of_maps = preds.reshape(2, 3, 4, C).movedim(-1, 1), target.reshape(2, 3, 4)
    flat = fed(AURC(C), preds, target).result().values
    assert fed(AURC(C), maps, of_maps).result().values == flat
    assert fed(AURC(C), maps, of_maps, preds.amax(1).reshape(2, 3, 4)).result().values == flat


def test_intervals_are_of_every_number() -> None:
    preds, target = drawn(3, 300)
    found = fed(AURC(C), preds, target).result(intervals=60)
    assert set(found.intervals) == {"AURC", "excess", "optimal", "error_rate"}
    assert found.intervals["AURC"].low < found.values["AURC"] < found.intervals["AURC"].high
    assert fed(RiskAtCoverage(C, coverage=0.5), preds, target).result(intervals=60).intervals["RiskAtCoverage"].low >= 0


@pytest.mark.parametrize("metric", [AURC(), EAURC(3), RiskAtCoverage(coverage=0.5), CoverageAtRisk(max_risk=0.5)])
def test_nothing_seen_is_nan_with_a_reason(metric: Any) -> None:
    name = type(metric).__name__
    assert math.isnan(metric.result().values[name]) and metric.result().reason(name) == "there are no samples"


def test_areas_without_errors_and_without_hits() -> None:
    assert area_under_risk(np.array([3]), np.array([0])) == 0
    assert area_under_risk(np.array([0, 0]), np.array([1, 5])) == 1


@pytest.mark.parametrize(
    ("metric", "batch", "message"),
    [
        (AURC(), (torch.tensor([0.5, math.nan]), torch.tensor([0, 1])), r"preds\[1\] must hold probabilities"),
        (AURC(activation="none"), (torch.tensor([0.5, 1.5]), torch.tensor([0, 1])), r"preds\[1\] must hold prob"),
        (AURC(3), (torch.rand(2, 3), torch.tensor([0, 3])), r"target\[1\] must be a class index from 0 to 2"),
        (AURC(3), (torch.tensor([0, 1]), torch.tensor([0, 1])), "preds must be scores of a floating dtype"),
        (AURC(3), (torch.tensor([0, 3]), torch.tensor([0, 1]), torch.rand(2)), r"preds\[1\] must hold .* or classes"),
        (
            AURC(),
            (torch.rand(2), torch.tensor([0, 1]), torch.tensor([math.nan, 1.0])),
            r"confidence\[0\] must not be NaN",
        ),
        (AURC(), (torch.rand(2), torch.tensor([0, 1]), torch.rand(3)), r"confidence must be floating point of shape"),
        (AURC(), (torch.rand(2), torch.tensor([0, 1]), torch.tensor([0, 1])), "confidence must be floating point"),
    ],
)
def test_bad_values_change_nothing(metric: Any, batch: tuple[Tensor, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        metric.update(*batch)
    assert not metric.scores


@pytest.mark.parametrize(
    ("kind", "choices", "message"),
    [
        (RiskAtCoverage, dict(coverage=0), "coverage must be a number above 0 and at most 1 but got 0"),
        (RiskAtCoverage, dict(coverage=True), "coverage must be a number above 0 and at most 1 but got True"),
        (CoverageAtRisk, dict(max_risk=1.5), "max_risk must be a number from 0 to 1 but got 1.5"),
    ],
)
def test_arguments_out_of_range(kind: Any, choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**choices)


def test_a_point_has_no_picture() -> None:
    metric = fed(RiskAtCoverage(coverage=0.5), torch.rand(5), torch.tensor([0, 1, 1, 0, 1]))
    with pytest.raises(InputError, match="plot"):
        metric.plot()


def test_damaged_states_are_refused() -> None:
    metric = fed(AURC(), torch.tensor([0.5, 0.75]), torch.tensor([0, 1]))
    state = {name: torch.cat(part) if isinstance(part, list) else part for name, part in metric.metric_state.items()}
    for field, value, message in (
        ("target", torch.tensor([[2], [0]], dtype=torch.int8), "state field target"),
        ("scores", torch.tensor([[math.nan], [0.5]]).double(), "state field scores"),
    ):
        with pytest.raises(InputError, match=message):
            AURC().merge_state({**state, field: value})


def test_a_batch_that_is_read_in_parts_is_that_of_small_ones() -> None:
    rows, generator = 40_001, torch.Generator().manual_seed(4)
    for classes in (None, 3):
        preds = torch.rand((rows, classes) if classes else (rows,), generator=generator)
        target = torch.randint(-1, classes or 2, (rows,), generator=generator)
        whole, parts = (AURC(classes, activation="none", ignore_index=-1) for _ in range(2))
        whole.update(preds, target)
        for part in range(0, rows, 1000):
            parts.update(preds[part : part + 1000], target[part : part + 1000])
        assert whole.result().values == parts.result().values
        assert all(map(torch.equal, whole.state().tensors().values(), parts.state().tensors().values()))
        for row in (rows - 1, rows - 2):
            preds[row], target[row] = math.nan, 0
            with pytest.raises(InputError, match=rf"preds\[{row}\] must hold probabilities"):
                whole.update(preds, target)
        confidence = torch.ones(rows)
        confidence[rows - 3] = math.nan
        target[rows - 3] = 0
        with pytest.raises(InputError, match=rf"confidence\[{rows - 3}\] must not be NaN"):
            whole.update(torch.zeros(rows, dtype=torch.int64), target, confidence)


def test_areas_of_many_groups_are_those_of_single_samples() -> None:
    sizes = torch.randint(1, 5, (80_000,), generator=torch.Generator().manual_seed(5)).numpy()
    errors = sizes // 2
    right, wrong = (sizes - errors).cumsum(), errors.cumsum()
    within = np.concatenate([np.arange(1, 5)[:size] for size in sizes])
    starts, missed = np.repeat(right + wrong - sizes, sizes), np.repeat(wrong - errors, sizes)
    risks = (missed + np.repeat(errors / sizes, sizes) * within) / (starts + within)
    assert area_under_risk(right, wrong) == pytest.approx(math.fsum(risks) / len(risks), rel=1e-14)
