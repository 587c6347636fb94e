"""What to do about a value that is no class, or neither 0 nor 1 in a one-hot map. Reads values only after an error.

Imports no torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

USUAL_VOID = (255, -1, -100, 65535)
"""What data sets write where a pixel has no class."""

NO_IGNORE = "this metric has no ignore_index, as in torchmetrics; IOU, mIOU, PixelF1 (Dice), SurfaceDistance have"
LABELS = "class indices need input_format='index', or 'mixed' beside a one-hot side"
ONE_CHANNEL = "one channel of scores needs a threshold, as (preds > 0.5).long()"
MASK_VALUES = "(target > 0).long() makes 0 and 1 of a mask of 0 and 255"
VOID = "ignore_index leaves out pixels without a class, which are often 255"


def one_channel_hint(name: str, side: Tensor, value: float) -> str:
    """Returns what makes a mask of a side of one channel; empty for NaN, which no threshold cures.

    Args:
        name: of the argument.
        side: its tensor, whose other values tell what ``value`` may be.
        value: the first that is neither 0 nor 1.

    Example:
        >>> import torch
        >>> one_channel_hint("target", torch.tensor([0, 255]), 255)
        'one channel must be a mask, as (target > 0).long() makes of 0 and 255'
    """
    if math.isnan(value):
        return ""
    start = "one channel must be a mask, as"
    if value > 1 and bool(((side == 0) | (side == value)).all()):
        return f"{start} ({name} > 0).long() makes of 0 and {value:g}"
    if side.is_floating_point():
        return f"{start} ({name} > 0.5).long() makes of probabilities, ({name} > 0).long() of logits"
    return f"class indices, as {name}.squeeze(1), need input_format='index', or 'mixed' beside a one-hot side"


def label_hint(name: str, labels: Tensor, value: int, classes: int, can_ignore: bool, ignored: int | None) -> str:
    """Returns the likely reason for a label that is no class, and its cure; empty where none comes to mind.

    Args:
        name: ``preds`` or ``target``.
        labels: that side, whose other labels tell what ``value`` may be.
        value: the first label out of range.
        classes: C.
        can_ignore: whether the metric has an argument ``ignore_index``.
        ignored: pixels of this label are left out already.
    """
    labels = labels.long()
    labels = labels if ignored is None else labels[labels != ignored]
    low, high = (int(edge) for edge in labels.aminmax())
    if classes == 1 and (low, high) == (0, 1):
        return "a mask of 0 and 1 as class indices has two classes, num_classes=2"
    if (low, high) == (1, classes):
        return f"classes are numbered from 0: {name} - 1 turns labels from 1 to {classes} into them"
    void = value in USUAL_VOID
    if classes <= 2 and value > 1 and bool(((labels == 0) | (labels == value)).all()):
        start = f"{value} may be the foreground of a mask, which ({name} > 0).long() makes 1 (two classes)"
        keep = f"; only where such pixels have no class, ignore_index={value} leaves them out"
        return start + (keep if void and name == "target" and can_ignore else "")
    if not void or name != "target":
        return ""
    return f"ignore_index={value} leaves such pixels out" if can_ignore else NO_IGNORE
