"""Perplexity: equal to torchmetrics, with ignored tokens, shifted logits and tokens of probability 0."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.functional.text import perplexity as theirs
from torchmetrics.text import Perplexity as Peer

from valor_gpu import functional
from valor_gpu.errors import InputError
from valor_gpu.text import Perplexity


def batch(seed: int, rows: int = 3, tokens: int = 7, classes: int = 50) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn((rows, tokens, classes), generator=generator) * 3
    return logits, torch.randint(classes, (rows, tokens), generator=generator)


@pytest.mark.parametrize("ignore_index", [None, 4, -100])
def test_torchmetrics_gives_the_same(ignore_index: int | None) -> None:
    ours, peer = Perplexity(ignore_index=ignore_index), Peer(ignore_index=ignore_index)
    for seed in range(3):
        preds, target = batch(seed)
        if ignore_index is not None:
            target[0, 2:] = ignore_index
        ours.update(preds, target)
        peer.update(preds, target)
        expected = float(theirs(preds.double(), target, ignore_index=ignore_index))
        assert float(functional.perplexity(preds, target, ignore_index)) == pytest.approx(expected, rel=1e-6)
        assert float(functional.perplexity(y_true=target, y_pred=preds, ignore_index=ignore_index)) == pytest.approx(
            expected, rel=1e-6
        )
    assert float(ours.compute()) == pytest.approx(float(peer.compute()), rel=1e-5)
    assert ours.compute().dtype == torch.float64 and ours.compute().shape == ()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_half_types_are_summed_in_float32(dtype: torch.dtype) -> None:
    preds, target = batch(5, classes=2000)
    metric = Perplexity()
    metric.update(preds.to(dtype), target)
    assert float(metric.compute()) == pytest.approx(float(theirs(preds.to(dtype).double(), target)), rel=1e-6)


def test_any_split_gives_the_same_bits() -> None:
    preds, target = batch(6, rows=9)
    whole, parts = Perplexity(), Perplexity()
    whole.update(preds[:, :-1], target[:, 1:])  # as language models are scored: read where they lie
    for row in torch.randperm(9, generator=torch.Generator().manual_seed(1)).tolist():
        parts.update(preds[row, :-1].contiguous(), target[row, 1:])
    assert torch.equal(whole.compute(), parts.compute()) and torch.equal(whole.sums, parts.sums)


def test_what_torchmetrics_cannot_tell_apart() -> None:
    preds = torch.tensor([[[0.0, 200.0], [0.0, 0.0]]])
    metric = Perplexity()
    metric.update(preds, torch.tensor([[0, 1]]))
    assert metric.result().values["cross_entropy"] == pytest.approx((200 + math.log(2)) / 2)
    assert math.isinf(theirs(preds, torch.tensor([[0, 1]])))


def test_result_counts_tokens() -> None:
    metric = Perplexity(ignore_index=1)
    empty = metric.result()
    assert empty.reasons == dict.fromkeys(("perplexity", "cross_entropy"), "no token was counted")
    metric.update(torch.zeros(1, 3, 4), torch.tensor([[0, 1, 2]]))
    result = metric.result()
    assert dict(result.counts) == {"tokens": 2, "ignored": 1, "impossible": 0} and not result.reasons
    assert result.values["perplexity"] == pytest.approx(4) and "ignore_index:1" in str(result.signature)
    metric.update(torch.tensor([[0.0, -torch.inf]]), torch.tensor([1]))  # 1 is ignored
    assert metric.result().counts["ignored"] == 2
    metric.update(torch.tensor([[-torch.inf, 0.0]]), torch.tensor([0]))
    result = metric.result()
    assert result.reason("perplexity") == "tokens of probability 0: 1" and math.isinf(float(metric.compute()))


def test_a_large_cross_entropy_has_a_reason() -> None:
    metric = Perplexity()
    metric.update(torch.tensor([[0.0, 1e6]]), torch.tensor([0]))
    result = metric.result()
    assert result.values["cross_entropy"] == 1e6 and result.reason("perplexity") == "it is larger than float64 can hold"


def test_arrays_and_lists_are_taken() -> None:
    preds, target = batch(8, 1, 2, 3)
    expected = functional.perplexity(preds, target)
    assert torch.equal(functional.perplexity(preds.numpy(), target.numpy()), expected)
    assert float(functional.perplexity(preds.tolist(), target.tolist())) == pytest.approx(float(expected))
    metric = Perplexity()
    metric.update(preds.numpy(), target.tolist())
    assert torch.equal(metric.compute(), expected)


def test_the_function_makes_no_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    preds, target = batch(10)
    metric = Perplexity(ignore_index=3)
    metric.update(preds, target)
    expected = metric.compute()
    monkeypatch.setattr(Perplexity, "__init__", None)
    value = functional.perplexity(preds.requires_grad_(), target, 3)
    assert torch.equal(value, expected) and value.dtype == torch.float64 and not value.requires_grad
    with torch.device("meta"):
        assert torch.equal(functional.perplexity(preds, target, 3), expected)
    assert functional.perplexity(preds[:0], target[:0]).isnan()
    with pytest.raises(InputError, match=r"^target\[2, 0\] must be an index of the last dimension of preds$"):
        functional.perplexity(preds, target.index_put((torch.tensor(2), torch.tensor(0)), torch.tensor(50)))
    with pytest.raises(InputError, match="preds and target must be given, or y_true and y_pred, but got preds"):
        functional.perplexity(preds)
    with pytest.raises(InputError, match="ignore_index must be int but got str"):
        functional.perplexity(preds, target, "pad")  # type: ignore[arg-type]


def test_collections() -> None:
    collection = MetricCollection({"all": Perplexity(), "some": Perplexity(ignore_index=0)})
    preds, target = batch(9)
    collection.update(preds, target % 2)
    values = collection.compute()
    assert values["all"] != values["some"]


def test_bad_input_changes_nothing() -> None:
    metric = Perplexity()
    metric.update(*batch(1))
    before = metric.compute()
    preds, target = batch(2)
    with pytest.raises(InputError, match=r"^target\[1, 3\] must be an index of the last dimension of preds$"):
        metric.update(preds, target.index_put((torch.tensor(1), torch.tensor(3)), torch.tensor(-100)))
    preds[2, 6, 49] = torch.nan
    with pytest.raises(InputError, match=r"^preds\[2, 6, 49\] must be below inf"):
        metric.update(preds, target)
    with pytest.raises(InputError, match="preds must have the dimensions of target"):
        metric.update(preds, target[0])
    with pytest.raises(InputError, match="ignore_index must be int but got str"):
        Perplexity(ignore_index="pad")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"ignore_index must be .* but got 9223372036854775808"):
        Perplexity(ignore_index=2**63)
    assert torch.equal(metric.compute(), before)
    assert metric._describe_error((9 << 32) << 4 | 1).startswith("target[9] must be an index")


@pytest.mark.parametrize("place", range(5))
def test_impossible_states_are_rejected(place: int) -> None:
    metric = Perplexity()
    metric.update(*batch(1))
    state = {name: tensor.clone() for name, tensor in metric.metric_state.items()}
    field, index = ("seen", ()) if place == 4 else ("sums", (place,))
    state[field][index] = -1
    with pytest.raises(InputError, match=f"state field {field}"):
        Perplexity().merge_state(state)
    state[field][index] = 2**62
    with pytest.raises(InputError, match=f"state field {field}"):
        Perplexity().merge_state(state)
