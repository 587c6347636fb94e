"""score_histogram: kernels equal the reference bit by bit, the reference equals numpy's comparisons of all scores."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from testing import examples_histogram as made
from testing.parity import differences
from tests.fuzz import seeds
from tests.native.sim import simulated
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.error_codes import NO_ERROR, Names, describe_value
from valor_gpu.ops.score_histogram.op import ALL, POSITIVES, _score_histogram_cuda, score_histogram
from valor_gpu.ops.targets.cpu import block_rows

Op = Callable[..., Any]
EXAMPLES = dict(made.examples(quick=True))
WRONG = dict(made.wrong_examples())
GRIDS = made.grids()
SMOKE = {
    *("0 x 3", "33 x 1, weights", "33 x 3, labels, weights", "33 x 10", "33 x 100, labels", "blocks of rows", "bool"),
    *("torch.float16, hit", "torch.bfloat16, float order, many", "torch.float32, none", "torch.float64, infinite"),
    *("torch.int8", "torch.uint8, labels", "torch.int16", "torch.int32, labels"),
    *("10,000 thresholds", "40 classes, many thresholds", "65 labels, many thresholds"),
    *("NaN, weights", "target out of range, labels", "weights that are none and NaN", "negative targets"),
}
"""Every kernel, dtype, look-up and error once."""


# ---------------------------------------------------------------------------------------------------------- definition


def brute(
    scores: Tensor, target: Tensor, thresholds: Tensor, ignore_index: int | None, weight: Tensor | None,
    activation: str = "none",
) -> NDArray[Any]:  # fmt: skip
    """Each score against each threshold; they are probabilities, so that ``auto`` leaves them alone."""
    assert activation == "none" or bool(((scores >= 0) & (scores <= 1)).all())
    values, (_, classes) = scores.double().numpy(), scores.shape
    hot = target.numpy() if target.ndim == 2 else (target.numpy()[:, None] == np.arange(classes)).astype(int)
    ignored = target.numpy() == ignore_index if ignore_index is not None else np.zeros(target.shape, bool)
    ignored = np.broadcast_to(ignored if target.ndim == 2 else ignored[:, None], values.shape)
    reached = (values[..., None] >= thresholds.numpy()).sum(-1)
    weights = np.ones(len(values), np.int64) if weight is None else weight.numpy()
    found = np.zeros((2, classes, len(thresholds) + 1), weights.dtype)
    for row, column in np.argwhere(~ignored):
        found[ALL, column, reached[row, column]] += weights[row]
        found[POSITIVES, column, reached[row, column]] += weights[row] * (hot[row, column] == 1)
    return found


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in WRONG and "1000 x" not in name])
def test_buckets_are_those_of_all_comparisons(name: str) -> None:
    arguments = EXAMPLES[name]
    histogram, error, _ = _library.reference("score_histogram")(*arguments)
    expected = brute(*arguments)
    assert int(error) == NO_ERROR and histogram.shape == expected.shape
    assert histogram.dtype == (torch.int64 if arguments[4] is None else torch.float64)
    assert np.allclose(histogram.numpy(), expected, rtol=1e-12, atol=0)


def test_a_threshold_is_reached_by_the_score_that_equals_it() -> None:
    grid = torch.tensor([0.1, 0.5, 0.7]).double()  # 0.1 and 0.7 are those of float32, 0.5 is in every dtype
    target = torch.ones(1, 1, dtype=torch.int64)
    for score, bucket in ((0.1, 1), (0.5, 2), (0.7, 3)):
        assert score_histogram(torch.tensor([[score]]), target, grid).histogram[ALL, 0].nonzero().tolist() == [[bucket]]
    rounded = score_histogram(
        torch.tensor([[0.7]]), target, torch.tensor([0.7]).double().nextafter(torch.tensor(1.0).double())
    )
    assert rounded.histogram[ALL].tolist() == [[1, 0]]


def test_minus_zero_is_zero() -> None:
    scores, target = torch.tensor([[0.0], [-0.0]]), torch.ones(2, 1, dtype=torch.int64)
    for zero in (0.0, -0.0):
        assert score_histogram(scores, target, torch.tensor([zero]).double()).histogram[ALL].tolist() == [[0, 2]]


def test_sums_of_weights_run_over_blocks_of_rows() -> None:
    scores, target, grid, ignore_index, weight = EXAMPLES["blocks of rows"]
    block = block_rows(len(scores), 40 * (len(grid) + 1))
    assert block < len(scores) / 4
    found = score_histogram(scores, target, grid, ignore_index=ignore_index, weight=weight).histogram
    parts = [
        score_histogram(
            scores[i : i + block], target[i : i + block], grid, ignore_index=ignore_index, weight=weight[i : i + block]
        )
        for i in range(0, len(scores), block)
    ]
    total = torch.zeros_like(found[POSITIVES])
    for part in parts:
        total += part.histogram[POSITIVES]
    assert torch.equal(found[POSITIVES], total)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("NaN", r"preds\[31, 5\] must not be NaN"),
        ("NaN of weight 0", r"preds\[31, 5\] must not be NaN"),
        ("NaN, labels", r"preds\[31, 5\] must not be NaN"),
        ("NaN and ignored", r"preds\[33, 0\] must not be NaN"),
        ("NaN without thresholds", r"preds\[31, 5\] must not be NaN"),
        ("weights that are none", r"sample_weight\[21\] must be from 0 to 1e60"),
        ("weights that are none, labels", ""),
    ],
)
def test_the_first_error_is_reported(name: str, message: str) -> None:
    scores, target, grid, ignore_index, weight = EXAMPLES[name]
    error = int(score_histogram(scores, target, grid, ignore_index=ignore_index, weight=weight).error)
    if not message:
        assert error == NO_ERROR
        return
    with pytest.raises(InputError, match=message):
        raise InputError(describe_value(error, Names(scores.shape[1], target.ndim == 2)))


# ------------------------------------------------------------------------------------------------------------- kernels


@pytest.fixture(params=BACKENDS)
def op(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "score_histogram", _score_histogram_cuda)


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.smoke) if n in SMOKE else n for n in EXAMPLES])
def test_kernels_equal_the_reference(op: Op, name: str) -> None:
    arguments = EXAMPLES[name]
    assert differences(op(*arguments), _library.reference("score_histogram")(*arguments)) == ""


@pytest.mark.parametrize(("rows", "classes"), [(3000, 1), (9000, 1), (3000, 17), (2100, 65), (257, 600), (0, 40)])
def test_every_cut_into_tiles_and_chunks(op: Op, rows: int, classes: int) -> None:
    rng = np.random.default_rng([rows, classes])
    scores, weight = made.probabilities(rng, rows, classes), made.weights_of(rng, rows)
    for target, ignored in ((made.labels_of(rng, rows, classes), classes), (made.multi_hot(rng, rows, classes), 3)):
        for arguments in ((scores, target, GRIDS["hit"], ignored, w) for w in (None, weight)):
            assert differences(op(*arguments), _library.reference("score_histogram")(*arguments)) == ""


@pytest.mark.parametrize("classes", [1, 2, 3, 5, 7, 8, 9, 13, 64, 130])
@pytest.mark.parametrize("dtype", made.FLOATS)
def test_rows_that_are_no_whole_number_of_loads(op: Op, classes: int, dtype: torch.dtype) -> None:
    """Of 16 bytes; with ignored and bad targets, NaN, and rows left over."""
    rng = np.random.default_rng(classes)
    scores = made.probabilities(rng, 1307, classes).to(dtype)
    scores[::97, classes // 2] = torch.nan
    indices, hot = made.labels_of(rng, 1307, classes), made.multi_hot(rng, 1307, classes)
    indices[::50] = classes
    indices[7] = -5
    hot[3, classes - 1] = 9
    for target, ignored in ((indices, classes), (hot, 3), (hot.to(torch.uint8), 3), (hot.bool(), None)):
        for grid in (GRIDS["even"], GRIDS["hit"]):
            arguments = (scores, target, grid, ignored, None)
            assert differences(op(*arguments), _library.reference("score_histogram")(*arguments)) == ""


def edges(grid: Tensor) -> Tensor:
    """The thresholds that float32 has, the numbers on both sides of each, and those at the ends of the order."""
    bounds, ends = grid.float(), torch.tensor([torch.inf, -torch.inf])
    near = [bounds.nextafter(end) for end in ends]
    special = torch.tensor([0.0, -0.0, 1e-45, -1e-45, 3e38, -3e38, torch.inf, -torch.inf])
    rng = np.random.default_rng(0)
    return torch.cat((bounds, *near, special, made.probabilities(rng, 3000, 1).flatten()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", GRIDS)
def test_scores_beside_every_threshold(op: Op, name: str, dtype: torch.dtype) -> None:
    """Of class indices and of labels, by the loops that look four or eight scores up at once, and with NaN."""
    scores = edges(GRIDS[name]).to(dtype)
    scores = torch.cat((scores, scores.flip(0)))[: len(scores) * 2 // 16 * 16].reshape(-1, 16).contiguous()
    for values in (scores, scores.index_put((torch.tensor(3), torch.tensor(5)), torch.tensor(torch.nan, dtype=dtype))):
        rows = torch.arange(len(values))
        for target in (rows % 16, (rows[:, None] + torch.arange(16)) % 3 == 0):
            arguments = (values, target, GRIDS[name], None, None)
            assert differences(op(*arguments), _library.reference("score_histogram")(*arguments)) == ""


@pytest.mark.parametrize(
    ("name", "leaves", "shared"),
    [("even", False, False), ("squares", True, False), ("close", True, True), ("crowded", False, False)],
)
def test_uneven_thresholds_lie_in_leaves(name: str, leaves: bool, shared: bool) -> None:
    """Even ones need none, and those that no table tells apart have none."""
    look_up, words = simulated().valor_sweep_lookup_cuda, np.zeros(19, np.int64)
    thresholds, count = GRIDS[name].numpy().tobytes(), ctypes.c_int64(len(GRIDS[name]))
    look_up(thresholds, count, ctypes.c_int64(0), None, ctypes.c_void_p(words.ctypes.data))
    tables = np.zeros(words[0], np.uint8)
    look_up(
        thresholds, count, ctypes.c_int64(0), ctypes.c_void_p(tables.ctypes.data), ctypes.c_void_p(words.ctypes.data)
    )
    found = int(words[13])
    begin = 4 * (2 * count.value + 2 + int(words[2]) + 1) + 7 & -8
    slots = tables[begin : begin + 8 * found].view(np.int32)[1::2]
    assert (found > 0, bool((slots < 0).any())) == (leaves, shared)
    assert found * 8 < 12 << 10


@pytest.mark.parametrize("shift", [1, 4])
def test_scores_that_begin_anywhere(op: Op, shift: int) -> None:
    rng = np.random.default_rng(shift)
    scores = made.probabilities(rng, 200, 16).flatten()[shift : shift + 150 * 16].view(150, 16)
    target = made.labels_of(rng, 150, 16)
    arguments = (scores, target, GRIDS["even"], None, None)
    assert differences(op(*arguments), _library.reference("score_histogram")(*arguments)) == ""


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64])
@pytest.mark.parametrize("ignored", [0, 1])
def test_labels_may_be_ignored_where_they_are_0_or_1(op: Op, ignored: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(ignored)
    scores, target = made.probabilities(rng, 70, 8), made.multi_hot(rng, 70, 8).clamp(0, 1).to(dtype)
    arguments = (scores, target, GRIDS["hit"], ignored, None)
    assert differences(op(*arguments), _library.reference("score_histogram")(*arguments)) == ""


def test_an_ignored_target_that_the_dtype_cannot_hold_ignores_nothing(op: Op) -> None:
    """-1 is 255 in the bits of uint8."""
    scores, target = torch.tensor([[0.75], [0.25], [0.75]]), torch.tensor([[1], [255], [0]], dtype=torch.uint8)
    arguments = (scores, target, GRIDS["hit"], -1, None)
    histogram, error, outside = op(*arguments)
    assert histogram.sum(-1).tolist() == [[1], [2]]
    assert int(error) != NO_ERROR and describe_value(int(error), Names(1, True)).startswith("target[1]")
    assert differences((histogram, error, outside), _library.reference("score_histogram")(*arguments)) == ""


@pytest.mark.parametrize("per_element", [False, True])
def test_a_lone_nan_of_weight_0_is_reported(op: Op, per_element: bool) -> None:
    target = torch.ones(4, 1, dtype=torch.int64) if per_element else torch.zeros(4, dtype=torch.int64)
    weight = torch.tensor([1.0, 2.0, 0.0, 1.0], dtype=torch.float64)
    arguments = (torch.tensor([[0.25], [0.5], [torch.nan], [0.75]]), target, GRIDS["hit"], None, weight)
    histogram, error, outside = op(*arguments)
    assert describe_value(int(error), Names(1, per_element)).startswith("preds[2] must not be NaN")
    assert differences((histogram, error, outside), _library.reference("score_histogram")(*arguments)) == ""


def test_views_are_read_in_their_order(op: Op) -> None:
    scores, target, grid, _, _ = EXAMPLES["33 x 10, labels"]
    weight = torch.rand(99, dtype=torch.float64)[::3]
    for given in (
        (scores.t().contiguous().t(), target.t().contiguous().t()),
        (scores.repeat(1, 2)[:, ::2], target.flip(0)),
    ):
        arguments = (*given, grid, made.IGNORED, weight)
        assert differences(op(*arguments), _library.reference("score_histogram")(*arguments)) == ""


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_cuda_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated = kernel("simulated", "score_histogram", _score_histogram_cuda)
    rng = np.random.default_rng(int(seed))
    wide = made.probabilities(rng, 300, 12), made.labels_of(rng, 300, 12), GRIDS["even"], 12, None
    examples = [EXAMPLES[name] for name in ("31 x 3", "33 x 10, labels", "33 x 10, labels, weights")]
    for arguments in (*examples, wide):
        assert differences(simulated(*arguments), _library.reference("score_histogram")(*arguments)) == ""


def test_any_number_of_threads_gives_the_same_bits() -> None:
    rng, before = np.random.default_rng(0), torch.get_num_threads()
    scores, weight = made.probabilities(rng, 5000, 40), made.weights_of(rng, 5000)
    target = made.labels_of(rng, 5000, 39)
    found = []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append([score_histogram(scores, target, GRIDS["even"], weight=w) for w in (None, weight)])
    finally:
        torch.set_num_threads(before)
    assert all(differences(other, found[0]) == "" for other in found[1:])


@pytest.mark.parametrize("seed", seeds(10))
def test_random_thresholds_are_looked_up_exactly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = made.FLOATS[seed % 4]
    values = torch.from_numpy(rng.normal(size=400) * 10.0 ** rng.integers(-6, 6, 400)).to(dtype)
    grid = torch.cat((values[::2].double(), values[1::2].double() * (1 + 1e-9))).sort().values
    column = torch.cat((values, values.nextafter(torch.tensor(torch.inf, dtype=dtype)) if seed % 4 > 1 else -values))[
        :, None
    ]
    arguments = (column, torch.ones_like(column, dtype=torch.uint8), grid, None, None)
    assert (
        differences(torch.ops.valor_gpu.score_histogram(*arguments), _library.reference("score_histogram")(*arguments))
        == ""
    )


def test_opcheck() -> None:
    for name in ("31 x 3", "33 x 10, labels, weights"):
        torch.library.opcheck(torch.ops.valor_gpu.score_histogram.default, EXAMPLES[name])


SCORES, INDICES, GRID = torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), torch.zeros(1, dtype=torch.float64)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scores": SCORES[0]}, r"scores must have shape \[N, N\] but got \[2\]"),
        ({"scores": SCORES.int()}, "scores must have dtype .*float64 but got torch.int32"),
        ({"scores": SCORES[:, :0]}, r"scores must have at least one column but has shape \[3, 0\]"),
        ({"target": INDICES[:2]}, r"target must have shape \[3\] but got \[2\]"),
        ({"target": SCORES.long().T}, r"target must have shape \[3, 2\] but got \[2, 3\]"),
        ({"target": SCORES}, "target must have dtype .* but got torch.float32"),
        ({"thresholds": GRID.float()}, "thresholds must have dtype torch.float64 but got torch.float32"),
        ({"thresholds": GRID[None]}, r"thresholds must have shape \[N\] but got \[1, 1\]"),
        ({"thresholds": GRID.to("meta")}, "thresholds must be on cpu but are on meta"),
        ({"thresholds": torch.tensor([1.0, 0.5]).double()}, "thresholds must be ascending and not NaN"),
        ({"thresholds": torch.tensor([torch.nan]).double()}, "thresholds must be ascending and not NaN"),
        ({"thresholds": torch.tensor([0.5, torch.nan]).double()}, "thresholds must be ascending and not NaN"),
        ({"weight": GRID}, r"weight must have shape \[3\] but got \[1\]"),
    ],
)
def test_errors_name_the_argument(changed: dict[str, Tensor], message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_histogram(**{"scores": SCORES, "target": INDICES, "thresholds": GRID, **changed})
