"""Cosines and divergences beside torchmetrics, SciPy and the plain definition; exact means of scores of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats  # type: ignore[import-untyped]
from scipy.spatial import distance  # type: ignore[import-untyped]
from torch import Tensor
from torchmetrics import functional as theirs

from tests.contents import content
from tests.fuzz import seeds
from valor_gpu.errors import InputError
from valor_gpu.functional import cosine_similarity, jensen_shannon_divergence, kl_divergence
from valor_gpu.regression import CosineSimilarity, JensenShannonDivergence, KLDivergence
from valor_gpu.regression.row_means import KeptSums, RowScores, RowSums
from valor_gpu.stats import Bootstrap

REDUCTIONS = ("mean", "sum", "none", None)
PAIRS: dict[str, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    "cosine": (cosine_similarity, theirs.cosine_similarity),
    "kl": (kl_divergence, theirs.regression.kl_divergence),
    "js": (jensen_shannon_divergence, theirs.regression.jensen_shannon_divergence),
}
KINDS: dict[str, Any] = {"cosine": CosineSimilarity, "kl": KLDivergence, "js": JensenShannonDivergence}


def drawn(seed: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Positive tables of some shape."""
    generator = torch.Generator().manual_seed(seed)
    shape = torch.randint(1, 30, (2,), generator=generator).tolist()
    first, second = torch.rand((2, *shape), generator=generator, dtype=torch.float64) + 0.01
    return first.to(dtype), second.to(dtype)


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", PAIRS)
def test_torchmetrics(name: str, reduction: str | None, seed: int) -> None:
    ours, peer = PAIRS[name]
    for dtype in (torch.float32, torch.float64):
        first, second = drawn(seed, dtype)
        found, expected = ours(first, second, reduction=reduction), peer(first, second, reduction=reduction)
        assert found.dtype == dtype and found.shape == expected.squeeze().shape
        np.testing.assert_allclose(found.numpy(), expected.squeeze().numpy(), rtol=1e-4, atol=2e-6)
    if name != "cosine":
        logs = [side.log_softmax(1) for side in drawn(seed)]
        found, expected = (each(*logs, log_prob=True, reduction=reduction) for each in (ours, peer))
        np.testing.assert_allclose(found.numpy(), expected.squeeze().numpy(), rtol=1e-5, atol=1e-7)  # log 2 in float32


@pytest.mark.parametrize("seed", seeds(10))
def test_scipy(seed: int) -> None:
    first, second = (side.numpy() for side in drawn(seed))
    found = kl_divergence(first, second, reduction="none").numpy()
    np.testing.assert_allclose(np.atleast_1d(found), stats.entropy(first, second, axis=1), rtol=1e-9, atol=1e-15)
    found = jensen_shannon_divergence(first, second, reduction="none").numpy()
    np.testing.assert_allclose(np.atleast_1d(found) ** 0.5, distance.jensenshannon(first, second, axis=1), atol=1e-7)
    found = np.atleast_1d(cosine_similarity(first, second, reduction="none").numpy())
    for row, value in enumerate(found):
        assert value == pytest.approx(1 - distance.cosine(first[row], second[row]), abs=1e-12)


def test_probabilities_of_zero() -> None:
    p, q = torch.tensor([[0.5, 0.5, 0.0, 0.0]]).double(), torch.tensor([[0.25, 0.25, 0.5, 0.0]]).double()
    assert kl_divergence(p, q).item() == pytest.approx(math.log(2))
    assert kl_divergence(q, p) == math.inf
    assert kl_divergence(p.log(), q.log(), log_prob=True).item() == pytest.approx(math.log(2))
    assert theirs.regression.kl_divergence(p.log(), q.log(), log_prob=True).isnan()
    apart = torch.tensor([[1.0, 0.0]]).double(), torch.tensor([[0.0, 3.0]]).double()
    assert jensen_shannon_divergence(*apart).item() == math.log(2)
    logs = [(side / side.sum()).log() for side in apart]
    assert jensen_shannon_divergence(*logs, log_prob=True).item() == pytest.approx(math.log(2))
    assert kl_divergence(p, p) == jensen_shannon_divergence(p, p) == 0
    metric = KLDivergence()
    metric.update(q, p)
    metric.update(p, p)
    result = metric.result()
    assert metric.compute() == result.values["KLDivergence"] == math.inf and result.counts["infinite_rows"] == 1


def test_reasons() -> None:
    metric = CosineSimilarity()
    metric.update(torch.tensor([[0.0, 0.0], [1.0, 2.0], [math.nan, 1.0]]), torch.ones(3, 2))
    assert metric.compute().isnan()
    result = metric.result()
    assert result.reasons == {"CosineSimilarity": "rows with NaN, or a vector without a direction: 2"}
    assert result.counts["rows"] == 3 and result.counts["nan_rows"] == 2
    metric = KLDivergence()
    metric.update(torch.zeros(1, 3), torch.ones(1, 3))
    assert metric.result().reasons == {"KLDivergence": "rows with NaN, or without a probability above 0: 1"}
    metric = KLDivergence()
    metric.update(torch.zeros(0, 3), torch.ones(0, 3))
    assert metric.compute().isnan() and metric.result().reasons == {"KLDivergence": "no row was added"}
    total = CosineSimilarity()
    total.update(torch.zeros(0, 3), torch.ones(0, 3))
    assert total.compute() == 0


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("choices", [{}, {"keep_rows": True}])
def test_sums_are_exact(name: str, choices: dict[str, bool]) -> None:
    generator = torch.Generator().manual_seed(2)
    first, second = torch.rand((2, 501, 7), generator=generator)
    rows = PAIRS[name][0](first.double(), second.double(), reduction="none").tolist()
    for reduction, expected in (("sum", math.fsum(rows)), ("mean", math.fsum(rows) / 501)):
        metric = KINDS[name](reduction=reduction, **choices)
        metric.update(first.double(), second.double())
        assert metric.result().values[KINDS[name].__name__] == pytest.approx(expected, rel=2e-16)
        shards = [KINDS[name](reduction=reduction, **choices) for _ in range(5)]
        for shard, part in zip(shards, torch.randperm(501, generator=generator).split(111)):
            for row in part.split(17):
                shard.update(first[row].double(), second[row].double())
        for shard in shards[1:]:
            shards[0].merge_state(shard)
        assert content(shards[0].compute()) == content(metric.compute())


def test_terms_of_opposite_sign_lose_nothing() -> None:
    first = torch.tensor([[1.0], [1.0], [1.0]], dtype=torch.float64)
    logs = torch.tensor([[700.0], [1e-300], [700.0]], dtype=torch.float64)
    metric = KLDivergence(log_prob=True, reduction="sum")  # rows exp(p) (p - q) of any sign
    metric.update(0 * first, torch.tensor([[1e17], [1.0], [-1e17]], dtype=torch.float64))
    assert metric.compute() == -1 and logs.isfinite().all()


@pytest.mark.parametrize("name", KINDS)
def test_a_row_has_the_same_bits_alone_and_among_others(name: str) -> None:
    generator = torch.Generator().manual_seed(4)
    for width in (1, 3, 8, 17, 100, 70_001):
        first, second = torch.rand((2, 3, width), generator=generator, dtype=torch.float64)
        together = PAIRS[name][0](first, second, reduction="none")
        alone = [PAIRS[name][0](first[row : row + 1], second[row : row + 1], reduction="none") for row in range(3)]
        turned = PAIRS[name][0](first.t().contiguous().t(), second, reduction="none")
        assert content(torch.stack(alone)) == content(together) == content(turned)


@pytest.mark.parametrize("name", KINDS)
def test_intervals(name: str) -> None:
    first, second = torch.rand((2, 60, 4), generator=torch.Generator().manual_seed(3))
    label = KINDS[name].__name__
    found = {}
    for reduction in ("mean", "sum"):
        metric = KINDS[name](reduction=reduction, keep_rows=True)
        metric.update(first, second)
        found[reduction] = metric.result(intervals=Bootstrap(40)).intervals[label]
    rows = KINDS[name](reduction="none")
    rows.update(first, second)
    assert rows.result(intervals=Bootstrap(40)).intervals[label] == found["mean"]
    assert found["mean"].low < rows.result().values[label] < found["mean"].high
    assert found["sum"].low == pytest.approx(60 * found["mean"].low)
    error = rows.compute().double().std().item() / math.sqrt(60)
    assert found["mean"].standard_error == pytest.approx(error, rel=0.4)
    sums = KINDS[name](reduction="mean")
    sums.update(first, second)
    with pytest.raises(InputError, match=rf"make the metric with {label}\(keep_rows=True\)"):
        sums.result(intervals=10)


def test_what_does_not_fit_is_refused_before_anything_changes() -> None:
    metric, table = KLDivergence(), torch.ones(3, 2)
    for p, q, match in (
        (table, table[:2], r"q must have shape \[3, 2\] but got \[2, 2\]"),
        (table[0], table[0], r"p must have shape \[N, D\] but got \[2\]"),
        (table, table - 2 * torch.eye(3, 2), r"q must hold numbers of at least 0 but q\[0, 0\] is negative; log_prob"),
        (table.to(torch.complex64), table, "p must hold real numbers"),
    ):
        with pytest.raises(InputError, match=match):
            metric.update(p, q)
    assert metric.counts.sum() == 0 and metric.update_count == 0
    for name, kind in KINDS.items():
        with pytest.raises(InputError, match="reduction must be one of"):
            kind(reduction="max")
        with pytest.raises(InputError, match="keep_rows must be"):
            kind(keep_rows=1)
        if name != "cosine":
            with pytest.raises(InputError, match="log_prob must be"):
                kind(log_prob=1)


def test_a_damaged_state_is_refused() -> None:
    metric = KLDivergence(keep_rows=True)
    metric.update(torch.rand(4, 3) + 0.1, torch.rand(4, 3) + 0.1)
    state = metric.state()
    state.check(None)
    assert isinstance(state, KeptSums)
    parts = state.tensors()
    for name, changed, match in (
        ("counts", -parts["counts"], r"counts\[0, 0\] must be from 0"),
        ("counts", parts["counts"] + torch.tensor([0, 9, 0, 0]), "must be of the same rows"),
        ("counts", parts["counts"] * 2, "must be of the scores"),
        ("wide", parts["wide"] * 0 + 3, "wide must be 0 or 127"),
        ("sums", parts["sums"] + 1, "must be of the scores"),
        ("scores", parts["scores"] * 2, "must be of the scores"),
    ):
        with pytest.raises(InputError, match=match):
            KeptSums(**{**parts, name: changed}).check(None)
    empty = RowSums(parts["sums"], parts["counts"] * 0, parts["wide"])
    with pytest.raises(InputError, match="must be limbs of sums"):
        empty.check(None)
    with pytest.raises(InputError, match="wide must be 0 or 127"):
        RowScores(parts["scores"], parts["wide"] * 0 + 3).check(None)


def test_numbers_of_any_type() -> None:
    whole = torch.tensor([[1, 2], [3, 4]])
    assert cosine_similarity(whole, whole.half(), "mean").dtype == torch.float32
    assert cosine_similarity(whole.tolist(), whole.numpy(), "mean").item() == pytest.approx(1)
    assert kl_divergence(whole, whole.bfloat16()) == 0
    assert kl_divergence(whole.double(), whole).dtype == torch.float64
