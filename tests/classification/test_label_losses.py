"""Brier scores and log losses of several labels: those of scikit-learn for each label, averaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.fuzz import seeds
from valor_gpu.classification import BrierScore, BrierSkillScore, NegativeLogLikelihood
from valor_gpu.errors import InputError

sk = pytest.importorskip("sklearn.metrics")
LABELS = 3
KINDS = (BrierScore, NegativeLogLikelihood)


def drawn(seed: int, rows: int = 60, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    probabilities = torch.rand((rows, LABELS), generator=generator, dtype=torch.float64).to(dtype)
    target = (torch.rand((rows, LABELS), generator=generator) < torch.tensor([0.2, 0.5, 0.7])).long()
    return probabilities, target, torch.rand(rows, generator=generator, dtype=torch.float64)


def fed(kind: Any, *batch: Any, **choices: Any) -> Any:
    metric = kind(num_labels=LABELS, **choices)
    metric.update(*batch)
    return metric


def theirs(kind: Any, target: Any, probabilities: Any, weight: Any = None) -> float:
    if kind is BrierScore:
        return float(sk.brier_score_loss(target, probabilities, sample_weight=weight))
    return float(sk.log_loss(target, probabilities, labels=[0, 1], sample_weight=weight))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(2))
def test_labels_and_averages_are_those_of_scikit_learn(kind: Any, seed: int) -> None:
    p, t, w = (side.numpy() for side in drawn(seed))
    for weight in (None, w):
        each = np.array([theirs(kind, t[:, k], p[:, k], weight) for k in range(LABELS)])
        mass = np.ones(len(t)) if weight is None else weight
        positives = (t * mass[:, None]).sum(0)
        pooled = theirs(kind, t.ravel(), p.ravel(), np.repeat(mass, LABELS))
        expected = {"macro": each.mean(), "weighted": (each * positives).sum() / positives.sum(), "micro": pooled}
        for average, number in expected.items():
            metric = fed(kind, p, t, weight, average=average)
            assert float(metric.compute()) == pytest.approx(number, rel=1e-6)
            values = metric.result().values
            assert values[kind.__name__] == pytest.approx(number, rel=1e-12)
            assert values["per_class"] == pytest.approx(each, rel=1e-12)
        alone = fed(kind, p, t, weight, average="none")
        assert alone.compute().numpy() == pytest.approx(each, rel=1e-6)
        assert kind.__name__ not in alone.result().values


@pytest.mark.parametrize("kind", [*KINDS, BrierSkillScore])
def test_a_label_has_the_numbers_of_the_binary_task(kind: Any) -> None:
    logits, target = torch.randn(50, LABELS, generator=torch.Generator().manual_seed(3)) * 3, drawn(3, 50)[1]
    target[::7, 1] = -1
    by_label = fed(kind, logits, target, average="none", ignore_index=-1).result()
    for k in range(LABELS):
        binary = kind(ignore_index=-1)
        binary.update(logits[:, k], target[:, k])
        assert by_label.values["per_class"][k] == binary.result().values[kind.__name__]
    assert by_label.counts["ignored"] == 8
    if kind is BrierScore:
        for name in ("skill", "reliability", "resolution", "uncertainty", "within_bins"):
            assert by_label.values[name][2] == binary.result().values[name]


@pytest.mark.parametrize("kind", KINDS)
def test_no_order_nor_split_changes_a_bit(kind: Any) -> None:
    preds, target, _ = drawn(5, 300, torch.float32)
    whole, parts = fed(kind, preds, target, keep_rows=True), kind(num_labels=LABELS, keep_rows=True)
    for rows in torch.randperm(300, generator=torch.Generator().manual_seed(1)).split(77):
        parts.update(preds[rows], target[rows])
    assert torch.equal(whole.state().sums, parts.state().sums)
    maps = kind(num_labels=LABELS)
    maps.update(*(side.view(30, 10, LABELS).movedim(2, 1) for side in (preds, target)))
    assert torch.equal(whole.state().sums, maps.state().sums)


def test_micro_is_the_binary_task_of_all_elements() -> None:
    preds, target, _ = drawn(2)
    target[4, 0] = -1
    for kind in (*KINDS, BrierSkillScore):
        pooled = kind(ignore_index=-1)
        pooled.update(preds, target)
        values = fed(kind, preds, target, average="micro", ignore_index=-1).result().values
        assert {name: values[name] for name in pooled.result().values} == pooled.result().values


def test_labels_without_samples_or_of_one_class() -> None:
    target = torch.tensor([[1, -1, 1], [0, -1, 1]])
    preds = torch.full((2, 3), 0.25)
    result = fed(BrierScore, preds, target, ignore_index=-1).result()
    assert result.values["BrierScore"] == (0.3125 + 0.5625) / 2
    assert np.isnan(result.values["per_class"]).tolist() == [False, True, False]
    assert str(result.reason("per_class")).startswith("a label has no sample with weight")
    skills = fed(BrierSkillScore, preds, target, ignore_index=-1, average="none")
    assert skills.compute().isnan().tolist() == [False, True, True]
    assert fed(NegativeLogLikelihood, preds[:0], target[:0]).compute().isnan()
    assert fed(BrierScore, preds[:0], target[:0], average="none").result().reason("per_class") == "no sample has weight"


def test_intervals_of_labels() -> None:
    preds, target, weight = drawn(1, 200)
    made = fed(BrierScore, preds, target, keep_rows=True).result(intervals=200)
    assert made.intervals["BrierScore"].low < made.values["BrierScore"] < made.intervals["BrierScore"].high
    assert made.intervals["per_class/0"].low < made.values["per_class"][0]
    assert "parts of the scores" in made.intervals["skill"].reason
    skills = fed(BrierSkillScore, preds, target, keep_rows=True).result(intervals=50).intervals
    assert skills["BrierScore"].low < skills["BrierScore"].high
    assert all("parts of the scores" in skills[name].reason for name in ("BrierSkillScore", "per_class/2"))
    by_positives = fed(NegativeLogLikelihood, preds, target, keep_rows=True, average="weighted").result(intervals=50)
    assert "average='macro'" in by_positives.intervals["NegativeLogLikelihood"].reason
    infinite = fed(NegativeLogLikelihood, preds.round(), target, keep_rows=True).result(intervals=50)
    assert "eps bounds it" in infinite.intervals["per_class/1"].reason
    with pytest.raises(InputError, match="equal weight"):
        fed(BrierScore, preds, target, weight, keep_rows=True).result(intervals=50)
    with pytest.raises(InputError, match="without an ignored element"):
        fed(BrierScore, preds, target, keep_rows=True, ignore_index=0).result(intervals=50)
    with pytest.raises(InputError, match="keep_rows=True"):
        fed(BrierScore, preds, target).result(intervals=50)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_values_are_refused(kind: Any) -> None:
    metric = kind(num_labels=LABELS, activation="none", ignore_index=-1)
    preds, target, weight = drawn(0, 4)
    bad = preds.clone()
    bad[2, 1] = torch.nan
    with pytest.raises(InputError, match=r"preds\[2\] must hold probabilities"):
        metric.update(bad, target)
    left_out = target.clone()
    left_out[2, 1] = -1
    metric.update(bad, left_out)
    target[3, 0] = 2
    with pytest.raises(InputError, match=r"target\[3, 0\] must be 0 or 1"):
        metric.update(preds, target)
    weight[1] = -1
    with pytest.raises(InputError, match=r"sample_weight\[1\] must be from 0"):
        metric.update(preds, left_out, weight)
    assert metric.result().counts["samples"] == 4


def test_arguments_that_do_not_fit() -> None:
    with pytest.raises(InputError, match="average must be"):
        BrierScore(num_labels=2, average="mean")
    with pytest.raises(InputError, match="exclude each other"):
        NegativeLogLikelihood(2, num_labels=2)
    with pytest.raises(InputError, match="scale_by_half must be False"):
        BrierScore(num_labels=2, scale_by_half=True)
