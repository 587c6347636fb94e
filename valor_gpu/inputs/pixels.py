"""Label maps, logits and one-hot maps with their target, to one :class:`PixelBatch`: formats and shapes end here."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.checks import check_dense, check_same_device
from valor_gpu.errors import InputError
from valor_gpu.inputs.pixel_hints import LABELS, MASK_VALUES, NO_IGNORE, ONE_CHANNEL, VOID, label_hint, one_channel_hint
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import TARGET, value_kind, value_place, value_row
from valor_gpu.ops.labels.op import TRUE
from valor_gpu.ops.one_hot.op import count_one_hot, one_hot_error
from valor_gpu.ops.pixel_counts.op import (
    PIXEL_TYPES,
    count_logit_pairs,
    count_logits,
    count_pixel_pairs,
    count_pixels,
    ignored_label,
    pixel_error,
)

INPUT_FORMATS = ("index", "one-hot", "mixed")


class PixelTask(NamedTuple):
    """What the pixels of a batch may be.

    Attributes:
        classes: C, or None: as many as the one-hot side has channels.
        ignore_index: pixels of this target are left out.
        input_format: one of :data:`INPUT_FORMATS`, see :func:`pixel_batch`.
        can_ignore: whether the metric has an argument ``ignore_index``, for messages.
    """

    classes: int | None
    ignore_index: int | None = None
    input_format: str = "index"
    can_ignore: bool = True


class PixelCounts(NamedTuple):
    """Counts of a batch.

    Attributes:
        counts: int64 ``[3, C]``, or of each image ``[B, 3, C]``: true positives, predicted and true pixels.
        ignored: int64 ``[]``, pixels that were left out; None where ``ignore_index`` is.
        error: int64 ``[]``, an error code.
    """

    counts: Tensor
    ignored: Tensor | None
    error: Tensor


@dataclass(frozen=True)
class PixelBatch:
    """Predictions and target of a batch, on one device.

    Attributes:
        preds: class indices ``[B, ...]``, logits ``[B, C, ...]`` or a one-hot map ``[B, C, ...]``.
        target: class indices ``[B, ...]`` or, unless ``preds`` are logits, a one-hot map.
        form: ``labels`` (of both), ``logits`` (of the predictions) or ``one-hot`` (of one side at least).
        shape: images, then the pixels of each.
        classes: C.
        task: what was expected.
        given: both sides as messages show them: masks before :func:`mask_of`.
    """

    preds: Tensor
    target: Tensor
    form: str
    shape: tuple[int, ...]
    classes: int
    task: PixelTask
    given: tuple[Tensor, Tensor]

    @property
    def ignore_index(self) -> int | None:
        """See :class:`PixelTask`."""
        return ignored_label(self.task.ignore_index, self.target)

    @property
    def images(self) -> int:
        """Number of images, B."""
        return self.shape[0]

    @property
    def pixels(self) -> int:
        """Number of pixels of all images."""
        return math.prod(self.shape)

    def count(self, per_image: bool) -> PixelCounts:
        """Counts of classes; does not synchronise with the device."""
        ignore = self.ignore_index
        if self.form == "one-hot":
            found = count_one_hot(self.preds, self.target, self.classes, ignore_index=ignore, per_image=per_image)
            return PixelCounts(found.counts, None if ignore is None else found.ignored, found.error)
        if self.form == "logits":
            counts, error = count_logits(self.preds, self.target, ignore_index=ignore, per_image=per_image)
        else:
            counts, error = count_pixels(
                self.preds, self.target, self.classes, ignore_index=ignore, per_image=per_image
            )
        return PixelCounts(counts, None if ignore is None else self.pixels - counts[..., TRUE, :].sum(), error)

    def count_pairs(self, per_image: bool = False) -> PixelCounts:
        """The confusion matrix ``[C, C]`` or that of each image ``[B, C, C]``, rows are true classes; not the counts.

        Raises:
            InputError: a side is one-hot.
        """
        if self.form == "one-hot":
            raise InputError(
                "preds and target must be class indices, or preds logits, for a confusion matrix: channels of one-hot"
                " maps may overlap, so that a pixel has no one cell; give the argmax over the channels"
            )
        if self.form == "logits":
            matrix, error = count_logit_pairs(
                self.preds, self.target, ignore_index=self.ignore_index, per_image=per_image
            )
        else:
            matrix, error = count_pixel_pairs(
                self.preds, self.target, self.classes, ignore_index=self.ignore_index, per_image=per_image
            )
        return PixelCounts(matrix, None if self.ignore_index is None else self.pixels - matrix.sum(), error)

    def describe(self, code: int) -> str:
        """The message of an error code: the place and the value; reads it, so that CUDA tensors are waited for."""
        if self.form == "one-hot":
            message: Callable[[int], str] = one_hot_error(*self.given, self.classes)
        else:
            message = pixel_error(None if self.form == "logits" else self.preds, self.target, self.classes)
        text = message(code)
        known, _, value = text.rpartition(" but is ")
        hint = self._hint(value_kind(code) == TARGET, value) if known else ""
        return f"{text}: {hint}" if hint else text

    def _hint(self, of_target: bool, value: str) -> str:
        """What to do about a value of a side; empty where nothing comes to mind."""
        name, side = ("target", self.given[1]) if of_target else ("preds", self.given[0])
        if side.ndim > len(self.shape):  # one-hot
            if self.classes == 1:
                return one_channel_hint(name, side, float(value))
            return LABELS if self.task.input_format == "one-hot" else ""
        return label_hint(name, side, int(value), self.classes, self.task.can_ignore, self.ignore_index)


def describe_later(code: int, task: PixelTask) -> str:
    """The message of an error code of a batch that is gone: the image, the place in it, what is needed."""
    name = "target" if value_kind(code) == TARGET else "preds"
    labels = f"a class index from 0 to {(task.classes or 0) - 1}" if task.classes else "a class index below C"
    needs = {"index": labels, "one-hot": "0 or 1", "mixed": f"{labels}, or 0 or 1 in a one-hot map"}
    hints = []
    if task.input_format != "index" and task.classes in (None, 1):
        hints.append(ONE_CHANNEL)
    if task.input_format == "one-hot":
        hints.append(LABELS)
    elif name == "target" and task.ignore_index is None:
        hints += [MASK_VALUES] if task.classes in (None, 1, 2) else []
        hints.append(VOID if task.can_ignore else NO_IGNORE)
    return (
        f"{name}[{value_row(code)}] must hold {needs[task.input_format]} but element {value_place(code)} of that image,"
        f" counted along its rows, does not (images are counted within their batch){''.join(f'; {h}' for h in hints)}"
    )


def mask_of(side: Tensor) -> Tensor:
    """A mask of one channel as uint8: 0 and 1 stay, and 2 stands for every other value, which counts as an error.

    Example:
        >>> mask_of(torch.tensor([0.0, 1.0, 0.5, torch.nan]))
        tensor([0, 1, 2, 2], dtype=torch.uint8)
    """
    above = side != 0
    return above.to(torch.uint8).add_(above & (side != 1))


def pixel_batch(preds: Values, target: Values, task: PixelTask) -> PixelBatch:
    """Reads one batch of a segmentation metric. Nothing is copied unless a one-hot side is floating point.

    Args:
        preds: ``index``: class indices ``[B, ...]`` of any integer dtype, or logits ``[B, C, ...]`` of any float dtype.
            ``one-hot``: 0 and 1 of bool or any integer dtype ``[B, C, ...]``, channels may overlap; or logits of two
            or more classes. The one channel of one class must hold 0 and 1 in floats too.
            ``mixed``: one side as for ``index``, the other as for ``one-hot``.
        target: ``index``: class indices ``[B, ...]``; ``one-hot``: as ``preds``, in their shape. A floating-point
            target ``[B, C, ...]`` of two or more classes stands for its argmax.
        task: what is expected.

    Returns:
        The batch; of logits beside a one-hot target, and of a floating-point target, the argmax was taken. Floats of
        one channel became a mask: values other than 0 and 1, among them NaN, are errors of the counts.

    Raises:
        InputError: a shape, dtype or device does not fit; the message names the argument.

    Example:
        >>> import torch
        >>> batch = pixel_batch(torch.rand(2, 3, 8, 8), torch.zeros(2, 8, 8, dtype=torch.uint8), PixelTask(3))
        >>> batch.form, batch.shape
        ('logits', (2, 8, 8))
    """
    preds, target = as_values("preds", preds), as_values("target", target)
    for name, side in (("preds", preds), ("target", target)):
        check_dense(name, side)
        if side.dtype not in FLOAT_TYPES and side.dtype not in PIXEL_TYPES:
            raise InputError(f"{name} must be floating point or integer but is {side.dtype}")
    check_same_device(("preds", "target"), (preds, target))
    channels = _with_channels(preds, target, task.input_format)
    classes = _classes((preds, target), channels, task)
    preds, target = preds.detach(), target.detach()
    shape = (target.shape[0], *target.shape[2:]) if channels[1] else tuple(target.shape)
    if classes == 1 and any(channels):  # the argmax of one channel would be that channel, whatever it holds
        masks = [mask_of(side) if side.is_floating_point() else side for side in (preds, target)]
        return PixelBatch(masks[0], masks[1], "one-hot", shape, classes, task, (preds, target))
    if channels[1] and target.is_floating_point():
        target, channels = target.argmax(1), (channels[0], False)
    if channels[1] and preds.is_floating_point():
        preds, channels = preds.argmax(1), (False, True)
    form = "logits" if preds.is_floating_point() else "one-hot" if any(channels) else "labels"
    return PixelBatch(preds, target, form, shape, classes, task, (preds, target))


def _classes(sides: tuple[Tensor, Tensor], channels: tuple[bool, bool], task: PixelTask) -> int:
    """The number of classes.

    Raises:
        InputError: a side has another number of channels, or one channel of logits, or nothing tells it.
    """
    classes = task.classes
    for name, side, wide in zip(("preds", "target"), sides, channels):
        if not wide:
            continue
        if classes is None:
            classes = side.shape[1]
        if side.shape[1] != classes or classes == 0:
            need = f"[B, {classes or 'C'}, ...]"
            hint = _channel_hint(name, side, task.input_format)
            raise InputError(
                f"{name} must have shape {need}, a channel for each class, but got {list(side.shape)}{hint}"
            )
        if classes == 1 and task.input_format == "index":
            raise InputError(
                f"preds must have two or more channels, logits of one class each, with input_format='index' but got"
                f" {list(side.shape)}{_channel_hint(name, side, 'index')} and num_classes=2"
            )
    if classes is None:
        raise InputError("num_classes must be given where no side has channels")
    return classes


def _with_channels(preds: Tensor, target: Tensor, input_format: str) -> tuple[bool, bool]:
    """Which sides are ``[B, C, ...]``.

    Raises:
        InputError: the shapes do not fit the format.
    """
    found = {
        "index": (preds.is_floating_point(), False),
        "one-hot": (True, True),
        "mixed": (preds.ndim > target.ndim, preds.ndim < target.ndim),
    }[input_format]
    pixels = []
    fits = any(found) or input_format == "index"
    for side, wide in zip((preds, target), found):
        pixels.append((*side.shape[:1], *side.shape[2:]) if wide else tuple(side.shape))
        fits &= side.ndim >= 2 + wide and (wide or not side.is_floating_point())
    if not fits or pixels[0] != pixels[1]:
        raise InputError(_shape_message(preds, target, input_format))
    return found


def _shape_message(preds: Tensor, target: Tensor, input_format: str) -> str:
    need = {
        "index": "preds must be class indices [B, ...] or floating-point logits [B, C, ...] and target class indices"
        " [B, ...] of the same pixels",
        "one-hot": "preds and target must both be [B, C, ...], with at least one dimension of pixels",
        "mixed": "one of preds and target must be class indices [B, ...] and the other [B, C, ...] of the same pixels",
    }[input_format]
    hint = _shape_hint(preds, target, input_format)
    got = " and ".join(
        f"{name} {side.dtype} {list(side.shape)}" for name, side in (("preds", preds), ("target", target))
    )
    return f"{need} with input_format={input_format!r} but got {got}{': ' if hint else ''}{hint}"


def _channel_hint(name: str, side: Tensor, input_format: str) -> str:
    if not side.is_floating_point():
        return f": {LABELS}" if input_format == "one-hot" else ""
    if side.shape[1] == 1:
        return f": one probability per pixel needs a threshold, ({name}[:, 0] > 0.5).long(), and input_format='index'"
    return ""


def _shape_hint(preds: Tensor, target: Tensor, input_format: str) -> str:
    """The likely mistake; empty where none comes to mind."""
    if preds.shape == target.shape and target.ndim > 1:
        if input_format != "index":
            return f"class indices on both sides need input_format='index'{_threshold_hint(preds, target)}"
        return (
            "floating-point class indices need .long(), one-hot maps input_format='one-hot'"
            f"{_threshold_hint(preds, target)}"
        )
    if hint := _layout_hint(preds, target):
        return hint
    if target.is_floating_point() and target.ndim == preds.ndim + 1 and input_format == "index":
        return "are preds and target in each other's place?"
    if input_format != "mixed" and preds.ndim != target.ndim:
        if not preds.is_floating_point():
            return "a one-hot map beside class indices needs input_format='mixed'"
        return "logits beside class indices need input_format='index'" if input_format == "one-hot" else ""
    return ""


def _threshold_hint(preds: Tensor, target: Tensor) -> str:
    """Names the threshold of a binary network: ``.long()`` of its probabilities is 0 everywhere."""
    if not preds.is_floating_point() or (target.ndim == 4 and target.shape[1] > 1):
        return ""
    return ", probabilities of a binary mask a threshold, (preds > 0.5).long()"


def _layout_hint(preds: Tensor, target: Tensor) -> str:
    """The dimension that is missing, in another place or too many."""
    if preds.is_floating_point() and not target.is_floating_point():
        if target.shape == preds.shape[1:]:
            return "one image needs preds[None] and target[None]"
        if target.shape == preds.shape[:-1]:
            return "preds.movedim(-1, 1) puts the classes second"
    for name, side, other in (("target", target, preds), ("preds", preds, target)):
        if side.shape[1:2] == (1,) and side[:, 0].shape in (other.shape, (*other.shape[:1], *other.shape[2:])):
            return f"{name}.squeeze(1) removes the channel"
    return ""
