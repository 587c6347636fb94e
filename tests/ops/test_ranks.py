"""auroc_and_ap and rank_curves: kernels equal the reference by bytes, the reference scikit-learn and brute force."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from testing import examples_ranks as made
from testing.parity import differences
from tests.fuzz import seeds
from tests.ops.backends import BACKENDS, SIM_SEEDS, kernel
from valor_gpu.errors import InputError
from valor_gpu.ops import _library
from valor_gpu.ops.error_codes import NO_ERROR, Names, describe_value
from valor_gpu.ops.ranks import cuda as _ranks_cuda
from valor_gpu.ops.ranks import op as ranks
from valor_gpu.ops.ranks.op import auroc_and_ap, rank_curves

Op = Callable[..., Any]
EXAMPLES = dict(made.examples(quick=True))
INF = float("inf")


def column(values: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.tensor(values, dtype=dtype)[:, None]


# -------------------------------------------------------------------------------------------------------- definitions


def brute_areas(scores: Tensor, positive: Tensor) -> tuple[Fraction, Fraction]:
    """By the pairs of a positive and a negative, and by the rank of every positive."""
    ups, downs = scores[positive].tolist(), scores[~positive].tolist()
    pairs = sum((2 * (u > d) + (u == d)) for u in ups for d in downs)
    precisions = [
        Fraction(sum(v >= u for v in ups), sum(v >= u for v in ups) + sum(d >= u for d in downs)) for u in ups
    ]
    return Fraction(pairs, 2 * len(ups) * len(downs)), sum(precisions, Fraction(0)) / len(ups)


@pytest.mark.parametrize("seed", seeds(12))
def test_areas_are_those_of_all_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, target = made.scores(rng, 40, 3, made.FLOATS[seed % 4]), made.indices(rng, 40, 3)
    found = auroc_and_ap(scores, target)
    for c in range(3):
        expected = brute_areas(scores[:, c].double(), target == c)
        assert np.abs(found.values[:, c].numpy() - np.array([float(e) for e in expected])).max() < 1e-15
    assert found.totals[0].tolist() == torch.bincount(target, minlength=3).tolist()
    assert found.totals.sum(0).tolist() == [40] * 3 and int(found.error) == NO_ERROR


def weight_of(kind: str, rng: np.random.Generator, rows: int) -> Tensor | None:
    return {"none": None, "random": made.weights(rng, rows), "large": made.weights(rng, rows) * 1e12}[kind]


@pytest.mark.parametrize("weighted", ["none", "random", "large"])
@pytest.mark.parametrize("seed", seeds(10))
def test_areas_are_those_of_scikit_learn(seed: int, weighted: str) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(5, 2000))
    scores = torch.from_numpy(rng.integers(0, 2 + seed * 40, (rows, 4)) / 8)
    target, weight = made.multi_hot(rng, rows, 4), weight_of(weighted, rng, rows)
    target[:2] = torch.tensor([[0], [1]])
    if weight is not None:
        weight[:2] = 1.0
    found = auroc_and_ap(scores, target, weight=weight)
    for c in range(4):
        case = (target[:, c].numpy(), scores[:, c].numpy())
        auc = metrics.roc_auc_score(*case, sample_weight=weight)
        average = metrics.average_precision_score(*case, sample_weight=weight)
        assert np.abs(found.values[:, c].numpy() - np.array([auc, average])).max() < 1e-12


@pytest.mark.parametrize("weighted", ["none", "random"])
@pytest.mark.parametrize("seed", seeds(5))
def test_curves_are_those_of_scikit_learn(seed: int, weighted: str) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(5, 1000))
    scores = torch.from_numpy(rng.integers(0, 2 + seed * 40, (rows, 3)) / 8)
    target, weight = made.indices(rng, rows, 3), weight_of(weighted, rng, rows)
    target[:3] = torch.arange(3)
    if weight is not None:
        weight[:3] = 1.0
    found = rank_curves(scores, target, weight=weight)
    assert found.offsets[0] == 0 and found.offsets[-1] == len(found.thresholds)
    for c in range(3):
        fpr, tpr, thresholds = metrics.roc_curve(
            (target == c).numpy(), scores[:, c].numpy(), sample_weight=weight, drop_intermediate=False
        )
        points = slice(*found.offsets[c : c + 2].tolist())
        tp, fp = found.tp[points].numpy(), found.fp[points].numpy()
        assert np.array_equal(found.thresholds[points].numpy(), thresholds[1:])
        assert np.abs(tp / tp[-1] - tpr[1:]).max() < 1e-12 and np.abs(fp / fp[-1] - fpr[1:]).max() < 1e-12


def test_a_side_that_is_missing() -> None:
    scores = column([0.1, 0.5, 0.3])
    only_negatives, only_positives = (auroc_and_ap(scores, torch.full((3, 1), y)) for y in (0, 1))
    assert only_negatives.values.isnan().all() and only_negatives.totals.tolist() == [[0], [3]]
    assert only_positives.values[0].isnan().all() and only_positives.values[1].tolist() == [1.0]
    empty = auroc_and_ap(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), weight=torch.zeros(0).double())
    assert empty.values.isnan().all() and empty.totals.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    none = rank_curves(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))
    assert none.offsets.tolist() == [0, 0, 0] and none.thresholds.shape == (0,)


# ------------------------------------------------------------------------------------------------------------ kernels


@pytest.fixture(params=BACKENDS)
def areas(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "auroc_and_ap", _ranks_cuda.auroc_and_ap)


def check(areas: Op, *arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    found: tuple[Tensor, Tensor, Tensor] = areas(*arguments)
    assert differences(found, _library.reference("auroc_and_ap")(*arguments)) == ""
    return found


@pytest.mark.parametrize("name", EXAMPLES)
def test_areas_equal_the_reference(areas: Op, name: str) -> None:
    check(areas, *EXAMPLES[name])


@pytest.fixture(params=BACKENDS)
def curves(request: pytest.FixtureRequest) -> Op:
    return kernel(request.param, "rank_curves", _ranks_cuda.rank_curves)


@pytest.mark.parametrize("name", EXAMPLES)
def test_curves_equal_the_reference(curves: Op, name: str) -> None:
    found = curves(*EXAMPLES[name])
    assert differences(found, _library.reference("rank_curves")(*EXAMPLES[name])) == ""


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["33 x 37, indices", "33 x 37, multi-hot", "33 x 37, weights"])
def test_small_cases(areas: Op, curves: Op, name: str) -> None:
    check(areas, *EXAMPLES[name])
    curves(*EXAMPLES[name])


@pytest.mark.parametrize("dtype", made.FLOATS)
def test_scores_in_any_layout(areas: Op, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(3)
    wide, target = made.scores(rng, 70, 12, dtype), made.multi_hot(rng, 70, 12)
    check(areas, wide[::2, 1::3], target[::2, 1::3], None, made.weights(rng, 70)[::2])
    check(areas, wide.t().contiguous().t(), made.indices(rng, 140, 12)[::2], 0, None)


def test_the_order_of_rows_changes_no_bit(areas: Op) -> None:
    rng = np.random.default_rng(4)
    scores = torch.from_numpy(rng.integers(0, 300, (3000, 5)) / 1e3).float()
    for target in (made.indices(rng, 3000, 5), made.multi_hot(rng, 3000, 5)):
        first = check(areas, scores, target, 3, None)
        order = torch.from_numpy(rng.permutation(3000))
        assert differences(areas(scores[order], target[order], 3, None), first) == ""


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_changes_no_bit(threads: int) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        for name in ("1000 x 37, indices", "1000 x 37, weights", "classes of many and of few"):
            check(torch.ops.valor_gpu.auroc_and_ap, *EXAMPLES[name])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("seed", SIM_SEEDS)
def test_the_order_of_cuda_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch, seed: str) -> None:
    monkeypatch.setenv("VALOR_SIM_SEED", seed)
    simulated = kernel("simulated", "auroc_and_ap", _ranks_cuda.auroc_and_ap)
    for name in ("33 x 37, indices", "33 x 37, multi-hot", "1000 x 3, weights"):
        check(simulated, *EXAMPLES[name])


@pytest.mark.parametrize("room", [1, 40_000, 850_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_columns_are_sorted_some_at_a_time(monkeypatch: pytest.MonkeyPatch, room: int, weighted: bool) -> None:
    """One at a time, a few, and more than a block reads."""
    monkeypatch.setattr(_ranks_cuda, "ROOM", room)
    monkeypatch.setattr(ranks, "CURVE_ROOM", 2 * 333)
    rng = np.random.default_rng(6)
    arguments = (made.scores(rng, 333, 70), made.multi_hot(rng, 333, 70), None, made.weights(rng, 333))
    arguments = arguments if weighted else (*arguments[:3], None)
    for name, op in (("auroc_and_ap", _ranks_cuda.auroc_and_ap), ("rank_curves", _ranks_cuda.rank_curves)):
        expected = _library.reference(name)(*arguments)
        for backend in ("cpu", "simulated"):
            assert differences(kernel(backend, name, op)(*arguments), expected) == ""


@pytest.mark.parametrize("dtype", made.FLOATS)
def test_thresholds_are_the_scores(dtype: torch.dtype) -> None:
    """Each distinct score of both signs, with infinities, subnormal numbers and zeros of either sign."""
    scores = torch.cat((made.scores(np.random.default_rng(3), 80, 1, dtype), column([-0.0, INF, -INF], dtype)))
    scores = torch.cat((scores, -scores, scores.nextafter(column([INF], dtype)))) if dtype.itemsize > 2 else scores
    arguments = (scores, torch.arange(len(scores)) % 2 * 0, None, None)
    found = kernel("simulated", "rank_curves", _ranks_cuda.rank_curves)(*arguments)
    assert differences(found, _library.reference("rank_curves")(*arguments)) == ""


def test_ties(areas: Op) -> None:
    target = torch.tensor([1, 0, 1, 0, 0])[:, None]
    assert check(areas, column([7.0] * 5), target, None, None)[0].tolist() == [[0.5], [0.4]]
    signed = check(areas, column([0.0, -0.0, -0.0, 0.0, -0.0]), target, None, None)
    assert signed[0].tolist() == [[0.5], [0.4]]


@pytest.mark.parametrize("dtype", made.FLOATS)
def test_infinite_scores_rank_first_and_last(areas: Op, dtype: torch.dtype) -> None:
    target = torch.tensor([1, 0, 1, 0])[:, None]
    assert check(areas, column([INF, -INF, 3.0, 1.0], dtype), target, None, None)[0].tolist() == [[1.0], [1.0]]
    assert check(areas, column([-INF, INF, -INF, 1.0], dtype), target, None, None)[0].tolist() == [[0.0], [0.5]]


def test_scores_that_are_ignored_are_not_looked_at(areas: Op) -> None:
    scores = torch.tensor([[0.5, torch.nan], [0.25, 0.75], [torch.nan, torch.nan]])
    per_element = check(areas, scores, torch.tensor([[1, 9], [0, 1], [9, 9]]), 9, None)
    assert per_element[1].tolist() == [[1, 1], [1, 0]] and per_element[2] == NO_ERROR
    by_row = check(areas, torch.nan_to_num(scores, 0.5).index_fill(0, torch.tensor(2), torch.nan),
                   torch.tensor([0, 1, -1]), -1, None)  # fmt: skip
    assert by_row[1].tolist() == [[1, 1], [1, 1]] and by_row[2] == NO_ERROR


def message_of(found: Any, names: Names) -> str:
    return describe_value(int(found[-1]), names)


def test_the_first_bad_value_is_reported(areas: Op) -> None:
    scores, target = torch.rand(50, 3), torch.randint(0, 3, (50,))
    names = Names(classes=3)
    scores[40, 1] = scores[31, 2] = scores[31, 0] = torch.nan
    assert message_of(areas(scores, target, None, None), names) == "preds[31, 0] must not be NaN"
    target[29] = 3
    assert message_of(areas(scores, target, None, None), names) == "target[29] must be a class index from 0 to 2"
    assert message_of(areas(scores, target, 3, None), names) == "preds[31, 0] must not be NaN"
    weight = torch.ones(50).double()
    weight[30], weight[7] = torch.nan, -1
    assert message_of(areas(scores, target, 3, weight), names) == "sample_weight[7] must be from 0 to 1e60"
    many_hot = torch.zeros(50, 3, dtype=torch.int64)
    many_hot[31, 1], many_hot[31, 2] = 7, -1
    expected = "target[31, 1] must be 0 or 1"
    assert message_of(areas(torch.rand(50, 3), many_hot, None, None), names._replace(per_element=True)) == expected
    for op in (areas, torch.ops.valor_gpu.rank_curves):
        assert int(op(scores, target, 3, weight)[-1]) == int(
            _library.reference("auroc_and_ap")(scores, target, 3, weight)[-1]
        )


# ------------------------------------------------------------------------------------------------------------ op, API


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -1.0])
def test_weights_of_rows_that_are_left_out_are_not_looked_at(areas: Op, bad: float) -> None:
    rng = np.random.default_rng(8)
    scores, weight = made.scores(rng, 50, 3), torch.ones(50).double()
    weight[7] = bad
    for target in (made.indices(rng, 50, 3), made.multi_hot(rng, 50, 3).long()):
        target[7] = -5
        assert int(check(areas, scores, target, -5, weight)[-1]) == NO_ERROR
        assert int(rank_curves(scores, target, ignore_index=-5, weight=weight).error) == NO_ERROR
        if target.ndim == 2:
            target[7, 2] = 1
            assert message_of(areas(scores, target, -5, weight), Names(3)).startswith("sample_weight[7]")


@pytest.mark.parametrize("weighted", [False, True])
def test_opcheck(weighted: bool) -> None:
    rng = np.random.default_rng(5)
    weight = made.weights(rng, 40) if weighted else None
    for target in (made.indices(rng, 40, 2), made.multi_hot(rng, 40, 2)):
        for op in (torch.ops.valor_gpu.auroc_and_ap, torch.ops.valor_gpu.rank_curves):
            torch.library.opcheck(op.default, (made.scores(rng, 40, 2), target, None, weight))


@pytest.mark.parametrize("function", [auroc_and_ap, rank_curves])
def test_errors_name_the_argument(function: Op) -> None:
    scores, target = torch.rand(4, 3), torch.zeros(4, dtype=torch.int64)
    with pytest.raises(InputError, match=r"scores must have shape \[N, N\] but got \[4\]"):
        function(scores[:, 0], target)
    with pytest.raises(InputError, match=r"scores must have dtype torch.float16 or .* but got torch.int64"):
        function(scores.long(), target)
    with pytest.raises(InputError, match=r"target must have shape \[4, 3\] but got \[4, 2\]"):
        function(scores, torch.zeros(4, 2, dtype=torch.int64))
    with pytest.raises(InputError, match=r"scores must have fewer than 2\^31 rows but has 2147483648"):
        function(torch.zeros(1, 1).expand(1 << 31, 1), target)
    with pytest.raises(InputError, match=r"weight must have dtype torch.float64 but got torch.float32"):
        function(scores, target, weight=torch.ones(4))
