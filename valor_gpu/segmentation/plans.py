"""Plans of counts of regions: a batch of label maps or one-hot maps in one native call. See valor_gpu.plans."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native, plans
from valor_gpu.inputs.pixels import PixelBatch
from valor_gpu.ops._launch import capturing
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.labels.op import TRUE
from valor_gpu.ops.one_hot.op import one_hot_words
from valor_gpu.ops.pixel_counts.cpu import MAX_PIXELS, table_shape
from valor_gpu.ops.pixel_counts.op import pixel_words
from valor_gpu.plans import Plan, Planner, Step

P = TypeVar("P")

_MAX_FORMS = 64  # plans that a metric keeps
_PREDS, _TARGET = slice(0, 8), slice(40, 48)  # bytes of a PixelTask of csrc/core/pixel_counts.h: addresses of both maps
_ADDRESS = struct.Struct("Q")


class Counted(NamedTuple):
    """Counts of a batch.

    Attributes:
        counts: int64 ``[3, C]``, or of each image ``[B, 3, C]``: true positives, predicted and true pixels.
        seen: images, pixels, and pixels that were ignored.
    """

    counts: NDArray[np.int64]
    seen: tuple[int, int, int]


RegionPlan = Callable[[Tensor, Tensor], "Counted | None"]
"""From predictions and target of one form to their counts, or None for the checked path."""


def form_of(preds: Tensor, target: Tensor) -> tuple[Any, ...] | None:
    """What a plan is made for; None of tensors that none serves."""
    for side in (preds, target):
        if side.layout is not torch.strided or side.is_neg():
            return None
    return (
        preds.dtype, preds.shape, preds.stride(), preds.get_device(),
        target.dtype, target.shape, target.stride(), target.get_device(),
    )  # fmt: skip


class Forms(Generic[P]):
    """The plans of a metric, one for each form of predictions and target.

    Args:
        choices: gives what plans depend on beside the form: they are made again when it is another.
        make: gives the plan of tensors, or None.
    """

    def __init__(self, choices: Callable[[], Any], make: Callable[[Tensor, Tensor], P | None]) -> None:
        self._choices, self._make = choices, make
        self._held = choices()
        self._plans: dict[Any, P | None] = {}

    def find(self, preds: Tensor, target: Tensor) -> P | None:
        """Returns the plan of tensors of this form, or None."""
        if self._held != (now := self._choices()):
            self._plans.clear()
            self._held = now
        if (form := form_of(preds, target)) not in self._plans:
            if len(self._plans) >= _MAX_FORMS:
                self._plans.clear()
            self._plans[form] = None if form is None else self._make(preds, target)
        return self._plans[form]


def form_planner(cuda_plans: Forms[Plan], on_cpu: Plan | None = None) -> Planner:
    """Returns a planner for ``update(preds, target)`` with tensors.

    Args:
        cuda_plans: plans of CUDA tensors.
        on_cpu: the step of CPU tensors, whatever their form.
    """

    def step(base: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step | None:
        preds, target = plans._named(args, kwargs) if kwargs or len(args) != 2 else args
        if type(preds) not in plans._TYPES or type(target) not in plans._TYPES:
            return None
        if preds.is_cuda and target.is_cuda:
            plan = None if capturing() else cuda_plans.find(preds, target)
            return None if plan is None else plan(base, preds, target)
        if on_cpu is None or not (preds.is_cpu and target.is_cpu and base["error"].is_cpu):
            return None
        return on_cpu(base, preds, target)

    step.on_cuda = True  # type: ignore[attr-defined]
    return step


def task_of(batch: PixelBatch, per_image: bool, pairs: bool, preds: Tensor, target: Tensor) -> bytes | None:
    """Returns the task of a kernel for the tensors of ``batch``; None where the kernel would read a copy of them.

    The task of one-hot maps is a OneHotTask, which begins with a PixelTask. More values than an error code can tell
    apart have no task: the checked path raises.
    """
    ignore = batch.ignore_index
    if batch.form == "one-hot":
        if batch.classes * math.prod(batch.shape[1:]) > MAX_PIXELS:
            return None
        words, *sides = one_hot_words(batch.preds, batch.target, batch.classes, ignore, per_image)
    else:
        logits = batch.form == "logits"
        words, *sides = pixel_words(batch.preds, batch.target, batch.classes, ignore, per_image, pairs, logits)
    copied = any(side.data_ptr() != given.data_ptr() for side, given in zip(sides, (preds, target)))
    return None if copied else words


def addresses_of(preds: Tensor, target: Tensor) -> tuple[int, int] | None:
    """Returns the addresses of both tensors; None for tensors of torch.func, which have no memory of their own."""
    try:
        found = preds.data_ptr(), target.data_ptr()
    except RuntimeError:
        return None
    return found if all(found) else None


def region_plan(batch: PixelBatch, per_image: bool, preds: Tensor, target: Tensor) -> RegionPlan | None:
    """The plan of tensors of the form of ``preds`` and ``target``, which ``batch`` was read of; None if it has none.

    Args:
        batch: label maps or one-hot maps with at least one pixel; there is no plan of others.
        per_image: counts of each image.
        preds: as ``update`` got it.
        target: as ``update`` got it.
    """
    if batch.form == "logits" or not batch.pixels or not native.available("valor_cpu"):
        return None
    if (words := task_of(batch, per_image, False, preds, target)) is None:
        return None
    shape = table_shape(batch.shape, batch.classes, per_image, False)
    return _plan(words, batch.form == "one-hot", shape, (batch.images, batch.pixels), batch.ignore_index is not None)


def _plan(words: bytes, hot: bool, shape: tuple[int, ...], seen: tuple[int, int], ignores: bool) -> RegionPlan:
    size, pixels = math.prod(shape), seen[1]
    if hot:
        run = native.function("valor_cpu", "valor_count_one_hot_cpu", "ppppq")
    else:
        run = native.function("valor_cpu", "valor_count_pixels_cpu", "pppq")

    between, last = words[_PREDS.stop : _TARGET.start], words[_TARGET.stop :]

    def plan(preds: Tensor, target: Tensor) -> Counted | None:
        if (sides := addresses_of(preds, target)) is None:
            return None
        task = _ADDRESS.pack(sides[0]) + between + _ADDRESS.pack(sides[1]) + last
        room = np.zeros(size + 2, np.int64)  # counts, ignored pixels of one-hot maps, error code
        room[-1] = NO_ERROR
        start = room.ctypes.data
        ends = (start + 8 * size, start + 8 * size + 8)
        run(task, start, *(ends if hot else ends[1:]), torch.get_num_threads())
        if room[-1] != NO_ERROR:
            return None
        counts, ignored = room[:size].reshape(shape), 0
        if ignores:
            ignored = int(room[size]) if hot else pixels - int(counts[..., TRUE, :].sum())
        return Counted(counts, (*seen, ignored))

    return plan
