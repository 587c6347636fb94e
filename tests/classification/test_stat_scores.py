"""Counts of classes and exact match: equal to torchmetrics and scikit-learn."""

from __future__ import annotations

import math
import warnings
from typing import Any

import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.classification as tm
from torch import Tensor
from torchmetrics import MetricCollection

from valor_gpu.classification import ExactMatch, Precision, StatScores
from valor_gpu.errors import InputError

AVERAGES = ["micro", "macro", "weighted", "none"]
IGNORED = [None, 1, -1]


def random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def with_ignored(target: Tensor, ignore_index: int | None) -> Tensor:
    return target.flatten().index_fill(0, torch.arange(0, target.numel(), 7), -1).view_as(target) \
        if ignore_index == -1 else target  # fmt: skip


def assert_equal(ours: Any, theirs: Any, *batches: tuple[Tensor, Tensor]) -> None:
    for batch in batches:
        ours.update(*batch)
        theirs.update(*batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = theirs.compute()
    found = ours.compute()
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("ignore_index", IGNORED)
@pytest.mark.parametrize("top_k", [1, 2])
def test_counts_of_classes_equal_torchmetrics(average: str, ignore_index: int | None, top_k: int) -> None:
    scores = torch.rand(40, 4, generator=random(0))
    target = with_ignored(torch.randint(4, (40,), generator=random(1)), ignore_index)
    choices: dict[str, Any] = dict(num_classes=4, average=average, ignore_index=ignore_index, top_k=top_k)
    assert_equal(StatScores(**choices), tm.MulticlassStatScores(**choices), (scores, target), (scores.flip(0), target))


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("ignore_index", IGNORED)
def test_counts_of_labels_equal_torchmetrics(average: str, ignore_index: int | None) -> None:
    scores = torch.rand(40, 4, 3, generator=random(0))
    target = with_ignored(torch.randint(2, (40, 4, 3), generator=random(1)), ignore_index)
    choices: dict[str, Any] = dict(num_labels=4, average=average, ignore_index=ignore_index)
    assert_equal(StatScores(**choices), tm.MultilabelStatScores(**choices), (scores, target))
    one = (scores[:, 0], target[:, 0])
    assert_equal(StatScores(ignore_index=ignore_index), tm.BinaryStatScores(ignore_index=ignore_index), one)


def test_weighted_counts_are_sums_and_results_say_what_has_no_support() -> None:
    preds, target = torch.tensor([0, 1, 1]), torch.tensor([0, 1, 0])
    metric = StatScores(2, average="none")
    metric.update(preds, target, torch.tensor([0.5, 2.0, 1.0]))
    found = metric.compute()
    assert found.dtype == torch.float64
    assert found.tolist() == [[0.5, 0, 2, 1, 1.5], [2, 1, 0.5, 0, 2]]
    result = metric.result()
    assert result.values["support"].tolist() == [1.5, 2]
    empty = StatScores(2, average="weighted").result()
    assert math.isnan(empty.values["tp"]) and "no sample" in str(empty.reason("tp"))


def test_counts_share_the_update_of_ratios() -> None:
    together = MetricCollection([StatScores(4), Precision(4)])
    scores, target = torch.rand(9, 4, generator=random(0)), torch.randint(4, (9,), generator=random(1))
    together.update(scores, target)
    assert len(together.compute_groups) == 1
    tp, fp = together.compute()["StatScores"][:2]
    assert float(together.compute()["Precision"]) == pytest.approx(int(tp) / int(tp + fp))


def test_counts_take_no_zero_division() -> None:
    with pytest.raises(InputError, match="zero_division must be left out: counts"):
        StatScores(3, zero_division=0)


@pytest.mark.parametrize("ignore_index", IGNORED)
@pytest.mark.parametrize("hard", [False, True])
def test_exact_match_of_positions_equals_torchmetrics(ignore_index: int | None, hard: bool) -> None:
    scores = torch.rand(60, 3, 4, generator=random(0))
    wrong = torch.rand(60, 4, generator=random(1)) < 0.2
    target = with_ignored(torch.where(wrong, 0, scores.argmax(1)), ignore_index)
    batch = (scores.argmax(1) if hard else scores, target)
    theirs = tm.MulticlassExactMatch(3, ignore_index=ignore_index)
    assert_equal(ExactMatch(3, ignore_index=ignore_index), theirs, batch, batch)


@pytest.mark.parametrize("ignore_index", IGNORED)
@pytest.mark.parametrize("shape", [(60, 3), (60, 3, 2)])
def test_exact_match_of_labels_equals_torchmetrics(ignore_index: int | None, shape: tuple[int, ...]) -> None:
    scores = torch.rand(shape, generator=random(0))
    wrong = torch.rand(shape, generator=random(1)) < 0.2
    target = with_ignored(((scores > 0.5) ^ wrong).long(), ignore_index)
    theirs = tm.MultilabelExactMatch(3, ignore_index=ignore_index)
    assert_equal(ExactMatch(num_labels=3, ignore_index=ignore_index), theirs, (scores, target))


def test_weighted_exact_match_equals_scikit_learn() -> None:
    preds, target = torch.randint(2, (50, 3), generator=random(0)), torch.randint(2, (50, 3), generator=random(1))
    target[::2] = preds[::2]
    weight = torch.rand(50, generator=random(2), dtype=torch.float64)
    metric = ExactMatch(num_labels=3)
    metric.update(preds, target, weight)
    expected = sk.accuracy_score(target.numpy(), preds.numpy(), sample_weight=weight.numpy())
    assert metric.result().values["ExactMatch"] == pytest.approx(expected, abs=1e-12)
    positions = ExactMatch(2)
    positions.update(preds, target, weight)
    assert positions.result().values["ExactMatch"] == pytest.approx(expected, abs=1e-12)


def test_a_result_counts_samples_of_ignored_elements_alone() -> None:
    metric = ExactMatch(num_labels=2, ignore_index=-1)
    metric.update(torch.tensor([[1, 0], [1, 1]]), torch.tensor([[-1, -1], [0, -1]]))
    result = metric.result()
    assert result.values["ExactMatch"] == 0.5
    assert result.counts == {"samples": 2, "ignored": 3, "all_ignored": 1}
    empty = ExactMatch(3)
    with pytest.warns(UserWarning, match="before the ``update`` method"):
        assert float(empty.compute()) == 0
    assert math.isnan(empty.result().values["ExactMatch"])
    assert empty.result().reason("ExactMatch") == "no sample has weight"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "num_classes or num_labels must be given"),
        ({"num_classes": 3, "threshold": 0.25}, "threshold must be left out in the multiclass task"),
        ({"num_labels": 0}, "num_labels must be an int of at least 1 but got 0"),
    ],
)
def test_wrong_arguments_of_exact_match_raise(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ExactMatch(**arguments)


def test_wrong_batches_of_exact_match_raise_and_change_nothing() -> None:
    metric = ExactMatch(3)
    classes = torch.zeros(2, 4, dtype=torch.long)
    with pytest.raises(InputError, match=r"sample_weight must have shape \[2\], one per sample, but got \[2, 4\]"):
        metric.update(classes, classes, torch.ones(2, 4))
    with pytest.raises(InputError, match="target"):
        metric.update(classes, classes + 3)
    with pytest.raises(InputError, match="NaN"):
        metric.update(torch.full((2, 3, 4), math.nan), classes)
    assert metric.result().counts["samples"] == 0
