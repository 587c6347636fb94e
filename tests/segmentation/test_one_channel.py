"""Masks of one channel: floats of 0 and 1 count as integers do, and scores are an error."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchmetrics import MetricCollection

from tests.native.pretend import on_device, there
from tests.segmentation.test_cuda_plans import cuda_kernels, planned, state_of
from valor_gpu import functional
from valor_gpu.errors import InputError
from valor_gpu.inputs.pixels import PixelTask, describe_later
from valor_gpu.ops.error_codes import NO_ERROR, PREDICTION, TARGET, pack_value
from valor_gpu.segmentation import (
    IOU,
    BoundaryF1,
    DiceScore,
    GeneralizedDiceScore,
    HausdorffDistance,
    MeanIoU,
    PixelAccuracy,
    PixelConfusionMatrix,
    PixelF1,
    PixelPrecision,
    PixelRecall,
    SurfaceDistance,
    mIOU,
)

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
HOT = {"input_format": "one-hot"}
KINDS: dict[str, Callable[[], Any]] = {
    "DiceScore": lambda: DiceScore(1),
    "DiceScore without background": lambda: DiceScore(1, include_background=False),
    "global DiceScore": lambda: DiceScore(1, aggregation_level="global"),
    "GeneralizedDiceScore": lambda: GeneralizedDiceScore(1),
    "MeanIoU": lambda: MeanIoU(1),
    "MeanIoU without background": lambda: MeanIoU(1, include_background=False),
    "MeanIoU of the channels there are": lambda: MeanIoU(),
    "MeanIoU of these without background": lambda: MeanIoU(include_background=False),
    "IOU": lambda: IOU(1, **HOT),
    "mIOU": lambda: mIOU(1, **HOT),
    "PixelF1": lambda: PixelF1(1, **HOT),
    "PixelAccuracy": lambda: PixelAccuracy(1, **HOT),
    "PixelPrecision": lambda: PixelPrecision(1, **HOT),
    "PixelRecall": lambda: PixelRecall(1, **HOT),
    "BoundaryF1": lambda: BoundaryF1(1, include_background=True, **HOT),
    "BoundaryF1 without background": lambda: BoundaryF1(1, **HOT),
    "HausdorffDistance": lambda: HausdorffDistance(1),
    "SurfaceDistance": lambda: SurfaceDistance(1, **HOT),
}
FUNCTIONS = {
    "dice_score": functional.dice_score,
    "generalized_dice_score": functional.generalized_dice_score,
    "mean_iou": functional.mean_iou,
    "hausdorff_distance": functional.hausdorff_distance,
}
SCORES = (
    r"^preds\[0, 0, 0, 0\] must be 0 or 1 but is 0\.100098: one channel must be a mask, as \(preds > 0\.5\)\.long\(\)"
)


def masks(seed: int, size: tuple[int, ...] = (2, 1, 9, 8)) -> tuple[Tensor, Tensor]:
    """Masks of 0 and 1, int64."""
    generator = torch.Generator().manual_seed(seed)
    preds, target = (torch.randint(2, size, generator=generator) for _ in range(2))
    return preds, target


def value_of(metric: Any, preds: Tensor, target: Tensor) -> Tensor:
    metric.update(preds, target)
    value: Tensor = metric.compute()
    return value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_of_0_and_1_are_the_mask(kind: str, dtype: torch.dtype) -> None:
    preds, target = masks(len(kind))
    expected = value_of(KINDS[kind](), preds, target)
    for sides in ((preds.to(dtype), target.to(dtype)), (preds.to(dtype), target), (preds, target.to(dtype).bool()),
                  (preds.bool(), target.to(dtype)), (-0.0 * (1 - preds) + preds.to(dtype), target)):  # fmt: skip
        assert torch.equal(value_of(KINDS[kind](), *sides), expected)


def test_values_by_hand() -> None:
    """Dice and IoU of each image from numpy; masks that are wrong in every pixel have 0."""
    preds, target = masks(7)
    found, true = preds.bool().numpy(), target.bool().numpy()
    both, either = ((op(found, true)).sum((1, 2, 3)) for op in (np.logical_and, np.logical_or))
    dice = (2 * both / (found.sum((1, 2, 3)) + true.sum((1, 2, 3)))).mean()
    assert float(DiceScore(1)(preds.float(), target.float())) == pytest.approx(dice, rel=1e-6)
    assert float(MeanIoU()(preds.float(), target.float())) == pytest.approx((both / either).mean(), rel=1e-6)
    assert float(IOU(1, **HOT)(preds.half(), target)) == pytest.approx(both.sum() / either.sum(), rel=1e-6)
    assert 0.2 < dice < 0.8
    for metric in (DiceScore(1), GeneralizedDiceScore(1), MeanIoU(), PixelF1(1, **HOT), PixelAccuracy(1, **HOT)):
        assert float(metric(1.0 - target, target.float())) == 0
    nothing = torch.zeros_like(target, dtype=torch.float32)
    assert float(DiceScore(1)(nothing, target)) == float(MeanIoU(1)(nothing, target)) == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    preds, target = masks(11)
    function: Any = FUNCTIONS[name]
    expected = function(preds, target, num_classes=1)
    assert torch.equal(function(preds.float(), target.double(), num_classes=1), expected)
    assert torch.equal(function(preds.float().numpy(), target.numpy(), num_classes=1), expected)
    with pytest.raises(InputError, match=SCORES):
        function(torch.full_like(preds, 0.1, dtype=torch.bfloat16), target, num_classes=1)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_an_error(kind: str) -> None:
    _, target = masks(5)
    metric = KINDS[kind]()
    with pytest.raises(InputError, match=SCORES):
        metric.update(torch.full_like(target, 0.1, dtype=torch.bfloat16), target.float())
    preds = target.float()
    for value, said in (
        (math.nan, "is nan$"),
        (math.inf, r"is inf: one channel must be a mask"),
        (-2.5, r"\(preds > 0\)\.long\(\) of logits$"),
        (3.0, r"is 3: one channel must be a mask, as \(preds > 0\.5\)\.long\(\) makes of probabilities"),
    ):
        preds[1, 0, 2, 3] = value
        with pytest.raises(InputError, match=rf"^preds\[1, 0, 2, 3\] must be 0 or 1 but .*{said}"):
            metric.update(preds, target)
    wrong = target.double()
    wrong[0, 0, 8, 7] = 0.7
    with pytest.raises(
        InputError, match=r"^target\[0, 0, 8, 7\] must be 0 or 1 but is 0\.7: .*\(target > 0\.5\)\.long"
    ):
        metric.update(target, wrong)
    assert metric.update_count == 0


def test_integers_of_0_and_255() -> None:
    preds, target = masks(3)
    for wrong in (255 * target, 255.0 * target):
        with pytest.raises(
            InputError, match=r"is 255: one channel must be a mask, as \(target > 0\)\.long\(\) makes of 0 and"
        ):
            DiceScore(1).update(preds, wrong)
    void = target.clone()
    void[0, 0, 0, 0] = 255
    with pytest.raises(InputError, match=r"is 255: class indices, as target\.squeeze\(1\), need input_format='index'"):
        DiceScore(1).update(preds, void)
    assert torch.equal(DiceScore(1)(preds, (255 * target > 0).long()), DiceScore(1)(preds, target))


@pytest.mark.parametrize(("side", "dtype"), [*itertools.product((0, 1), (torch.int64, torch.float32))])
def test_mixed_formats(side: int, dtype: torch.dtype) -> None:
    """A label map of one class beside a mask: what the mask leaves out is missed."""
    mask, labels = masks(2)[0].to(dtype), torch.zeros(2, 9, 8, dtype=torch.int64)
    sides = (mask, labels) if side == 0 else (labels, mask)
    expected = pytest.approx(float(mask.double().mean()), rel=1e-6)
    assert float(IOU(1, input_format="mixed")(*sides)) == expected
    if dtype is torch.float32:
        with pytest.raises(InputError, match=r"must be 0 or 1 but is 0\.25"):
            IOU(1, input_format="mixed").update(*(s * 0 + 0.25 if s is mask else s for s in sides))


@pytest.mark.parametrize("kind", [IOU, mIOU, PixelF1, PixelConfusionMatrix, MeanIoU, DiceScore])
def test_one_channel_of_logits_has_no_argmax(kind: Any) -> None:
    logits = torch.rand(2, 1, 4, 4)
    said = (
        r"^preds must have two or more channels.*got \[2, 1, 4, 4\]: one probability per pixel needs a threshold, \(p"
    )
    for target in (torch.zeros(2, 4, 4).long(), torch.ones(2, 4, 4).long()):
        with pytest.raises(InputError, match=said):
            kind(1, input_format="index").update(logits, target)
    with pytest.raises(
        InputError, match=r"\[B, 2, \.\.\.\].*got \[2, 1, 4, 4\]: one probability per pixel needs a thr"
    ):
        kind(2, input_format="index").update(logits, torch.ones(2, 4, 4).long())


@pytest.mark.parametrize("kind", [DiceScore, GeneralizedDiceScore, MeanIoU, HausdorffDistance])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float32])
def test_one_channel_of_two_classes(kind: Any, dtype: torch.dtype) -> None:
    preds, target = masks(1)
    with pytest.raises(InputError, match=r"^preds must have shape \[B, 2, \.\.\.\], a channel .* got \[2, 1, 9, 8\]: "):
        kind(2).update(preds.to(dtype), target.to(dtype))


def test_two_channels_of_floats_stand_for_their_largest() -> None:
    preds, target = torch.rand(2, 2, 5, 5), torch.rand(2, 2, 5, 5)
    found, true = (torch.nn.functional.one_hot(side.argmax(1), 2).movedim(-1, 1) for side in (preds, target))
    assert torch.equal(DiceScore(2)(preds, target), DiceScore(2)(found, true))


def test_a_collection() -> None:
    preds, target = masks(9)
    made = {"dice": DiceScore(1, aggregation_level="global"), "iou": IOU(1, **HOT), "f1": PixelF1(1, **HOT)}
    values = MetricCollection(dict(made))(preds.float(), target.float())
    assert all(torch.equal(values[name], metric(preds, target)) for name, metric in made.items())
    with pytest.raises(InputError, match=SCORES):
        MetricCollection(made).update(torch.full_like(preds, 0.1, dtype=torch.bfloat16), target)


# ------------------------------------------------------------------------------------------------- CUDA, simulated


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("floats", [(True, True), (True, False), (False, True)])
def test_plans_on_cuda(floats: tuple[bool, bool], dtype: torch.dtype) -> None:
    sides = [side.to(dtype) if of_floats else side for side, of_floats in zip(masks(4), floats)]
    for kind in (mIOU, IOU):
        plain, metric = kind(1, **HOT), on_device(kind(1, **HOT))
        for batch in (sides, [side.movedim(2, 3) for side in sides]):
            plain.update(*batch)
            with cuda_kernels():
                assert planned(metric, there(tuple(batch)))
                metric.update(*there(tuple(batch)))
            assert state_of(metric) == state_of(plain)


@pytest.mark.parametrize("capturing", [False, True])
@pytest.mark.parametrize("value", [0.1, math.nan])
def test_scores_on_cuda_are_raised_by_compute(value: float, capturing: bool) -> None:
    preds, target = masks(4)
    wrong = preds.float()
    wrong[1, 0, 0, 3] = value
    for metric in (on_device(IOU(1, **HOT)), on_device(MeanIoU())):
        with cuda_kernels(capturing):
            metric.update(*there((wrong, target)))
        code = int(state_of_error(metric))
        assert code != NO_ERROR and code == pack_value(1, 3, PREDICTION)
        assert metric._describe_error(code).startswith("preds[1] must hold 0 or 1 but element 3 of that image")
        assert "one channel of scores needs a threshold, as (preds > 0.5).long()" in metric._describe_error(code)


def state_of_error(metric: Any) -> Tensor:
    from tests.native.pretend import here

    error: Tensor = here(metric.error)
    return error


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu(kind: str) -> None:
    preds, target = masks(6)
    metric = KINDS[kind]().to("cuda")
    expected = value_of(KINDS[kind](), preds, target)
    assert torch.equal(value_of(metric, preds.float().cuda(), target.cuda()).cpu(), expected)
    metric.update(torch.full_like(preds, 0.1, dtype=torch.float32).cuda(), target.cuda())
    with pytest.raises(InputError, match=r"needs a threshold, as \(preds > 0\.5\)\.long\(\)"):
        metric.compute()


# ------------------------------------------------------------------------------------------------- hints and warnings


def test_hints_at_masks_of_255_name_both_meanings() -> None:
    target = torch.tensor([[[0, 255], [255, 0]]])
    preds = target.clamp(max=1)
    with pytest.raises(
        InputError, match=r"is 255: 255 may be the foreground of a mask, which \(target > 0\)\.long\(\)"
    ):
        IOU(2).update(preds, target)
    with pytest.raises(
        InputError, match=r"255: 255 may be .*; only where .* no class, ignore_index=255 leaves them out"
    ):
        mIOU(2).update(preds, target)
    with pytest.raises(InputError, match=r"255: 255 may be the foreground of a mask, .* makes 1 \(two classes\)$"):
        DiceScore(2, input_format="index").update(preds, target)
    with pytest.raises(InputError, match=r"^preds\[0, 0, 1\] .* is 255: 255 may be .*\(preds > 0\)\.long\(\) makes 1"):
        IOU(2).update(target, preds)
    with pytest.raises(InputError, match=r"is 255: ignore_index=255 leaves such pixels out$"):
        IOU(3).update(preds, target)
    target[0, 0, 0] = 1
    with pytest.raises(InputError, match=r"is 255: ignore_index=255 leaves such pixels out$"):
        IOU(2).update(preds, target)


def test_hints_at_labels_from_1() -> None:
    labels = torch.tensor([[[1, 2, 3]]])
    with pytest.raises(
        InputError, match=r"is 3: classes are numbered from 0: target - 1 turns labels from 1 to 3 into them$"
    ):
        IOU(3).update(labels - 1, labels)
    with pytest.raises(InputError, match=r"is 3: classes are numbered from 0: preds - 1 turns"):
        IOU(3, ignore_index=255).update(labels, labels - 1)
    void = torch.tensor([[[1, 255, 3]]])
    with pytest.raises(InputError, match=r"is 3: classes are numbered from 0: target - 1 turns"):
        IOU(3, ignore_index=255).update(labels - 1, void)
    with pytest.raises(InputError, match=r"is 1: a mask of 0 and 1 as class indices has two classes, num_classes=2$"):
        IOU(1).update(torch.zeros(1, 1, 2).long(), torch.tensor([[[0, 1]]]))
    with pytest.raises(InputError, match=r"but is 7$"):
        IOU(3).update(torch.zeros(1, 1, 2).long(), torch.tensor([[[0, 7]]]))
    assert float(IOU(3)(labels - 1, labels - 1)[0]) == 1


def test_hints_of_errors_that_come_later() -> None:
    code = pack_value(0, 5, TARGET)
    both = "(target > 0).long() makes 0 and 1 of a mask of 0 and 255; ignore_index leaves out pixels without a class"
    assert both in describe_later(code, PixelTask(2))
    assert both.partition("; ")[0] not in describe_later(code, PixelTask(3))
    assert "ignore_index leaves out" not in describe_later(code, PixelTask(2, 255))
    assert "threshold" in describe_later(code, PixelTask(1, None, "one-hot"))
    assert "threshold" not in describe_later(code, PixelTask(2, None, "one-hot"))


@pytest.mark.parametrize("make", [IOU, mIOU, PixelF1, PixelConfusionMatrix])
def test_ignored_pixels_that_should_count(make: Any) -> None:
    """600 pixels: 383 of the foreground are gone, and only class 0 is left."""
    target = torch.zeros(1, 20, 30, dtype=torch.int64)
    target.view(-1)[:383] = 255
    preds = target.clamp(max=1)
    metric = make(2, ignore_index=255)
    metric.update(preds, target)
    metric.compute()
    said = "^ignore_index=255 leaves out 383 of 600 pixels and the others are all of class 0: where 255 is the foreg"
    with pytest.warns(UserWarning, match=said):
        metric.result()
    second = make(2, ignore_index=1)
    second.update(preds, preds)
    with pytest.warns(
        UserWarning, match="^ignore_index=1 leaves out 383 of 600 pixels and the others are all of class 0$"
    ):
        second.result()
    numbered = make(4, ignore_index=4)
    numbered.update(preds, torch.arange(600).reshape(1, 20, 30) % 4 + 1)
    with pytest.warns(
        UserWarning, match="^ignore_index=4 leaves out 150 of 600 .* none is of class 0: where labels run"
    ):
        numbered.result()


@pytest.mark.parametrize(
    ("classes", "ignored", "labels"),
    [
        (19, 255, (0, 3, 18, 255)),  # Cityscapes
        (21, 255, (0, 15, 255)),  # VOC
        (2, 255, (0, 1, 255)),  # a mask with void
        (2, 0, (0, 1)),  # the background left out
        (2, 255, (0, 0)),  # nothing is left out
        (3, 1, (0, 1, 2)),
        (11, 11, (0, 5, 11)),  # CamVid
        (1, 255, (0, 255)),
        (2, 255, (255, 255)),  # numbers are NaN with a reason
    ],
)
def test_no_warning_of_usual_data(classes: int, ignored: int, labels: tuple[int, ...]) -> None:
    target = torch.tensor(labels).reshape(1, 1, -1)
    metric = IOU(classes, ignore_index=ignored)
    metric.update(torch.zeros_like(target), target)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metric.result()
