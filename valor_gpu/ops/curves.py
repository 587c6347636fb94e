"""From detection records to COCO's precision, recall and scores arrays.

Definition: pycocotools ``COCOeval.accumulate`` (Dollar and Lin, 2015). Row layouts:
docs/design/001-detection-records.md.
"""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.ops import _accumulate_cpu, _curves_cuda
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import by_reference, register
from valor_gpu.ops.accumulate_types import TIE_ORDERS, Curves, Ordered, RecordShape
from valor_gpu.ops.dtypes import to_device

_SPACING = 2.220446049250313e-16  # numpy.spacing(1)


def order_records(
    detections: Tensor, starts: Tensor, lengths: Tensor, labels: Tensor, limits: int, agnostic: bool = False
) -> Ordered:
    """Order records by (class, score descending, place of the image, index in the image).

    Args:
        detections: uint8 rows.
        starts: int64 ``[I]`` on the CPU: first row of each image, images in the order that breaks ties.
        lengths: int64 ``[I]`` on the CPU: rows of each image.
        labels: int64 ``[K]`` ascending labels wanted, on the device of ``detections``; other rows are left out.
        limits: M; rows beyond every max-detection limit and padding rows are left out.
        agnostic: every row belongs to the one class of ``labels``.

    Raises:
        InputError: an image has rows that are not in ``detections``.
    """
    _accumulate_cpu.check_rows_of_images(len(detections), starts, lengths)
    return Ordered(*_ORDER(detections, starts, lengths, labels, limits, agnostic))


def precision_recall(
    detections: Tensor,
    ordered: Ordered,
    positives: Tensor,
    recall_thresholds: Tensor,
    shape: RecordShape,
    full: bool = False,
    ties: str = "given",
) -> Curves:
    """Precision at recall samples, and final recall, of every class, lane and max-detection limit.

    A sample of precision is the largest precision at any recall at or above the sample; recall samples are found by
    the float64 comparisons of ``numpy.searchsorted``. After the first sample that is not reached all are 0.

    Args:
        detections: uint8 rows.
        ordered: what :func:`order_records` gave.
        positives: int64 ``[K, A]`` ground truths that count.
        recall_thresholds: float64 ``[R]`` on the CPU, any order.
        shape: T, A and M of the rows.
        full: all M limits and the scores, not the last limit alone.
        ties: order of tied scores: as ``given``, or the one of ``highest`` or ``lowest`` precision in each lane.
    """
    check_choice("ties", ties, TIE_ORDERS)
    sizes = [shape.thresholds, shape.areas, shape.limits]
    order, offsets = ordered
    return Curves(
        *_CURVES(detections, order, offsets, positives, recall_thresholds, sizes, full, TIE_ORDERS.index(ties))
    )


def count_truths(truths: Tensor, labels: Tensor, areas: int, agnostic: bool = False) -> Tensor:
    """Ground truths that count, int64 ``[K, A]``.

    Args:
        truths: uint8 rows ``[G, 4 + ceil((A + 2) / 8)]``.
        labels: int64 ``[K]`` ascending labels wanted.
        areas: A.
        agnostic: every row belongs to the one class of ``labels``.
    """
    counts: Tensor = _COUNT(truths, labels, areas, agnostic)
    return counts


def record_labels(rows: Tensor) -> Tensor:
    """int64 ``[N]`` labels of truth rows, whose first four bytes they are."""
    return rows[:, :4].clone(memory_format=torch.contiguous_format).view(torch.int32).reshape(-1).long()


def record_scores(rows: Tensor) -> Tensor:
    """float64 ``[N]`` scores of detection rows."""
    return rows[:, :8].clone(memory_format=torch.contiguous_format).view(torch.float64).reshape(-1)


def detection_labels(rows: Tensor) -> Tensor:
    """int64 ``[N]`` labels of detection rows."""
    return record_labels(rows[:, 8:12])


def lane_bits(rows: Tensor, lane: int, field: int, lanes: int) -> Tensor:
    """Bool ``[N]``: bit of ``lane`` in field 0 (matched) or 1 (ignored) of detection rows."""
    column = 13 + field * ((lanes + 7) // 8) + lane // 8
    return (rows[:, column] >> lane % 8 & 1).bool()


def _count_reference(truths: Tensor, labels: Tensor, areas: int, agnostic: bool) -> Tensor:
    bits = torch.stack([truths[:, 4 + a // 8] >> a % 8 & 1 for a in range(areas)], 1)
    out = torch.zeros((len(labels) + 1, areas), dtype=torch.int64, device=truths.device)
    if len(labels):
        names = labels[:1].repeat(len(truths)) if agnostic else record_labels(truths)
        at = torch.searchsorted(labels, names).clamp(max=len(labels) - 1)
        out.index_add_(0, torch.where(labels[at] == names, at, len(labels)), bits.long())
    return out[:-1]


def _order_reference(
    detections: Tensor, starts: Tensor, lengths: Tensor, labels: Tensor, limits: int, agnostic: bool
) -> Ordered:
    device, total = detections.device, int(lengths.sum())
    before = lengths.cumsum(0) - lengths
    shift, repeats = to_device(torch.stack((starts - before, lengths)), device)
    shift = torch.repeat_interleave(shift, repeats, output_size=total)
    rows = torch.arange(total, device=device) + shift
    records = detections[rows, :13]
    names = torch.zeros_like(rows) if agnostic else detection_labels(records)
    classes = torch.zeros_like(rows)
    kept = records[:, 12] < limits
    if not agnostic and len(labels):
        classes = torch.searchsorted(labels, names).clamp(max=len(labels) - 1)
        kept = kept & (labels[classes] == names)
    classes = torch.where(kept & bool(len(labels)), classes, len(labels))
    scores = record_scores(records)
    keys = torch.where(scores.isnan(), torch.nan, 0.0 - scores)  # a NaN with its sign bit set may sort first on CUDA
    by_score = torch.sort(keys, stable=True).indices
    by_class = torch.sort(classes[by_score], stable=True)
    offsets = torch.searchsorted(by_class.values, torch.arange(len(labels) + 1, device=device))
    return Ordered(rows[by_score[by_class.indices]][: int(offsets[-1])], offsets)


def _reorder_ties(scores: Tensor, true: Tensor, ties: int) -> Tensor:
    """Positions with the true positives of each run of tied scores first (1) or last (2)."""
    group = torch.cat((scores.new_zeros(1), (scores[1:] != scores[:-1]).double().cumsum(0)))[: len(scores)]
    late = ~true if ties == 1 else true
    return torch.sort(group * 2 + late, stable=True).indices


def _one_curve(
    true: Tensor, false: Tensor, scores: Tensor, positives: int, grid: Tensor
) -> tuple[Tensor, float, Tensor]:
    """Precision samples, final recall and score samples of one class, lane and limit."""
    samples, sample_scores = torch.zeros_like(grid), torch.zeros_like(grid)
    if len(true) == 0:
        return samples, 0.0, sample_scores
    tp, fp = true.cumsum(0).double(), false.cumsum(0).double()
    recall, precision = tp / positives, tp / (fp + tp + _SPACING)
    envelope = precision.flip(0).cummax(0).values.flip(0)
    at = torch.searchsorted(recall, grid)
    missed = (at == len(true)).nonzero()
    stop = int(missed[0]) if len(missed) else len(grid)
    samples[:stop], sample_scores[:stop] = envelope[at[:stop]], scores[at[:stop]]
    return samples, float(recall[-1]), sample_scores


def _empty_curves(detections: Tensor, positives: Tensor, recalls: int, sizes: list[int], full: bool) -> Curves:
    thresholds, areas, limits = sizes
    shape = (thresholds, recalls, positives.shape[0], areas, limits if full else 1)

    def absent(shape: tuple[int, ...]) -> Tensor:
        return torch.full(shape, -1.0, dtype=torch.float64, device=detections.device)

    return Curves(absent(shape), absent((thresholds, shape[2], areas, limits)), absent(shape if full else (0,)))


def _curves_reference(
    detections: Tensor, order: Tensor, offsets: Tensor, positives: Tensor, recall_thresholds: Tensor,
    sizes: list[int], full: bool, ties: int,
) -> Curves:  # fmt: skip
    thresholds, areas, limits = sizes
    grid = recall_thresholds.to(detections.device)
    out = _empty_curves(detections, positives, len(grid), sizes, full)
    ends = offsets.tolist()
    for k, counts in enumerate(positives.tolist()):
        rows = detections[order[ends[k] : ends[k + 1]]]
        for a, t, m in ((a, t, m) for a in range(areas) for t in range(thresholds) for m in range(limits) if counts[a]):
            kept = rows[rows[:, 12] <= m]
            lane = a * thresholds + t
            matched, ignored = (lane_bits(kept, lane, field, thresholds * areas) for field in (0, 1))
            scores = record_scores(kept)
            if ties:
                again = _reorder_ties(scores, matched & ~ignored, ties)
                matched, ignored, scores = matched[again], ignored[again], scores[again]
            samples, recall, at = _one_curve(matched & ~ignored, ~matched & ~ignored, scores, counts[a], grid)
            out.recall[t, k, a, m] = recall
            if full:
                out.precision[t, :, k, a, m], out.scores[t, :, k, a, m] = samples, at
            elif m == limits - 1:
                out.precision[t, :, k, a, 0] = samples
    return out


def _order_cpu(
    detections: Tensor, starts: Tensor, lengths: Tensor, labels: Tensor, limits: int, agnostic: bool
) -> Ordered:
    found = _accumulate_cpu.order_records(
        detections.numpy(), starts.numpy(), lengths.numpy(), labels.numpy(), limits, agnostic, torch.get_num_threads()
    )
    return Ordered(*map(torch.from_numpy, found))


def _curves_cpu(
    detections: Tensor, order: Tensor, offsets: Tensor, positives: Tensor, recall_thresholds: Tensor,
    sizes: list[int], full: bool, ties: int,
) -> Curves:  # fmt: skip
    found = _accumulate_cpu.precision_recall(
        detections.numpy(), Ordered(order.numpy(), offsets.numpy()), positives.numpy(), recall_thresholds.numpy(),
        RecordShape(*sizes), full, TIE_ORDERS[ties], torch.get_num_threads(),
    )  # fmt: skip
    return Curves(*map(torch.from_numpy, found))


def _count_cpu(truths: Tensor, labels: Tensor, areas: int, agnostic: bool) -> Tensor:
    return torch.from_numpy(_accumulate_cpu.count_ground_truths(truths.numpy(), labels.numpy(), areas, agnostic))


def _count_fake(truths: Tensor, labels: Tensor, areas: int, agnostic: bool) -> Tensor:
    return labels.new_empty((labels.shape[0], areas))


def _order_fake(
    detections: Tensor, starts: Tensor, lengths: Tensor, labels: Tensor, limits: int, agnostic: bool
) -> Ordered:
    size = torch.library.get_ctx().new_dynamic_size()
    return Ordered(labels.new_empty(size), labels.new_empty(labels.shape[0] + 1))


def _curves_fake(
    detections: Tensor, order: Tensor, offsets: Tensor, positives: Tensor, recall_thresholds: Tensor,
    sizes: list[int], full: bool, ties: int,
) -> Curves:  # fmt: skip
    return _empty_curves(detections, positives, recall_thresholds.shape[0], sizes, full)


_COUNT = register(
    "count_truths(Tensor truths, Tensor labels, int areas, bool agnostic) -> Tensor",
    reference=_count_reference,
    fake=_count_fake,
    cpu=cpp(_count_cpu),
    cuda=by_reference("a handful of torch ops on the device"),
)
_ORDER = register(
    "order_records(Tensor detections, Tensor starts, Tensor lengths, Tensor labels, int limits, bool agnostic)"
    " -> (Tensor, Tensor)",
    reference=_order_reference,
    fake=_order_fake,
    cpu=cpp(_order_cpu),
    cuda=by_reference("torch.sort is a device radix sort"),
)
_CURVES = register(
    "precision_recall(Tensor detections, Tensor order, Tensor offsets, Tensor positives, Tensor recall_thresholds,"
    " int[] sizes, bool full, int ties) -> (Tensor, Tensor, Tensor)",
    reference=_curves_reference,
    fake=_curves_fake,
    cpu=cpp(_curves_cpu),
    cuda=cuda(_curves_cuda.precision_recall),
)
