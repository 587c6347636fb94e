"""Intervals of classification: replicates are the metric of rows repeated by our weights, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.classification import (
    AUROC,
    Accuracy,
    AveragePrecision,
    BalancedAccuracy,
    CalibrationError,
    CohenKappa,
    ConfusionMatrix,
    ExactMatch,
    F1Score,
    FBetaScore,
    HammingDistance,
    JaccardIndex,
    MatthewsCorrCoef,
    MulticlassF1Score,
    MultilabelRankingLoss,
    NegativePredictiveValue,
    Precision,
    Recall,
    Specificity,
    StatScores,
    ThresholdCounts,
)
from valor_gpu.errors import InputError
from valor_gpu.result import Result
from valor_gpu.stats import Bootstrap, pass_rate
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.methods import EQUAL
from valor_gpu.stats.resample import collected

CLASSES, ROWS, REPLICATES = 4, 60, 12
Keys = NDArray[np.int64]


def labels(seed: int, rows: int = ROWS, classes: int = CLASSES) -> tuple[Tensor, Tensor]:
    """Predicted and true classes; the last class is rare."""
    rng = np.random.default_rng(seed)
    target = np.minimum(rng.integers(0, classes + 2, rows) % (classes + 1), classes - 1)
    preds = np.where(rng.random(rows) < 0.6, target, rng.integers(0, classes, rows))
    return torch.from_numpy(preds), torch.from_numpy(target)


def multilabel(seed: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    target = rng.integers(0, 2, (ROWS, 3))
    return torch.from_numpy(np.where(rng.random((ROWS, 3)) < 0.7, target, 1 - target)), torch.from_numpy(target)


def updated(metric: Any, preds: Tensor, target: Tensor) -> Any:
    if len(target):
        metric.update(preds, target)
    return metric


def replicates(result: Result, draws: Draws) -> dict[str, Any]:
    return collected(vars(result)["_state"](), draws)


def repeated(make: Callable[[], Any], preds: Tensor, target: Tensor, weights: NDArray[np.uint8]) -> list[Result]:
    """The results of rows repeated by each column of weights."""
    columns = [torch.from_numpy(column.astype(np.int64)) for column in weights.T]
    return [
        updated(make(), preds.repeat_interleave(column, 0), target.repeat_interleave(column, 0)).result()
        for column in columns
    ]


def check_replicates(
    make: Callable[[], Any], preds: Tensor, target: Tensor, key: Keys, name: str | None = None
) -> None:
    """Compares replicates with the metric of rows that are sorted by their key and repeated."""
    order = np.argsort(key, kind="stable")
    preds, target = preds[order], target[order]
    draws = Draws(len(target), REPLICATES, seed=3)
    result = updated(make(), preds, target).result()
    found = replicates(result, draws)
    loop = repeated(make, preds, target, draws.array())
    names = [name] if name else [each for each in found if not each.startswith("per_class")]
    assert names
    for each in names:
        array, _, index = each.partition("/")
        values = [one.values[array][int(index)] if index else one.values[array] for one in loop]
        assert np.array_equal(found[each], values, equal_nan=True), each
        assert each == "support" or len(set(np.asarray(values).tolist())) > 3, each


def outcome(preds: Tensor, target: Tensor, of: int = 1) -> Keys:
    """0 to 3: true positive, false positive, false negative, true negative of a class."""
    yes, true = (preds == of).numpy(), (target == of).numpy()
    return np.where(yes & true, 0, np.where(yes, 1, np.where(true, 2, 3)))


BINARY = [Accuracy, Precision, Recall, F1Score, Specificity, NegativePredictiveValue, JaccardIndex, HammingDistance]


@pytest.mark.parametrize("metric", [*BINARY, BalancedAccuracy, StatScores])
def test_binary_replicates_are_those_of_repeated_rows(metric: Any) -> None:
    preds, target = labels(1, classes=2)
    check_replicates(metric, preds, target, outcome(preds, target))
    if metric is F1Score:
        check_replicates(lambda: FBetaScore(beta=2), preds, target, outcome(preds, target))


@pytest.mark.parametrize("metric", [Accuracy, Precision, F1Score, Specificity, JaccardIndex, StatScores])
def test_pooled_classes_are_right_and_wrong_rows(metric: Any) -> None:
    preds, target = labels(2)
    check_replicates(lambda: metric(CLASSES, average="micro"), preds, target, (preds != target).long().numpy())


@pytest.mark.parametrize(
    "make",
    [
        lambda: BalancedAccuracy(CLASSES),
        lambda: Recall(CLASSES, average="weighted"),
        lambda: Recall(CLASSES, average="macro", zero_division=math.nan),
        lambda: HammingDistance(CLASSES, average="weighted"),
    ],
)
def test_means_of_recalls_need_hits_and_truths_alone(make: Callable[[], Any]) -> None:
    preds, target = labels(3)
    check_replicates(make, preds, target, (2 * target + (preds != target)).numpy())


@pytest.mark.parametrize("metric", [F1Score, Accuracy, Specificity, StatScores])
@pytest.mark.parametrize("keep_rows", [False, True])
def test_each_class_alone_is_exact(metric: Any, keep_rows: bool) -> None:
    preds, target = labels(4)
    name = "tp" if metric is StatScores else "per_class"
    for of in range(CLASSES):
        check_replicates(
            lambda: metric(CLASSES, average=None, keep_rows=keep_rows), preds, target, outcome(preds, target, of),
            f"{name}/{of}",
        )  # fmt: skip


@pytest.mark.parametrize("metric", [F1Score, Accuracy, Precision, JaccardIndex, StatScores, BalancedAccuracy])
def test_kept_rows_give_means_over_classes(metric: Any) -> None:
    preds, target = labels(5)
    average = {} if metric is BalancedAccuracy else {"average": "macro"}
    key = (2 * target + (preds != target)) if metric is BalancedAccuracy else target * CLASSES + preds
    check_replicates(lambda: metric(CLASSES, keep_rows=True, **average), preds, target, key.numpy())


@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_kept_rows_give_means_over_labels(average: str) -> None:
    preds, target = multilabel(6)
    key = (2 * target + preds) @ torch.tensor([16, 4, 1])
    check_replicates(lambda: F1Score(num_labels=3, average=average, keep_rows=True), preds, target, key.numpy())


@pytest.mark.parametrize("make", [lambda: MatthewsCorrCoef(CLASSES), lambda: CohenKappa(CLASSES, weights="quadratic")])
def test_numbers_of_a_confusion_matrix(make: Callable[[], Any]) -> None:
    preds, target = labels(7)
    check_replicates(make, preds, target, (target * CLASSES + preds).numpy())


def test_exact_match_is_a_proportion_of_samples() -> None:
    preds, target = multilabel(8)
    wrong = (preds != target).any(1).long()
    check_replicates(lambda: ExactMatch(num_labels=3), preds, target, wrong.numpy(), "ExactMatch")
    found = updated(ExactMatch(num_labels=3), preds, target).result(50).intervals["ExactMatch"]
    wilson = pass_rate(int((1 - wrong).sum()), ROWS)
    assert (found.low, found.high) == (wilson.low, wilson.high)


@pytest.mark.parametrize("metric", [AUROC, AveragePrecision])
def test_binned_ranks_are_those_of_repeated_rows(metric: Any) -> None:
    rng = np.random.default_rng(9)
    target = torch.from_numpy(rng.integers(0, 2, ROWS))
    scores = torch.from_numpy(np.clip(0.25 + 0.3 * target.numpy() + 0.2 * rng.standard_normal(ROWS), 0, 1))
    bucket = torch.bucketize(scores.float(), torch.linspace(0, 1, 9), right=True)
    key = (1 - target) * 100 + bucket
    check_replicates(lambda: metric(thresholds=9), scores, target, key.numpy(), metric.__name__)


def test_clusters_are_drawn_as_a_whole() -> None:
    preds, target = labels(10)
    clusters = [f"video {row % 7}" for row in range(ROWS)]
    codes = np.unique(clusters, return_inverse=True)[1].astype(np.int64)
    draws = Draws(ROWS, REPLICATES, seed=3, clusters=codes)
    for make in (
        lambda: F1Score(CLASSES, average="macro", keep_rows=True),
        lambda: Accuracy(CLASSES, keep_rows=True),
    ):
        metric = updated(make(), preds, target)
        found = replicates(metric.result(), draws)
        loop = repeated(make, preds, target, draws.array())
        name = type(metric).__name__
        assert found[name].tolist() == [one.values[name] for one in loop]
        assert found["per_class/1"].tolist() == [one.values["per_class"][1] for one in loop]
        given = metric.result(Bootstrap(50, clusters=clusters)).intervals
        assert given.choices["clusters"] == 7 and "wilson" not in given.choices
        assert given == metric.result(Bootstrap(50, clusters=dict(enumerate(clusters)))).intervals


def test_clusters_of_labels() -> None:
    preds, target = multilabel(11)
    codes = (np.arange(ROWS) % 9).astype(np.int64)
    draws = Draws(ROWS, REPLICATES, seed=3, clusters=codes)
    make = lambda: F1Score(num_labels=3, average="macro", keep_rows=True)  # noqa: E731
    found = replicates(updated(make(), preds, target).result(), draws)
    loop = repeated(make, preds, target, draws.array())
    assert found["F1Score"].tolist() == [one.values["F1Score"] for one in loop]


@pytest.mark.parametrize("keep_rows", [False, True])
def test_order_split_and_merge_do_not_matter(keep_rows: bool) -> None:
    preds, target = labels(12)

    def made() -> Any:
        return F1Score(CLASSES, average="macro" if keep_rows else None, ignore_index=3, keep_rows=keep_rows)

    whole = updated(made(), preds, target).result(30).intervals
    order = torch.from_numpy(np.random.default_rng(0).permutation(ROWS))
    first, second = made(), made()
    for part in order[:20].split(7):
        first.update(preds[part], target[part])
    second.update(preds[order[20:]], target[order[20:]])
    first.merge_state(second.to_bytes())
    again = first.result(30).intervals
    assert repr(again) == repr(whole)
    assert len(whole) >= CLASSES and not all(math.isnan(each.low) for each in whole.values())


def test_ignored_rows_are_no_rows() -> None:
    preds, target = labels(13, classes=2)
    more = torch.cat((target, torch.full((9,), -1)))
    padded = torch.cat((preds, torch.ones(9, dtype=torch.long)))
    for make in (F1Score, MatthewsCorrCoef, Accuracy):
        plain = updated(make(), preds, target).result(20).intervals
        assert repr(updated(make(ignore_index=-1), padded, more).result(20).intervals) == repr(plain)


def test_a_proportion_of_all_rows_has_the_interval_of_wilson() -> None:
    _, target = labels(14)
    found = updated(Accuracy(CLASSES), target, target).result(40).intervals
    wilson = pass_rate(ROWS, ROWS)
    assert (found["Accuracy"].low, found["Accuracy"].high) == (wilson.low, 1.0)
    assert "Accuracy" in found.choices["wilson"]
    asked = updated(Accuracy(CLASSES), target, target).result(Bootstrap(40, method="percentile")).intervals
    assert asked["Accuracy"].reason == EQUAL and math.isnan(asked["Accuracy"].low)


def test_equal_replicates_have_no_interval_of_no_width() -> None:
    target = torch.arange(CLASSES).repeat(30)
    for make in (MatthewsCorrCoef, CohenKappa):
        found = updated(make(CLASSES), target, target).result(40).intervals
        assert [each.reason for each in found.values()] == [EQUAL]
    scores = torch.tensor([0.2, 0.9] * 20)
    ranked = updated(AUROC(thresholds=10), scores, torch.tensor([0, 1] * 20)).result(40)
    assert ranked.intervals["AUROC"].reason.startswith("perfect separation")


def test_few_truths_have_no_interval_unless_they_are_a_proportion() -> None:
    preds, _ = labels(15, rows=60)
    rare = torch.where(torch.arange(60) < 5, 1, 0)
    found = updated(F1Score(), (preds == 1).long(), rare).result(40).intervals
    assert found["F1Score"].reason.startswith("too few rows: 5 hold a truth")
    assert updated(Recall(), (preds == 1).long(), rare).result(40).intervals["Recall"].reason == ""


@pytest.mark.parametrize(
    ("make", "data", "words"),
    [
        (lambda: F1Score(CLASSES, average="macro"), labels, "which class was taken for which: keep_rows=True"),
        (lambda: JaccardIndex(CLASSES, average="micro", ignore_index=1), labels, "keep_rows=True"),
        (lambda: F1Score(num_labels=3, average="micro"), multilabel, "which labels are of one row: keep_rows=True"),
        (lambda: MatthewsCorrCoef(num_labels=3), multilabel, "it takes a metric for each label"),
    ],
)
def test_means_that_counts_do_not_know_are_refused(make: Any, data: Any, words: str) -> None:
    metric = updated(make(), *data(16))
    found = metric.result(20).intervals[type(metric).__name__]
    assert math.isnan(found.low) and words in found.reason


def test_binned_means_over_classes_are_refused_and_classes_are_not() -> None:
    preds, target = labels(16)
    scores = torch.nn.functional.one_hot(preds, CLASSES) * 0.6 + 0.1
    found = updated(AUROC(CLASSES, thresholds=5), scores, target).result(20).intervals
    assert "thresholds=None" in found["AUROC"].reason
    assert found["per_class/0"].low < found["per_class/0"].high
    pooled = updated(AUROC(CLASSES, thresholds=5, average="micro"), scores, target).result(20).intervals
    assert list(pooled) == ["AUROC"] and "thresholds=None" in pooled["AUROC"].reason


def test_errors_of_calibration_say_why_they_have_none() -> None:
    metric = CalibrationError()
    metric.update(torch.rand(40, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 2)
    found = metric.result(20).intervals
    assert set(found) == {"CalibrationError", "expected_error", "maximum_error", "root_mean_square_error"}
    assert all("biased upward" in each.reason for each in found.values())


def test_arrays_have_none() -> None:
    preds, target = labels(17)
    assert len(updated(ConfusionMatrix(CLASSES), preds, target).result(20).intervals) == 0
    metric = ThresholdCounts(num_classes=CLASSES)
    metric.update(torch.nn.functional.one_hot(preds, CLASSES).float(), target)
    assert len(metric.result(20).intervals) == 0


@pytest.mark.parametrize("keep_rows", [False, True])
def test_weights_are_rejected(keep_rows: bool) -> None:
    preds, target = labels(18)
    weight = torch.linspace(0.5, 1.5, ROWS)
    for metric in (Accuracy(CLASSES, keep_rows=keep_rows), MatthewsCorrCoef(CLASSES)):
        metric.update(preds, target, weight)
        with pytest.raises(InputError, match="intervals need rows of equal weight but sample_weight was given"):
            metric.result(20)


def test_states_that_keep_too_little_say_what_to_do() -> None:
    preds, target = labels(19)
    with pytest.raises(InputError, match=r"clusters must be None but came: .* metric with Accuracy\(keep_rows=True\)"):
        updated(Accuracy(CLASSES), preds, target).result(Bootstrap(20, clusters=[0] * ROWS))
    for metric in (
        Accuracy(CLASSES, multidim_average="samplewise"),
        ExactMatch(CLASSES, multidim_average="samplewise"),
    ):
        metric.update(preds.reshape(-1, 4), target.reshape(-1, 4))
        with pytest.raises(InputError, match="intervals must be None with multidim_average='samplewise'"):
            metric.result(20)
    ranking = MultilabelRankingLoss(num_labels=3)
    ranking.update(torch.rand(5, 3), torch.tensor([[0, 1, 0]] * 5))
    with pytest.raises(InputError, match="MultilabelRankingLoss keeps sums over the samples"):
        ranking.result(20)


def test_wrong_clusters_are_named() -> None:
    metric = updated(Accuracy(CLASSES, keep_rows=True), *labels(20))
    with pytest.raises(InputError, match="clusters must have one for each of 60 rows but has 3"):
        metric.result(Bootstrap(20, clusters=[1, 2, 3]))
    with pytest.raises(InputError, match="clusters must name that of each of 60 rows but lacks row 1"):
        metric.result(Bootstrap(20, clusters={0: "a"}))


def test_kept_rows_change_no_number_and_are_checked() -> None:
    preds, target = labels(21)
    kept, plain = (updated(MulticlassF1Score(CLASSES, keep_rows=keep), preds, target) for keep in (True, False))
    assert kept.result().values["MulticlassF1Score"] == plain.result().values["MulticlassF1Score"]
    assert kept.result().signature == plain.result().signature
    assert kept.state().rows.dtype == torch.int8
    kept.rows = [kept.state().rows + 100]
    with pytest.raises(InputError, match="rows"):
        MulticlassF1Score(CLASSES, keep_rows=True).merge_state(kept.to_bytes())
    with pytest.raises(InputError, match="keep_rows must be False with multidim_average"):
        Accuracy(CLASSES, keep_rows=True, multidim_average="samplewise")
