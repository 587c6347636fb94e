"""Pairs of a detection and a ground truth that overlap, ranked and paired off by the rules of Valor.

Definition in plain torch: ``valor_gpu/ops/overlaps/reference.py``. Design: docs/design/018-valor-detection.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu._frozen import frozen
from valor_gpu.checks import (
    check_choice,
    check_dense,
    check_dtype,
    check_number,
    check_same_device,
    check_shape,
    check_type,
)
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import register
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import raise_error
from valor_gpu.ops.overlaps import reference, run
from valor_gpu.ops.overlaps.run import COLUMNS, describe

MATCHINGS = ("valor", "doc")
"""Rules by which a detection gets its ground truth, see :func:`rank_overlaps`."""


@frozen
class Overlaps:
    """Detections and ground truths of datums, and the pairs of them that overlap; all tensors on one device.

    Rows of a datum follow one another, datum after datum. The pairs of a detection follow one another, detection
    after detection, by IoU descending, of equal ones the later ground truth first.

    Attributes:
        sizes: int64 ``[2, I]``, detections and ground truths of each datum.
        labels: int64 ``[D]``; likewise ``gt_labels`` ``[G]``.
        scores: float64 ``[D]``, none NaN.
        counts: int64 ``[D]``, pairs of each detection.
        ground_truths: int64 ``[P]``, the ground truth of each pair, a row of ``gt_labels``.
        ious: float64 ``[P]``, above 0 and at most 1 but for rounding.
    """

    sizes: Tensor
    labels: Tensor
    scores: Tensor
    gt_labels: Tensor
    counts: Tensor
    ground_truths: Tensor
    ious: Tensor

    def columns(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        """All columns, in the order of the fields."""
        return (
            self.sizes, self.labels, self.scores, self.gt_labels, self.counts, self.ground_truths, self.ious,
        )  # fmt: skip

    def detections(self) -> Tensor:
        """int64 ``[P]``, the detection of each pair, a row of ``labels``."""
        rows = torch.arange(len(self.labels), device=self.labels.device)
        return rows.repeat_interleave(self.counts, output_size=len(self.ious))

    def datums(self) -> tuple[Tensor, Tensor]:
        """The datum of each detection and of each ground truth, int64 ``[D]`` and ``[G]``."""
        rows = torch.arange(self.sizes.shape[1], device=self.sizes.device)
        return (
            rows.repeat_interleave(self.sizes[0], output_size=len(self.labels)),
            rows.repeat_interleave(self.sizes[1], output_size=len(self.gt_labels)),
        )

    def take(
        self, detections: Tensor | None = None, ground_truths: Tensor | None = None, datums: Tensor | None = None
    ) -> Overlaps:
        """The rows that masks keep, and the pairs whose two ends are kept, in the same order.

        Args:
            detections: bool ``[D]``; None keeps all. Masks lie on the device of the columns.
            ground_truths: likewise, bool ``[G]``.
            datums: likewise, bool ``[I]``; a datum that is not kept goes with its rows, one without rows stays.

        Raises:
            InputError: a mask of another length, dtype or device.

        Example:
            >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 7]), torch.tensor([0.9, 0.8]),
            ...                     torch.tensor([7]), torch.tensor([1, 1]), torch.tensor([0, 0]),
            ...                     torch.tensor([0.6, 0.8], dtype=torch.float64))
            >>> overlaps.take(overlaps.scores < 0.85).ious.tolist()
            [0.8]
        """
        images, gt_images = self.datums()
        images_kept = _mask("datums", datums, self.sizes.shape[1], self.sizes)
        kept = _mask("detections", detections, len(self.labels), self.labels) & images_kept[images]
        gt_kept = _mask("ground_truths", ground_truths, len(self.gt_labels), self.labels) & images_kept[gt_images]
        rows, pairs = self.detections(), gt_kept[self.ground_truths]
        pairs &= kept[rows]
        sizes = torch.zeros_like(self.sizes)
        sizes[0].index_add_(0, images, kept.long())
        sizes[1].index_add_(0, gt_images, gt_kept.long())
        counts = torch.zeros_like(self.counts).index_add_(0, rows, pairs.to(self.counts.dtype))
        return Overlaps(
            sizes[:, images_kept], self.labels[kept], self.scores[kept], self.gt_labels[gt_kept], counts[kept],
            (gt_kept.cumsum(0) - 1)[self.ground_truths[pairs]], self.ious[pairs],
        )  # fmt: skip


def _mask(name: str, mask: Tensor | None, count: int, like: Tensor) -> Tensor:
    """``mask``, or one that keeps everything."""
    if mask is None:
        return torch.ones(count, dtype=torch.bool, device=like.device)
    check_shape(name, mask, (count,))
    check_dtype(name, mask, (torch.bool,))
    check_same_device(("overlaps", name), (like, mask))
    return mask


class Ranked(NamedTuple):
    """What :func:`rank_overlaps` finds for each detection.

    Attributes:
        best: int64 ``[D]``, its ground truth, a row of ``gt_labels``; -1 for none.
        ious: float64 ``[D]``, the IoU with it; 0 for none.
        before: float64 ``[D]``, the largest IoU of the earlier detections of positive score with that ground truth; 0
            for none. The detection is a true positive at t where its score is positive and ``before < t <= iou``.
        others: float64 ``[D]``, the largest IoU with a ground truth of another label; 0 for none.
    """

    best: Tensor
    ious: Tensor
    before: Tensor
    others: Tensor


def rank_overlaps(overlaps: Overlaps, matching: str = "valor", error: Tensor | None = None) -> Ranked:
    """Gives every detection its ground truth, and says what the detections before it left of that one.

    Detections of a datum and label go by score descending, then by IoU descending, then as they came.

    Args:
        overlaps: the pairs.
        matching: ``valor``: the ground truth of the label with the largest IoU, of equal ones the earlier; it stays
            available to others, and there is no second choice. ``doc``: by score descending, then as they came, a
            detection takes the best of the free ground truths of the label, whatever the IoU, and ``before`` is 0.
        error: int64 ``[]`` on the device of CUDA tensors, an error code, lowered to the one that is found; what is
            returned means nothing where there is one. None raises it, which on CUDA synchronises with the device.

    Raises:
        InputError: columns of other shapes, dtypes or devices; sizes or counts that do not add up, a NaN score, a pair
            with a ground truth of another datum, or an IoU that is not above 0 and at most 1.

    Example:
        >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 7]), torch.tensor([0.9, 0.8]),
        ...                     torch.tensor([7]), torch.tensor([1, 1]), torch.tensor([0, 0]),
        ...                     torch.tensor([0.6, 0.8], dtype=torch.float64))
        >>> rank_overlaps(overlaps).before.tolist()  # the second one finds the object at thresholds above 0.6
        [0.0, 0.6]
    """
    check_choice("matching", matching, MATCHINGS)
    columns = _checked(overlaps)
    *ranked, found = _RANK(*columns, matching == "doc")
    _settle(found, error, columns)
    return Ranked(*ranked)


def confuse_overlaps(
    overlaps: Overlaps, thresholds: Sequence[float], dissolve: bool = False, error: Tensor | None = None
) -> Tensor:
    """Pairs detections off with ground truths of any label, for a confusion matrix.

    Pairs of a datum that reach the threshold go by score descending, IoU descending, then as their ground truths and
    detections came; a pair is taken where both are free. With a higher least score the taken pairs are a prefix of
    these, so that one table serves every score.

    Args:
        overlaps: the pairs.
        thresholds: T numbers, above 0 and at most 1.
        dissolve: take pairs of any IoU and let go of those below the threshold afterwards, as valor-lite does.
        error: an error code, see :func:`rank_overlaps`.

    Returns:
        int64 ``[T, D]``, the ground truth of each detection, a row of ``gt_labels``; -1 for none.

    Raises:
        InputError: a threshold that is not above 0 and at most 1, or what :func:`rank_overlaps` raises.

    Example:
        >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 8]), torch.tensor([0.9, 0.8]),
        ...                     torch.tensor([7]), torch.tensor([1, 1]), torch.tensor([0, 0]),
        ...                     torch.tensor([0.6, 0.8], dtype=torch.float64))
        >>> confuse_overlaps(overlaps, [0.5, 0.75]).tolist()
        [[0, -1], [-1, 0]]
    """
    for threshold in thresholds:
        check_number("thresholds", threshold, math.ulp(0.0), 1.0)
    columns = _checked(overlaps)
    partners, found = _CONFUSE(*columns, torch.tensor([*map(float, thresholds)], dtype=torch.float64), dissolve)
    _settle(found, error, columns)
    return partners  # type: ignore[no-any-return]


_INDEX_TYPES = [dtype for dtype in INT_TYPES if dtype != torch.bool]


def _checked(overlaps: Overlaps) -> tuple[Tensor, ...]:
    """The columns as int64 and float64; raises where shapes, dtypes or devices do not fit."""
    check_type("overlaps", overlaps, Overlaps)
    columns = overlaps.columns()
    for name, column in zip(COLUMNS, columns):
        check_type(name, column, Tensor)
        check_dense(name, column)
        check_dtype(name, column, FLOAT_TYPES if name in ("scores", "ious") else _INDEX_TYPES)
    sizes, labels, scores, gt_labels, counts, ground_truths, ious = columns
    check_shape("sizes", sizes, (2, None))
    for name, column in (("labels", labels), ("gt_labels", gt_labels), ("ious", ious)):
        check_shape(name, column, (None,))
    for name, column, like in (
        ("scores", scores, labels), ("counts", counts, labels), ("ground_truths", ground_truths, ious)
    ):  # fmt: skip
        check_shape(name, column, (len(like),))
    check_same_device(COLUMNS, columns)
    return tuple(column.to(torch.float64 if column.is_floating_point() else torch.int64) for column in columns)


def _settle(found: Tensor, error: Tensor | None, columns: tuple[Tensor, ...]) -> None:
    """Raises the error that an op has found, or lowers ``error`` to it on CUDA."""
    if error is not None and found.is_cuda:
        error.copy_(torch.minimum(error, found))
    else:
        raise_error(found, lambda code: describe(code, columns))


_ARGUMENTS = ", ".join(f"Tensor {name}" for name in COLUMNS)

_RANK = register(
    f"rank_overlaps({_ARGUMENTS}, bool document) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    reference=reference.rank_overlaps,
    fake=run.rank_fake,
    cpu=cpp(run.rank_on_cpu),
    cuda=cuda(run.rank_on_cuda),
)

_CONFUSE = register(
    f"confuse_overlaps({_ARGUMENTS}, Tensor thresholds, bool dissolve) -> (Tensor, Tensor)",
    reference=reference.confuse_overlaps,
    fake=run.confuse_fake,
    cpu=cpp(run.confuse_on_cpu),
    cuda=cuda(run.confuse_on_cuda),
)
