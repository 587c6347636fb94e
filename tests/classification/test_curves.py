"""ROC and precision-recall curves: scikit-learn and torchmetrics are the authorities."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.classification as peers
from matplotlib.figure import Figure
from sklearn.metrics import auc, precision_recall_curve, roc_auc_score, roc_curve
from torch import Tensor

from valor_gpu.classification.curves import ROC, PrecisionRecallCurve
from valor_gpu.errors import InputError
from valor_gpu.reduce.curve_points import precision_recall_points, roc_points

CURVES = [(ROC, "ROC"), (PrecisionRecallCurve, "PrecisionRecallCurve")]


def random_batch(seed: int, rows: int = 60, columns: int = 3, levels: int = 10) -> tuple[Tensor, Tensor, Tensor]:
    """Tied scores ``[N, C]`` in [0, 1], class indices ``[N]``, and 0 and 1 ``[N, C]``."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(levels + 1, (rows, columns), generator=generator) / levels
    classes = torch.randint(columns, (rows,), generator=generator)
    return scores, classes, torch.randint(2, (rows, columns), generator=generator)


def updated(metric: Any, *batches: tuple[Tensor, ...]) -> Any:
    for batch in batches:
        metric.update(*batch)
    return metric


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def of_scikit_learn(metric: type, target: Any, scores: Any, weight: Any = None) -> tuple[Any, ...]:
    if metric is ROC:
        return roc_curve(target, scores, sample_weight=weight, drop_intermediate=False)
    return precision_recall_curve(target, scores, sample_weight=weight)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(("metric", "name"), CURVES)
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_scikit_learn(metric: Any, name: str, dtype: torch.dtype, weighted: bool) -> None:
    scores, classes, hot = random_batch(7)
    scores = scores.to(dtype)
    weight = (torch.rand(60, generator=torch.Generator().manual_seed(1)).double(),) if weighted else ()
    weights = weight[0].numpy() if weighted else None
    single = updated(metric(score_dtype=torch.float64), (scores[:, 0], hot[:, 0], *weight)).result().values
    for part, expected in zip(single.values(), of_scikit_learn(metric, hot[:, 0], scores[:, 0].double(), weights)):
        close(part, expected)
    for target, choices in ((classes, {"num_classes": 3}), (hot, {"num_labels": 3})):
        truth = hot if target is hot else torch.nn.functional.one_hot(classes, 3)
        values = updated(metric(**choices), (scores, target, *weight)).result().values
        for c in range(3):
            expected = of_scikit_learn(metric, truth[:, c], scores[:, c].float(), weights)
            for part, right in zip(values.values(), expected):
                close(part[str(c)], right)
        values = updated(metric(average="micro", **choices), (scores, target, *weight)).result().values
        repeated = None if weights is None else weights.repeat(3)
        for part, right in zip(
            values.values(), of_scikit_learn(metric, truth.ravel(), scores.float().ravel(), repeated)
        ):
            close(part, right)


@pytest.mark.parametrize(("metric", "name"), CURVES)
@pytest.mark.parametrize("thresholds", [None, 6, [0.0, 0.15, 0.5, 0.9]])
def test_equals_torchmetrics(metric: Any, name: str, thresholds: Any) -> None:
    """Values, shapes, order and kinds of containers."""
    scores, classes, hot = random_batch(3)
    holes = torch.where(torch.arange(60)[:, None] % 7 == torch.arange(3), -1, hot)
    for kind, batch, choices in (
        ("Binary", (scores[:, 0], hot[:, 0]), {}),
        ("Binary", (scores[:, 0].reshape(3, 4, 5), hot[:, 0].reshape(3, 4, 5)), {}),
        ("Multiclass", (scores, classes), {"num_classes": 3}),
        ("Multiclass", (scores, classes), {"num_classes": 3, "average": "micro"}),
        ("Multiclass", (scores, torch.where(classes > 1, -1, classes)), {"num_classes": 3, "ignore_index": -1}),
        ("Multilabel", (scores, hot), {"num_labels": 3}),
        ("Multilabel", (scores, holes), {"num_labels": 3, "ignore_index": -1}),
    ):
        if thresholds is not None and "average" in choices:
            continue  # torchmetrics 1.9 fails on it
        with warnings.catch_warnings():  # of classes without positives
            warnings.simplefilter("ignore")
            peer = updated(getattr(peers, kind + name)(thresholds=thresholds, **choices), batch).compute()
        found = updated(metric(thresholds=thresholds, **choices), batch).compute()
        assert len(found) == 3
        for ours, theirs in zip(found, peer):
            assert isinstance(ours, list) == isinstance(theirs, list)
            for a, b in zip(*(x if isinstance(x, list) else [x] for x in (ours, theirs))):
                gone = a.isnan()  # torchmetrics has 0 or 1 for rates of classes without positives
                assert not gone.any() or choices.get("ignore_index") == -1 or metric is PrecisionRecallCurve
                torch.testing.assert_close(a[~gone], b.reshape(a.shape)[~gone], rtol=0, atol=1e-6)
                assert a.dtype == b.dtype == torch.float32


@pytest.mark.parametrize(("metric", "name"), CURVES)
def test_one_curve_of_all_elements(metric: Any, name: str) -> None:
    """``micro`` at thresholds; exact ones are compared with scikit-learn above."""
    scores, classes, hot = random_batch(4)
    for target, truth, choices in (
        (classes, torch.nn.functional.one_hot(classes, 3), {"num_classes": 3}),
        (hot, hot, {"num_labels": 3}),
    ):  # fmt: skip
        found = updated(metric(thresholds=6, average="micro", **choices), (scores, target)).compute()
        peer = getattr(peers, f"Binary{name}")(thresholds=6)
        for ours, theirs in zip(found, updated(peer, (scores.ravel(), truth.ravel())).compute()):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


def test_documented_examples_of_torchmetrics() -> None:
    preds, target = torch.tensor([0.0, 0.5, 0.7, 0.8]), torch.tensor([0, 1, 1, 0])
    expected = {
        ROC: ([0.0, 0.5, 0.5, 0.5, 1.0], [0.0, 0.0, 0.5, 1.0, 1.0], [1.0, 0.8, 0.7, 0.5, 0.0]),
        PrecisionRecallCurve: ([0.5, 2 / 3, 0.5, 0.0, 1.0], [1.0, 1.0, 0.5, 0.0, 0.0], [0.0, 0.5, 0.7, 0.8]),
    }
    for metric, parts in expected.items():
        for part, right in zip(updated(metric(), (preds, target)).compute(), parts):
            torch.testing.assert_close(part, torch.tensor(right))
    found = updated(ROC(thresholds=5), (preds, target)).compute()
    for part, right in zip(found, ([0.0, 0.5, 0.5, 0.5, 1.0], [0.0, 0.0, 1.0, 1.0, 1.0], [1.0, 0.75, 0.5, 0.25, 0.0])):
        torch.testing.assert_close(part, torch.tensor(right))
    nan = float("nan")  # documented as 0: nothing reaches the last threshold
    found = updated(PrecisionRecallCurve(thresholds=5), (preds, target)).compute()
    right = ([0.5, 2 / 3, 2 / 3, 0.0, nan, 1.0], [1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.0, 0.25, 0.5, 0.75, 1.0])
    for part, numbers in zip(found, right):
        torch.testing.assert_close(part, torch.tensor(numbers), equal_nan=True)


def test_the_first_threshold_of_a_roc_curve_is_above_all_scores() -> None:
    metric = updated(ROC(), (torch.tensor([0.5, 1.0]), torch.tensor([0, 1])))
    assert metric.compute()[2].tolist() == [1.0, 1.0, 0.5]
    assert metric.result().values["thresholds"].tolist() == [np.inf, 1.0, 0.5]


@pytest.mark.parametrize("plan", [{}, {"thresholds": 4}])
def test_rates_that_do_not_exist(plan: dict[str, Any]) -> None:
    scores = torch.tensor([0.25, 0.5])
    for metric, target, gone in (
        (ROC, 0, "tpr"), (ROC, 1, "fpr"), (PrecisionRecallCurve, 0, "recall"),
    ):  # fmt: skip
        result = updated(metric(**plan), (scores, torch.full((2,), target))).result()
        last = -1 if metric is PrecisionRecallCurve else None  # the point (1, 0) always exists
        assert np.isnan(result.values[gone][:last]).all()
        assert result.reason(gone) == "nothing to divide by at these points"
    empty = ROC(num_classes=2, **plan)
    empty.update(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    assert [part.numel() for part in empty.compute()[0]] == ([4, 4] if plan else [1, 1])
    exact = updated(PrecisionRecallCurve(), (scores, torch.tensor([1, 1]))).compute()
    assert [part.tolist() for part in exact] == [[1.0, 1.0, 1.0], [1.0, 0.5, 0.0], [0.25, 0.5]]


@pytest.mark.parametrize(("metric", "name"), CURVES)
def test_logits(metric: Any, name: str) -> None:
    generator = torch.Generator().manual_seed(2)
    logits, classes = torch.randn(40, 3, generator=generator) * 3, torch.randint(3, (40,), generator=generator)
    whole = updated(metric(num_classes=3), (logits, classes)).compute()
    parts = updated(metric(num_classes=3), (logits[:9], classes[:9]), (logits[9:], classes[9:])).compute()
    soft = updated(metric(num_classes=3, activation="none"), (logits.softmax(1), classes)).compute()
    for other in (parts, soft):
        for a, b in zip(whole, other):
            assert all(torch.equal(x, y) for x, y in zip(a, b))
    truth = (classes == 0).long()
    first, second, thresholds = updated(metric(), (logits[:, 0], truth)).compute()
    raw = updated(metric(activation="none"), (logits[:, 0], truth)).compute()
    assert torch.equal(first, raw[0]) and torch.equal(second, raw[1])
    at = slice(1, None) if metric is ROC else slice(None)
    torch.testing.assert_close(thresholds[at], raw[2][at].sigmoid(), rtol=0, atol=1e-7)


def test_area_under_the_points() -> None:
    scores, _, hot = random_batch(9)
    values = updated(ROC(), (scores[:, 0], hot[:, 0])).result().values
    close(auc(values["fpr"], values["tpr"]), roc_auc_score(hot[:, 0], scores[:, 0]))


@pytest.mark.parametrize(("metric", "name"), CURVES)
@pytest.mark.parametrize("thresholds", [None, 9])
def test_order_and_split_change_no_bit(metric: Any, name: str, thresholds: Any) -> None:
    scores, classes, _ = random_batch(1, rows=150, levels=30)
    expected = updated(metric(num_classes=3, thresholds=thresholds), (scores, classes)).compute()
    for seed in range(3):
        order = torch.randperm(150, generator=torch.Generator().manual_seed(seed))
        parts = [(scores[order[a:b]], classes[order[a:b]]) for a, b in pairwise([0, 3, 3, 90, 150])]
        found = updated(metric(num_classes=3, thresholds=thresholds), *parts).compute()
        for a, b in zip(found, expected):
            assert all(torch.equal(x, y) for x, y in zip(a, b))


def test_points_of_counts() -> None:
    tp, fp = torch.tensor([[0, 1, 2], [0, 0, 0]]), torch.tensor([[0, 2, 2], [1, 3, 4]])
    fpr, tpr = roc_points(tp, fp, torch.tensor([2, 0]), torch.tensor([2, 4]))
    torch.testing.assert_close(fpr, torch.tensor([[0.0, 1.0, 1.0], [0.25, 0.75, 1.0]], dtype=torch.float64))
    assert tpr[0].tolist() == [0.0, 0.5, 1.0] and tpr[1].isnan().all()
    precision, recall = precision_recall_points(tp.flip(1), fp.flip(1), torch.tensor([2, 0]))
    assert precision[0, [0, 3]].tolist() == [0.5, 1.0] and precision[0, 2].isnan()
    assert precision[1].tolist() == [0.0, 0.0, 0.0, 1.0] and recall[1, 3] == 0.0
    assert [part.shape for part in precision_recall_points(tp[:, :0], fp[:, :0], tp[:, 0])] == [(2, 1), (2, 1)]


@pytest.mark.parametrize(("metric", "name"), CURVES)
@pytest.mark.parametrize("classes", [1, 3, 12])
def test_plot(metric: Any, name: str, classes: int) -> None:
    scores, target, hot = random_batch(5, columns=classes)
    batch = (scores[:, 0], hot[:, 0]) if classes == 1 else (scores, target)
    made = updated(metric(num_classes=classes if classes > 1 else None), batch)
    result, figure = made.result(), Figure()
    drawn, axes = made.plot(ax=figure.subplots())
    assert drawn is figure
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    kind = "AUC" if metric is ROC else "AP"
    if classes == 1:
        assert texts[0].endswith(f"  {kind}") and len(axes.lines) == 2  # and what scores without information give
    else:
        assert len(axes.lines) == classes + 1 + (metric is ROC) and len(texts) == min(classes, 10) + 1
        assert texts[-1].endswith(f"  mean of {classes} classes")
    assert axes.get_xlabel() == {ROC: "false positive rate", PrecisionRecallCurve: "recall"}[metric]
    names = ("fpr", "tpr") if metric is ROC else ("recall", "precision")
    drawn = [line.get_xydata() for line in axes.lines]
    for label in ("0",) if classes == 1 else result.values[names[0]]:
        parts = [result.values[name] if classes == 1 else result.values[name][label] for name in names]
        assert any(np.array_equal(line, np.stack(parts, 1), equal_nan=True) for line in drawn)


def test_arguments_out_of_range() -> None:
    with pytest.raises(InputError, match="average must be one of 'micro', 'macro', 'none', None but got 'mean'"):
        ROC(num_classes=3, average="mean")
    with pytest.raises(InputError, match="val must be left out: plot draws the curves of the metric"):
        ROC().plot(1)  # type: ignore[arg-type]
    metric = updated(ROC(num_classes=2), (torch.tensor([[torch.inf, 0.0], [2.0, 1.0]]), torch.tensor([0, 1])))
    with pytest.raises(InputError, match=r"preds\[0\] must have a finite largest score where its softmax is taken"):
        metric.compute()


@pytest.mark.parametrize("thresholds", [None, 5])
@pytest.mark.parametrize("curve", ["ROC", "PrecisionRecallCurve"])
def test_ignored_scores_do_not_make_logits(curve: str, thresholds: Any) -> None:
    """Each label is as torchmetrics' binary curves have it, which leave ignored elements out first."""
    scores = torch.tensor([[0.2, 0.7], [5.0, 0.4], [1.0, 1.0], [0.1, -3.0]])
    target = torch.tensor([[0, 1], [-1, 0], [1, 1], [0, -1]])
    ours: Any = {"ROC": ROC, "PrecisionRecallCurve": PrecisionRecallCurve}[curve]
    both = updated(ours(num_labels=2, ignore_index=-1, thresholds=thresholds), (scores, target)).compute()
    for c in range(2):
        batch = scores[:, c], target[:, c]
        expected = updated(getattr(peers, f"Binary{curve}")(ignore_index=-1, thresholds=thresholds), batch).compute()
        alone = updated(ours(ignore_index=-1, thresholds=thresholds), batch).compute()
        of_label = [part[c] for part in both[:2]] + [both[2][c] if thresholds is None else both[2]]
        for found in (alone, of_label):
            for one, other in zip(found, expected):
                torch.testing.assert_close(one, other, rtol=0, atol=1e-7)
