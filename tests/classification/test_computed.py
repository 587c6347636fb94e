"""``compute`` of small states: NumPy and the way without synchronisation give the bits of torch and of torchmetrics."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from tests.contract import METRICS
from valor_gpu import computed, plans
from valor_gpu.classification import ROC, AveragePrecision, ConfusionMatrix, PrecisionRecallCurve, StatScores, curves
from valor_gpu.errors import InputError
from valor_gpu.reduce import histogram_metrics

FORMS: tuple[dict[str, int], ...] = ({}, {"num_classes": 4}, {"num_labels": 3})


def _filled(metric: Any, rows: int, weighted: bool, seed: int) -> Any:
    """The metric after two batches, with many equal scores, and in the multiclass task a class without positives."""
    torch.manual_seed(seed)
    task = metric.task
    shape = (rows,) if task.kind == "binary" else (rows, task.classes)
    for _ in range(2):
        preds = (torch.rand(shape) * 8).round() / 8
        target = torch.randint(task.classes - 1, (rows,)) if task.kind == "multiclass" else torch.randint(2, shape)
        metric.update(preds, target, torch.rand(rows) if weighted else None)
    return metric


def _tensors(value: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def _same(mine: Any, other: Any) -> None:
    for left, right in itertools.zip_longest(_tensors(mine), _tensors(other)):
        assert left.dtype == right.dtype
        torch.testing.assert_close(left, right, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("weighted", [False, True], ids=["counts", "weights"])
@pytest.mark.parametrize("thresholds", [None, 50, (0.25, 0.5, 0.5001)], ids=str)
@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("kind", [ROC, PrecisionRecallCurve, AveragePrecision])
def test_arrays_give_the_bits_of_tensors(
    kind: Any, form: dict[str, int], thresholds: Any, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rows, average in itertools.product((1, 8, 300), ("none", "micro")):
        metric = _filled(kind(**form, thresholds=thresholds, average=average), rows, weighted, rows)
        by_arrays = metric.compute()
        with monkeypatch.context() as patch, plans.checked_only():
            patch.setattr(curves, "quick", lambda values: values)
            patch.setattr(histogram_metrics, "quick", lambda values: values)
            metric._computed = None
            by_tensors = metric.compute()
        _same(by_arrays, by_tensors)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize(
    "kind", [ROC, PrecisionRecallCurve, functools.partial(ROC, thresholds=9), AveragePrecision, ConfusionMatrix]
)
def test_the_short_way_gives_what_torchmetrics_makes_of_the_value(
    kind: Any, form: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = _filled(kind(**form), 8, False, 5)
    short = metric.compute()
    with monkeypatch.context() as patch:
        patch.setattr(metric, "distributed_available_fn", lambda: True)  # asks for the whole way,
        patch.setattr(metric, "sync", lambda *args, **kwargs: None)  # on which there is nothing to synchronise
        metric._computed = None
        whole = metric.compute()
    assert type(short) is type(whole)
    _same(short, whole)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("kind", [ROC, PrecisionRecallCurve])
def test_few_scores_give_the_curves_of_the_op(kind: Any, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(int(dtype.itemsize))
    for rows, ignore_index, activation in itertools.product((1, 2, 40), (None, 1, -1), ("none", "auto", "sigmoid")):
        for form in FORMS:
            metric = kind(**form, ignore_index=ignore_index, activation=activation, score_dtype=dtype)
            shape = (rows,) if not form else (rows, metric.task.classes)
            scores = (torch.randn(shape, generator=generator) * 4).round().to(dtype) / 2
            top, labels = (2, shape) if metric.task.kind != "multiclass" else (4, (rows,))
            metric.update(scores.clamp(0, 1) if rows == 2 else scores, torch.randint(top, labels, generator=generator))
            short = metric.compute()
            with plans.checked_only():
                metric._computed = None
                _same(short, metric.compute())


@pytest.mark.parametrize("where", ["scores", "target"])
def test_a_replaced_state_is_checked_before_its_memory_is_read(where: str) -> None:
    metric = _filled(ROC(), 8, False, 3)
    setattr(metric, where, [getattr(metric, where)[0][:1]])
    with pytest.raises(InputError, match=r"target must have shape"):
        metric.compute()


@pytest.mark.parametrize("kind", [tuple, list])
def test_finished_values_share_no_memory_with_the_state(kind: type) -> None:
    state = torch.rand(4)
    value = computed.finished(kind((state, state[:1])))
    assert type(value) is kind and value[1].shape == ()
    state.zero_()
    assert all(bool(part.all()) for part in value)


_BEYOND = torch.tensor([1e60, 3.0, 0.5, 2.0], dtype=torch.float64)
_OWN: dict[str, Any] = {case.name: case for case in METRICS if hasattr(type(case.make()).compute, "own_memory")}


@pytest.mark.parametrize("name", _OWN)
def test_values_that_are_not_copied_share_no_memory_with_their_metric(name: str) -> None:
    metric = _OWN[name].make()
    metric.update(*_OWN[name].batch(0))
    _check_own_memory(metric)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_values_of_any_dtype_share_no_memory_with_their_metric(form: dict[str, int]) -> None:
    for kind, thresholds in itertools.product((ROC, PrecisionRecallCurve), (None, 5)):
        _check_own_memory(_filled(kind(**form, thresholds=thresholds, score_dtype=torch.float64), 8, False, 3))
    _check_own_memory(_filled(ConfusionMatrix(**form), 8, True, 3))


def _check_own_memory(metric: Any) -> None:
    first = metric.compute()
    tensors = _tensors(first)
    kept = [tensor.clone() for tensor in tensors]
    for tensor in tensors:
        tensor.fill_(7)
    metric._computed = None
    again = metric.compute()
    _same(again, kept)


@pytest.mark.parametrize(
    "metric", [ConfusionMatrix(), StatScores(), StatScores(num_classes=2, average="none")], ids=str
)
def test_sums_of_weights_that_no_int64_holds_stay_floating(metric: Any) -> None:
    metric.update(torch.tensor([0, 1, 0, 1]), torch.tensor([0, 1, 1, 0]), _BEYOND)
    value = metric.compute()
    assert value.dtype == torch.float64
    assert value.max() == 1e60 and value.min() >= 0


def test_average_precision_value_is_the_first_of_its_bounds() -> None:
    torch.manual_seed(1)
    every = torch.rand(3, 40, dtype=torch.float64)
    histogram = torch.stack((every * torch.rand(3, 40, dtype=torch.float64), every))
    histogram[0, 1] = 0
    value = histogram_metrics.average_precision_value(histogram)
    bounded = histogram_metrics.average_precision(histogram)
    _same(value, bounded.value)
    assert value.isnan().tolist() == [False, True, False]
    assert bool((bounded.lowest <= value)[[0, 2]].all()) and bool((value <= bounded.highest)[[0, 2]].all())
