"""Label maps and class logits made by hand, for the ops that count pixels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing.datasets import BoxDataset

Arguments = tuple[Any, ...]
Shape = tuple[int, ...]
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTS = (
    *(torch.bool, torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64),
    torch.uint64,
)
SHAPES = ((1,), (63,), (64, 65), (0, 4), (1, 1, 1), (3, 5, 7), (2, 40, 100))


def labels_of(
    rng: np.random.Generator, shape: Shape, classes: int, run: int = 1, dtype: torch.dtype = torch.int64
) -> Tensor:
    """Classes in runs of about ``run`` pixels of a row."""
    size = int(np.prod(shape))
    lengths = rng.integers(1, 2 * run, size // max(run // 2, 1) + 2)
    flat = np.repeat(rng.integers(0, classes, len(lengths)), lengths)
    flat = np.concatenate([flat, rng.integers(0, classes, size)])[:size]
    return torch.from_numpy(flat.reshape(shape)).to(dtype)


def logits_of(rng: np.random.Generator, shape: Shape, dtype: torch.dtype = torch.float32) -> Tensor:
    """Logits with ties everywhere, -0.0, infinities and NaN of both signs."""
    values = torch.from_numpy(rng.integers(-4, 5, shape) / 4).to(dtype)
    values[torch.from_numpy(rng.random(shape) < 0.2)] = -0.0
    for special in (torch.inf, -torch.inf, torch.nan, -torch.nan):
        values[torch.from_numpy(rng.random(shape) < 0.01)] = special
    return values


def with_value(labels: Tensor, rng: np.random.Generator, value: int, share: float = 0.1) -> Tensor:
    """The labels with ``value`` in some places."""
    chosen = torch.from_numpy(rng.random(labels.shape) < share)
    return torch.where(chosen, torch.tensor(value, dtype=labels.dtype), labels)


def pixel_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``count_pixels``."""
    rng = np.random.default_rng(11)
    for shape in SHAPES:
        for classes, run in ((2, 1), (19, 30), (150, 3)):
            maps = labels_of(rng, shape, classes, run), labels_of(rng, shape, classes, run)
            pairs = (len(shape) + classes) % 2 == 0
            yield f"{shape} of {classes}", (*maps, classes, None, len(shape) > 1 and shape[0] < 9, pairs)
    for number, dtype in enumerate(INTS):
        classes = 2 if dtype == torch.bool else 19
        other = INTS[-1 - number]
        truth = labels_of(rng, (2, 9, 33), 2 if other == torch.bool else classes, 9, other)
        yield f"{dtype}, {other}", (labels_of(rng, (2, 9, 33), classes, 9, dtype), truth, classes, 1, False, True)
    for classes, pairs in ((1, True), (157, True), (400, True), (1000, False), (5000, False), (10_000, False)):
        maps = labels_of(rng, (2, 12, 80), classes, 4), labels_of(rng, (2, 12, 80), classes, 4)
        yield f"{classes} classes", (*maps, classes, 0, False, pairs)
    maps = labels_of(rng, (2, 12, 80), 19, 4), labels_of(rng, (2, 12, 80), 19, 4)
    for ignored in (255, -1, 3, 2**40):
        yield f"{ignored} ignored", (maps[0], with_value(maps[1], rng, ignored), 19, ignored, True, False)
    yield "preds out of range", (with_value(maps[0], rng, 99, 0.01), maps[1], 19, 3, True, True)
    yield (
        "both out of range",
        (with_value(maps[0], rng, -7), with_value(maps[1], rng, 19, 0.01), 19, None, False, False),
    )
    if not quick:
        big = labels_of(rng, (3, 512, 1000), 19, 40), labels_of(rng, (3, 512, 1000), 19, 40)
        yield "large", (*big, 19, None, False, True)
        yield "large, each image", (*big, 19, None, True, False)


def logit_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``count_logits``."""
    rng = np.random.default_rng(12)
    for dtype in FLOATS:
        for classes, place in ((1, (3,)), (2, (4, 17)), (19, (30, 40)), (40, ())):
            logits = logits_of(rng, (2, classes, *place), dtype)
            truth = labels_of(rng, (2, *place), classes, 5, torch.uint8)
            yield f"{dtype} of {classes}", (logits, truth, 0, dtype == torch.float32 and classes != 40, classes == 19)
    logits = logits_of(rng, (2, 7, 12, 36))
    truth = with_value(labels_of(rng, (2, 12, 36), 7, 5), rng, 255)
    yield "channels last", (logits.contiguous(memory_format=torch.channels_last), truth, 255, True, True)
    yield "a part of an image", (logits[..., 2:11, 3:30], truth[:, 2:11, 3:30], 255, False, False)
    yield "transposed", (logits.transpose(2, 3), truth.transpose(1, 2), 255, False, True)
    yield "expanded", (logits[:, :1].expand(-1, 7, -1, -1), truth, 255, False, False)
    yield "target out of range", (logits, truth, 1, False, False)
    yield "many classes", (logits_of(rng, (1, 1500, 3, 11)), labels_of(rng, (1, 3, 11), 1500), None, False, False)
    yield "none", (logits[:0], truth[:0], None, True, False)
    if not quick:
        big = logits_of(rng, (2, 19, 256, 512)), labels_of(rng, (2, 256, 512), 19, 40)
        yield "large", (*big, None, False, False)


def maps_load(scene: BoxDataset) -> tuple[Tensor, Tensor]:
    """Label maps uint8 of 19 classes like those of streets: 1024 x 2048 for every 500 images, 256 x 512 for fewer."""
    rng = np.random.default_rng(0)
    frames = len(scene.image_ids) // 500
    truth = labels_of(rng, (frames, 1024, 2048) if frames else (1, 256, 512), 19, 60, torch.uint8)
    return with_value(truth.roll(2, -1), rng, 4, 0.01), truth


def pixel_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``count_pixels``: the confusion matrix of 19 classes."""
    return *maps_load(scene), 19, 255, False, True


def logit_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``count_logits``: float32 logits of 19 classes for one of the label maps."""
    truth = maps_load(scene)[1][:1]
    logits = torch.rand(1, 19, *truth.shape[1:], generator=torch.Generator().manual_seed(0))
    return logits, truth, 255, False, False
