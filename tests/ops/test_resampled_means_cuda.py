"""resampled_means on CUDA: under the simulator and on a device, equal to the definition by bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from testing.examples_resampled import random_arguments, resampled_examples
from testing.parity import differences
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.ops import _library
from valor_gpu.ops.resampled_means import cuda as _resampled_means_cuda

Run = Callable[..., Any]
NAME = "resampled_means"


@pytest.fixture(params=[backend for backend in BACKENDS if backend != "cpu"])
def run(request: pytest.FixtureRequest) -> Run:
    """Calls the op as one backend computes it."""
    return kernel(request.param, NAME, _resampled_means_cuda.resampled_means)


def check(run: Run, args: Any, text: str = "") -> Any:
    found = tuple(run(*args))
    assert differences(found, tuple(_library.reference(NAME)(*args))) == "", text
    return found


def test_examples(run: Run) -> None:
    for text, args in resampled_examples(True):
        check(run, args, text)


@pytest.mark.smoke
def test_a_few_records(run: Run) -> None:
    means, precision, recall = check(run, random_arguments(np.random.default_rng(0), [9, 0, 36], (2, 2, 2), 2))
    for found in (means, precision, recall):
        assert found.isfinite().any() and found.isnan().any()


@pytest.mark.parametrize("seed", seeds(8))
def test_random_records(run: Run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = tuple(rng.integers(1, 5, 3).tolist())
    units, scores = int(rng.choice([1, 2, 9, 60])), int(rng.choice([1, 2, 9, 1 << 20]))
    classes = rng.integers(0, 90, int(rng.integers(1, 6))).tolist()
    check(run, random_arguments(rng, classes, sizes, 4, units, full=bool(rng.integers(2)), scores=scores, most=5))


def test_runs_of_tied_scores_cross_words(run: Run) -> None:
    """A class whose records all have one score: runs of a unit end before, at and behind the 32nd record."""
    for units in (1, 2, 3, 5):
        check(run, random_arguments(np.random.default_rng(units), [31, 32, 33, 64, 100], units=units, scores=1))


def test_replicates_in_portions(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    args = random_arguments(np.random.default_rng(4), [40, 0, 33], replicates=70)
    whole = check(run, args)
    monkeypatch.setattr(_resampled_means_cuda, "ROOM", 1)
    assert differences(check(run, args), whole) == ""


def test_a_replicate_of_weights_1_is_the_evaluation_itself(run: Run) -> None:
    args = list(random_arguments(np.random.default_rng(5), [70, 20, 33]))
    args[7] = torch.ones_like(args[7])
    means = check(run, args)[0]
    assert torch.equal(means[0].nan_to_num(-1), means[1].nan_to_num(-1))


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_orders_of_lanes(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    args = random_arguments(np.random.default_rng(6), [70, 0, 33], replicates=34, full=seed == "2")
    check(kernel("simulated", NAME, _resampled_means_cuda.resampled_means), args)


def test_scores_that_are_not_finite(run: Run) -> None:
    args = list(random_arguments(np.random.default_rng(7), [60], units=2, scores=3))
    rows, order = args[0], args[1]
    odd = torch.tensor([float("inf"), 0.5, -float("inf"), float("nan")]).double()
    levels = torch.arange(60) * 4 // 60
    units = torch.arange(60) % 15 // 8
    rows[order, :8] = odd[levels].view(torch.uint8).reshape(-1, 8)
    args[3] = units.int()
    check(run, args)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_nothing_waits_for_the_device() -> None:
    args = random_arguments(np.random.default_rng(8), [400, 33], replicates=70)
    host = {8, 10, 11}
    placed = [a.cuda() if isinstance(a, torch.Tensor) and i not in host else a for i, a in enumerate(args)]
    for mode in ("default", "error"):  # the first call may load the library
        torch.cuda.set_sync_debug_mode(mode)
        try:
            torch.ops.valor_gpu.resampled_means.default(*placed)
        finally:
            torch.cuda.set_sync_debug_mode("default")
