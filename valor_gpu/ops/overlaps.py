"""Pairs of a detection and a ground truth that overlap, ranked and paired off by the rules of Valor.

Definition in plain torch: ``valor_gpu/ops/_overlaps_reference.py``. Design: docs/design/018-valor-detection.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu._frozen import frozen
from valor_gpu.checks import check_choice
from valor_gpu.ops import _overlaps_reference as reference

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
        scores: float64 ``[D]``, finite.
        counts: int64 ``[D]``, pairs of each detection.
        ground_truths: int64 ``[P]``, the ground truth of each pair, a row of ``gt_labels``.
        ious: float64 ``[P]``, above 0 and at most 1.
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


def rank_overlaps(overlaps: Overlaps, matching: str = "valor") -> Ranked:
    """Gives every detection its ground truth, and says what the detections before it left of that one.

    Detections of a datum and label go by score descending, then by IoU descending, then as they came.

    Args:
        overlaps: the pairs.
        matching: ``valor``: the ground truth of the label with the largest IoU, of equal ones the earlier; it stays
            available to others, and there is no second choice. ``doc``: by score descending, then as they came, a
            detection takes the best of the free ground truths of the label, whatever the IoU, and ``before`` is 0.

    Example:
        >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 7]), torch.tensor([0.9, 0.8]),
        ...                     torch.tensor([7]), torch.tensor([1, 1]), torch.tensor([0, 0]),
        ...                     torch.tensor([0.6, 0.8], dtype=torch.float64))
        >>> rank_overlaps(overlaps).before.tolist()  # the second one finds the object at thresholds above 0.6
        [0.0, 0.6]
    """
    check_choice("matching", matching, MATCHINGS)
    return Ranked(*reference.rank_overlaps(*overlaps.columns(), matching == "doc"))


def confuse_overlaps(overlaps: Overlaps, thresholds: Sequence[float], dissolve: bool = False) -> Tensor:
    """Pairs detections off with ground truths of any label, for a confusion matrix.

    Pairs of a datum that reach the threshold go by score descending, IoU descending, then as their ground truths and
    detections came; a pair is taken where both are free. With a higher least score the taken pairs are a prefix of
    these, so that one table serves every score.

    Args:
        overlaps: the pairs.
        thresholds: T numbers, above 0 and at most 1.
        dissolve: take pairs of any IoU and let go of those below the threshold afterwards, as valor-lite does.

    Returns:
        int64 ``[T, D]``, the ground truth of each detection, a row of ``gt_labels``; -1 for none.
    """
    return reference.confuse_overlaps(*overlaps.columns(), list(map(float, thresholds)), dissolve)
