"""Counts of ranked overlaps at thresholds of IoU and score: torch on any device, exact.

Definition: docs/design/018-valor-detection.md. A *cell* is a label in a group of datums, ``group * C + class``; rows of
no class or group have cell ``num_groups * C``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.checks import check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops.overlaps.op import Overlaps, Ranked

TRUE_POSITIVE, HALLUCINATION, MISCLASSIFICATION, DUPLICATE = range(4)
"""Kinds of detections, see :func:`detection_kinds`."""


class OutcomeCounts(NamedTuple):
    """Detections and ground truths of each group, class, IoU threshold t and least score s, by what became of them.

    All are int64 ``[num_groups, C, T, S]`` but ``ground_truths``. ``fp = hallucinations + misclassifications +
    duplicates`` and ``fn = fn_misclassifications + no_predictions = ground_truths - tp``.

    Attributes:
        tp: detections with a score of at least s that are true positives at t.
        fp: detections with a score of at least s that are none.
        fn: ground truths without such a true positive.
        ground_truths: int64 ``[num_groups, C]``, all ground truths.
        hallucinations: false positives that overlap no ground truth by t or more, except one of their label that
            another detection took, unless these are counted as ``duplicates``.
        misclassifications: false positives that overlap a ground truth of another label by t or more.
        duplicates: of the other false positives, those that overlap one of their label by t or more; 0 if they are not
            asked for.
        fn_misclassifications: false negatives that a detection of another label with a score of at least s overlaps by
            t or more.
        no_predictions: the other false negatives.
    """

    tp: Tensor
    fp: Tensor
    fn: Tensor
    ground_truths: Tensor
    hallucinations: Tensor
    misclassifications: Tensor
    duplicates: Tensor
    fn_misclassifications: Tensor
    no_predictions: Tensor


class Cells(NamedTuple):
    """The cell of each detection, int64 ``[D]``, and of each ground truth, int64 ``[G]``."""

    detections: Tensor
    ground_truths: Tensor


def cells_of(overlaps: Overlaps, classes: Tensor, groups: Tensor | None, num_groups: int) -> Cells:
    """Finds the cells of the rows.

    Args:
        overlaps: the rows.
        classes: int64 ``[C]`` labels, ascending, each once.
        groups: int64 ``[I]``, the group of each datum, negative for none; None for one group of all.
        num_groups: number of groups.

    Raises:
        InputError: ``groups`` has another length than there are datums, or holds ``num_groups`` or more.
    """
    if groups is not None:
        check_shape("groups", groups, (overlaps.sizes.shape[1],))
        if len(groups) and int(groups.max()) >= num_groups:
            raise InputError(f"groups must be below num_groups={num_groups} but the largest is {int(groups.max())}")
    elif num_groups != 1:
        raise InputError(f"num_groups must be 1 where groups is None but got {num_groups}")
    sides = zip((overlaps.labels, overlaps.gt_labels), overlaps.sizes)
    return Cells(*(_row_cells(labels, sizes, classes, groups, num_groups) for labels, sizes in sides))


def _row_cells(labels: Tensor, sizes: Tensor, classes: Tensor, groups: Tensor | None, num_groups: int) -> Tensor:
    none = num_groups * len(classes)
    if none == 0:
        return torch.zeros_like(labels)
    places = torch.searchsorted(classes, labels).clamp_(max=len(classes) - 1)
    known = classes[places] == labels
    if groups is None:
        return torch.where(known, places, none)
    group = groups.repeat_interleave(sizes, output_size=len(labels))
    return torch.where(known & (group >= 0), group * len(classes) + places, none)


def count_cells(cells: Tensor, number: int) -> Tensor:
    """int64 ``[number]``, the rows of each cell, without those of none."""
    return torch.bincount(cells, minlength=number + 1)[:number]


def true_positives(ranked: Ranked, scores: Tensor, threshold: Tensor | float) -> Tensor:
    """Bool ``[D]``: the detections that find their ground truth at an IoU threshold above 0, whatever their score."""
    return (scores > 0) & (ranked.before < threshold) & (ranked.ious >= threshold)


def detection_kinds(ranked: Ranked, scores: Tensor, threshold: Tensor | float, duplicates: bool = False) -> Tensor:
    """Says of each detection what it is at an IoU threshold; no score threshold changes that.

    Args:
        ranked: the ranked detections.
        scores: float64 ``[D]``.
        threshold: above 0.
        duplicates: tell duplicates from hallucinations.

    Returns:
        int64 ``[D]``: ``TRUE_POSITIVE``; else ``MISCLASSIFICATION`` where a ground truth of another label overlaps by
        the threshold or more; else, if asked for, ``DUPLICATE`` where one of the label does; else ``HALLUCINATION``.

    Example:
        >>> ious = torch.tensor([0.9, 0.8], dtype=torch.float64)
        >>> ranked = Ranked(torch.tensor([0, 0]), ious, torch.tensor([0.0, 0.9]).double(), torch.zeros(2).double())
        >>> detection_kinds(ranked, torch.tensor([0.7, 0.6]), 0.5).tolist()
        [0, 1]
    """
    kinds = torch.where(ranked.others >= threshold, MISCLASSIFICATION, HALLUCINATION)
    if duplicates:
        kinds = torch.where((kinds == HALLUCINATION) & (ranked.ious >= threshold), DUPLICATE, kinds)
    return torch.where(true_positives(ranked, scores, threshold), TRUE_POSITIVE, kinds)


def found_scores(ranked: Ranked, overlaps: Overlaps, threshold: Tensor | float) -> Tensor:
    """float64 ``[G]``, the score of the true positive of each ground truth; -inf where there is none."""
    rows = true_positives(ranked, overlaps.scores, threshold).nonzero()[:, 0]
    found = _no_scores(overlaps)
    found[ranked.best[rows]] = overlaps.scores[rows]  # a ground truth has one true positive at most
    return found


def confused_scores(overlaps: Overlaps, threshold: Tensor | float) -> Tensor:
    """float64 ``[G]``, the largest score of a detection of another label that overlaps each ground truth enough."""
    return _largest_of_pairs(overlaps, *_confused_pairs(overlaps), threshold)


def largest_scores(overlaps: Overlaps, pairs: Tensor) -> Tensor:
    """float64 ``[G]``, the largest score of the detections of some pairs, bool ``[P]``, by ground truth; else -inf."""
    return _largest(overlaps, overlaps.ground_truths[pairs], overlaps.detections()[pairs])


def same_labels(overlaps: Overlaps) -> Tensor:
    """Bool ``[P]``, whether the two labels of each pair are one."""
    return overlaps.labels[overlaps.detections()] == overlaps.gt_labels[overlaps.ground_truths]


def _confused_pairs(overlaps: Overlaps) -> tuple[Tensor, Tensor]:
    """The pairs whose labels differ, and their detections."""
    pairs = (~same_labels(overlaps)).nonzero()[:, 0]
    return pairs, overlaps.detections()[pairs]


def _largest_of_pairs(overlaps: Overlaps, pairs: Tensor, rows: Tensor, threshold: Tensor | float) -> Tensor:
    reach = (overlaps.ious[pairs] >= threshold).nonzero()[:, 0]
    return _largest(overlaps, overlaps.ground_truths[pairs[reach]], rows[reach])


def _largest(overlaps: Overlaps, ground_truths: Tensor, detections: Tensor) -> Tensor:
    return _no_scores(overlaps).scatter_reduce_(0, ground_truths, overlaps.scores[detections], "amax")


def _no_scores(overlaps: Overlaps) -> Tensor:
    return overlaps.scores.new_full((len(overlaps.gt_labels),), -math.inf)


class Levels(NamedTuple):
    """Score thresholds ascending, and where each of them was given."""

    values: Tensor
    order: Tensor

    def of(self, scores: Tensor) -> Tensor:
        """int64: how many of the thresholds each score reaches."""
        return torch.searchsorted(self.values, scores, right=True)

    def qualified(self, cells: Tensor, levels: Tensor, number: int) -> Tensor:
        """int64 ``[number, S]``: rows of each cell that reach each threshold, in the order given."""
        size = len(self.values) + 1
        table = torch.bincount(cells * size + levels, minlength=(number + 1) * size)
        return self.as_given(table.view(-1, size)[:number, 1:].flip(1).cumsum(1).flip(1))

    def as_given(self, table: Tensor) -> Tensor:
        """``[..., S]`` from ascending thresholds to the order given."""
        return torch.empty_like(table).index_copy_(-1, self.order, table)


def count_outcomes(
    ranked: Ranked,
    overlaps: Overlaps,
    classes: Tensor,
    thresholds: Tensor,
    scores: Tensor,
    *,
    groups: Tensor | None = None,
    num_groups: int = 1,
    duplicates: bool = False,
) -> OutcomeCounts:
    """Counts detections and ground truths by what became of them, at every IoU threshold and least score.

    Memory beside the result is a few columns of the detections, whatever the number of thresholds.

    Args:
        ranked: what ``rank_overlaps`` gave for ``overlaps``.
        overlaps: the rows and pairs.
        classes: int64 ``[C]`` labels, ascending, each once; rows of others are counted nowhere, though detections of
            others may be what a ground truth was confused with.
        thresholds: float64 ``[T]``, IoUs above 0.
        scores: float64 ``[S]``, least scores, in any order.
        groups: int64 ``[I]``, the group of each datum, negative for none; None for one group of all.
        num_groups: number of groups.
        duplicates: count duplicates apart from hallucinations.

    Raises:
        InputError: ``groups`` does not fit.

    Example:
        >>> from valor_gpu.ops.overlaps.op import rank_overlaps
        >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 7]), torch.tensor([0.9, 0.8]).double(),
        ...                     torch.tensor([7]), torch.tensor([1, 1]), torch.tensor([0, 0]),
        ...                     torch.tensor([0.75, 0.75]).double())
        >>> grid = torch.tensor([0.5]).double(), torch.tensor([0.0, 0.85]).double()
        >>> counts = count_outcomes(rank_overlaps(overlaps), overlaps, torch.tensor([7]), *grid, duplicates=True)
        >>> counts.tp.tolist(), counts.duplicates.tolist()
        ([[[[1, 1]]]], [[[[1, 0]]]])
    """
    cells, number = cells_of(overlaps, classes, groups, num_groups), num_groups * len(classes)
    levels = Levels(*scores.sort())
    reached = levels.of(overlaps.scores)
    pairs = _confused_pairs(overlaps)
    tables = []
    for threshold in thresholds.unbind():
        kinds = detection_kinds(ranked, overlaps.scores, threshold, duplicates)
        by_kind = levels.qualified(cells.detections + kinds * (number + 1), reached, 4 * (number + 1))
        found = levels.of(found_scores(ranked, overlaps, threshold))
        confused = levels.of(_largest_of_pairs(overlaps, *pairs, threshold))
        missed = count_between(cells.ground_truths, found, confused, number, levels)
        tables.append(torch.cat((by_kind.view(4, number + 1, -1)[:, :number], missed[None])))
    shape = (5, num_groups, len(classes), len(thresholds), len(scores))
    stacked = torch.stack(tables, 2) if tables else reached.new_zeros((5, number, *shape[3:]))
    tp, hallucinations, misclassified, repeated, confused = stacked.view(shape).unbind()
    ground_truths = count_cells(cells.ground_truths, number).view(shape[1:3])
    fn = ground_truths[..., None, None] - tp
    fp = hallucinations + misclassified + repeated
    return OutcomeCounts(
        tp, fp, fn, ground_truths, hallucinations, misclassified, repeated, confused, fn - confused
    )  # fmt: skip


def count_between(cells: Tensor, low: Tensor, high: Tensor, number: int, levels: Levels) -> Tensor:
    """int64 ``[number, S]``: rows of each cell whose ``high`` reaches a threshold and whose ``low`` does not.

    Args:
        cells: int64 ``[N]``, of each row.
        low: int64 ``[N]``, how many thresholds are reached, of :meth:`Levels.of`; likewise ``high``.
        high: as above.
        number: how many cells there are.
        levels: the thresholds.
    """
    rows = (high > low).nonzero()[:, 0]
    return levels.qualified(cells[rows], high[rows], number) - levels.qualified(cells[rows], low[rows], number)
