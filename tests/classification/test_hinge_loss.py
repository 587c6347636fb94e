"""Hinge losses: equal to scikit-learn's of decision values and to torchmetrics', with the same bits in any order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.classification as tm
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu import functional, plans
from valor_gpu.classification import BinaryHingeLoss, HingeLoss, MulticlassHingeLoss
from valor_gpu.errors import InputError

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def drawn(seed: int, classes: int, rows: int = 60) -> tuple[Tensor, Tensor]:
    """Decision values of a few classes, or with ``classes`` 0 of one, with ties."""
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, classes) if classes else (rows,)
    scores = torch.randint(-40, 40, shape, generator=generator).double() / 16
    return scores, torch.randint(classes or 2, (rows,), generator=generator)


def value(metric: HingeLoss, *batches: Any) -> Any:
    for batch in batches:
        metric.update(*batch)
    found = metric.result().values["HingeLoss"]
    np.testing.assert_allclose(metric.compute().numpy(), found, rtol=1e-6)
    return found


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("dtype", FLOATS)
def test_decision_values_have_the_loss_of_scikit_learn(seed: int, dtype: torch.dtype) -> None:
    for classes in (0, 3, 7):
        scores, target = drawn(seed, classes)
        scores = scores.to(dtype)
        size = {"num_classes": classes} if classes else {}
        expected = sk.hinge_loss(target, scores.double().numpy(), labels=np.arange(classes or 2))
        batches = (scores[:7], target[:7]), (scores[7:], target[7:])
        assert value(HingeLoss(**size, activation="none"), *batches) == pytest.approx(expected, abs=1e-14)
        weight = torch.rand(60, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        expected = sk.hinge_loss(
            target, scores.double().numpy(), labels=np.arange(classes or 2), sample_weight=weight.numpy()
        )
        found = value(HingeLoss(**size, activation="none"), (scores, target, weight))
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("ignore_index", [None, 0, -1])
def test_probabilities_and_logits_have_the_loss_of_torchmetrics(
    seed: int, squared: bool, ignore_index: int | None
) -> None:
    options: dict[str, Any] = {"squared": squared, "ignore_index": ignore_index}
    for logits in (False, True):
        for classes in (0, 4):
            scores, target = drawn(seed, classes)
            scores = scores.float() if logits else scores.float().softmax(1) if classes else scores.float().sigmoid()
            if ignore_index == -1:
                target[::5] = -1
            modes = ({},) if not classes else ({"multiclass_mode": mode} for mode in ("crammer-singer", "one-vs-all"))
            for mode in modes:
                size = {"num_classes": classes} if classes else {}
                name = "MulticlassHingeLoss" if classes else "BinaryHingeLoss"
                theirs = getattr(tm, name)(**size, **mode, **options)
                ours = {"BinaryHingeLoss": BinaryHingeLoss, "MulticlassHingeLoss": MulticlassHingeLoss}[name]
                metric = ours(**size, **mode, **options)  # type: ignore[operator]
                theirs.update(scores, target)
                metric.update(scores, target)
                torch.testing.assert_close(metric.compute(), theirs.compute(), rtol=2e-6, atol=1e-6)
                once = functional.hinge_loss(
                    scores, target, "multiclass" if classes else "binary", **size, **mode, **options
                )
                torch.testing.assert_close(once, metric.compute(), rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["crammer-singer", "one-vs-all"])
def test_any_order_and_split_has_the_same_bits_and_those_of_exact_sums(mode: str) -> None:
    generator = torch.Generator().manual_seed(4)
    scores, target = torch.randn((5000, 5), generator=generator), torch.randint(5, (5000,), generator=generator)
    expected = None
    for seed in range(4):
        order = torch.randperm(5000, generator=torch.Generator().manual_seed(seed))
        metric = HingeLoss(5, multiclass_mode=mode, activation="softmax", squared=True)
        for part in order.split(3 if seed == 1 else 1700):
            metric.update(scores[part], target[part])
        sums = metric.state().sums
        expected = sums if expected is None else expected
        assert torch.equal(sums, expected)
    probabilities = scores.softmax(1).double()
    hot = target[:, None] == torch.arange(5)
    others = probabilities.masked_fill(hot, -math.inf).amax(1, keepdim=True)
    margins = torch.where(hot, probabilities, -probabilities) if mode == "one-vs-all" else None
    losses = 1 - (margins if margins is not None else probabilities[hot][:, None] - others)
    exact = [math.fsum(column) / 5000 for column in losses.clamp(min=0).square().T.tolist()]
    np.testing.assert_allclose(np.atleast_1d(metric.result().values["HingeLoss"]), exact, rtol=1e-14)


def test_positions_are_samples_and_memory_may_have_gaps() -> None:
    generator = torch.Generator().manual_seed(5)
    scores, target = torch.rand((4, 3, 6, 2), generator=generator), torch.randint(3, (4, 6, 2), generator=generator)
    flat = scores.movedim(1, -1).reshape(-1, 3)
    expected = value(HingeLoss(3), (flat, target.reshape(-1)))
    assert value(HingeLoss(3), (scores, target)) == expected
    assert value(HingeLoss(3), (flat.t().contiguous().t(), target.reshape(-1))) == expected
    assert value(HingeLoss(3), (flat.repeat_interleave(2, 0)[::2], target.reshape(-1).int())) == expected


def test_kept_rows_give_intervals() -> None:
    scores, target = drawn(6, 3, 300)
    for mode, name in (("crammer-singer", "HingeLoss"), ("one-vs-all", "HingeLoss/1")):
        metric = HingeLoss(3, multiclass_mode=mode, activation="none", keep_rows=True, ignore_index=0)
        metric.update(scores, target)
        interval = metric.result(intervals=400).intervals[name]
        number = np.atleast_1d(metric.result().values["HingeLoss"])[1 if "/" in name else 0]
        rows = metric.state().rows.numpy()
        rows = rows[~np.isnan(rows).any(1), 1 if "/" in name else 0]
        assert interval.low < number < interval.high
        assert interval.standard_error == pytest.approx(rows.std() / math.sqrt(len(rows)), rel=0.15)
        plain = HingeLoss(3, multiclass_mode=mode, activation="none", ignore_index=0)
        plain.update(scores, target)
        assert torch.equal(plain.compute(), metric.compute())
        with pytest.raises(InputError, match=r"make the metric with HingeLoss\(keep_rows=True\)"):
            plain.result(intervals=10)
    with pytest.raises(InputError, match="sample_weight must be None with keep_rows=True"):
        metric.update(scores, target, torch.ones(300))


def test_results_count_and_say_why_there_is_no_loss() -> None:
    metric = HingeLoss(ignore_index=-1)
    metric.update(torch.rand(3), torch.tensor([-1, -1, -1]))
    assert metric.result().counts == {"samples": 3, "ignored": 3}
    assert metric.compute().isnan() and metric.result().reason("HingeLoss") == "there are no samples"


@pytest.mark.parametrize(
    ("options", "preds", "target", "message"),
    [
        ({}, [0.5, math.nan], [0, 1], r"preds\[1\] must hold scores without NaN, and with a finite loss"),
        ({"activation": "none"}, [0.5, math.inf], [0, 0], r"preds\[1\] must hold scores without NaN"),
        ({}, [0.5, 0.5], [0, 2], r"target\[1\] must be 0 or 1"),
        ({}, [1, 0], [1, 0], "preds must be scores of a floating dtype"),
        ({"num_classes": 3}, [[0.5, 0.5]], [0], r"\[N, 3, ...\]"),
        ({"num_classes": 2}, [[0.5, math.nan]], [0], r"preds\[0\] must hold scores without NaN"),
        ({"num_classes": 2, "activation": "none"}, [[math.inf, math.inf]], [0], r"preds\[0\] must hold scores"),
        ({"num_classes": 2}, [[0.5, 0.5]], [2], r"target\[0\] must be a class index from 0 to 1"),
    ],
)
@pytest.mark.parametrize("planned", [False, True])
def test_wrong_batches_raise_and_change_nothing(
    options: dict[str, Any], preds: Any, target: Any, message: str, planned: bool
) -> None:
    metric = HingeLoss(**options)
    batch = torch.tensor(preds), torch.tensor(target)
    with pytest.raises(InputError, match=message):
        if planned:
            metric.update(*batch)
        else:
            with plans.checked_only():
                metric.update(*batch)
    assert metric.result().counts["samples"] == 0


def test_ignored_rows_may_hold_anything() -> None:
    metric = HingeLoss(2, ignore_index=-1)
    metric.update(torch.tensor([[math.nan, math.inf], [0.75, 0.25]]), torch.tensor([-1, 0]))
    assert float(metric.compute()) == 0.5


@pytest.mark.parametrize(("options", "message"), [
    (dict(squared=1), "squared must be bool but got int"),
    (dict(keep_rows="yes"), "keep_rows must be bool but got str"),
    (dict(multiclass_mode="ovr"), "multiclass_mode must be one of 'crammer-singer', 'one-vs-all' but got 'ovr'"),
])  # fmt: skip
def test_wrong_arguments_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        HingeLoss(3, **options)


@pytest.mark.parametrize(("field", "value", "message"), [
    ("sums", -1.0, "sums"), ("sums", 1.0, "what rounding leaves"), ("total", -1.0, "total"), ("rows", -0.5, "rows"),
])  # fmt: skip
def test_damaged_states_are_refused(field: str, value: float, message: str) -> None:
    metric = HingeLoss(keep_rows=True)
    metric.update(torch.rand(4), torch.tensor([0, 1, 0, 1]))
    states = {**metric.metric_state}
    states[field] = [torch.full((4, 1), value)] if field == "rows" else torch.full_like(states[field], value)
    if field == "rows":
        states[field] = [part.double() for part in states[field]]
    with pytest.raises(InputError, match=message):
        HingeLoss(keep_rows=True).merge_state(states)
