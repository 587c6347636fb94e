"""Accumulates detection records on CUDA: everything is enqueued at once, and one copy brings the numbers back.

How many labels there are, whether an image came twice and whether float32 holds the scores is not known on the host.
So a run guesses, the kernels say whether the guess holds, and only where it does not does another run follow.
Design: docs/design/005-accumulation-on-cuda.md.
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import launching
from valor_gpu.ops.accumulate_types import (
    TIE_ORDERS,
    AccumulateChoices,
    Accumulated,
    Curves,
    Ordered,
    Pick,
    PickTable,
    RecordShape,
    Totals,
)
from valor_gpu.ops.dtypes import to_device

MOST_ROWS = 2**31 - 1
FIRST_CLASSES = 255
"""Classes that the first run on a device has room for."""
CLASS_BUDGET = 96 << 20
"""Bytes of arrays that a run may guess it needs; one that knows how many classes there are takes what it needs."""
_FIRST_SLOTS = 1 << 14  # of the table of labels: tells how many labels there are while they are below half
_DETECTIONS, _GROUND_TRUTHS = 4, 5  # columns of the images table: rows in the other tables
_classes_seen: dict[torch.device, int] = {}

Rows = NDArray[np.int64]


class Words(NamedTuple):
    """What kernels report, Word in csrc/cuda/order_task.h; the floats of ``*_reach`` are bits."""

    error: int
    repeated: int
    wide: int
    invalid: int
    full: int
    labels: int
    detections: int
    ground_truths: int
    ignored: int
    within_limits: int
    negative_detections: int
    negative_ground_truths: int
    detections_reach: int
    ground_truths_reach: int


class Records(NamedTuple):
    """Row tables on one device, see docs/design/001-detection-records.md."""

    detections: Tensor
    ground_truths: Tensor
    images: Tensor


@dataclass(frozen=True)
class Guess:
    """What a run takes for granted.

    Attributes:
        labels: room for labels.
        slots: size of the table of labels, a power of two above twice the room.
        wide: whether scores are float64.
    """

    labels: int
    slots: int
    wide: bool = False

    @classmethod
    def of(cls, labels: int, slots: int = 0, wide: bool = False) -> Guess:
        """Room for ``labels``, in a table of at least so many slots."""
        return cls(labels, max(slots, _FIRST_SLOTS, 1 << (2 * labels + 1).bit_length()), wide)

    @classmethod
    def first(cls, choices: AccumulateChoices, device: torch.device) -> Guess:
        """As many classes as were seen on the device, if they are in the budget."""
        if choices.labels is not None:
            return cls.of(len(choices.labels))
        room, seen = FIRST_CLASSES, _classes_seen.get(device, 0)
        each = 1 if choices.agnostic else _class_bytes(choices)
        while room < seen:
            room = 2 * room + 1
        while room > 1 and room * each > CLASS_BUDGET:
            room //= 2
        return cls.of(room)

    def corrected(self, words: Words) -> Guess | None:
        """What ``words`` prove of the guess; None: it holds."""
        if words.full:
            return replace(self, slots=16 * self.slots)
        if words.labels > self.labels:
            bits = words.labels.bit_length()
            return Guess.of((1 << bits) - 1, self.slots, self.wide or bool(words.wide))
        return replace(self, wide=True) if words.wide and not self.wide else None


class Enqueued(NamedTuple):
    """A run under way on the current stream.

    Attributes:
        head: int64, what the host reads: words, means (float64 bits), labels.
        order: int64 ``[D]``; rows beyond the last offset have no meaning.
        offsets: int64 ``[K + 1]``, K the classes that the run has room for.
        positives: int64 ``[K, A]``.
        curves: arrays with room for K classes.
        guess: what the run takes for granted.
        means: how many.
    """

    head: Tensor
    order: Tensor
    offsets: Tensor
    positives: Tensor
    curves: Curves
    guess: Guess
    means: int


def accumulate(
    detections: Tensor,
    ground_truths: Tensor,
    images: Tensor,
    choices: AccumulateChoices,
    choose_images: Callable[[Rows, bool], Rows],
    error: Tensor | None = None,
    raise_error: Callable[[int], None] | None = None,
) -> Accumulated:
    """Accumulated detections of tables on one CUDA device; see :func:`valor_gpu.ops.accumulate.accumulate`.

    Args:
        detections: uint8 rows.
        ground_truths: uint8 rows.
        images: int64 ``[I, 8]``.
        choices: what to accumulate.
        choose_images: called with the images table on the host and ``by_key`` where an image id came more than once;
            gives the rows that count, in the order that breaks ties.
        error: int64 ``[]`` error code that travels with the numbers.
        raise_error: called with that code before anything else is read.

    Raises:
        InputError: tensors on several devices, 2**31 rows or more, images with other rows than the tables have.
    """
    records = Records(*(tensor.contiguous() for tensor in (detections, ground_truths, images)))
    check_same_device(Records._fields, records)
    _check_sizes(records)
    chosen: _Chosen | None = None
    if choices.images is not None:
        chosen = _Chosen.of(records, choices.images)
    guess = Guess.first(choices, detections.device)
    while True:
        by_key = choices.by_key and chosen is None
        run = enqueue(records if chosen is None else chosen.records, choices, guess, by_key, error)
        words, head = _read(run)
        if error is not None and raise_error is not None:
            raise_error(words.error)
        if words.invalid:
            raise _rows_error(len(records.detections))
        if words.repeated and chosen is None:
            chosen = _Chosen.of(records, choose_images(records.images.cpu().numpy(), choices.by_key))
            continue
        if (again := guess.corrected(words)) is None:
            return _result(run, words, head, choices, len(records.images), chosen)
        guess = again


def _check_sizes(records: Records) -> None:
    for name, table in records._asdict().items():
        if len(table) > MOST_ROWS:
            raise InputError(f"{name} must hold at most {MOST_ROWS} rows but holds {len(table)}")
    if len(records.images) == 0 and len(records.detections):
        raise _rows_error(len(records.detections))


def _rows_error(rows: int) -> InputError:
    return InputError(f"images must name all rows from 0 to {rows - 1} of detections but name others")


# ------------------------------------------------------------------------------------------------------------- one run


class _Constants(NamedTuple):
    """Tables of a run on its device.

    Attributes:
        words: int64: the recall grid, the pick rows, their thresholds.
        grid: how many words the grid takes.
        unconditional: recall thresholds that are not above 0.
        picks: P.
        most: thresholds of the longest pick.
        labels: int64 wanted labels, or None.
    """

    words: Tensor
    grid: int
    unconditional: int
    picks: int
    most: int
    labels: Tensor | None


def _constants(choices: AccumulateChoices, device: torch.device) -> _Constants:
    picks = tuple(pick._replace(thresholds=tuple(pick.thresholds)) for pick in choices.picks)
    recalls = np.ascontiguousarray(choices.recall_thresholds, np.float64).tobytes()
    labels = None if choices.labels is None else np.ascontiguousarray(choices.labels, np.int64).tobytes()
    return _constant_tables(recalls, picks, choices.shape, choices.curves, labels, device)


@functools.lru_cache(maxsize=64)
def _constant_tables(
    recalls: bytes, picks: tuple[Pick, ...], shape: RecordShape, curves: int, labels: bytes | None, device: torch.device
) -> _Constants:
    """Copies the tables and waits: any stream may use them from now on, and a captured graph copies nothing."""
    grid = grid_table(np.frombuffer(recalls))
    table = PickTable.of(picks, shape, curves)
    host = np.concatenate((grid, table.rows.reshape(-1), table.thresholds))
    words = to_device(torch.from_numpy(host), device)
    wanted = None
    if labels is not None:  # and one more: an empty tensor has no address, which says that all labels are wanted
        wanted = to_device(torch.from_numpy(np.append(np.frombuffer(labels, np.int64), 0)), device)
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
    most = int(table.rows[:, 4].max(initial=0))
    return _Constants(words, len(grid), int((np.frombuffer(recalls) <= 0).sum()), len(picks), most, wanted)


def grid_table(recall_thresholds: NDArray[np.float64]) -> Rows:
    """int64 ``[3 R + 1]``: ascending thresholds (float64 bits), their places, the least place from each one on."""
    places = np.argsort(recall_thresholds, kind="stable")
    least = np.minimum.accumulate(np.append(places, len(places))[::-1])[::-1]
    return np.concatenate((recall_thresholds[places].view(np.int64), places, least))


def _samples(choices: AccumulateChoices, classes: int) -> tuple[int, ...]:
    """Shape of the precision array."""
    shape = choices.shape
    return (shape.thresholds, len(choices.recall_thresholds), classes, shape.areas, choices.curves)


def _class_bytes(choices: AccumulateChoices) -> int:
    """Bytes of the arrays of one class."""
    samples = int(np.prod(_samples(choices, 1))) * (2 if choices.full else 1)
    return 8 * (samples + choices.shape.settings * choices.shape.limits)


def enqueue(
    records: Records, choices: AccumulateChoices, guess: Guess, by_key: bool, error: Tensor | None = None
) -> Enqueued:
    """Enqueues a run on the current stream: does not synchronise, and a CUDA graph can capture it.

    The first run with other recall thresholds, picks or labels copies them to the device and waits for that.

    Args:
        records: contiguous tables.
        choices: what to accumulate; its ``images`` and ``by_key`` are not read.
        guess: what to take for granted.
        by_key: order images by their key, not by arrival.
        error: int64 ``[]`` to be read with the numbers.
    """
    constants, shape = _constants(choices, records.detections.device), choices.shape
    classes = min(1, guess.labels) if choices.agnostic else guess.labels
    means = len(choices.ties) * constants.picks
    head = len(Words._fields) + means + guess.labels
    with launching(records.detections.device) as stream:
        out = records.images.new_empty(head + classes * shape.areas + classes + 1)
        positives = out[head : head + classes * shape.areas].view(classes, shape.areas)
        offsets = out[head + classes * shape.areas :]
        order = records.images.new_empty(len(records.detections))
        task = array("q", (
            *(table.data_ptr() for table in records), 0 if error is None else error.data_ptr(), *map(len, records),
            shape.thresholds, shape.areas, shape.limits, choices.agnostic, by_key, guess.wide, guess.labels,
            guess.slots, 0 if constants.labels is None else constants.labels.data_ptr(),
            0 if constants.labels is None else guess.labels, out.data_ptr(), out.data_ptr() + 8 * (head - guess.labels),
            positives.data_ptr(), offsets.data_ptr(), order.data_ptr(),
        ))  # fmt: skip
        sizes = array("q", (
            shape.thresholds, shape.areas, shape.limits, len(choices.recall_thresholds), classes, len(order),
        ))  # fmt: skip
        stages = _Stages(task, sizes, constants, choices, records, stream)
        stages.order()
        first: Curves | None = None
        for index, ties in enumerate(choices.ties):
            curves = stages.curves(TIE_ORDERS.index(ties), order, offsets, positives, classes)
            stages.means(curves, out.data_ptr() + 8 * (len(Words._fields) + index * constants.picks))
            first = curves if first is None else first
    assert first is not None
    return Enqueued(out[:head], order, offsets, positives, first, guess, means)


class _Stages:
    """The native calls of one run, which share one workspace: each is done with it before the next begins."""

    def __init__(
        self, task: array[int], sizes: array[int], constants: _Constants, choices: AccumulateChoices,
        records: Records, stream: int,
    ) -> None:  # fmt: skip
        self._task, self._sizes, self._constants, self._choices = task, sizes, constants, choices
        self._records, self._stream = records, stream
        shape, recalls, classes = choices.shape, sizes[3], sizes[4]
        self._means_sizes = array(
            "q", (recalls, classes, shape.areas, choices.curves, shape.limits, constants.picks, constants.most)
        )
        ties = max(TIE_ORDERS.index(order) for order in choices.ties)
        found = [ctypes.c_int64() for _ in range(3)]
        to = [ctypes.addressof(number) for number in found]
        native.function("valor_cuda", "valor_order_detections_workspace_cuda", "pp")(_address(task), to[0])
        native.function("valor_cuda", "valor_precision_recall_workspace_cuda", "pqqp")(
            _address(sizes), choices.full, ties, to[1]
        )
        native.function("valor_cuda", "valor_present_means_workspace_cuda", "pp")(_address(self._means_sizes), to[2])
        self._workspace = records.detections.new_empty(max(number.value for number in found))

    def order(self) -> None:
        """Labels, counts, order, offsets."""
        native.function("valor_cuda", "valor_order_detections_cuda", "ppp")(
            _address(self._task), self._workspace.data_ptr(), self._stream
        )

    def curves(self, ties: int, order: Tensor, offsets: Tensor, positives: Tensor, classes: int) -> Curves:
        """Precision and recall with ties in one order."""
        choices, shape = self._choices, self._choices.shape
        samples = _samples(choices, classes)
        new = functools.partial(torch.empty, dtype=torch.float64, device=order.device)
        curves = Curves(
            new(samples),
            new((shape.thresholds, classes, shape.areas, shape.limits)),
            new(samples if choices.full else (0,)),
        )
        native.function("valor_cuda", "valor_precision_recall_cuda", "ppppppqqqppppp")(
            self._records.detections.data_ptr(), order.data_ptr(), offsets.data_ptr(), positives.data_ptr(),
            _address(self._sizes), self._constants.words.data_ptr(), self._constants.unconditional, choices.full, ties,
            *(table.data_ptr() for table in curves), self._workspace.data_ptr(), self._stream,
        )  # fmt: skip
        return curves

    def means(self, curves: Curves, out: int) -> None:
        """The mean of each pick, written to ``out``."""
        picks = self._constants.words.data_ptr() + 8 * self._constants.grid
        native.function("valor_cuda", "valor_present_means_cuda", "pppppppp")(
            curves.precision.data_ptr(), curves.recall.data_ptr(), _address(self._means_sizes), picks,
            picks + 40 * self._constants.picks, out, self._workspace.data_ptr(), self._stream,
        )  # fmt: skip


def _address(words: array[int]) -> int:
    return words.buffer_info()[0]


# ---------------------------------------------------------------------------------------------------- what came of it


def _read(run: Enqueued) -> tuple[Words, Rows]:
    """What the kernels report, and all that the host reads: the one place that waits."""
    on_device = run.head.is_cuda
    host = torch.empty(len(run.head), dtype=torch.int64, pin_memory=on_device)
    with launching(run.head.device) as stream:
        native.function("valor_cuda", "valor_read_back_cuda", "ppqp")(
            host.data_ptr(), run.head.data_ptr(), 8 * len(host), stream
        )
    head: Rows = host.numpy()
    return Words(*head[: len(Words._fields)].tolist()), head


def _result(
    run: Enqueued, words: Words, head: Rows, choices: AccumulateChoices, images: int, chosen: _Chosen | None
) -> Accumulated:
    start = len(Words._fields)
    found = words.labels if choices.labels is None else run.guess.labels
    device = run.order.device
    _classes_seen[device] = max(found, _classes_seen.get(device, 0))
    classes = min(1, found) if choices.agnostic else found
    means = head[start : start + run.means].view(np.float64).reshape(len(choices.ties), -1)
    labels = head[start + run.means : start + run.means + found].copy()
    curves = Curves(
        run.curves.precision[:, :, :classes],
        run.curves.recall[:, :classes],
        run.curves.scores[:, :, :classes] if choices.full else run.curves.scores,
    )
    order = run.order[: words.within_limits]
    kept = images if chosen is None else len(chosen.records.images)
    reach = np.array([words.detections_reach, words.ground_truths_reach], np.int32).view(np.float32)
    return Accumulated(
        labels=torch.from_numpy(labels),
        positives=run.positives[:classes],
        totals=Totals(
            kept, images - kept, words.detections, words.ground_truths, words.ignored, words.within_limits,
            words.negative_detections, words.negative_ground_truths, *reach.tolist(),
        ),
        ordered=Ordered(order if chosen is None else chosen.rows[order], run.offsets[: classes + 1]),
        curves=curves,
        means=torch.from_numpy(means.copy()),
    )  # fmt: skip


class _Chosen(NamedTuple):
    """The records of some images, laid out in the order that breaks ties.

    Attributes:
        records: their tables.
        rows: int64, the row of each of their detections in the whole table.
    """

    records: Records
    rows: Tensor

    @classmethod
    def of(cls, records: Records, images: Rows) -> _Chosen:
        """Copies what ``images``, rows of the images table, hold."""
        table, device = records.images.cpu().numpy(), records.images.device
        detections, ground_truths = (
            to_device(torch.from_numpy(_rows_of(images, table[:, column], len(rows), name)), device)
            for column, rows, name in (
                (_DETECTIONS, records.detections, "detections"),
                (_GROUND_TRUTHS, records.ground_truths, "ground_truths"),
            )
        )
        chosen = to_device(torch.from_numpy(np.ascontiguousarray(images, np.int64)), device)
        tables = records.detections[detections], records.ground_truths[ground_truths], records.images[chosen]
        return cls(Records(*tables), detections)


def _rows_of(images: Rows, lengths: Rows, total: int, name: str) -> Rows:
    """The rows of some images, one image after another, in a table of ``total`` rows."""
    if (lengths < 0).any() or lengths.sum() != total:
        raise InputError(f"images must name {total} rows of {name} but name {lengths.sum()}")
    starts, counts = (np.cumsum(lengths) - lengths)[images], lengths[images]
    before = np.cumsum(counts) - counts
    rows: Rows = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return rows
