"""Panoptic quality, and the modified one of Porzi et al."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.metric import Metric
from valor_gpu.ops.error_codes import raise_or_defer
from valor_gpu.ops.panoptic.cpu import (
    FALSE_NEGATIVES,
    FALSE_POSITIVES,
    IOU_SUM,
    PREDICTED,
    ROWS,
    TRUE,
    TRUE_POSITIVES,
    check_categories,
)
from valor_gpu.ops.panoptic.op import count_panoptic, panoptic_error
from valor_gpu.reduce.panoptic import (
    Scores,
    category_scores,
    iou_sums,
    mean_pq,
    mean_scores,
    panoptic_reasons,
    panoptic_values,
    segment_counts,
)
from valor_gpu.result import Result, Signature
from valor_gpu.segmentation.image_analysis import NO_SEGMENTS, image_result
from valor_gpu.segmentation.panoptic_lrp import answers_lrp
from valor_gpu.segmentation.resampled_images import no_images
from valor_gpu.segmentation.resampled_panoptic import resampled_panoptic
from valor_gpu.state import ROUNDING, State, check_elements, check_sums, joined, summed
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.resample import Resampled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions


_LEAST_ROWS, _ASPECT = 16, 8  # what looks like one image: of 16 rows or more, no side 8 times as long as the other


@dataclass(frozen=True)
class SegmentCounts(State):
    """Counts of matched and unmatched segments; integers alone, so that any split and order gives the same bits.

    Attributes:
        counts: int64 ``[8, C]``, of :func:`valor_gpu.ops.panoptic.op.count_panoptic`.
        images: int64 ``[]``.
    """

    counts: Tensor = summed()
    images: Tensor = summed()

    def table(self) -> NDArray[np.int64]:
        """The counts of all images, int64 ``[8, C]``."""
        return self.counts.cpu().numpy()

    def number(self) -> int:
        """How many images there were."""
        return int(self.images)

    def check(self, rule: int) -> None:
        """Raises :class:`InputError` unless the counts are such as ``update`` leaves.

        Args:
            rule: the first column without a threshold.
        """
        check_sums("images", self.images)
        _check_segments(self.counts, rule)


@dataclass(frozen=True)
class ImageSegments(State):
    """Counts of matched and unmatched segments of each image, 64 C bytes an image.

    Attributes:
        counts: int64 ``[N, 8, C]``, see :class:`SegmentCounts`.
    """

    counts: Tensor = joined()
    hashed: ClassVar[str | None] = "images"
    row_fields: ClassVar[tuple[str, ...]] = ("counts",)

    def table(self) -> NDArray[np.int64]:
        """The counts of all images, int64 ``[8, C]``."""
        table: NDArray[np.int64] = self.counts.cpu().numpy().sum(0)
        return table

    def number(self) -> int:
        """How many images there were."""
        return len(self.counts)

    def check(self, rule: int) -> None:
        """Raises :class:`InputError` unless the counts of each image are such as ``update`` leaves.

        Args:
            rule: the first column without a threshold.
        """
        _check_segments(self.counts, rule)


def _check_segments(counts: Tensor, rule: int) -> None:
    """Raises :class:`InputError` unless counts ``[..., 8, C]`` are such as ``update`` leaves."""
    check_sums("counts", counts)
    words, matches = counts[..., IOU_SUM:, :], counts[..., TRUE_POSITIVES, :]
    check_elements("counts", words, words <= matches.unsqueeze(-2) * 2.0**32, "be words of 32 bits for each match")
    true = matches + counts[..., FALSE_NEGATIVES, :] <= counts[..., TRUE, :]
    with_threshold = torch.arange(counts.shape[-1], device=counts.device) < rule
    found = matches * with_threshold + counts[..., FALSE_POSITIVES, :]
    sums = torch.from_numpy(iou_sums(counts.cpu().numpy())).to(counts.device)
    within = true & (found <= counts[..., PREDICTED, :]) & (sums <= matches * (1 + ROUNDING))
    check_elements("counts", counts.transpose(-1, -2), within, "have no more matches than segments")


class _PanopticMetric(Metric[Any]):
    """Base of both: one update, with or without a threshold for stuff.

    Args:
        things: categories whose instances are told apart.
        stuffs: categories that have one segment per image.
        allow_unknown_preds_category: predicted categories that are neither are void; otherwise they are an error.
        modified: stuff is scored without a threshold.
        keep_images: keep the counts of each image, 64 bytes per category, which intervals need.

    Raises:
        InputError: a category is a thing and stuff, or there is none.
        InputTypeError: a category is no int.
    """

    is_differentiable = False
    higher_is_better = True
    plot_lower_bound = 0.0
    plot_upper_bound = 1.0

    def __init__(
        self,
        things: Collection[int],
        stuffs: Collection[int],
        allow_unknown_preds_category: bool,
        modified: bool,
        keep_images: bool,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        self.things, self.stuffs = _categories("things", things), _categories("stuffs", stuffs)
        if both := self.things & self.stuffs:
            raise InputError(f"things and stuffs must have no category in common but both have {sorted(both)}")
        if not self.things | self.stuffs:
            raise InputError("things or stuffs must have a category but both are empty")
        self.categories = (*sorted(self.things), *sorted(self.stuffs))
        check_categories(self.categories, len(self.things))
        check_type("allow_unknown_preds_category", allow_unknown_preds_category, bool)
        self.allow_unknown_preds_category = allow_unknown_preds_category
        check_type("keep_images", keep_images, bool)
        self.modified, self.keep_images = modified, keep_images
        classes = len(self.categories)
        self._state_rule = len(self.things) if modified else classes
        zeros = torch.zeros((0, ROWS, classes) if keep_images else (ROWS, classes), dtype=torch.int64)
        empty = ImageSegments(zeros) if keep_images else SegmentCounts(zeros, torch.zeros((), dtype=torch.int64))
        config = {
            "things": sorted(self.things),
            "stuffs": sorted(self.stuffs),
            "allow_unknown_preds_category": allow_unknown_preds_category,
        }
        super().__init__(empty, config, **kwargs)

    def update(self, preds: Values, target: Values) -> None:
        """Counts a batch. Segments match within one image only.

        Args:
            preds: any integer dtype ``[B, ..., 2]``: category and instance of every pixel. Instances of stuff do not
                matter. One image is ``[1, H, W, 2]``: ``[H, W, 2]`` is read as H images of one dimension, with a
                warning where its shape is that of an image.
            target: likewise, in the shape of ``preds``; pixels of a category that is not listed are void.

        Raises:
            InputError: naming the argument. An unknown category in ``preds``, unless it is allowed, by its place; on
                CUDA it is raised by ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        preds, target = as_values("preds", preds), as_values("target", target)
        _warn_of_one_image(tuple(preds.shape))
        tables, code = count_panoptic(
            preds, target, self.categories, len(self.things), modified=self.modified,
            allow_unknown=self.allow_unknown_preds_category,
        )  # fmt: skip
        error = raise_or_defer(code, panoptic_error(preds.shape, self.categories, preds))
        if self.keep_images:
            return self._add(ImageSegments(tables), error)
        images = torch.full((), len(preds), dtype=torch.int64, device=preds.device)
        self._add(SegmentCounts(tables.sum(0), images), error)

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns PQ, SQ and RQ over all categories, over things and over stuff, of every category, and counts.

        Names of categories are their ids. A category without a segment that counts is NaN, with a reason, and left out
        of means; so is the SQ of a category without a match, which means take as 0.

        Args:
            intervals: replicates of a bootstrap over images, or its choices: an interval beside each number.

        Raises:
            InputError: intervals are asked for but the counts of images are not kept: ``keep_images=True`` keeps them.
        """
        with self.synced_state() as state:
            table, images = state.table(), state.number()
        things = np.arange(len(self.categories)) < len(self.things)
        names = [str(category) for category in self.categories]
        values = panoptic_values(table, things, names)
        resampled = partial(_resampled, state, things, names) if self.keep_images else no_images
        signature = Signature({"metric": type(self).__name__, **self._identity.config})
        counts = {"images": images, **segment_counts(table, self._state_rule)}
        result = image_result(values, signature, counts, panoptic_reasons(values), resampled, NO_SEGMENTS)
        result = answers_lrp(result, None if self.modified else partial(_segments, state), things, names)
        return result if intervals is None else result.with_intervals(intervals)

    def _describe_error(self, code: int) -> str:
        described = panoptic_error((1,), self.categories)(code)
        return f"{described} (the image is counted within its batch)"

    def _scores(self) -> Scores:
        return category_scores(self.state().table())

    def _tensor(self, *parts: Any) -> Tensor:
        return torch.from_numpy(np.stack(parts, -1)).to(self.error.device)


def _resampled(state: ImageSegments, things: NDArray[np.bool_], names: Sequence[str]) -> Resampled:
    tables = state.counts.cpu().numpy()
    return resampled_panoptic(tables, tables, things, names)


def _segments(state: SegmentCounts | ImageSegments) -> tuple[NDArray[np.int64], Any]:
    """Counts of segments; where those of each image are kept, they are its key as well."""
    if isinstance(state, SegmentCounts):
        return state.table(), None
    tables = state.counts.cpu().numpy()
    return tables, tables


class PanopticQuality(_PanopticMetric):
    """Computes panoptic quality: how well segments of things and stuff are found and outlined.

    PQ = sum of the IoUs of matches / (TP + FP / 2 + FN / 2), which is segmentation quality SQ (the mean IoU of the
    matches) times recognition quality RQ (the F1 score of segments), averaged over categories. Segments of one category
    match where their IoU is above 0.5; what is void on the other side is left out of the union, and an unmatched
    segment that is mostly void there is ignored. Without data ``compute`` gives NaN, and :meth:`result` says why.

    Values and arguments are those of torchmetrics, whose IoUs are rounded to float32; here they are float64 and their
    sum is exact.

    Source: Kirillov et al., "Panoptic Segmentation", CVPR 2019.

    Args:
        return_sq_and_rq: ``compute`` gives PQ, SQ and RQ.
        return_per_class: ``compute`` gives the numbers of every category: things ascending, then stuff ascending.

    Example:
        >>> target = torch.tensor([[[1, 4], [1, 4], [1, 4], [2, 0], [2, 0], [0, 0]]])  # [1, 6, 2]
        >>> preds = torch.tensor([[[1, 7], [1, 7], [2, 0], [2, 0], [2, 0], [2, 0]]])
        >>> metric = PanopticQuality(things=[1], stuffs=[2], return_sq_and_rq=True)
        >>> metric(preds, target)
        tensor([0.6667, 0.6667, 1.0000], dtype=torch.float64)
    """

    def __init__(
        self,
        things: Collection[int],
        stuffs: Collection[int],
        allow_unknown_preds_category: bool = False,
        return_sq_and_rq: bool = False,
        return_per_class: bool = False,
        *,
        keep_images: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_type("return_sq_and_rq", return_sq_and_rq, bool)
        check_type("return_per_class", return_per_class, bool)
        self.return_sq_and_rq, self.return_per_class = return_sq_and_rq, return_per_class
        super().__init__(things, stuffs, allow_unknown_preds_category, False, keep_images, **kwargs)

    def compute(self) -> Tensor:
        """Returns float64, as torchmetrics does: PQ ``[]``, of every category ``[1, C]``, or of three numbers ``[3]``.

        Of every category with SQ and RQ it is ``[C, 3]``. A number that does not exist is 0 by category, and NaN as the
        mean of no category.
        """
        scores = self._scores()
        if not (self.return_per_class or self.return_sq_and_rq):
            return self._tensor(mean_pq(scores))[0]
        if not self.return_per_class:
            return self._tensor(*mean_scores(scores))
        numbers = self._tensor(*map(np.nan_to_num, scores))
        return numbers if self.return_sq_and_rq else numbers[:, 0][None]


class ModifiedPanopticQuality(_PanopticMetric):
    """Computes panoptic quality where stuff is scored without a threshold.

    Of a stuff category it is the sum of the IoUs of its segments, whatever they are, divided by how many images have
    it; things are scored as in :class:`PanopticQuality`. Predictions of stuff that an image lacks count nowhere.
    Values and arguments are those of torchmetrics, whose IoUs are rounded to float32.

    Source: Porzi et al., "Seamless Scene Segmentation", CVPR 2019, section 5.1.

    Example:
        >>> target = torch.tensor([[[1, 4], [1, 4], [2, 0], [2, 0], [2, 0], [2, 0]]])  # [1, 6, 2]
        >>> preds = torch.tensor([[[1, 7], [1, 7], [1, 8], [1, 8], [1, 8], [2, 0]]])
        >>> metric = ModifiedPanopticQuality(things=[1], stuffs=[2])
        >>> metric(preds, target)  # (1 / (1 + 1/2) + 1/4) / 2
        tensor(0.4583, dtype=torch.float64)
    """

    def __init__(
        self,
        things: Collection[int],
        stuffs: Collection[int],
        allow_unknown_preds_category: bool = False,
        *,
        keep_images: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        super().__init__(things, stuffs, allow_unknown_preds_category, True, keep_images, **kwargs)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the mean over categories, float64 ``[]``; NaN where no category has a segment that counts."""
        return self._tensor(mean_pq(self._scores()))[0]


def _warn_of_one_image(shape: tuple[int, ...]) -> None:
    """Warns of ``[H, W, 2]``, which is read as H images of one dimension: those have far more pixels than a B.

    It looks at the shape alone, so that CUDA tensors are not waited for.
    """
    if len(shape) != 3 or shape[0] < _LEAST_ROWS or shape[2] != 2:
        return
    if shape[0] <= _ASPECT * shape[1] and shape[1] <= _ASPECT * shape[0]:
        warnings.warn(
            f"preds {list(shape)} are read as {shape[0]} images of {shape[1]} pixels in one dimension: one image of"
            f" {shape[0]} x {shape[1]} pixels needs preds[None] and target[None]; for images of one dimension"
            " give [B, N, 1, 2], which is not warned of",
            stacklevel=3,
        )


def _categories(name: str, given: Collection[int]) -> set[int]:
    """The categories of a collection; a category that is given twice is one, with a warning."""
    check_type(name, given, Iterable)  # type: ignore[type-abstract]
    found = []
    for category in given:
        if isinstance(category, bool) or not hasattr(category, "__index__"):
            raise InputTypeError(f"{name} must hold int categories but has {category!r}")
        found.append(operator.index(category))
    if len(set(found)) < len(found):
        warnings.warn(f"{name} must hold each category once: duplicates of {found} are left out", stacklevel=4)
    return set(found)
