"""Accumulation of detection records over numpy arrays, by the C++ library. No torch import.

The torch ops of :mod:`valor_gpu.ops.accumulate.op` call these functions for CPU tensors. Callers ask
``native.usable("valor_cpu")`` first: without the library the torch references serve. Arrays may have any strides.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError
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
from valor_gpu.ops.assign.image_order import check_row_counts, raise_conflict, warn_of_other_copies

_ROOM = 4096  # labels; a second call follows where there are more
_ARRAY_ROOM = 8 << 20  # bytes of arrays for classes that nobody has counted; likewise

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
    """Labels and row counts of tables; see :func:`valor_gpu.ops.accumulate.op.label_counts`."""
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
    """Orders records as :func:`valor_gpu.ops.accumulate.op.order_records`; ``threads`` are one per CPU by default."""
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
    """Ground truths that count, int64 ``[K, A]``; see :func:`valor_gpu.ops.accumulate.op.count_ground_truths`."""
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
    """Computes :func:`valor_gpu.ops.accumulate.op.precision_recall` on ``threads`` threads, by default one per CPU."""
    check_choice("ties", ties, TIE_ORDERS)
    classes, recalls = len(positives), len(recall_thresholds)
    samples = (shape.thresholds, recalls, classes, shape.areas, shape.limits if full else 1)
    precision, scores = np.empty(samples), np.empty(samples if full else (0,))
    recall = np.empty((shape.thresholds, classes, shape.areas, shape.limits))
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
    """Means of all values above -1, NaN where there is none; see :func:`valor_gpu.ops.accumulate.op.present_means`.

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


def setting_bits(rows: Any, setting: int, field: int, settings: int) -> Any:
    """Bool ``[N]``: bit of ``setting`` in field 0 (matched) or 1 (ignored) of detection rows, an array or a tensor."""
    column = 13 + field * ((settings + 7) // 8) + setting // 8
    return (rows[:, column] >> setting % 8 & 1) != 0


# -------------------------------------------------------------------------------------------------- all in one call


class _Task(ctypes.Structure):
    """AccumulateTask in csrc/cpu/accumulate.h: addresses and numbers."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "detections", "ground_truths", "images", "num_detections", "num_ground_truths", "num_images",
            "thresholds", "areas", "limits", "recall_grid", "grid_places", "recalls", "ties", "num_ties",
            "picks", "pick_thresholds", "num_picks", "wanted_labels", "wanted_images", "num_wanted_labels",
            "num_wanted_images", "by_key", "agnostic", "full", "threads", "label_room", "class_room",
            "labels", "positives", "offsets", "order", "precision", "recall", "scores", "means", "totals", "report",
        )
    ]  # fmt: skip


class _Report(NamedTuple):
    """Report in csrc/cpu/accumulate.h."""

    conflict: int
    conflict_id: int
    other_copies: int
    other_id: int
    labels: int
    classes: int
    stray_images: int


class _Outputs:
    """Arrays with room for so many labels and classes."""

    def __init__(self, choices: AccumulateChoices, rows: int, label_room: int, class_room: int) -> None:
        self.sizes = {"label_room": label_room, "class_room": class_room}
        one_class = choices.curve_shapes(1)
        self.flat = {name: np.empty(class_room * int(np.prod(shape))) for name, shape in one_class.items()}
        self.words = {
            "labels": np.empty(label_room, np.int64),
            "positives": np.empty(class_room * choices.shape.areas, np.int64),
            "offsets": np.empty(class_room + 1, np.int64),
            "order": np.empty(rows, np.int64),
            "totals": np.empty(9, np.int64),
            "report": np.empty(len(_Report._fields), np.int64),
        }
        self.means = np.empty((len(choices.ties), len(choices.picks)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """By the name of the task's field."""
        return {**self.flat, **self.words, "means": self.means}

    def result(self, choices: AccumulateChoices, found: _Report) -> Accumulated:
        """The parts of the arrays that the run has filled."""
        curves = {
            name: self.flat[name][: int(np.prod(shape))].reshape(shape)
            for name, shape in choices.curve_shapes(found.classes).items()
        }
        words, areas = self.words, choices.shape.areas
        totals = Totals.of(words["totals"])
        return Accumulated(
            labels=words["labels"][: found.labels].copy(),
            positives=words["positives"][: found.classes * areas].reshape(-1, areas),
            totals=totals,
            ordered=Ordered(words["order"][: totals.within_limits], words["offsets"][: found.classes + 1]),
            curves=Curves(**curves),
            means=self.means,
        )


def accumulate(
    detections: Bytes, ground_truths: Bytes, images: Ints, choices: AccumulateChoices, threads: int | None = None
) -> Accumulated:
    """Computes :func:`valor_gpu.ops.accumulate.op.accumulate` in one native call; ``threads``: one per CPU by default.

    Raises:
        InputError: an image id came with two different ground truths, or images name other rows than the tables have.
    """
    choices.shape.check_tables(detections, ground_truths, images)
    fields, _kept = _inputs(detections, ground_truths, images, choices)
    fields["threads"] = native.threads() if threads is None else threads
    label_room, class_room = _first_room(choices)
    while True:
        outputs = _Outputs(choices, len(detections), label_room, class_room)
        addresses = {name: _whole(array)[1] for name, array in outputs.arrays().items()}
        task = _Task(**fields, **outputs.sizes, **addresses)
        native.function("valor_cpu", "valor_accumulate_cpu", "p")(ctypes.addressof(task))
        found = _Report(*outputs.words["report"].tolist())
        if found.stray_images:
            check_row_counts(images, len(detections), len(ground_truths))
            raise InputError(f"choices.images must be rows from 0 to {len(images) - 1} of images but has others")
        if found.conflict:
            raise_conflict(found.conflict_id)
        if found.labels <= label_room and found.classes <= class_room:
            warn_of_other_copies(found.other_copies, found.other_id)
            return outputs.result(choices, found)
        label_room, class_room = found.labels, found.classes


def _inputs(
    detections: Bytes, ground_truths: Bytes, images: Ints, choices: AccumulateChoices
) -> tuple[dict[str, int], list[NDArray[Any]]]:
    """Fields of the task, and the arrays whose addresses they are."""
    places = np.argsort(choices.recall_thresholds, kind="stable")
    table = choices.pick_table()
    arrays: dict[str, NDArray[Any]] = {
        "detections": detections,
        "ground_truths": ground_truths,
        "images": images,
        "recall_grid": choices.recall_thresholds[places],
        "grid_places": places,
        "ties": np.array(choices.tie_codes, np.int64),
        "picks": table.rows,
        "pick_thresholds": table.thresholds,
    }
    wanted = {"wanted_labels": choices.labels, "wanted_images": choices.images}
    arrays.update({name: array for name, array in wanted.items() if array is not None})
    shape = choices.shape
    fields = {"thresholds": shape.thresholds, "areas": shape.areas, "limits": shape.limits, "recalls": len(places)}
    fields |= {"by_key": choices.by_key, "agnostic": choices.agnostic, "full": choices.full}
    counted = ("detections", "ground_truths", "images", "ties", "picks", "wanted_labels", "wanted_images")
    fields |= {f"num_{name}": len(arrays[name]) for name in counted if name in arrays}
    kept = []
    for name, array in arrays.items():
        whole, fields[name] = _whole(array)
        kept.append(whole)
    return fields, kept


def _first_room(choices: AccumulateChoices) -> tuple[int, int]:
    """Labels and classes that there is room for at first."""
    if choices.labels is not None:
        return len(choices.labels), min(1, len(choices.labels)) if choices.agnostic else len(choices.labels)
    each = 8 * choices.class_numbers()
    return _ROOM, 1 if choices.agnostic else max(1, _ARRAY_ROOM // each)
