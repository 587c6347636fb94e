"""Counts of regions as state, of the data set or of each image, and the base class of the metrics made of them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_choice, check_int, check_type
from valor_gpu.errors import InputError
from valor_gpu.inputs.pixels import INPUT_FORMATS, PixelBatch, PixelTask, describe_later, pixel_batch
from valor_gpu.inputs.values import Values
from valor_gpu.metric import Metric
from valor_gpu.ops._device_tables import to_device, upload
from valor_gpu.ops.error_codes import raise_or_defer
from valor_gpu.ops.pixel_counts.cpu import MAX_CLASSES
from valor_gpu.plans import Plan, Planner, Step, switched_on
from valor_gpu.reduce.ignored import ignored_doubt
from valor_gpu.reduce.region_tables import MAX_CLASSES as TABLE_CLASSES
from valor_gpu.reduce.region_tables import MAX_COUNT, Table
from valor_gpu.reduce.regions import absent
from valor_gpu.result import Result, Signature
from valor_gpu.segmentation.cuda_plans import added_plan
from valor_gpu.segmentation.plans import Counted, Forms, RegionPlan, form_planner, region_plan
from valor_gpu.state import State, check_elements, check_sums, joined, merge_tensors, summed
from valor_gpu.stats.intervals import Bootstrap

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

MAX_IMAGE_PIXELS = 2**31 - 1
"""Pixels of an image whose counts are kept, in 32 bits."""


def check_counts(counts: Tensor, seen: Tensor) -> None:
    """Raises :class:`InputError` unless counts are sums, with true positives among the predicted and the true."""
    check_sums("counts", counts)
    check_sums("seen", seen)
    tp, predicted, true = counts.unbind(-2)
    sound = ((tp <= predicted) & (tp <= true)).unsqueeze(-2).expand_as(counts)
    check_elements("counts", counts, sound, "have at most as many true positives as predicted and true pixels")
    if int(seen[2]) > int(seen[1]):
        raise InputError(f"state field seen must have at most as many ignored pixels as pixels but is {seen.tolist()}")


class Regions(State):
    """Base of the states of counts by class.

    Attributes:
        seen: int64 ``[3]``, images, pixels, and pixels that were ignored.
    """

    seen: Tensor

    def images(self) -> NDArray[np.int64]:
        """The counts ``[N, 3, C]`` of each image, or ``[1, 3, C]`` of all as one."""
        raise NotImplementedError


@dataclass(frozen=True)
class RegionCounts(Regions):
    """Counts of the pixels of all images, exact for any order and split.

    Attributes:
        counts: int64 ``[3, C]``: true positives, predicted and true pixels of each class.
        seen: int64 ``[3]``, images, pixels, and pixels that were ignored.
    """

    counts: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: PixelTask) -> None:
        """Raises :class:`InputError` unless the counts can be such."""
        check_counts(self.counts, self.seen)

    def images(self) -> NDArray[np.int64]:
        """The counts ``[1, 3, C]`` of all images as one."""
        return self.counts.cpu().numpy()[None]


@dataclass(frozen=True)
class ImageRegions(Regions):
    """Counts of each image, 12 C bytes an image: 228 bytes for 19 classes.

    Attributes:
        counts: int32 ``[N, 3, C]``, see :class:`RegionCounts`.
        seen: int64 ``[3]``, images, pixels, and pixels that were ignored.
    """

    counts: Tensor = joined()
    seen: Tensor = summed()
    hashed: ClassVar[str | None] = "images"
    row_fields: ClassVar[tuple[str, ...]] = ("counts",)

    def check(self, rule: PixelTask) -> None:
        """Raises :class:`InputError` unless the counts can be such, of as many images as were seen."""
        check_counts(self.counts, self.seen)
        if len(self.counts) != int(self.seen[0]):
            raise InputError(f"state field counts must have {int(self.seen[0])} images but has {len(self.counts)}")

    def images(self) -> NDArray[np.int64]:
        """The counts ``[N, 3, C]``."""
        return self.counts.cpu().numpy().astype(np.int64)


R = TypeVar("R", bound=State)


class PixelMetric(Metric[R]):
    """Base of the metrics of pixels: the task, the intake of a batch, and errors of bad labels.

    Args:
        task: what is expected.
        empty: the state without data.
        config: the choices that ``update`` depends on, as JSON values.

    Raises:
        InputError: an argument is out of range.
    """

    higher_is_better: bool | None = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0
    _can_ignore: ClassVar[bool] = True  # whether there is an argument ignore_index

    def __init__(
        self, task: PixelTask, empty: R, config: dict[str, Any] | None = None, /, **kwargs: Unpack[MetricOptions]
    ) -> None:
        task = task._replace(can_ignore=self._can_ignore)
        self.task = self._state_rule = task
        self.num_classes = task.classes
        choices = {"num_classes": task.classes, "ignore_index": task.ignore_index, "input_format": task.input_format}
        super().__init__(empty, {**choices, **(config or {})}, **kwargs)

    def _batch(self, preds: Values, target: Values) -> PixelBatch:
        return pixel_batch(preds, target, self.task)

    def _seen(self, batch: PixelBatch, ignored: Tensor | None) -> Tensor:
        """int64 ``[3]``: images, pixels, ignored pixels; does not synchronise with the device."""
        seen = words_on(batch.target, batch.images, batch.pixels, 0)
        if ignored is not None:
            seen[2] = ignored
        return seen

    def _signature_with(self, *names: str) -> Signature:
        """The choices that made a number: those of ``update``, and the attributes ``names``."""
        choices = {name: getattr(self, name) for name in names}
        return Signature({"metric": type(self).__name__, **self._identity.config, **choices})

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the numbers of ``compute`` with the counts behind them.

        Args:
            intervals: replicates of a bootstrap over images, or its choices: an interval beside each number.
        """
        raise NotImplementedError

    def _warn_of_ignored(self, true: Callable[[], NDArray[np.int64]], ignored: int) -> None:
        """Warns where ``ignore_index`` may have left out what should count; where nothing is left, NaN has a reason.

        Args:
            true: gives the true pixels of each class that were not left out, ``[C]``.
            ignored: how many were left out.
        """
        value = self.task.ignore_index
        if value is None or not ignored:
            return
        left = true()
        if left.any() and (doubt := ignored_doubt(left, ignored, value, f"ignore_index={value}")):
            warnings.warn(doubt, stacklevel=3)

    def _describe_error(self, code: int) -> str:
        return describe_later(code, self.task)


class RegionState(PixelMetric[Any]):
    """Base of the metrics of counts by class; all of equal configuration share one ``update`` in a MetricCollection.

    Args:
        task: what is expected; its classes are known.
        of_images: the number is a mean over images, not one of all pixels.
        keep_images: with ``global`` also keep the counts of each image, 12 C bytes per image, which intervals need.

    Raises:
        InputError: an argument is out of range.
        InputTypeError: ``keep_images`` is not a bool.
    """

    update_family: ClassVar[str | None] = "region counts"

    def __init__(
        self, task: PixelTask, of_images: bool, keep_images: bool = False, /, **kwargs: Unpack[MetricOptions]
    ) -> None:
        check_type("keep_images", keep_images, bool)
        self.of_images, self.keep_images = of_images, keep_images
        self.per_image = of_images or keep_images
        super().__init__(task, self._empty_state(task), self._choices_of_update(), **kwargs)

    def _choices_of_update(self) -> dict[str, Any]:
        """What ``update`` depends on beside the task, as JSON values."""
        return {}

    def _empty_state(self, task: PixelTask) -> Regions:
        assert task.classes is not None
        seen = torch.zeros(3, dtype=torch.int64)
        if self.per_image:
            return ImageRegions(torch.zeros((0, 3, task.classes), dtype=torch.int32), seen)
        return RegionCounts(torch.zeros((3, task.classes), dtype=torch.int64), seen)

    def update(self, preds: Values, target: Values) -> None:
        """Counts a batch.

        Args:
            preds: with ``input_format="index"`` class indices ``[B, ...]`` of any integer dtype, or logits
                ``[B, C, ...]`` of any float dtype, whose largest counts, of equal ones the first; with ``"one-hot"`` 0
                and 1 of bool or any integer dtype ``[B, C, ...]``, or logits of two or more classes; a single class: 0
                and 1 of any dtype; with ``"mixed"`` one of both.
            target: class indices ``[B, ...]``, or one-hot ``[B, C, ...]``.

        Raises:
            InputError: naming the argument and the place. On CUDA, bad values are raised by ``compute`` instead, since
                ``update`` does not synchronise with the device.
        """
        self._add(*self._counted(self._batch(preds, target)))

    def _counted(self, batch: PixelBatch) -> tuple[Regions, Tensor | None]:
        """The state of a batch, and on CUDA its error code."""
        counts, ignored, error = batch.count(self.per_image)
        deferred = raise_or_defer(error, batch.describe)
        return self._batch_state(batch, counts, self._seen(batch, ignored)), deferred

    def _planner(self) -> Planner:
        plans = Forms(self._plan_choices, self._plan_of)

        def on_cpu(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step | None:
            plan = plans.find(preds, target)
            return self._step(base, preds, target) if plan is None else self._planned_step(base, plan(preds, target))

        return form_planner(Forms(self._plan_choices, self._cuda_plan_of), on_cpu)

    def _plan_choices(self) -> tuple[Any, ...]:
        """What plans depend on beside the form of a batch."""
        return self.task, self.per_image

    def _plan_of(self, preds: Tensor, target: Tensor) -> RegionPlan | None:
        batch = self._batch(preds, target)
        return region_plan(batch, self.per_image, preds, target) if self._has_plans(batch) else None

    def _cuda_plan_of(self, preds: Tensor, target: Tensor) -> Plan | None:
        batch = self._batch(preds, target)
        return added_plan(batch, preds, target, "counts", self.per_image) if self._has_plans(batch) else None

    def _has_plans(self, batch: PixelBatch) -> bool:
        """Whether plans give the results of this class for batches like ``batch``."""
        sized, kind = self.num_classes is not None and math.prod(batch.shape[1:]) <= MAX_IMAGE_PIXELS, type(self)
        return sized and all(ours(method) for method in (kind._batch, kind._counted, kind._batch_state))

    def _planned_step(self, base: Mapping[str, Any], found: Counted | None) -> Step | None:
        if found is None:
            return None
        seen = base["seen"] + torch.from_numpy(np.array(found.seen))
        if self.per_image:
            return Step({"seen": seen}, (("counts", torch.from_numpy(found.counts.astype(np.int32))),))
        return Step({"counts": base["counts"] + torch.from_numpy(found.counts), "seen": seen})

    def _step(self, base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step:
        """The step of tensors that have no plan."""
        state, _ = self._counted(self._batch(preds, target))
        tensors, rows = {}, []
        for name, tensor in state.tensors().items():
            if self._merge[name] == "cat":
                rows.append((name, tensor))
            else:
                tensors[name] = merge_tensors(self._merge[name], (base[name], tensor))
        return Step(tensors, rows)

    def _batch_state(self, batch: PixelBatch, counts: Tensor, seen: Tensor) -> Regions:
        if not self.per_image:
            return RegionCounts(counts, seen)
        return ImageRegions(narrowed(batch, counts), seen)

    def _table(self, first: int) -> Table | None:
        """The counts of one image, or of the data set as one, where they are few and on the CPU; else None.

        Args:
            first: the first class that counts.
        """
        counts = self.__dict__.get("counts")
        if type(counts) is list:
            counts = counts[0] if len(counts) == 1 and counts[0].shape[0] == 1 else None
        if type(counts) is not Tensor or not counts.is_cpu or counts.shape[-1] > TABLE_CLASSES or not switched_on():
            return None
        rows = counts.tolist()
        tp, predicted, true = rows[0] if self.per_image else rows
        if counts.dtype is not torch.int32 and max(sum(predicted), sum(true)) >= MAX_COUNT:
            return None
        return (tp[first:], predicted[first:], true[first:]) if first else (tp, predicted, true)

    def image_values(self) -> Tensor:
        """The value of each image of this rank in order of arrival, float32, on the device of the metric.

        Raises:
            InputError: an ``update`` on CUDA met a bad label.
        """
        self._check_error()
        return self._shown(self._of_images(self.state()))

    def _of_images(self, state: Regions) -> NDArray[np.float64]:
        """What :meth:`image_values` gives, ``[N, ...]``."""
        raise NotImplementedError

    def _counts(self, state: Regions) -> NDArray[np.int64]:
        """What the number is made of: the counts of each image ``[N, 3, C]``, or those of all as one ``[1, 3, C]``."""
        counts = state.images()
        return counts if self.of_images or not self.keep_images else counts.sum(0, keepdims=True)

    def _shown(self, value: float | list[float] | NDArray[np.float64]) -> Tensor:
        """What ``compute`` gives: float32, on the device of the metric."""
        shown = torch.from_numpy(np.array(value, np.float32))  # a third of the time of torch.tensor
        return shown if self.error.is_cpu else shown.to(self._device)


def ours(method: Callable[..., Any]) -> bool:
    """Whether a method is defined in this package and not replaced by a subclass of the user."""
    return method.__module__.partition(".")[0] == __name__.partition(".")[0]


def words_on(like: Tensor, *words: int) -> Tensor:
    """Returns int64 numbers on the device of ``like``, without synchronising with it."""
    numbers = np.array(words)
    if like.is_cuda and native.available("valor_cuda"):
        return upload(numbers, like.device)
    return to_device(torch.from_numpy(numbers), like.device)  # a third of the time of torch.tensor


def pixel_sums(state: Regions) -> dict[str, NDArray[np.int64]]:
    """Pixels of each class, int64 ``[C]``: true positives, predicted and true ones, of all images."""
    return dict(zip(("tp", "predicted", "true"), state.images().sum(0)))


def seen_counts(state: Regions, kept: NDArray[np.bool_]) -> dict[str, int]:
    """What a result says of a state: images, pixels, and how many classes that count are absent."""
    images, pixels, ignored = state.seen.tolist()
    absent_classes = int((absent(state.images().sum(0)) & kept).sum())
    return {"images": images, "pixels": pixels, "ignored": ignored, "absent_classes": absent_classes}


def narrowed(batch: PixelBatch, counts: Tensor) -> Tensor:
    """Counts of each image in 32 bits.

    Raises:
        InputError: an image has more pixels than they hold.
    """
    pixels = math.prod(batch.shape[1:])
    if pixels > MAX_IMAGE_PIXELS:
        raise InputError(f"an image must have at most {MAX_IMAGE_PIXELS} pixels but has {pixels}")
    return counts.to(torch.int32)


def pixel_task(num_classes: int | None, ignore_index: int | None, input_format: str) -> PixelTask:
    """Checks the arguments of a metric.

    Raises:
        InputError: one is out of range; ``num_classes`` is None, which only a one-hot side makes good.
    """
    check_choice("input_format", input_format, INPUT_FORMATS)
    if num_classes is None and input_format == "index":
        raise InputError("num_classes must be given with input_format='index' but is None")
    if num_classes is not None:
        check_int("num_classes", num_classes, 1)
        if num_classes > MAX_CLASSES:
            raise InputError(f"num_classes must be at most {MAX_CLASSES} but got {num_classes}")
    if ignore_index is not None:
        check_int("ignore_index", ignore_index, -(2**63))
        if ignore_index >= 2**63:
            raise InputError(f"ignore_index must fit in int64 but got {ignore_index}")
    return PixelTask(num_classes, ignore_index, input_format)


def kept_classes(num_classes: int, include_background: bool) -> NDArray[np.bool_]:
    """Bool ``[C]``: all classes, or all but the background, class 0; a class that is alone is always kept.

    Raises:
        InputTypeError: ``include_background`` is no bool.
    """
    check_type("include_background", include_background, bool)
    kept = np.ones(num_classes, np.bool_)
    kept[0] = include_background or num_classes == 1
    return kept
