"""Plans of the metrics of classification leave the bits of the checked path, over random forms, choices and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.test_plans import steps as steps
from valor_gpu import classification, native, plans
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason="plans are native")

ROUNDS = 30
Draw = tuple[Metric[Any], Callable[[], tuple[Tensor, Tensor]]]


def one_of(generator: torch.Generator, choices: Any) -> Any:
    choices = list(choices)
    return choices[int(torch.randint(len(choices), (), generator=generator))]


COLUMNS: dict[str, dict[str, Any]] = {
    "Accuracy": {"top_k": (1, 1, 2), "threshold": (0.5, 0.25, 0.1)},
    "ConfusionMatrix": {"threshold": (0.5, 0.25, 0.1)},
    "ROCAUC": {"score_dtype": (torch.float32, torch.float32, torch.float64, torch.float16)},
    "ROC": {"thresholds": (2, 5, 100, (0.1, 0.2, 0.5)), "score_dtype": (torch.float32, torch.float32, torch.float64)},
    "AveragePrecision": {"bins": (1, 4)},
    "CalibrationError": {"n_bins": (1, 2, 15, 40)},
    "HingeLoss": {"squared": (False, True), "multiclass_mode": ("crammer-singer", "one-vs-all")},
    "BrierScore": {"n_bins": (1, 2, 15, 40), "keep_rows": (False, True)},
    "NegativeLogLikelihood": {"eps": (0.0, 1e-6, 0.25), "keep_rows": (False, True)},
    "JaccardIndex": {"threshold": (0.5, 0.75)},
    "ExactMatch": {"threshold": (0.5, 0.25, 0.1)},
    "MultilabelRankingLoss": {},
}
"""Classes, one for each state and kind of update, and the choices that their updates depend on."""


def drawn(kind: str, task: str, generator: torch.Generator) -> Draw:
    """A metric, and what draws a batch of one form for it; some batches hold a bad value."""
    classes = 1 if task == "binary" else one_of(generator, (2, 3, 10, 30))
    ignore = one_of(generator, (None, None, 0, 100, -1))
    choices = {name: one_of(generator, values) for name, values in COLUMNS[kind].items()}
    counts = kind in ("Accuracy", "JaccardIndex", "ConfusionMatrix", "ExactMatch")
    choices.pop("threshold" if task == "multiclass" else "top_k", None)
    if kind != "MultilabelRankingLoss" and (not counts or task != "multiclass"):
        choices["activation"] = one_of(generator, ("auto", "auto", "none", "sigmoid"))
    hard = counts and choices.get("top_k", 1) == 1 and bool(torch.rand((), generator=generator) < 0.3)
    columns = {"binary": {}, "multiclass": {"num_classes": classes}, "multilabel": {"num_labels": classes}}[task]
    metric = getattr(classification, kind)(**columns, ignore_index=ignore, **choices)
    rows, dtype = one_of(generator, (1, 8, 33, 200)), one_of(generator, INT_TYPES if hard else FLOAT_TYPES)
    if kind == "ROCAUC" and torch.promote_types(dtype, metric.score_dtype) != metric.score_dtype:
        dtype = metric.score_dtype  # else the checked path rounds
    if kind in ("ROC", "AveragePrecision") and dtype == torch.float64:
        dtype = metric.score_dtype
    target_dtype = one_of(generator, (torch.int64, torch.int64, torch.int32, torch.int16, torch.int8))
    shape = (rows, classes) if task == "multilabel" else (rows,)
    values = classes if task == "multiclass" else 2

    def batch() -> tuple[Tensor, Tensor]:
        target = torch.randint(values, shape, generator=generator)
        if ignore is not None:
            target[torch.rand(shape, generator=generator) < 0.2] = ignore
        if hard:
            preds = torch.randint(2 if dtype == torch.bool else values, shape, generator=generator).to(dtype)
        else:
            preds = scores((rows, classes) if task != "binary" else (rows,), generator).to(dtype)
        if torch.rand((), generator=generator) < 0.2:
            spoil(preds, target, generator)
        return preds, target.to(target_dtype)

    return metric, batch


def scores(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Logits or probabilities; some with ties and at thresholds."""
    drawn = torch.rand(shape, generator=generator)
    if torch.rand((), generator=generator) < 0.3:
        drawn = drawn.mul(20).round().div(20)
    return drawn if torch.rand((), generator=generator) < 0.5 else drawn * 8 - 4


def spoil(preds: Tensor, target: Tensor, generator: torch.Generator) -> None:
    """Puts a value that is bad, unless its target is ignored, into one of both."""
    row = int(torch.randint(len(target), (), generator=generator))
    if torch.rand((), generator=generator) < 0.5:
        target[row] = 99
    elif preds.is_floating_point():
        preds.view(len(preds), -1)[row, -1] = float("nan")
    elif preds.dtype != torch.bool:
        preds[row] = 120


def outcome(metric: Metric[Any], batch: tuple[Tensor, Tensor]) -> str:
    try:
        metric.update(*batch)
    except InputError as error:
        return str(error)
    return ""


def bits(tensor: Tensor) -> bytes:
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def same_bits(one: Metric[Any], other: Metric[Any]) -> bool:
    pairs = [(ours, getattr(other.state(), name)) for name, ours in one.state().tensors().items()]
    return all(a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b) for a, b in pairs)


CASES = [
    (kind, task) for kind in COLUMNS for task in ("binary", "multiclass", "multilabel")
    if (kind, task) != ("ExactMatch", "binary")
    and (kind not in ("BrierScore", "CalibrationError", "HingeLoss", "NegativeLogLikelihood") or task != "multilabel")
    and (kind != "MultilabelRankingLoss" or task == "multilabel")
]  # fmt: skip


@pytest.mark.smoke
def test_some_batches_of_every_kind(steps: list[plans.Step]) -> None:
    generator = torch.Generator().manual_seed(1)
    for kind, task in CASES:
        for _ in range(3):
            metric, draw = drawn(kind, task, generator)
            outcome(metric, draw())
    assert len(steps) > len(CASES)


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_states_are_equal(kind: str, task: str, steps: list[plans.Step]) -> None:
    generator, failed = torch.Generator().manual_seed(len(kind) + len(task)), 0
    for _ in range(ROUNDS):
        metric, draw = drawn(kind, task, generator)
        checked = metric.clone()
        for _ in range(4):
            batch = draw()
            copies = [tensor.clone() for tensor in batch]
            told = outcome(metric, batch)
            with plans.checked_only():
                assert outcome(checked, batch) == told
            assert all(map(torch.equal, map(torch.nan_to_num, copies), map(torch.nan_to_num, batch)))
            failed += bool(told)
        assert same_bits(metric, checked), (metric._identity.text, batch[0].dtype)
        assert metric._update_count == checked._update_count
    assert failed > ROUNDS / 10
    assert len(steps) == 4 * ROUNDS - failed


def test_named_classes_widen_scores_in_their_plans(steps: list[plans.Step]) -> None:
    """They keep float64, so that scores of any dtype are taken."""
    generator = torch.Generator().manual_seed(2)
    for dtype in FLOAT_TYPES:
        metric, checked = (classification.MulticlassAUROC(4) for _ in range(2))
        batch = torch.randn(8, 4, generator=generator).to(dtype), torch.arange(8) % 4
        metric.update(*batch)
        with plans.checked_only():
            checked.update(*batch)
        assert same_bits(metric, checked) and metric.state().scores.dtype == torch.float64
    assert len(steps) == len(FLOAT_TYPES)


def test_exact_match_of_samples_of_several_elements(steps: list[plans.Step]) -> None:
    generator = torch.Generator().manual_seed(9)
    for ignore in (None, 0, 7):
        metric, checked = (classification.ExactMatch(num_classes=3, ignore_index=ignore) for _ in range(2))
        for shape in ((5, 4), (6, 2, 2), (1, 1), (40,)):
            target = torch.randint(3, shape, generator=generator)
            preds = torch.where(torch.rand(shape, generator=generator) < 0.8, target, 1)
            if ignore is not None:
                target[0] = ignore
            metric.update(preds, target)
            with plans.checked_only():
                checked.update(preds, target)
            assert same_bits(metric, checked)
    assert len(steps) == 12


def test_label_rankings_take_plans_of_larger_batches(steps: list[plans.Step]) -> None:
    generator = torch.Generator().manual_seed(3)
    batch = scores((400, 50), generator), torch.randint(-1, 2, (400, 50), generator=generator)
    metric, checked = (classification.MultilabelRankingLoss(50, ignore_index=-1) for _ in range(2))
    metric.update(*batch)
    with plans.checked_only():
        checked.update(*batch)
    assert same_bits(metric, checked) and len(steps) == 1
    classification.ROCAUC(num_labels=50, ignore_index=-1).update(*batch)
    assert len(steps) == 1


@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
def test_stat_scores_in_plain_numbers(average: str) -> None:
    generator = torch.Generator().manual_seed(4)
    for columns in ({}, {"num_classes": 5}, {"num_labels": 65}):
        for weights in (None, torch.rand(20, generator=generator), torch.full((20,), 2.0)):
            metric = classification.StatScores(**columns, average=average)
            shape = (20,) if not columns else (20, *columns.values())
            labels = torch.randint(2, shape[: 1 if "num_classes" in columns else 2], generator=generator)
            metric.update(torch.rand(shape, generator=generator), labels, weights)
            value = metric.compute()
            with plans.checked_only():
                metric._computed = None
                whole = metric.compute()
            assert value.dtype == whole.dtype and torch.equal(value, whole)
