"""The contract of intervals: what every metric of ``tests.contract.METRICS`` does with ``result(intervals=)``."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.contents import content, expect
from tests.contract import Case, updated
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import numbers_of
from valor_gpu.metric import Metric
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.units import pair_units

NO_INTERVALS_YET = frozenset((
    "PassRate",
))  # fmt: skip
"""Metrics whose ``result`` takes no ``intervals``."""


def takes_intervals(metric: Metric[Any]) -> bool:
    """Whether ``result`` takes ``intervals``; fails where the list says otherwise."""
    takes = "intervals" in inspect.signature(metric.result).parameters
    assert takes != (type(metric).__name__ in NO_INTERVALS_YET), "NO_INTERVALS_YET lists what takes no intervals"
    return takes


def check_intervals(case: Case, device: torch.device) -> None:
    """``result(intervals=8)`` gives intervals of its numbers or raises InputError; no order or batch changes a bit."""
    batches = [case.batch(i) for i in range(3)]
    metric = updated(case.make(), batches, device)
    if not takes_intervals(metric):
        return
    try:
        found = metric.result(intervals=8)
    except InputError as error:
        assert len(str(error)) > 20
        with pytest.raises(InputError, match=r"\S"):
            metric.result().with_intervals(8)
        return
    assert found.intervals.choices["replicates"] == 8 and found.intervals.choices["unit"]
    assert set(found.intervals) <= {name for name, _ in numbers_of(found.values)}
    for name, interval in found.intervals.items():
        assert interval.reason or interval.low <= interval.high, name
    plain = metric.result()
    assert content(plain.values) == content(found.values) and not plain.intervals
    assert dict(plain.with_intervals(8).intervals) == dict(found.intervals)
    again = batches[::-1] if case.order_free else batches
    joined = updated(case.make(), [case.join(again)], device)
    assert dict(joined.result(intervals=8).intervals) == dict(found.intervals)


def check_pairing(case: Case, device: torch.device) -> None:
    """Units of two models are paired whatever the order of their batches, or the state says why they cannot be."""
    batches = [case.batch(i) for i in range(3)]
    metric = updated(case.make(), batches, device)
    if takes_intervals(metric):
        again = batches[::-1] if case.order_free else batches
        assert _paired_of(updated(case.make(), [case.join(again)], device)) == _paired_of(metric)


def _paired_of(metric: Metric[Any]) -> str:
    """Numbers of a metric in replicates of its units, paired with themselves."""
    kept = vars(metric.result())["_state"]
    try:
        state = kept() if callable(kept) else kept
        units = state.identities()
    except InputError as error:
        assert len(str(error)) > 20
        return "the units cannot be paired"
    codes = pair_units(units, units).codes[0]
    assert sorted(codes.tolist()) == list(range(state.units))
    with np.errstate(invalid="ignore", divide="ignore"):
        return repr(sorted((name, each.tolist()) for name, each in state.replicates(_draws(codes)).items()))


def _draws(codes: NDArray[np.int64]) -> Draws:
    return Draws(len(codes), 4, clusters=codes)


def check_intervals_of_ranks(case: Case, rank: int, world: int) -> None:
    """Every rank has the intervals of one process with all batches, or all raise the same InputError."""
    batches = [case.batch(i) for i in range(world)]
    metric = updated(case.make(), [batches[rank]])
    if not takes_intervals(metric):
        return
    alone = updated(case.make(distributed_available_fn=lambda: False), [case.join(batches)])
    expect(_intervals_of(metric), _intervals_of(alone))


def _intervals_of(metric: Metric[Any]) -> Any:
    try:
        return {name: repr(interval) for name, interval in metric.result(intervals=6).intervals.items()}  # type: ignore[call-arg]
    except InputError as error:
        return str(error)
