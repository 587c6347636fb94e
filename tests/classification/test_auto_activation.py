"""``activation="auto"`` decided in the read that counts leaves the bits of a decision before it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.classification import F1Score, ThresholdCounts
from valor_gpu.classification.class_counts import probability_histogram
from valor_gpu.inputs.scores import ScoreBatch, Task, score_batch
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import NAN_SCORE, TARGET, value_kind, value_place, value_row
from valor_gpu.ops.score_histogram import op as score_histogram
from valor_gpu.ops.score_histogram.op import histogram_of

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason="the read is native")

IGNORED = -1
THRESHOLDS = torch.tensor([0.0, 0.1, 0.5, 0.5, 0.75, 1.0], dtype=torch.float64)
ROWS = 1500  # several strips of every width, and chunks for threads
ODD_SCORES = [-0.0, -1e-7, 1.0, 1.0 + 2**-7, 50.0, -math.inf, math.inf, math.nan]


def batch_of(kind: str, dtype: torch.dtype, seed: int, ignores: bool = True, weighted: bool = False) -> ScoreBatch:
    generator = torch.Generator().manual_seed(seed)
    columns: dict[str, Any] = {"binary": {}, "multiclass": {"num_classes": 5}, "multilabel": {"num_labels": 37}}[kind]
    task = Task.of(**columns, ignore_index=IGNORED if ignores else None)
    shape = (ROWS,) if kind == "binary" else (ROWS, task.classes)
    scores = torch.rand(shape, generator=generator).to(dtype)
    per_row = (ROWS,) if kind == "multiclass" else shape
    target = torch.randint(-1 if ignores else 0, 5 if kind == "multiclass" else 2, per_row, generator=generator)
    weight = torch.rand(ROWS, generator=generator, dtype=torch.float64) if weighted else None
    return score_batch(scores, target, task, weight)


def check(batch: ScoreBatch) -> None:
    """Both ways leave the same bits."""
    choices: Any = {"ignore_index": batch.task.ignore_index, "weight": batch.weight}
    expected = histogram_of(batch.probabilities(), batch.target, THRESHOLDS, **choices)
    found = probability_histogram(batch, THRESHOLDS)
    assert found.error == expected.error
    assert found.histogram.dtype == expected.histogram.dtype
    assert torch.equal(found.histogram, expected.histogram)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("dtype", FLOAT_TYPES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_probabilities_and_logits(kind: str, dtype: torch.dtype, weighted: bool) -> None:
    batch = batch_of(kind, dtype, 0, weighted=weighted)
    check(batch)
    check(replace(batch, preds=batch.preds * 6 - 3))


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("odd", ODD_SCORES)
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("row", [0, ROWS - 1])
def test_one_score_decides_for_the_batch_if_it_counts(kind: str, odd: float, counted: bool, row: int) -> None:
    batch = batch_of(kind, torch.float32, 1)
    batch.target[row] = 1 if counted else IGNORED
    batch.preds[row, -1] = odd
    check(batch)


@pytest.mark.parametrize(
    ("kind", "bad", "first"),
    [
        ("multiclass", "nan", (700, 3, NAN_SCORE)),
        ("multilabel", "nan", (700, 3, NAN_SCORE)),
        ("multiclass", "infinite", (700, 0, NAN_SCORE)),  # the softmax has no number for any class
        ("multilabel", "infinite", (900, 2, NAN_SCORE)),  # the sigmoid is 1
        ("multiclass", "target", (700, 0, TARGET)),
        ("multilabel", "target", (700, 0, TARGET)),
    ],
)
def test_the_first_error_is_that_of_the_batch(kind: str, bad: str, first: tuple[int, int, int]) -> None:
    batch = batch_of(kind, torch.float32, 2, ignores=False)
    batch.preds[0, 0] = 7.0
    if bad == "target":
        batch.target[700] = 99
    else:
        batch.preds[700, 3] = math.nan if bad == "nan" else math.inf
    batch.preds[900, 2] = math.nan
    error = int(probability_histogram(batch, THRESHOLDS).error)
    assert (value_row(error), value_place(error), value_kind(error)) == first


def test_no_rows() -> None:
    check(score_batch(torch.zeros((0, 3)), torch.zeros(0, dtype=torch.long), Task.of(num_classes=3)))


@pytest.mark.parametrize(
    "metric", [F1Score(num_labels=37), ThresholdCounts(num_labels=37)], ids=lambda m: type(m).__name__
)
def test_updates_read_probabilities_once(metric: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Tensor:
        raise AssertionError("scores were read before they were counted")

    batch = batch_of("multilabel", torch.float32, 3, ignores=False)
    monkeypatch.setattr(score_histogram, "decision", refuse)
    monkeypatch.setattr(score_histogram, "activated", refuse)
    metric.update(batch.preds, batch.target)
    with pytest.raises(AssertionError, match="before they were counted"):
        metric.update(batch.preds + 1, batch.target)
