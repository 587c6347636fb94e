"""Columns of boxes: an image without boxes says nothing about dtypes, whatever its empty tensors are."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.errors import InputError

NOTHING = torch.tensor([])
BOX = torch.tensor([[0.1, 0.3, 10.7, 9.9]])
PRED, TRUTH = ("boxes", "scores", "labels"), ("boxes", "labels", "iscrowd", "area")
EMPTY = [NOTHING, NOTHING.double(), NOTHING.half(), NOTHING.long(), NOTHING.bool()]


def state_of(pred: dict[str, Tensor], truth: dict[str, Tensor], place: int, label: int = 300) -> dict[str, Tensor]:
    """The state after two images with boxes and one without, at ``place``."""
    labels = torch.tensor([label, label - 1])
    filled = {"boxes": torch.cat([BOX, BOX + 0.1]), "scores": torch.tensor([0.3, 0.6]), "labels": labels}
    filled_truth = {"boxes": torch.cat([BOX, BOX - 0.1]), "labels": labels}
    filled_truth |= {"iscrowd": torch.tensor([0, 1]), "area": torch.tensor([2**24 + 1.0, 5.0])}
    preds, target = [filled, filled], [filled_truth, filled_truth]
    preds.insert(place, pred)
    target.insert(place, truth)
    metric = MeanAveragePrecision()
    metric.update(preds, target)
    return metric.state().tensors()


@pytest.mark.parametrize("empty", EMPTY, ids=lambda empty: str(empty.dtype))
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("label", [300, 2**24 + 1, 2**31 - 1])
def test_an_empty_image_of_any_dtype_changes_no_bit(empty: Tensor, place: int, label: int) -> None:
    boxes, none = NOTHING.reshape(0, 4), NOTHING.long()
    expected = state_of(
        {"boxes": boxes, "scores": NOTHING, "labels": none}, {"boxes": boxes, "labels": none}, place, label
    )
    pred, truth = (dict.fromkeys(keys, empty) for keys in (PRED, TRUTH))
    for name, tensor in state_of(pred, truth, place, label).items():
        assert torch.equal(tensor, expected[name]), name


def test_a_flag_of_256_is_an_error_beside_an_empty_image() -> None:
    preds = [dict.fromkeys(PRED, NOTHING), {"boxes": BOX, "scores": torch.ones(1), "labels": torch.ones(1).long()}]
    truth = {"boxes": BOX, "labels": torch.ones(1).long(), "iscrowd": torch.tensor([256])}
    with pytest.raises(InputError, match=r"target\[1\]\['iscrowd'\]\[0\] must be 0 or 1"):
        MeanAveragePrecision().update(preds, [dict.fromkeys(truth, NOTHING), truth])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize(("kind", "width"), [("bbox", 4), ("rotated", 5)])
def test_boxes_that_are_no_rows_are_an_error_beside_any_dtype(kind: str, width: int, dtype: torch.dtype) -> None:
    """As many numbers in another shape would be read as other boxes."""
    boxes, labels = torch.ones(6, width), torch.zeros(6, dtype=torch.int64)
    preds = [{"boxes": given, "scores": torch.rand(6), "labels": labels} for given in (boxes.to(dtype), boxes.T)]
    target = [{"boxes": boxes, "labels": labels}] * 2
    metric = MeanAveragePrecision(iou_type=kind, box_format="cxcywha" if kind == "rotated" else "xyxy")
    message = rf"preds\[1\]\['boxes'\] must have shape \[6, {width}\].* but got \[{width}, 6\]"
    with pytest.raises(InputError, match=message):
        metric.update(preds, target)


@pytest.mark.parametrize("images", [1, 2])
def test_a_view_that_is_negated_when_it_is_read_is_read_so(images: int) -> None:
    """Its memory holds the numbers with the other sign."""
    negated = torch._neg_view(-BOX)
    assert negated.is_neg() and negated.is_contiguous()
    scores, labels = torch.ones(1), torch.ones(1, dtype=torch.int64)
    states = []
    for boxes in (BOX, negated):
        metric = MeanAveragePrecision(extended_summary=True)
        pred, truth = {"boxes": boxes, "scores": scores, "labels": labels}, {"boxes": boxes, "labels": labels}
        metric.update([pred] * images, [truth] * images)
        states.append(metric.state().tensors())
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
