"""Masks and label maps in a GPU check: metrics against the CPU, an update of dense masks beside a copy of its bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.checks import Checks, Disagreement, device_seconds, wait, wall_seconds
from benchmarks.gpu_parity import on
from benchmarks.gpu_timing import Timing, copy_bytes_per_second
from testing.parity import differences
from testing.registry import moved_bytes
from valor_gpu import segmentation
from valor_gpu.detection import MeanAveragePrecision

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


def _ellipses(shapes: Tensor, device: torch.device) -> Tensor:
    """Bool ``[N, H, W]`` of centres and sizes as fractions, ``[N, 4]``."""
    x, y, wide, high = (column[:, None, None].to(device) for column in shapes.unbind(1))
    across = torch.linspace(0, 1, WIDTH, device=device) - x
    down = torch.linspace(0, 1, HEIGHT, device=device)[:, None] - y
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


def time_masks(checks: Checks, device: torch.device, quick: bool, copy_size: int, images: int = 16) -> list[Timing]:
    """One update of dense masks, 100 detections and 7 ground truths in an image; bytes read beside a copy."""
    bandwidth = checks.run("copy bandwidth beside masks", partial(copy_bytes_per_second, device, copy_size))
    rows = 20 if quick else 100
    name = f"one update of {images} images, {rows} detections of {HEIGHT} x {WIDTH} pixels in each"
    row = checks.run(name, partial(_time_update, name, device, images, rows, bandwidth)) if bandwidth else None
    return [] if row is None else [row]


def _time_update(name: str, device: torch.device, images: int, rows: int, bandwidth: float) -> Timing:
    sides = masks_of(images, rows, 7, device)
    metric = MeanAveragePrecision(iou_type="segm").to(device)
    metric.update(*sides)
    wait(device)
    on_device = device_seconds(partial(metric.update, *sides), device, 5, before=metric.reset)
    wall = wall_seconds(partial(metric.update, *sides), device, 5, before=metric.reset)
    moved = moved_bytes(sides)
    share = moved / on_device["median"] / bandwidth
    return {"work": name, "seconds": wall, "device_seconds": on_device, "bytes": moved, "share_of_copy": share}
