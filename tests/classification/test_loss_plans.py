"""Sums of losses of probabilities by the C++ library: those of torch, whatever the batch looks like."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu import native, plans
from valor_gpu.classification import BrierScore, NegativeLogLikelihood, row_losses
from valor_gpu.errors import InputError
from valor_gpu.ops.dtypes import FLOAT_TYPES

pytestmark = pytest.mark.skipif(not native.available("valor_cpu"), reason="these sums are native")

KINDS = (BrierScore, NegativeLogLikelihood)
LARGE = 150_000  # rows of a batch that is summed in slices


def fed(metric: Any, *batch: Any) -> Any:
    metric.update(*batch)
    return metric


def by_torch(monkeypatch: pytest.MonkeyPatch, metric: Any, *batch: Any) -> Any:
    with monkeypatch.context() as patch, plans.checked_only():
        patch.setattr(row_losses, "row_losses", lambda *_: None)
        return fed(metric, *batch)


def drawn(seed: int, rows: int, classes: int | None, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Logits and targets."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn((rows, classes) if classes else (rows,), generator=generator).mul(3).to(dtype)
    return logits, torch.randint(classes or 2, (rows,), generator=generator)


def probabilities(logits: Tensor) -> Tensor:
    return (logits.double().softmax(1) if logits.ndim == 2 else logits.double().sigmoid()).to(logits.dtype)


def same(one: Any, other: Any) -> bool:
    """Whether two states have the same bits; rows of ignored targets are NaN in both."""
    pairs = [(part, getattr(other.state(), name)) for name, part in one.state().tensors().items()]
    return all(a.dtype == b.dtype and torch.equal(a.nan_to_num(-1), b.nan_to_num(-1)) for a, b in pairs)


def near(one: Any, other: Any) -> bool:
    for name, part in one.state().tensors().items():
        torch.testing.assert_close(part, getattr(other.state(), name), rtol=1e-13, atol=1e-9, equal_nan=True)
    ours, theirs = (float(metric._value(metric.state().sums)) for metric in (one, other))
    return bool(ours == pytest.approx(theirs, rel=1e-13, abs=2**-48))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [None, 3, 17])
def test_sums_are_those_of_torch(kind: Any, classes: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    native_sums = row_losses.row_losses
    monkeypatch.setattr(row_losses, "row_losses", lambda *args: (served.append(native_sums(*args)), served[-1])[1])
    for seed in seeds(3):
        generator = torch.Generator().manual_seed(seed)
        for dtype in FLOAT_TYPES:
            logits, target = drawn(seed, 1500, classes, dtype)
            target[torch.rand(1500, generator=generator) < 0.1] = -1
            weight = torch.rand(1500, generator=generator) * (torch.rand(1500, generator=generator) < 0.8)
            for preds in (logits, probabilities(logits)):
                for rest in ((), (weight,)):
                    one, other, third = (kind(classes, ignore_index=-1, keep_rows=True) for _ in range(3))
                    planned = fed(third, preds, target, *rest)
                    served.clear()
                    with plans.checked_only():
                        natively = fed(one, preds, target, *rest)
                    assert same(planned, natively)
                    assert served.pop() is not None and not served  # else torch would be compared with torch
                    assert near(natively, by_torch(monkeypatch, other, preds, target, *rest))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [None, 4])
def test_no_layout_nor_number_of_threads_changes_a_bit(kind: Any, classes: int | None) -> None:
    logits, target = drawn(1, LARGE, classes)
    preds = probabilities(logits)
    whole, threads = fed(kind(classes), preds, target), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert same(whole, fed(kind(classes), preds, target))
    finally:
        torch.set_num_threads(threads)
    apart = torch.stack((preds, preds), 1)[:, 0]  # strided
    assert same(whole, fed(kind(classes), apart, torch.stack((target, target), 1)[:, 0]))
    parts = kind(classes)
    for rows in torch.randperm(LARGE, generator=torch.Generator().manual_seed(0)).split(40_000):
        parts.update(preds[rows], target[rows])
    values = (metric.result().values for metric in (whole, parts))
    assert next(values) == next(values)
    weights = torch.rand(LARGE, generator=torch.Generator().manual_seed(2))
    first = fed(kind(classes), preds, target, weights)
    try:
        torch.set_num_threads(1)
        assert same(first, fed(kind(classes), preds, target, weights))
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [None, 2])
def test_the_last_score_may_say_that_all_are_logits(kind: Any, classes: int | None) -> None:
    preds, target = torch.rand(LARGE, generator=torch.Generator().manual_seed(3)), torch.arange(LARGE) % 2
    preds = torch.stack((preds, preds.flip(0)), 1) if classes else preds
    preds[-1] = -0.25
    how = "softmax" if classes else "sigmoid"
    found, decided = fed(kind(classes), preds, target), fed(kind(classes, activation=how), preds, target)
    assert found.result().values == decided.result().values
    assert found.seen.tolist() == [LARGE, 0, 1, 1] and decided.seen.tolist() == [LARGE, 0, 0, 0]
    ignoring = kind(classes, ignore_index=2)
    assert fed(ignoring, preds, torch.where(torch.arange(LARGE) == LARGE - 1, 2, target)).seen.tolist() == [
        LARGE, 1, 0, 1,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_value_behind_many_rows_is_named(kind: Any) -> None:
    preds, target = torch.full((LARGE,), 0.5), torch.ones(LARGE, dtype=torch.long)
    for bad, told in ((math.nan, "must hold probabilities"), (1.5, "must hold probabilities")):
        spoilt = preds.clone()
        spoilt[LARGE - 2] = bad
        with pytest.raises(InputError, match=rf"preds\[{LARGE - 2}\] {told}"):
            kind(activation="none").update(spoilt, target)
    target[LARGE - 3] = 5
    metric = kind()
    with pytest.raises(InputError, match=rf"target\[{LARGE - 3}"):
        metric.update(preds, target)
    assert metric.seen.tolist() == [0, 0, 0, 0]


def test_large_and_infinite_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.tensor([-(2.0**27) - 0.5, -1e12, 3.0, -math.inf, -1e300, 700.0, -800.0, 800.0], dtype=torch.float64)
    for rows in (8, 3):
        batch = logits[:rows], torch.ones(rows, dtype=torch.long)
        one, other = (NegativeLogLikelihood(activation="sigmoid") for _ in range(2))
        assert same(fed(one, *batch), by_torch(monkeypatch, other, *batch))
    assert float(one._value(one.state().sums)) == pytest.approx(
        (2.0**27 + 0.5 + 1e12 + math.log1p(math.exp(-3))) / 3, rel=1e-15
    )


def test_edges_belong_to_the_bin_above() -> None:
    for n_bins in (1, 3, 7, 15, 49):
        edges = torch.tensor([k / n_bins for k in range(n_bins + 1)])
        below = torch.nextafter(edges[1:], torch.zeros(()))
        metric = fed(BrierScore(n_bins=n_bins), torch.cat((edges, below)), torch.zeros(2 * n_bins + 1).long())
        assert metric.bins[0, 0].tolist() == [2.0] * n_bins + [1.0]
