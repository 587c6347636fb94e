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

ROUNDS = 60
Draw = tuple[Metric[Any], Callable[[], tuple[Tensor, Tensor]]]


def one_of(generator: torch.Generator, choices: Any) -> Any:
    choices = list(choices)
    return choices[int(torch.randint(len(choices), (), generator=generator))]


def multiclass(kind: str, generator: torch.Generator) -> Draw:
    """A metric, and what draws a batch of one form for it; some batches hold a bad value."""
    classes = one_of(generator, (2, 3, 10, 30))
    hard = bool(torch.rand((), generator=generator) < 0.3)
    top_k = 1 if hard else one_of(generator, (1, 1, min(3, classes)))
    ignore = one_of(generator, (None, None, 0, 255, -1))
    rows, dtype = one_of(generator, (1, 8, 33, 200)), one_of(generator, INT_TYPES if hard else FLOAT_TYPES)
    target_dtype = one_of(generator, (torch.int64, torch.int64, torch.int32, torch.int16))
    choices: dict[str, Any] = {"num_classes": classes, "ignore_index": ignore}
    metric = getattr(classification, kind)(**choices, **({} if top_k == 1 else {"top_k": top_k}))

    def batch() -> tuple[Tensor, Tensor]:
        target = torch.randint(classes, (rows,), generator=generator)
        if ignore is not None:
            target[torch.rand(rows, generator=generator) < 0.2] = ignore
        if hard:
            preds = torch.randint(2 if dtype == torch.bool else classes, (rows,), generator=generator).to(dtype)
        else:
            preds = (torch.randn((rows, classes), generator=generator) * 4).round().div(4).to(dtype)  # with ties
        if torch.rand((), generator=generator) < 0.2:
            spoil(preds, target, generator)
        return preds, target.to(target_dtype)

    return metric, batch


def spoil(preds: Tensor, target: Tensor, generator: torch.Generator) -> None:
    """Puts a value that is bad, unless its target is ignored, into one of both."""
    row = int(torch.randint(len(target), (), generator=generator))
    if torch.rand((), generator=generator) < 0.5:
        target[row] = 100
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
    return tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.ndim else bits(tensor.reshape(1))


def same_bits(one: Metric[Any], other: Metric[Any]) -> bool:
    pairs = [(ours, getattr(other.state(), name)) for name, ours in one.state().tensors().items()]
    return all(a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b) for a, b in pairs)


@pytest.mark.parametrize("kind", ["Accuracy", "FBetaScore"])
def test_states_of_multiclass_metrics_are_equal(kind: str, steps: list[plans.Step]) -> None:
    generator, failed = torch.Generator().manual_seed(len(kind)), 0
    for _ in range(ROUNDS):
        metric, draw = multiclass(kind, generator)
        checked = metric.clone()
        for _ in range(4):
            batch = draw()
            told = outcome(metric, batch)
            with plans.checked_only():
                assert outcome(checked, batch) == told
            failed += bool(told)
        assert same_bits(metric, checked)
        assert metric._update_count == checked._update_count
    assert failed > ROUNDS / 8
    assert len(steps) == 4 * ROUNDS - failed
