"""What is too large for memory or for 32 bits is an error that says so, never a wrong number."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from valor_gpu.classification import Accuracy, ConfusionMatrix, MatthewsCorrCoef
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError
from valor_gpu.ops import match_batch, score_histogram
from valor_gpu.ops.assign import assign
from valor_gpu.ops.labels import top_classes
from valor_gpu.ops.match_batch import MatchBatch, MatchRule
from valor_gpu.text import rouge_scores, tokens


def wide(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of any shape; a large one in the memory of one element, for no kernel."""
    element = torch.zeros(1, dtype=dtype).expand(shape)
    return element if element.numel() > 1000 else element.clone()


def test_a_matrix_that_no_memory_holds() -> None:
    for metric in (ConfusionMatrix, MatthewsCorrCoef):
        with pytest.raises(InputError, match="10000000 classes need 745,058 GiB and this machine"):
            metric(num_classes=10_000_000)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state:UserWarning")
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr"])
def test_sparse_tensors(layout: str) -> None:
    scores, target = torch.eye(3), torch.eye(3, dtype=torch.long)
    with pytest.raises(InputError, match=r"preds must be a dense tensor but is torch\.sparse_"):
        Accuracy(num_labels=3).update(getattr(scores, layout)(), target)
    with pytest.raises(InputError, match=r"target must be a dense tensor but is torch\.sparse_"):
        Accuracy(num_labels=3).update(scores, getattr(target, layout)())
    boxes = dict(boxes=getattr(torch.ones(1, 4), layout)(), scores=torch.ones(1), labels=torch.zeros(1).long())
    target_boxes = dict(boxes=torch.ones(1, 4), labels=torch.zeros(1).long())
    with pytest.raises(InputError, match=r"preds\[0\]\['boxes'\] must be a dense tensor but is torch.sparse_"):
        MeanAveragePrecision().update([boxes], [target_boxes])


def test_weights_whose_sum_would_overflow() -> None:
    metric = Accuracy(num_classes=3)
    with pytest.raises(InputError, match=r"sample_weight\[1\] must be from 0 to 1e60"):
        metric.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]), torch.tensor([1.0, 1e308, 1e308]).double())
    largest = torch.tensor([1e60, 1e60, 1e60], dtype=torch.float64)
    metric.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]), largest)
    assert float(metric.compute()) == pytest.approx(2 / 3)
    correlation = MatthewsCorrCoef(num_classes=3)
    correlation.update(torch.tensor([0, 1, 2]), torch.tensor([0, 1, 1]), largest)
    assert bool(correlation.compute().isfinite())


def test_columns_and_thresholds_beyond_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="scores must have at most 2147483647 columns but has 2147483648"):
        top_classes(wide(1, 2**31))
    grid = wide(2**25 + 1, dtype=torch.float64)
    with pytest.raises(InputError, match="thresholds must be at most 33554432 but are 33554433"):
        score_histogram.score_histogram(torch.zeros(1, 1), torch.zeros(1, 1).long(), grid)
    slots, columns = score_histogram.MAX_THRESHOLDS + 2, 16  # csrc/cpu/sweep.cpp: kNarrow
    assert 2 * slots * columns + slots < 2**31


def test_images_beyond_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def match(*sizes: list[int]) -> Any:
        labels = [wide(sum(rows), dtype=torch.int64) for rows in sizes]
        boxes = [wide(sum(rows), 4) for rows in sizes]
        batch = MatchBatch(
            torch.tensor(sizes),
            [boxes[0]],
            [wide(sum(sizes[0]))],
            [labels[0]],
            gt_boxes=[boxes[1]],
            gt_labels=[labels[1]],
        )
        return assign(batch, MatchRule.make([0.5], [[0.0, 1e10]], [100]))

    with pytest.raises(InputError, match="at most 2147483647 detections and ground truths but one has"):
        match([3, 2**31], [1, 0])
    monkeypatch.setattr(match_batch, "MAX_ROWS", 3)
    assert len(match([2, 2], [1, 1]).images) == 2
    with pytest.raises(InputError, match="at most 3 detections and ground truths but one has 4"):
        match([2, 3], [1, 1])


def test_texts_beyond_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "MAX_CHARACTERS", 10)
    rouge_scores(["a cat"], ["a cat"])
    with pytest.raises(InputError, match="the texts of a row must have at most 10 characters but have 11"):
        rouge_scores(["a cat", "a cat"], ["a cat", "a mat."])
