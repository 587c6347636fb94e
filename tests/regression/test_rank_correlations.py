"""Spearman's and Kendall's correlations beside SciPy, torchmetrics and the plain definition."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]
from torch import Tensor
from torchmetrics.functional import kendall_rank_corrcoef as their_kendall
from torchmetrics.functional import spearman_corrcoef as their_spearman

from tests.contents import content
from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.functional import kendall_rank_corrcoef, spearman_corrcoef
from valor_gpu.regression import KendallRankCorrCoef, SpearmanCorrCoef
from valor_gpu.regression.pair_rows import PairRows
from valor_gpu.stats import Bootstrap

Floats = NDArray[np.float64]
KINDS: dict[str, Any] = {"spearman": SpearmanCorrCoef, "kendall": KendallRankCorrCoef}


def drawn(seed: int, least: int = 3) -> tuple[Floats, Floats]:
    """Numbers with few or many ties, correlated by chance."""
    rng = np.random.default_rng(seed)
    rows, levels = int(rng.integers(least, 80)), int(rng.integers(2, 60))
    x = rng.integers(-levels, levels, rows) / 4
    return x, rng.integers(-levels, levels, rows) / 4 + x * int(rng.integers(-1, 2))


def different(*sides: Floats) -> bool:
    return all(len(set(side.tolist())) > 1 for side in sides)


def tensors(*sides: Floats, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [torch.from_numpy(side).to(dtype) for side in sides]


@pytest.mark.parametrize("seed", seeds(40))
def test_scipy(seed: int) -> None:
    x, y = drawn(seed)
    if not different(x, y):
        assert math.isnan(spearman_corrcoef(*tensors(x, y)))
        return
    assert spearman_corrcoef(*tensors(x, y)).item() == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-14)
    for variant in ("b", "c"):
        for alternative in ("two-sided", "less", "greater"):
            expected = stats.kendalltau(x, y, method="asymptotic", variant=variant, alternative=alternative)
            found = kendall_rank_corrcoef(*tensors(x, y), variant, True, alternative)
            assert found[0].item() == pytest.approx(expected.statistic, abs=1e-14)
            assert found[1].item() == pytest.approx(expected.pvalue, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("seed", seeds(15))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_torchmetrics(seed: int, dtype: torch.dtype) -> None:
    x, y = tensors(*drawn(seed, 4), dtype=dtype)
    if not different(x.numpy(), y.numpy()):
        return
    assert spearman_corrcoef(x, y).dtype == dtype
    assert spearman_corrcoef(x, y).item() == pytest.approx(their_spearman(x, y).item(), abs=1e-5)
    for variant in ("b", "c"):
        for alternative in ("two-sided", "less", "greater"):
            found = kendall_rank_corrcoef(x, y, variant, True, alternative)
            theirs = their_kendall(x, y, variant, True, alternative)
            assert [each.item() for each in found] == pytest.approx([each.item() for each in theirs], abs=2e-6)


def test_variant_a_is_by_all_pairs_where_torchmetrics_leaves_ties_out() -> None:
    x, y = torch.tensor([1.0, 2.0, 2.0, 4.0]), torch.tensor([1.0, 3.0, 2.0, 4.0])
    assert kendall_rank_corrcoef(x, y, "a").item() == pytest.approx(5 / 6)  # 5 concordant pairs of 6, one is tied
    assert their_kendall(x, y, "a").item() == 1
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    found, theirs = kendall_rank_corrcoef(x, y, "a", True), their_kendall(x, y, "a", True)
    assert [each.item() for each in found] == pytest.approx([each.item() for each in theirs], abs=1e-6)


def test_spearman_has_no_epsilon() -> None:
    x = torch.arange(2.0)
    assert spearman_corrcoef(x, x) == 1 and their_spearman(x, x) < 1
    assert spearman_corrcoef(x, -x) == -1
    assert math.isnan(spearman_corrcoef(x, torch.ones(2))) and their_spearman(x, torch.ones(2)) == 0


@pytest.mark.parametrize("rows", [100_000, 3_000_000])
def test_many_rows(rows: int) -> None:
    """torchmetrics multiplies numbers of pairs in int64, which 10^5 rows overflow."""
    x = torch.arange(rows)
    for sign in (1, -1):
        assert spearman_corrcoef(x, sign * x) == sign
        assert kendall_rank_corrcoef(x, sign * x) == sign
    assert kendall_rank_corrcoef(x, x // 2, "b").item() == pytest.approx(math.sqrt(1 - 1 / (rows - 1)), rel=1e-15)
    assert kendall_rank_corrcoef(x, x, t_test=True)[1] == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_any_order_and_split_gives_the_same_bits(kind: str, outputs: int) -> None:
    rng = np.random.default_rng(outputs)
    shape = (211,) if outputs == 1 else (211, outputs)
    preds, target = tensors(*(rng.integers(0, 30, shape) / 3 for _ in range(2)), dtype=torch.float32)
    whole, parts, merged, other = (KINDS[kind](num_outputs=outputs) for _ in range(4))
    whole.update(preds, target)
    order = torch.from_numpy(rng.permutation(211))
    for part in order.split(50):
        parts.update(preds[part], target[part])
    merged.update(preds[100:], target[100:])
    other.update(preds[:100], target[:100])
    merged.merge_state(other.to_bytes())
    values = [content(metric.compute()) for metric in (whole, parts, merged)]
    assert values[1:] == values[:1] * 2
    columns = [KINDS[kind]() for _ in range(outputs)]
    for column, metric in enumerate(columns):
        metric.update(preds.reshape(211, -1)[:, column], target.reshape(211, -1)[:, column])
    assert content(torch.stack([metric.compute() for metric in columns]).squeeze()) == values[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.bool])
def test_numbers_of_few_bits_are_kept_in_float32(dtype: torch.dtype) -> None:
    preds, target = (torch.tensor(side).to(dtype) for side in ([0, 1, 2, 3, 5], [0, 1, 3, 2, 7]))
    metric = KendallRankCorrCoef()
    metric.update(preds, target)
    assert metric.preds[0].dtype == torch.float32 and metric.compute().dtype == torch.float32
    assert metric.compute().item() == pytest.approx(stats.kendalltau(preds.float(), target.float()).statistic)


def test_batches_of_float32_and_of_float64_mix() -> None:
    third = 1 / 3  # no number of float32
    batches = [([0.1, 2.0], [1.0, 2.0], torch.float32), ([third, 1.0], [0.0, 3.0], torch.float64)]
    metric, other = SpearmanCorrCoef(), SpearmanCorrCoef()
    for preds, target, dtype in batches:
        metric.update(torch.tensor(preds, dtype=dtype), torch.tensor(target, dtype=dtype))
    for preds, target, dtype in reversed(batches):
        other.update(torch.tensor(preds, dtype=dtype), torch.tensor(target, dtype=dtype))
    assert metric.compute().dtype == torch.float64
    assert metric.compute() == other.compute() == 0.6
    hashes = metric.state().hashes()
    wide = SpearmanCorrCoef()
    for preds, target, dtype in batches:
        wide.update(torch.tensor(preds, dtype=dtype).double(), torch.tensor(target, dtype=dtype).double())
    assert hashes == wide.state().hashes()


def test_whole_numbers_are_exact_or_refused() -> None:
    large = 2**53 - torch.arange(4)
    assert spearman_corrcoef(large, torch.arange(4)) == -1
    with pytest.raises(InputError, match=r"target must be at most 2\^53 in size but row 2 is larger"):
        spearman_corrcoef(torch.arange(3), torch.tensor([0, 1, 2**53 + 1]))


def test_numbers_are_compared_as_they_are() -> None:
    near = 1 + torch.arange(4, dtype=torch.float64) * 2**-50  # equal in float32
    assert kendall_rank_corrcoef(near, torch.arange(4)) == 1
    zeros = torch.tensor([0.0, -0.0, 1.0])
    assert kendall_rank_corrcoef(zeros, torch.tensor([1.0, 2.0, 3.0]), "a").item() == pytest.approx(2 / 3)
    infinite = torch.tensor([-math.inf, 0.0, math.inf])
    assert spearman_corrcoef(infinite, infinite) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_reasons(kind: str) -> None:
    name = KINDS[kind].__name__
    metric = KINDS[kind]()
    rows = [(torch.tensor([1.0]), torch.tensor([2.0])), (torch.tensor([1.0]), torch.tensor([5.0]))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert metric.result().reasons == {name: "no row was added"}
    metric.update(*rows[0])
    assert metric.result().reasons == {name: "fewer than two rows"}
    metric.update(*rows[1])
    assert metric.result().reasons == {name: "all of preds are equal"} and math.isnan(metric.compute())
    metric.update(torch.tensor([3.0, math.nan]), torch.tensor([math.nan, math.nan]))
    found = metric.result()
    assert found.reasons == {name: "rows with NaN: 2"} and found.counts["nan_rows"] == 2 and found.counts["rows"] == 4


def test_reasons_name_the_output() -> None:
    metric = KendallRankCorrCoef(t_test=True, num_outputs=2)
    metric.update(torch.tensor([[1.0, 1.0], [2.0, 1.0]]), torch.tensor([[1.0, 1.0], [2.0, 5.0]]))
    tau, p_value = metric.compute()
    assert tau[0] == 1 and tau[1].isnan() and p_value.isnan().all()
    assert metric.result().reasons == {
        "KendallRankCorrCoef": "output 1: all of preds are equal",
        "p_value": "output 0: fewer than three rows; output 1: all of preds are equal",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_rows_with_nan_can_be_left_out(kind: str) -> None:
    preds = torch.tensor([[1.0, 2.0], [math.nan, 4.0], [2.0, 1.0], [4.0, 3.0]])
    target = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, math.nan], [3.0, 0.0]])
    metric = KINDS[kind](num_outputs=2, nan_policy="omit")
    metric.update(preds, target)
    function = spearman_corrcoef if kind == "spearman" else kendall_rank_corrcoef
    columns = [function(preds[[0, 2, 3], 0], target[[0, 2, 3], 0]), function(preds[[0, 1, 3], 1], target[[0, 1, 3], 1])]
    assert metric.compute().tolist() == [each.item() for each in columns]
    result = metric.result(intervals=4)
    assert result.counts["nan_rows"] == 2 and not result.reasons
    assert KINDS[kind](num_outputs=2).compute_with_cache  # the default propagates
    assert function(preds, target).isnan().all()


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_p_value_has_a_reason_for_an_interval(outputs: int) -> None:
    metric = KendallRankCorrCoef(t_test=True, num_outputs=outputs)
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [2.0, 1.0], [4.0, 3.0]])[:, :outputs]
    metric.update(rows, rows.flip(0))
    found = metric.result(intervals=4).intervals
    names = ["p_value"] if outputs == 1 else ["p_value/0", "p_value/1"]
    assert {name for name in found if name.startswith("p_value")} == set(names)
    assert all("take the interval of the coefficient" in found[name].reason for name in names)


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_are_those_of_copies_of_rows(kind: str) -> None:
    rng = np.random.default_rng(4)
    x, y = (rng.integers(0, 9, 30).astype(float) for _ in range(2))
    metric = KINDS[kind]()
    metric.update(*tensors(x, y))
    found = metric.result(intervals=Bootstrap(50, method="percentile")).intervals[KINDS[kind].__name__]
    sample = vars(metric.result())["_state"]()
    from valor_gpu.stats.draws import Draws

    draws = Draws(30, 50)
    (name, replicates), *none = sample.replicates(draws).items()
    assert name == KINDS[kind].__name__ and not none
    order = np.lexsort((y, x))
    oracle = stats.spearmanr if kind == "spearman" else stats.kendalltau
    for value, weights in zip(replicates, draws.array().T):
        rows = np.repeat(order, weights)
        assert value == pytest.approx(oracle(x[rows], y[rows]).statistic, abs=1e-12)
    assert (found.low, found.high) == tuple(np.quantile(replicates, [0.025, 0.975]))


def test_a_group_of_metrics_shares_its_rows() -> None:
    from torchmetrics import MetricCollection

    both = MetricCollection([SpearmanCorrCoef(), KendallRankCorrCoef()])
    x, y = tensors(*drawn(5))
    both.update(x, y)
    both.update(x, y)
    assert len(both.compute_groups) == 1
    expected = stats.kendalltau([*x, *x], [*y, *y]).statistic
    assert both.compute()["KendallRankCorrCoef"].item() == pytest.approx(expected)


def test_what_does_not_fit_is_refused_before_anything_changes() -> None:
    metric = SpearmanCorrCoef(num_outputs=2)
    pairs = torch.zeros(3, 2)
    for preds, target, match in (
        (pairs[:, 0], pairs, r"preds must have shape \[N, 2\], as num_outputs says, but got \[3\]"),
        (pairs, pairs[:2], "target must have the 3 rows of preds but has 2"),
        (pairs.to(torch.complex64), pairs, "preds must hold real numbers but has dtype torch.complex64"),
        (pairs[None], pairs, "preds must have shape"),
        ("ab", pairs, "preds must be"),
    ):
        with pytest.raises(InputError, match=match):
            metric.update(preds, target)
    assert not metric.preds and metric.update_count == 0
    with pytest.raises(InputError, match="num_outputs must be at least 1 but got 0"):
        SpearmanCorrCoef(0)
    with pytest.raises(InputError, match="variant must be one of"):
        KendallRankCorrCoef("d")
    with pytest.raises(InputError, match="t_test must be"):
        KendallRankCorrCoef(t_test=1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="alternative must be given with t_test=True"):
        KendallRankCorrCoef(t_test=True, alternative=None)
    with pytest.raises(InputError, match="alternative must be one of"):
        KendallRankCorrCoef(t_test=True, alternative="both")
    with pytest.raises(InputError, match="nan_policy must be one of"):
        KendallRankCorrCoef(nan_policy="raise")


def test_a_damaged_state_is_refused() -> None:
    state = PairRows.of(torch.zeros(3, 1), torch.zeros(3, 1))
    state.check(None)
    with pytest.raises(InputError, match="target must have 3 rows"):
        PairRows(state.preds, state.target[:2], state.wide_preds, state.wide_target).check(None)
    with pytest.raises(InputError, match="wide_target must have 0 rows"):
        PairRows(state.preds, state.target, state.wide_preds, state.wide_target.new_zeros(1, 1)).check(None)


def test_inputs_of_any_layout() -> None:
    table = torch.randn(2, 40, generator=torch.Generator().manual_seed(0))
    strided, dense = table.t()[:, 0], table[0].contiguous()
    other = table[1].flip(0)
    assert spearman_corrcoef(strided, other) == spearman_corrcoef(dense, other)
    assert spearman_corrcoef(dense.tolist(), other.numpy()) == spearman_corrcoef(dense, other)
    assert spearman_corrcoef(y_true=other, y_pred=dense) == spearman_corrcoef(dense, other)
    assert spearman_corrcoef(dense[:, None], other[:, None]) == spearman_corrcoef(dense, other)
