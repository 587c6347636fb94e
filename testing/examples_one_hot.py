"""One-hot maps made by hand, for the op that counts them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from testing.datasets import BoxDataset
from testing.examples_pixels import INTS, Arguments, Shape, labels_of, maps_load, with_value


def hot_of(rng: np.random.Generator, shape: Shape, classes: int, dtype: torch.dtype = torch.bool) -> Tensor:
    """``[B, C, ...]`` of 0 and 1: channels overlap, and some pixels have none."""
    return torch.from_numpy(rng.random((shape[0], classes, *shape[1:])) < 0.4).to(dtype)


def one_hot_examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``count_one_hot``."""
    rng = np.random.default_rng(21)
    for shape in ((0, 4, 5), (1, 1, 1), (1, 63), (2, 33, 65), (3, 2, 5, 7), (2,), (2, 0, 3)):
        for classes in (1, 2, 19):
            maps = hot_of(rng, shape, classes), hot_of(rng, shape, classes)
            yield f"{shape} of {classes}", (*maps, classes, None, len(shape) % 2 == 0)
            yield f"labels {shape} of {classes}", (labels_of(rng, shape, classes), maps[1], classes, 0, True)
            truth = with_value(labels_of(rng, shape, classes), rng, 255)
            yield f"{shape} of {classes} to labels", (maps[0], truth, classes, 255, False)
    for number, dtype in enumerate(INTS):
        maps = hot_of(rng, (2, 9, 33), 5, dtype), hot_of(rng, (2, 9, 33), 5, INTS[-1 - number])
        yield f"{dtype}, {INTS[-1 - number]}", (*maps, 5, 2, True)
        if dtype != torch.bool:
            yield f"labels {dtype}", (maps[0], labels_of(rng, (2, 9, 33), 5, 3, dtype), 5, 1, False)
    yield from _layouts(rng)
    yield from _errors(rng)
    yield "many classes", (hot_of(rng, (2, 7, 9), 1500), labels_of(rng, (2, 7, 9), 1500), 1500, 3, True)
    if not quick:
        yield "large", (hot_of(rng, (3, 300, 500), 19), hot_of(rng, (3, 300, 500), 19), 19, None, False)


def _layouts(rng: np.random.Generator) -> Iterator[tuple[str, Arguments]]:
    hot, other = hot_of(rng, (2, 12, 36), 7), hot_of(rng, (2, 12, 36), 7, torch.uint8)
    truth = with_value(labels_of(rng, (2, 12, 36), 7, 5), rng, -1)
    last = torch.channels_last
    yield "channels last", (hot.contiguous(memory_format=last), other.contiguous(memory_format=last), 7, None, True)
    yield "channels last and not", (hot.contiguous(memory_format=last), other, 7, 6, False)
    yield "a part of an image", (hot[..., 2:11, 3:30], truth[:, 2:11, 3:30], 7, -1, False)
    yield "transposed", (hot.transpose(2, 3), truth.transpose(1, 2), 7, -1, True)
    yield "expanded channels", (hot[:, :1].expand(-1, 7, -1, -1), other, 7, None, False)
    yield "images last", (hot.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2), other, 7, 3, True)
    deep = hot_of(rng, (2, 3, 4, 5), 3).permute(0, 1, 4, 2, 3)
    yield "of no fewer dimensions", (deep, hot_of(rng, (2, 5, 3, 4), 3, torch.int16), 3, None, False)


def _errors(rng: np.random.Generator) -> Iterator[tuple[str, Arguments]]:
    shape = (2, 40, 130)
    hot, truth = hot_of(rng, shape, 4, torch.int64), labels_of(rng, shape, 4)
    yield "2 among preds", (with_value(hot, rng, 2, 0.001), truth, 4, 1, True)
    yield "-1 in the target", (truth, with_value(hot, rng, -1, 0.001), 4, None, False)
    yield "2**40 under ignored ones", (with_value(hot, rng, 2**40, 0.01), with_value(hot, rng, 3, 0.01), 4, 2, False)
    yield "labels out of range", (hot, with_value(truth, rng, 9, 0.001), 4, 1, True)
    yield "both", (with_value(hot, rng, 7), with_value(truth, rng, -4), 4, 3, False)


def one_hot_load(scene: BoxDataset) -> Arguments:
    """Arguments of ``count_one_hot``: bool predictions and labels of 19 classes of one of the label maps."""
    preds, truth = (side[:1] for side in maps_load(scene))
    return (preds[:, None] == torch.arange(19)[:, None, None]).contiguous(), truth, 19, 255, False
