"""Hausdorff and surface distances and boundary F1: torchmetrics, scipy, numpy, cases by hand, missing classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage  # type: ignore[import-untyped]
from torch import Tensor
from torchmetrics.segmentation import HausdorffDistance as Theirs

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.ops.surface.op import METRICS
from valor_gpu.segmentation import BoundaryF1, HausdorffDistance, SurfaceDistance

Floats = NDArray[np.float64]


def maps(seed: int, size: tuple[int, ...] = (3, 17, 17), classes: int = 4) -> tuple[Tensor, Tensor]:
    """Label maps of every class in blocks, and the same a little elsewhere."""
    rng = np.random.default_rng(seed)
    target = rng.integers(0, classes, size)
    for image in target:
        for label in rng.permutation(classes):
            corner = [int(rng.integers(0, n - 2)) for n in size[1:]]
            image[tuple(slice(c, c + 6) for c in corner)] = label
    preds = np.roll(target, (1, 2), (-2, -1))
    return torch.from_numpy(preds), torch.from_numpy(target)


def one_hot(labels: Tensor, classes: int = 4) -> Tensor:
    return torch.nn.functional.one_hot(labels, classes).movedim(-1, 1)


def lists(preds: Tensor, target: Tensor, label: int, spacing: Any = None) -> tuple[Floats, Floats]:
    """scipy's distances of one image and class, from predictions to target and back; empty where there are none."""
    masks = [(side == label).numpy() for side in (preds, target)]
    edges = [mask & ~ndimage.binary_erosion(mask) for mask in masks]
    if not all(edge.any() for edge in edges):
        return np.zeros(0), np.zeros(0)
    fields = [ndimage.distance_transform_edt(~edge, sampling=spacing) for edge in edges]
    return fields[1][edges[0]], fields[0][edges[1]]


@pytest.mark.parametrize("distance_metric", METRICS)
@pytest.mark.parametrize("spacing", [None, [1.5, 0.5]])
def test_hausdorff_is_that_of_torchmetrics(distance_metric: str, spacing: Any) -> None:
    preds, target = maps(4)
    for directed, background in ((False, True), (True, False)):
        choices: dict[str, Any] = dict(include_background=background, distance_metric=distance_metric)
        choices |= dict(spacing=spacing, directed=directed, input_format="index")
        ours, theirs = HausdorffDistance(4, **choices), Theirs(4, **choices)
        assert float(ours(preds, target)) == pytest.approx(float(theirs(preds, target)), rel=1e-6)


def test_hausdorff_takes_the_formats_of_torchmetrics() -> None:
    preds, target = maps(0)
    for input_format, batches in (
        ("index", [(preds, target), maps(1)]),
        ("one-hot", [(one_hot(preds), one_hot(target)), (one_hot(target).bool(), one_hot(preds).bool())]),
        ("mixed", [(one_hot(preds), target), (preds, one_hot(target))]),
    ):
        ours, theirs = (kind(4, input_format=input_format) for kind in (HausdorffDistance, Theirs))
        for batch in batches:
            ours.update(*batch)
            theirs.update(*batch)
        assert float(ours.compute()) == pytest.approx(float(theirs.compute()), rel=1e-6)


def test_hausdorff_of_every_image_and_class_is_that_of_torchmetrics() -> None:
    preds, target = maps(5)
    for image in range(3):
        for label in range(1, 4):
            one = [side[image : image + 1] == label for side in (preds, target)]
            masks = [torch.stack((~side, side), 1) for side in one]
            value = float(HausdorffDistance(2)(*masks))
            assert value == float(Theirs(2)(*(mask.int() for mask in masks)))


def test_hausdorff_of_masks_that_overlap_and_of_logits() -> None:
    generator = torch.Generator().manual_seed(0)
    masks = [torch.randint(0, 2, (2, 3, 9, 9), generator=generator) for _ in range(2)]
    assert float(HausdorffDistance(3)(*masks)) == pytest.approx(float(Theirs(3)(*masks)), rel=1e-6)
    logits = torch.rand(2, 3, 9, 9, generator=generator)
    labels = logits.argmax(1)
    target = one_hot(torch.randint(0, 3, (2, 9, 9), generator=generator), 3)
    expected = float(Theirs(3)(logits, target))
    assert float(HausdorffDistance(3)(logits, target)) == pytest.approx(expected, rel=1e-6)
    for given in ((logits, target.argmax(1)), (labels, target.argmax(1))):
        assert float(HausdorffDistance(3, input_format="index")(*given)) == pytest.approx(expected, rel=1e-6)


def test_ties_and_nan_of_logits_are_those_of_argmax() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randint(0, 3, (2, 4, 12, 13), generator=generator).float()
    logits[torch.rand(logits.shape, generator=generator) < 0.1] = math.nan
    target = maps(3, (2, 12, 13))[1]
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        metric = SurfaceDistance(4, include_background=True)
        value = metric(logits.to(dtype), target)
        assert value == SurfaceDistance(4, include_background=True)(logits.argmax(1), target) > 0


def test_hausdorff_where_boundaries_are_empty() -> None:
    """torchmetrics: infinite where one is empty, an error where both are."""
    here, none = torch.zeros(2, 1, 2, 6, 6, dtype=torch.int64)
    here[0, 1, 2:4, 2:4] = 1
    for preds, target in ((here, none), (none, here)):
        for directed in (False, True):
            ours = HausdorffDistance(2, directed=directed)
            assert ours(preds, target) == Theirs(2, directed=directed)(preds, target) == math.inf
            result = ours.result()
            assert math.isnan(result.values["HausdorffDistance"]) and result.counts["one_boundary_empty"] == 1
            assert result.reason("HausdorffDistance") == "no image has a boundary of the class on both sides"
    with pytest.raises((RuntimeError, IndexError), match="max"):
        Theirs(2)(none, none)
    ours = HausdorffDistance(2)
    assert math.isnan(ours(none, none)) and ours.result().counts["no_boundary"] == 1
    ours.update(here, here)
    ours.update(here, none)
    assert float(ours.compute()) == math.inf
    assert ours.result().values["HausdorffDistance"] == 0.0
    assert ours.result().counts == {"images": 3, "scored": 1, "one_boundary_empty": 1, "no_boundary": 1}


def test_hausdorff_of_images_that_are_not_square_and_of_volumes() -> None:
    """torchmetrics mixes up rows of images that are not square, and has no distances of volumes."""
    preds, target = maps(1, (2, 9, 23))
    expected = [max(max(d) for d in lists(preds[b], target[b], c)) for b in range(2) for c in range(1, 4)]
    assert float(HausdorffDistance(4, input_format="index")(preds, target)) == np.float32(np.mean(expected))
    # two pixels of a tall image that are one row apart
    tall = torch.zeros(2, 1, 2, 30, 4, dtype=torch.int64)
    tall[0, 0, 1, 25, 1], tall[1, 0, 1, 26, 1] = 1, 1
    assert float(HausdorffDistance(2)(*tall)) == 1.0
    with pytest.raises(IndexError, match="out of bounds"):
        Theirs(2)(*tall)
    volumes = maps(2, (2, 7, 8, 9))
    expected = [max(max(d) for d in lists(volumes[0][b], volumes[1][b], c)) for b in range(2) for c in range(1, 4)]
    assert float(HausdorffDistance(4, input_format="index")(*volumes)) == np.float32(np.mean(expected))
    with pytest.raises(ValueError, match="rank 2"):
        Theirs(4, input_format="index")(*volumes)


@pytest.mark.parametrize("spacing", [None, [0.7, 1.9]])
@pytest.mark.parametrize("directed", [False, True])
def test_surface_distances_are_those_of_scipy_and_numpy(spacing: Any, directed: bool) -> None:
    preds, target = maps(3, (4, 15, 22))
    preds[0][preds[0] == 2] = 1  # a class without prediction
    found = {name: np.full((4, 3), np.nan) for name in ("mean", "percentile", "max")}
    for image in range(4):
        for label in range(1, 4):
            both = lists(preds[image], target[image], label, spacing)[: 1 if directed else 2]
            if len(both[0]):
                found["mean"][image, label - 1] = np.concatenate(both).mean()
                found["percentile"][image, label - 1] = max(np.percentile(d, 90) for d in both)
                found["max"][image, label - 1] = max(d.max() for d in both)
    for statistic, values in found.items():
        for average in ("macro", "micro", "none", None):
            per_class = np.nanmean(values, axis=0)
            expected = {"macro": per_class.mean(), "micro": np.nanmean(values)}.get(average or "", per_class)
            metric = SurfaceDistance(
                4, statistic=statistic, percentile=90, directed=directed, spacing=spacing, average=average
            )
            metric.update(preds, target)
            assert metric.compute().numpy() == pytest.approx(expected, rel=1e-14)
            result = metric.result()
            assert result.values["per_class"] == pytest.approx(per_class, rel=1e-14)
            assert result.values["scored_images"].tolist() == [4, 3, 4]
            assert result.counts == {"images": 4, "scored": 11, "one_boundary_empty": 1, "no_boundary": 0}


def test_surface_distance_by_hand() -> None:
    # A column of 3 pixels, 4 columns from a column of 2 pixels: distances 4, 4, sqrt(17) and back 4, 4.
    preds, target = torch.zeros(2, 1, 6, 8, dtype=torch.uint8)
    preds[0, 1:4, 1], target[0, 1:3, 5] = 1, 1
    far = math.sqrt(17)
    for choices, value in (
        ({}, (16 + far) / 5),
        (dict(directed=True), (8 + far) / 3),
        (dict(statistic="max"), far),
        (dict(statistic="percentile", percentile=50), 4.0),
        (dict(statistic="percentile"), 4 + (far - 4) * 0.9),
        (dict(statistic="max", distance_metric="chessboard"), 4.0),
        (dict(statistic="max", distance_metric="taxicab"), 5.0),
        (dict(statistic="max", spacing=torch.tensor([3.0, 1.0])), 5.0),
    ):
        assert float(SurfaceDistance(2, **choices)(preds, target)) == pytest.approx(value, rel=1e-15), choices
    assert SurfaceDistance(2, include_background=True)(preds, preds) == 0
    assert SurfaceDistance(1)(preds * 0, target * 0) == 0  # a class that is alone is no background


def test_a_class_without_a_distance_is_nan_and_counted() -> None:
    preds, target = torch.zeros(2, 2, 5, 5, dtype=torch.int64)
    preds[0, 1, 1] = preds[1, 1, 1] = target[0, 1, 3] = 1
    target[1, 4, 4] = 2
    metric = SurfaceDistance(4, average="none")
    metric.update(preds, target)
    assert metric.compute().tolist() == pytest.approx([2.0, math.nan, math.nan], nan_ok=True)
    result = metric.result()
    assert result.counts == {"images": 2, "scored": 1, "one_boundary_empty": 2, "no_boundary": 3}
    assert result.values["scored_images"].tolist() == [1, 0, 0]
    assert result.reason("per_class") == "no image has a boundary of the class on both sides"
    macro = SurfaceDistance(4)
    assert float(macro(preds, target)) == 2.0
    f1 = BoundaryF1(4, tolerance=2, unit="pixels", average="none")
    assert f1(preds, target).tolist() == pytest.approx([0.5, 0.0, math.nan], nan_ok=True)
    assert f1.result().counts == {"images": 2, "scored": 3, "one_boundary_empty": 2, "no_boundary": 3}
    assert f1.result().reason("per_class") == "no image has a boundary of the class"
    empty = BoundaryF1(4)
    assert math.isnan(empty(preds[:0], target[:0])) and empty.result().counts["images"] == 0


def test_boundary_f1_by_definition() -> None:
    preds, target = maps(8, (3, 20, 31))
    for tolerance, unit in ((0.0075, "diagonal"), (0.06, "diagonal"), (1, "pixels"), (math.sqrt(2), "pixels")):
        limit = tolerance * math.hypot(20, 31) if unit == "diagonal" else tolerance
        values = np.zeros((3, 3))
        for image in range(3):
            for label in range(1, 4):
                precision, recall = ((d <= limit).mean() for d in lists(preds[image], target[image], label))
                values[image, label - 1] = 2 * precision * recall / max(precision + recall, 1e-300)
        metric = BoundaryF1(4, tolerance=tolerance, unit=unit)
        assert float(metric(preds, target)) == pytest.approx(values.mean(0).mean(), rel=1e-14)
        assert metric.result().values["per_class"] == pytest.approx(values.mean(0), rel=1e-14)


def test_ignored_pixels_are_of_no_class() -> None:
    preds, target = maps(9)
    void = torch.zeros_like(target, dtype=torch.bool)
    void[:, 4:9, 6:12] = True
    marked = target.masked_fill(void, 255).to(torch.uint8)
    inside = [torch.where(void[:, None], 0, one_hot(side)) for side in (preds, target)]
    for metric in (SurfaceDistance, BoundaryF1):
        expected = metric(4, input_format="one-hot")(*inside)
        assert metric(4, ignore_index=255)(preds, marked) == expected
        assert metric(4, ignore_index=255, input_format="mixed")(one_hot(preds), marked) == expected
        with pytest.raises(InputError, match=r"target\[0, 4, 6\] must be a class index from 0 to 3 but is 255"):
            metric(4)(preds, marked)


@pytest.mark.parametrize("images", [1, 2, 4])  # as many as classes too, where [B, ...] and [C, ...] are one shape
def test_the_ignored_channel_of_a_one_hot_target(images: int) -> None:
    preds, target = maps(9, (images, 16, 20))
    hot, true = one_hot(preds), one_hot(target)
    for metric in (SurfaceDistance, BoundaryF1):
        expected = metric(4, ignore_index=2)(preds, target)
        assert metric(4, ignore_index=2, input_format="one-hot")(hot, true) == expected
        assert metric(4, ignore_index=2, input_format="one-hot")(hot.float(), true) == expected
        assert metric(4, ignore_index=2, input_format="mixed")(preds, true) == expected
        everything = metric(4, input_format="one-hot")(hot, true)
        assert everything != expected
        assert metric(4, ignore_index=255, input_format="one-hot")(hot, true) == everything


def test_images_of_too_many_pixels_are_refused_before_they_are_copied() -> None:
    huge = torch.zeros((), dtype=torch.uint8).expand(1, 2**16, 2**15)
    with pytest.raises(
        InputError, match=r"preds must have at most 2147483647 pixels an image but have \[65536, 32768\]"
    ):
        SurfaceDistance(2)(huge, huge)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint64])
def test_any_integer_dtype(dtype: torch.dtype) -> None:
    preds, target = maps(10)
    expected = SurfaceDistance(4)(preds, target)
    assert SurfaceDistance(4)(preds.to(dtype), target.to(torch.uint8)) == expected


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: HausdorffDistance(0), InputError, "num_classes must be at least 1 but got 0"),
        (lambda: HausdorffDistance(2, distance_metric="l2"), InputError, "distance_metric must be one of"),
        (lambda: HausdorffDistance(2, spacing=3.0), InputTypeError, "spacing must be list or tuple or Tensor but"),
        (lambda: HausdorffDistance(2, spacing=[1.0]), InputError, "spacing must have a number of each axis, two or"),
        (lambda: HausdorffDistance(2, spacing=[1.0, -1.0]), InputError, "spacing must be above 1e-100"),
        (lambda: HausdorffDistance(2, directed="yes"), InputTypeError, "directed must be bool but got str"),
        (lambda: HausdorffDistance(2, input_format="hot"), InputError, "input_format must be one of"),
        (lambda: SurfaceDistance(2, statistic="median"), InputError, "statistic must be one of 'mean'"),
        (lambda: SurfaceDistance(2, percentile=120), InputError, r"percentile must be in \[0, 100\] but got 120"),
        (lambda: SurfaceDistance(2, average="weighted"), InputError, "average must be one of 'macro', 'micro'"),
        (lambda: BoundaryF1(2, unit="mm"), InputError, "unit must be one of 'diagonal', 'pixels' but got 'mm'"),
        (lambda: BoundaryF1(2, tolerance=2), InputError, r"tolerance must be in \[0, 1\] but got 2: unit='pixels'"),
    ],
)
def test_bad_arguments_are_named(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_channels_are_as_many_as_classes() -> None:
    preds, target = (one_hot(side) for side in maps(6))
    assert float(Theirs(3)(preds, target)) == float(Theirs(4)(preds, target))
    with pytest.raises(InputError, match=r"preds must have shape \[B, 3, ...\], a channel for each class, but got"):
        HausdorffDistance(3)(preds, target)


def test_bad_batches_change_nothing() -> None:
    metric = SurfaceDistance(3)
    labels = torch.zeros(2, 4, 4, dtype=torch.int64)
    for preds, target, message in (
        (labels, labels + 3, r"target\[0, 0, 0\] must be a class index from 0 to 2 but is 3"),
        (labels, labels[:, :3], "preds must be class indices"),
        (
            labels[0],
            labels[0],
            r"preds must be images \[H, W\] or volumes \[D, H, W\] but are \[4\] in each of a batch",
        ),
    ):
        with pytest.raises(InputError, match=message):
            metric.update(preds, target)
    assert metric.update_count == 0 and len(metric.state().scores) == 0
    with pytest.raises(InputError, match="spacing must have 3 numbers, one of each axis, but got"):
        SurfaceDistance(3, spacing=[1.0, 2.0]).update(labels[None], labels[None])
