"""Batches of label maps and one-hot maps for the table of metrics."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from valor_gpu import segmentation

CLASSES = 4
_IMAGES: dict[str, Any] = dict(num_classes=CLASSES, aggregation_level="samplewise")
_HOT: dict[str, Any] = dict(num_classes=CLASSES, input_format="one-hot")

REGIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    **{name: (dict(num_classes=CLASSES), dict(num_classes=CLASSES, ignore_index=1))
       for name in ("IOU", "PixelAccuracy", "PixelPrecision", "PixelConfusionMatrix")},
    **{name: (_IMAGES, dict(_IMAGES, ignore_index=1)) for name in ("mIOU", "PixelRecall", "PixelF1")},
}  # fmt: skip
"""Arguments of each metric of label maps in two configurations."""

ONE_HOT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    **{name: (_HOT, dict(_HOT, input_format="index")) for name in ("DiceScore", "GeneralizedDiceScore")},
    "MeanIoU": (dict(_HOT, per_class=True), dict(_HOT, input_format="index", per_class=True)),
    "IOU": (_HOT, dict(_HOT, ignore_index=2)),
}
"""The same of one-hot maps, which may be read as label maps of 0 and 1."""

_KEPT: dict[str, Any] = dict(num_classes=CLASSES, keep_images=True)
KEPT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    name: (_KEPT, dict(_KEPT, ignore_index=1)) for name in ("mIOU", "PixelConfusionMatrix")
}
"""Arguments of metrics that keep the counts of each image."""


class Flipped(segmentation.MeanIoU):
    """Reads the channels of predictions in reverse: MeanIoU without ``num_classes`` has no choice but the format."""

    update_family = segmentation.MeanIoU.update_family

    def _choices_of_update(self) -> dict[str, Any]:
        return {"flipped": True}

    def update(self, preds: Tensor, target: Tensor) -> None:
        super().update(preds.flip(1), target)


def maps_batch(seed: int, images: int = 3) -> tuple[Tensor, Tensor]:
    """Label maps uint8 and int64 ``[B, 6, 9]``."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(CLASSES, (images, 6, 9), generator=generator)
    preds = torch.where(torch.rand(target.shape, generator=generator) < 0.5, target, target.flip(1))
    return preds.to(torch.uint8), target


def one_hot_batch(seed: int, images: int = 3) -> tuple[Tensor, Tensor]:
    """Bool and uint8 ``[B, C, 6, 9]``, channels overlap."""
    generator = torch.Generator().manual_seed(seed)
    shape = (images, CLASSES, 6, 9)
    preds, target = (torch.rand(shape, generator=generator) < share for share in (0.4, 0.6))
    return preds, target.to(torch.uint8)


def bad_maps() -> tuple[Tensor, Tensor]:
    """A batch with a label out of range."""
    preds, target = maps_batch(3)
    target[2, 4, 5] = 255
    return preds, target


def bad_one_hot() -> tuple[Tensor, Tensor]:
    """A batch with a 2 in a one-hot map."""
    preds, target = one_hot_batch(3)
    target[1, 3, 4, 5] = 2
    return preds, target


def region_rows() -> Iterator[dict[str, Any]]:
    """Arguments of the cases of the table."""
    makes: list[tuple[str, Any, Any, Any, Any]] = []
    for ending, rows, batch, bad in (
        ("", REGIONS, maps_batch, bad_maps),
        (" of one-hot maps", ONE_HOT, one_hot_batch, bad_one_hot),
        (" of kept images", KEPT, maps_batch, bad_maps),
    ):
        for name, choices in rows.items():
            metric = getattr(segmentation, name)
            makes.append((f"{name}{ending}", *(partial(metric, **choice) for choice in choices), batch, bad))
    unknown = [partial(kind, per_class=True) for kind in (segmentation.MeanIoU, Flipped)]
    makes.append(("MeanIoU of unknown classes", *unknown, one_hot_batch, bad_one_hot))
    for name, make, other, batch, bad in makes:
        yield dict(name=name, make=make, other=other, batch=batch, bad=bad,
                   empty=partial(batch, 0, 0), single=partial(batch, 7, 1))  # fmt: skip
