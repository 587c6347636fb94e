"""Outcomes of detections by bin of the score: every kernel equals the definition by bytes, which equals plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from testing import examples_records as made
from testing.parity import differences
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.accumulate.record_rows import detection_scores
from valor_gpu.ops.outcome_counts import op as outcome_counts
from valor_gpu.ops.outcome_counts.op import COUNTED, HITS, Addition, bin_count, count_outcomes

Run = Callable[..., Any]
NAME = "count_outcomes"


@pytest.fixture(params=BACKENDS)
def run(request: pytest.FixtureRequest) -> Run:
    """Calls the op as one backend computes it."""
    return kernel(request.param, NAME, outcome_counts._count_outcomes_cuda)


def check(got: Any, args: Any, text: str = "") -> None:
    assert differences(tuple(got), tuple(_library.reference(NAME)(*args))) == "", text


def test_examples(run: Run) -> None:
    for text, args in made.outcome_examples(True):
        check(run(*args), args, text)


@pytest.mark.smoke
def test_a_few_records(run: Run) -> None:
    args = made._outcomes(np.random.default_rng(1), 40, made.COCO, 10, 3)
    check(run(*args), args)


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_orders_of_lanes(seed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    args = made._outcomes(np.random.default_rng(int(seed)), 200, made.COCO, 10, 3)
    check(kernel("simulated", NAME, outcome_counts._count_outcomes_cuda)(*args), args)


@pytest.mark.parametrize("seed", seeds(3))
def test_plain_loops(seed: int) -> None:
    thresholds, areas, limits = made.SMALL
    args = made._outcomes(np.random.default_rng(seed), 150, made.SMALL, 3, 2)
    rows, classes, counts, recalled = (a.numpy().copy() for a in args[:4])
    edges = [2.0**-3 * 2 ** (i // 4) * (1 + i % 4 / 4) for i in range(12)] + [1.0]
    for row, k, score in zip(rows, classes, detection_scores(args[0]).tolist()):
        if not 0 <= k < made.CLASSES or row[12] >= limits:
            continue
        b = sum(score >= edge for edge in edges)
        for s in range(thresholds * areas):
            matched, ignored = row[13] >> s & 1, row[14] >> s & 1
            counts[k, b, COUNTED, s] += not ignored
            counts[k, b, HITS, s] += matched and not ignored
            recalled[k, row[12], s] += matched and not ignored
    assert differences(count_outcomes(*args), (torch.from_numpy(counts), torch.from_numpy(recalled))) == ""


def test_adding_in_place_gives_the_same() -> None:
    args = made._outcomes(np.random.default_rng(5), 90, made.SMALL, 4, 1)
    rows, classes, counts, recalled, octaves, bits = args
    expected, tables = count_outcomes(*args), (counts.clone(), recalled.clone())
    addition = Addition(rows, classes, *tables, octaves, bits)
    addition.undo()
    addition.run()
    assert differences(tables, tuple(expected)) == ""
    addition.undo()
    assert differences(tables, (counts, recalled)) == ""
    with pytest.raises(InputError, match="counts and recalled must be contiguous"):
        Addition(rows, classes, counts.transpose(0, 1).contiguous().transpose(0, 1), recalled, octaves, bits)


def test_bins_follow_the_order_of_floats() -> None:
    scores = torch.linspace(-0.1, 1.1, 5001, dtype=torch.float64)
    bins = outcome_counts._bins(scores, 10, 7)
    assert bool((bins.diff() >= 0).all()) and int(bins[0]) == 0 and int(bins[-1]) == bin_count(10, 7) - 1
    assert outcome_counts._bins(torch.tensor([2.0**-10, 0.5, 1.0]).double(), 10, 7).tolist() == [1, 9 * 128 + 1, 1281]


def test_bad_arguments_are_named() -> None:
    rows, classes, counts, recalled, octaves, bits = made._outcomes(np.random.default_rng(2), 9, made.SMALL, 2, 1)
    cases = (
        ((rows[:, 1:], classes, counts, recalled, octaves, bits), "detections must have shape"),
        ((rows, classes[1:], counts, recalled, octaves, bits), "classes must have shape"),
        ((rows, classes.long(), counts, recalled, octaves, bits), "classes must have dtype torch.int32"),
        ((rows, classes, counts, recalled, 3, bits), "counts must have shape"),
        ((rows, classes, counts, recalled[:, :, 1:], octaves, bits), "recalled must have shape"),
        ((rows, classes, counts.double(), recalled, octaves, bits), "counts must have dtype torch.int64"),
        ((rows, classes, counts, recalled, 65, bits), "octaves must be in"),
        ((rows, classes, counts, recalled, octaves, 13), "bits must be in"),
    )
    for arguments, message in cases:
        with pytest.raises(InputError, match=message):
            count_outcomes(*arguments)
