"""Scores of each image and class as state, and the base class of the metrics of distances between boundaries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.inputs.pixels import PixelBatch
from valor_gpu.inputs.values import Values
from valor_gpu.ops.error_codes import raise_or_defer
from valor_gpu.ops.surface.op import MAX_PIXELS, METRICS, SurfaceDistances, check_spacing, surface_distances
from valor_gpu.plans import switched_on
from valor_gpu.result import Result
from valor_gpu.segmentation.image_analysis import image_result
from valor_gpu.segmentation.region_base import PixelMetric, kept_classes, pixel_task
from valor_gpu.segmentation.resampled_images import MAXIMUM, ResampledImages, Weights, by_class, by_place
from valor_gpu.state import State, check_elements, joined
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.resample import Resampled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

AVERAGES = ("macro", "micro", "none", None)

_FEW = 256  # numbers of which arrays take longer than plain numbers

Floats = NDArray[np.float64]
Spacing = Sequence[float] | Tensor | None


@dataclass(frozen=True)
class ImageScores(State):
    """What a metric keeps of each image and class, 8 bytes a number.

    Attributes:
        scores: float64 ``[N, C', M]``, M numbers of each of C' classes. NaN: the number does not exist.
    """

    scores: Tensor = joined()
    hashed: ClassVar[str | None] = "images"
    row_fields: ClassVar[tuple[str, ...]] = ("scores",)

    def check(self, rule: Any) -> None:
        """Raises :class:`InputError` unless no number is negative."""
        check_elements("scores", self.scores, ~(self.scores < 0), "be at least 0, or NaN")


class SurfaceMetric(PixelMetric[ImageScores]):
    """Base of the metrics of distances between boundaries; a subclass gives what is kept, and the score made of it.

    Scores of images are averaged in ascending order, so that no split, order or number of ranks changes a bit.

    Args:
        classes: C, and whether the background, class 0, counts.
        input_format: ``index``: class indices ``[B, H, W]`` or ``[B, D, H, W]``, or logits as predictions;
            ``one-hot``: masks ``[B, C, H, W]`` or ``[B, C, D, H, W]``, of one class in floats too; ``mixed``: one side
            each.
        ignore_index: pixels with this target are of no class on either side, as if the image ended there.
        config: further choices that ``update`` depends on.
        options: keyword arguments of :func:`~valor_gpu.ops.surface.op.surface_distances`.
        average: ``macro``: the mean of the classes' means over images; ``micro``: over all images and classes at
            once; ``none`` or None: every class.
    """

    higher_is_better = False
    plot_upper_bound: float | None = None  # type: ignore[assignment]
    _kind_of_state: ClassVar[type[ImageScores]] = ImageScores
    _numbers: ClassVar[int] = 1  # M
    _missing: ClassVar[str] = "no image has a boundary of the class on both sides"

    def __init__(
        self,
        classes: tuple[int, bool],
        input_format: str,
        ignore_index: int | None,
        config: dict[str, Any],
        options: dict[str, Any],
        average: str | None,
        /,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        number, self.include_background = classes
        task = pixel_task(number, ignore_index, input_format)
        check_type("num_classes", number, int)
        check_choice("average", average, AVERAGES)
        self.average, self._options = average, options
        self.first_class = int(not kept_classes(number, self.include_background)[0])
        empty = self._kind_of_state(torch.zeros((0, number - self.first_class, self._numbers), dtype=torch.float64))
        config = {"include_background": self.include_background, **config}
        super().__init__(task, empty, config, **kwargs)

    def update(self, preds: Values, target: Values) -> None:
        """Measures the images of a batch.

        Args:
            preds: with ``input_format="index"`` class indices ``[B, H, W]`` or ``[B, D, H, W]`` of any integer dtype,
                or logits with the classes as second dimension, whose largest counts, of equal ones the first; with
                ``"one-hot"`` masks ``[B, C, H, W]`` or ``[B, C, D, H, W]`` of 0 and 1, which may overlap, of one class
                in floats too, or logits of several; with ``"mixed"`` one of both.
            target: class indices, or masks. Of masks ``ignore_index`` is the channel whose pixels are left out.

        Raises:
            InputError: naming the argument and the place. On CUDA, labels out of range are raised by ``compute``
                instead, since ``update`` does not synchronise with the device.
        """
        batch = self._batch(preds, target)
        size = batch.shape[1:]
        if len(size) not in (2, 3):
            raise InputError(
                f"preds must be images [H, W] or volumes [D, H, W] but are {list(size)} in each of a batch"
            )
        if math.prod(size) > MAX_PIXELS:  # before the op, which wants copies of both sides, can say so
            raise InputError(f"preds must have at most {MAX_PIXELS} pixels an image but have {list(size)}")
        error = raise_or_defer(batch.count(False).error, batch.describe)
        found = surface_distances(*_sides(batch), batch.classes, first_class=self.first_class, **self._choices(size))
        self._add(self._kind_of_state(self._scores(found)), error)

    def _choices(self, size: Sequence[int]) -> dict[str, Any]:
        """The keyword arguments of the op for images of this size."""
        return self._options

    def _scores(self, found: SurfaceDistances) -> Tensor:
        """What is kept, float64 ``[B, C', M]``."""
        raise NotImplementedError

    def _values(self, state: ImageScores) -> Floats:
        """The score of each image and class, ``[N, C']``; NaN where there is none."""
        raise NotImplementedError

    def compute(self) -> Tensor:
        """Returns the value, float64 ``[]``, or without average ``[C]``; NaN where no score exists.

        Without the background ``[C]`` starts with class 1.
        """
        return torch.from_numpy(np.asarray(averaged(self._values(self.state()), self.average))).to(self.error.device)

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the value, with the mean and the number of scored images of every class, and counts.

        ``per_class`` and ``scored_images`` are arrays ``[C]``, without the background from class 1 on. ``scored``,
        ``one_boundary_empty`` and ``no_boundary`` count pairs of an image and a class.
        """
        with self.synced_state() as state:
            result = self._result(state)
        return result if intervals is None else result.with_intervals(intervals)

    def _result(self, state: ImageScores) -> Result:
        found = self._values(state)
        per_class = averaged(found, "none")
        values: dict[str, Any] = {"per_class": per_class, "scored_images": (~np.isnan(found)).sum(0)}
        if self.average not in ("none", None):
            values = {type(self).__name__: float(averaged(found, self.average)), **values}
        missing = [name for name, value in values.items() if np.isnan(value).any()]
        counts = {"images": len(found), "scored": int((~np.isnan(found)).sum()), **self._empty_boundaries(state)}
        averages: dict[str, str | None] = {"per_class": "none"}
        if self.average not in ("none", None):
            averages[type(self).__name__] = self.average
        resampled = partial(_resampled_scores, found, averages, self._is_maximum())
        signature = self._signature_with("average")
        reasons = dict.fromkeys(missing, self._missing)
        return image_result(values, signature, counts, reasons, resampled, self._missing)

    def _is_maximum(self) -> bool:
        """Whether the score of an image is a maximum over its pixels."""
        return False

    def _empty_boundaries(self, state: ImageScores) -> dict[str, int]:
        """How many pairs of image and class have one empty boundary, and two."""
        raise NotImplementedError


def _resampled_scores(found: Floats, averages: Mapping[str, str | None], is_maximum: bool) -> Resampled:
    places = by_place("per_class", found)

    def numbers(weights: Weights, found: Floats) -> dict[str, Floats]:
        rows = [[averaged(kept, average) for average in averages.values()] for kept in weights.repeated(found)]
        values: dict[str, Floats] = {}
        for name, column in zip(averages, zip(*rows)):
            whole = np.array(column)
            values |= {name: whole} if whole.ndim == 1 else by_place(name, whole)
        return values

    refused = dict.fromkeys((*averages, *places), MAXIMUM) if is_maximum else {}
    classes = by_class("per_class", ~np.isnan(found))
    return ResampledImages("rows", found, numbers, **classes, refused=refused, largest=math.inf, tables=[found])


class DistanceMetric(SurfaceMetric):
    """Base of the metrics that keep one distance of each image and class: infinite where one boundary is empty."""

    def _few_scores(self, state: ImageScores) -> list[float] | None:
        """The distances of a state, where they are few and on the CPU; else None."""
        scores = state.scores
        if scores.numel() > _FEW or not (switched_on() and scores.is_cpu and self.error.is_cpu):
            return None
        found: list[float] = scores.reshape(-1).tolist()
        return found

    def _values(self, state: ImageScores) -> Floats:
        distances = state.scores[..., 0].cpu().numpy()
        return np.where(np.isinf(distances), np.nan, distances)

    def _empty_boundaries(self, state: ImageScores) -> dict[str, int]:
        one, none = int(state.scores.isinf().sum()), int(state.scores.isnan().sum())
        return {"one_boundary_empty": one, "no_boundary": none}


def pixels_of(found: SurfaceDistances) -> Tensor:
    """Boundary pixels of both sides, int64 ``[B, C', 2]``."""
    return found.counts[..., 0]


def with_missing(distances: Tensor, found: SurfaceDistances) -> Tensor:
    """Distances ``[B, C']``, infinite where one boundary is empty and NaN where both are; ``[B, C', 1]``."""
    there = (pixels_of(found) > 0).sum(-1)
    distances = torch.where(there == 1, math.inf, torch.where(there == 0, math.nan, distances))
    return distances.unsqueeze(-1)


def averaged(values: Floats, average: str | None) -> Floats:
    """The mean of scores ``[N, C']`` that are not NaN.

    Args:
        values: the scores.
        average: ``micro``: of all; ``none`` or None: of each class; ``macro``: of the classes' means.

    Returns:
        ``[]`` or ``[C']``, NaN where there is no score.

    Example:
        >>> averaged(np.array([[1.0, 5.0], [2.0, np.nan]]), "macro")
        np.float64(3.25)
    """
    if average == "micro":
        return _mean(values.reshape(-1, 1))[0]  # type: ignore[no-any-return]
    per_class = _mean(values)
    return _mean(per_class[:, None])[0] if average == "macro" else per_class  # type: ignore[no-any-return]


def _mean(values: Floats) -> Floats:
    """Means of columns over what is not NaN, added in ascending order."""
    ordered = np.sort(values, axis=0)  # NaN come last
    counts = (~np.isnan(ordered)).sum(0)
    sums = np.add.accumulate(np.nan_to_num(np.concatenate([np.zeros((1, values.shape[1])), ordered])), axis=0)[-1]
    means: Floats = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means


def mean_ascending(values: Sequence[float]) -> float:
    """``averaged(values, "micro")`` of a few finite scores or NaN, in plain numbers; the same bits.

    Example:
        >>> mean_ascending([2.0, math.nan, 1.0])
        1.5
    """
    known = sorted(value for value in values if value == value)
    total = 0.0
    for value in known:  # the builtin sum compensates rounding from Python 3.12 on
        total += value
    return total / len(known) if known else math.nan


def spacing_of(spacing: Spacing) -> list[float] | None:
    """The spacing as a list.

    Raises:
        InputError: it has not two or three numbers, or one is not finite and above 0.
    """
    if spacing is None:
        return None
    check_type("spacing", spacing, (list, tuple, Tensor))
    numbers = spacing.tolist() if isinstance(spacing, Tensor) else list(spacing)
    if not isinstance(numbers, list) or len(numbers) not in (2, 3):
        raise InputError(f"spacing must have a number of each axis, two or three, but got {numbers}")
    return check_spacing(numbers, len(numbers))


def metric_of(distance_metric: str) -> str:
    """The name of a distance; raises :class:`InputError` for another one."""
    check_choice("distance_metric", distance_metric, METRICS)
    return distance_metric


def _sides(batch: PixelBatch) -> tuple[Tensor, Tensor]:
    """Predictions and target as the op takes them; ignored pixels are of no class on either side."""
    # max names the first of equal logits, and NaN above all numbers, as argmax does in three times its time
    preds = batch.preds.max(1).indices if batch.form == "logits" else batch.preds
    kept = _kept(batch)
    return _side(preds, batch, kept), _side(batch.target, batch, kept)


def _kept(batch: PixelBatch) -> Tensor | None:
    """Which pixels ``[B, ...]`` are not ignored, of a one-hot target by its channel; None: all."""
    ignored = batch.ignore_index
    if ignored is None:
        return None
    if batch.target.ndim == len(batch.shape):
        return batch.target.long() != ignored
    return batch.target[:, ignored] == 0 if 0 <= ignored < batch.classes else None


def _side(side: Tensor, batch: PixelBatch, kept: Tensor | None) -> Tensor:
    if side.ndim > len(batch.shape):
        masks = side != 0
        return masks if kept is None else masks & kept.unsqueeze(1)
    labels = side.int()
    return labels if kept is None else torch.where(kept, labels, -1)
