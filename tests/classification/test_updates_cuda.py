"""On CUDA: updates wait for nothing and count what the CPU counts; compute tells bad values."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from valor_gpu.classification import Accuracy, CalibrationError, ConfusionMatrix, F1Score
from valor_gpu.errors import InputError

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]

METRICS = [
    Accuracy(num_classes=5, top_k=2, ignore_index=-1),
    F1Score(num_labels=5, ignore_index=-1),
    F1Score(activation="sigmoid"),
    ConfusionMatrix(5, max_examples=2, ignore_index=0),
    ConfusionMatrix(num_labels=5, max_examples=1),
    CalibrationError(5, ignore_index=1),
    CalibrationError(),
]


def batch_of(metric: Any, hard: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores, weight = torch.rand(300, 5, generator=generator), torch.rand(300, generator=generator)
    if metric.task.kind == "multiclass":
        preds, target = scores.argmax(1) if hard else scores, torch.randint(5, (300,), generator=generator)
    else:
        scores = scores if metric.task.kind == "multilabel" else scores[:, 0].contiguous()
        preds, target = (scores > 0.5).int() if hard else scores, torch.randint(2, scores.shape, generator=generator)
    return preds, target, weight


def takes_labels(metric: Any) -> bool:
    return not isinstance(metric, CalibrationError) and getattr(metric, "top_k", 1) == 1


@pytest.mark.parametrize(
    ("metric", "hard"),
    [(metric, hard) for metric in METRICS for hard in (False, True) if takes_labels(metric) or not hard],
    ids=lambda value: str(value) if isinstance(value, bool) else f"{type(value).__name__}-{value.task.kind}",
)
@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_waits_for_the_device(metric: Any, weighted: bool, hard: bool) -> None:
    batch = batch_of(metric, hard)[: 3 if weighted else 2]
    expected, found = metric.clone(), metric.clone().cuda()
    moved = [part.cuda() for part in batch]
    for mode in ("default", "error"):  # the first call may load the library
        torch.cuda.set_sync_debug_mode(mode)
        try:
            found.update(*moved)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        expected.update(*batch)
    torch.testing.assert_close(found.cpu().compute(), expected.compute(), rtol=0, atol=1e-6)
    if isinstance(metric, ConfusionMatrix):
        assert found.examples() == expected.examples()


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: f"{type(m).__name__}-{m.task.kind}")
def test_compute_tells_bad_values(metric: Any) -> None:
    preds, target, _ = batch_of(metric)
    preds[7] = math.nan
    target[7] = 3
    found = metric.clone().cuda()
    found.update(preds.cuda(), target.cuda())
    with pytest.raises(InputError, match=r"\[7.*\(the row is counted within its batch\)"):
        found.compute()
