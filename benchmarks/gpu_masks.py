"""Masks and label maps in a GPU check: metrics against the CPU, and what is timed of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.checks import Checks, Disagreement
from benchmarks.gpu_jobs import Job, OfFunction, OfMetric
from benchmarks.gpu_parity import on
from benchmarks.gpu_works import Sizes
from testing.parity import differences
from valor_gpu import segmentation
from valor_gpu.detection import MeanAveragePrecision
from valor_gpu.ops import mask_boundary, pack_masks

MASK_OPS = frozenset((
    "pack_masks", "mask_boundary", "dense_pairs", "run_pairs", "rasterise", "count_pixels", "count_logits",
    "count_one_hot", "count_panoptic", "surface_distances", "polygon_iou", "polygon_pairs",
))  # fmt: skip
"""Ops that are timed beside what is here, not with those of boxes."""
HEIGHT, WIDTH = 425, 600
_CLASSES = 7


def masks_of(images: int, rows: int, ground_truths: int, device: torch.device, seed: int = 0) -> tuple[Any, Any]:
    """One dict per image on each side: ellipses of 425 x 600 pixels, detections moved from the ground truths."""
    generator = torch.Generator().manual_seed(seed)
    preds, target = [], []
    for _ in range(images):
        shapes = torch.rand(ground_truths, 4, generator=generator)
        labels = torch.randint(_CLASSES, (ground_truths,), generator=generator)
        taken = torch.randint(max(ground_truths, 1), (rows,), generator=generator)
        moved = shapes[taken] + 0.03 * torch.randn(rows, 4, generator=generator)
        scores = torch.rand(rows, generator=generator)
        item = {"masks": _ellipses(moved, device), "scores": scores, "labels": labels[taken]}
        preds.append(on(device, (item, None))[0])
        target.append(on(device, ({"masks": _ellipses(shapes, device), "labels": labels}, None))[0])
    return preds, target


def _ellipses(shapes: Tensor, device: torch.device, height: int = HEIGHT, width: int = WIDTH) -> Tensor:
    """Bool ``[N, H, W]`` of centres and sizes as fractions, ``[N, 4]``."""
    x, y, wide, high = (column[:, None, None].to(device) for column in shapes.unbind(1))
    across = torch.linspace(0, 1, width, device=device) - x
    down = torch.linspace(0, 1, height, device=device)[:, None] - y
    return (across / (0.02 + 0.15 * wide.abs())) ** 2 + (down / (0.02 + 0.15 * high.abs())) ** 2 < 1


def check_masks(checks: Checks, device: torch.device, images: int) -> None:
    """Metrics of dense masks and of label maps give on ``device`` what they give on the CPU."""
    for kinds in (("segm",), ("boundary",), ("bbox", "segm")):
        name = f"MeanAveragePrecision of masks, {' and '.join(kinds)}"
        checks.run(name, partial(_check_average_precision, device, kinds, images))
    index = {"num_classes": _CLASSES, "input_format": "index"}
    for name, choices in (
        ("MeanIoU", index),
        ("DiceScore", index),
        ("PixelConfusionMatrix", {"num_classes": _CLASSES}),
    ):
        make = partial(getattr(segmentation, name), **choices)
        checks.run(f"{name} of label maps", partial(_check_label_maps, device, make, images))


def _check_average_precision(device: torch.device, kinds: tuple[str, ...], images: int) -> None:
    preds, target = masks_of(images, 12, 5, torch.device("cpu"))
    for item in (*preds, *target):
        item["boxes"] = _boxes(item["masks"])
    found = []
    for place in (torch.device("cpu"), device):
        metric = MeanAveragePrecision(iou_type=kinds).to(place)
        metric.update(*on(place, (preds, target)))
        found.append({name: value.cpu() for name, value in sorted(metric.compute().items())})
    if text := differences(found[1], found[0]):
        raise Disagreement(text)


def _boxes(masks: Tensor) -> Tensor:
    """float32 xyxy ``[N, 4]`` around masks, zeros around empty ones."""
    ends = []
    for axis, size in ((1, WIDTH), (2, HEIGHT)):
        used, places = masks.any(axis), torch.arange(size)
        low = torch.where(used, places, size).amin(1)
        ends.append((torch.where(used.any(1), low, 0), torch.where(used, places + 1, 0).amax(1)))
    (left, right), (top, bottom) = ends
    return torch.stack((left, top, right, bottom), 1).float()


def _check_label_maps(device: torch.device, make: Callable[[], Any], images: int) -> None:
    generator = torch.Generator().manual_seed(images)
    preds, target = (torch.randint(_CLASSES, (images, 65, 130), generator=generator) for _ in range(2))
    found = []
    for place in (torch.device("cpu"), device):
        metric = make().to(place)
        metric.update(*on(place, (preds, target)))
        found.append(torch.as_tensor(metric.compute()).double().cpu())
    if not torch.allclose(found[0], found[1], rtol=1e-6, atol=0, equal_nan=True):
        raise Disagreement(f"{found[1]} is not {found[0]}")


# ------------------------------------------------------------------------------------------------------------- timing


def mask_jobs(sizes: Sizes) -> list[Job]:
    """Label maps and logits of one image, an update of dense masks, and the ops that read masks."""
    count, height, width = sizes.masks
    shape = f"{count} x {height} x {width}"
    masks = partial(_packed_data, sizes)
    return [
        *_frame_jobs(sizes),
        Job(
            f"bool masks to packed bits, {shape}",
            masks,
            lambda _: OfFunction(pack_masks),
            ("packed masks",),
            sizes.repeats,
        ),
        _dense_job(sizes),
        Job(f"mask boundaries, {shape}", masks, lambda _: OfFunction(mask_boundary), ("mask boundary",), sizes.repeats),
    ]


def _frame_jobs(sizes: Sizes) -> list[Job]:
    frame = f"{sizes.frame[0]} x {sizes.frame[1]}"
    maps, logits = f"label maps {frame} int64, {sizes.classes} classes", f"{sizes.classes} x {frame}"
    jaccard = partial(_theirs, "MulticlassJaccardIndex", sizes.classes)
    region = partial(_region, segmentation.mIOU, sizes.classes)
    matrix = partial(_region, segmentation.PixelConfusionMatrix, sizes.classes)
    keys, of_logits = ("label maps", "torchmetrics, host-bound"), ("logits", "torchmetrics, logits")
    return [
        Job(f"mIoU, {maps}", partial(_maps, sizes), region, keys, sizes.repeats, jaccard),
        Job(f"confusion matrix, {maps}", partial(_maps, sizes), matrix, keys, sizes.repeats,
            partial(_theirs, "MulticlassConfusionMatrix", sizes.classes)),
        Job(f"mIoU, logits {logits}", partial(_logits, sizes), region, of_logits, sizes.repeats, jaccard),
    ]  # fmt: skip


def _region(kind: Callable[..., Any], classes: int, device: torch.device) -> OfMetric:
    return OfMetric(kind(num_classes=classes).to(device), computes=False)


def _theirs(name: str, classes: int, device: torch.device) -> OfMetric:
    kind = getattr(importlib.import_module("torchmetrics.classification"), name)
    return OfMetric(kind(classes, validate_args=False).to(device), computes=False)


def _maps(sizes: Sizes, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """An int64 pair ``[1, H, W]``: squares of 32 pixels, and a tenth of the pixels predicted at random."""
    generator = torch.Generator(device).manual_seed(0)
    height, width = sizes.frame
    rough = torch.randint(sizes.classes, (-(-height // 32), -(-width // 32)), generator=generator, device=device)
    target = rough.repeat_interleave(32, 0).repeat_interleave(32, 1)[None, :height, :width].contiguous()
    other = torch.randint(sizes.classes, target.shape, generator=generator, device=device)
    wrong = torch.rand(target.shape, generator=generator, device=device) < 0.1
    return [(torch.where(wrong, other, target), target)]


def _logits(sizes: Sizes, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator(device).manual_seed(0)
    ((_, target),) = _maps(sizes, device)
    return [(torch.randn(1, sizes.classes, *sizes.frame, generator=generator, device=device), target)]


def _packed_data(sizes: Sizes, device: torch.device) -> tuple[Tensor]:
    """Ellipses, bool."""
    count, height, width = sizes.masks
    shapes = torch.rand(count, 4, generator=torch.Generator().manual_seed(0))
    return (torch.cat([_ellipses(shape[None], device, height, width) for shape in shapes]),)


def _dense_job(sizes: Sizes) -> Job:
    images, rows = sizes.dense

    def start(device: torch.device) -> OfMetric:
        return OfMetric(MeanAveragePrecision(iou_type="segm").to(device), computes=False)

    name = f"mask AP, one update, {images} images x {rows} bool masks {HEIGHT} x {WIDTH}"
    return Job(name, lambda device: [masks_of(images, rows, 7, device)], start, ("dense masks",), 5)
