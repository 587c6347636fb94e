"""Ratios of the pixels of regions, over the data set or image by image."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.reduce.regions import AVERAGES, check_zero_division, mean_of_images, region_value
from valor_gpu.result import Result
from valor_gpu.segmentation.image_analysis import image_result
from valor_gpu.segmentation.region_base import Regions, RegionState, kept_classes, pixel_sums, pixel_task, seen_counts
from valor_gpu.segmentation.resampled_images import no_images
from valor_gpu.segmentation.resampled_regions import Ratios, resampled_ratios
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.resample import Resampled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions, RegionOptions

LEVELS = ("global", "samplewise")
_NO_CLASS = "a class is absent, neither true nor predicted, or never predicted (precision) or never true (recall)"
_NO_VALUE = "no class that counts has a denominator: it is absent, never predicted (precision) or never true (recall)"
_NO_IMAGE = "in no image does it have a denominator"


class RegionMetric(RegionState):
    """Base of the ratios of true positive, predicted and true pixels; a subclass names the ratio.

    Args:
        num_classes: C, from 1 to 32,767.
        average: ``macro`` (default) is the mean over classes, ``weighted`` the mean weighted by true pixels;
            ``micro`` pools the pixels of all classes; ``none`` or None gives every class.
        aggregation_level: ``global`` pools the pixels of the data set; ``samplewise`` scores each image and averages
            over the images where the value exists, for which it keeps 12 C bytes per image.
        ignore_index: pixels with this target are left out, whatever their prediction. It may be any integer, also one
            that is no class. In a one-hot target it is the channel whose pixels are left out.
        include_background: whether class 0 counts; without it, its value is NaN and means leave it out.
        input_format: ``index``: class indices ``[B, ...]`` of any integer dtype; predictions may be logits
            ``[B, C, ...]``. ``one-hot``: 0 and 1 ``[B, C, ...]``, channels may overlap; logits stand for their argmax,
            but with one class the channel is a mask of 0 and 1, in floats too. ``mixed``: one side as for ``index``,
            the other as for ``one-hot``.
        zero_division: value of a class that is there but whose denominator is 0, from 0 to 1; NaN leaves it out of
            means. An absent class, neither true nor predicted, is always NaN and left out.
    """

    _ratio: ClassVar[str]

    def __init__(
        self,
        num_classes: int,
        *,
        average: str | None = "macro",
        aggregation_level: str = "global",
        ignore_index: int | None = None,
        include_background: bool = True,
        input_format: str = "index",
        zero_division: float = 0.0,
        keep_images: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_choice("average", average, AVERAGES)
        check_choice("aggregation_level", aggregation_level, LEVELS)
        check_zero_division(zero_division)
        if num_classes is None:
            raise InputError("num_classes must be given but is None")
        task = pixel_task(num_classes, ignore_index, input_format)
        self.kept = kept_classes(num_classes, include_background)
        if num_classes == 1 and not include_background:
            raise InputError("include_background must be True with num_classes=1: no class is left")
        self.average, self.aggregation_level = average, aggregation_level
        self.include_background, self.zero_division = include_background, float(zero_division)
        super().__init__(task, aggregation_level == "samplewise", keep_images, **kwargs)

    def compute(self) -> Tensor:
        """Returns the value, float32 ``[]``, or ``[C]`` without average."""
        value = mean_of_images(self._values(self.state(), self.average, self.zero_division))
        return torch.from_numpy(value).float().to(self.device)

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the value in float64, the value of every class, and the counts behind them.

        ``per_class`` and the pixels ``tp``, ``predicted`` and ``true`` are arrays ``[C]``; with
        ``aggregation_level="samplewise"`` ``per_class`` is the mean over images, and with an average ``per_image`` is
        an array ``[N]`` in order of arrival. A number whose denominator is 0 is NaN, with a reason, but means over
        classes and images take it as ``zero_division``. It warns where ``ignore_index`` leaves one class.

        Raises:
            InputError: intervals are asked for but the counts of images are not kept: ``keep_images=True`` keeps them.
        """
        with self.synced_state() as state:
            self._warn_of_ignored(lambda: pixel_sums(state)["true"], int(state.seen[2]))
            result = self._result(state)
        return result if intervals is None else result.with_intervals(intervals)

    def _of_images(self, state: Regions) -> NDArray[np.float64]:
        return self._values(state, self.average, self.zero_division)

    def _values(self, state: Regions, average: str | None, zero_division: float) -> NDArray[np.float64]:
        """Of each image, or of the data set as one: ``[N]``, or ``[N, C]`` without average."""
        return region_value(self._ratio, self._counts(state), average, zero_division=zero_division, classes=self.kept)

    def _number(self, state: Regions, average: str | None) -> NDArray[np.float64]:
        """As ``compute``, but NaN where all denominators are 0."""
        exists = ~np.isnan(mean_of_images(self._values(state, average, math.nan)))
        return np.where(exists, mean_of_images(self._values(state, average, self.zero_division)), math.nan)

    def _result(self, state: Regions) -> Result:
        values: dict[str, Any] = {"per_class": self._number(state, None)}
        if self.average not in ("none", None):
            values = {type(self).__name__: float(self._number(state, self.average)), **values}
            values |= {"per_image": self._values(state, self.average, math.nan)} if self.of_images else {}
        values |= pixel_sums(state)
        return image_result(
            values,
            self._signature_with("average", "aggregation_level", "include_background", "zero_division"),
            seen_counts(state, self.kept),
            self._reasons(values),
            self._resampled(state),
        )

    def _resampled(self, state: Regions) -> Callable[[], Resampled]:
        if not self.per_image:
            return no_images
        averages: dict[str, str | None] = {"per_class": None}
        if self.average not in ("none", None):
            averages[type(self).__name__] = self.average
        ratios = Ratios(self._ratio, averages, self.zero_division, self.kept, self.of_images)
        return partial(resampled_ratios, state, ratios)

    def _reasons(self, values: dict[str, Any]) -> dict[str, str]:
        said = {"per_class": _NO_CLASS, "per_image": _NO_VALUE, type(self).__name__: _NO_VALUE}
        if not self.include_background:
            said["per_class"] += "; class 0 is the background, which is left out"
        if self.of_images:
            said[type(self).__name__] = _NO_IMAGE
        return {name: said[name] for name in said if name in values and bool(np.isnan(values[name]).any())}


class IOU(RegionMetric):
    """Computes intersection over union of each class: tp / (tp + fp + fn) of its pixels.

    Source: Jaccard, New Phytologist 11 (2), 1912; pooled over a data set: Everingham et al., The PASCAL Visual Object
    Classes Challenge, IJCV 88, 2010, section 4.1.4.

    Args:
        average: ``none`` (default) or None gives every class; ``macro`` is the mean over classes, ``weighted`` that by
            true pixels; ``micro`` pools the pixels of all classes.

    Example:
        >>> target = torch.tensor([[[0, 0], [1, 2]], [[0, 0], [1, 1]]])
        >>> preds = torch.tensor([[[0, 0], [1, 1]], [[0, 1], [1, 1]]])
        >>> metric = IOU(3)
        >>> metric.update(preds, target)
        >>> metric.compute()
        tensor([0.7500, 0.6000, 0.0000])
    """

    _ratio = "iou"

    def __init__(self, num_classes: int, *, average: str | None = "none", **kwargs: Unpack[RegionOptions]) -> None:
        super().__init__(num_classes, average=average, **kwargs)


class mIOU(RegionMetric):
    """Computes the mean over classes of intersection over union, mIoU.

    Classes are pooled over the data set first; :class:`MeanIoU` averages over images and classes at once.
    Source: Everingham et al., The PASCAL Visual Object Classes Challenge, IJCV 88, 2010, section 4.1.4.

    Example:
        >>> target = torch.tensor([[[0, 0], [1, 2]], [[0, 0], [1, 1]]])
        >>> preds = torch.tensor([[[0, 0], [1, 1]], [[0, 1], [1, 1]]])
        >>> metric = mIOU(3)
        >>> metric.update(preds, target)
        >>> metric.compute()
        tensor(0.4500)
        >>> metric = mIOU(3, keep_images=True)
        >>> metric.update(preds.repeat(20, 1, 1), target.repeat(20, 1, 1))
        >>> interval = metric.result(intervals=200).intervals["mIOU"]
        >>> interval.low < 0.45 < interval.high
        True
    """

    _ratio = "iou"


class PixelAccuracy(RegionMetric):
    """Computes the share of right pixels, or with ``average="macro"`` the mean over classes of their recall.

    Where channels overlap, ``micro`` is true positives over true pixels of all channels. Source: Long et al., Fully
    convolutional networks for semantic segmentation, CVPR 2015, section 5 (pixel accuracy and mean accuracy).

    Args:
        average: ``micro`` (default): right pixels over counted pixels; ``macro`` is the mean over classes of their
            recall, ``weighted`` that by true pixels; ``none`` or None gives every class.

    Example:
        >>> target = torch.tensor([[[0, 0], [1, 2]], [[0, 0], [1, 1]]])
        >>> preds = torch.tensor([[[0, 0], [1, 1]], [[0, 1], [1, 1]]])
        >>> metric = PixelAccuracy(3)
        >>> metric.update(preds, target)
        >>> metric.compute()
        tensor(0.7500)
    """

    _ratio = "accuracy"

    def __init__(self, num_classes: int, *, average: str | None = "micro", **kwargs: Unpack[RegionOptions]) -> None:
        super().__init__(num_classes, average=average, **kwargs)


class PixelPrecision(RegionMetric):
    """Computes precision of pixels, tp / (tp + fp): the share of the pixels predicted as a class that are of it.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.

    Example:
        >>> target = torch.tensor([[[0, 0], [1, 2]], [[0, 0], [1, 1]]])
        >>> preds = torch.tensor([[[0, 0], [1, 1]], [[0, 1], [1, 1]]])
        >>> metric = PixelPrecision(3)
        >>> metric.update(preds, target)
        >>> metric.compute()
        tensor(0.5333)
    """

    _ratio = "precision"


class PixelRecall(RegionMetric):
    """Computes recall of pixels, tp / (tp + fn): the share of the pixels of a class that were predicted as it.

    Source: van Rijsbergen, Information Retrieval, 1979, chapter 7.

    Example:
        >>> target = torch.tensor([[[0, 0], [1, 2]], [[0, 0], [1, 1]]])
        >>> preds = torch.tensor([[[0, 0], [1, 1]], [[0, 1], [1, 1]]])
        >>> metric = PixelRecall(3)
        >>> metric.update(preds, target)
        >>> metric.compute()
        tensor(0.5833)
    """

    _ratio = "recall"


class PixelF1(RegionMetric):
    """Computes F1 of pixels, 2 tp / (2 tp + fp + fn), which is Dice's coefficient.

    Source: Dice, Ecology 26 (3), 1945. :class:`DiceScore` has torchmetrics' arguments.

    Example:
        >>> target = torch.tensor([[[0, 0], [1, 2]], [[0, 0], [1, 1]]])
        >>> preds = torch.tensor([[[0, 0], [1, 1]], [[0, 1], [1, 1]]])
        >>> metric = PixelF1(3)
        >>> metric.update(preds, target)
        >>> metric.compute()
        tensor(0.5357)
    """

    _ratio = "f1"
