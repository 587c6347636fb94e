"""CalibrationError: by its definition; equal to torchmetrics with its bin of 1; the same bits for any order."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import torch
import torchmetrics.classification as tm
from torch import Tensor

from valor_gpu.classification.calibration import CalibrationError
from valor_gpu.errors import InputError

mpl.use("Agg")

C = 4


def scores(seed: int, rows: int = 200, classes: int = C) -> tuple[Tensor, Tensor]:
    """Logits of a confident model, some confidences exactly 1."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, classes, generator=generator) * 4
    logits[::20, 0] += 200
    return logits, torch.randint(classes, (rows,), generator=generator)


def fed(metric: Any, *batch: Any) -> Any:
    metric.update(*batch)
    return metric


@pytest.mark.parametrize("norm", ["l1", "max", "l2"])
@pytest.mark.parametrize("n_bins", [1, 10, 15])
@pytest.mark.parametrize("ignore_index", [None, 1, -1])
@pytest.mark.parametrize("softmaxed", [False, True])
def test_equals_torchmetrics(norm: str, n_bins: int, ignore_index: int | None, softmaxed: bool) -> None:
    choices = dict(n_bins=n_bins, norm=norm, ignore_index=ignore_index)
    own = dict(choices, separate_ones=True)
    for seed in range(2):
        logits, target = scores(seed)
        preds = logits.softmax(1) if softmaxed else logits
        if ignore_index == -1:
            target[::7] = -1
        found = fed(CalibrationError(C, **own), preds, target).compute()
        expected = fed(tm.MulticlassCalibrationError(C, **choices), preds, target).compute()
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-6)
        one, truth = preds[:, 0], torch.where(target >= 0, target == 0, target).long()
        found = fed(CalibrationError(**own), one, truth).compute()
        expected = fed(tm.BinaryCalibrationError(**choices), one, truth).compute()
        torch.testing.assert_close(found, expected.float(), rtol=0, atol=2e-6)


@pytest.mark.parametrize("n_bins", [4, 5, 10])
def test_edges_hit_exactly(n_bins: int) -> None:
    confidence = torch.arange(101) / 100
    truth = torch.arange(101) % 3 // 2
    for dtype in (torch.float32, torch.float64):
        metric = CalibrationError(n_bins=n_bins, norm="max", separate_ones=True)
        found = fed(metric, confidence.to(dtype), truth).compute()
        expected = fed(tm.BinaryCalibrationError(n_bins=n_bins, norm="max"), confidence.to(dtype), truth).compute()
        torch.testing.assert_close(found, expected.float(), rtol=0, atol=2e-6)


def by_histogram(confidence: Tensor, right: Tensor, n_bins: int, norm: str) -> float:
    """The error by the definition, over the bins of ``numpy.histogram``, the last of which is closed."""
    p, hits = confidence.double().numpy(), right.double().numpy()
    edges = np.histogram(p, n_bins, (0.0, 1.0))[1].astype(confidence.float().numpy().dtype)
    gaps, shares = [], []
    for k, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist())):
        inside = (p >= low) & ((p < high) | ((k == n_bins - 1) & (p == high)))
        if inside.any():
            gaps.append(abs(hits[inside].mean() - p[inside].mean()))
            shares.append(inside.mean())
    if norm == "max":
        return float(max(gaps))
    power = {"l1": 1, "l2": 2}[norm]
    return float(np.dot(np.power(gaps, power), shares) ** (1 / power))


@pytest.mark.parametrize("norm", ["l1", "max", "l2"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("n_bins", [1, 10, 15])
def test_confidences_that_saturate_belong_to_the_last_bin(norm: str, dtype: torch.dtype, n_bins: int) -> None:
    """Half precision rounds what is close to 1 to it, in the small updates of the C++ library and in others."""
    logits, target = scores(3)
    for probabilities in (logits.softmax(1).to(dtype), logits.to(dtype).softmax(1)):
        assert (probabilities.amax(1) == 1).any()
        hits = probabilities.argmax(1) == target
        expected = by_histogram(probabilities.amax(1), hits, n_bins, norm)
        for weight in (None, torch.ones(len(target))):
            metric = fed(CalibrationError(C, n_bins=n_bins, norm=norm), probabilities, target, weight)
            assert float(metric.compute()) == pytest.approx(expected, abs=1e-6)
        one, truth = probabilities[:, 0], (target == 0).long()
        expected = by_histogram(one, truth, n_bins, norm)
        result = fed(CalibrationError(n_bins=n_bins, norm=norm), one, truth).result()
        assert result.values["CalibrationError"] == pytest.approx(expected, abs=1e-6)
        assert len(result.values["count"]) == n_bins and result.values["count"].sum() == len(one)


def test_where_a_confidence_of_one_belongs_is_no_matter_of_the_state() -> None:
    preds, target = torch.tensor([0.95, 1.0]), torch.tensor([1, 0])
    theirs, ours = CalibrationError(n_bins=10, separate_ones=True), CalibrationError(n_bins=10)
    theirs.update(preds, target)
    ours.merge_state(theirs.to_bytes())
    assert float(theirs.compute()) == pytest.approx(0.525) and float(ours.compute()) == pytest.approx(0.475)
    assert "separate_ones:yes" in str(theirs.result().signature)
    assert "separate_ones" not in str(ours.result().signature)
    assert float(ours.result().values["maximum_error"]) == pytest.approx(0.475)


def test_documented_examples_of_torchmetrics() -> None:
    preds, target = torch.tensor([0.25, 0.25, 0.55, 0.75, 0.75]), torch.tensor([0, 0, 1, 1, 1])
    for norm, expected in (("l1", 0.29), ("l2", 0.2918), ("max", 0.3167)):
        value = float(fed(CalibrationError(n_bins=2, norm=norm), preds, target).compute())
        assert value == pytest.approx(expected, abs=5e-5)
    preds = torch.tensor([[0.25, 0.20, 0.55], [0.55, 0.05, 0.40], [0.10, 0.30, 0.60], [0.90, 0.05, 0.05]])
    target = torch.tensor([0, 1, 2, 0])
    for norm, expected in (("l1", 0.2), ("l2", 0.2082), ("max", 0.2333)):
        value = float(fed(CalibrationError(3, n_bins=3, norm=norm), preds, target).compute())
        assert value == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_reliability_data_by_hand(dtype: torch.dtype, weighted: bool) -> None:
    preds = torch.tensor([0.25, 0.375, 0.5, 0.75, 1.0, 0.875]).to(dtype)
    weight = torch.tensor([1.0, 3.0, 1.0, 1.0, 2.0, 5.0]) if weighted else None
    target = torch.tensor([0, 1, 1, 0, 1, -1])
    metric = fed(CalibrationError(n_bins=4, ignore_index=-1, separate_ones=True), preds, target, weight)
    result = metric.result()
    values = result.values
    assert values["bin_lower"].tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert values["bin_upper"].tolist() == [0.25, 0.5, 0.75, 1, 1]
    w = [1, 3, 1, 1, 2] if weighted else [1, 1, 1, 1, 1]
    assert values["count"].tolist() == [0, w[0] + w[1], w[2], w[3], w[4]]
    assert values["accuracy"][1:].tolist() == [w[1] / (w[0] + w[1]), 1, 0, 1]
    low = (0.25 * w[0] + 0.375 * w[1]) / (w[0] + w[1])
    assert values["confidence"][1:].tolist() == [low, 0.5, 0.75, 1] and math.isnan(values["confidence"][0])
    gaps = [abs(w[1] / (w[0] + w[1]) - low), 0.5, 0.75, 0]
    counts = [w[0] + w[1], w[2], w[3], w[4]]
    assert values["expected_error"] == pytest.approx(np.average(gaps, weights=counts), abs=1e-15)
    assert values["maximum_error"] == 0.75
    assert values["root_mean_square_error"] == pytest.approx(np.average(np.square(gaps), weights=counts) ** 0.5)
    assert values["CalibrationError"] == values["expected_error"]
    assert dict(result.counts) == {"samples": 6, "ignored": 1}
    assert result.reason("confidence") == "no sample has such a confidence"
    assert "n_bins:4|norm:l1" in str(result.signature)


def test_any_order_has_the_same_bits() -> None:
    """Scores over many powers of two, whose float64 sums depend on their order unless they are rounded alike."""
    generator = torch.Generator().manual_seed(0)
    preds = torch.exp2(-30 * torch.rand(5000, generator=generator))
    target = torch.randint(2, (5000,), generator=generator)
    whole, parts = fed(CalibrationError(), preds, target), CalibrationError()
    for rows in torch.randperm(5000, generator=generator).split(313):
        parts.update(preds[rows], target[rows])
    assert torch.equal(whole.confidence, parts.confidence)
    assert whole.result().values["expected_error"] == parts.result().values["expected_error"]


def test_confidences_are_rounded_to_float32_below_1_and_no_further() -> None:
    """In [1 / 2, 1) a float32 is a multiple of 2^-24; finer float64 goes to the nearest multiple."""
    step = 2.0**-24
    for confidence in (0.5 + step, 0.75 - 3 * step, 1 - step):
        metric = fed(CalibrationError(n_bins=1), torch.tensor([confidence]), torch.tensor([1]))
        assert metric.result().values["confidence"][0] == confidence
    for confidence, rounded in ((0.5 + 1.25 * step, 0.5 + step), (0.5 + 1.75 * step, 0.5 + 2 * step), (step / 4, 0.0)):
        metric = fed(CalibrationError(n_bins=1), torch.tensor([confidence], dtype=torch.float64), torch.tensor([1]))
        assert metric.result().values["confidence"][0] == rounded


def test_further_dimensions() -> None:
    logits, target = scores(0, rows=24)
    image = logits.reshape(2, 3, 4, C).movedim(-1, 1)
    flat = fed(CalibrationError(C), logits, target).compute()
    assert torch.equal(fed(CalibrationError(C), image, target.reshape(2, 3, 4)).compute(), flat)


@pytest.mark.parametrize("norm", ["l1", "max", "l2"])
def test_nothing_seen_is_nan_with_a_reason(norm: str) -> None:
    metric = CalibrationError(norm=norm)
    result = metric.result()
    assert math.isnan(result.values["CalibrationError"]) and result.reason("CalibrationError")
    metric.update(torch.rand(0), torch.zeros(0, dtype=torch.long))
    assert math.isnan(float(metric.compute()))


PROBABILITY = r"preds\[1\] must hold probabilities from 0 to 1, or logits, and no NaN"


@pytest.mark.parametrize(
    ("metric", "preds", "target", "message"),
    [
        (CalibrationError(), torch.tensor([0.5, math.nan]), torch.tensor([0, 1]), PROBABILITY),
        (CalibrationError(activation="none"), torch.tensor([0.5, 1.5]), torch.tensor([0, 1]), PROBABILITY),
        (CalibrationError(activation="none"), torch.tensor([0.5, -0.5]), torch.tensor([0, 1]), PROBABILITY),
        (CalibrationError(2), torch.tensor([[0.5, 0.5], [math.nan, 1]]), torch.tensor([0, 1]), PROBABILITY),
        (CalibrationError(), torch.tensor([0.5, 0.5]), torch.tensor([0, 2]), r"target\[1\] must be 0 or 1"),
        (CalibrationError(2), torch.rand(2, 2), torch.tensor([0, 2]), r"target\[1\] must be a class index from 0 to 1"),
        (CalibrationError(), torch.tensor([0, 1]), torch.tensor([0, 1]), "preds must be scores of a floating dtype"),
    ],
)
def test_bad_values_change_nothing(metric: Any, preds: Tensor, target: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)
    assert not metric.count.any() and not metric.seen.any()


def test_bad_weights() -> None:
    with pytest.raises(InputError, match=r"sample_weight\[0\] must be from 0 to 1e60"):
        CalibrationError().update(torch.rand(1), torch.tensor([1]), torch.tensor([-1.0]))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        (dict(norm="l3"), "norm must be one of 'l1', 'max', 'l2' but got 'l3'"),
        (dict(n_bins=0), "n_bins must be an int of at least 1 but got 0"),
        (dict(separate_ones=1), "separate_ones must be bool but got int"),
    ],
)
def test_arguments_out_of_range(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CalibrationError(**choices)


def test_plot() -> None:
    axes = fed(CalibrationError(C), *scores(0)).result().plot()
    assert axes.get_title("left").startswith("Expected calibration error (ECE) 0.")
    assert axes.get_xlabel() == "confidence"
    assert CalibrationError().result().plot(ax=axes) is axes
    mpl.pyplot.close("all")


@pytest.mark.parametrize("top_k", [2, 3, C])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_within_the_top_k_by_definition(top_k: int, dtype: torch.dtype) -> None:
    for seed in range(2):
        logits, target = scores(seed)
        proba = (logits / 4).softmax(1).to(dtype)
        target[::7] = -1
        metric = fed(CalibrationError(C, n_bins=10, top_k=top_k, ignore_index=-1), proba, target)
        left = target != -1
        best = proba.double().sort(dim=1, descending=True, stable=True)  # of equal ones the lower class
        confidence = best.values[:, :top_k].sum(1)[left].clamp(max=1).float()
        hits = (best.indices[:, :top_k] == target[:, None]).any(1)[left]
        assert float(metric.compute()) == pytest.approx(by_histogram(confidence, hits, 10, "l1"), abs=1e-6)
        assert "top_k:" in str(metric.result().signature)
    if top_k == C:
        assert float(metric.compute()) == pytest.approx(0, abs=1e-3)


def test_the_top_1_is_what_was_there() -> None:
    logits, target = scores(1)
    assert torch.equal(
        fed(CalibrationError(C, top_k=1), logits, target).compute(), fed(CalibrationError(C), logits, target).compute()
    )
    with pytest.raises(InputError, match="top_k must be an int from 1 to 1 in the binary task but got 2"):
        CalibrationError(top_k=2)
    with pytest.raises(InputError, match="top_k must be an int from 1 to 4 in the multiclass task but got 5"):
        CalibrationError(C, top_k=5)
    for preds in (torch.tensor([[0.9, 0.8, 0.1]]), torch.tensor([[0.9, math.nan, 0.1]])):
        with pytest.raises(InputError, match=r"preds\[0\] must hold probabilities"):
            CalibrationError(3, top_k=2, activation="none").update(preds, torch.tensor([0]))
