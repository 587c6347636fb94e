"""Batches of panoptic segmentations for the table of metrics."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from testing.examples_panoptic import CATEGORIES, THINGS, UNKNOWN, batch_of

PANOPTIC = dict(things=list(CATEGORIES[:THINGS]), stuffs=list(CATEGORIES[THINGS:]))
"""Arguments of both metrics."""

_ALLOWED: dict[str, Any] = dict(PANOPTIC, allow_unknown_preds_category=True)
OTHER = {
    "PanopticQuality": dict(_ALLOWED, things=[1000, *CATEGORIES[1:THINGS]]),
    "ModifiedPanopticQuality": dict(_ALLOWED, stuffs=[*CATEGORIES[THINGS:-1], 1000]),
}
"""The same in another configuration."""


def panoptic_batch(seed: int, images: int = 3) -> tuple[Tensor, Tensor]:
    """Predictions and ground truths int64 ``[B, 12, 15, 2]``."""
    preds, target = batch_of(seed, images, 12, 15)
    categories = preds[..., 0]
    categories[categories == UNKNOWN] = CATEGORIES[0]
    return preds, target


def unknown_batch() -> tuple[Tensor, Tensor]:
    """A batch with an unknown category."""
    preds, target = panoptic_batch(3)
    preds[2, 4, 5, 0] = UNKNOWN
    return preds, target
