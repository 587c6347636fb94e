"""The tests of DeLong and McNemar in compare, and intervals without replicates, beside the functions of arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from valor_gpu.classification import AUROC, Accuracy, AveragePrecision, ExactMatch, HammingDistance, Precision, Recall
from valor_gpu.comparison import ComparisonResult
from valor_gpu.errors import InputError
from valor_gpu.stats import Bootstrap, compare, compare_accuracy, compare_auroc, delong, pass_rate
from valor_gpu.text import SQuAD

ROWS, CLASSES = 240, 3
SAMPLEWISE: dict[str, Any] = {"multidim_average": "samplewise"}
CLUSTERS = (np.arange(ROWS) // 4).tolist()


def scores_of(seed: int, gap: float, target: Tensor) -> Tensor:
    """Scores of a model for the rows; a larger gap is a better model."""
    generator = torch.Generator().manual_seed(seed)
    if target.ndim == 2 or target.max() < 2:
        return (torch.randn(target.shape, generator=generator).mul(2).round().div(2) + gap * target).sigmoid()
    noise = torch.randn(len(target), CLASSES, generator=generator)
    return (noise + gap * torch.nn.functional.one_hot(target, CLASSES)).softmax(1)


def targets(*shape: int, most: int = 2) -> Tensor:
    return torch.randint(0, most, shape, generator=torch.Generator().manual_seed(9))


def pair(kind: Any, target: Tensor, **choices: Any) -> tuple[Any, Any, list[Tensor]]:
    """Two metrics of two models, of which the second saw the rows in two updates."""
    scores = [scores_of(seed, gap, target) for seed, gap in ((1, 0.8), (2, 1.4))]
    metrics = kind(**choices), kind(**choices)
    metrics[0].update(scores[0], target)
    for rows in (slice(100), slice(100, None)):
        metrics[1].update(scores[1][rows], target[rows])
    return *metrics, scores


def compared(first: Any, second: Any, **choices: Any) -> ComparisonResult:
    found = compare(first, second, replicates=50, permutations=0, **choices)
    assert isinstance(found, ComparisonResult)
    return found


def number(found: ComparisonResult, name: str) -> tuple[float, ...]:
    """Difference, p-value and ends."""
    interval = found.intervals[f"difference/{name}"]
    parts = [found.values["difference"], found.values["p"]]
    for key in name.split("/"):
        parts = [part[key] for part in parts]
    return *parts, interval.low, interval.high


def same(found: tuple[float, ...], test: Any) -> None:
    assert found == pytest.approx((test.difference, test.p_value, test.low, test.high), rel=1e-9)


@pytest.mark.parametrize("clusters", [None, CLUSTERS])
def test_area_is_tested_by_delong(clusters: Any) -> None:
    target = targets(ROWS)
    first, second, scores = pair(AUROC, target)
    found = compared(first, second, clusters=clusters)
    same(number(found, "AUROC"), compare_auroc(*scores, target, clusters))
    assert found.signature["tests"]["AUROC"] == "delong: both models have the same area under the ROC curve"


@pytest.mark.parametrize("clusters", [None, CLUSTERS])
def test_areas_of_classes_are_those_of_each_against_the_rest(clusters: Any) -> None:
    target = targets(ROWS, most=CLASSES)
    first, second, scores = pair(AUROC, target, num_classes=CLASSES)
    found = compared(first, second, clusters=clusters)
    for c in range(CLASSES):
        test = compare_auroc(*(each[:, c] for each in scores), target == c, clusters)
        same(number(found, f"per_class/{c}"), test)
    assert found.signature["tests"]["AUROC"].startswith("delong")
    _, p_value, low, high = number(found, "AUROC")
    assert (low <= 0 <= high) == (p_value > 0.05)


def test_labels_leave_out_what_is_ignored() -> None:
    target = targets(ROWS, 3)
    target[::7, 1] = -1
    first, second, scores = pair(AUROC, target.abs(), num_labels=3)
    first, second = (AUROC(num_labels=3, ignore_index=-1, average="none") for _ in range(2))
    for metric, each in zip((first, second), scores):
        metric.update(each, target)
    found = compared(first, second)
    kept = target[:, 1] >= 0
    same(number(found, "per_class/1"), compare_auroc(*(each[kept, 1] for each in scores), target[kept, 1]))


def test_pooled_elements_of_a_row_belong_together() -> None:
    target = targets(ROWS, most=CLASSES)
    first, second, scores = pair(AUROC, target, num_classes=CLASSES, average="micro")
    hot = torch.nn.functional.one_hot(target, CLASSES).reshape(-1)
    rows = np.repeat(np.arange(ROWS), CLASSES)
    same(number(compared(first, second), "AUROC"), compare_auroc(*(each.reshape(-1) for each in scores), hot, rows))


def test_average_precision_and_weights_keep_the_bootstrap() -> None:
    target = targets(ROWS)
    first, second, scores = pair(AveragePrecision, target)
    assert compared(first, second).signature["tests"]["AveragePrecision"].startswith("bootstrap")
    weighted = AUROC(), AUROC()
    for metric, each in zip(weighted, scores):
        metric.update(each, target, torch.linspace(1, 2, ROWS))
    assert compared(*weighted).signature["tests"]["AUROC"].startswith("bootstrap")


def test_counts_of_rows_are_not_compared() -> None:
    first, second, _ = pair(AUROC, targets(ROWS))
    found = compared(first, second)
    assert list(found.values["difference"]) == ["AUROC"]
    note = "not compared, since the metric gives no replicates of them: positives, negatives"
    assert found.signature["notes"] == [note] and note in str(found)


@pytest.mark.parametrize("clusters", [None, CLUSTERS])
def test_accuracy_is_tested_by_mcnemar(clusters: Any) -> None:
    target = targets(ROWS, most=CLASSES)
    first, second, scores = pair(Accuracy, target, num_classes=CLASSES, average="micro", keep_rows=True)
    found = compared(first, second, clusters=clusters)
    right = [each.argmax(1) == target for each in scores]
    test = compare_accuracy(*right, clusters)
    same(number(found, "Accuracy"), test)
    assert found.signature["tests"]["Accuracy"] == f"{test.test}: both models have the same expected proportion"


@pytest.mark.parametrize("clusters", [None, CLUSTERS])
def test_recall_of_a_class_is_of_its_rows(clusters: Any) -> None:
    target = targets(ROWS, most=CLASSES)
    first, second, scores = pair(Recall, target, num_classes=CLASSES, average="none", keep_rows=True)
    found = compared(first, second, clusters=clusters)
    for c in range(CLASSES):
        rows = target == c
        inside = None if clusters is None else np.array(clusters)[rows]
        same(number(found, f"per_class/{c}"), compare_accuracy(*(each.argmax(1)[rows] == c for each in scores), inside))


def test_labels_and_distances_are_tested_by_mcnemar() -> None:
    target = targets(ROWS, 3)
    first, second, scores = pair(HammingDistance, target, num_labels=3, average="none", keep_rows=True)
    found = compared(first, second)
    for c in range(3):
        wrong = ((each[:, c] > 0.5).long() != target[:, c] for each in scores)
        same(number(found, f"per_class/{c}"), compare_accuracy(*wrong))


def test_precision_has_other_trials_for_each_model() -> None:
    target = targets(ROWS, most=CLASSES)
    first, second, _ = pair(Precision, target, num_classes=CLASSES, average="none", keep_rows=True)
    assert compared(first, second).signature["tests"]["per_class"].startswith("bootstrap")


def test_exact_matches_of_texts_are_tested_by_mcnemar() -> None:
    rng = np.random.default_rng(0)
    right = rng.random((2, 60)) < [[0.5], [0.8]]
    metrics = SQuAD(), SQuAD()
    for metric, mine in zip(metrics, right):
        metric.update(
            [{"prediction_text": "yes" if each else "no", "id": str(row)} for row, each in enumerate(mine)],
            [{"answers": {"text": ["yes"]}, "id": str(row)} for row in range(60)],
        )
    found = number(compared(*metrics), "exact_match")
    test = compare_accuracy(*right)
    assert found == pytest.approx((100 * test.difference, test.p_value, 100 * test.low, 100 * test.high), rel=1e-9)


def test_order_of_updates_changes_no_bit() -> None:
    target = targets(ROWS, most=CLASSES)
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(4))
    for kind, choices in ((AUROC, {}), (Accuracy, {"average": "micro", "keep_rows": True})):
        first, second, scores = pair(kind, target, num_classes=CLASSES, **choices)
        again = [kind(num_classes=CLASSES, **choices) for _ in range(2)]
        for metric, each in zip(again, scores):
            metric.update(each[order], target[order])
        assert compared(*again).intervals == compared(first, second).intervals
        clusters = np.array(CLUSTERS)[order.numpy()].tolist()
        one, two = compared(*again, clusters=clusters), compared(first, second, clusters=CLUSTERS)
        assert (one.values["p"], one.intervals) == (two.values["p"], two.intervals)


@pytest.mark.parametrize("clusters", [None, CLUSTERS])
def test_method_delong_gives_the_interval_of_the_function(clusters: Any) -> None:
    target = targets(ROWS)
    metric, _, scores = pair(AUROC, target)
    found = metric.result(intervals=Bootstrap(method="delong", clusters=clusters)).intervals
    expected = delong(scores[0], target, clusters)
    interval = found["AUROC"]
    assert (interval.low, interval.high, interval.standard_error) == pytest.approx(
        (expected.low, expected.high, expected.standard_error), rel=1e-12
    )
    assert "replicates" not in found.choices


def test_text_of_an_interval_without_replicates() -> None:
    metric, _, _ = pair(AUROC, targets(ROWS))
    lines = str(metric.result(intervals="delong")).splitlines()
    assert lines[-1] == "95% intervals of E[AUROC] at 240 rows: method delong"
    assert not any("bias" in line for line in lines)


@pytest.mark.parametrize("method", ["wilson", "clopper_pearson"])
def test_methods_of_proportions(method: str) -> None:
    target = targets(ROWS)
    metric, _, scores = pair(Accuracy, target)
    result = metric.result(intervals=method)
    expected = pass_rate(int(((scores[0] > 0.5) == target).sum()), ROWS, method=method)
    assert (result.intervals["Accuracy"].low, result.intervals["Accuracy"].high) == (expected.low, expected.high)
    assert result.intervals["tp"].reason == (
        f"method {method!r} is for proportions of rows, such as accuracy: leave it out for the bootstrap"
    )


def test_a_method_that_serves_no_number_is_an_error() -> None:
    target = targets(ROWS)
    metric, _, _ = pair(AveragePrecision, target)
    with pytest.raises(InputError, match="method must be left out, for the bootstrap, but is 'delong', which is for"):
        metric.result(intervals="delong")
    accuracy, _, _ = pair(Accuracy, target, keep_rows=True)
    with pytest.raises(InputError, match="such as accuracy without clusters: there are none"):
        accuracy.result(intervals=Bootstrap(method="wilson", clusters=CLUSTERS))
    with pytest.raises(InputError, match="method must be"):
        accuracy.result(intervals="normal_theory")


def test_separated_classes_say_why() -> None:
    metric = AUROC()
    metric.update(torch.linspace(0, 1, 20), (torch.arange(20) >= 10).long())
    interval = metric.result(intervals="delong").intervals["AUROC"]
    assert interval.reason == "the area is 1: data of this size do not show how it varies"
    assert math.isnan(interval.low)


def test_clopper_pearson_has_no_effective_number() -> None:
    with pytest.raises(InputError, match="effective must be None with method 'clopper_pearson' but got 4"):
        pass_rate(3, 5, effective=4, method="clopper_pearson")
    with pytest.raises(InputError, match="method must be"):
        pass_rate(3, 5, method="wald")


@pytest.mark.parametrize("kind", [AUROC, Accuracy])
def test_detectable_difference_is_of_the_error_that_the_test_took(kind: Any) -> None:
    choices = {} if kind is AUROC else {"keep_rows": True}
    first, second, scores = pair(kind, targets(ROWS), **choices)
    found = compared(first, second, smallest_difference=0.01)
    right = [(each > 0.5) == targets(ROWS) for each in scores]
    test = compare_auroc(*scores, targets(ROWS)) if kind is AUROC else compare_accuracy(*right)
    detectable = found.values["detectable"][kind.__name__]
    assert detectable == pytest.approx((1.959964 + 0.841621) * test.standard_error, rel=1e-6)
    assert found.values["units_needed"][kind.__name__] == math.ceil(ROWS * (detectable / 0.01) ** 2)


def test_maxima_over_other_tests_are_noted() -> None:
    target = targets(ROWS, most=CLASSES)
    first, second, _ = pair(AUROC, target, num_classes=CLASSES)
    note = "p_adjusted of delong: their normal deviates against maxima of the bootstrap"
    assert note in compared(first, second).signature["notes"]
    assert note not in compared(first, second, adjust="holm").signature["notes"]
    for name, p_value in compared(first, second).values["p"]["per_class"].items():
        assert compared(first, second).values["p_adjusted"]["per_class"][name] >= p_value


def test_exact_matches_are_compared_by_their_samples() -> None:
    target = targets(ROWS, 3)
    scores = [scores_of(seed, gap, target) for seed, gap in ((1, 0.8), (2, 1.4))]
    whole, parts = ([ExactMatch(num_labels=3, **choices) for _ in range(2)] for choices in ({}, SAMPLEWISE))
    for metrics in (whole, parts):
        for metric, each in zip(metrics, scores):
            metric.update(each, target)
    with pytest.raises(InputError, match="compare_accuracy takes what multidim_average='samplewise' computes"):
        compare(*whole)
    found = compare_accuracy(*(metric.compute().numpy() for metric in parts))
    assert found.difference == pytest.approx(float(whole[1].compute() - whole[0].compute()))
    assert found.p_value < 1
