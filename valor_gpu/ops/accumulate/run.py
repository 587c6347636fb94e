"""Enqueues one run of accumulation on CUDA: what it takes for granted, its constant tables, its native calls.

Design: docs/design/005-accumulation-on-cuda.md.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections import deque
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops._device_tables import constant
from valor_gpu.ops._launch import capturing, launching
from valor_gpu.ops.accumulate.types import AccumulateChoices, Curves

FIRST_CLASSES = 255
"""Classes that the first run on a device has room for."""
LEAST_CLASSES = 127
"""Classes that later runs have room for at least: those of COCO take no second run after a few images with less."""
CLASS_BUDGET = 96 << 20
"""Bytes of arrays that a run may guess it needs; one that knows how many classes there are takes what it needs."""
FIRST_SLOTS = 1 << 14
"""Size of the first table of labels: it tells how many labels there are while they are below half of it."""
classes_seen: dict[torch.device, deque[int]] = {}
"""How many classes each of the last runs on a device found: the next one guesses that there are no more."""
REMEMBERED = 8
"""So many runs."""

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
        seen = classes_seen.get(device)
        room = FIRST_CLASSES if seen is None else max(LEAST_CLASSES, (1 << max(seen).bit_length()) - 1)
        each = 1 if choices.agnostic else 8 * _plan_of(choices).class_numbers
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
        out: int64, all that the run writes, one table after another.
        layout: where the tables lie.
        guess: what the run takes for granted.
        choices: what is accumulated.
        means: how many.
        tables: what the run reads; they live as long as a graph that captured it needs them.
    """

    out: Tensor
    layout: _Layout
    guess: Guess
    choices: AccumulateChoices
    means: int
    tables: tuple[Tensor | None, ...]

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
    def of(cls, plan: _Plan, guess: Guess, rows: int) -> _Layout:
        """Returns the layout of a run over ``rows`` detections."""
        classes = min(1, guess.labels) if plan.agnostic else guess.labels
        labels = len(Words._fields) + plan.means
        positives = labels + guess.labels
        offsets = positives + classes * plan.areas
        order = offsets + classes + 1
        precision = order + rows
        recall = precision + classes * plan.precision
        scores = recall + classes * plan.recall
        return cls(
            classes, labels, positives, offsets, order, precision, recall, scores, scores + classes * plan.scores
        )


@dataclass(frozen=True)
class _Plan:
    """What a run takes from its choices alone, made once for each.

    Attributes:
        words: int64 on the host: the recall grid, the pick rows, their thresholds.
        tail: fields of the task between the words of the constants and the arrays.
        means: how many, of all orders of ties.
        ties: their codes.
        agnostic: as the choices have it.
        areas: A.
        precision: numbers of a class in that array; likewise ``recall`` and ``scores``.
        on_device: ``words`` on devices.
    """

    words: Rows
    tail: tuple[int, ...]
    means: int
    ties: tuple[int, ...]
    agnostic: bool
    areas: int
    precision: int
    recall: int
    scores: int
    on_device: dict[torch.device, Tensor] = field(default_factory=dict)

    @property
    def class_numbers(self) -> int:
        """How many numbers the arrays hold for each class."""
        return self.precision + self.recall + self.scores

    @classmethod
    def of(cls, choices: AccumulateChoices) -> _Plan:
        """Returns the plan of ``choices``."""
        thresholds = np.ascontiguousarray(choices.recall_thresholds, np.float64)
        grid, table = grid_table(thresholds), choices.pick_table()
        words = np.concatenate((grid, table.rows.reshape(-1), table.thresholds))
        picks, most = len(table.rows), int(table.rows[:, 4].max(initial=0))
        tail = (len(thresholds), int((thresholds <= 0).sum()), choices.full, picks, most)
        sizes = {name: math.prod(shape) for name, shape in choices.curve_shapes(1).items()}
        ties = tuple(choices.tie_codes)
        scores = sizes["scores"] if choices.full else 0
        return cls(
            words, tail, len(ties) * picks, ties, choices.agnostic, choices.shape.areas, sizes["precision"],
            sizes["recall"], scores,
        )  # fmt: skip

    def table_on(self, device: torch.device) -> Tensor:
        """Returns ``words`` on the device; a graph under capture keeps its own."""
        found = self.on_device.get(device)
        if found is None or capturing():
            found = constant(self.words, device)
            if not capturing():
                self.on_device[device] = found
        return found


_plans: WeakKeyDictionary[AccumulateChoices, _Plan] = WeakKeyDictionary()


def _plan_of(choices: AccumulateChoices) -> _Plan:
    found = _plans.get(choices)
    if found is None:
        found = _plans[choices] = _Plan.of(choices)
    return found


def _wanted(labels: NDArray[np.int64] | None, device: torch.device) -> Tensor | None:
    """Wanted labels and one word more: an empty tensor has no address, which says that all labels are wanted."""
    return None if labels is None else constant(np.append(labels, 0), device)


def grid_table(recall_thresholds: NDArray[np.float64]) -> Rows:
    """int64 ``[3 R + 1]``: ascending thresholds (float64 bits), their places, the least place from each one on."""
    places = np.argsort(recall_thresholds, kind="stable")
    least = np.minimum.accumulate(np.append(places, len(places))[::-1])[::-1]
    return np.concatenate((recall_thresholds[places].view(np.int64), places, least))


@functools.cache
def _task_words(ties: int) -> struct.Struct:
    """AccumulateTask in csrc/cuda/accumulate.cu, and the codes of its orders of ties."""
    return struct.Struct(f"{33 + ties}q")


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
    detections, ground_truths, images = records
    plan, shape, device, rows = _plan_of(choices), choices.shape, detections.device, detections.shape[0]
    layout = _Layout.of(plan, guess, rows)
    with launching(device) as stream:
        words, wanted = plan.table_on(device), _wanted(choices.labels, device)
        out = images.new_empty(layout.words)
        base = out.data_ptr()
        task = _task_words(len(plan.ties)).pack(
            detections.data_ptr(), ground_truths.data_ptr(), images.data_ptr(),
            0 if error is None else error.data_ptr(), rows, ground_truths.shape[0], images.shape[0], *shape,
            choices.agnostic, by_key, guess.wide, guess.labels,
            guess.slots, 0 if wanted is None else wanted.data_ptr(), 0 if wanted is None else guess.labels,
            base, base + 8 * layout.labels, base + 8 * layout.positives, base + 8 * layout.offsets,
            base + 8 * layout.order, *plan.tail, words.data_ptr(), base + 8 * layout.precision,
            base + 8 * layout.recall, base + 8 * layout.scores, base + 8 * len(Words._fields), len(plan.ties),
            *plan.ties,
        )  # fmt: skip
        bytes_ = ctypes.c_int64()
        native.function("valor_cuda", "valor_accumulate_workspace_cuda")(task, ctypes.addressof(bytes_))
        workspace = detections.new_empty(bytes_.value)
        native.function("valor_cuda", "valor_accumulate_cuda")(task, workspace.data_ptr(), stream)
    return Enqueued(out, layout, guess, choices, plan.means, (words, wanted, *records))
