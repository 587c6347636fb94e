"""Plans for CUDA tensors, under csrc/sim: the bits of the checked path, in one native call and few allocations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import pytest
import torch
from torch import Tensor

from tests.classification.test_plans import bits, one_of, scores, spoil
from tests.native import sim
from tests.native.pretend import here, on_device, pretending, there
from tests.test_plans import steps as steps
from valor_gpu import classification, plans
from valor_gpu.classification import cuda_plans
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.score_histogram import op as score_histogram

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
    maps = kind != "ROCAUC" and task == "multiclass" and choices.get("top_k", 1) == 1 and one_of(generator, (0, 0, 1))
    if maps:  # of 12 pixels, or of 4 by 3
        shape = one_of(generator, ((3, 12), (3, 4, 3)))

    def batch() -> tuple[Tensor, Tensor]:
        values = classes if task == "multiclass" else 2
        target = torch.randint(values, shape, generator=generator)
        preds = torch.randint(values, shape, generator=generator) if hard else None
        if preds is None:
            preds = scores((shape[0], classes, *shape[1:]) if task == "multiclass" else shape, generator)
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
    """Copies of the tensors of a state, on the CPU."""
    state = metric.metric_state
    return {name: here(now).cpu().clone() for name, now in state.items() if not isinstance(now, list)}


def check_same(one: Metric[Any], other: Metric[Any]) -> None:
    ours, theirs = state_of(one), state_of(other)
    for name, value in ours.items():
        wanted = theirs[name]
        assert (value.dtype, value.shape) == (wanted.dtype, wanted.shape)
        assert bits(value) == bits(wanted), (name, value, wanted)


def check_rounds(kind: str, task: str, steps: list[plans.Step], device: Moves) -> None:
    """Metrics of one kind, each of three batches after weights whose sums are no whole numbers."""
    generator = torch.Generator().manual_seed(len(kind) + len(task))
    failed = planned = 0
    for _ in range(ROUNDS):
        plain, draw, served = drawn(kind, task, generator)
        preds, target = draw()
        sound = preds.nan_to_num() if preds.is_floating_point() else torch.zeros_like(preds)
        plain.update(sound, target.clamp(0, 1), torch.rand(len(target), generator=generator))
        metric, checked = device.metric(plain), device.metric(plain)
        del steps[:]
        for _ in range(3):
            batch = device.batch(draw())
            before = {name: getattr(metric, name) for name in state_of(metric)}
            copies = state_of(metric)
            metric.update(*batch)
            with plans.checked_only():
                checked.update(*batch)
            assert all(torch.equal(here(value).cpu(), copies[name]) for name, value in before.items())
            assert metric.error.is_cuda
        assert len(steps) == 3 * served, (metric._identity.text, [part.dtype for part in batch])
        check_same(metric, checked)
        failed += int(here(metric.error)) != NO_ERROR
        planned += served
    assert failed and planned > ROUNDS / 2


class Moves(NamedTuple):
    """How metrics and batches get to a device."""

    metric: Callable[[Metric[Any]], Metric[Any]]
    batch: Callable[[tuple[Tensor, Tensor]], tuple[Tensor, Tensor]]


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_states_are_those_of_the_checked_path(
    kind: str, task: str, steps: list[plans.Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_histogram, "_OP", score_histogram._score_histogram_cuda)
    with pretending():
        check_rounds(kind, task, steps, Moves(on_device, there))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("kind", "task"), CASES)
def test_states_on_a_gpu_are_those_of_the_checked_path(kind: str, task: str, steps: list[plans.Step]) -> None:
    device = Moves(lambda metric: metric.clone().cuda(), lambda batch: (batch[0].cuda(), batch[1].cuda()))
    check_rounds(kind, task, steps, device)


SCORES, TARGET = torch.rand(20, 5, generator=torch.Generator().manual_seed(0)), torch.arange(20) % 5
BINARY = SCORES[:, 0].contiguous(), TARGET % 2
MAPS = SCORES.T.contiguous().reshape(1, 5, 20), TARGET.reshape(1, 20)
WORK: dict[str, tuple[Metric[Any], tuple[Tensor, Tensor], int, int]] = {
    "class counts": (classification.Accuracy(num_classes=5), (SCORES, TARGET), 3, 4),
    "class indices": (classification.F1Score(num_classes=5), (TARGET, TARGET), 3, 3),
    "ignored": (classification.Recall(num_classes=5, ignore_index=0), (SCORES, TARGET), 3, 5),
    "maps": (classification.JaccardIndex(5), MAPS, 3, 4),
    "confusions": (classification.ConfusionMatrix(5), (SCORES, TARGET), 3, 3),
    "elements": (classification.Accuracy(activation="none"), BINARY, 3, 3),
    "labels": (classification.ConfusionMatrix(), (TARGET % 2, BINARY[1]), 3, 4),
    "histogram": (classification.ROC(activation="none", thresholds=10), BINARY, 4, 3),
    "logits or not": (classification.ROCAUC(5, thresholds=10), (SCORES, TARGET), 4, 8),
}
"""A metric, a batch, the fields of its state that are written anew, and kernels."""


@pytest.mark.smoke
def test_some_batches_of_every_entry(steps: list[plans.Step]) -> None:
    with pretending():
        for plain, batch, *_ in WORK.values():
            on_device(plain).update(*there(batch))
    assert len(steps) == len(WORK)


@pytest.mark.parametrize("name", WORK)
def test_an_update_is_one_call_and_some_allocations(name: str) -> None:
    """A torch operation takes the host of an H100 10 us, an allocation 4, a call 2 and each kernel of it 3 to 5."""
    plain, batch, fields, kernels = WORK[name]
    with pretending() as called:
        metric, given = on_device(plain), there(batch)
        metric.update(*given)
        del called[:]
        sim.launches()
        with torch.autograd.profiler.profile() as profile:
            metric.update(*given)
        launched = sim.launches()
    assert len(called) == 1 and called[0].startswith("valor_add_"), called
    assert len(launched) == kernels, launched
    made = [event.name for event in profile.function_events if event.name not in _OF_PRETENDING]
    assert sorted(set(made)) == ["aten::empty", "aten::empty_like", "aten::empty_strided"], made
    assert (made.count("aten::empty"), made.count("aten::empty_like")) == (1, fields)


_OF_PRETENDING = ("aten::alias", "detach", "aten::detach", "aten::fill_")  # the last one by tests, of new memory


def test_bad_values_raise_in_compute(steps: list[plans.Step]) -> None:
    with pretending():
        metric = on_device(classification.Accuracy(num_classes=5))
        metric.update(*there((SCORES, TARGET)))
        metric.update(*there((SCORES.index_fill(0, torch.tensor(7), torch.nan), TARGET)))
        metric.update(*there((SCORES, torch.full_like(TARGET, 9))))
    assert len(steps) == 3
    for name, value in state_of(metric).items():
        setattr(metric, name, value)
    with pytest.raises(InputError, match=r"target\[0\] must be"):
        metric.compute()


def test_captures_and_other_devices_take_the_checked_path(steps: list[plans.Step]) -> None:
    plain = classification.Accuracy(num_classes=5)
    with pretending(capturing=True):
        on_device(plain).update(*there((SCORES, TARGET)))
    with pretending():
        on_device(plain).update(SCORES, there(TARGET))
        on_device(plain).update(SCORES, TARGET)
        plain.clone().update(*there((SCORES, TARGET)))
        on_device(plain).update(*there((SCORES, TARGET)), there(torch.ones(20)))
        on_device(plain).update(*there((SCORES.T.contiguous().T, TARGET)))
    assert steps == []


@pytest.mark.parametrize("thresholds", [None, 10])
def test_a_batch_on_the_cpu_is_not_kept_by_a_metric_on_a_gpu(thresholds: int | None, steps: list[plans.Step]) -> None:
    """The checked path says where both lie."""
    with pretending():
        on_device(classification.ROCAUC(activation="none", thresholds=thresholds)).update(*BINARY)
    assert steps == []


def test_a_replaced_state_is_looked_at(steps: list[plans.Step]) -> None:
    with pretending():
        metric = on_device(classification.Accuracy(num_classes=5))
        metric.counts = there(torch.zeros((5, 4), dtype=torch.float64).T)
        metric.update(*there((SCORES, TARGET)))
        assert steps == []
        metric.counts = metric.counts.contiguous()
        metric.update(*there((SCORES, TARGET)))
    assert len(steps) == 1 and here(metric.counts)[3, 0] == 40


def test_a_form_that_no_kernel_serves_is_given_up() -> None:
    """Two classes are too few for the softmax in the kernel: torch makes the probabilities."""
    with pretending() as called:
        metric = on_device(classification.ROCAUC(2, thresholds=5))
        for _ in range(5):
            metric.update(*there((SCORES[:, :2].contiguous(), TARGET % 2)))
    assert called.count("valor_add_histogram_cuda") == 3
    assert metric.update_count == 5 and here(metric.counts)[1].sum() == 5 * 40


@pytest.mark.parametrize("name", ["class counts", "confusions", "histogram"])
def test_forward_adds_the_batch_and_gives_its_value(name: str, steps: list[plans.Step]) -> None:
    plain, batch, *_ = WORK[name]
    expected = plain.clone()
    with pretending():
        metric, values = on_device(plain), []
        with (
            mock.patch.object(type(metric), "_check_error", lambda self: values.append(here(self.error))),
            mock.patch.object(plans, "finished_compute", lambda self: values.append(state_of(self))),
        ):
            metric.forward(*there(batch))
            metric.forward(*there(batch))
    assert len(steps) == 2 and len(values) == 4
    expected.update(*batch)
    once = state_of(expected)
    assert all(bits(value) == bits(once[part]) for part, value in values[3].items() if part != "signature")
    expected.update(*batch)
    check_same(metric, expected)


def test_a_batch_of_ignored_targets_decides_nothing(steps: list[plans.Step]) -> None:
    plain = classification.ROCAUC(thresholds=10, ignore_index=-1)
    with pretending():
        metric = on_device(plain)
        metric.update(*there((BINARY[0] * 5, torch.full((20,), -1))))
    plain.update(BINARY[0] * 5, torch.full((20,), -1))
    assert len(steps) == 2  # one of them on the CPU
    assert here(metric.seen).tolist() == plain.seen.tolist() == [20, 20, 0, 0]


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("class counts", "count_top"), ("class indices", "count_labels"), ("confusions", "confuse_scores"),
        ("confusions", "count_pairs"), ("maps", "predict_maps"), ("maps", "count_labels"),
        ("labels", "score_histogram"),
        ("histogram", "score_histogram"),
    ],
)  # fmt: skip
def test_a_kernel_that_is_switched_off_stays_off(
    name: str, op: str, steps: list[plans.Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    """VALOR_GPU_DISABLE is read when ops are registered."""
    monkeypatch.setattr(cuda_plans, "disabled", lambda asked: asked == op)
    plain, batch, *_ = WORK[name]
    with pretending() as called:
        on_device(plain).update(*there(batch))
    assert steps == [] and not [symbol for symbol in called if "valor_add_" in symbol]
