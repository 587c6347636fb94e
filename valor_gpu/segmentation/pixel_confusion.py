"""The confusion matrix of pixels."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.inputs.pixels import PixelTask
from valor_gpu.inputs.values import Values
from valor_gpu.ops.error_codes import raise_or_defer
from valor_gpu.plans import Plan, Planner
from valor_gpu.reduce.confusion_plot import plot_confusion
from valor_gpu.reduce.ratios import Ratio, normalized
from valor_gpu.result import Result
from valor_gpu.segmentation.cuda_plans import added_plan
from valor_gpu.segmentation.image_analysis import image_result
from valor_gpu.segmentation.plans import Forms, form_planner
from valor_gpu.segmentation.region_base import MAX_IMAGE_PIXELS, PixelMetric, narrowed, ours, pixel_task
from valor_gpu.segmentation.resampled_images import ResampledImages, Weights, no_images
from valor_gpu.state import State, check_rows, check_sums, joined, summed
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.resample import Resampled

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

NORMALIZE = ("none", "true", "pred", "all", "iou", None)
_AT_ONCE = 3  # matrices in memory while a batch is added: the state, that of the batch, their sum


@dataclass(frozen=True)
class PixelPairs(State):
    """Counts of pixels by true and predicted class, exact for any order and split.

    Attributes:
        matrix: int64 ``[C, C]``, rows are true classes.
        seen: int64 ``[3]``, images, pixels, and pixels that were ignored.
    """

    matrix: Tensor = summed()
    seen: Tensor = summed()

    def total(self) -> Tensor:
        """The counts of all images."""
        return self.matrix

    def check(self, rule: PixelTask) -> None:
        """Raises :class:`InputError` unless all are counts, of the pixels that were seen."""
        check_sums("matrix", self.matrix)
        check_sums("seen", self.seen)
        _, pixels, ignored = self.seen.tolist()
        if int(self.matrix.sum()) != pixels - ignored:
            raise InputError(
                f"state field matrix must sum to {pixels - ignored}, the pixels that were not ignored, but sums to"
                f" {int(self.matrix.sum())}"
            )


@dataclass(frozen=True)
class ImagePairs(PixelPairs):
    """Counts of pixels of each image by true and predicted class, 4 C^2 bytes an image.

    Attributes:
        matrix: int32 ``[N, C, C]``, rows are true classes.
        seen: int64 ``[3]``, images, pixels, and pixels that were ignored.
    """

    matrix: Tensor = joined()
    seen: Tensor = summed()
    hashed: ClassVar[str | None] = "images"
    row_fields: ClassVar[tuple[str, ...]] = ("matrix",)

    def check(self, rule: PixelTask) -> None:
        """Raises :class:`InputError` unless all are counts, of the images and pixels that were seen."""
        super().check(rule)
        check_rows("matrix", self.matrix, int(self.seen[0]), "seen")

    def total(self) -> Tensor:
        """The counts of all images, int64 ``[C, C]``."""
        return self.matrix.sum(0)


def _check_memory(classes: int) -> None:
    size = 8 * classes**2
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if _AT_ONCE * size > memory:
        raise InputError(
            f"num_classes must be so small that {_AT_ONCE} matrices, as an update makes, fit into memory but"
            f" {classes} classes need {_AT_ONCE * size / 2**30:,.1f} GiB and this machine has {memory / 2**30:,.1f} GiB"
        )


class PixelConfusionMatrix(PixelMetric[PixelPairs]):
    """Counts how many pixels of each true class were predicted as each class; rows are true classes.

    It takes 8 C^2 bytes, 800 MB for 10,000 classes, and three times as much during an update; :class:`IOU` and the
    other ratios need 24 C. A fraction 0 / 0, of a class that is never true (or never predicted), is 0 in ``compute``
    and NaN in :meth:`result`.

    Source: scikit-learn, ``confusion_matrix``; ``iou``: the confusion matrix of valor-lite's segmentation.

    Args:
        num_classes: C, from 1 to 32,767.
        normalize: divide by the sum of the row (``true``), of the column (``pred``), of everything (``all``), or by the
            pixels that are of the true class, of the predicted class or of both (``iou``: the diagonal is intersection
            over union of each class); ``none`` or None keeps counts.
        ignore_index: pixels of this target are left out, whatever their prediction; any integer, also one that is no
            class.
        input_format: ``index``; channels of one-hot maps may overlap, so that a pixel has no one cell.
        keep_images: keep the matrix of each image, 4 C^2 bytes of it, which intervals need.

    Raises:
        InputError: an argument is out of range, or the matrices do not fit into memory.

    Example:
        >>> metric = PixelConfusionMatrix(3, ignore_index=255)
        >>> metric.update(torch.tensor([[[0, 0], [1, 2]]]), torch.tensor([[[0, 1], [1, 255]]]))
        >>> metric.compute()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [0, 0, 0]])
    """

    update_family: ClassVar[str | None] = None
    higher_is_better = None

    def __init__(
        self,
        num_classes: int,
        *,
        normalize: str | None = "none",
        ignore_index: int | None = None,
        input_format: str = "index",
        keep_images: bool = False,
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_choice("normalize", normalize, NORMALIZE)
        if input_format != "index":
            raise InputError(
                "input_format must be 'index': channels of one-hot maps may overlap, so that a pixel has no one cell;"
                " give the argmax over the channels"
            )
        task = pixel_task(num_classes, ignore_index, "index")
        _check_memory(num_classes)
        check_type("keep_images", keep_images, bool)
        self.normalize, self.keep_images = normalize, keep_images
        size, seen = (num_classes, num_classes), torch.zeros(3, dtype=torch.int64)
        empty = (
            ImagePairs(torch.zeros((0, *size), dtype=torch.int32), seen) if keep_images
            else PixelPairs(torch.zeros(size, dtype=torch.int64), seen)
        )  # fmt: skip
        super().__init__(task, empty, **kwargs)

    def update(self, preds: Values, target: Values) -> None:
        """Counts a batch.

        Args:
            preds: class indices ``[B, ...]`` of any integer dtype, or logits ``[B, C, ...]`` of any float dtype, whose
                largest counts, of equal ones the first.
            target: class indices ``[B, ...]`` of any integer dtype.

        Raises:
            InputError: naming the argument and the place. On CUDA, labels out of range are raised by ``compute``
                instead, since ``update`` does not synchronise with the device.
        """
        batch = self._batch(preds, target)
        matrix, ignored, error = batch.count_pairs(self.keep_images)
        deferred, seen = raise_or_defer(error, batch.describe), self._seen(batch, ignored)
        self._add(ImagePairs(narrowed(batch, matrix), seen) if self.keep_images else PixelPairs(matrix, seen), deferred)

    def _planner(self) -> Planner:
        return form_planner(Forms(lambda: self.task, self._cuda_plan_of))

    def _cuda_plan_of(self, preds: Tensor, target: Tensor) -> Plan | None:
        batch = self._batch(preds, target)
        if not ours(type(self)._batch) or (self.keep_images and math.prod(batch.shape[1:]) > MAX_IMAGE_PIXELS):
            return None
        return added_plan(batch, preds, target, "matrix", self.keep_images, pairs=True)

    def compute(self) -> Tensor:
        """Returns int64 counts, or float32 fractions with 0 for 0 / 0: ``[C, C]``."""
        matrix = self.state().total()
        return matrix if self.normalize in ("none", None) else _shares(matrix, self.normalize).nan_to_num(0.0).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns ``confusion_matrix``, counts or fractions in float64, NaN for 0 / 0, and what was seen.

        It warns where ``ignore_index`` leaves one class.

        Raises:
            InputError: intervals are asked for but the counts of images are not kept: ``keep_images=True`` keeps them.
        """
        with self.synced_state() as state:
            total = state.total()
            matrix = _shares(total, self.normalize)
            missing = ["confusion_matrix"] if bool(matrix.isnan().any()) else []
            images, pixels, ignored = state.seen.tolist()
            self._warn_of_ignored(lambda: total.sum(1).cpu().numpy(), ignored)
            unseen = (total.sum(0) == 0) & (total.sum(1) == 0)
            counts = {"images": images, "pixels": pixels, "ignored": ignored, "absent_classes": int(unseen.sum())}
            reasons = dict.fromkeys(missing, "the number of pixels that it is divided by is 0")
            values = {"confusion_matrix": matrix.cpu().numpy()}
            resampled = partial(_resampled_pairs, state, self.normalize) if self.keep_images else no_images
            signature = self._signature_with("normalize")
            result = image_result(values, signature, counts, reasons, resampled, plotter=plot_confusion)
        return result if intervals is None else result.with_intervals(intervals)

    def plot(self, val: None = None, ax: Any = None) -> Any:
        """Draws the matrix of :meth:`result` and returns figure and axes; collective like it.

        Args:
            val: must be left out: only what the metric holds is drawn.
            ax: matplotlib axes, or None for new ones.
        """
        if val is not None:
            raise InputError("val must be left out: plot draws what the PixelConfusionMatrix holds")
        axes = self.result().plot(ax=ax)
        return axes.figure, axes


def _shares(matrix: Tensor, normalize: str | None) -> Tensor:
    """float64 fractions of counts ``[..., C, C]``, or the counts as they are."""
    if normalize != "iou":
        return normalized(matrix if normalize in ("none", None) else matrix.double(), normalize)
    counts = matrix.double()
    return Ratio(counts, counts.sum(-1, keepdim=True) + counts.sum(-2, keepdim=True) - counts).value()


def _resampled_pairs(state: PixelPairs, normalize: str | None) -> Resampled:
    matrices = state.matrix.cpu().numpy()

    def numbers(weights: Weights, matrices: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        found = _shares(torch.from_numpy(weights.sums(matrices)), normalize).double().numpy()
        return {f"confusion_matrix/{i},{j}": found[:, i, j] for i, j in np.ndindex(*found.shape[1:])}

    # Every cell of a true class rests on the images that hold the class.
    classes = range(matrices.shape[1])
    supports = [[f"confusion_matrix/{i},{j}" for i in classes] for j in classes]
    true = matrices.sum(2)
    return ResampledImages("pixels", matrices, numbers, supports, true > 0, tables=[matrices], truths=true)
