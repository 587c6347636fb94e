"""Metrics of class counts: equal to torchmetrics and scikit-learn; one update for all of them in a collection."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.classification as tm
from torch import Tensor
from torchmetrics import MetricCollection

from valor_gpu import classification, functional, plans
from valor_gpu.classification import class_counts
from valor_gpu.classification.accuracy import Accuracy, BalancedAccuracy, HammingDistance
from valor_gpu.classification.class_counts import next_above
from valor_gpu.classification.ratio_base import RatioMetric
from valor_gpu.classification.ratio_metrics import (
    F1Score,
    FBetaScore,
    JaccardIndex,
    NegativePredictiveValue,
    Precision,
    Recall,
    Specificity,
)
from valor_gpu.errors import InputError

CLASSES = 5
PEERS: list[type[RatioMetric]] = [
    Accuracy, Precision, Recall, F1Score, FBetaScore, Specificity, NegativePredictiveValue, JaccardIndex,
    HammingDistance,
]  # fmt: skip
ZERO_DIVISION = (Precision, Recall, F1Score, FBetaScore, NegativePredictiveValue, JaccardIndex)
AVERAGES = ["micro", "macro", "weighted", "none"]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def multiclass(seed: int, rows: int = 60, absent: bool = True) -> tuple[Tensor, Tensor]:
    """Scores in which class 4 never wins, and a target without class 3."""
    scores = torch.rand(rows, CLASSES, generator=random(seed))
    if absent:
        scores[:, 4] -= 1
    target = torch.randint(CLASSES, (rows,), generator=random(seed + 100))
    return scores.double(), target.where(target != 3, 0) if absent else target


def multilabel(seed: int, rows: int = 40) -> tuple[Tensor, Tensor]:
    """Label 4 is never predicted, label 3 never true, label 2 neither."""
    scores = torch.rand(rows, CLASSES, generator=random(seed))
    scores[:, [2, 4]] *= 0.4
    target = torch.randint(2, (rows, CLASSES), generator=random(seed + 100))
    target[:, 2:4] = 0
    return scores, target


def peer(kind: type[RatioMetric], task: str, **choices: Any) -> Any:
    """torchmetrics' class of the same name."""
    if kind is FBetaScore:
        choices["beta"] = 0.7
    found = getattr(tm, task + kind.__name__)
    return found(**choices)


def ours(kind: type[RatioMetric], **choices: Any) -> RatioMetric:
    return kind(**choices, **({"beta": 0.7} if kind is FBetaScore else {}))


def assert_peer(kind: type[RatioMetric], metric: RatioMetric, theirs: Any, preds: Tensor, target: Tensor) -> None:
    metric.update(preds, target)
    with quiet():
        theirs.update(preds, target)
        expected = theirs.compute()
    found = metric.compute()
    assert found.dtype == torch.float32 and found.shape == expected.shape
    torch.testing.assert_close(found, expected.float(), rtol=0, atol=2e-6)


def shared(kind: type[RatioMetric], zero_division: int) -> dict[str, Any]:
    return {"zero_division": zero_division} if kind in ZERO_DIVISION else {}


@pytest.mark.parametrize("kind", PEERS)
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize(("ignore_index", "zero_division"), [(None, 0), (None, 1), (1, 0), (-1, 0), (-1, 1)])
def test_multiclass_equals_torchmetrics(
    kind: type[RatioMetric], average: str, ignore_index: int | None, zero_division: int
) -> None:
    choices = dict(num_classes=CLASSES, average=average, ignore_index=ignore_index, **shared(kind, zero_division))
    for seed in range(3):
        preds, target = multiclass(seed, absent=seed < 2)
        if ignore_index == -1:
            target[::7] = -1
        theirs = peer(kind, "Multiclass", **choices, validate_args=False)
        assert_peer(kind, ours(kind, **choices), theirs, preds, target)
        labels = preds.argmax(1)
        assert_peer(
            kind, ours(kind, **choices), peer(kind, "Multiclass", **choices, validate_args=False), labels, target
        )


@pytest.mark.parametrize("kind", [k for k in PEERS if k is not JaccardIndex])
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("top_k", [2, 3, 5])
@pytest.mark.parametrize("ignore_index", [None, 1])
def test_top_k_equals_torchmetrics(kind: type[RatioMetric], average: str, top_k: int, ignore_index: int | None) -> None:
    choices = dict(num_classes=CLASSES, average=average, ignore_index=ignore_index, top_k=top_k)
    preds, target = multiclass(4)
    assert_peer(kind, ours(kind, **choices), peer(kind, "Multiclass", **choices), preds, target)


@pytest.mark.parametrize("kind", PEERS)
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("ignore_index", [None, -1])
@pytest.mark.parametrize("zero_division", [0, 1])
def test_multilabel_equals_torchmetrics(
    kind: type[RatioMetric], average: str, ignore_index: int | None, zero_division: int
) -> None:
    choices = dict(num_labels=CLASSES, average=average, ignore_index=ignore_index, threshold=0.4)
    choices.update(shared(kind, zero_division))
    preds, target = multilabel(1)
    if ignore_index is not None:
        target[::3, 1] = target[5:9] = -1
    assert_peer(kind, ours(kind, **choices), peer(kind, "Multilabel", **choices), preds, target)
    logits = 6 * preds - 3
    assert_peer(kind, ours(kind, **choices), peer(kind, "Multilabel", **choices), logits, target)
    hard = (preds > 0.6).int()
    assert_peer(kind, ours(kind, **choices), peer(kind, "Multilabel", **choices), hard, target)


@pytest.mark.parametrize("kind", PEERS)
@pytest.mark.parametrize("shape", [(30,), (6, 5)])
@pytest.mark.parametrize("ignore_index", [None, -1, 0])
def test_binary_equals_torchmetrics(kind: type[RatioMetric], shape: tuple[int, ...], ignore_index: int | None) -> None:
    preds = torch.rand(shape, generator=random(0))
    target = torch.randint(-1 if ignore_index == -1 else 0, 2, shape, generator=random(1))
    choices = dict(ignore_index=ignore_index, threshold=0.3)
    for scores in (preds, preds * 4 - 2, (preds > 0.5).long()):
        assert_peer(kind, ours(kind, **choices), peer(kind, "Binary", **choices), scores, target)
    for constant in (0, 1):
        none = torch.full(shape, constant)
        theirs = peer(kind, "Binary", **choices)
        assert_peer(kind, ours(kind, **choices), theirs, preds, none)


@pytest.mark.parametrize("kind", PEERS)
def test_further_dimensions_equal_torchmetrics(kind: type[RatioMetric]) -> None:
    preds = torch.rand(4, CLASSES, 3, 2, generator=random(0))
    target = torch.randint(CLASSES, (4, 3, 2), generator=random(1))
    several = torch.randint(2, (4, CLASSES, 3, 2), generator=random(1))
    choices: dict[str, Any] = dict(average="macro")
    theirs = peer(kind, "Multiclass", num_classes=CLASSES, **choices)
    assert_peer(kind, ours(kind, num_classes=CLASSES, **choices), theirs, preds, target)
    theirs = peer(kind, "Multilabel", num_labels=CLASSES, **choices)
    assert_peer(kind, ours(kind, num_labels=CLASSES, **choices), theirs, preds, several)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("threshold", [0.0, 0.1, 0.3, 0.5, 0.7, 1.0])
def test_thresholds_hit_exactly(dtype: torch.dtype, threshold: float) -> None:
    """Two decimals, of which some equal the threshold in their dtype; torchmetrics has `score > threshold`."""
    preds = (torch.arange(101) / 100).to(dtype)
    metric = F1Score(threshold=threshold)
    metric.update(preds, torch.ones(101, dtype=torch.long))
    assert int(metric.state().outcomes.tp) == int((preds > threshold).sum())
    assert next_above(threshold, dtype) > threshold - 1e-2


def test_next_above_is_the_next_float() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        assert next_above(0.3, torch.from_numpy(np.zeros(1, dtype)).dtype) == np.nextafter(dtype(0.3), dtype(1))
    assert next_above(1.0, torch.bfloat16) == 1 + 2**-7
    assert next_above(0.0, torch.float32) == 2**-149 == next_above(-0.0, torch.float32)


# ------------------------------------------------------------------------------------------------------- scikit-learn


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", None])
@pytest.mark.parametrize("zero_division", [0.0, 1.0, math.nan])
@pytest.mark.parametrize("weighted", [False, True])
def test_multiclass_equals_scikit_learn(average: str | None, zero_division: float, weighted: bool) -> None:
    preds, target = multiclass(0)
    weight = torch.rand(len(target), generator=random(3)) if weighted else None
    choices = dict(average=average, zero_division=zero_division)
    labels = [0, 1, 2, 3, 4] if average is None else None
    for kind, function in ((Precision, sk.precision_score), (Recall, sk.recall_score), (F1Score, sk.f1_score),
                           (JaccardIndex, sk.jaccard_score)):  # fmt: skip
        if kind is JaccardIndex and (math.isnan(zero_division) or average == "micro"):
            continue
        metric = kind(num_classes=CLASSES, **choices)
        metric.update(preds, target, weight)
        expected = function(target, preds.argmax(1), **choices, labels=labels, sample_weight=weight)
        found = np.asarray(metric._value(metric._outcomes(metric.state()), metric.zero_division))
        assert found == pytest.approx(expected, abs=1e-12, nan_ok=True), kind


@pytest.mark.parametrize("weighted", [False, True])
def test_accuracy_and_balanced_accuracy_equal_scikit_learn(weighted: bool) -> None:
    preds, target = multiclass(1)
    weight = torch.rand(len(target), generator=random(3)) if weighted else None
    hard = preds.argmax(1)
    with quiet():
        expected = sk.balanced_accuracy_score(target, hard, sample_weight=weight)
    for metric, value in (
        (Accuracy(num_classes=CLASSES), sk.accuracy_score(target, hard, sample_weight=weight)),
        (BalancedAccuracy(num_classes=CLASSES), expected),
    ):
        metric.update(preds, target, weight)
        assert metric.result().values[type(metric).__name__] == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_binary_equals_scikit_learn(weighted: bool) -> None:
    preds, target = torch.rand(50, generator=random(0)), torch.randint(2, (50,), generator=random(1))
    weight = torch.rand(50, generator=random(3)) if weighted else None
    hard = (preds > 0.5).int()
    for metric, value in (
        (Accuracy(), sk.accuracy_score(target, hard, sample_weight=weight)),
        (BalancedAccuracy(), sk.balanced_accuracy_score(target, hard, sample_weight=weight)),
        (FBetaScore(beta=2.0), sk.fbeta_score(target, hard, beta=2.0, sample_weight=weight)),
        (Specificity(), sk.recall_score(target, hard, pos_label=0, sample_weight=weight)),
        (NegativePredictiveValue(), sk.precision_score(target, hard, pos_label=0, sample_weight=weight)),
        (JaccardIndex(), sk.jaccard_score(target, hard, sample_weight=weight)),
    ):
        metric.update(preds, target, weight)
        assert metric.result().values[type(metric).__name__] == pytest.approx(value, abs=1e-12)


def test_balanced_accuracy_of_labels_is_the_mean_over_them() -> None:
    preds, target = multilabel(2)
    metric = BalancedAccuracy(num_labels=CLASSES)
    metric.update(preds, target)
    hard = (preds > 0.5).int()
    with quiet():
        each = [sk.balanced_accuracy_score(target[:, i], hard[:, i]) for i in range(CLASSES)]
    assert metric.result().values["per_class"].tolist() == pytest.approx(each, abs=1e-12)
    assert float(metric.compute()) == pytest.approx(sum(each) / CLASSES, abs=1e-6)


def test_weights_of_one_side_leave_no_negatives() -> None:
    """Sums of 0.1, 0.2, ... in two orders differ in the last bit, which must not make a specificity of garbage."""
    weight = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.7, 0.9]).double()
    metric = NegativePredictiveValue(num_classes=2, average="none")
    metric.update(torch.tensor([1, 1, 1, 1, 1, 1]), torch.tensor([0, 1, 0, 1, 0, 1]), weight)
    result = metric.result()
    assert math.isnan(result.values["per_class"][1]) and result.reason("per_class")
    assert result.values["tn"][1] == 0


# ---------------------------------------------------------------------------------------------------------- behaviour


def test_documented_examples_of_torchmetrics() -> None:
    target, preds = torch.tensor([2, 1, 0, 0]), torch.tensor([2, 1, 0, 1])
    for metric, expected in (
        (Accuracy(num_classes=3, average="macro"), 0.8333),
        (Precision(num_classes=3, average="macro"), 0.8333),
        (Specificity(num_classes=3, average="macro"), 0.8889),
        (F1Score(num_classes=3, average="macro"), 0.7778),
        (NegativePredictiveValue(num_classes=3, average="macro"), 0.8889),
        (HammingDistance(num_classes=3, average="macro"), 0.1667),
        (JaccardIndex(num_classes=3), 0.6667),
    ):
        metric.update(preds, target)
        assert float(metric.compute()) == pytest.approx(expected, abs=5e-5), type(metric)


def everything(**choices: Any) -> dict[str, RatioMetric]:
    return {kind.__name__: kind(**choices) for kind in (*PEERS, BalancedAccuracy)}


@pytest.mark.parametrize("rows", [9, 6000])
def test_one_update_serves_a_collection(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return original(*args, **kwargs)

    module, name = (plans, "commit") if rows * CLASSES <= plans.MAX_ELEMENTS else (class_counts, "count_top")
    original = getattr(module, name)
    monkeypatch.setattr(module, name, counted)
    choices = dict(num_classes=CLASSES)
    collection = MetricCollection({**everything(**choices), "macro": Accuracy(**choices, average="macro")})
    batches = [multiclass(seed, rows=rows) for seed in range(4)]
    collection.update(*batches[0])
    assert len(calls) == len(collection) == 11
    assert len(collection.compute_groups) == 1
    for batch in batches[1:]:
        collection.update(*batch)
    assert len(calls) == 11 + 3
    for name, metric in {**everything(**choices), "macro": Accuracy(**choices, average="macro")}.items():
        for batch in batches:
            metric.update(*batch)
        assert torch.equal(collection[name].compute(), metric.compute()), name


def test_choices_of_update_split_a_collection() -> None:
    collection = MetricCollection(
        {"a": Accuracy(), "b": F1Score(threshold=0.25), "c": F1Score(activation="none"), "d": Recall(ignore_index=0)}
    )
    collection.update(torch.tensor([0.5]), torch.tensor([1]))
    assert len(collection.compute_groups) == 4


@pytest.mark.parametrize("weighted", [False, True])
def test_batches_and_order(weighted: bool) -> None:
    preds, target = multiclass(0, rows=300)
    weight = torch.rand(300, generator=random(1), dtype=torch.float64) if weighted else None
    whole, parts = F1Score(num_classes=CLASSES, average="macro"), F1Score(num_classes=CLASSES, average="macro")
    whole.update(preds, target, weight)
    for rows in torch.randperm(300, generator=random(2)).split(37):
        parts.update(preds[rows], target[rows], None if weight is None else weight[rows])
    one, other = whole.result().values, parts.result().values
    if weighted:
        assert one["F1Score"] == pytest.approx(other["F1Score"], abs=1e-14)
    else:
        np.testing.assert_equal(dict(one), dict(other))


def test_result_tells_what_was_counted() -> None:
    metric = Precision(num_classes=4, average="macro", ignore_index=-1)
    metric.update(torch.tensor([0, 1, 1, 0, 2]), torch.tensor([0, 1, 2, 2, -1]))
    result = metric.result()
    assert dict(result.counts) == {"samples": 5, "ignored": 1}
    assert result.values["Precision"] == pytest.approx(1 / 3)
    assert result.values["support"].tolist() == [1, 1, 2, 0]
    assert result.values["per_class"][:2].tolist() == [0.5, 0.5] and math.isnan(result.values["per_class"][3])
    assert [result.values[name][2] for name in ("tp", "fp", "fn", "tn")] == [0, 0, 2, 2]
    assert result.reason("per_class") == "its denominator is 0, since no sample counts for it"
    assert "average:macro|zero_division:0.0" in str(result.signature) and "metric:Precision" in str(result.signature)
    assert "top_k:1" in str(result.signature) and "activation" not in str(result.signature)


@pytest.mark.parametrize("kind", [*PEERS, BalancedAccuracy])
@pytest.mark.parametrize("choices", [{}, {"num_classes": 3}, {"num_labels": 3}])
def test_nothing_seen_is_nan_with_a_reason(kind: type[RatioMetric], choices: dict[str, int]) -> None:
    result = kind(**choices).result()
    assert math.isnan(result.values[kind.__name__]) and result.reason(kind.__name__)
    assert ("per_class" in result.values) == bool(choices)


def test_average_none_and_binary_tables() -> None:
    metric = Recall(num_labels=2, average=None)
    metric.update(torch.tensor([[1, 0]]), torch.tensor([[1, 1]]))
    assert metric.compute().tolist() == [1, 0] and "Recall" not in metric.result().values
    binary = FBetaScore(beta=2.0)
    binary.update(torch.tensor([1, 0]), torch.tensor([1, 1]))
    assert {name: float(v) for name, v in binary.result().values.items() if name != "FBetaScore"} == dict(
        tp=1, fp=0, fn=1, tn=0, support=2
    )
    assert "beta:2.0" in str(binary.result().signature)


BAD = [
    (dict(num_classes=3), torch.tensor([[0.1, math.nan, 0.2]]), torch.tensor([0]), r"preds\[0, 1\] must not be NaN"),
    (dict(num_classes=3), torch.rand(2, 3), torch.tensor([0, 3]), r"target\[1\] must be a class index from 0 to 2"),
    (dict(num_classes=3), torch.tensor([0, 3]), torch.tensor([0, 1]), r"preds\[1\] must be a class index from 0 to 2"),
    (dict(num_classes=3), torch.rand(2, 3), torch.tensor([0, 0.5]), r"target\[1\] must be a class index from 0 to 2"),
    (dict(num_labels=2), torch.rand(2, 2), torch.tensor([[0, 1], [2, 0]]), r"target\[1, 0\] must be 0 or 1"),
    (dict(num_labels=2), torch.tensor([[0, 1], [0, 2]]), torch.ones(2, 2), r"preds\[1, 1\] must be 0 or 1"),
    (dict(), torch.tensor([0.5, math.nan]), torch.tensor([0, 1]), r"preds\[1\] must not be NaN"),
    (dict(), torch.tensor([0, -1]), torch.tensor([0, 1]), r"preds\[1\] must be 0 or 1"),
]


@pytest.mark.parametrize(("choices", "preds", "target", "message"), BAD)
def test_bad_values_change_nothing(choices: dict[str, int], preds: Tensor, target: Tensor, message: str) -> None:
    metric = Accuracy(**choices)
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)
    assert metric.update_count == 0 and not metric.seen.any() and not metric.counts.any()


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_bad_weights(weight: float) -> None:
    metric = Accuracy(num_classes=3)
    with pytest.raises(InputError, match=r"sample_weight\[1\] must be from 0 to 1e60"):
        metric.update(torch.rand(2, 3), torch.tensor([0, 1]), torch.tensor([1.0, weight]))


@pytest.mark.parametrize(
    ("kind", "choices", "message"),
    [
        (Accuracy, dict(average="mean"), "average must be one of 'micro', 'macro', 'weighted', 'none', None but got"),
        (Accuracy, dict(num_classes=3, top_k=4), "top_k must be an int from 1 to num_classes=3 but got 4"),
        (Accuracy, dict(num_classes=3, top_k=0), "top_k must be an int from 1 to num_classes=3 but got 0"),
        (Accuracy, dict(num_labels=3, top_k=2), "top_k must be an int 1 in the multilabel task but got 2"),
        (Accuracy, dict(threshold=1.5), "threshold must be a number from 0 to 1 but got 1.5"),
        (Accuracy, dict(num_classes=3, threshold=0.4), "threshold must be left out in the multiclass task"),
        (Accuracy, dict(num_classes=3, activation="none"), "activation must be left out in the multiclass task"),
        (Accuracy, dict(zero_division=2), "zero_division must be 0, 1 or NaN but got 2"),
        (FBetaScore, dict(beta=0), "beta must be a finite number above 0 but got 0"),
        (BalancedAccuracy, dict(average="micro"), "average must be left out"),
    ],
)
def test_arguments_out_of_range(kind: type[RatioMetric], choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**choices)


TASKS = [BalancedAccuracy, classification.ROCAUC, classification.mROCAUC]
TASKS += [classification.ThresholdCounts, classification.DetailedPrecisionRecallCurve]


@pytest.mark.parametrize("kind", TASKS)
def test_the_task_follows_from_the_number_of_classes(kind: type[Any]) -> None:
    message = r"task must be left out: that of .* or from num_classes .* but got 'multiclass'"
    with pytest.raises(InputError, match=message):
        kind(task="multiclass", num_classes=3)


def test_top_k_needs_scores() -> None:
    with pytest.raises(InputError, match=r"preds must be scores with top_k=2 but are labels of torch.int64"):
        Accuracy(num_classes=3, top_k=2).update(torch.tensor([0]), torch.tensor([0]))


def test_names_of_the_package() -> None:
    assert classification.Accuracy is Accuracy
    assert all(hasattr(classification, name) for name in classification.__all__)


@pytest.mark.parametrize("average", ["macro", "weighted", "micro"])
def test_labels_without_positives_are_no_distance(average: str) -> None:
    nothing = torch.zeros((4, 2), dtype=torch.int64)
    metric, theirs = HammingDistance(num_labels=2, average=average), tm.MultilabelHammingDistance(2, average=average)
    for m in (metric, theirs):
        m.update(nothing, nothing)
    assert metric.compute() == theirs.compute() == 0


@pytest.mark.parametrize("average", ["none", "macro", "micro", "weighted"])
@pytest.mark.parametrize("zero_division", [0, 1])
@pytest.mark.parametrize("ignore_index", [0, 1, 2, -1])
def test_jaccard_of_an_ignored_class_that_was_predicted(ignore_index: int, zero_division: int, average: str) -> None:
    """Its union is not empty, so that zero_division is not its value."""
    preds, target = torch.tensor([0, 1, 2, 1]), torch.tensor([1, 1, 2, 0])
    choices = {"average": average, "ignore_index": ignore_index, "zero_division": zero_division}
    theirs = tm.MulticlassJaccardIndex(3, **choices)(preds, target)
    for value in (
        classification.MulticlassJaccardIndex(3, **choices)(preds, target),
        functional.multiclass_jaccard_index(preds, target, 3, **choices),
        MetricCollection([classification.MulticlassJaccardIndex(3, **choices)])(preds, target)[
            "MulticlassJaccardIndex"
        ],
    ):
        torch.testing.assert_close(value, theirs, rtol=0, atol=1e-7)  # theirs is a mean in float32
    if (average, ignore_index) == ("none", 0):
        assert theirs.tolist() == [0.0, 0.5, 1.0]
