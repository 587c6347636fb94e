"""Plans for CUDA tensors, under csrc/sim: the bits of the checked path, in one native call and few allocations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.classification.test_plans import bits, one_of, scores, spoil
from tests.native import sim
from tests.native.pretend import DeviceTensor, here, on_device, pretending, there
from tests.test_plans import steps as steps
from valor_gpu import classification, plans
from valor_gpu.metric import Metric
from valor_gpu.ops import score_histogram
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES

ROUNDS = 12
Draw = Callable[[], tuple[Tensor, Tensor]]

CHOICES: dict[str, dict[str, Any]] = {
    "Accuracy": {"top_k": (1, 1, 2), "threshold": (0.5, 0.25, 0.1)},
    "ConfusionMatrix": {"threshold": (0.5, 0.1)},
    "ROCAUC": {"thresholds": (2, 5, 100, (0.1, 0.2, 0.5)), "score_dtype": (torch.float32, torch.float64)},
}
"""Classes, one for each entry of csrc/cuda, and the choices that their updates depend on."""

CASES = [(kind, task) for kind in CHOICES for task in ("binary", "multiclass", "multilabel")]


@pytest.fixture(autouse=True)
def every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """No digest holds all the Python that these tests run."""
    monkeypatch.setattr(sim, "skips_known", False)


def drawn(kind: str, task: str, generator: torch.Generator) -> tuple[Metric[Any], Draw, bool]:
    """A metric, what draws batches of one form for it, some of them with a bad value, and whether kernels serve it."""
    classes, rows = one_of(generator, (4, 5, 130)) if task != "binary" else 1, one_of(generator, (1, 70, 300))
    ignore, hard = one_of(generator, (None, 2, -1, 255)), kind != "ROCAUC" and one_of(generator, (False, False, True))
    choices = {name: one_of(generator, values) for name, values in CHOICES[kind].items()}
    choices.pop("threshold" if task == "multiclass" else "top_k", None)
    if hard and "top_k" in choices:
        choices["top_k"] = 1
    if kind == "ROCAUC" or task != "multiclass":
        usual = "softmax" if task == "multiclass" else "sigmoid"
        choices["activation"] = one_of(generator, ("auto", "auto", "none", usual))
    columns = {"binary": {}, "multiclass": {"num_classes": classes}, "multilabel": {"num_labels": classes}}[task]
    metric = getattr(classification, kind)(**columns, ignore_index=ignore, **choices)
    dtype = one_of(generator, INT_TYPES if hard else FLOAT_TYPES)
    activates = not hard and choices.get("activation", "none") != "none"
    if dtype == torch.float64 and (activates or choices.get("score_dtype") == torch.float32):
        dtype = torch.float32  # no kernel makes probabilities of float64, and the checked path rounds
    target_dtype = one_of(generator, (torch.int64, torch.uint8, torch.int8) if activates else INT_TYPES)
    shape = (rows, classes) if task == "multilabel" else (rows,)

    def batch() -> tuple[Tensor, Tensor]:
        values = classes if task == "multiclass" else 2
        target = torch.randint(values, shape, generator=generator)
        preds = torch.randint(values, shape, generator=generator) if hard else None
        if preds is None:
            preds = scores((rows, classes) if task == "multiclass" else shape, generator)
        if torch.rand((), generator=generator) < 0.2:
            spoil(preds, target, generator)
        if ignore is not None:
            target[torch.rand(shape, generator=generator) < 0.2] = ignore
        return preds.to(dtype), target.to(target_dtype)

    width = 16 // dtype.itemsize  # scores of one load, of which no more than two rows may be part
    whole = rows >= width // math.gcd(classes, width)  # enough rows for whole loads
    served = not activates or (whole and (task != "multiclass" or width <= classes + 1))
    return metric, batch, served


def state_of(metric: Metric[Any]) -> dict[str, Any]:
    return {name: here(now) for name, now in metric.metric_state.items() if not isinstance(now, list)}


def check_same(one: Metric[Any], other: Metric[Any]) -> None:
    ours, theirs = state_of(one), state_of(other)
    for name, value in ours.items():
        wanted = theirs[name]
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        assert bits(value) == bits(wanted), (name, value, wanted)


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_states_are_those_of_the_checked_path(
    kind: str, task: str, steps: list[plans.Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(len(kind) + len(task))
    failed = planned = 0
    monkeypatch.setattr(score_histogram, "_OP", score_histogram._score_histogram_cuda)
    for _ in range(ROUNDS):
        plain, draw, served = drawn(kind, task, generator)
        del steps[:]
        with pretending():
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
        assert len(steps) == 3 * served, (metric._identity.text, [part.dtype for part in batch])
        check_same(metric, checked)
        failed += int(here(metric.error)) != torch.iinfo(torch.int64).max
        planned += served
    assert failed and planned > ROUNDS / 2
