"""numpy arrays and lists of Python numbers where tensors are taken: the same state, the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from valor_gpu.classification import (
    AUROC,
    Accuracy,
    CalibrationError,
    ConfusionMatrix,
    ExactMatch,
    MultilabelRankingLoss,
)
from valor_gpu.detection import (
    DetectionConfusionMatrix,
    IntersectionOverUnion,
    MeanAveragePrecision,
    OpenImagesAveragePrecision,
    PanopticQuality,
    mAP,
)
from valor_gpu.errors import InputError
from valor_gpu.metric import Metric
from valor_gpu.segmentation import DiceScore, HausdorffDistance, MeanIoU, PixelConfusionMatrix, mIOU

Convert = Callable[[torch.Tensor], Any]
BOX = torch.tensor([[0.0, 0.0, 8.0, 8.0], [4.0, 4.0, 9.0, 9.0]])
ONES = torch.tensor([1, 2])
PREDS = {"boxes": BOX, "scores": torch.tensor([0.5, 0.25]), "labels": ONES}
TARGET = {"boxes": BOX + 1, "labels": ONES, "iscrowd": torch.tensor([0, 1]), "image_id": torch.tensor([7])}
MASKS = torch.ones((2, 4, 4), dtype=torch.bool)
POINTS = torch.ones((2, 17, 3))
MAPS = torch.tensor([[[0, 1], [2, 1]]]), torch.tensor([[[0, 1], [2, 2]]])
SEGMENTS = torch.tensor([[[[1, 1], [2, 0]], [[1, 2], [2, 0]]]])
CASES: dict[str, tuple[Callable[[], Metric[Any]], tuple[Any, ...], dict[str, Any]]] = {
    "accuracy": (lambda: Accuracy(3), (ONES, torch.tensor([1, 0])), {"sample_weight": torch.tensor([1.0, 0.5])}),
    "samplewise": (lambda: Accuracy(3, multidim_average="samplewise"), MAPS, {}),
    "auroc": (AUROC, (torch.tensor([0.5, 0.25]), torch.tensor([0, 1])), {"sample_weight": torch.tensor([1.0, 2.0])}),
    "calibration": (CalibrationError, (torch.tensor([0.5, 0.25]), torch.tensor([0, 1])), {}),
    "examples": (lambda: ConfusionMatrix(3, max_examples=2), (ONES, ONES), {"sample_ids": torch.tensor([8, 9])}),
    "exact match": (lambda: ExactMatch(3), MAPS, {"sample_weight": torch.tensor([0.5])}),
    "rankings": (lambda: MultilabelRankingLoss(2), (torch.tensor([[0.5, 0.25]]), torch.tensor([[0, 1]])), {}),
    "boxes": (MeanAveragePrecision, ([PREDS], [TARGET]), {}),
    "masks": (
        lambda: MeanAveragePrecision(iou_type="segm"),
        ([PREDS | {"masks": MASKS}], [TARGET | {"masks": MASKS}]),
        {},
    ),
    "keypoints": (
        lambda: MeanAveragePrecision(iou_type="keypoints"),
        ([PREDS | {"keypoints": POINTS}], [TARGET | {"keypoints": POINTS, "area": torch.tensor([4.0, 4.0])}]),
        {},
    ),
    "iou": (IntersectionOverUnion, ([{"boxes": BOX, "labels": ONES}], [TARGET]), {}),
    "valor": (mAP, ([PREDS], [{"boxes": BOX, "labels": ONES}]), {}),
    "confused boxes": (DetectionConfusionMatrix, ([PREDS], [{"boxes": BOX, "labels": ONES}]), {}),
    "open images": (
        OpenImagesAveragePrecision,
        ([PREDS], [{"boxes": BOX, "labels": ONES, "pos_category_ids": ONES, "neg_category_ids": ONES[:0]}]),
        {},
    ),
    "padded": (
        MeanAveragePrecision,
        (
            {name: value[None] for name, value in PREDS.items()},
            {"boxes": BOX[None], "labels": ONES[None], "counts": torch.tensor([1]), "image_id": torch.tensor([3])},
        ),
        {},
    ),
    "maps": (lambda: mIOU(3), MAPS, {}),
    "mean iou": (lambda: MeanIoU(3, input_format="index"), MAPS, {}),
    "dice": (lambda: DiceScore(3, input_format="index"), MAPS, {}),
    "pixels": (lambda: PixelConfusionMatrix(3), MAPS, {}),
    "surfaces": (lambda: HausdorffDistance(3, input_format="index"), MAPS, {}),
    "panoptic": (lambda: PanopticQuality(things={1}, stuffs={2}), (SEGMENTS, SEGMENTS), {}),
}


def convert(value: Any, how: Convert) -> Any:
    if isinstance(value, torch.Tensor):
        return how(value)
    if isinstance(value, dict):
        kept = ("masks", "image_id")  # lists of masks are other forms of masks, and an id is one number
        return {
            name: part.numpy() if name in kept and how is torch.Tensor.tolist else convert(part, how)
            for name, part in value.items()
        }
    return type(value)(convert(part, how) for part in value)


def read_only(value: torch.Tensor) -> Any:
    array = value.numpy()[::1].copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("how", [torch.Tensor.numpy, torch.Tensor.tolist, read_only])
@pytest.mark.parametrize("case", CASES)
def test_the_state_is_that_of_tensors(case: str, how: Convert) -> None:
    make, args, keywords = CASES[case]
    metric, expected = make(), make()
    expected.update(*args, **keywords)
    metric.update(*convert(args, how), **{name: convert(value, how) for name, value in keywords.items()})
    assert metric.to_bytes() == expected.to_bytes()


def test_rows_that_run_backwards() -> None:
    metric, expected = Accuracy(3), Accuracy(3)
    metric.update(np.array([0, 1, 2])[::-1], [0, 1, 0])
    expected.update(torch.tensor([2, 1, 0]), torch.tensor([0, 1, 0]))
    assert metric.to_bytes() == expected.to_bytes()


def test_ids_of_numpy() -> None:
    metric, expected = MeanAveragePrecision(), MeanAveragePrecision()
    metric.update([PREDS], [TARGET | {"image_id": np.int64(7)}])
    expected.update([PREDS], [TARGET])
    assert metric.to_bytes() == expected.to_bytes()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"sample_weight": "ab"}, "sample_weight must be Tensor or ndarray or list or tuple but got str"),
        ({"sample_weight": [[1.0], [2.0, 3.0]]}, "sample_weight must hold numbers, in rows of one length"),
        ({"sample_weight": np.array(["a", "b"])}, "sample_weight must hold numbers, in rows of one length"),
    ],
)
def test_what_holds_no_numbers_is_named(keywords: dict[str, Any], message: str) -> None:
    metric = Accuracy(3)
    with pytest.raises((InputError, TypeError), match=message):
        metric.update(ONES, ONES, **keywords)
    assert metric.update_count == 0
