"""ConformalCoverage: coverage and sizes by their definitions, and the coverage that split conformal promises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu.classification import ConformalCoverage
from valor_gpu.errors import InputError
from valor_gpu.stats.proportions import pass_rate

C = 5


def fed(metric: Any, *batch: Any) -> Any:
    metric.update(*batch)
    return metric


def drawn(seed: int, rows: int = 300) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    proba = (torch.randn(rows, C, generator=generator) * 2).softmax(1)
    return proba, torch.multinomial(proba, 1, generator=generator)[:, 0]


def by_definition(sets: Any, target: Any) -> dict[str, Any]:
    right, size = sets[np.arange(len(target)), target], sets.sum(1)
    with np.errstate(invalid="ignore"):
        per_class = [right[target == c].mean() if (target == c).any() else math.nan for c in range(sets.shape[1])]
        per_size = [right[size == k].mean() if (size == k).any() else math.nan for k in range(sets.shape[1] + 1)]
    return {
        "ConformalCoverage": right.mean(),
        "mean_set_size": size.mean(),
        "empty": (size == 0).mean(),
        "single": (size == 1).mean(),
        "least_class_coverage": np.nanmin(per_class),
        "least_size_coverage": np.nanmin(per_size),
        "per_class": np.array(per_class),
        "per_size": np.array(per_size),
        "samples_per_size": np.bincount(size, minlength=sets.shape[1] + 1),
    }


@pytest.mark.parametrize("dtype", [torch.bool, torch.float16, torch.float32, torch.float64])
def test_equals_the_definition(dtype: torch.dtype) -> None:
    for seed in seeds(4):
        proba, target = drawn(seed)
        preds = proba >= 0.2 if dtype == torch.bool else proba.to(dtype)
        sets = preds if dtype == torch.bool else preds.double() >= 0.2
        found = fed(ConformalCoverage(C, threshold=None if dtype == torch.bool else 0.2), preds, target).result().values
        expected = by_definition(sets.numpy(), target.numpy())
        assert list(found) == list(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-15, err_msg=name)


def test_groups_of_sizes() -> None:
    proba, target = drawn(1)
    sets = proba >= 0.1
    right, size = sets.gather(1, target[:, None])[:, 0].numpy(), sets.sum(1).numpy()
    values = fed(ConformalCoverage(C, size_starts=(0, 2, 4, 40)), sets, target).result().values
    groups = [size < 2, (size >= 2) & (size < 4), size >= 4]
    assert values["per_size"].tolist()[:3] == [right[group].mean() for group in groups]
    assert math.isnan(values["per_size"][3]) and values["samples_per_size"].tolist()[3] == 0
    assert values["least_size_coverage"] == min(right[group].mean() for group in groups)


def test_split_conformal_sets_have_the_coverage_that_they_promise() -> None:
    held, target = drawn(0, 4000)
    scores = 1 - held.gather(1, target[:, None])[:, 0].double()
    n, alpha = len(scores), 0.1
    q = float(scores.sort().values[math.ceil((n + 1) * (1 - alpha)) - 1])
    found = fed(ConformalCoverage(C, threshold=1 - q), *drawn(1, 4000)).result()
    assert found.values["ConformalCoverage"] == pytest.approx(1 - alpha, abs=0.02)


def test_any_split_has_the_same_bits_and_sets_may_come_with_scores() -> None:
    proba, target = drawn(2)
    whole, parts = fed(ConformalCoverage(C, threshold=0.25), proba, target), ConformalCoverage(C, threshold=0.25)
    for number, rows in enumerate(torch.randperm(300).split(71)):
        parts.update(proba[rows].double() >= 0.25 if number % 2 else proba[rows], target[rows])
    for name, tensor in whole.state().tensors().items():
        assert torch.equal(tensor, getattr(parts, name)), name


def test_ignored_rows_are_left_out_whatever_they_hold() -> None:
    proba, target = drawn(3)
    target[::5] = -1
    proba[::5] = math.nan
    left = target != -1
    result = fed(ConformalCoverage(C, threshold=0.2, ignore_index=-1), proba, target).result()
    rest = fed(ConformalCoverage(C, threshold=0.2), proba[left], target[left]).result()
    for name, value in rest.values.items():
        np.testing.assert_array_equal(result.values[name], value)
    assert result.counts == {"samples": 300, "ignored": 60}


def test_maps_are_rows_and_logits_have_a_softmax() -> None:
    proba, target = drawn(4, 24)
    maps, of_maps = proba.reshape(2, 3, 4, C).movedim(-1, 1), target.reshape(2, 3, 4)
    flat = fed(ConformalCoverage(C, threshold=0.2), proba, target).state()
    for preds in (maps, maps >= 0.2):
        found = fed(ConformalCoverage(C, threshold=0.2), preds, of_maps).state()
        assert torch.equal(found.by_class, flat.by_class) and torch.equal(found.by_size, flat.by_size)
    logits = fed(ConformalCoverage(C, threshold=0.2, activation="softmax"), proba.log(), target).state()
    assert torch.equal(logits.by_size, flat.by_size)


def test_intervals_are_those_of_proportions() -> None:
    found = fed(ConformalCoverage(C, threshold=0.2), *drawn(5)).result(intervals=100)
    right = round(found.values["ConformalCoverage"] * 300)
    expected, interval = pass_rate(right, 300), found.intervals["ConformalCoverage"]
    assert (interval.low, interval.high) == (expected.low, expected.high)
    assert found.intervals["per_class/0"].low <= found.values["per_class"][0]
    assert found.intervals["mean_set_size"].low < found.values["mean_set_size"] < found.intervals["mean_set_size"].high
    assert found.intervals["least_class_coverage"].reason.startswith("a minimum over groups")


def test_nothing_seen_is_nan_with_a_reason() -> None:
    result = ConformalCoverage(3).result()
    assert math.isnan(result.values["ConformalCoverage"])
    assert result.reason("ConformalCoverage") == result.reason("per_class") == "there are no samples"
    one = fed(ConformalCoverage(3), torch.tensor([[False, False, False]]), torch.tensor([1])).result()
    assert one.values["empty"] == 1 and one.values["ConformalCoverage"] == 0
    assert one.reason("per_class") == "no sample is of such a class, or has such a set"


@pytest.mark.parametrize(
    ("choices", "preds", "target", "message"),
    [
        ({}, torch.rand(2, 3), torch.tensor([0, 1]), "preds must be sets of bool, or threshold given for scores"),
        (dict(threshold=0.5), torch.full((2, 3), math.nan), torch.tensor([0, 1]), r"preds\[0\] must hold no NaN"),
        (
            {},
            torch.ones(2, 3, dtype=torch.bool),
            torch.tensor([0, 3]),
            r"target\[1\] must be a class index from 0 to 2",
        ),
        ({}, torch.ones(2, 4, dtype=torch.bool), torch.tensor([0, 1]), "preds must be scores"),
    ],
)
def test_bad_values_change_nothing(choices: Any, preds: Tensor, target: Tensor, message: str) -> None:
    metric = ConformalCoverage(3, **choices)
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)
    assert not metric.by_size.any() and not metric.seen.any()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (dict(num_classes=None), "num_classes must be an int of at least 2 but got None"),
        (dict(num_classes=3, threshold=math.nan), "threshold must be a finite number or None but got nan"),
        (dict(num_classes=3, size_starts=(1, 2)), r"size_starts must be ints that ascend from 0 but got \(1, 2\)"),
        (dict(num_classes=3, size_starts=(0, 2, 2)), "size_starts must be ints that ascend from 0"),
    ],
)
def test_arguments_out_of_range(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ConformalCoverage(**choices)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("by_class", torch.tensor([[1, 1, 0], [2, 0, 0]]), r"by_class\[1, 0\] must be at most the samples"),
        ("by_size", torch.tensor([[1, 0, 0, 0], [0, 0, 0, 0]]), "by_size must count 2 samples but has 1"),
        ("seen", torch.tensor([-2, 0]), r"seen\[0\] must be from 0"),
    ],
)
def test_damaged_states_are_refused(field: str, value: Tensor, message: str) -> None:
    metric = fed(ConformalCoverage(3), torch.ones(2, 3, dtype=torch.bool), torch.tensor([0, 1]))
    with pytest.raises(InputError, match=message):
        ConformalCoverage(3).merge_state({**metric.metric_state, field: value})
