"""Average precision and recall of ranked overlaps: torch on any device, float64 out.

Definition: docs/design/018-valor-detection.md. Detections of a label go by score descending, then by IoU descending,
then by what earlier detections left of their ground truth, so that the order of datums changes nothing. With ``k``
true positives among the first ``i`` detections and ``n`` ground truths, precision is ``k / i`` and recall ``k / n``; AP
is the mean, over the recalls r = 0, 0.01, ..., 1, of the largest precision at a recall of at least r, 0 where none is.

Sources: docs/metrics.md of Valor (Striveworks, 2024) for the definition; its engines compare recalls by
``math.isclose`` (relative 1e-9), valor-lite rounds ``100 * recall`` down instead.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.ops.overlaps.op import Overlaps, Ranked
from valor_gpu.reduce.overlap_counts import cells_of, count_cells, true_positives
from valor_gpu.reduce.ratios import quotient

ORDERS = ("valor", "lite")
"""Orders of detections with equal scores and rules of the recall grid, see :func:`average_precision`."""

_POINTS = 101
_UNIT = 2.0**56  # precisions in [1/8, 1] are whole multiples of 2 ** -56, and 101 of them fit into 63 bits


class _Ordered(NamedTuple):
    """Detections by cell and rank, those of cells without ground truths left out.

    Attributes:
        cells: int64 ``[N]``, ascending.
        scores: float64 ``[N]``.
        ranked: their ``ious`` and ``before``.
        starts: int64, the first row of each cell.
        runs: int64, the number of each cell that has rows, without gaps.
        positives: int64, the ground truths of each cell.
    """

    cells: Tensor
    scores: Tensor
    ranked: Ranked
    starts: Tensor
    runs: Tensor
    positives: Tensor


class _Steps(NamedTuple):
    """True positives at an IoU threshold, by cell and rank.

    Attributes:
        cells: int64 ``[K]``, ascending.
        precisions: float64 ``[K]``, the largest one at this or a later true positive of the cell.
        scores: float64 ``[K]``.
        first: int64 ``[K]``, the first recall of the grid that this true positive reaches and none before did.
        points: int64 ``[K]``, how many recalls of the grid those are.
    """

    cells: Tensor
    precisions: Tensor
    scores: Tensor
    first: Tensor
    points: Tensor


def average_precision(
    ranked: Ranked,
    overlaps: Overlaps,
    classes: Tensor,
    thresholds: Tensor,
    *,
    groups: Tensor | None = None,
    num_groups: int = 1,
    order: str = "valor",
) -> Tensor:
    """Computes the average precision of each group, class and IoU threshold.

    The same on every device to the last bit, and for a group the same as for its datums alone.

    Args:
        ranked: what ``rank_overlaps`` gave for ``overlaps``.
        overlaps: the rows and pairs.
        classes: int64 ``[C]`` labels, ascending, each once.
        thresholds: float64 ``[T]``, IoUs above 0.
        groups: int64 ``[I]``, the group of each datum, negative for none; None for one group of all.
        num_groups: number of groups.
        order: ``valor``, as above; ``lite``: of equal scores, a detection without a ground truth of its label goes by
            its largest IoU with another one, and a recall reaches the r up to ``floor(100 * recall) / 100``.

    Returns:
        float64 ``[num_groups, C, T]``, NaN for a class without ground truths.

    Raises:
        InputError: ``order`` is unknown or ``groups`` does not fit.

    Example:
        >>> from valor_gpu.ops.overlaps.op import rank_overlaps
        >>> overlaps = Overlaps(torch.tensor([[2], [1]]), torch.tensor([7, 7]), torch.tensor([0.9, 0.8]).double(),
        ...                     torch.tensor([7]), torch.tensor([0, 1]), torch.tensor([0]),
        ...                     torch.tensor([0.75]).double())
        >>> thresholds = torch.tensor([0.5, 0.8]).double()
        >>> average_precision(rank_overlaps(overlaps), overlaps, torch.tensor([7]), thresholds).tolist()
        [[[0.5, 0.0]]]
    """
    check_choice("order", order, ORDERS)
    cells, number = cells_of(overlaps, classes, groups, num_groups), num_groups * len(classes)
    positives = count_cells(cells.ground_truths, number)
    ordered = _in_order(ranked, overlaps.scores, cells.detections, positives, order)
    sums = positives.new_zeros((number, len(thresholds)))
    for place, threshold in enumerate(thresholds.unbind()):
        steps = _steps(ordered, threshold, order)
        # Whole numbers add up to the same sum in any order.
        sums[:, place].index_add_(0, steps.cells, (steps.precisions * _UNIT).round().long() * steps.points)
    means = quotient(sums.double(), _POINTS * _UNIT)
    return torch.where(positives[:, None] > 0, means, torch.nan).view(num_groups, len(classes), len(thresholds))


def curve_101(
    ranked: Ranked, overlaps: Overlaps, classes: Tensor, thresholds: Tensor, *, order: str = "valor"
) -> tuple[Tensor, Tensor]:
    """Computes the curves whose mean is the average precision, and their scores.

    Args:
        ranked: what ``rank_overlaps`` gave for ``overlaps``.
        overlaps: the rows and pairs.
        classes: int64 ``[C]`` labels, ascending, each once.
        thresholds: float64 ``[T]``, IoUs above 0.
        order: see :func:`average_precision`.

    Returns:
        For the recalls 0, 0.01, ..., 1, float64 ``[C, T, 101]`` each: the largest precision at such a recall or more,
        NaN for a class without ground truths; and the highest score from which on that recall is reached, for recall 0
        the largest score of the class, 0 if that is less. Both are 0 at recalls that are not reached.

    Raises:
        InputError: ``order`` is unknown.

    Example:
        >>> from valor_gpu.ops.overlaps.op import rank_overlaps
        >>> overlaps = Overlaps(torch.tensor([[1], [2]]), torch.tensor([7]), torch.tensor([0.5]).double(),
        ...                     torch.tensor([7, 7]), torch.tensor([1]), torch.tensor([0]),
        ...                     torch.tensor([0.75]).double())
        >>> grid = torch.tensor([7]), torch.tensor([0.5]).double()
        >>> precisions, scores = curve_101(rank_overlaps(overlaps), overlaps, *grid)
        >>> precisions[0, 0, [0, 50, 51]].tolist(), scores[0, 0, [0, 50, 51]].tolist()
        ([1.0, 1.0, 0.0], [0.5, 0.5, 0.0])
    """
    check_choice("order", order, ORDERS)
    cells, number = cells_of(overlaps, classes, None, 1), len(classes)
    positives = count_cells(cells.ground_truths, number)
    ordered = _in_order(ranked, overlaps.scores, cells.detections, positives, order)
    precisions, scores = overlaps.ious.new_zeros((2, number, len(thresholds), _POINTS))
    for place, threshold in enumerate(thresholds.unbind()):
        steps = _steps(ordered, threshold, order)
        total = int(steps.points.sum())
        rows = torch.arange(len(steps.cells), device=positives.device)
        rows = rows.repeat_interleave(steps.points, output_size=total)
        before = steps.points.cumsum(0) - steps.points
        points = torch.arange(total, device=positives.device) - before[rows] + steps.first[rows]
        precisions[steps.cells[rows], place, points] = steps.precisions[rows]
        scores[steps.cells[rows], place, points] = steps.scores[rows]
    highest = scores.new_zeros(number + 1).scatter_reduce_(0, cells.detections, overlaps.scores, "amax")
    scores[:, :, 0] = highest[:number, None]
    return torch.where(positives[:, None, None] > 0, precisions, torch.nan), scores


def average_recall(
    ranked: Ranked,
    overlaps: Overlaps,
    classes: Tensor,
    thresholds: Tensor,
    scores: Tensor,
    *,
    groups: Tensor | None = None,
    num_groups: int = 1,
) -> Tensor:
    """Computes the recall of each group, class and least score, averaged over IoU thresholds.

    Args:
        ranked: what ``rank_overlaps`` gave for ``overlaps``.
        overlaps: the rows and pairs.
        classes: int64 ``[C]`` labels, ascending, each once.
        thresholds: float64 ``[T]``, IoUs above 0.
        scores: float64 ``[S]``, least scores of a detection.
        groups: int64 ``[I]``, the group of each datum, negative for none; None for one group of all.
        num_groups: number of groups.

    Returns:
        float64 ``[num_groups, C, S]``, NaN for a class without ground truths.

    Raises:
        InputError: ``groups`` does not fit.

    Example:
        >>> from valor_gpu.ops.overlaps.op import rank_overlaps
        >>> overlaps = Overlaps(torch.tensor([[1], [2]]), torch.tensor([7]), torch.tensor([0.5]).double(),
        ...                     torch.tensor([7, 7]), torch.tensor([1]), torch.tensor([0]),
        ...                     torch.tensor([0.75]).double())
        >>> grid = torch.tensor([7]), torch.tensor([0.5, 0.8]).double(), torch.tensor([0.0, 0.6]).double()
        >>> average_recall(rank_overlaps(overlaps), overlaps, *grid).tolist()
        [[[0.25, 0.0]]]
    """
    cells, number = cells_of(overlaps, classes, groups, num_groups), num_groups * len(classes)
    positives = count_cells(cells.ground_truths, number)
    hits = sum(true_positives(ranked, overlaps.scores, t).long() for t in thresholds.unbind())
    table = positives.new_zeros((number + 1, len(scores)))
    for place, least in enumerate(scores.unbind()):
        table[:, place].index_add_(0, cells.detections, hits * (overlaps.scores >= least))
    recall = table[:number].double() / (positives * len(thresholds)).double()[:, None]
    return recall.view(num_groups, len(classes), len(scores))


def _in_order(ranked: Ranked, scores: Tensor, cells: Tensor, positives: Tensor, order: str) -> _Ordered:
    """The detections of cells with ground truths, in the order of their curves."""
    counted = torch.cat((positives > 0, positives.new_zeros(1, dtype=torch.bool)))
    rows = counted[cells].nonzero()[:, 0]
    ious, before = ranked.ious, ranked.before
    if order == "lite":  # of equal keys, those without a ground truth go last
        ious, before = torch.where(ranked.best >= 0, ious, ranked.others), torch.where(ranked.best >= 0, before, 2.0)
    keys = (_ascending(before), ~_ascending(ious), ~_ascending(scores), cells)
    for key in keys:  # stable sorts, from the least key to the first
        rows = rows[torch.sort(key[rows], stable=True).indices]
    cells, none = cells[rows], rows[:0]
    sizes = count_cells(cells, len(positives))
    kept = Ranked(none, ranked.ious[rows], ranked.before[rows], none)
    return _Ordered(cells, scores[rows], kept, sizes.cumsum(0) - sizes, (sizes > 0).cumsum(0) - 1, positives)


def _ascending(values: Tensor) -> Tensor:
    """int64 in the order of float64 numbers of at least 0; integers sort several times faster.

    Those below 0 come first, in any order: scores that are no true positives and after which none come.
    """
    return (values + 0.0).view(torch.int64)  # -0.0 + 0.0 is 0.0


def _steps(ordered: _Ordered, threshold: Tensor, order: str) -> _Steps:
    """The true positives at a threshold, with the precision and the recalls of the grid that each stands for."""
    rows = true_positives(ordered.ranked, ordered.scores, threshold).nonzero()[:, 0]
    cells = ordered.cells[rows]
    runs, positives = ordered.runs[cells], ordered.positives[cells]
    true = torch.arange(1, len(rows) + 1, device=rows.device) - torch.searchsorted(runs, runs)
    ranks = rows - ordered.starts[cells] + 1
    precisions = _largest_to_come(true.double() / ranks.double(), runs)
    last = _grid_points(true.double() / positives.double(), order)
    first = torch.where(true > 1, _grid_points((true - 1).double() / positives.double(), order), 0)
    return _Steps(cells, precisions, ordered.scores[rows], first, last - first)


def _grid_points(recall: Tensor, order: str) -> Tensor:
    """int64: how many recalls of the grid 0, 0.01, ..., 1 a recall in (0, 1] reaches."""
    tolerance = 1 + 1e-9 if order == "valor" else 1.0
    return (recall * 100 * tolerance).floor().long() + 1


def _largest_to_come(precisions: Tensor, runs: Tensor) -> Tensor:
    """The largest of the precisions at this and later rows of the run.

    One running maximum over whole numbers serves all runs: the run stands above the precision in each, later runs being
    smaller. Below it a precision has ``bits`` bits; two fractions of up to ``2 ** (bits / 2)`` detections differ there.
    """
    if len(runs) == 0:
        return precisions
    number = int(runs[-1]) + 1
    bits = min(52, 61 - number.bit_length())
    keys = (number - 1 - runs) << (bits + 1)  # times a float would be of the default dtype, which may round
    whole = keys + (precisions * 2.0**bits).long()
    at = whole.flip(0).cummax(0).indices
    return precisions.flip(0)[at].flip(0)
