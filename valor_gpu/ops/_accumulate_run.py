"""Enqueues one run of accumulation on CUDA: what it takes for granted, its constant tables, its native calls.

Design: docs/design/005-accumulation-on-cuda.md.
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._device_tables import constant
from valor_gpu.ops._launch import launching
from valor_gpu.ops.accumulate_types import TIE_ORDERS, AccumulateChoices, Curves, Pick, PickTable, RecordShape

FIRST_CLASSES = 255
"""Classes that the first run on a device has room for."""
CLASS_BUDGET = 96 << 20
"""Bytes of arrays that a run may guess it needs; one that knows how many classes there are takes what it needs."""
FIRST_SLOTS = 1 << 14
"""Size of the first table of labels: it tells how many labels there are while they are below half of it."""
classes_seen: dict[torch.device, int] = {}
"""The most classes that a device has seen: a run guesses that there are as many again."""

_HASHABLE = (range, tuple)

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
        return cls(labels, max(slots, FIRST_SLOTS, 1 << (2 * labels + 1).bit_length()), wide)

    @classmethod
    def first(cls, choices: AccumulateChoices, device: torch.device) -> Guess:
        """As many classes as were seen on the device, if they are in the budget."""
        if choices.labels is not None:
            return cls.of(len(choices.labels))
        room, seen = FIRST_CLASSES, classes_seen.get(device, 0)
        each = 1 if choices.agnostic else 8 * choices.class_numbers()
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
        tables: what the run reads; they live as long as a graph that captured it needs them.
    """

    head: Tensor
    order: Tensor
    offsets: Tensor
    positives: Tensor
    curves: Curves
    guess: Guess
    means: int
    tables: tuple[Tensor | None, ...]


class _Constants(NamedTuple):
    """Tables of a run that depend on its choices alone.

    Attributes:
        words: int64 on the host: the recall grid, the pick rows, their thresholds.
        grid: how many words the grid takes.
        unconditional: recall thresholds that are not above 0.
        picks: P.
        most: thresholds of the longest pick.
    """

    words: Rows
    grid: int
    unconditional: int
    picks: int
    most: int

    @classmethod
    def of(cls, choices: AccumulateChoices) -> _Constants:
        """Those of ``choices``, made once."""
        picks = tuple(
            pick if type(pick.thresholds) in _HASHABLE else pick._replace(thresholds=tuple(pick.thresholds))
            for pick in choices.picks
        )
        recalls = np.ascontiguousarray(choices.recall_thresholds, np.float64).tobytes()
        return _constants(recalls, picks, choices.shape, choices.curves)


@functools.lru_cache(maxsize=64)
def _constants(recalls: bytes, picks: tuple[Pick, ...], shape: RecordShape, curves: int) -> _Constants:
    thresholds = np.frombuffer(recalls)
    grid, table = grid_table(thresholds), PickTable.of(picks, shape, curves)
    words = np.concatenate((grid, table.rows.reshape(-1), table.thresholds))
    most = int(table.rows[:, 4].max(initial=0))
    return _Constants(words, len(grid), int((thresholds <= 0).sum()), len(picks), most)


def _wanted(labels: NDArray[np.int64] | None, device: torch.device) -> Tensor | None:
    """Wanted labels and one word more: an empty tensor has no address, which says that all labels are wanted."""
    return None if labels is None else constant(np.append(labels, 0), device)


def grid_table(recall_thresholds: NDArray[np.float64]) -> Rows:
    """int64 ``[3 R + 1]``: ascending thresholds (float64 bits), their places, the least place from each one on."""
    places = np.argsort(recall_thresholds, kind="stable")
    least = np.minimum.accumulate(np.append(places, len(places))[::-1])[::-1]
    return np.concatenate((recall_thresholds[places].view(np.int64), places, least))


def enqueue(
    records: Records, choices: AccumulateChoices, guess: Guess, by_key: bool, error: Tensor | None = None
) -> Enqueued:
    """Enqueues a run on the current stream: does not synchronise, and a CUDA graph can capture it.

    The first run with other recall thresholds, picks or labels copies them to the device and waits for that. A graph
    must keep what this returns.

    Args:
        records: contiguous tables.
        choices: what to accumulate; its ``images`` and ``by_key`` are not read.
        guess: what to take for granted.
        by_key: order images by their key, not by arrival.
        error: int64 ``[]`` to be read with the numbers.
    """
    constants, shape, device = _Constants.of(choices), choices.shape, records.detections.device
    classes = min(1, guess.labels) if choices.agnostic else guess.labels
    means = len(choices.ties) * constants.picks
    head = len(Words._fields) + means + guess.labels
    with launching(device) as stream:
        words, wanted = constant(constants.words, device), _wanted(choices.labels, device)
        out = records.images.new_empty(head + classes * shape.areas + classes + 1)
        positives = out[head : head + classes * shape.areas].view(classes, shape.areas)
        offsets = out[head + classes * shape.areas :]
        order = records.images.new_empty(len(records.detections))
        task = array("q", (
            *(table.data_ptr() for table in records), 0 if error is None else error.data_ptr(), *map(len, records),
            shape.thresholds, shape.areas, shape.limits, choices.agnostic, by_key, guess.wide, guess.labels,
            guess.slots, 0 if wanted is None else wanted.data_ptr(),
            0 if wanted is None else guess.labels, out.data_ptr(), out.data_ptr() + 8 * (head - guess.labels),
            positives.data_ptr(), offsets.data_ptr(), order.data_ptr(),
        ))  # fmt: skip
        sizes = array("q", (
            shape.thresholds, shape.areas, shape.limits, len(choices.recall_thresholds), classes, len(order),
        ))  # fmt: skip
        stages = _Stages(task, sizes, constants, words.data_ptr(), choices, records, stream)
        stages.order()
        first: Curves | None = None
        for index, ties in enumerate(choices.ties):
            curves = stages.curves(TIE_ORDERS.index(ties), order, offsets, positives, classes)
            stages.means(curves, out.data_ptr() + 8 * (len(Words._fields) + index * constants.picks))
            first = curves if first is None else first
    assert first is not None
    return Enqueued(out[:head], order, offsets, positives, first, guess, means, (words, wanted, *records))


class _Stages:
    """The native calls of one run, which share one workspace: each is done with it before the next begins."""

    def __init__(
        self, task: array[int], sizes: array[int], constants: _Constants, words: int, choices: AccumulateChoices,
        records: Records, stream: int,
    ) -> None:  # fmt: skip
        self._task, self._sizes, self._constants, self._words, self._choices = task, sizes, constants, words, choices
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
        choices = self._choices
        new = functools.partial(torch.empty, dtype=torch.float64, device=order.device)
        curves = Curves(**{name: new(shape) for name, shape in choices.curve_shapes(classes).items()})
        native.function("valor_cuda", "valor_precision_recall_cuda", "ppppppqqqppppp")(
            self._records.detections.data_ptr(), order.data_ptr(), offsets.data_ptr(), positives.data_ptr(),
            _address(self._sizes), self._words, self._constants.unconditional, choices.full, ties,
            *(table.data_ptr() for table in curves), self._workspace.data_ptr(), self._stream,
        )  # fmt: skip
        return curves

    def means(self, curves: Curves, out: int) -> None:
        """The mean of each pick, written to ``out``."""
        picks = self._words + 8 * self._constants.grid
        native.function("valor_cuda", "valor_present_means_cuda", "pppppppp")(
            curves.precision.data_ptr(), curves.recall.data_ptr(), _address(self._means_sizes), picks,
            picks + 40 * self._constants.picks, out, self._workspace.data_ptr(), self._stream,
        )  # fmt: skip


def _address(words: array[int]) -> int:
    return words.buffer_info()[0]
