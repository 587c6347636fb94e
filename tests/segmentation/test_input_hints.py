"""Messages for the mistakes that users of segmentation metrics make: what they say must help."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from valor_gpu.errors import InputError
from valor_gpu.segmentation import (
    IOU,
    BoundaryF1,
    DiceScore,
    GeneralizedDiceScore,
    HausdorffDistance,
    MeanIoU,
    PixelConfusionMatrix,
    mIOU,
)

LABELS, LOGITS = torch.arange(24).reshape(2, 4, 3) % 3, torch.rand(2, 3, 4, 3)  # B=2, C=3, 4 x 3 pixels
PEERS = [MeanIoU, DiceScore, GeneralizedDiceScore, HausdorffDistance]


@pytest.mark.parametrize("kind", PEERS)
def test_metrics_without_ignore_index_do_not_advise_it(kind: Any) -> None:
    target = LABELS.clone()
    target[0, 0, 0] = 255
    said = r"is 255: this metric has no ignore_index, as in torchmetrics; IOU, mIOU, PixelF1 \(Dice\)"
    with pytest.raises(InputError, match=said):
        kind(3, input_format="index").update(LABELS, target)
    with pytest.raises(ValueError, match="ignore_index"):
        kind(3, input_format="index", ignore_index=255)
    with pytest.raises(InputError, match="is 255: ignore_index=255 leaves such pixels out"):
        BoundaryF1(3).update(LABELS, target)


@pytest.mark.parametrize("kind", PEERS)
def test_label_maps_with_the_default_format(kind: Any) -> None:
    with pytest.raises(InputError, match=r"\[B, 2, \.\.\.\].*got \[2, 4, 3\]: class indices need input_format='index'"):
        kind(2).update(LABELS, LABELS)
    with pytest.raises(InputError, match="must be 0 or 1 but is 2: class indices need input_format='index'"):
        kind(3).update(LABELS.reshape(1, 3, 2, 4), LABELS.reshape(1, 3, 2, 4))
    with pytest.raises(InputError, match="logits beside class indices need input_format='index'"):
        kind(3).update(LOGITS, LABELS)


@pytest.mark.parametrize(
    ("preds", "target", "said"),
    [
        (LABELS, LABELS[:, None], r"target\.squeeze\(1\) removes the channel$"),
        (LABELS[:, None], LABELS, r"preds\.squeeze\(1\) removes the channel$"),
        (LOGITS, LABELS[:, None], r"target\.squeeze\(1\) removes the channel$"),
        (LABELS, LOGITS, "are preds and target in each other's place\\?$"),
        (LOGITS[0], LABELS[0], r"one image needs preds\[None\] and target\[None\]$"),
        (LOGITS.movedim(1, -1), LABELS, r"preds\.movedim\(-1, 1\) puts the classes second$"),
        (LABELS.float(), LABELS, r"floating-point class indices need \.long\(\)"),
        (LOGITS[:, 0], LABELS, r", probabilities of a binary mask a threshold, \(preds > 0\.5\)\.long\(\)$"),
        (LOGITS[:, :1], LABELS[:, None], r", probabilities of a binary mask a threshold, \(preds > 0\.5\)\.long\(\)$"),
        (LOGITS, LOGITS.round().long(), r"one-hot maps input_format='one-hot'$"),
        (LOGITS[:, :1], LABELS, r"needs a threshold, \(preds\[:, 0\] > 0\.5\)\.long\(\), and input_format='index'$"),
        (LOGITS[..., :2], LABELS, r"torch\.int64 \[2, 4, 3\]$"),
    ],
)
def test_shapes_of_usual_mistakes(preds: torch.Tensor, target: torch.Tensor, said: str) -> None:
    with pytest.raises(InputError, match=said):
        mIOU(3).update(preds, target)


def test_the_advice_works() -> None:
    want = IOU(3)(LOGITS, LABELS)
    for preds, target in ((LOGITS, LABELS[:, None].squeeze(1)), (LOGITS.movedim(1, -1).movedim(-1, 1), LABELS)):
        assert torch.equal(IOU(3)(preds, target), want)
    assert torch.equal(PixelConfusionMatrix(3, input_format="index")(LABELS, LABELS), 8 * torch.eye(3).long())
    mIOU(3).update(LOGITS[0][None], LABELS[0][None])
