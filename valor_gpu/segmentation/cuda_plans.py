"""Plans of counts of pixels on CUDA: a batch is counted and added to the state in one native call. See valor_gpu.plans.

Plans neither synchronise with the device nor copy to it. The error code of the batch goes into the state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.inputs.pixels import PixelBatch, mask_of
from valor_gpu.ops._launch import launching
from valor_gpu.ops._library import disabled
from valor_gpu.ops.pixel_counts.cpu import table_shape
from valor_gpu.ops.pixel_counts.op import pack_sums
from valor_gpu.plans import Field, Plan, Step
from valor_gpu.segmentation.plans import addresses_of, task_of

_SEEN, _ERROR = Field("seen", torch.int64, (3,)), Field("error", torch.int64, ())
_IGNORED = 16  # byte of `seen` where ignored pixels stand
_OPS = {"labels": "count_pixels", "logits": "count_logits", "one-hot": "count_one_hot"}


class _Call(NamedTuple):
    """A function of csrc/cuda/add_regions.cu for tensors of one form.

    Attributes:
        run: the function.
        task: what it counts, of other tensors of the form.
        images: of a batch.
        pixels: of a batch.
        device: where all tensors lie.
    """

    run: Callable[[bytes, bytes], int]
    task: bytes
    images: int
    pixels: int
    device: torch.device

    def fits(self, tensor: Tensor, field: Field) -> bool:
        """Whether kernels may read a tensor of a state, which users can replace."""
        _, dtype, shape = field
        right = tensor.dtype is dtype and tensor.shape == shape and tensor.is_cuda and tensor.device == self.device
        return right and tensor.layout is torch.strided and tensor.is_contiguous() and not tensor.is_neg()

    def added(self, preds: Tensor, target: Tensor, *sums: int) -> bool:
        """Adds the batch and returns whether that worked; ``sums`` are the addresses of a RegionSums."""
        if (sides := addresses_of(preds, target)) is None:
            return False
        with launching(self.device) as stream:
            return self.run(self.task, pack_sums(*sides, *sums, self.images, self.pixels, stream)) == 0


def added_plan(
    batch: PixelBatch, preds: Tensor, target: Tensor, name: str, per_image: bool = False, pairs: bool = False
) -> Plan | None:
    """Returns the plan for tensors of the form of ``preds`` and ``target``, from which ``batch`` was read.

    Args:
        batch: with at least one pixel; there is no plan of others.
        preds: as ``update`` got it.
        target: as ``update`` got it.
        name: the field of the counts, int64, or with ``per_image`` that of their rows, int32.
        per_image: counts of each image.
        pairs: the confusion matrix in place of the counts by class.
    """
    if not batch.pixels or not native.available("valor_cuda") or disabled(_OPS[batch.form]):
        return None
    reduced = preds.is_floating_point() and batch.form != "logits", target.is_floating_point()
    counted = batch.preds if reduced[0] else preds, batch.target if reduced[1] else target
    if (task := task_of(batch, per_image, pairs, *counted)) is None:
        return None
    if batch.form == "one-hot":
        run = native.update_function("valor_cuda", "valor_add_one_hot_cuda", "pp")
    else:
        run = native.update_function("valor_cuda", "valor_add_pixels_cuda", "pp")
    if run is None:
        return None
    call = _Call(run, task, batch.images, batch.pixels, preds.device)
    shape = table_shape(batch.shape, batch.classes, per_image, pairs)
    plan = _plan_of_rows(call, name, shape) if per_image else _plan_of_sums(call, Field(name, torch.int64, shape))
    if not any(reduced):
        return plan
    reduce = mask_of if batch.classes == 1 else _largest
    return _after_reduction(plan, reduce, reduced, [side.stride() for side in counted])


def _largest(side: Tensor) -> Tensor:
    """The channel of the largest value of each pixel."""
    return side.argmax(1)


def _after_reduction(
    plan: Plan, reduce: Callable[[Tensor], Tensor], reduced: tuple[bool, ...], strides: list[tuple[int, ...]]
) -> Plan:
    """Returns a plan that calls ``plan`` with what ``reduce`` makes of each ``reduced`` side, of these strides."""

    def wider(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step | None:
        sides = [reduce(side) if taken else side for taken, side in zip(reduced, (preds, target))]
        return plan(base, *sides) if [side.stride() for side in sides] == strides else None

    return wider


def _plan_of_sums(call: _Call, field: Field) -> Plan:
    """Returns the plan of counts of the data set."""
    name, fits = field.name, call.fits

    def plan(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step | None:
        counts, seen, error = base[name], base["seen"], base["error"]
        if not (fits(counts, field) and fits(seen, _SEEN) and fits(error, _ERROR)):
            return None
        new_counts, new_seen, new_error = torch.empty_like(counts), torch.empty_like(seen), torch.empty_like(error)
        seen_at = new_seen.data_ptr()
        added = call.added(
            preds, target, counts.data_ptr(), new_counts.data_ptr(), seen.data_ptr(), seen_at, error.data_ptr(),
            new_error.data_ptr(), 0, seen_at + _IGNORED,
        )  # fmt: skip
        return Step({name: new_counts, "seen": new_seen, "error": new_error}) if added else None

    return plan


def _plan_of_rows(call: _Call, name: str, shape: tuple[int, ...]) -> Plan:
    """Returns the plan of counts of each image."""
    fits = call.fits

    def plan(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step | None:
        seen, error = base["seen"], base["error"]
        if not (fits(seen, _SEEN) and fits(error, _ERROR)):
            return None
        new_seen, new_error = torch.empty_like(seen), torch.empty_like(error)
        counts = seen.new_empty(shape)
        rows = seen.new_empty(shape, dtype=torch.int32)
        seen_at = new_seen.data_ptr()
        added = call.added(
            preds, target, 0, counts.data_ptr(), seen.data_ptr(), seen_at, error.data_ptr(), new_error.data_ptr(),
            rows.data_ptr(), seen_at + _IGNORED,
        )  # fmt: skip
        return Step({"seen": new_seen, "error": new_error}, ((name, rows),)) if added else None

    return plan
