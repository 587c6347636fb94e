"""The contract of a metric in one process: every check in ``CHECKS`` runs on every case of ``tests.contract.METRICS``.

Those in ``FAMILY_CHECKS`` are about ``valor_gpu.metric``, or slow: one case of each kind of state is enough. To add a
check, write a function ``(case, device)`` whose docstring states the rule, and list it.
"""

from __future__ import annotations

import copy
import json
import math
import pickle
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection

from tests.contents import content
from tests.contract import (
    Case,
    condition,
    failing,
    place,
    unchanged,
    unchanged_but_state,
    updated,
    value_of,
)
from tests.contract_intervals import check_intervals, check_pairing
from valor_gpu.errors import InputError, SyncError, ValorError
from valor_gpu.result import Result


def check_empty(case: Case, device: torch.device) -> None:
    """Without data, and after a batch without samples, the value is the same; the first samples then count as ever."""
    fresh = case.make().to(device)
    with pytest.warns(UserWarning, match="was called before the ``update`` method"):
        without_update = content(fresh.compute())
    metric = updated(case.make(), [case.empty()], device)
    assert content(metric.compute()) == without_update
    metric.update(*place(case.batch(0), device))
    assert content(metric.compute()) == value_of(case, [case.batch(0)], device)


def check_single_sample(case: Case, device: torch.device) -> None:
    """The value of one sample must differ from the value without data."""
    metric = case.make().to(device)
    value = content(metric(*place(case.single(), device)))
    assert value == content(metric.compute()) == value_of(case, [case.single()], device)
    without_data = value_of(case, [case.empty()], device)
    if case.single_like_empty:
        assert value == without_data, "single_like_empty gives a reason that this metric does not need: leave it out"
    else:
        assert value != without_data, (
            f"{value} is the value without data too: choose a configuration or a ``single`` for which it differs, or"
            " give the reason in ``single_like_empty``"
        )


def check_any_split_merges_to_one_pass(case: Case, device: torch.device) -> None:
    """However batches are split over metrics, merging them gives the value of one pass; merge is associative."""
    batches = [case.batch(i) for i in range(4)]
    expected = value_of(case, batches, device)
    assert content(updated(case.make(), batches, device).compute()) == expected
    for cut in range(5):
        ahead, behind = updated(case.make(), batches[:cut], device), updated(case.make(), batches[cut:], device)
        ahead.merge_state(behind)
        assert content(ahead.compute()) == expected
        assert ahead.update_count == 4
    a, b, c = (updated(case.make(), [batch], device).state() for batch in batches[:3])
    assert content(a.merge(b).merge(c).tensors()) == content(a.merge(b.merge(c)).tensors())
    assert content(a.merge(a.empty()).tensors()) == content(a.empty().to(device).merge(a).tensors())
    assert content(a.merge(a.empty()).tensors()) == content(a.tensors())


def check_order_of_batches(case: Case, device: torch.device) -> None:
    """The value depends on the order of batches exactly where ``order_free`` is False."""
    batches = [case.batch(i) for i in range(4)]
    backwards = value_of(case, batches[::-1], device)
    same = backwards == value_of(case, batches, device)
    assert same == case.order_free, f"backwards the value is {'the same' if same else 'another'}"


def check_inputs_stay_and_are_not_kept(case: Case, device: torch.device) -> None:
    """``update`` and ``forward`` leave their inputs as they are and keep no view of them."""
    batch = place(case.batch(0), device)
    before = content(batch)
    metric = case.make().to(device)
    metric.update(*batch)
    expected = content(metric.compute())
    metric(*batch)
    assert content(batch) == before
    metric.reset()
    metric.update(*batch)
    _zero(batch)
    assert content(metric.compute()) == expected


def _zero(value: Any) -> None:
    for part in value.values() if isinstance(value, Mapping) else value:
        if isinstance(part, Tensor):
            part.zero_()
        elif isinstance(part, (Mapping, list, tuple)):
            _zero(part)


def check_copies_are_independent(case: Case, device: torch.device) -> None:
    """A clone, a deep copy and an unpickled metric go on without changing the original."""
    batches = [case.batch(i) for i in range(3)]
    metric = updated(case.make(), batches[:1], device)
    metric.compute()
    for made in (metric.clone(), copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        assert made.update_count == 1
        assert content(updated(made, batches[1:], device).compute()) == value_of(case, batches, device)
    assert content(metric.compute()) == value_of(case, batches[:1], device)
    metric.update(*place(batches[1], device))
    assert content(metric.compute()) == value_of(case, batches[:2], device)


def check_state_dict(case: Case, device: torch.device) -> None:
    """A persistent state is saved and loaded; a state of another configuration is rejected."""
    batches = [case.batch(i) for i in range(3)]
    model = torch.nn.ModuleDict({"metric": updated(case.make(), batches[:2], device)})
    assert not model.state_dict()
    model["metric"].persistent(True)
    saved = model.state_dict()
    target = torch.nn.ModuleDict({"metric": updated(case.make(), batches[2:], device)})
    target["metric"].compute()
    target.load_state_dict(saved)
    assert target["metric"].update_count == 2
    assert content(target["metric"].compute()) == value_of(case, batches[:2], device)
    stranger = torch.nn.ModuleDict({"metric": updated(case.other(), batches[2:], device)})
    with unchanged(stranger["metric"]), pytest.raises(RuntimeError, match="another class or configuration"):
        stranger.load_state_dict(saved)
    asking = torch.nn.ModuleDict({"metric": case.make().to(device)})
    asking["metric"].persistent(True)
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict"):
        asking.load_state_dict({})


def check_two_configurations_in_a_collection(case: Case, device: torch.device) -> None:
    """In a MetricCollection equal configurations share a state, others never do."""
    metrics = {"a": case.make(), "b": case.other(), "same": case.make()}
    batches = [case.batch(i) for i in range(3)]
    expected = {n: content(updated(m.clone(), batches, device).compute()) for n, m in metrics.items()}
    assert expected["a"] != expected["b"]
    collection = MetricCollection(metrics).to(device)
    collection.update(*place(case.empty(), device))
    assert sorted(map(sorted, collection.compute_groups.values())) == [["a", "same"], ["b"]]
    collection.update(*place(batches[0], device))
    collection(*place(batches[1], device))
    collection.update(*place(batches[2], device))
    for _ in range(2):  # the second reading comes from the cache
        assert {name: content(metric.compute()) for name, metric in collection.items()} == expected
    collection.reset()
    collection(*place(batches[0], device))
    assert content(collection["same"].compute()) == value_of(case, batches[:1], device)


def check_forward(case: Case, device: torch.device) -> None:
    """``forward`` returns the value of the batch and adds the batch to the state."""
    batches = [case.batch(i) for i in range(3)]
    for kwargs in ({}, {"compute_on_cpu": True}, {"dist_sync_on_step": True}):
        metric = updated(case.make(**kwargs), batches[:1], device)
        metric.compute()
        assert content(metric(*place(batches[1], device))) == value_of(case, batches[1:2], device)
        assert content(metric.compute()) == value_of(case, batches[:2], device)
        metric(*place(batches[2], device))
        assert content(metric.compute()) == value_of(case, batches, device)
        assert metric.update_count == 3


def check_failures_leave_the_metric_alone(case: Case, device: torch.device) -> None:
    """What raises in ``update``, ``forward`` or ``compute`` leaves the metric as it was."""
    metric = updated(case.make(), [case.batch(0)], device)
    for step in (metric.update, metric):
        if device.type == "cpu":
            with unchanged(metric), pytest.raises(InputError, match=r"\S"):
                step(*case.bad())
        with unchanged(metric), pytest.raises(TypeError, match="argument"):
            step()
    metric.state = failing  # what compute reads
    with unchanged_but_state(metric), pytest.raises(RuntimeError, match="failed on purpose"):
        metric(*place(case.batch(1), device))
    with unchanged_but_state(metric), pytest.raises(RuntimeError, match="failed on purpose"):
        metric.compute()
    del metric.state
    assert content(metric.compute()) == value_of(case, [case.batch(0)], device)
    metric.error = torch.zeros_like(metric.error)
    for read in (metric.compute, metric.result):
        metric._computed = None
        with unchanged(metric), pytest.raises(InputError, match=r"\S"):
            read()


def check_merge_state(case: Case, device: torch.device) -> None:
    """``merge_state`` takes a metric, its state or its bytes, and rejects another configuration."""
    batches = [case.batch(i) for i in range(3)]
    for given, refusal in (
        (lambda m: m, "the incoming metric has another config"),
        (lambda m: m.metric_state, "made by another class or configuration"),
        (lambda m: m.to_bytes(), "the state has another config"),
    ):
        metric, shard = updated(case.make(), batches[:1], device), updated(case.make(), batches[1:], device)
        metric.compute()
        with unchanged(shard):
            metric.merge_state(given(shard))
        assert content(metric.compute()) == value_of(case, batches, device)
        stranger = updated(case.other(), batches[1:], device)
        with unchanged(metric), pytest.raises(SyncError, match=refusal):
            metric.merge_state(given(stranger))
    metric.merge_state(metric)
    assert content(metric.compute()) == value_of(case, [*batches, *batches], device)
    with unchanged(metric), pytest.raises(InputError, match=r"incoming_state must be .* but got int"):
        metric.merge_state(3)
    with unchanged(metric), pytest.raises(InputError, match=r"the state must hold .* but holds signature"):
        metric.merge_state({"signature": metric.signature})
    with unchanged(metric), pytest.raises(InputError, match=r"state field error must be int64 \[\] but got"):
        metric.merge_state({**metric.metric_state, "error": torch.zeros(2)})


def check_dtype_of_the_model_changes_nothing(case: Case, device: torch.device) -> None:
    """``half``, ``double`` and the like of a model leave the state of a metric alone."""
    metric = updated(case.make(), [case.batch(0)], device)
    model = torch.nn.ModuleDict({"metric": metric, "layer": torch.nn.Linear(1, 1, device=device)})
    for change in (
        model.half,
        model.double,
        model.bfloat16,
        partial(model.to, torch.float16),
        partial(model.type, torch.half),
    ):
        with unchanged(metric):
            change()
    with unchanged(metric):
        assert metric.set_dtype(torch.half) is metric
        metric.half()
    metric.update(*place(case.batch(1), device))
    assert content(metric.compute()) == value_of(case, [case.batch(0), case.batch(1)], device)


def check_bytes(case: Case, device: torch.device) -> None:
    """``to_bytes`` and ``from_bytes`` keep every bit; damaged bytes are rejected and change nothing."""
    metric = updated(case.make(), [case.batch(0), case.batch(1)], device)
    data = metric.to_bytes()
    loaded = updated(case.make(), [case.batch(2)], device)
    loaded.compute()
    assert loaded.from_bytes(data) is loaded
    assert condition(loaded) == condition(metric)
    assert loaded.to_bytes() == data
    assert content(loaded.compute()) == value_of(case, [case.batch(0), case.batch(1)], device)
    assert case.make().from_bytes(case.make().to_bytes()).update_count == 0
    with unchanged(loaded):
        for length in {0, 1, 7, 8, 15, 16, 17, len(data) // 2, len(data) - 1}:
            with pytest.raises(InputError, match="data"):
                loaded.from_bytes(data[:length])
        for position in range(0, len(data), max(1, len(data) // 97)):
            damaged = bytearray(data)
            damaged[position] ^= 0x10
            with pytest.raises(ValorError, match=r"data|state"):
                loaded.from_bytes(damaged)
        with pytest.raises(InputError, match="must be a valor_gpu state but starts with"):
            loaded.from_bytes(pickle.dumps(metric))
        with pytest.raises(InputError, match=r"must be .* bytes, as its header says"):
            loaded.from_bytes(data + b"\0")
    stranger = updated(case.other(), [case.batch(2)], device)
    with unchanged(stranger), pytest.raises(SyncError, match="the state has another config"):
        stranger.from_bytes(data)


def check_reset(case: Case, device: torch.device) -> None:
    """``reset`` forgets all data and leaves tensors that others hold as they are."""
    metric = updated(case.make(), [case.batch(0)], device)
    metric.compute()
    held = metric.metric_state
    before = content(held)
    metric.reset()
    assert content(held) == before
    assert metric.update_count == 0
    metric.update(*place(case.batch(1), device))
    assert content(metric.compute()) == value_of(case, [case.batch(1)], device)


def check_hash(case: Case, device: torch.device) -> None:
    """The hash does not change with the data."""
    one, two = updated(case.make(), [case.batch(0)], device), updated(case.make(), [case.batch(0)], device)
    before = hash(one)
    one.update(*place(case.batch(1), device))
    assert hash(one) == before != hash(two)
    assert len(list(torch.nn.ModuleList([one, two, one]).children())) == 2


def check_keywords(case: Case, device: torch.device) -> None:
    """The keyword arguments of torchmetrics do not change the value; unknown ones are rejected."""
    plain = value_of(case, [case.batch(0)], device)
    for kwargs in (
        {"compute_on_cpu": True},
        {"sync_on_compute": False},
        {"compute_with_cache": False},
        {"dist_sync_fn": failing},
        {"process_group": None},
    ):
        assert value_of(case, [case.batch(0)], device, **kwargs) == plain
    with pytest.raises(ValueError, match="Unexpected keyword arguments: `unknown`"):
        case.make(unknown=1)


def check_result(case: Case, device: torch.device) -> None:
    """``result`` leaves the metric alone, explains every NaN, fits JSON, and its signature names the configuration."""
    for batches in ([case.empty()], [case.single()], [case.batch(0), case.batch(1)]):
        metric = updated(case.make(), batches, device)
        with unchanged(metric):
            result = metric.result()
        assert isinstance(result, Result)
        json.dumps(result.to_dict(), allow_nan=False)
        for name, number in result.scalars().items():
            assert not math.isnan(number) or result.reason(name), f"{name} is NaN without a reason"
        assert str(result.signature) in str(result)
        assert str(
            case.other().to(device).from_bytes(updated(case.other(), batches, device).to_bytes()).result().signature
        ) != str(result.signature)


def check_inference_mode(case: Case, device: torch.device) -> None:
    """Updates inside and outside ``torch.inference_mode`` can be mixed."""
    metric = case.make().to(device)
    with torch.inference_mode():
        metric(*place(case.batch(0), device))
        metric.update(*place(case.batch(1), device))
    metric.update(*place(case.batch(2), device))
    metric.merge_state(metric.clone().to_bytes())
    batches = [case.batch(i) for i in range(3)]
    assert content(metric.compute()) == value_of(case, batches * 2, device)


class _Model(torch.nn.Module):
    """A model that holds a metric, as in Lightning."""

    def __init__(self, metric: torch.nn.Module) -> None:
        super().__init__()
        self.layer, self.metric = torch.nn.Linear(2, 2), metric

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def check_a_model_that_holds_it_scripts(case: Case, device: torch.device) -> None:
    """``torch.jit.script`` takes a model that holds the metric, and the metric alone, and leaves the metric alone."""
    metric = updated(case.make(), [case.batch(0)], device)
    model, x = _Model(metric).to(device), torch.ones(1, 2, device=device)
    with unchanged(metric), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit, and of properties of torchmetrics
        assert torch.equal(torch.jit.script(model)(x), model(x))
        torch.jit.script(metric)
    metric.update(*place(case.batch(1), device))
    assert content(metric.compute()) == value_of(case, [case.batch(0), case.batch(1)], device)


UPDATE_CHECKS: list[Callable[[Case, torch.device], None]] = [
    check_empty,
    check_single_sample,
    check_any_split_merges_to_one_pass,
    check_order_of_batches,
    check_inputs_stay_and_are_not_kept,
    check_forward,
    check_failures_leave_the_metric_alone,
    check_dtype_of_the_model_changes_nothing,
    check_keywords,
    check_inference_mode,
]
"""What depends on how batches are taken, with a plan or without."""
CHECKS: list[Callable[[Case, torch.device], None]] = [
    *UPDATE_CHECKS,
    check_copies_are_independent,
    check_state_dict,
    check_two_configurations_in_a_collection,
    check_merge_state,
    check_bytes,
    check_reset,
    check_hash,
    check_result,
    check_intervals,
    check_pairing,
]
FAMILY_CHECKS: list[Callable[[Case, torch.device], None]] = [check_a_model_that_holds_it_scripts]
