"""Probabilities that score_histogram makes of logits: those of float64 arithmetic, decided without a second read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing import examples_histogram as made
from testing.examples_labels import labels_of
from testing.parity import differences
from tests.native.sim import simulated_kernel
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops.activation import op as activation_module
from valor_gpu.ops.activation.cuda import activated as activated_on_device
from valor_gpu.ops.activation.op import activated
from valor_gpu.ops.error_codes import Names, describe_value
from valor_gpu.ops.score_histogram import op as module
from valor_gpu.ops.score_histogram.op import ALL, _score_histogram_cuda, score_histogram

Op = Callable[..., Any]
GRID = torch.linspace(0.0123, 0.9871, 57, dtype=torch.float64)
GRIDS = {
    "even": GRID,
    "geometric": 2.0 ** torch.linspace(-20, -0.01, 40, dtype=torch.float64),
    "one": GRID[20:21],
    "none": GRID[:0],
}
ROWS = 1307
HALVES_AND_FLOAT = [torch.float16, torch.bfloat16, torch.float32]


CPU = kernel("cpu", "score_histogram", _score_histogram_cuda)


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "score_histogram", _score_histogram_cuda)


@pytest.fixture
def in_one_read(monkeypatch: pytest.MonkeyPatch) -> Op:
    """The simulated kernel, which may not leave activations to torch."""

    def refuse(*_: Any, **__: Any) -> Tensor:
        raise AssertionError("torch made probabilities")

    monkeypatch.setattr(module, "decided", refuse)
    return kernel("simulated", "score_histogram", _score_histogram_cuda)


def batch_of(classes: int, labels: bool, dtype: torch.dtype = torch.float32, rows: int = ROWS) -> tuple[Tensor, Tensor]:
    """Logits and a target with ignored values: ``classes`` of indices, or IGNORED among labels."""
    rng = np.random.default_rng([classes, labels])
    logits = torch.from_numpy(rng.normal(size=(rows, classes)) * 3).to(dtype)
    return logits, made.multi_hot(rng, rows, classes) if labels else labels_of(rng, rows, classes)


def exact(scores: Tensor, how: str) -> Tensor:
    """Probabilities by float64, rounded to the dtype of the scores."""
    if how == "none":
        return scores
    wide = scores.double()
    return (wide.softmax(1) if how == "softmax" else 1 / (1 + (-wide).exp())).to(scores.dtype)


def clear_of(scores: Tensor, how: str, grid: Tensor) -> Tensor:
    """Thresholds moved until no probability that differs by a few units in the last place is on another side."""
    wide, grid = exact(scores.double(), how).flatten(), grid.clone()
    low, high = ((wide * scale).to(scores.dtype).double().sort().values for scale in (1 - 5e-7, 1 + 5e-7))
    while bool((between := torch.searchsorted(low, grid) != torch.searchsorted(high, grid)).any()):
        grid[between] *= 1 - 1e-3
    return grid


def check(op: Op, scores: Tensor, target: Tensor, grid: Tensor, ignored: int | None, activation: str, how: str) -> None:
    """The kernel counts what ``how`` makes of the scores, which torch does for the CPU, and says what it decided."""
    make = activated if op is CPU and how != "none" else exact
    expected = CPU(make(scores, how), target, grid, ignored, None)
    *counted, outside = op(scores, target, grid, ignored, None, activation)
    assert differences(counted, expected[:2]) == ""
    assert outside.dtype == torch.int64 and outside.tolist() == ([int(how != "none")] if activation == "auto" else [])


@pytest.mark.parametrize("classes", [1, 3, 7, 8, 13, 64, 130])
@pytest.mark.parametrize("dtype", HALVES_AND_FLOAT, ids=str)
@pytest.mark.parametrize(("grid", "labels"), [("even", False), ("geometric", True), ("one", True), ("none", False)])
def test_logits_and_probabilities(op: Op, grid: str, dtype: torch.dtype, classes: int, labels: bool) -> None:
    scores, target = batch_of(classes, labels, dtype)
    ignored, how = (made.IGNORED, "sigmoid") if labels else (classes, "softmax")
    limits = clear_of(scores, how, GRIDS[grid])
    check(op, scores, target, limits, ignored, how, how)
    check(op, scores, target, limits, ignored, "auto", how)
    check(op, scores, target, limits, ignored, "none", "none")
    check(op, exact(scores, how), target, limits, ignored, "auto", "none")


@pytest.mark.smoke
@pytest.mark.parametrize("labels", [False, True], ids=["indices", "labels"])
@pytest.mark.parametrize("dtype", HALVES_AND_FLOAT, ids=str)
@pytest.mark.parametrize("grid", ["even", "geometric"])
@pytest.mark.parametrize("classes", [8, 37])
def test_kernels_make_them_in_one_read(
    in_one_read: Op, classes: int, grid: str, dtype: torch.dtype, labels: bool
) -> None:
    scores, target = batch_of(classes, labels, dtype, rows=100)
    ignored, how = (made.IGNORED, "sigmoid") if labels else (classes, "softmax")
    limits = clear_of(scores, how, GRIDS[grid])
    check(in_one_read, scores, target, limits, ignored, "auto", how)
    check(in_one_read, scores, target, limits, ignored, how, how)
    check(in_one_read, exact(scores, how), target, limits, ignored, "auto", "none")


@pytest.mark.parametrize("labels", [False, True], ids=["indices", "labels"])
@pytest.mark.parametrize("odd", [-1e-7, -math.inf, 1.0 + 2**-23, 50.0])
@pytest.mark.parametrize("row", [0, 700, ROWS - 1])
@pytest.mark.parametrize("counted", [True, False])
def test_one_score_decides_if_it_counts(op: Op, counted: bool, row: int, odd: float, labels: bool) -> None:
    classes = 9
    scores, target = batch_of(classes, labels)
    how, ignored = ("sigmoid", made.IGNORED) if labels else ("softmax", classes)
    scores = exact(scores, how)
    scores[row, 4] = odd
    target[row] = 1 if counted else ignored
    how = how if counted else "none"
    check(op, scores, target, clear_of(scores, how, GRID), ignored, "auto", how)


@pytest.mark.parametrize("value", [-0.0, 0.0, 1.0])
def test_bounds_are_probabilities(op: Op, value: float) -> None:
    scores, target = batch_of(9, True)
    scores = torch.where(scores > 0, scores.sigmoid(), value)
    check(op, scores, target, GRID, made.IGNORED, "auto", "none")


@pytest.mark.parametrize("seed", SIM_SEEDS)
@pytest.mark.parametrize("labels", [False, True], ids=["indices", "labels"])
def test_the_order_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch, seed: str, labels: bool) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated = kernel("simulated", "score_histogram", _score_histogram_cuda)
    scores, target = batch_of(12, labels)
    check(
        simulated, scores, target, GRID, 12 if not labels else made.IGNORED, "auto", "sigmoid" if labels else "softmax"
    )


@pytest.mark.parametrize("how", ["sigmoid", "softmax"])
def test_probabilities_are_within_two_units_in_the_last_place(in_one_read: Op, how: str) -> None:
    logits = np.random.default_rng(0).uniform(-80, 15, 100).astype(np.float32)
    logits[:6] = [0.0, -0.0, -86.0, 30.0, 1e-30, -1e-3]
    for x in logits:
        row = [x] * 9 if how == "sigmoid" else [x, *[0.0] * 3]
        wide = np.longdouble(x)
        p = np.float64(1 / (1 + np.exp(-wide)) if how == "sigmoid" else np.exp(wide) / (np.exp(wide) + 3))
        unit = float(np.spacing(np.float32(p)))
        scores = torch.tensor([row] * 4)
        target = torch.zeros(scores.shape, dtype=torch.int64) if how == "sigmoid" else torch.zeros(4, dtype=torch.int64)
        for limit, reached in ((p - 2 * unit, 1), (p + 2 * unit, 0)):
            grid = torch.tensor([limit], dtype=torch.float64)
            counts = in_one_read(scores, target, grid, None, None, how)[0][ALL, 0]
            assert counts.tolist() == [4 * (1 - reached), 4 * reached], (x, p, limit)


def test_symmetric_probabilities_are_exact(in_one_read: Op) -> None:
    grid = torch.tensor([0.0, 0.25, 0.5, 1.0], dtype=torch.float64)
    zeros, labels = torch.zeros(4, 8), torch.zeros(4, 8, dtype=torch.int64)
    assert in_one_read(zeros, labels, grid, None, None, "sigmoid")[0][ALL, 0].tolist() == [0, 0, 0, 4, 0]
    equal = torch.full((4, 4), 7.25)
    assert in_one_read(equal, labels[:, 0], grid, None, None, "softmax")[0][ALL, 0].tolist() == [0, 0, 4, 0, 0]
    far = torch.tensor([[-math.inf, -200.0, 200.0, math.inf] * 2] * 4)
    found = in_one_read(far, labels, grid, None, None, "sigmoid")[0][ALL]
    assert [row.nonzero().item() for row in found[:4]] == [1, 1, 4, 4]


@pytest.mark.parametrize("labels", [False, True], ids=["indices", "labels"])
@pytest.mark.parametrize("activation", ["auto", "activated"])
def test_errors_are_of_the_first_bad_value(op: Op, activation: str, labels: bool) -> None:
    classes = 9
    scores, target = batch_of(classes, labels)
    how = activation if activation == "auto" else "sigmoid" if labels else "softmax"
    names = Names(classes, labels)
    ignored = made.IGNORED if labels else classes
    target[:2], scores[1000, 5] = 1, math.nan
    target[1000] = 1
    bad = target.clone()
    bad[700, ...] = 77
    for given, said in ((target, "preds[1000, 5]"), (bad, "target[700")):
        error = int(op(scores, given, GRID, ignored, None, how)[1])
        assert describe_value(error, names).startswith(said)
    if not labels:
        scores[0, 3] = math.inf
        scores[1000, 5] = 0.0
        assert describe_value(int(op(scores, target, GRID, ignored, None, how)[1]), names).startswith("preds[0, 0]")


@pytest.mark.parametrize("case", ["weights", "float64", "begins anywhere", "labels"])
def test_a_nan_is_named_where_no_kernel_serves(op: Op, case: str) -> None:
    scores, target = batch_of(9, case == "labels", torch.float64 if case == "float64" else torch.float32, rows=100)
    target[70], scores[70, 5] = 1, math.nan
    if case == "begins anywhere":
        scores = torch.cat((torch.zeros(1), scores.flatten()))[1:].view(100, 9)
    weight = torch.ones(100, dtype=torch.float64) if case == "weights" else None
    ignored = made.IGNORED if case == "labels" else 9
    for find in (op, module._score_histogram_reference):
        error = int(find(scores, target, GRID, ignored, weight, "softmax")[1])
        assert describe_value(error, Names(9, case == "labels")).startswith("preds[70, 5]")


@pytest.mark.parametrize(
    "case", ["weights", "float64", "begins anywhere", "other activation", "two classes", "ignored zeros", "crowded"]
)
def test_what_no_kernel_serves_has_the_same_meaning(op: Op, case: str) -> None:
    labels = case in ("other activation", "ignored zeros")
    classes = 2 if case == "two classes" else 9
    scores, target = batch_of(classes, labels)
    ignored, how, weight, grid = made.IGNORED if labels else classes, "sigmoid" if labels else "softmax", None, GRID
    if case == "weights":
        weight = torch.rand(len(scores), dtype=torch.float64)
    elif case == "float64":
        scores = scores.double()
    elif case == "begins anywhere":
        scores, target = scores.flatten()[1 : 1 + 900].view(100, 9), target[:100]
    elif case == "other activation":
        how = "softmax"
    elif case == "ignored zeros":
        ignored = 0
    elif case == "crowded":
        grid = torch.tensor([0.3, 0.3 + 1e-7, 0.3 + 2e-7], dtype=torch.float64)
    for activation in (how,) if case == "other activation" else (how, "auto"):
        expected = op(activated(scores, how), target, grid, ignored, weight)
        *counted, outside = op(scores, target, grid, ignored, weight, activation)
        assert differences(counted, expected[:2]) == "" and outside.tolist() == [1] * (activation == "auto")


@pytest.mark.smoke
@pytest.mark.parametrize("dtype", HALVES_AND_FLOAT, ids=str)
@pytest.mark.parametrize(("classes", "labels"), [(1, True), (9, True), (3, False), (9, False), (40, False)])
def test_probabilities_are_those_that_are_counted(
    monkeypatch: pytest.MonkeyPatch, classes: int, labels: bool, dtype: torch.dtype
) -> None:
    """Thresholds that a curve on CUDA gives for logits reach their own scores in a histogram there.

    Many of them lie too near one another for the kernel that makes probabilities while it counts; few do not.
    """
    made_there = simulated_kernel(activated_on_device)
    monkeypatch.setattr(activation_module, "activated", made_there)
    op = kernel("simulated", "score_histogram", _score_histogram_cuda)
    scores, target = batch_of(classes, labels, dtype, rows=40)
    scores[0], scores[1, 0], scores[2, 0] = 100, -100, 40
    how, ignored = ("sigmoid", made.IGNORED) if labels else ("softmax", classes)
    found = made_there(scores, how)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), exact(scores.double(), how), rtol=1e-2, atol=1e-7)
    every = found.double().unique()
    for grid in (every, every[:: -(-len(every) // 6)], every[len(every) // 2 :][:1]):
        *counted, _ = op(scores, target, grid, ignored, None, how)
        assert differences(counted, CPU(found, target, grid, ignored, None)[:2]) == ""


def test_an_activation_must_be_known() -> None:
    scores, target = batch_of(3, labels=True)
    with pytest.raises(InputError, match=r"activation must be one of .*softmax.* but got 'tanh'"):
        score_histogram(scores, target, GRID, activation="tanh")
