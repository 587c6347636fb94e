"""Dice scores with torchmetrics' arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.argument_docs import arguments_of
from valor_gpu.checks import check_choice, check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.reduce.region_tables import table_dice, table_generalized_dice
from valor_gpu.reduce.regions import AVERAGES, generalized_dice, mean_of_images, region_value
from valor_gpu.result import Result
from valor_gpu.segmentation.image_analysis import image_result
from valor_gpu.segmentation.region_base import (
    Regions,
    RegionState,
    kept_classes,
    pixel_sums,
    pixel_task,
    seen_counts,
)
from valor_gpu.segmentation.resampled_images import ResampledImages, Weights, by_class, by_place, no_images
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.resample import Resampled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

WEIGHT_TYPES = ("square", "simple", "linear")


def _check_classes(num_classes: object) -> None:
    if num_classes is None:
        raise InputError("num_classes must be given but is None")


class DiceScore(RegionState):
    """Computes Dice's coefficient, 2 tp / (predicted + true) pixels, of images or the data set, as torchmetrics does.

    A class that an image does not have, neither true nor predicted, has no score there and no part in a mean.

    Source: torchmetrics 1.9, ``segmentation.DiceScore``; Dice, Ecology 26 (3), 1945. :class:`PixelF1` is the same ratio
    with the arguments of this package.

    Args:
        num_classes: C, from 1 to 32,767.
        include_background: whether class 0 counts; if not, ``compute`` leaves it out, unless it is the only class.
        average: ``macro`` is the mean over classes, ``weighted`` that by true pixels (0 where pixels were predicted but
            none is true), ``micro`` pools the pixels of all classes; ``none`` or None gives every class.
        aggregation_level: ``samplewise`` scores each image, keeping 12 C bytes of it, and averages over the images
            where the score exists; ``global`` pools the pixels of the data set.
        input_format: ``one-hot``: 0 and 1 ``[B, C, ...]`` of bool or any integer dtype, channels may overlap; logits of
            a float dtype stand for their argmax, but with one class the channel is a mask of 0 and 1, in floats too.
            ``index``: class indices ``[B, ...]`` of any integer dtype. ``mixed``: one side of either kind.

    Example:
        >>> import torch
        >>> metric = DiceScore(num_classes=3, average="none", input_format="index")
        >>> metric.update(torch.tensor([[[0, 0], [1, 1]]]), torch.tensor([[[0, 0], [0, 1]]]))
        >>> metric.compute()
        tensor([0.8000, 0.6667,    nan])
    """

    _can_ignore = False

    def __init__(
        self,
        num_classes: int,
        include_background: bool = True,
        average: str | None = "macro",
        aggregation_level: str = "samplewise",
        input_format: str = "one-hot",
        *,
        keep_images: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        _check_classes(num_classes)
        check_choice("average", average, AVERAGES)
        check_choice("aggregation_level", aggregation_level, ("samplewise", "global"))
        task = pixel_task(num_classes, None, input_format)
        self.kept = kept_classes(num_classes, include_background)
        self.first = int(not self.kept[0])
        self.include_background, self.average = include_background, average
        self.aggregation_level, self.input_format = aggregation_level, input_format
        super().__init__(task, aggregation_level == "samplewise", keep_images, **kwargs)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the value, float32 ``[]``, or ``[C]`` without average; NaN where no image has it."""
        if (table := self._table(self.first)) is not None:
            return self._shown(table_dice(table, self.average))
        return self._shown(mean_of_images(self._values(self.state(), self.average)))

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the value in float64, ``per_class``, and with ``samplewise`` ``per_image``; NaN has a reason.

        ``tp``, ``predicted`` and ``true`` are pixels of each class, background included.

        Raises:
            InputError: intervals are asked for but the counts of images are not kept: ``keep_images=True`` keeps them.
        """
        with self.synced_state() as state:
            found: dict[str, Any] = {"per_class": mean_of_images(self._values(state, None))}
            if self.average not in ("none", None):
                rows = self._values(state, self.average)
                found = {"DiceScore": float(mean_of_images(rows)), **found}
                found |= {"per_image": rows} if self.of_images else {}
            reasons = {
                "DiceScore": "no image has a pixel of a class that counts",
                "per_class": "no image has a pixel of the class, true or predicted",
                "per_image": "the image has no pixel of a class that counts",
            }
            missing = {name: text for name, text in reasons.items() if name in found and np.isnan(found[name]).any()}
            signature = self._signature_with("average", "aggregation_level", "include_background")
            found |= pixel_sums(state)
            result = image_result(found, signature, seen_counts(state, self.kept), missing, self._resampled(state))
        return result if intervals is None else result.with_intervals(intervals)

    def _resampled(self, state: Regions) -> Callable[[], Resampled]:
        if not self.per_image:
            return no_images
        averages: dict[str, str | None] = {"per_class": None}
        if self.average not in ("none", None):
            averages["DiceScore"] = self.average
        return partial(_resampled_dice, state, self.kept, averages, self.of_images)

    def _of_images(self, state: Regions) -> NDArray[np.float64]:
        return self._values(state, self.average)

    def _values(self, state: Regions, average: str | None) -> NDArray[np.float64]:
        """Of each image, or of the data set as one: ``[N]``, or ``[N, C]`` without average."""
        return region_value("f1", self._counts(state)[..., self.kept], average)


def _resampled_dice(
    state: Regions, kept: NDArray[np.bool_], averages: Mapping[str, str | None], of_images: bool
) -> Resampled:
    counts = state.images()[..., kept]
    rows = [region_value("f1", counts, average) for average in averages.values()] if of_images else []

    def numbers(
        weights: Weights, counts: NDArray[np.int64], *rows: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float64]]:
        found: dict[str, NDArray[np.float64]] = {}
        sums = None if of_images else weights.sums(counts)
        for place, (name, average) in enumerate(averages.items()):
            values = weights.means(rows[place]) if sums is None else region_value("f1", sums, average)
            found |= {name: values} if values.ndim == 1 else by_place(name, values)
        return found

    classes = by_class("per_class", counts[:, 2] > 0)
    family = "rows" if of_images else "pixels"
    return ResampledImages(family, counts, numbers, **classes, tables=[counts, *rows], truths=counts[:, 2])


def _resampled_generalized_dice(state: Regions, kept: NDArray[np.bool_], weight_type: str) -> Resampled:
    counts = state.images()[..., kept]
    rows, of_classes = (generalized_dice(counts, weight_type, per_class) for per_class in (False, True))

    def numbers(
        weights: Weights, rows: NDArray[np.float64], of_classes: NDArray[np.float64]
    ) -> dict[str, NDArray[np.float64]]:
        means = by_place("per_class", weights.means(of_classes))
        return {"GeneralizedDiceScore": weights.means(rows), **means}

    classes = by_class("per_class", counts[:, 2] > 0)
    return ResampledImages("rows", counts, numbers, **classes, tables=[rows, of_classes], truths=counts[:, 2])


@arguments_of(DiceScore)
class GeneralizedDiceScore(RegionState):
    """Computes the generalized Dice score, the mean over images, as torchmetrics does for each image.

    Of one image 2 sum w tp / sum w (predicted + true) over the classes, with w = 1 / true^2 (``square``),
    1 / true (``simple``) or 1 (``linear``) of the true pixels of a class. A class that is not true in an image weighs 0
    there (``linear``: 1); a score 0 / 0 is 0. It keeps 12 C bytes an image.

    Source: Sudre et al., Generalised Dice overlap as a deep learning loss function, DLMIA 2017; torchmetrics 1.9,
    ``segmentation.GeneralizedDiceScore``, whose weight of a class that is not true depends on the other images of the
    batch: docs/quirks.md.

    Args:
        per_class: return the score of each class, whose weight has no effect but where it is 0.
        weight_type: ``square``, ``simple`` or ``linear``.

    Raises:
        InputError: an argument is out of range.
        InputTypeError: ``per_class`` is not a bool.

    Example:
        >>> import torch
        >>> metric = GeneralizedDiceScore(num_classes=2, input_format="index")
        >>> metric.update(torch.tensor([[[0, 0], [1, 1]]]), torch.tensor([[[0, 0], [0, 1]]]))
        >>> metric.compute()
        tensor(0.6875)
    """

    _can_ignore = False

    def __init__(
        self,
        num_classes: int,
        include_background: bool = True,
        per_class: bool = False,
        weight_type: str = "square",
        input_format: str = "one-hot",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        _check_classes(num_classes)
        check_type("per_class", per_class, bool)
        check_choice("weight_type", weight_type, WEIGHT_TYPES)
        task = pixel_task(num_classes, None, input_format)
        self.kept = kept_classes(num_classes, include_background)
        self.first = int(not self.kept[0])
        self.include_background, self.per_class = include_background, per_class
        self.weight_type, self.input_format = weight_type, input_format
        super().__init__(task, True, **kwargs)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the value, float32 ``[]``, with ``per_class`` ``[C]``; NaN without images."""
        if (table := self._table(self.first)) is not None:
            return self._shown(table_generalized_dice(table, self.weight_type, self.per_class))
        return self._shown(mean_of_images(self._values(self.state(), self.per_class)))

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the value in float64, ``per_class`` and ``per_image``; 0 / 0 is 0 as in ``compute``.

        ``images_without_target`` counts the images in which no class that counts is true.
        """
        with self.synced_state() as state:
            rows = self._values(state, False)
            per_class = mean_of_images(self._values(state, True))
            found = {"GeneralizedDiceScore": float(mean_of_images(rows)), "per_class": per_class, "per_image": rows}
            without = int((state.images()[:, 2, self.kept].sum(-1) == 0).sum())
            counts = {**seen_counts(state, self.kept), "images_without_target": without}
            missing = dict.fromkeys(("GeneralizedDiceScore", "per_class") if not len(rows) else (), "there is no image")
            signature = self._signature_with("weight_type", "include_background")
            resampled = partial(_resampled_generalized_dice, state, self.kept, self.weight_type)
            result = image_result(found | pixel_sums(state), signature, counts, missing, resampled)
        return result if intervals is None else result.with_intervals(intervals)

    def _of_images(self, state: Regions) -> NDArray[np.float64]:
        return self._values(state, self.per_class)

    def _values(self, state: Regions, per_class: bool) -> NDArray[np.float64]:
        return generalized_dice(state.images()[..., self.kept], self.weight_type, per_class)
