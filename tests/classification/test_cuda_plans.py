"""Plans for CUDA tensors, under csrc/sim: the bits of the checked path, in one native call and few allocations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.classification.test_plans import bits, one_of, scores, spoil
from tests.native import sim
from tests.native.pretend import DeviceTensor, here, on_device, pretending, there
from valor_gpu import classification, plans
from valor_gpu.metric import Metric
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES

ROUNDS = 12


@pytest.fixture(autouse=True)
def every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No digest holds all the Python that these tests run."""
    monkeypatch.setattr(sim, "skips_known", False)


def drawn(kind: str, generator: torch.Generator) -> tuple[Metric[Any], Callable[[], tuple[Tensor, Tensor]]]:
    """A multiclass metric, and what draws batches of one form for it, some of them with a bad value."""
    classes, rows = one_of(generator, (2, 5, 130)), one_of(generator, (1, 70, 300))
    ignore, hard = one_of(generator, (None, 0, -1, 255)), one_of(generator, (False, False, True))
    top_k = one_of(generator, (1, 1, 2)) if kind == "Accuracy" and not hard else 1
    metric = getattr(classification, kind)(
        num_classes=classes, ignore_index=ignore, **({"top_k": top_k} if kind == "Accuracy" else {})
    )
    dtype, target_dtype = one_of(generator, INT_TYPES if hard else FLOAT_TYPES), one_of(generator, INT_TYPES)

    def batch() -> tuple[Tensor, Tensor]:
        target = torch.randint(classes, (rows,), generator=generator)
        preds = torch.randint(classes, (rows,), generator=generator) if hard else scores((rows, classes), generator)
        if torch.rand((), generator=generator) < 0.2:
            spoil(preds, target, generator)
        if ignore is not None:
            target[torch.rand(rows, generator=generator) < 0.2] = ignore
        return preds.to(dtype), target.to(target_dtype)

    return metric, batch


def state_of(metric: Metric[Any]) -> dict[str, Any]:
    return {name: here(now) for name, now in metric.metric_state.items() if not isinstance(now, list)}


def check_same(one: Metric[Any], other: Metric[Any]) -> None:
    ours, theirs = state_of(one), state_of(other)
    for name, value in ours.items():
        wanted = theirs[name]
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        assert bits(value) == bits(wanted), (name, value, wanted)


@pytest.mark.parametrize("kind", ["Accuracy"])
def test_states_are_those_of_the_checked_path(kind: str) -> None:
    generator = torch.Generator().manual_seed(len(kind))
    taken = 0
    for _ in range(ROUNDS):
        plain, draw = drawn(kind, generator)
        with pretending() as called:
            metric, checked = on_device(plain), on_device(plain)
            for _ in range(3):
                batch = there(draw())
                before = state_of(metric)
                copies = {name: value.clone() for name, value in before.items()}
                metric.update(*batch)
                with plans.checked_only():
                    checked.update(*batch)
                assert all(torch.equal(value, copies[name]) for name, value in before.items())
                assert isinstance(metric.error, DeviceTensor)
            taken += sum("valor_add_" in name for name in called)
        check_same(metric, checked)
    assert taken == 3 * ROUNDS
