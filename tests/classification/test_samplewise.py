"""``multidim_average="samplewise"``: one value for each sample, that of the sample alone and that of torchmetrics."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.classification as peers
from torch import Tensor

from valor_gpu import classification, functional
from valor_gpu.classification import AUROC, BalancedAccuracy, ExactMatch, JaccardIndex, Recall, StatScores
from valor_gpu.classification import class_counts as counting
from valor_gpu.errors import InputError, SyncError
from valor_gpu.inputs.scores import Task, score_batch
from valor_gpu.ops.error_codes import NO_ERROR

RATIOS = ("Accuracy", "Precision", "Recall", "F1Score", "FBetaScore", "Specificity", "NegativePredictiveValue",
          "HammingDistance", "StatScores")  # fmt: skip
SIZES: dict[str, dict[str, Any]] = {"Binary": {}, "Multiclass": {"num_classes": 4}, "Multilabel": {"num_labels": 3}}
SAMPLEWISE: dict[str, Any] = {"multidim_average": "samplewise"}


def batch(task: str, samples: int, seed: int, ignored: int | None = None) -> tuple[Tensor, Tensor]:
    """Scores and target of positions ``[samples, 6, 2]``; one sample and some positions of the others are ignored."""
    generator = torch.Generator().manual_seed(seed)
    shape = (samples, 3, 6, 2) if task == "Multilabel" else (samples, 6, 2)
    scores = torch.rand((samples, 4, 6, 2) if task == "Multiclass" else shape, generator=generator)
    target = torch.randint(4 if task == "Multiclass" else 2, shape, generator=generator)
    if ignored == -1:
        target[..., 0], target[0] = -1, -1
    return scores, target


def hard(task: str, scores: Tensor) -> Tensor:
    return scores.argmax(1) if task == "Multiclass" else (scores > 0.5).int()


def assert_equal(name: str, task: str, **choices: Any) -> None:
    mine, theirs = (getattr(module, task + name)(**SIZES[task], **SAMPLEWISE, **choices)
                    for module in (classification, peers))  # fmt: skip
    for seed, samples in enumerate((5, 3)):  # torchmetrics fails for a batch of one sample
        scores, target = batch(task, samples, seed, choices.get("ignore_index"))
        for preds in (scores,) if "top_k" in choices else (scores, hard(task, scores)):
            mine.update(preds, target)
            theirs.update(preds, target)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = theirs.compute()
    assert (mine.compute().dtype, mine.compute().shape) == (expected.dtype, expected.shape)
    torch.testing.assert_close(mine.compute(), expected, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", RATIOS)
@pytest.mark.parametrize("task", SIZES)
def test_ratios_equal_torchmetrics(name: str, task: str) -> None:
    given = {"beta": 0.5} if name == "FBetaScore" else {}
    averages: tuple[str | None, ...] = ("micro", "macro", "weighted", None) if task != "Binary" else (None,)
    for average, ignore_index in itertools.product(averages, (None, -1, 1)):
        if (name, task, average) == ("StatScores", "Multilabel", "weighted"):
            continue  # torchmetrics divides by the support of all samples together
        choices: dict[str, Any] = {"ignore_index": ignore_index, **given}
        choices |= {} if task == "Binary" else {"average": average}
        assert_equal(name, task, **choices)
        if task == "Multiclass":
            assert_equal(name, task, top_k=2, **choices)


@pytest.mark.parametrize("task", ["Multiclass", "Multilabel"])
def test_exact_match_equals_torchmetrics(task: str) -> None:
    for ignore_index in (None, -1):
        assert_equal("ExactMatch", task, ignore_index=ignore_index)


@pytest.mark.parametrize("kind", [Recall, StatScores, BalancedAccuracy, JaccardIndex])
@pytest.mark.parametrize("task", SIZES)
def test_each_value_is_that_of_the_sample_alone(kind: type[Any], task: str) -> None:
    average: dict[str, Any] = {} if kind is BalancedAccuracy or task == "Binary" else {"average": "weighted"}
    scores, target = batch(task, 4, 7, -1)
    weight = torch.rand(4, 6, 2, generator=torch.Generator().manual_seed(8))
    metric = kind(**SIZES[task], **SAMPLEWISE, **average, ignore_index=-1)
    metric.update(scores, target, weight)
    for index, value in enumerate(metric.compute()):
        alone = kind(**SIZES[task], **average, ignore_index=-1)
        alone.update(scores[index, None], target[index, None], weight[index, None])
        torch.testing.assert_close(value, alone.compute(), rtol=1e-5, atol=1e-7, equal_nan=True, check_dtype=False)
        for name, number in alone.result().values.items():
            np.testing.assert_allclose(metric.result().values[name][index], number, rtol=1e-9, atol=1e-12)


def test_results_say_which_samples_have_no_value() -> None:
    metric = Recall(**SAMPLEWISE)
    metric.update(torch.tensor([[1, 0, 1], [0, 1, 0]]), torch.tensor([[1, 1, 1], [0, 0, 0]]))
    assert metric.compute().tolist() == pytest.approx([2 / 3, 0])
    result = metric.result()
    assert result.values["Recall"].tolist() == pytest.approx([2 / 3, math.nan], nan_ok=True)
    assert "denominator is 0" in str(result.reason("Recall")) and result.values["tp"].tolist() == [2, 0]
    assert result.counts == {"samples": 6, "ignored": 0}
    match = ExactMatch(3, **SAMPLEWISE)
    match.update(torch.tensor([[0, 1], [2, 2]]), torch.tensor([[0, 1], [2, 1]]), torch.tensor([1.0, 0.0]))
    assert match.compute().tolist() == [1, 0] and "no sample has weight" in str(match.result().reason("ExactMatch"))


def test_samples_without_positions_and_batches_without_samples() -> None:
    metric = Recall(3, average="none", **SAMPLEWISE)
    metric.update(torch.rand(0, 3, 5), torch.zeros(0, 5).long())
    assert metric.compute().shape == (0, 3)
    metric.update(torch.rand(2, 3, 0), torch.zeros(2, 0).long())
    assert metric.compute().tolist() == [[0, 0, 0]] * 2
    assert functional.binary_accuracy([1, 0], [1, 1], **SAMPLEWISE).tolist() == [1, 0]


@pytest.mark.parametrize("task", SIZES)
def test_bad_values_name_their_position_and_change_nothing(task: str) -> None:
    metric = Recall(**SIZES[task], **SAMPLEWISE)
    scores, target = batch(task, 2, 9)
    metric.update(scores, target)
    value = metric.compute()
    wrong = scores.clone()
    wrong.view(-1)[4] = math.nan
    with pytest.raises(InputError, match=r"preds\["):
        metric.update(wrong, target)
    with pytest.raises(InputError, match=r"target\["):
        metric.update(scores, target + 9)
    assert torch.equal(metric.compute(), value)


def test_rows_with_errors_count_nowhere_where_they_are_raised_later() -> None:
    """On CUDA the error is deferred, so that a bad class must not be counted in the next sample."""
    preds, target = torch.tensor([[2, 7], [0, 0]]), torch.tensor([[2, 2], [-5, 0]])
    counts, error = counting.count_samples(score_batch(preds, target, Task.of(num_classes=3)), 2)
    assert int(error) != NO_ERROR
    assert counts.outcomes.total.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert counts.outcomes.predicted.tolist() == [[0, 0, 1], [1, 0, 0]]


def test_arguments_are_checked() -> None:
    with pytest.raises(InputError, match=r"multidim_average must be one of .*samplewise.* but got 'samples'"):
        Recall(3, multidim_average="samples")
    with pytest.raises(InputError, match="multidim_average must be 'global' but got 'samplewise': AUROC has one value"):
        AUROC(3, **SAMPLEWISE)
    with pytest.raises(InputError, match="preds must be scores with top_k=2"):
        Recall(3, top_k=2, **SAMPLEWISE).update(torch.zeros(2, 4).long(), torch.zeros(2, 4).long())
    one, other = Recall(3), Recall(3, **SAMPLEWISE)
    with pytest.raises(SyncError, match=r"another config\.multidim_average"):
        one.merge_state(other)
