"""Rare inputs: plans and the checked path agree, and neither takes a number for another one."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.contract import METRICS, Case
from valor_gpu import functional, plans
from valor_gpu.classification import (
    ROC,
    ROCAUC,
    Accuracy,
    AveragePrecision,
    CalibrationError,
    ConfusionMatrix,
    StatScores,
)
from valor_gpu.errors import InputError
from valor_gpu.reduce.overlap_curves import _largest_to_come

_MAKERS: dict[str, Callable[..., Any]] = {
    "accuracy": Accuracy,
    "confusion": ConfusionMatrix,
    "calibration": CalibrationError,
    "histogram": lambda **choices: ROC(thresholds=5, **choices),
}
_FAMILIES = {type(case.make().state()): case for case in METRICS[::-1]}
"""A case of each class of states."""


@pytest.mark.parametrize("shape", [(8,), (4, 2), (2, 2, 2)], ids=str)
@pytest.mark.parametrize("name", _MAKERS)
def test_softmax_of_one_score_is_one_in_plans_as_well(name: str, shape: tuple[int, ...]) -> None:
    metric, checked = (_MAKERS[name](activation="softmax") for _ in range(2))
    batch = torch.rand(shape), torch.arange(8).reshape(shape) % 2
    metric.update(*batch)
    with plans.checked_only():
        checked.update(*batch)
    for field, tensor in metric.state().tensors().items():
        assert torch.equal(tensor, getattr(checked.state(), field)), field


@pytest.mark.parametrize("make", [ROC, AveragePrecision, lambda: ROC(thresholds=5), Accuracy, ConfusionMatrix])
def test_scores_of_8_bits_are_an_input_error(make: Any) -> None:
    metric, scores = make(), torch.tensor([0.5, 0.25]).to(torch.float8_e4m3fn)
    with pytest.raises(InputError, match=r"preds must be floating point or integer but is torch\.float8_e4m3fn"):
        metric.update(scores, torch.tensor([0, 1]))


@pytest.mark.parametrize("make", [Accuracy, StatScores], ids=lambda make: make.__name__)
@pytest.mark.parametrize("way", [nullcontext, plans.checked_only], ids=["plan", "checked"])
def test_an_ignore_index_beyond_the_dtype_of_the_target_ignores_nothing(make: Any, way: Any) -> None:
    for dtype, label, ignored in ((torch.uint8, 255, -1), (torch.uint8, 156, -100), (torch.int16, 0, -(2**40))):
        metric = make(num_classes=256, ignore_index=ignored)
        with way():
            metric.update(torch.rand(3, 256), torch.tensor([label, 1, 2], dtype=dtype))
        assert metric.seen.tolist() == [3, 0, 0, 0]
        assert metric.counts[3, 0] == 3
    with way(), pytest.raises(InputError, match=r"target\[0\] must be a class index from 0 to 2"):
        make(num_classes=3, ignore_index=255).update(torch.rand(1, 3), torch.tensor([-1], dtype=torch.int8))


def test_logits_in_samples_with_such_a_label_are_seen() -> None:
    labels = torch.full((2, 256), 0, dtype=torch.uint8)
    scores = torch.full((2, 256), 0.5)
    scores[0, 0], labels[0, 0] = 4.0, 255
    metric = CalibrationError(num_classes=256, ignore_index=-1)
    with plans.checked_only():
        metric.update(scores, labels[:, 0])
    assert metric.confidence.sum() < 0.2  # the softmax of nearly equal logits


def test_an_ignore_index_beyond_int64_is_an_error() -> None:
    with pytest.raises(InputError, match="ignore_index must fit in int64 but got 18446744073709551616"):
        Accuracy(ignore_index=2**64)


class Carrier(Tensor):
    """A tensor with something on it, as MONAI's MetaTensor."""


@pytest.mark.parametrize("make", [Accuracy, ConfusionMatrix, ROCAUC, lambda: ROC(thresholds=5), CalibrationError])
def test_states_hold_tensors_of_torch_alone(make: Any) -> None:
    metric = make()
    metric.update(torch.rand(8).as_subclass(Carrier), (torch.arange(8) % 2).as_subclass(Carrier))
    held = [part for now in metric.metric_state.values() for part in (now if isinstance(now, list) else [now])]
    assert {type(part) for part in held} == {Tensor}
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert str(other.compute()) == str(metric.compute())


@pytest.mark.parametrize("case", _FAMILIES.values(), ids=lambda case: case.name)
def test_a_default_device_changes_nothing_for_tensors_of_the_cpu(case: Case) -> None:
    metric, other = case.make(), case.make()
    other.update(*case.batch(0))
    with torch.device("meta"):
        metric.update(*_batch(case))
        assert str(metric.compute()) == str(other.compute())
        assert str(metric.result().values) == str(other.result().values)
        metric.merge_state(other.to_bytes())
        metric.clone()(*_batch(case))
    assert metric.update_count == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["AP", "mAP", "BERTScore-tokens", "HausdorffDistance", "ROC", "Accuracy"])
def test_a_default_dtype_changes_no_number(name: str, dtype: torch.dtype) -> None:
    case = next(case for case in METRICS if case.name == name)
    metric, other, batch = case.make(), case.make(), case.batch(0)
    other.update(*batch)
    value = other.compute()
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        metric.update(*batch)
        again = metric.compute()
    finally:
        torch.set_default_dtype(before)
    assert str(again) == str(value)


def test_runs_beyond_the_whole_numbers_of_float32_keep_their_precisions() -> None:
    runs = torch.tensor([0, 1, 1, 2**25, 2**25 + 1])
    precisions = torch.tensor([0.25, 0.125, 0.5, 0.75, 0.125], dtype=torch.float64)
    assert _largest_to_come(precisions, runs).tolist() == [0.25, 0.5, 0.5, 0.75, 0.125]


def _batch(case: Case) -> Any:
    with torch.device("cpu"):
        return case.batch(0)


def test_functions_know_no_default_device() -> None:
    batch = torch.tensor([0.25, 0.75]), torch.tensor([0, 1])
    with torch.device("meta"):
        value = functional.accuracy(*batch, task="binary")
    assert float(value) == 1.0
