"""Counts at score thresholds: numpy, one element at a time, is the authority; Valor's dicts by hand-made cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.classification import ROC, ROCAUC
from valor_gpu.classification.threshold_counts import (
    KINDS,
    VALOR_THRESHOLDS,
    DetailedPrecisionRecallCurve,
    ThresholdCounts,
    detailed_counts,
)
from valor_gpu.errors import InputError

LEVELS = [0.1, 0.25, 0.3, 0.7]
IGNORED = -7


def random_batch(seed: int, rows: int = 40, classes: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    """float64 scores ``[N, C]``, many of which equal a threshold, class indices and 0 and 1, some of them ignored."""
    rng = np.random.default_rng(seed)
    scores = rng.choice([0.0, *LEVELS, 0.35, 1.0, rng.random()], (rows, classes))
    labels, hot = rng.integers(classes, size=rows), rng.integers(2, size=(rows, classes))
    labels[rng.random(rows) < 0.2] = IGNORED
    hot[rng.random((rows, classes)) < 0.2] = IGNORED
    return torch.from_numpy(scores), torch.from_numpy(labels), torch.from_numpy(hot)


def one_hot(target: Tensor, classes: int) -> NDArray[np.int64]:
    """``[N, C]`` of 0, 1 and ``IGNORED``."""
    if target.ndim == 2:
        return target.numpy()
    found = (target[:, None] == torch.arange(classes)).long()
    return torch.where(target[:, None] == IGNORED, IGNORED, found).numpy()


def brute_force(
    scores: Tensor, target: Tensor, levels: list[float], hardmax: bool = False
) -> tuple[dict[str, NDArray[np.int64]], dict[tuple[str, int, int], list[int]]]:
    """Counts ``[C, T]`` by kind and rows by (kind, class, threshold), in order."""
    table, truth = scores.numpy(), one_hot(target, scores.shape[1])
    counts = {kind: np.zeros((table.shape[1], len(levels)), np.int64) for kind in KINDS}
    rows: dict[tuple[str, int, int], list[int]] = {}
    for (n, c), true in np.ndenumerate(truth):
        used = [s for s, y in zip(table[n], truth[n]) if y != IGNORED]
        for t, level in enumerate(levels):
            reached = table[n, c] >= level and (not hardmax or int(table[n].argmax()) == c)
            if true == IGNORED:
                continue
            if reached:
                kind = "tp/all" if true else "fp/misclassifications"
            elif true:
                kind = "fn/misclassifications" if max(used) >= level else "fn/no_predictions"
            else:
                kind = "tn/all"
            counts[kind][c, t] += 1
            rows.setdefault((kind, c, t), []).append(n)
    return counts, rows


def updated(metric: Any, *batches: tuple[Tensor, ...]) -> Any:
    for batch in batches:
        metric.update(*batch)
    return metric


@pytest.mark.parametrize("kind", ["num_classes", "num_labels"])
@pytest.mark.parametrize("hardmax", [False, True])
@pytest.mark.parametrize("score_dtype", [torch.float32, torch.float64])
def test_counts_equal_brute_force(kind: str, hardmax: bool, score_dtype: torch.dtype) -> None:
    """Also in float32, where neither scores nor thresholds are what they were: equal ones stay equal."""
    if hardmax and kind == "num_labels":
        return
    for seed in range(6):
        scores, labels, hot = random_batch(seed)
        target = labels if kind == "num_classes" else hot
        metric = ThresholdCounts(**{kind: 3}, thresholds=LEVELS, hardmax=hardmax, ignore_index=IGNORED,
                                 score_dtype=score_dtype)  # fmt: skip
        updated(metric, (scores[:11], target[:11]), (scores[11:], target[11:]))
        found = metric.compute()
        right, _ = brute_force(scores, target, LEVELS, hardmax)
        tp, fp, tn = (right[name] for name in ("tp/all", "fp/misclassifications", "tn/all"))
        fn = right["fn/misclassifications"] + right["fn/no_predictions"]
        for name, expected in (("tp", tp), ("fp", fp), ("fn", fn), ("tn", tn)):
            np.testing.assert_array_equal(found[name], expected, err_msg=name)
        with np.errstate(invalid="ignore"):
            ratios = {
                "precision": tp / (tp + fp), "recall": tp / (tp + fn), "accuracy": (tp + tn) / (tp + fp + fn + tn),
                "f1_score": 2 * tp / (2 * tp + fp + fn),
            }  # fmt: skip
        for name, expected in ratios.items():
            np.testing.assert_allclose(found[name], expected, rtol=1e-15, err_msg=name)
        assert metric.result().counts == {"samples": 40, "ignored": int((target == IGNORED).sum())}


def test_the_largest_score_alone() -> None:
    """Equal scores: the lower class wins. A target that was not the largest is missed at every threshold."""
    scores = torch.tensor([[0.25, 0.5, 0.25], [0.375, 0.375, 0.25]])
    metric = updated(
        ThresholdCounts(num_classes=3, thresholds=[0.0, 0.375, 0.5], hardmax=True), (scores, torch.tensor([1, 1]))
    )
    found = metric.compute()
    assert found["tp"].tolist() == [[0, 0, 0], [1, 1, 1], [0, 0, 0]]
    assert found["fp"].tolist() == [[1, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert found["fn"].tolist() == [[0, 0, 0], [1, 1, 1], [0, 0, 0]]
    with pytest.raises(InputError, match=r"preds\[1, 2\] must not be NaN"):
        metric.update(torch.tensor([[0.5, 0.5, 0.0], [0.25, 0.75, torch.nan]]), torch.tensor([1, 1]))
    with pytest.raises(InputError, match="hardmax needs num_classes"):
        ThresholdCounts(num_labels=3, hardmax=True)
    with pytest.raises(InputError, match="hardmax must be bool but got int"):
        ThresholdCounts(num_classes=3, hardmax=1)  # type: ignore[arg-type]


def test_thresholds_of_valor_are_reached_exactly() -> None:
    scores = torch.tensor(VALOR_THRESHOLDS, dtype=torch.float64)
    for dtype in (torch.float32, torch.float64):
        found = updated(ThresholdCounts(score_dtype=dtype), (scores, torch.ones(19))).compute()
        assert found["tp"].tolist() == list(range(19, 0, -1))
    assert list(VALOR_THRESHOLDS) == [round(0.05 * i, 2) for i in range(1, 20)]


def test_weights() -> None:
    scores, labels, _ = random_batch(1)
    times = torch.arange(40) % 3
    choices = {"num_classes": 3, "thresholds": LEVELS, "ignore_index": IGNORED}
    weighted = updated(ThresholdCounts(**choices), (scores, labels, times)).compute()
    repeated = updated(
        ThresholdCounts(**choices), (scores.repeat_interleave(times, 0), labels.repeat_interleave(times))
    )
    for name, part in repeated.compute().items():
        torch.testing.assert_close(weighted[name], part, rtol=0, atol=1e-15, equal_nan=True)


@pytest.mark.parametrize("kind", ["num_classes", "num_labels"])
@pytest.mark.parametrize("most", [0, 1, 4])
def test_detailed_counts_equal_brute_force(kind: str, most: int) -> None:
    for seed in range(4):
        scores, labels, hot = random_batch(seed)
        target = labels if kind == "num_classes" else hot
        scores[one_hot(target, 3) == IGNORED] = 0.9  # ignored scores are no reason for a miss
        right, rows = brute_force(scores, target, LEVELS)
        metric = DetailedPrecisionRecallCurve(
            **{kind: 3}, thresholds=LEVELS, ignore_index=IGNORED, max_examples=most, score_dtype=torch.float64
        )
        found = updated(metric, (scores[:11], target[:11]), (scores[11:], target[11:])).compute()
        for name in KINDS:
            np.testing.assert_array_equal(found[name], right[name], err_msg=name)
            examples = found[f"{name}/examples"]
            assert examples.shape == (3, 4, most)
            for c, t in np.ndindex(3, 4):
                first = rows.get((name, c, t), [])[:most]
                assert examples[c, t].tolist() == first + [-1] * (most - len(first)), (name, c, t)


def test_scores_of_any_strides() -> None:
    scores, labels, _ = random_batch(0)
    scores = scores.float()
    deep = scores.reshape(8, 5, 3).movedim(-1, 1)
    metric = DetailedPrecisionRecallCurve(num_classes=3, ignore_index=IGNORED)
    found = updated(metric, (deep, labels.reshape(8, 5))).compute()
    expected = updated(DetailedPrecisionRecallCurve(num_classes=3, ignore_index=IGNORED), (scores, labels)).compute()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    levels = torch.tensor(LEVELS).double()
    turned = detailed_counts(scores.T.contiguous().T, labels, levels, ignore_index=IGNORED)
    assert torch.equal(turned.counts, detailed_counts(scores, labels, levels, ignore_index=IGNORED).counts)


def test_an_ignored_element_may_hold_anything() -> None:
    scores = torch.tensor([[0.2, torch.nan], [0.2, 0.9]])
    found = detailed_counts(
        scores, torch.tensor([[1, 9], [1, 0]]), torch.tensor([0.5]).double(), ignore_index=9, max_examples=2
    )
    assert found.counts[:, 0, 0].tolist() == [0, 0, 0, 1, 1]
    assert found.examples[3:, 0, 0].tolist() == [[1, -1], [0, -1]]


def test_classes_that_were_not_predicted() -> None:
    """A score of -inf reaches nothing, so that sparse predictions fit."""
    gone = -torch.inf
    scores = torch.tensor([[gone, gone], [0.6, gone]])
    found = detailed_counts(scores, torch.tensor([0, 1]), torch.tensor([0.0, 0.7]).double())
    assert found.counts[4].tolist() == [[1, 1], [0, 1]]
    assert found.counts[3].tolist() == [[0, 0], [1, 0]]


SCORES = torch.tensor(
    [[0.228, 0.446, 0.326], [0.445, 0.407, 0.148], [0.403, 0.25, 0.347], [0.55, 0.2, 0.25]], dtype=torch.float64
)
TRUTH = torch.tensor([1, 0, 1, 0])


def test_what_the_detailed_curve_refuses() -> None:
    metric = updated(DetailedPrecisionRecallCurve(num_classes=3), (SCORES.float(), TRUTH, torch.ones(4)))
    with pytest.raises(InputError, match="sample_weight must be left out where examples are counted"):
        metric.compute()
    for most in (-1, True, 1.5):
        with pytest.raises(InputError, match="max_examples must be an int of at least 0 but got"):
            DetailedPrecisionRecallCurve(num_classes=3, max_examples=most)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"preds\[\d+\] must have a finite largest score where its softmax is taken"):
        updated(DetailedPrecisionRecallCurve(num_classes=3), (SCORES.log() * -torch.inf, TRUTH)).compute()


def test_signatures_tell_configurations_apart() -> None:
    made = [
        ThresholdCounts(num_classes=3), ThresholdCounts(num_classes=3, hardmax=True), ThresholdCounts(num_labels=3),
        ThresholdCounts(num_classes=3, thresholds=5), DetailedPrecisionRecallCurve(num_classes=3),
        DetailedPrecisionRecallCurve(num_classes=3, max_examples=2),
        DetailedPrecisionRecallCurve(num_classes=3, thresholds=5),
    ]  # fmt: skip
    empty = torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)
    texts = [
        str(updated(m, (empty[0], torch.zeros(0, 3).long()) if i == 2 else empty).result().signature)
        for i, m in enumerate(made)
    ]
    assert len(set(texts)) == len(texts)
    assert "thresholds:0-1 in 5" in texts[3]


def test_half_scores_and_half_thresholds() -> None:
    """bfloat16 has fewer digits than float16 but as many bytes: scores are rounded as thresholds are."""
    score = torch.tensor([0.1], dtype=torch.float16)
    for score_dtype, reached in ((torch.float16, 1), (torch.bfloat16, 1), (torch.float32, 0)):
        metric = ThresholdCounts(thresholds=[0.1], score_dtype=score_dtype)
        metric.update(score, torch.tensor([1]))
        assert float(metric.compute()["tp"]) == reached, score_dtype


@pytest.mark.parametrize(
    ("kind", "choice"),
    [
        (DetailedPrecisionRecallCurve, {"bins": 4}), (DetailedPrecisionRecallCurve, {"hardmax": True}),
        (ThresholdCounts, {"bins": 4}), (ROC, {"hardmax": True}), (ROC, {"bins": 4}), (ROCAUC, {"hardmax": True}),
    ],
)  # fmt: skip
def test_choices_of_other_metrics_of_scores_are_not_taken(kind: Any, choice: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=f"got multiple values for argument '{next(iter(choice))}'"):
        kind(num_classes=3, **choice)
