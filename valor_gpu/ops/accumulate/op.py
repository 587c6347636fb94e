"""Accumulation: from detection records to COCO's precision, recall and scores arrays, and their means.

Definition, with its source: :mod:`valor_gpu.ops.accumulate.reference`. :func:`accumulate` does all of it at once; the
functions above it are its steps, for callers that need one alone. Row layouts: docs/design/001-detection-records.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_choice
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import by_reference, disabled, register
from valor_gpu.ops.accumulate import cpu as _accumulate_cpu
from valor_gpu.ops.accumulate import cuda as _accumulate_cuda
from valor_gpu.ops.accumulate import curves_cuda as _curves_cuda
from valor_gpu.ops.accumulate import means_cuda as _means_cuda
from valor_gpu.ops.accumulate import reference as _accumulate_reference
from valor_gpu.ops.accumulate.types import (
    TIE_ORDERS,
    AccumulateChoices,
    Accumulated,
    Curves,
    LabelCounts,
    Ordered,
    Pick,
    PickTable,
    RecordShape,
    Totals,
)
from valor_gpu.ops.assign.image_order import choose_images
from valor_gpu.ops.error_codes import raise_error

# ---------------------------------------------------------------------------------------------------------- the steps


def label_counts(detections: Tensor, ground_truths: Tensor, areas: int) -> LabelCounts:
    """Labels and row counts of the tables that matching leaves, padding rows left out.

    Args:
        detections: uint8 rows, see docs/design/001-detection-records.md.
        ground_truths: uint8 rows on the same device.
        areas: A, the number of area ranges.
    """
    return LabelCounts(*_LABELS(detections, ground_truths, areas))


def order_records(
    detections: Tensor, starts: Tensor, lengths: Tensor, labels: Tensor, limits: int, agnostic: bool = False
) -> Ordered:
    """Orders records by (class, score descending, position of the image, index in the image).

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


def count_ground_truths(ground_truths: Tensor, labels: Tensor, areas: int, agnostic: bool = False) -> Tensor:
    """Ground truths that count, int64 ``[K, A]``.

    Args:
        ground_truths: uint8 rows ``[G, 4 + ceil((A + 2) / 8)]``.
        labels: int64 ``[K]`` ascending labels wanted.
        areas: A.
        agnostic: every row belongs to the one class of ``labels``.
    """
    counts: Tensor = _COUNT(ground_truths, labels, areas, agnostic)
    return counts


def precision_recall(
    detections: Tensor,
    ordered: Ordered,
    positives: Tensor,
    recall_thresholds: Tensor,
    shape: RecordShape,
    full: bool = False,
    ties: str = "given",
) -> Curves:
    """Precision at recall samples, and final recall, of every class, setting and max-detection limit.

    A sample of precision is the largest precision at any recall at or above the sample; recall samples are found by
    the float64 comparisons of ``numpy.searchsorted``. After the first sample that is not reached all are 0.

    Args:
        detections: uint8 rows.
        ordered: what :func:`order_records` gave.
        positives: int64 ``[K, A]`` ground truths that count.
        recall_thresholds: float64 ``[R]`` on the CPU, any order.
        shape: T, A and M of the rows.
        full: all M limits and the scores, not the last limit alone.
        ties: order of tied scores: as ``given``, or the one of ``highest`` or ``lowest`` precision in each setting.
    """
    check_choice("ties", ties, TIE_ORDERS)
    sizes = [shape.thresholds, shape.areas, shape.limits]
    order, offsets = ordered
    return Curves(
        *_CURVES(detections, order, offsets, positives, recall_thresholds, sizes, full, TIE_ORDERS.index(ties))
    )


def present_means(curves: Curves, picks: Sequence[Pick]) -> Tensor:
    """Means of all values above -1, NaN where there is none.

    The order of summation is that of ``numpy.mean(s[s > -1])`` in pycocotools' ``COCOeval.summarize``, so that the
    result has the same bits.

    Args:
        curves: what :func:`precision_recall` gave: a class is absent as a whole or not at all.
        picks: what to take the means over; indices may be negative.

    Returns:
        float64 ``[P]`` on the device of the arrays; does not synchronise with it.

    Raises:
        InputError: an array other than ``precision`` and ``recall``.

    Example:
        >>> recall = torch.tensor([0.5, -1.0, 0.25]).double().reshape(1, 3, 1, 1)
        >>> present_means(Curves(recall[None], recall, recall), [Pick("recall", 0, -1, [0])])
        tensor([0.3750], dtype=torch.float64)
    """
    thresholds, _, areas, limits = curves.recall.shape
    table = PickTable.of(picks, RecordShape(thresholds, areas, limits), curves.precision.shape[-1])
    means: Tensor = _MEANS(curves.precision, curves.recall, *map(torch.from_numpy, table))
    return means


# -------------------------------------------------------------------------------------------------------- all at once


def accumulate(
    detections: Tensor,
    ground_truths: Tensor,
    images: Tensor,
    choices: AccumulateChoices,
    error: Tensor | None = None,
    describe: Callable[[int], str] = str,
) -> Accumulated:
    """All that the numbers of an evaluation are read from.

    Copies of an image id are left out; a warning says so if their detections differ.

    Args:
        detections: uint8 ``[D, 13 + 2B]``.
        ground_truths: uint8 ``[G, 4 + ceil((A + 2) / 8)]``.
        images: int64 ``[I, 8]``, whose row counts are those of the other tables.
        choices: what to accumulate.
        error: int64 ``[]`` error code of the tables; a kernel on CUDA brings it back with the numbers.
        describe: gives the message of an error code.

    Returns:
        Order, counts of ground truths and arrays on the device of the tables; labels and means on the CPU.

    Raises:
        InputError: ``error`` holds a code, an image id came with two different ground truths, or images name other rows
            than the tables have.

    Example:
        >>> import numpy as np
        >>> from valor_gpu.detection import MeanAveragePrecision
        >>> metric, box = MeanAveragePrecision(), torch.tensor([[0.0, 0.0, 9.0, 9.0]])
        >>> metric.update([{"boxes": box, "scores": torch.tensor([0.5]), "labels": torch.tensor([3])}],
        ...               [{"boxes": box, "labels": torch.tensor([3])}])
        >>> pick = Pick("precision", 0, -1, range(10))
        >>> choices = AccumulateChoices(RecordShape(10, 4, 3), np.linspace(0, 1, 101), (pick,))
        >>> found = accumulate(*metric.state().tensors().values(), choices)
        >>> found.labels, found.means.round(decimals=6), found.totals.images
        (tensor([3]), tensor([[1.]], dtype=torch.float64), 1)
    """
    kernel = type(detections) is Tensor and detections.is_cuda and native.available("valor_cuda")  # spares packing
    if kernel and not disabled("accumulate"):
        check_code = None if error is None else functools.partial(raise_error, describe=describe)
        tables = detections, ground_truths, images
        return _accumulate_cuda.accumulate(*tables, choices, choose_images, error, check_code)
    if error is not None:
        raise_error(error, describe)
    labels, positives, totals, order, offsets, precision, recall, scores, means = _ACCUMULATE(
        detections, ground_truths, images, *_packed(choices)
    )
    curves, ordered = Curves(precision, recall, scores), Ordered(order, offsets)
    return Accumulated(labels, positives, Totals.of(totals), ordered, curves, means)


def _packed(choices: AccumulateChoices) -> tuple[Any, ...]:
    """The choices as arguments of the op."""
    shape, picks = choices.shape, choices.pick_table()
    wanted = (None if array is None else torch.from_numpy(array) for array in (choices.labels, choices.images))
    flags = [choices.by_key, choices.agnostic, choices.full]
    return (
        torch.from_numpy(choices.recall_thresholds), [shape.thresholds, shape.areas, shape.limits],
        *map(torch.from_numpy, picks), choices.tie_codes, flags, *wanted,
    )  # fmt: skip


def _unpacked(
    recall_thresholds: Tensor, sizes: list[int], picks: Tensor, pick_thresholds: Tensor, ties: list[int],
    flags: list[bool], labels: Tensor | None, wanted_images: Tensor | None,
) -> AccumulateChoices:  # fmt: skip
    by_key, agnostic, full = flags
    return AccumulateChoices(
        RecordShape(*sizes), recall_thresholds.numpy(), PickTable(picks.numpy(), pick_thresholds.numpy()).picks(),
        by_key, agnostic, full, tuple(TIE_ORDERS[code] for code in ties),
        *(None if array is None else array.numpy() for array in (labels, wanted_images)),
    )  # fmt: skip


def _results(found: Accumulated) -> tuple[Tensor, ...]:
    """The results of the op, from tensors or numpy arrays."""
    arrays = (found.labels, found.positives, found.totals.words(), *found.ordered, *found.curves, found.means)
    return tuple(array if isinstance(array, Tensor) else torch.from_numpy(array) for array in arrays)


def _accumulate_reference_kernel(detections: Tensor, ground_truths: Tensor, images: Tensor, *choices: Any) -> Any:
    return _results(_accumulate_reference.accumulate(detections, ground_truths, images, _unpacked(*choices)))


def _accumulate_cpu_kernel(detections: Tensor, ground_truths: Tensor, images: Tensor, *choices: Any) -> Any:
    tables = detections.numpy(), ground_truths.numpy(), images.numpy()
    return _results(_accumulate_cpu.accumulate(*tables, _unpacked(*choices), torch.get_num_threads()))


def _accumulate_cuda_kernel(detections: Tensor, ground_truths: Tensor, images: Tensor, *choices: Any) -> Any:
    found = _accumulate_cuda.accumulate(detections, ground_truths, images, _unpacked(*choices), choose_images)
    return _results(found)


def _accumulate_fake(
    detections: Tensor, ground_truths: Tensor, images: Tensor, recall_thresholds: Tensor, sizes: list[int],
    picks: Tensor, pick_thresholds: Tensor, ties: list[int], flags: list[bool], labels: Tensor | None,
    wanted_images: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    new_size, agnostic, full = torch.library.get_ctx().new_dynamic_size, flags[1], flags[2]
    names = torch.empty(new_size() if labels is None else labels.shape[0], dtype=torch.int64)
    classes: Any = names.shape[0]
    if agnostic:
        classes = new_size() if labels is None else min(1, classes)
    positives = images.new_empty((classes, sizes[1]))
    order, offsets = images.new_empty(new_size()), images.new_empty(classes + 1)
    curves = _accumulate_reference.empty_curves(detections, positives, recall_thresholds.shape[0], sizes, full)
    means = torch.empty((len(ties), picks.shape[0]), dtype=torch.float64)
    return names, positives, torch.empty(9, dtype=torch.int64), order, offsets, *curves, means


# ---------------------------------------------------------------------------------------------- kernels of the steps


def _labels_cpu(detections: Tensor, ground_truths: Tensor, areas: int) -> LabelCounts:
    found = _accumulate_cpu.label_counts(detections.numpy(), ground_truths.numpy(), areas)
    return LabelCounts(*map(torch.from_numpy, found))


def _labels_fake(detections: Tensor, ground_truths: Tensor, areas: int) -> LabelCounts:
    labels = detections.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)
    return LabelCounts(labels, torch.empty(3, dtype=torch.int64, device="cpu"))


def _order_cpu(
    detections: Tensor, starts: Tensor, lengths: Tensor, labels: Tensor, limits: int, agnostic: bool
) -> Ordered:
    found = _accumulate_cpu.order_records(
        detections.numpy(), starts.numpy(), lengths.numpy(), labels.numpy(), limits, agnostic, torch.get_num_threads()
    )
    return Ordered(*map(torch.from_numpy, found))


def _order_fake(
    detections: Tensor, starts: Tensor, lengths: Tensor, labels: Tensor, limits: int, agnostic: bool
) -> Ordered:
    size = torch.library.get_ctx().new_dynamic_size()
    return Ordered(labels.new_empty(size), labels.new_empty(labels.shape[0] + 1))


def _count_cpu(ground_truths: Tensor, labels: Tensor, areas: int, agnostic: bool) -> Tensor:
    found = _accumulate_cpu.count_ground_truths(ground_truths.numpy(), labels.numpy(), areas, agnostic)
    return torch.from_numpy(found)


def _count_fake(ground_truths: Tensor, labels: Tensor, areas: int, agnostic: bool) -> Tensor:
    return labels.new_empty((labels.shape[0], areas))


def _curves_cpu(
    detections: Tensor, order: Tensor, offsets: Tensor, positives: Tensor, recall_thresholds: Tensor,
    sizes: list[int], full: bool, ties: int,
) -> Curves:  # fmt: skip
    found = _accumulate_cpu.precision_recall(
        detections.numpy(), Ordered(order.numpy(), offsets.numpy()), positives.numpy(), recall_thresholds.numpy(),
        RecordShape(*sizes), full, TIE_ORDERS[ties], torch.get_num_threads(),
    )  # fmt: skip
    return Curves(*map(torch.from_numpy, found))


def _curves_fake(
    detections: Tensor, order: Tensor, offsets: Tensor, positives: Tensor, recall_thresholds: Tensor,
    sizes: list[int], full: bool, ties: int,
) -> Curves:  # fmt: skip
    return _accumulate_reference.empty_curves(detections, positives, recall_thresholds.shape[0], sizes, full)


def _means_fake(precision: Tensor, recall: Tensor, picks: Tensor, thresholds: Tensor) -> Tensor:
    return precision.new_empty(picks.shape[0])


_LABELS = register(
    "label_counts(Tensor detections, Tensor ground_truths, int areas) -> (Tensor, Tensor)",
    reference=_accumulate_reference.label_counts,
    fake=_labels_fake,
    cpu=cpp(_labels_cpu),
    cuda=by_reference("torch.unique sorts on the device"),
)
_COUNT = register(
    "count_ground_truths(Tensor ground_truths, Tensor labels, int areas, bool agnostic) -> Tensor",
    reference=_accumulate_reference.count_ground_truths,
    fake=_count_fake,
    cpu=cpp(_count_cpu),
    cuda=by_reference("a handful of torch ops on the device"),
)
_ORDER = register(
    "order_records(Tensor detections, Tensor starts, Tensor lengths, Tensor labels, int limits, bool agnostic)"
    " -> (Tensor, Tensor)",
    reference=_accumulate_reference.order_records,
    fake=_order_fake,
    cpu=cpp(_order_cpu),
    cuda=by_reference("torch.sort is a device radix sort"),
)
_CURVES = register(
    "precision_recall(Tensor detections, Tensor order, Tensor offsets, Tensor positives, Tensor recall_thresholds,"
    " int[] sizes, bool full, int ties) -> (Tensor, Tensor, Tensor)",
    reference=_accumulate_reference.precision_recall,
    fake=_curves_fake,
    cpu=cpp(_curves_cpu),
    cuda=cuda(_curves_cuda.precision_recall),
)
_MEANS = register(
    "present_means(Tensor precision, Tensor recall, Tensor picks, Tensor thresholds) -> Tensor",
    reference=_accumulate_reference.present_means,
    fake=_means_fake,
    cpu=by_reference("numpy, whose order of summation is the definition"),
    cuda=cuda(_means_cuda.present_means),
)
_ACCUMULATE = register(
    "accumulate(Tensor detections, Tensor ground_truths, Tensor images, Tensor recall_thresholds, int[] sizes,"
    " Tensor picks, Tensor pick_thresholds, int[] ties, bool[] flags, Tensor? labels, Tensor? wanted_images)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    reference=_accumulate_reference_kernel,
    fake=_accumulate_fake,
    cpu=cpp(_accumulate_cpu_kernel),
    cuda=cuda(_accumulate_cuda_kernel),
    launches=("precision_recall", "present_means"),
)
