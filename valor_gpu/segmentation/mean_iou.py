"""Mean intersection over union of images and classes, with torchmetrics' arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.inputs.pixels import PixelBatch, PixelTask
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.reduce.region_tables import mean_of_values, table_iou
from valor_gpu.reduce.regions import mean_of_images, region_value
from valor_gpu.result import Result
from valor_gpu.segmentation.dice import DiceScore
from valor_gpu.segmentation.image_analysis import image_result
from valor_gpu.segmentation.region_base import (
    Regions,
    RegionState,
    check_counts,
    kept_classes,
    narrowed,
    pixel_sums,
    pixel_task,
    seen_counts,
    words_on,
)
from valor_gpu.segmentation.resampled_images import ResampledImages, Weights, by_class, by_place
from valor_gpu.state import joined, least, summed
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.resample import Resampled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

_UNKNOWN = torch.iinfo(torch.int64).max  # before any data; also what merging leaves alone


@dataclass(frozen=True)
class SizedRegions(Regions):
    """Counts of each image whose number of classes the data tells, 12 C bytes an image.

    Attributes:
        cells: int32 ``[N * 3 * C]``, the counts ``[N, 3, C]`` of :class:`ImageRegions`, flat.
        classes: int64 ``[2]``, C and -C, so that the least of both shows whether all batches had one C.
        seen: int64 ``[3]``, images, pixels, and pixels that were ignored.
    """

    cells: Tensor = joined()
    classes: Tensor = least()
    seen: Tensor = summed()

    def check(self, rule: PixelTask) -> None:
        """Raises :class:`InputError` unless the counts can be such, of as many images as were seen."""
        images, classes = int(self.seen[0]), self.size()
        if len(self.cells) != images * 3 * classes:
            raise InputError(
                f"state field cells must have {images * 3 * classes} numbers, for {images} images of {classes} classes,"
                f" but has {len(self.cells)}"
            )
        check_counts(self.cells.view(images, 3, classes), self.seen)

    def size(self) -> int:
        """Number of classes, 1 as long as there is no image.

        Raises:
            InputError: batches had different numbers of channels.
        """
        return _one_size(self.classes)

    def images(self) -> NDArray[np.int64]:
        """The counts ``[N, 3, C]``."""
        return self.cells.cpu().numpy().astype(np.int64).reshape(-1, 3, self.size())


def _one_size(*classes: Tensor) -> int:
    """The number of classes that all agree on, see :class:`SizedRegions`."""
    low, high = torch.stack(classes).amin(0).tolist()
    if low == _UNKNOWN and high == _UNKNOWN:
        return 1
    if low != -high or low < 1:
        raise InputError(f"batches must have one number of channels but have from {low} to {-high}")
    return int(low)


@arguments_of(DiceScore)
class MeanIoU(RegionState):
    """Computes the mean of intersection over union of each image and class, as torchmetrics does.

    Images and classes that exist (some pixel is true or predicted) weigh alike: a class that few images have counts
    less than in :class:`mIOU`, which pools the pixels of each class first. It keeps 12 C bytes an image, so that the
    value has the same bits for any split and order.

    Source: torchmetrics 1.9, ``segmentation.MeanIoU``; docs/quirks.md says where it differs.

    Args:
        num_classes: C. Without it, a one-hot side tells it, which must be the same in every batch.
        per_class: return the mean over images of each class, -1 for a class that no image has.
        input_format: ``one-hot``: 0 and 1 ``[B, C, ...]`` of bool or any integer dtype, channels may overlap; logits of
            a float dtype stand for their argmax, but with one class the channel is a mask of 0 and 1, in floats too.
            ``index``: class indices ``[B, ...]`` of any integer dtype; as in torchmetrics a map of one or two
            dimensions is one image. ``mixed``: one side of either kind.

    Raises:
        InputError: an argument is out of range, or ``num_classes`` is missing with ``index``.

    Example:
        >>> metric = MeanIoU(num_classes=3, per_class=True, input_format="index")
        >>> metric.update(torch.tensor([[[0, 0], [1, 1]]]), torch.tensor([[[0, 0], [0, 1]]]))
        >>> metric.compute()
        tensor([ 0.6667,  0.5000, -1.0000])
    """

    _can_ignore = False
    classes: Tensor  # of SizedRegions

    def __init__(
        self,
        num_classes: int | None = None,
        include_background: bool = True,
        per_class: bool = False,
        input_format: str = "one-hot",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_type("per_class", per_class, bool)
        check_type("include_background", include_background, bool)
        self.include_background, self.per_class, self.input_format = include_background, per_class, input_format
        super().__init__(pixel_task(num_classes, None, input_format), True, **kwargs)

    def _choices_of_update(self) -> dict[str, Any]:
        return {"flat_maps": "one image"} if self.input_format == "index" else {}

    def _empty_state(self, task: PixelTask) -> Regions:
        if task.classes is not None:
            return super()._empty_state(task)
        zeros = torch.zeros(3, dtype=torch.int64)
        return SizedRegions(torch.zeros(0, dtype=torch.int32), torch.full((2,), _UNKNOWN), zeros)

    def _batch(self, preds: Values, target: Values) -> PixelBatch:
        preds, target = as_values("preds", preds), as_values("target", target)
        if self.input_format == "index":
            flat = preds.ndim in (1, 2) and preds.ndim == target.ndim
            preds, target = (preds[None], target[None]) if flat else (preds, target)
        return super()._batch(preds, target)

    def _batch_state(self, batch: PixelBatch, counts: Tensor, seen: Tensor) -> Regions:
        if self.num_classes is not None:
            return super()._batch_state(batch, counts, seen)
        size = (batch.classes, -batch.classes) if batch.images else (_UNKNOWN,) * 2
        classes = words_on(batch.target, *size)
        if not batch.target.is_cuda:  # reading it does not synchronise
            _one_size(classes, self.classes.cpu())
        return SizedRegions(narrowed(batch, counts).flatten(), classes, seen)

    def _combine(self, base: Mapping[str, Any], parts: Mapping[str, list[Tensor]], updates: int) -> None:
        """Refuses what has other channels before it is part of the state, where telling does not synchronise."""
        if self.num_classes is None and not base["classes"].is_cuda:
            _one_size(base["classes"], *parts["classes"])
        super()._combine(base, parts, updates)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the value, float32 ``[]``, NaN without data; with ``per_class`` ``[C]`` with -1 for no image."""
        first = int(not self.include_background and self.num_classes != 1)
        if (table := self._table(first)) is not None:
            ratios = table_iou(table)
            return self._shown(
                [value if value == value else -1.0 for value in ratios] if self.per_class else mean_of_values(ratios)
            )
        values = self._values(self.state())
        return self._shown(
            np.nan_to_num(mean_of_images(values), nan=-1.0) if self.per_class else mean_of_images(values.reshape(-1))
        )

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns ``MeanIoU`` and ``per_class`` in float64, NaN with a reason where they do not exist.

        ``per_class`` is the mean over images, ``per_image`` the mean over the classes of each image in order of
        arrival; ``tp``, ``predicted`` and ``true`` are pixels of each class.
        """
        with self.synced_state() as state:
            values = self._values(state)
            found: dict[str, Any] = {
                "MeanIoU": float(mean_of_images(values.reshape(-1))),
                "per_class": mean_of_images(values),
                "per_image": mean_of_images(values.T),
                **pixel_sums(state),
            }
            reasons = {
                "MeanIoU": "no image has a pixel of a class that counts",
                "per_class": "no image has a pixel of the class, true or predicted",
                "per_image": "the image has no pixel of a class that counts",
            }
            missing = {name: text for name, text in reasons.items() if np.isnan(found[name]).any()}
            counts = seen_counts(state, kept_classes(len(found["tp"]), self.include_background))
            resampled = partial(_resampled_ious, state, self.include_background)
            signature = self._signature_with("include_background")
            result = image_result(found, signature, counts, missing, resampled)
        return result if intervals is None else result.with_intervals(intervals)

    def _of_images(self, state: Regions) -> NDArray[np.float64]:
        values = self._values(state)
        return np.nan_to_num(values, nan=-1.0) if self.per_class else mean_of_images(values.T)

    def _values(self, state: Regions) -> NDArray[np.float64]:
        return _ious(state.images(), self.include_background)


def _ious(counts: NDArray[np.int64], include_background: bool) -> NDArray[np.float64]:
    """Intersection over union ``[N, C]`` of each image and class that counts, NaN where it is absent."""
    return region_value("iou", counts, None)[:, kept_classes(counts.shape[-1], include_background)]


def _resampled_ious(state: Regions, include_background: bool) -> Resampled:
    counts = state.images()
    values = _ious(counts, include_background)

    def numbers(weights: Weights, values: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        return {"MeanIoU": weights.means_of_all(values), **by_place("per_class", weights.means(values))}

    present = counts[:, 2, kept_classes(counts.shape[-1], include_background)] > 0
    classes = by_class("per_class", present)
    return ResampledImages("rows", counts, numbers, **classes, tables=[values], truths=counts[:, 2])
