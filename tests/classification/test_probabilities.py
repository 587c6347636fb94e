"""BrierScore, BrierSkillScore and NegativeLogLikelihood: the numbers of scikit-learn, and of their definitions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu.classification import BrierScore, BrierSkillScore, NegativeLogLikelihood
from valor_gpu.errors import InputError
from valor_gpu.stats.intervals import Bootstrap

C = 4
DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def fed(metric: Any, *batch: Any) -> Any:
    metric.update(*batch)
    return metric


def value(metric: Any, *batch: Any) -> float:
    return float(fed(metric, *batch).result().values[type(metric).__name__])


def drawn(seed: int, rows: int = 300, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Logits ``[N, C]``, class indices and weights."""
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(rows, C, generator=generator) * 3).to(dtype)
    return logits, torch.randint(C, (rows,), generator=generator), torch.rand(rows, generator=generator)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_scikit_learn(dtype: torch.dtype, weighted: bool) -> None:
    for seed in seeds(3):
        logits, target, weights = drawn(seed, dtype=dtype)
        weight = weights if weighted else None
        w = weights.double().numpy() if weighted else None
        proba, classes = logits.double().softmax(1).numpy(), list(range(C))
        log_loss = sk.log_loss(target, proba, sample_weight=w, labels=classes)
        brier = sk.brier_score_loss(target, proba, sample_weight=w, labels=classes)
        assert value(NegativeLogLikelihood(C), logits, target, weight) == pytest.approx(log_loss, rel=1e-12)
        assert value(BrierScore(C), logits, target, weight) == pytest.approx(brier, rel=1e-12)
        assert value(BrierScore(C, scale_by_half=True), logits, target, weight) == pytest.approx(brier / 2, rel=1e-12)
        one, truth = logits[:, 0], (target == 0).long()
        p = one.double().sigmoid().numpy()
        assert value(BrierScore(), one, truth, weight) == pytest.approx(
            sk.brier_score_loss(truth, p, sample_weight=w), rel=1e-12
        )
        assert value(NegativeLogLikelihood(), one, truth, weight) == pytest.approx(
            sk.log_loss(truth, p, sample_weight=w), rel=1e-12
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_probabilities_are_taken_as_they_are(dtype: torch.dtype) -> None:
    logits, target, _ = drawn(3)
    proba = logits.softmax(1).to(dtype)
    wide = proba.double().numpy()
    hot = np.eye(C)[target]
    assert value(BrierScore(C, activation="none"), proba, target) == pytest.approx(
        ((wide - hot) ** 2).sum(1).mean(), rel=1e-12
    )
    lowest = 1e-9
    expected = -np.log(np.clip(wide[np.arange(len(wide)), target], lowest, 1 - lowest)).mean()
    assert value(NegativeLogLikelihood(C, eps=lowest), proba, target) == pytest.approx(expected, rel=1e-12)


def test_two_classes_have_the_binary_numbers() -> None:
    logits, target, _ = drawn(1)
    p, truth = logits[:, 0].sigmoid().double(), (target == 0).long()
    both = torch.stack((1 - p, p), 1)
    for one, two in (
        (BrierScore(), BrierScore(2, scale_by_half=True)),
        (BrierSkillScore(), BrierSkillScore(2)),
        (NegativeLogLikelihood(), NegativeLogLikelihood(2)),
    ):
        assert value(one, p, truth) == pytest.approx(value(two, both, truth), rel=1e-12)


def test_logits_far_from_0_lose_nothing() -> None:
    metric = NegativeLogLikelihood(activation="sigmoid")
    assert value(metric, torch.tensor([-800.0, 800.0]), torch.tensor([1, 0])) == 800
    assert value(NegativeLogLikelihood(2), torch.tensor([[0.0, 1000.0]]), torch.tensor([0])) == 1000
    tiny = value(NegativeLogLikelihood(activation="sigmoid"), torch.tensor([20.0]), torch.tensor([1]))
    assert tiny == pytest.approx(math.log1p(math.exp(-20)), abs=2**-48)


def test_a_true_class_of_probability_0_is_infinite_unless_eps_bounds_it() -> None:
    preds, target = torch.tensor([0.0, 0.5, 1.0]), torch.tensor([1, 1, 1])
    result = fed(NegativeLogLikelihood(keep_rows=True), preds, target).result()
    assert result.values["NegativeLogLikelihood"] == math.inf and result.counts["infinite"] == 1
    assert result.with_intervals(9).intervals["NegativeLogLikelihood"].reason.startswith("the loss of a sample is inf")
    assert float(fed(NegativeLogLikelihood(), preds, target).compute()) == math.inf
    eps = 1e-6
    expected = -(math.log(eps) + math.log(0.5) + math.log1p(-eps)) / 3
    assert value(NegativeLogLikelihood(eps=eps), preds, target) == pytest.approx(expected, rel=1e-12)
    unweighted = fed(NegativeLogLikelihood(), preds, target, torch.tensor([0.0, 1.0, 1.0])).result()
    assert unweighted.values["NegativeLogLikelihood"] == pytest.approx(math.log(2) / 2)


def murphy(p: Tensor, y: Tensor, n_bins: int) -> dict[str, Fraction]:
    """The parts by their definitions, in fractions."""
    pairs = [(Fraction(a), Fraction(b)) for a, b in zip(p.double().tolist(), y.tolist())]
    edges = [k / n_bins for k in range(n_bins)]
    n, every = len(pairs), sum(b for _, b in pairs) / len(pairs)
    found = dict.fromkeys(("reliability", "resolution"), Fraction(0))
    bins: dict[int, list[tuple[Fraction, Fraction]]] = {}
    for a, b in pairs:
        bins.setdefault(sum(a >= Fraction(np.float32(edge).item()) for edge in edges), []).append((a, b))
    for held in bins.values():
        mean, rate = (sum(each) / len(held) for each in zip(*held))
        found["reliability"] += len(held) * (mean - rate) ** 2 / n
        found["resolution"] += len(held) * (rate - every) ** 2 / n
    found["uncertainty"] = every * (1 - every)
    score = sum((a - b) ** 2 for a, b in pairs) / n
    found["within_bins"] = score - (found["reliability"] - found["resolution"] + found["uncertainty"])
    return found


@pytest.mark.parametrize("n_bins", [1, 7, 10])
def test_parts_are_those_of_murphy(n_bins: int) -> None:
    for seed in seeds(3):
        generator = torch.Generator().manual_seed(seed)
        p = (torch.rand(200, generator=generator) * 64).round() / 64
        y = (torch.rand(200, generator=generator) < p).long()
        values = fed(BrierScore(n_bins=n_bins), p, y).result().values
        for name, expected in murphy(p, y, n_bins).items():
            assert values[name] == pytest.approx(float(expected), abs=1e-15), name
        total = values["reliability"] - values["resolution"] + values["uncertainty"] + values["within_bins"]
        assert total == pytest.approx(values["BrierScore"], abs=1e-15)


def test_nothing_lies_within_bins_of_equal_probabilities() -> None:
    p = torch.tensor([0.05, 0.15, 0.25, 0.95]).repeat(25)
    y = (torch.arange(100) % 7 < 3).long()
    assert fed(BrierScore(n_bins=10), p, y).result().values["within_bins"] == pytest.approx(0, abs=1e-7)


def test_parts_of_classes_add_up() -> None:
    logits, target, weight = drawn(5)
    proba = logits.softmax(1)
    values = fed(BrierScore(C, n_bins=8), proba, target, weight).result().values
    each = [fed(BrierScore(n_bins=8), proba[:, c], (target == c).long(), weight).result().values for c in range(C)]
    for name in ("BrierScore", "reliability", "resolution", "uncertainty", "within_bins"):
        assert values[name] == pytest.approx(sum(part[name] for part in each), abs=1e-12)
    assert values["skill"] == pytest.approx(1 - values["BrierScore"] / values["uncertainty"])


@pytest.mark.parametrize("kind", [BrierScore, BrierSkillScore, NegativeLogLikelihood])
@pytest.mark.parametrize("classes", [None, C])
def test_any_order_and_split_has_the_same_bits(kind: Any, classes: int | None) -> None:
    logits, target, _ = drawn(2, 3000)
    preds, truth = (logits.softmax(1), target) if classes else (logits[:, 0].sigmoid(), target % 2)
    whole, parts = fed(kind(classes), preds, truth), kind(classes)
    for rows in torch.randperm(3000, generator=torch.Generator().manual_seed(0)).split(313):
        parts.update(preds[rows], truth[rows])
    assert whole.result().values == parts.result().values


@pytest.mark.parametrize("kind", [BrierScore, BrierSkillScore, NegativeLogLikelihood])
def test_ignored_rows_are_left_out_whatever_they_hold(kind: Any) -> None:
    logits, target, weight = drawn(4)
    target[::7] = -1
    logits[::7] = 1e30
    left = target != -1
    for w in (None, weight):
        whole = fed(kind(C, ignore_index=-1, activation="softmax"), logits, target, w).result()
        rest = fed(kind(C, activation="softmax"), logits[left], target[left], None if w is None else w[left]).result()
        assert dict(whole.values) == pytest.approx(dict(rest.values), rel=1e-12)
        assert whole.counts["ignored"] == int((~left).sum())


def test_maps_are_rows() -> None:
    logits, target, _ = drawn(6, 24)
    maps = logits.reshape(2, 3, 4, C).movedim(-1, 1)
    for kind in (BrierScore, NegativeLogLikelihood):
        flat = fed(kind(C), logits, target).result().values
        assert fed(kind(C), maps, target.reshape(2, 3, 4)).result().values == flat


def test_intervals_hold_the_spread_of_the_mean() -> None:
    logits, target, _ = drawn(8, 500)
    for kind in (BrierScore, NegativeLogLikelihood):
        metric = fed(kind(C, keep_rows=True, ignore_index=-1), logits, target)
        metric.update(logits[:3], torch.full((3,), -1))
        losses = metric.state().losses[:500].numpy()
        interval = metric.result(intervals=Bootstrap(400)).intervals[kind.__name__]
        assert interval.low < losses.mean() < interval.high
        assert interval.standard_error == pytest.approx(losses.std() / 500**0.5, rel=0.2)
        with pytest.raises(InputError, match=r"make the metric with \w+\(keep_rows=True\)"):
            fed(kind(C), logits, target).result(intervals=9)
        metric.update(logits, target, torch.full((500,), 0.5))
        with pytest.raises(InputError, match="rows of equal weight"):
            metric.result(intervals=9)


def test_intervals_of_the_skill_and_not_of_parts_of_bins() -> None:
    logits, target, _ = drawn(8, 500)
    found = fed(BrierSkillScore(C, keep_rows=True), logits, target).result(intervals=100)
    interval = found.intervals["BrierSkillScore"]
    assert interval.low < found.values["BrierSkillScore"] < interval.high
    assert found.intervals["uncertainty"].low < found.values["uncertainty"]
    assert found.intervals["reliability"].reason and found.intervals["within_bins"].reason
    many = BrierScore(70, keep_rows=True)
    many.update(torch.rand(50, 70).softmax(1), torch.arange(50))
    assert many.result(intervals=9).intervals["skill"].reason.startswith("its intervals are made of at most 64")


@pytest.mark.parametrize("kind", [BrierScore, BrierSkillScore, NegativeLogLikelihood])
def test_nothing_seen_is_nan_with_a_reason(kind: Any) -> None:
    result = kind().result()
    assert math.isnan(result.values[kind.__name__]) and result.reason(kind.__name__) == "no sample has weight"
    ignored = fed(kind(ignore_index=1), torch.tensor([0.5]), torch.tensor([1]))
    assert math.isnan(float(ignored.compute()))


def test_a_skill_needs_two_classes() -> None:
    metric = fed(BrierSkillScore(), torch.tensor([0.5, 0.75]), torch.tensor([1, 1]))
    assert math.isnan(float(metric.compute()))
    assert metric.result().reason("BrierSkillScore") == "every sample is of one class"


PROBABILITY = r"preds\[1\] must hold probabilities from 0 to 1, or logits, and no NaN"


@pytest.mark.parametrize("kind", [BrierScore, BrierSkillScore, NegativeLogLikelihood])
@pytest.mark.parametrize(
    ("choices", "preds", "target", "message"),
    [
        ({}, torch.tensor([0.5, math.nan]), torch.tensor([0, 1]), PROBABILITY),
        ({"activation": "none"}, torch.tensor([0.5, 1.5]), torch.tensor([0, 1]), PROBABILITY),
        ({"activation": "none"}, torch.tensor([0.5, -0.5]), torch.tensor([0, 1]), PROBABILITY),
        ({"num_classes": 2}, torch.tensor([[0.5, 0.5], [math.nan, 1]]), torch.tensor([0, 1]), PROBABILITY),
        ({"num_classes": 2}, torch.tensor([[0.5, 0.5], [math.inf, 1]]), torch.tensor([0, 1]), PROBABILITY),
        ({}, torch.tensor([0.5, 0.5]), torch.tensor([0, 2]), r"target\[1\] must be 0 or 1"),
        ({"num_classes": 2}, torch.rand(2, 2), torch.tensor([0, 2]), r"target\[1\] must be a class index from 0 to 1"),
        ({}, torch.tensor([0, 1]), torch.tensor([0, 1]), "preds must be scores of a floating dtype"),
    ],
)
def test_bad_values_change_nothing(kind: Any, choices: Any, preds: Tensor, target: Tensor, message: str) -> None:
    metric = kind(**choices)
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)
    assert not metric.sums.any() and not metric.seen.any()


@pytest.mark.parametrize(
    ("kind", "choices", "message"),
    [
        (BrierScore, dict(n_bins=0), "n_bins must be an int of at least 1 but got 0"),
        (BrierScore, dict(scale_by_half=True), "scale_by_half must be False without num_classes"),
        (BrierScore, dict(num_classes=3, scale_by_half=1), "scale_by_half must be bool but got int"),
        (BrierScore, dict(num_classes=True), "num_classes must be an int of at least 2 but got True"),
        (NegativeLogLikelihood, dict(eps=0.5), "eps must be a number from 0 to below 0.5 but got 0.5"),
        (NegativeLogLikelihood, dict(eps="small"), "eps must be a number from 0 to below 0.5 but got 'small'"),
        (NegativeLogLikelihood, dict(keep_rows=1), "keep_rows must be bool but got int"),
    ],
)
def test_arguments_out_of_range(kind: Any, choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**choices)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("sums", torch.tensor([0.0, 0.0, -1.0, 0.0]).double(), r"sums\[2\] must be a sum of losses or weights"),
        ("sums", torch.tensor([math.nan, 0.0, 1.0, 0.0]).double(), r"sums\[0\] must be a sum"),
        ("losses", torch.tensor([0.5, -0.5]).double(), r"losses\[1\] must be at least 0"),
        ("losses", torch.tensor([0.5]).double(), "losses must have 2 rows"),
        ("target", torch.tensor([0, 2]), r"target\[1\] must be a class index from 0 to 1"),
        ("bins", torch.full((3, 1, 16), -1.0).double(), r"bins\[0, 0, 0\] must be from 0"),
    ],
)
def test_damaged_states_are_refused(field: str, value: Tensor, message: str) -> None:
    metric = fed(BrierScore(keep_rows=True), torch.tensor([0.5, 0.25]), torch.tensor([0, 1]))
    with pytest.raises(InputError, match=message):
        BrierScore(keep_rows=True).merge_state({**metric.metric_state, field: value})
