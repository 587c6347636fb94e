"""Accumulation of detection records over numpy arrays, by the C++ library. No torch import.

The torch ops of :mod:`valor_gpu.ops.accumulate` call these functions for CPU tensors. Callers ask
``native.usable("valor_cpu")`` first: without the library the torch references serve. Arrays may have any strides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate_types import (
    TIE_ORDERS,
    Curves,
    LabelCounts,
    Ordered,
    Pick,
    PickTable,
    RecordShape,
)

_ROOM = 4096  # labels; a second call follows where there are more

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def _whole(array: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """The array without gaps, and its address."""
    array = np.ascontiguousarray(array)
    return array, array.__array_interface__["data"][0]


def _new(shape: int | tuple[int, ...], dtype: Any) -> tuple[NDArray[Any], int]:
    return _whole(np.empty(shape, dtype))


def label_counts(detections: Bytes, ground_truths: Bytes, areas: int) -> LabelCounts:
    """Labels and row counts of the tables that matching leaves, padding rows left out.

    Args:
        detections: uint8 rows, see docs/design/001-detection-records.md.
        ground_truths: uint8 rows.
        areas: A, the number of area ranges.
    """
    (detections, d), (ground_truths, g) = _whole(detections), _whole(ground_truths)
    (totals, total), (count, found), room = _new(3, np.int64), _new(1, np.int64), _ROOM
    while True:
        labels, names = _new(room, np.int64)
        native.function("valor_cpu", "valor_label_counts_cpu", "pqqpqqqqppp")(
            d, *detections.shape, g, *ground_truths.shape, areas, room, names, found, total
        )
        if int(count[0]) <= room:
            return LabelCounts(labels[: int(count[0])].copy(), totals)
        room = int(count[0])


def order_records(
    detections: Bytes,
    starts: Ints,
    lengths: Ints,
    labels: Ints,
    limits: int,
    agnostic: bool = False,
    threads: int | None = None,
) -> Ordered:
    """Orders records by (class, score descending, position of the image, index in the image).

    Args:
        detections: uint8 rows.
        starts: int64 ``[I]``: first row of each image, images in the order that breaks ties.
        lengths: int64 ``[I]``: rows of each image.
        labels: int64 ``[K]`` ascending labels wanted; other rows are left out.
        limits: M; rows beyond every max-detection limit and padding rows are left out.
        agnostic: every row belongs to the one class of ``labels``.
        threads: at most so many; None: one for each CPU.

    Raises:
        InputError: an image has rows that are not in ``detections``.
    """
    check_rows_of_images(len(detections), starts, lengths)
    order, rows = _new(int(lengths.sum()), np.int64)
    offsets, ends = _new(len(labels) + 1, np.int64)
    (detections, d), (starts, s), (lengths, n), (labels, k) = (_whole(x) for x in (detections, starts, lengths, labels))
    native.function("valor_cpu", "valor_order_records_cpu", "pqqppqpqqppq")(
        d, detections.shape[1], limits, s, n, len(starts), k, len(labels), agnostic, rows, ends,
        native.threads() if threads is None else threads,
    )  # fmt: skip
    return Ordered(order[: int(offsets[-1])], offsets)


def check_rows_of_images(rows: int, starts: Any, lengths: Any) -> None:
    """Raises :class:`InputError` unless images lie within so many rows; takes arrays and CPU tensors."""
    if bool(((starts < 0) | (lengths < 0) | (starts > rows - lengths)).any()):
        raise InputError(f"starts and lengths must name rows from 0 to {rows - 1} but one image has others")


def count_ground_truths(ground_truths: Bytes, labels: Ints, areas: int, agnostic: bool = False) -> Ints:
    """Ground truths that count, int64 ``[K, A]``.

    Args:
        ground_truths: uint8 rows ``[G, 4 + ceil((A + 2) / 8)]``.
        labels: int64 ``[K]`` ascending labels wanted.
        areas: A.
        agnostic: every row belongs to the one class of ``labels``.
    """
    counts = np.zeros((len(labels), areas), np.int64)
    (ground_truths, g), (labels, k) = _whole(ground_truths), _whole(labels)
    if len(labels):
        native.function("valor_cpu", "valor_count_ground_truths_cpu", "pqqpqqqp")(
            g, *ground_truths.shape, k, len(labels), areas, agnostic, _whole(counts)[1]
        )
    return counts


def precision_recall(
    detections: Bytes,
    ordered: Ordered,
    positives: Ints,
    recall_thresholds: Floats,
    shape: RecordShape,
    full: bool = False,
    ties: str = "given",
    threads: int | None = None,
) -> Curves:
    """Precision at recall samples, and final recall, of every class, setting and max-detection limit.

    A sample of precision is the largest precision at any recall at or above the sample; recall samples are found by
    the float64 comparisons of ``numpy.searchsorted``. After the first sample that is not reached all are 0.

    Args:
        detections: uint8 rows.
        ordered: what :func:`order_records` gave.
        positives: int64 ``[K, A]`` ground truths that count.
        recall_thresholds: float64 ``[R]``, any order.
        shape: T, A and M of the rows.
        full: all M limits and the scores, not the last limit alone.
        ties: order of tied scores: as ``given``, or the one of ``highest`` or ``lowest`` precision in each setting.
        threads: at most so many; None: one for each CPU.
    """
    check_choice("ties", ties, TIE_ORDERS)
    classes, recalls = len(positives), len(recall_thresholds)
    samples = (shape.thresholds, recalls, classes, shape.areas, shape.limits if full else 1)
    precision = np.full(samples, -1.0)
    recall = np.full((shape.thresholds, classes, shape.areas, shape.limits), -1.0)
    scores = np.full(samples if full else (0,), -1.0)
    places = np.argsort(recall_thresholds, kind="stable")
    sizes = np.array([shape.thresholds, shape.areas, shape.limits, recalls, classes], np.int64)
    inputs = [_whole(x) for x in (detections, *ordered, positives, sizes, recall_thresholds[places], places)]
    native.function("valor_cpu", "valor_precision_recall_cpu", "pppppppqqpppq")(
        *(address for _, address in inputs), full, TIE_ORDERS.index(ties),
        *(_whole(array)[1] for array in (precision, recall, scores)),
        native.threads() if threads is None else threads,
    )  # fmt: skip
    return Curves(precision, recall, scores)


def present_means(curves: Curves, picks: Sequence[Pick]) -> Floats:
    """Means of all values above -1, NaN where there is none.

    The order of summation is that of ``numpy.mean(s[s > -1])`` in pycocotools' ``COCOeval.summarize``, so that the
    result has the same bits.

    Args:
        curves: what :func:`precision_recall` gave: a class is absent as a whole or not at all.
        picks: what to take the means over; indices may be negative.

    Returns:
        float64 ``[P]``.

    Raises:
        InputError: an array other than ``precision`` and ``recall``.

    Example:
        >>> recall = np.array([0.5, -1.0, 0.25]).reshape(1, 3, 1, 1)
        >>> present_means(Curves(recall[None], recall, recall), [Pick("recall", 0, -1, [0])])
        array([0.375])
    """
    thresholds, _, areas, limits = curves.recall.shape
    shape = RecordShape(thresholds, areas, limits)
    return means_of_table(curves, PickTable.of(picks, shape, curves.precision.shape[-1]))


def means_of_table(curves: Curves, picks: PickTable) -> Floats:
    """:func:`present_means` of picks as numbers."""
    means = np.full(len(picks.rows), np.nan)
    for index, (of_recall, area, limit, start, count) in enumerate(picks.rows.tolist()):
        values = curves[of_recall][..., area, limit][picks.thresholds[start : start + count]]
        present = values[values > -1]
        if present.size:
            means[index] = np.mean(present)
    return means


def setting_bits(rows: Bytes, setting: int, field: int, settings: int) -> NDArray[np.bool_]:
    """Bool ``[N]``: bit of ``setting`` in field 0 (matched) or 1 (ignored) of detection rows; takes tensors too."""
    column = 13 + field * ((settings + 7) // 8) + setting // 8
    bits: NDArray[np.bool_] = (rows[:, column] >> setting % 8 & 1) != 0
    return bits
