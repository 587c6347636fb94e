"""Rates of groups: equal to counting by hand, fairlearn's formulas and, where every group has a rate, torchmetrics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.classification as tm
import torchmetrics.functional.classification as tmf
from torch import Tensor
from torchmetrics import MetricCollection

from tests.fuzz import seeds
from valor_gpu import functional
from valor_gpu.classification import BinaryFairness, BinaryGroupStatRates
from valor_gpu.errors import InputError, InputTypeError

CRITERIA = ["all", "demographic_parity", "equal_opportunity"]
Batch = tuple[Tensor, Tensor, Tensor]


def drawn(seed: int, groups: int = 3, rows: int = 120) -> Batch:
    """Probabilities, target and groups; each group has positives and negatives."""
    generator = torch.Generator().manual_seed(seed)
    scores, target = torch.rand(rows, generator=generator), torch.randint(2, (rows,), generator=generator)
    return scores, target, torch.randint(groups, (rows,), generator=generator)


def by_hand(scores: Tensor, target: Tensor, groups: Tensor, of: int) -> dict[str, Any]:
    """Numbers of fairlearn's definitions, of groups with a rate."""
    decided, true = (scores > 0.5).numpy(), target.numpy() == 1
    masks = [groups.numpy() == group for group in range(of)]

    def rate(among: Any) -> list[float]:
        return [decided[mask & among].mean() if (mask & among).any() else math.nan for mask in masks]

    rates = {"demographic_parity": rate(np.ones_like(true)), "equal_opportunity": rate(true)}
    false = rate(~true)
    found: dict[str, Any] = {}
    for name, each in rates.items():
        found[f"{name}_ratio"] = np.nanmin(each) / np.nanmax(each)
        found[f"{name}_difference"] = np.nanmax(each) - np.nanmin(each)
    gaps = [(np.nanmin(each) / np.nanmax(each), np.nanmax(each) - np.nanmin(each))
            for each in (rates["equal_opportunity"], false)]  # fmt: skip
    found["equalized_odds_ratio"] = min(ratio for ratio, _ in gaps)
    found["equalized_odds_difference"] = max(difference for _, difference in gaps)
    shown = {"selection_rate": rates["demographic_parity"], "true_positive_rate": rates["equal_opportunity"]}
    for name, each in {**shown, "false_positive_rate": false}.items():
        found[name] = dict(zip(map(str, range(of)), each))
    return found


def compare(mine: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
    assert list(mine) == list(theirs)
    for name, value in theirs.items():
        torch.testing.assert_close(mine[name], value, rtol=1e-6, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("ignore_index", [None, -1])
def test_values_are_those_of_torchmetrics(seed: int, ignore_index: int | None) -> None:
    for groups in (2, 3, 6):
        scores, target, members = drawn(seed, groups)
        if ignore_index is not None:
            target[::9] = ignore_index
        for preds in (scores, (scores > 0.4).long(), scores * 6 - 3):
            metrics: list[Any] = [(tm.BinaryGroupStatRates, BinaryGroupStatRates, {})]
            metrics += [(tm.BinaryFairness, BinaryFairness, {"task": criterion}) for criterion in ("all", CRITERIA[2])]
            for theirs, ours, given in metrics:
                pair = [kind(groups, **given, ignore_index=ignore_index) for kind in (theirs, ours)]
                for metric in pair:
                    metric.update(preds[:70], target[:70], members[:70])
                    metric.update(preds[70:], target[70:], members[70:])
                compare(pair[1].compute(), pair[0].compute())
            rest: Any = (preds, target, members)
            options: Any = {"ignore_index": ignore_index}
            for name in ("binary_fairness", "equal_opportunity"):
                compare(getattr(functional, name)(*rest, **options), getattr(tmf, name)(*rest, **options))
            compare(
                functional.binary_groups_stat_rates(*rest, groups, **options),
                tmf.binary_groups_stat_rates(*rest, groups, **options),
            )
            compare(functional.demographic_parity(preds, members), tmf.demographic_parity(preds, members))


def test_demographic_parity_reads_no_target() -> None:
    scores, target, groups = drawn(1)
    expected = functional.demographic_parity(scores, groups)
    for given in (None, target, torch.full((120,), 7)):
        metric = BinaryFairness(3, "demographic_parity", ignore_index=0)
        metric.update(scores, given, groups)
        compare(metric.compute(), expected)
        assert metric.result().counts == {"samples": 120, "ignored": 0}
    with pytest.raises(InputError, match="target must be given but got None"):
        BinaryFairness(3).update(scores, None, groups)


@pytest.mark.parametrize("seed", seeds(6))
def test_results_have_the_formulas_of_fairlearn(seed: int) -> None:
    scores, target, groups = drawn(seed, 4, rows=60)
    groups[groups == 2] = 1  # a group without members
    target[groups == 3] = 0  # and one without positives
    metric = BinaryFairness(4)
    metric.update(scores, target, groups)
    values = metric.result().values
    expected = by_hand(scores, target, groups, 4)
    for name, number in expected.items():
        if isinstance(number, dict):
            np.testing.assert_allclose(list(values[name].values()), list(number.values()), rtol=1e-14, err_msg=name)
        else:
            assert values[name] == pytest.approx(number, rel=1e-14), name
    assert sum(sum(each.values()) for each in values["group_counts"].values()) == 60
    reasons = metric.result()
    assert reasons.reason("selection_rate/2") == "groups without samples have none"
    assert reasons.reason("true_positive_rate/3") == "groups without positives have none"
    found = list(expected["true_positive_rate"].values())
    low, high = int(np.nanargmin(found)), int(np.nanargmax(found))
    assert f"EO_{low}_{high}" in metric.compute()


def test_groups_without_a_rate_are_not_the_lowest() -> None:
    """torchmetrics takes their rate for 0."""
    metric = BinaryFairness(3)
    metric.update(torch.tensor([0.9, 0.1, 0.9, 0.9]), torch.tensor([1, 1, 1, 1]), torch.tensor([0, 0, 2, 2]))
    assert {name: float(value) for name, value in metric.compute().items()} == {"DP_0_2": 0.5, "EO_0_2": 0.5}
    rates = BinaryGroupStatRates(3)
    rates.update(torch.tensor([1, 0]), torch.tensor([1, 0]), torch.tensor([0, 2]))
    assert rates.compute()["group_1"].isnan().all()
    assert rates.result().reason("group_1/tp") == "groups without samples have none"


def test_no_positive_decision_is_no_disparity() -> None:
    metric = BinaryFairness(2, "demographic_parity")
    metric.update(torch.tensor([0.1, 0.1]), None, torch.tensor([0, 1]))
    assert metric.compute()["DP_0_0"].isnan()
    result = metric.result()
    assert result.values["demographic_parity_difference"] == 0
    assert result.reason("demographic_parity_ratio") == "the highest rate is 0, or no group has one"
    empty = BinaryFairness(2)
    empty.update(torch.zeros(0), torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    assert set(empty.compute()) == {"DP_0_0", "EO_0_0"} and empty.compute()["EO_0_0"].isnan()
    assert empty.result().reason("equal_opportunity_difference") == "no group has a rate"


def test_names_stand_for_numbers() -> None:
    scores, target, groups = drawn(2, 2)
    plain, named = BinaryFairness(2), BinaryFairness(2, group_names=["north", "south"])
    for metric in (plain, named):
        metric.update(scores, target, groups)
    assert [name.replace("north", "0").replace("south", "1") for name in named.compute()] == list(plain.compute())
    assert set(named.result().values["selection_rate"]) == {"north", "south"}
    rates = BinaryGroupStatRates(2, group_names=["north", "south"])
    rates.update(scores, target, groups)
    assert list(rates.compute()) == ["group_north", "group_south"]
    for wrong in (["a"], ["a", "a"], "ab", ["a/b", "c"], [0, 1]):
        with pytest.raises(InputError, match="group_names must be 2 different texts without /"):
            BinaryFairness(2, group_names=wrong)  # type: ignore[arg-type]


def test_weights_count_rows_several_times() -> None:
    scores, target, groups = drawn(3)
    weight = torch.randint(4, (120,), generator=torch.Generator().manual_seed(0))
    weighted, repeated = BinaryFairness(3), BinaryFairness(3)
    weighted.update(scores, target, groups, weight)
    repeated.update(*(part.repeat_interleave(weight) for part in (scores, target, groups)))
    compare(weighted.compute(), repeated.compute())
    with pytest.raises(InputError, match="intervals need rows of equal weight"):
        weighted.result(intervals=10)


def test_groups_of_rows_and_any_integer_dtype() -> None:
    generator = torch.Generator().manual_seed(4)
    scores, target = torch.rand((20, 5), generator=generator), torch.randint(2, (20, 5), generator=generator)
    groups = torch.randint(3, (20,), generator=generator)
    expected = functional.binary_fairness(scores, target, groups[:, None].expand(20, 5))
    for given in (groups, groups.to(torch.uint8), groups.int().numpy(), groups.tolist()):
        compare(functional.binary_fairness(scores, target, given), expected)
    flat = functional.binary_fairness(scores.reshape(-1), target.reshape(-1), groups.repeat_interleave(5))
    compare(flat, expected)


def test_one_update_serves_both_in_a_collection() -> None:
    batch = drawn(5)
    together = MetricCollection([BinaryGroupStatRates(3), BinaryFairness(3)])
    together.update(*batch)
    assert len(together.compute_groups) == 1
    assert len(MetricCollection([BinaryGroupStatRates(3), BinaryFairness(3, "demographic_parity")])) == 2
    alone = BinaryFairness(3)
    alone.update(*batch)
    found = together.compute()
    compare({name: found[name] for name in alone.compute()}, alone.compute())


def test_intervals_are_of_the_groups_that_are_named() -> None:
    scores, target, groups = drawn(6, 2, 600)
    metric = BinaryFairness(2)
    metric.update(scores, target, groups)
    result = metric.result(intervals=300)
    rates = result.values["selection_rate"]
    counts = [int((groups == group).sum()) for group in (0, 1)]
    spread = math.sqrt(sum(rate * (1 - rate) / count for rate, count in zip(rates.values(), counts)))
    interval = result.intervals["demographic_parity_difference"]
    assert interval.standard_error == pytest.approx(spread, rel=0.15)
    assert interval.low < 0 < result.values["demographic_parity_difference"] < interval.high
    assert result.intervals["demographic_parity_ratio"].high > 1
    assert "worse of two gaps" in result.intervals["equalized_odds_ratio"].reason
    wilson = result.intervals["selection_rate/0"]
    assert wilson.low < rates["0"] < wilson.high
    few = BinaryFairness(2)
    few.update(scores[:30], target[:30], groups[:30])
    assert "positives" not in few.result(intervals=50).intervals["demographic_parity_ratio"].reason
    assert few.result(intervals=50).intervals["equal_opportunity_ratio"].reason


@pytest.mark.parametrize(
    ("preds", "target", "groups", "message"),
    [
        ([0.5, math.nan], [0, 1], [0, 1], r"preds\[1\] must not be NaN"),
        ([0.5, 0.5], [0, 2], [0, 1], r"target\[1\] must be 0 or 1"),
        ([0, 3], [0, 1], [0, 1], r"preds\[1\] must be 0 or 1"),
        ([0.5, 0.5], [0, 1], [0, 2], r"groups\[1\] must be from 0 to 1"),
        ([0.5, 0.5], [0, 1], [-1, 0], r"groups\[0\] must be from 0 to 1"),
        ([0.5, 0.5], [0, 1], [0.0, 1.0], "groups must be integer but is torch.float32"),
        ([0.5, 0.5], [0, 1], [0], r"groups must have shape \[2\] but got \[1\]"),
        ([0.5, 0.5], [0], [0, 1], "preds and target must both have shape"),
    ],
)
def test_wrong_batches_raise_and_change_nothing(preds: Any, target: Any, groups: Any, message: str) -> None:
    metric = BinaryFairness(2)
    with pytest.raises(InputError, match=message):
        metric.update(torch.tensor(preds), torch.tensor(target), torch.tensor(groups))
    assert metric.result().counts["samples"] == 0


@pytest.mark.parametrize(("arguments", "message"), [
    (dict(num_groups=1), "num_groups must be at least 2"), (dict(num_groups=2.0), "num_groups must be int"),
    (dict(num_groups=2, task="odds"), "task must be one of"), (dict(num_groups=2, threshold=2), "threshold must be"),
])  # fmt: skip
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, InputTypeError), match=message):
        BinaryFairness(**arguments)


def test_a_damaged_state_is_refused() -> None:
    metric = BinaryFairness(2)
    metric.update(*drawn(7, 2))
    states = {**metric.metric_state, "counts": -metric.state().counts}
    with pytest.raises(InputError, match="counts"):
        BinaryFairness(2).merge_state(states)


def test_a_batch_that_lacks_a_group_counts_for_its_own() -> None:
    metric, reference = BinaryGroupStatRates(2), tm.BinaryGroupStatRates(2)
    batches = [([0.9, 0.9], [1, 1], [0, 1]), ([0.1, 0.1], [1, 1], [1, 1])]
    for batch in batches:
        tensors = [torch.tensor(part) for part in batch]
        metric.update(*tensors)
        reference.update(*tensors)
    assert metric.compute()["group_0"].tolist() == [1, 0, 0, 0]
    assert reference.compute()["group_1"].tolist() == [1, 0, 0, 0]  # the rows of group 1 went to group 0
