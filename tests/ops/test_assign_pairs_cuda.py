"""assign over stored pairs on CUDA: under the simulator and on a device, equal to the reference by bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from testing.pairs import converted, random_pairs, stored, to_arrays, to_tensors
from testing.scenes import random_scene
from tests.fuzz import seeds
from tests.native.sim import simulated_kernel
from tests.ops.backends import BACKENDS, SIM_SEEDS
from tests.ops.test_assign_pairs import BAD_PAIRS, ONE, RULES, assert_same, by_reference, three_detections
from valor_gpu.errors import InputError
from valor_gpu.ops.assign import cuda as _assign_cuda
from valor_gpu.ops.assign.match_batch import GROUP_OF, HASHED, MatchBatch, Matched, MatchRule

Run = Callable[[MatchBatch, MatchRule], Matched]


def on_device(batch: MatchBatch, rule: MatchRule) -> Matched:
    there = replace(converted(batch, torch.Tensor.cuda), lengths=batch.lengths, image_ids=batch.image_ids)
    return Matched(*(tensor.cpu() for tensor in _assign_cuda.run(there, rule)))


@pytest.fixture(params=[backend for backend in BACKENDS if backend != "cpu"])
def run(request: pytest.FixtureRequest) -> Run:
    return simulated_kernel(_assign_cuda.run) if request.param == "simulated" else on_device


SMOKE = {("coco", 0), ("users", 0), ("156_settings", 0)}


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=pytest.mark.smoke if (name, seed) in SMOKE else ())
        for name in RULES
        for seed in seeds(3)
    ],
)
def test_random_tables_equal_the_reference(run: Run, name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", SIM_SEEDS[seed % 3])
    rng, rule = np.random.default_rng([seed, 7]), MatchRule.make(*RULES[name])
    batch = to_tensors(random_pairs(rng, rule, images=int(rng.integers(1, 24)), room=int(rng.integers(0, 3))))
    assert_same(run(batch, rule), by_reference(batch, rule))


@pytest.mark.parametrize("seed", seeds(2))
def test_the_rule_of_open_images(run: Run, seed: int) -> None:
    thresholds, areas, limits, options = RULES["coco"]
    rule = MatchRule.make(thresholds, areas, limits, options, GROUP_OF)
    batch = to_tensors(random_pairs(np.random.default_rng(seed), rule))
    assert_same(run(batch, rule), by_reference(batch, rule))


@pytest.mark.parametrize("name", ["coco", "threshold_zero", "156_settings"])
def test_images_too_large_for_shared_memory(run: Run, name: str) -> None:
    thresholds, areas, limits, options = RULES[name]
    rule = MatchRule.make(thresholds, areas, limits, options & ~HASHED)
    boxes = random_scene(np.random.default_rng(2), images=3, most=900).batch()
    pairs = to_tensors(stored(to_arrays(boxes), rule))
    assert_same(run(pairs, rule), Matched(*run(boxes, rule)[:2], *run(pairs, rule)[2:]))


@pytest.mark.parametrize("name", BAD_PAIRS)
@pytest.mark.parametrize("second_image", [False, True])
def test_the_first_error_is_that_of_the_reference(run: Run, name: str, second_image: bool) -> None:
    batch = three_detections(second_image)
    assert batch.pairs is not None
    for column, entries in BAD_PAIRS[name][0].items():
        for row, value in entries.items():
            getattr(batch.pairs, column)[row] = value
    tensors = to_tensors(batch)
    assert_same(run(tensors, ONE), by_reference(tensors, ONE))


def test_columns_that_are_missing(run: Run) -> None:
    with pytest.raises(InputError, match="areas must come with stored pairs but is absent"):
        run(replace(to_tensors(three_detections(False)), areas=[]), ONE)
