"""MeanIoU, DiceScore and GeneralizedDiceScore equal torchmetrics, but for what docs/quirks.md lists."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
import torch
import torchmetrics.segmentation as tm
from torch import Tensor
from torchmetrics import MetricCollection

from testing.examples_one_hot import hot_of
from testing.examples_pixels import labels_of
from tests.fuzz import seeds
from valor_gpu import segmentation
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.metric import Metric
from valor_gpu.segmentation import IOU, DiceScore, GeneralizedDiceScore, MeanIoU

NAMES = ("MeanIoU", "DiceScore", "GeneralizedDiceScore")
pytestmark = pytest.mark.filterwarnings("ignore:DiceScore metric currently defaults:UserWarning")


def compared(name: str, batches: list[tuple[Tensor, Tensor]], **choices: Any) -> None:
    ours, theirs = getattr(segmentation, name)(**choices), getattr(tm, name)(**choices)
    for batch in batches:
        ours.update(*batch)
        theirs.update(*batch)
    torch.testing.assert_close(ours.compute(), theirs.compute(), rtol=2e-6, atol=1e-6, equal_nan=True, msg=str(choices))


def formats(rng: np.random.Generator, form: str, shape: tuple[int, ...], classes: int) -> tuple[Tensor, Tensor]:
    """A batch; of one-hot maps, channels overlap."""
    labels = labels_of(rng, shape, classes, 2), labels_of(rng, shape, classes, 2)
    if form == "index":
        return labels
    hot = hot_of(rng, shape, classes, torch.int64), hot_of(rng, shape, classes)
    if form == "mixed":
        return (hot[0], labels[1]) if rng.random() < 0.5 else (labels[0], hot[1].long())
    return hot[0], hot[1].long()


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_those_of_torchmetrics(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(home, name)).parameters for home in (segmentation, tm))
    assert [(p.name, p.default, p.kind) for p in ours.values() if p.name != "keep_images"] == [
        (p.name, p.default, p.kind) for p in theirs.values()
    ]


@pytest.mark.parametrize("seed", seeds(8))
@pytest.mark.parametrize("form", ["index", "one-hot", "mixed"])
def test_mean_iou(form: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(2, 7))
    space = [(9,), (4, 5), (2, 3, 4)][seed % 3] if form == "one-hot" else [(4, 5), (2, 3, 4)][seed % 2]
    batches = [formats(rng, form, (int(n), *space), classes) for n in rng.integers(1, 4, 3)]
    for per_class in (False, True):
        for background in (False, True):
            choices = dict(include_background=background, per_class=per_class, input_format=form)
            compared("MeanIoU", batches, num_classes=classes, **choices)
            if form != "index":
                compared("MeanIoU", batches, **choices)


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("form", ["index", "one-hot", "mixed"])
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none", None])
def test_dice(form: str, average: str | None, seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(1, 7))
    space = [(9,), (4, 5), (2, 3, 4)][seed % 3]
    batches = [formats(rng, form, (int(n), *space), classes) for n in rng.integers(1, 4, 3)]
    for level in ("samplewise", "global"):
        for background in (False, True):
            choices = dict(include_background=background, aggregation_level=level, input_format=form)
            compared("DiceScore", batches, num_classes=classes, average=average, **choices)


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.parametrize("form", ["index", "one-hot", "mixed"])
@pytest.mark.parametrize("weight_type", ["square", "simple", "linear"])
def test_generalized_dice(form: str, weight_type: str, seed: int) -> None:
    """An image at a time, so that torchmetrics weighs an absent class by this image alone."""
    rng = np.random.default_rng(seed)
    classes = int(rng.integers(1, 7))
    space = [(9,), (4, 5), (2, 3, 4)][seed % 3]
    batches = [formats(rng, form, (1, *space), classes) for _ in range(4)]
    for per_class in (False, True):
        for background in (False, True):
            choices = dict(include_background=background, weight_type=weight_type, input_format=form)
            compared("GeneralizedDiceScore", batches, num_classes=classes, per_class=per_class, **choices)


@pytest.mark.parametrize("weight_type", ["square", "simple", "linear"])
def test_generalized_dice_of_a_batch_where_every_class_is_true(weight_type: str) -> None:
    rng = np.random.default_rng(1)
    preds, target = hot_of(rng, (3, 8, 9), 4, torch.int64), hot_of(rng, (3, 8, 9), 4, torch.int64)
    assert (target.sum((2, 3)) > 0).all()
    compared("GeneralizedDiceScore", [(preds, target)], num_classes=4, weight_type=weight_type)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sides", [(True, True), (True, False), (False, True)])
def test_floating_point_stands_for_its_argmax(name: str, sides: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(2)
    scores = torch.from_numpy(rng.normal(size=(2, 1, 4, 6, 7)))
    hot = torch.nn.functional.one_hot(labels_of(rng, (2, 6, 7), 4), 4).movedim(-1, 1)
    batches = [tuple(scores[i] if floating else hot[i : i + 1] for i, floating in enumerate(sides))]
    compared(name, batches, num_classes=4)  # type: ignore[arg-type]
    if sides != (True, True):
        labels = [tuple(scores[i] if floating else hot[i : i + 1].argmax(1) for i, floating in enumerate(sides))]
        compared(name, labels, num_classes=4, input_format="mixed")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("name", NAMES)
def test_dtypes_of_one_hot_maps(name: str, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(3)
    preds, target = hot_of(rng, (1, 7, 9), 3), hot_of(rng, (1, 7, 9), 3)
    ours = getattr(segmentation, name)(num_classes=3)
    theirs = getattr(tm, name)(num_classes=3)
    ours.update(preds.to(dtype), target)
    theirs.update(preds.long(), target.long())
    torch.testing.assert_close(ours.compute(), theirs.compute())
    last = torch.channels_last
    other = getattr(segmentation, name)(num_classes=3)
    other.update(preds.to(dtype).contiguous(memory_format=last), target.contiguous(memory_format=last))
    assert torch.equal(ours.compute(), other.compute())


@pytest.mark.parametrize("shape", [(12,), (4, 5)])
def test_maps_of_one_or_two_dimensions_are_one_image_of_mean_iou(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    batch = labels_of(rng, shape, 3), labels_of(rng, shape, 3)
    compared("MeanIoU", [batch, batch], num_classes=3, input_format="index", per_class=True)
    metric = MeanIoU(3, input_format="index")
    metric.update(*batch)
    assert metric.result().counts["images"] == 1


def test_one_class_alone_is_no_background() -> None:
    hot = torch.ones(1, 1, 3, 3, dtype=torch.int64)
    for name in ("DiceScore", "GeneralizedDiceScore"):
        compared(name, [(hot, hot)], num_classes=1, include_background=False)
    metric = MeanIoU(1, include_background=False, per_class=True)  # torchmetrics: of no class
    metric.update(hot, hot)
    assert metric.compute() == 1


def test_class_that_no_image_has() -> None:
    batch = torch.tensor([[[0, 1], [1, 0]]]), torch.tensor([[[0, 1], [1, 1]]])
    metric = MeanIoU(4, per_class=True, input_format="index")
    metric.update(*batch)
    assert metric.compute().tolist() == [0.5, pytest.approx(2 / 3), -1, -1]
    result = metric.result()
    assert np.isnan(result.values["per_class"][2:]).all() and result.values["MeanIoU"] == pytest.approx(7 / 12)
    assert result.reason("per_class") == "no image has a pixel of the class, true or predicted"
    assert dict(result.counts) == {"images": 1, "pixels": 4, "ignored": 0, "absent_classes": 2}
    dice = DiceScore(4, average="none", input_format="index")
    dice.update(*batch)
    assert dice.compute()[2:].isnan().all() and dice.result().reason("per_class") is not None


def test_without_images() -> None:
    empty = torch.zeros(0, 3, 4, 4, dtype=torch.bool)
    for metric, value in ((MeanIoU(per_class=True), -1), (MeanIoU(3, per_class=True), [-1] * 3)):
        metric.update(empty, empty)
        assert metric.compute().tolist() == value
    for name in NAMES:
        metric = getattr(segmentation, name)(num_classes=3)
        metric.update(empty, empty)
        assert metric.compute().isnan()
        assert metric.result().reason(name) and metric.result().counts["images"] == 0


# -------------------------------------------------------------------------------------------------- of the data


def test_number_of_classes_that_the_data_tells() -> None:
    rng = np.random.default_rng(5)
    first, second = hot_of(rng, (2, 4, 5), 3), hot_of(rng, (1, 4, 5), 3)
    known, unknown = MeanIoU(3, per_class=True), MeanIoU(per_class=True)
    for metric in (known, unknown):
        metric.update(first, first.flip(0))
        metric.update(second, second.flip(2))
    assert torch.equal(known.compute(), unknown.compute())
    assert unknown.result().counts == known.result().counts
    with pytest.raises(InputError, match=r"batches must have one number of channels but have from 2 to 3"):
        unknown.update(first[:, :2], first[:, :2])
    assert unknown.update_count == 2 and torch.equal(known.compute(), unknown.compute())
    unknown.reset()
    unknown.update(first[:, :2], first[:, :2])
    assert unknown.compute().tolist() == [1, 1]


def test_batches_with_other_channels_are_refused_whole() -> None:
    three, two = MeanIoU(), MeanIoU()
    hot = {channels: torch.ones(1, channels, 2, 2, dtype=torch.bool) for channels in (2, 3)}
    three.update(hot[3], hot[3])
    two.update(hot[2], hot[2])
    before, message = three.to_bytes(), "batches must have one number of channels but have from 2 to 3"
    for other in (two, two.to_bytes(), two.metric_state):
        with pytest.raises(InputError, match=message):
            three.merge_state(other)
    with pytest.raises(InputError, match=message):
        three(hot[2], hot[2])
    assert three.to_bytes() == before and three.compute() == 1
    with pytest.raises(InputError, match=message):  # what ranks meet, where nothing could tell before
        three.state().merge(two.state()).images()


def test_results_tell_every_image() -> None:
    rng = np.random.default_rng(6)
    preds, target = labels_of(rng, (3, 4, 5), 3), labels_of(rng, (3, 4, 5), 3)
    for metric in (MeanIoU(3, input_format="index"), DiceScore(3, input_format="index"),
                   GeneralizedDiceScore(3, input_format="index")):  # fmt: skip
        metric.update(preds, target)
        each = []
        for image in range(3):
            alone = type(metric)(3, input_format="index")
            alone.update(preds[image, None], target[image, None])
            each.append(float(alone.compute()))
        np.testing.assert_allclose(metric.result().values["per_image"], each, rtol=1e-6)
        assert float(metric.compute()) == np.float32(metric.result().values[type(metric).__name__])
        assert metric.result().values["true"].tolist() == np.bincount(target.numpy().ravel(), minlength=3).tolist()


def test_one_update_in_a_collection() -> None:
    rng = np.random.default_rng(7)
    batch = hot_of(rng, (2, 6, 6), 4), hot_of(rng, (2, 6, 6), 4)
    made: dict[str, Metric[Any]] = {
        "miou": MeanIoU(4), "dice": DiceScore(4, average="none"), "general": GeneralizedDiceScore(4),
        "iou": IOU(4, aggregation_level="samplewise", input_format="one-hot"),
        "pooled": DiceScore(4, aggregation_level="global"),
    }  # fmt: skip
    together = MetricCollection(dict(made))
    together.update(*batch)
    together.update(*batch)
    groups = sorted(sorted(group) for group in together.compute_groups.values())
    assert groups == [["dice", "general", "iou", "miou"], ["pooled"]]


# ------------------------------------------------------------------------------------ where torchmetrics is otherwise


def test_generalized_dice_does_not_depend_on_the_batch() -> None:
    """A class that is not true in an image: torchmetrics takes the weight of another class of another image."""
    target = torch.tensor([[[0, 0, 1, 1]], [[0, 0, 0, 2]]])
    preds = torch.tensor([[[0, 0, 1, 2]], [[0, 0, 1, 2]]])
    whole, parts = (tm.GeneralizedDiceScore(3, input_format="index") for _ in range(2))
    whole.update(preds, target)
    for image in range(2):
        parts.update(preds[image, None], target[image, None])
    assert float(whole.compute()) != pytest.approx(float(parts.compute()), abs=0.01)
    ours = GeneralizedDiceScore(3, input_format="index")
    ours.update(preds, target)
    torch.testing.assert_close(ours.compute(), parts.compute())


def test_images_without_target_score_0_and_are_counted() -> None:
    batch = torch.zeros(1, 2, 2, dtype=torch.int64), torch.zeros(1, 2, 2, dtype=torch.int64)
    compared("GeneralizedDiceScore", [batch], num_classes=3, include_background=False, input_format="index")
    metric = GeneralizedDiceScore(3, include_background=False, input_format="index")
    metric.update(*batch)
    assert metric.compute() == 0 and metric.result().counts["images_without_target"] == 1


def test_mixed_maps_of_one_dimension() -> None:
    """Torchmetrics' MeanIoU stops at them."""
    rng = np.random.default_rng(8)
    hot, labels = hot_of(rng, (2, 9), 3), labels_of(rng, (2, 9), 3)
    with pytest.raises(RuntimeError, match="expected to have the same shape"):
        tm.MeanIoU(3, input_format="mixed").update(hot, labels)
    metric, other = MeanIoU(3, input_format="mixed"), MeanIoU(3)
    metric.update(hot, labels)
    other.update(hot, torch.nn.functional.one_hot(labels, 3).movedim(-1, 1))
    assert torch.equal(metric.compute(), other.compute())


def test_values_other_than_0_and_1() -> None:
    """Torchmetrics' MeanIoU counts their common bits, DiceScore multiplies them."""
    preds = torch.full((1, 2, 2, 2), 2)
    theirs = tm.DiceScore(2)
    theirs.update(preds, preds)
    assert float(theirs.compute()) > 1
    for name in NAMES:
        with pytest.raises(InputError, match=r"target\[0, 0, 0, 0\] must be 0 or 1 but is 2"):
            getattr(segmentation, name)(num_classes=2).update(preds, preds)


@pytest.mark.parametrize("name", NAMES)
def test_bad_arguments(name: str) -> None:
    kind = getattr(segmentation, name)
    for choices, error, said in (
        (dict(num_classes=0), InputError, "num_classes must be at least 1 but got 0"),
        (dict(num_classes=2.5), InputTypeError, "num_classes must be int but got float"),
        (dict(num_classes=3, include_background="no"), InputTypeError, "include_background must be bool but got str"),
        (dict(num_classes=3, input_format="onehot"), InputError, "input_format must be one of"),
        (dict(num_classes=None, input_format="index"), InputError, "num_classes must be given"),
    ):
        with pytest.raises(error, match=said):
            kind(**choices)
    with pytest.raises(InputError, match="average must be one of"):
        DiceScore(3, average="samples")
    with pytest.raises(InputError, match="weight_type must be one of"):
        GeneralizedDiceScore(3, weight_type="cubic")
    with pytest.raises(InputError, match=r"num_classes must be given but is None"):
        DiceScore(None)  # type: ignore[arg-type]
    for number in (math.nan, 1):
        with pytest.raises(InputTypeError, match="per_class must be bool"):
            MeanIoU(3, per_class=number)  # type: ignore[arg-type]
