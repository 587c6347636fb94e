"""Thresholds that a curve gave, given back, reach their own scores: the curve at them is the exact one."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from valor_gpu import classification, functional
from valor_gpu.classification import AUROC, EER, ROC, AveragePrecision, PrecisionRecallCurve
from valor_gpu.ops.activation import op as activation
from valor_gpu.ops.activation.op import activated
from valor_gpu.plans import checked_only
from valor_gpu.reduce.curve_points import distinct_points

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIZES = (1, 5, 32, 64, 200, 1500)
CHOICES = {"binary": {}, "multiclass": {"num_classes": 3}, "multilabel": {"num_labels": 3}}


def draw(kind: str, dtype: torch.dtype, rows: int, seed: int, logits: bool) -> tuple[Tensor, Tensor]:
    """Scores with ties and, of logits, some whose probability is 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    shape = (rows,) if kind == "binary" else (rows, 3)
    scores = torch.randn(shape, generator=generator, dtype=torch.float64) * 3
    scores = torch.where(torch.rand(shape, generator=generator) < 0.3, scores.round(), scores)
    if not logits:
        scores = scores.softmax(1) if kind == "multiclass" else scores.sigmoid()
    elif rows > 4:
        scores[0], scores[1], scores[2] = 100, -100, 40
        if kind == "multiclass":  # else every class of a row is alike
            scores[:3, 1] = 0
    target = torch.randint(3 if kind == "multiclass" else 2, shape[:1] if kind == "multiclass" else shape,
                           generator=generator)  # fmt: skip
    return scores.to(dtype), target


def probabilities_of(preds: Tensor, kind: str) -> Tensor:
    return preds.softmax(1) if kind == "multiclass" else activated(preds, "sigmoid")


def by_class(values: Any, kind: str) -> list[Any]:
    return [values] if kind == "binary" else list(values)


@pytest.mark.parametrize("logits", [True, False], ids=["logits", "probabilities"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CHOICES)
def test_functions(kind: str, dtype: torch.dtype, logits: bool) -> None:
    pr, roc = (getattr(functional, f"{kind}_{name}") for name in ("precision_recall_curve", "roc"))
    for rows in SIZES:
        preds, target = draw(kind, dtype, rows, rows, logits)
        exact = [by_class(part, kind) for part in pr(preds, target, **CHOICES[kind])]
        exact_roc = [by_class(part, kind) for part in roc(preds, target, **CHOICES[kind])]
        for c, thresholds in enumerate(exact[2]):
            assert thresholds.dtype == torch.float64
            first, second, again = pr(preds, target, thresholds=thresholds, **CHOICES[kind])
            thresholds = thresholds.reshape(-1)  # one element has no dimension, as in torchmetrics
            assert torch.equal(again.reshape(-1), thresholds)
            for found, wanted in ((first, exact[0][c]), (second, exact[1][c])):
                torch.testing.assert_close(by_class(found, kind)[c], wanted, rtol=0, atol=0, equal_nan=True)
            assert torch.equal(exact_roc[2][c][1:].flip(0), thresholds)
            fpr, tpr, _ = roc(preds, target, thresholds=thresholds, **CHOICES[kind])
            for found, wanted in ((fpr, exact_roc[0][c]), (tpr, exact_roc[1][c])):
                row = by_class(found, kind)[c].reshape(-1)
                torch.testing.assert_close(row, wanted[1:], rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("logits", [True, False], ids=["logits", "probabilities"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", CHOICES)
def test_areas_and_operating_points(kind: str, dtype: torch.dtype, logits: bool) -> None:
    points = {
        "precision_at_fixed_recall": {"min_recall": 0.6}, "recall_at_fixed_precision": {"min_precision": 0.4},
        "sensitivity_at_specificity": {"min_specificity": 0.5}, "specificity_at_sensitivity": {"min_sensitivity": 0.5},
    }  # fmt: skip
    for seed in range(4):
        preds, target = draw(kind, dtype, 200, seed, logits)
        thresholds = by_class(getattr(functional, f"{kind}_roc")(preds, target, **CHOICES[kind])[2], kind)[0]
        own = {"thresholds": thresholds[1:].flip(0), **CHOICES[kind]}
        each = {} if kind == "binary" else {"average": "none"}
        for name in ("auroc", "average_precision"):
            area = getattr(functional, f"{kind}_{name}")
            # Exact areas rank logits, and so tell apart those that have one probability.
            given = probabilities_of(preds, kind) if logits else preds
            exact, found = area(given, target, **CHOICES[kind], **each), area(preds, target, **own, **each)
            torch.testing.assert_close(by_class(found, kind)[0], by_class(exact, kind)[0], rtol=0, atol=2e-7)
        for name, limit in points.items():
            point = getattr(functional, f"{kind}_{name}")
            exact, found = point(preds, target, **CHOICES[kind], **limit), point(preds, target, **own, **limit)
            assert [by_class(part, kind)[0] for part in found] == [by_class(part, kind)[0] for part in exact]
        eer = getattr(functional, f"{kind}_eer")
        assert by_class(eer(preds, target, **own), kind)[0] == by_class(eer(preds, target, **CHOICES[kind]), kind)[0]


@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
@pytest.mark.parametrize("checked", [True, False], ids=["checked", "plans"])
@pytest.mark.parametrize("kind", ["binary", "multilabel", "multiclass"])
def test_classes_and_batches(kind: str, checked: bool, dtype: torch.dtype) -> None:
    """Batches of any size, where torch computes the last sigmoids of each one by one."""
    preds, target = draw(kind, dtype, 333, 7, True)

    def fed(metric: Any) -> Any:
        for start, end in pairwise((0, 13, 77, 78, 300, 333)):
            metric.update(preds[start:end], target[start:end])
        return metric

    def compare() -> None:
        for curve in (ROC, PrecisionRecallCurve):
            first, second, thresholds = map(lambda part: by_class(part, kind), fed(curve(**CHOICES[kind])).compute())
            for c in range(len(thresholds)):
                skip = int(curve is ROC)
                own = thresholds[c][skip:].flip(0) if skip else thresholds[c]
                found = [by_class(part, kind)[c] if part.ndim == 2 else part
                         for part in fed(curve(thresholds=own, **CHOICES[kind])).compute()]  # fmt: skip
                assert torch.equal(found[0], first[c][skip:]) and torch.equal(found[1], second[c][skip:])

    if checked:
        with checked_only():
            compare()
    else:
        compare()


def test_a_state_knows_the_dtype_in_which_scores_came() -> None:
    preds, target = draw("binary", torch.float32, 200, 3, True)
    whole = classification.BinaryROC()
    whole.update(preds, target)
    merged = classification.BinaryROC()
    for part in (slice(0, 90), slice(90, 200)):
        shard = classification.BinaryROC()
        shard.update(preds[part], target[part])
        merged.merge_state(shard.to_bytes())
    assert all(torch.equal(a, b) for a, b in zip(merged.compute(), whole.compute()))
    assert merged.state().score_types.tolist() == [127, 127, 0, 127]
    wide = classification.BinaryROC()
    wide.update(preds.double(), target)
    assert wide.compute()[2].tolist() != whole.compute()[2].tolist()
    wide.update(preds, target)  # of several dtypes, the one that holds all scores
    assert wide.state().score_types.tolist() == [127, 127, 0, 0]
    assert set(wide.compute()[2].tolist()) == {1.0, *activated(preds.double(), "sigmoid").tolist()}


def test_thresholds_are_the_sigmoids_of_the_scores() -> None:
    """docs/torchmetrics.md: float64, of the same value as in torchmetrics."""
    preds, target = draw("binary", torch.float32, 256, 5, True)  # whole vectors
    assert set(functional.binary_roc(preds, target)[2].tolist()) == {1.0, *preds.sigmoid().tolist()}
    classes, labels = draw("multiclass", torch.float32, 100, 5, True)
    found = functional.multiclass_roc(classes, labels, 3)[2]
    assert [set(part.tolist()) for part in found] == [{1.0, *part.tolist()} for part in classes.softmax(1).T]


def test_float64_scores_that_float32_cannot_tell_apart() -> None:
    preds = torch.tensor([0.5, 0.5 + 1e-12, 0.25, 0.75], dtype=torch.float64)
    target = torch.tensor([0, 1, 0, 1])
    precision, recall, thresholds = functional.binary_precision_recall_curve(preds, target)
    found = functional.binary_precision_recall_curve(preds, target, thresholds=thresholds)
    assert torch.equal(found[0], precision) and torch.equal(found[1], recall) and torch.equal(found[2], thresholds)


def test_logits_of_one_probability_are_one_point() -> None:
    preds, target = torch.tensor([20.0, 30.0, 40.0, -2.0, 0.0]), torch.tensor([0, 1, 1, 0, 1])
    fpr, tpr, thresholds = functional.binary_roc(preds, target)
    assert thresholds.tolist() == [1.0, 1.0, 0.5, float(torch.tensor(-2.0).sigmoid())]
    assert (2 * fpr).tolist() == [0, 1, 1, 2] and (3 * tpr).round().tolist() == [0, 2, 3, 3]
    assert EER()(preds, target) == functional.binary_eer(preds, target, thresholds=thresholds[1:].flip(0))
    raw = ROC(activation="none")(preds, target)
    assert raw[2].tolist() == [1.0, 40.0, 30.0, 20.0, 0.0, -2.0]


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_swapped_neighbours_come_in_order(make: Any) -> None:
    points = distinct_points(make([0.75, 0.25, 0.5, 0.5, 0.125]), make([1, 1, 2, 2, 3]), make([0, 1, 1, 3, 3]))
    assert [part.tolist() for part in points] == [[0.75, 0.5, 0.25, 0.125], [1, 2, 2, 3], [0, 2, 3, 3]]
    single = distinct_points(make([0.5]), make([1.0]), make([0.0]))
    assert [part.tolist() for part in single] == [[0.5], [1.0], [0.0]]


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_a_sigmoid_has_the_same_bits_everywhere(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for value in (0.3, -1.7, 5.123):
            for count in (*range(1, 140), 32767, 32768, 32769, 33000, 65537, 98309, 200_003):
                assert len(activated(torch.full((count,), value), "sigmoid").unique()) == 1, (value, count)
    finally:
        torch.set_num_threads(before)


def test_a_sigmoid_keeps_the_order_of_scores() -> None:
    scores = torch.cat((torch.linspace(-30, 20, 300_001), torch.linspace(-1e-3, 1e-3, 100_001))).sort().values
    assert bool((activated(scores, "sigmoid").diff() >= 0).all())


def test_sigmoids_fill_whole_vectors() -> None:
    for count in (*range(0, 300, 7), 32767, 32768, 32769, 65535, 65536, 65537, 10**6 + 3):
        for threads in (1, 2, 3, 8, 64):
            whole = activation._whole_vectors(count, threads)
            parts = max(1, min(threads, -(-whole // activation._GRAIN)))
            assert whole % (activation._VECTOR * parts) == 0 and 0 <= count - whole < activation._VECTOR * threads


def test_collections_share_a_state_and_its_curves() -> None:
    from torchmetrics import MetricCollection

    preds, target = draw("binary", torch.float32, 200, 9, True)
    exact = MetricCollection([AUROC(), AveragePrecision(), ROC(), PrecisionRecallCurve()])
    exact.update(preds, target)
    found = exact.compute()
    own = MetricCollection([m(thresholds=found["PrecisionRecallCurve"][2]) for m in (AUROC, AveragePrecision)])
    own.update(preds, target)
    assert len(own.compute_groups) == 1
    for name, value in own.compute().items():
        torch.testing.assert_close(value, found[name], rtol=0, atol=2e-7)
