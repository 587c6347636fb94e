"""A state from elsewhere is rejected, or gives exactly what the plain definitions compute from the same tables."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

from tests.contents import content
from tests.contract import METRICS, Case, condition
from tests.fuzz import seeds
from tests.state_fuzz import load_changed, metric_with_data, references
from valor_gpu.errors import InputError, SyncError
from valor_gpu.metric import Metric

CASES = [case for case in METRICS if not case.name.startswith("PassRate")]
WAYS = ("merge_state", "load_state_dict", "from_bytes")


def outcome(metric: Metric[Any]) -> Any:
    """Content of what ``compute`` gives, or the message of the error that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return content(metric.compute())
        except InputError as error:
            return str(error)


def check_changed_state(case: Case, way: str, seed: int) -> str:
    """``rejected`` or ``computed``; fails if the metric changed, or kernels and definitions differ."""
    rng = np.random.default_rng([seed, WAYS.index(way)])
    metric = case.make()
    before = condition(metric)
    try:
        load_changed(way, rng, metric_with_data(case, rng), metric)
    except (InputError, SyncError, RuntimeError) as error:
        if way == "load_state_dict":
            assert "Error(s) in loading state_dict" in str(error)
        else:
            assert isinstance(error, (InputError, SyncError)), error
        assert condition(metric) == before
        return "rejected"
    by_kernels = outcome(metric)
    with references():
        metric._computed = None
        assert outcome(metric) == by_kernels
    return "computed"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_changed_states_are_rejected_or_computed_as_defined(case: Case, way: str) -> None:
    torch.manual_seed(0)
    for seed in seeds(3):
        check_changed_state(case, way, seed)


def test_both_outcomes_occur() -> None:
    found = [check_changed_state(case, "merge_state", seed) for case in CASES[:4] for seed in seeds(6)]
    assert {"rejected", "computed"} == set(found)
