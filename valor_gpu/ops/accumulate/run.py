"""Enqueues one run of accumulation on CUDA: what it takes for granted, its constant tables, its native calls.

Design: docs/design/005-accumulation-on-cuda.md.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
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
from valor_gpu.ops.accumulate.types import AccumulateChoices, Curves, Pick, PickTable, RecordShape

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


@dataclass(frozen=True)
class Enqueued:
    """A run under way on the current stream.

    Attributes:
        out: int64, all that the run writes, one table after another.
        guess: what the run takes for granted.
        choices: what is accumulated.
        rows: D, detections.
        means: how many.
        tables: what the run reads; they live as long as a graph that captured it needs them.
    """

    out: Tensor
    guess: Guess
    choices: AccumulateChoices
    rows: int
    means: int
    tables: tuple[Tensor | None, ...]

    @functools.cached_property
    def layout(self) -> _Layout:
        """Offsets of the tables in ``out``."""
        return _Layout.of(self.choices, self.guess, self.rows, self.means)

    @property
    def head(self) -> Tensor:
        """int64 words that the host reads: results, means (float64 bits), labels."""
        return self.out[: self.layout.positives]

    @property
    def positives(self) -> Tensor:
        """int64 ``[K, A]``, K the classes that the run has room for."""
        return self.positives_of(self.layout.classes)

    @property
    def offsets(self) -> Tensor:
        """int64 ``[K + 1]``."""
        return self.offsets_of(self.layout.classes)

    @property
    def curves(self) -> Curves:
        """Arrays with room for K classes."""
        return self.curves_of(self.layout.classes)

    def positives_of(self, classes: int) -> Tensor:
        """:attr:`positives` of the first classes."""
        areas = self.choices.shape.areas
        return self.out.as_strided((classes, areas), (areas, 1), self.layout.positives)

    def offsets_of(self, classes: int) -> Tensor:
        """:attr:`offsets` of the first classes."""
        return self.out.as_strided((classes + 1,), (1,), self.layout.offsets)

    def order_of(self, rows: int) -> Tensor:
        """int64, the first rows in order; those beyond the last offset have no meaning."""
        return self.out.as_strided((rows,), (1,), self.layout.order)

    def curves_of(self, classes: int) -> Curves:
        """:attr:`curves` of the first classes."""
        floats, room = self.out.view(torch.float64), self.choices.curve_shapes(self.layout.classes)
        wanted = self.choices.curve_shapes(classes)
        return Curves(*(
            floats.as_strided(wanted[name], _strides(room[name]), getattr(self.layout, name)) for name in room
        ))  # fmt: skip


def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a contiguous array."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


class _Layout(NamedTuple):
    """Offsets of the tables in the words that a run writes; the words that the host reads come first.

    Attributes:
        classes: K, for which there is room.
        labels: offset of the labels in the words that the host reads.
        words: of all tables.
    """

    classes: int
    labels: int
    positives: int
    offsets: int
    order: int
    precision: int
    recall: int
    scores: int
    words: int

    @classmethod
    def of(cls, choices: AccumulateChoices, guess: Guess, rows: int, means: int) -> _Layout:
        """Returns the layout of a run over ``rows`` detections."""
        classes = min(1, guess.labels) if choices.agnostic else guess.labels
        labels = len(Words._fields) + means
        curves = map(math.prod, choices.curve_shapes(classes).values())
        sizes = (labels, guess.labels, classes * choices.shape.areas, classes + 1, rows, *curves)
        return cls(classes, *itertools.accumulate(sizes))


class _Constants(NamedTuple):
    """Tables of a run that depend on its choices alone.

    Attributes:
        words: int64 on the host: the recall grid, the pick rows, their thresholds.
        unconditional: recall thresholds that are not above 0.
        picks: P.
        most: thresholds of the longest pick.
    """

    words: Rows
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
    return _Constants(words, int((thresholds <= 0).sum()), len(picks), most)


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
    means = len(choices.ties) * constants.picks
    layout = _Layout.of(choices, guess, len(records.detections), means)
    with launching(device) as stream:
        words, wanted = constant(constants.words, device), _wanted(choices.labels, device)
        out = records.images.new_empty(layout.words)
        at = functools.partial(_word, out.data_ptr())
        # AccumulateTask in csrc/cuda/accumulate.cu
        task = array("q", (
            *(table.data_ptr() for table in records), 0 if error is None else error.data_ptr(), *map(len, records),
            shape.thresholds, shape.areas, shape.limits, choices.agnostic, by_key, guess.wide, guess.labels,
            guess.slots, 0 if wanted is None else wanted.data_ptr(), 0 if wanted is None else guess.labels,
            at(0), *map(at, layout[1:5]),
            len(choices.recall_thresholds), constants.unconditional, choices.full, constants.picks, constants.most,
            words.data_ptr(), *map(at, layout[5:8]), at(len(Words._fields)), len(choices.ties), *choices.tie_codes,
        ))  # fmt: skip
        address, bytes_ = task.buffer_info()[0], ctypes.c_int64()
        native.function("valor_cuda", "valor_accumulate_workspace_cuda", "pp")(address, ctypes.addressof(bytes_))
        workspace = records.detections.new_empty(bytes_.value)
        native.function("valor_cuda", "valor_accumulate_cuda", "ppp")(address, workspace.data_ptr(), stream)
    return Enqueued(out, guess, choices, len(records.detections), means, (words, wanted, *records))


def _word(base: int, place: int) -> int:
    """Returns the address of a word."""
    return base + 8 * place
