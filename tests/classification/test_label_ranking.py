"""Rankings of labels: equal to scikit-learn, with ties, weights and ignored elements, and to torchmetrics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.classification as tm
from torch import Tensor
from torchmetrics import MetricCollection

from valor_gpu import classification
from valor_gpu.classification import MultilabelCoverageError, MultilabelRankingLoss
from valor_gpu.errors import InputError

PEERS = {
    "MultilabelCoverageError": sk.coverage_error,
    "MultilabelRankingAveragePrecision": sk.label_ranking_average_precision_score,
    "MultilabelRankingLoss": sk.label_ranking_loss,
}
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


def batch_of(seed: int, levels: int, rows: int = 50, labels: int = 6) -> tuple[Tensor, Tensor]:
    """Scores with ties where there are few ``levels``; the first rows have no and only relevant labels."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(levels, (rows, labels), generator=generator) / 8 - 2
    target = torch.randint(2, (rows, labels), generator=generator)
    target[0], target[1] = 0, 1
    return scores, target


def value(name: str, labels: int, *batches: Any, **choices: Any) -> float:
    metric = getattr(classification, name)(labels, **choices)
    for batch in batches:
        metric.update(*batch)
    found: float = metric.result().values[name]
    assert float(metric.compute()) == pytest.approx(found, abs=1e-6)
    return found


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("levels", [2, 5, 1000])
@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_equal_scikit_learn(name: str, levels: int, dtype: torch.dtype) -> None:
    for seed in range(3):
        scores, target = batch_of(seed, levels)
        scores = scores.to(dtype)
        expected = PEERS[name](target.numpy(), scores.double().numpy())
        assert value(name, 6, (scores[:7], target[:7]), (scores[7:], target[7:])) == pytest.approx(expected, abs=1e-12)
        weight = torch.rand(50, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        expected = PEERS[name](target.numpy(), scores.double().numpy(), sample_weight=weight.numpy())
        assert value(name, 6, (scores, target, weight)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", PEERS)
def test_numbers_equal_torchmetrics(name: str) -> None:
    scores = torch.rand(40, 5, generator=torch.Generator().manual_seed(0))
    target = torch.randint(2, (40, 5), generator=torch.Generator().manual_seed(1))
    theirs, ours = getattr(tm, name)(num_labels=5), getattr(classification, name)(num_labels=5)
    theirs.update(scores, target)
    ours.update(scores, target)
    torch.testing.assert_close(ours.compute(), theirs.compute(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", PEERS)
def test_ignored_elements_are_left_out(name: str) -> None:
    """A sample with ignored elements is as one that has not these labels, infinite scores or not."""
    scores, target = batch_of(3, 6)
    scores[2:9, 0] = -math.inf
    target[torch.rand(50, 6, generator=torch.Generator().manual_seed(5)) < 0.3] = -1
    rows = []
    for row, meant in zip(scores, target):
        kept = meant >= 0
        if int(kept.sum()) > 1:
            finite = row[kept].clamp(min=-1e9).double().numpy()
            rows.append(PEERS[name](meant[kept][None].numpy(), finite[None]))
        elif kept.any():
            single = float(meant[kept])
            rows.append({"MultilabelCoverageError": single, "MultilabelRankingLoss": 0.0}.get(name, 1.0))
    assert value(name, 6, (scores, target), ignore_index=-1) == pytest.approx(np.mean(rows), abs=1e-12)


def test_results_count_what_is_left_out() -> None:
    metric = MultilabelCoverageError(2, ignore_index=-1)
    metric.update(torch.rand(3, 2), torch.tensor([[-1, -1], [1, -1], [0, 1]]))
    assert metric.result().counts == {"samples": 3, "ignored": 3, "all_ignored": 1}
    empty = MultilabelRankingLoss(2)
    empty.update(torch.empty(0, 2), torch.empty(0, 2, dtype=torch.long))
    assert math.isnan(float(empty.compute()))
    assert empty.result().reason("MultilabelRankingLoss") == "no sample has weight"


def test_positions_are_samples_and_one_update_serves_all() -> None:
    scores, target = batch_of(4, 9, rows=60)
    together = MetricCollection([getattr(classification, name)(6) for name in PEERS])
    together.update(scores.view(10, 6, 6).movedim(2, 1), target.view(10, 6, 6).movedim(2, 1))
    assert len(together.compute_groups) == 1
    for name, peer in PEERS.items():
        assert float(together.compute()[name]) == pytest.approx(peer(target.numpy(), scores.numpy()), abs=1e-6)


@pytest.mark.parametrize(
    ("preds", "target", "message"),
    [
        (torch.tensor([[0.5, math.nan]]), torch.tensor([[1, 0]]), "NaN"),
        (torch.tensor([[0.5, 0.25]]), torch.tensor([[1, 2]]), "target"),
        (torch.tensor([[1, 0]]), torch.tensor([[1, 0]]), "preds must be scores of a floating dtype"),
        (torch.rand(1, 3), torch.tensor([[1, 0, 0]]), r"shape \[N, 2, ...\]"),
    ],
)
def test_wrong_batches_raise_and_change_nothing(preds: Tensor, target: Tensor, message: str) -> None:
    metric = MultilabelRankingLoss(2)
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)
    assert metric.result().counts["samples"] == 0


def test_the_number_of_labels_is_needed() -> None:
    for name in PEERS:
        with pytest.raises(InputError, match="num_labels must be an int of at least 1 but got None"):
            getattr(classification, name)(None)
