"""Accumulates detection records on CUDA: everything is enqueued at once, and one copy brings the numbers back.

How many labels there are, whether an image came twice and whether float32 holds the scores is not known on the host.
So a run guesses, the kernels say whether the guess holds, and only where it does not does another run follow.
Design: docs/design/005-accumulation-on-cuda.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import check_not_capturing, launching
from valor_gpu.ops.accumulate.run import REMEMBERED, Enqueued, Guess, Records, Rows, Words, classes_seen, enqueue
from valor_gpu.ops.accumulate.types import AccumulateChoices, Accumulated, Curves, Ordered, RecordShape, Totals

MOST_ROWS = 2**31 - 1
_DETECTIONS, _GROUND_TRUTHS = 4, 5  # columns of the images table: rows in the other tables


def accumulate(
    detections: Tensor,
    ground_truths: Tensor,
    images: Tensor,
    choices: AccumulateChoices,
    choose_images: Callable[[Rows, bool], Rows],
    error: Tensor | None = None,
    raise_error: Callable[[int], None] | None = None,
) -> Accumulated:
    """Accumulated detections of tables on one CUDA device; see :func:`valor_gpu.ops.accumulate.op.accumulate`.

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
    check_not_capturing("compute reads numbers back and must not run")
    records = Records(*(tensor.contiguous() for tensor in (detections, ground_truths, images)))
    _check(records, choices.shape)
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
            raise _rows_error()
        if words.repeated and chosen is None:
            chosen = _Chosen.of(records, choose_images(records.images.cpu().numpy(), choices.by_key))
            continue
        if (again := guess.corrected(words)) is None:
            _note(run, words)
            kept = len(records.images if chosen is None else chosen.records.images)
            rows = None if chosen is None else chosen.rows
            return _Found(run, words, head, kept, len(records.images) - kept, rows)
        guess = again


def _check(records: Records, shape: RecordShape) -> None:
    row, gt_row, columns = shape.columns
    expected = [(torch.uint8, row), (torch.uint8, gt_row), (torch.int64, columns)]
    if [(table.dtype, *table.shape[1:]) for table in records] != expected:
        shape.check_tables(*records)  # raises
    check_same_device(Records._fields, records)
    detections, ground_truths, images = (table.shape[0] for table in records)
    if max(detections, ground_truths, images) > MOST_ROWS:
        name, rows = next((name, len(table)) for name, table in records._asdict().items() if len(table) > MOST_ROWS)
        raise InputError(f"{name} must hold at most {MOST_ROWS} rows but holds {rows}")
    if images == 0 and detections:
        raise _rows_error()


def _rows_error() -> InputError:
    return InputError("images must name all rows of detections and ground_truths but name others")


# ---------------------------------------------------------------------------------------------------- what came of it


def _read(run: Enqueued) -> tuple[Words, Rows]:
    """What the kernels report, and all that the host reads: the one place that waits."""
    size = run.layout.positives  # what lies before them
    host = torch.empty(size, dtype=torch.int64, pin_memory=run.out.is_cuda)
    with launching(run.out.device) as stream:
        native.function("valor_cuda", "valor_read_back_cuda")(host.data_ptr(), run.out.data_ptr(), 8 * size, stream)
    head: Rows = host.numpy().copy()  # pinned memory goes back at once
    return Words(*head[: len(Words._fields)].tolist()), head


class _Found(Accumulated):
    """What a run found. Tensors are made when somebody asks: a few numbers need none of those on the device."""

    _run: Enqueued
    _head: Rows
    _labels: int
    _classes: int
    _rows: Tensor | None

    def __init__(self, run: Enqueued, words: Words, head: Rows, kept: int, left_out: int, rows: Tensor | None) -> None:
        reach = np.array([words.detections_reach, words.ground_truths_reach], np.int32).view(np.float32)
        totals = Totals(
            kept, left_out, words.detections, words.ground_truths, words.ignored, words.within_limits,
            words.negative_detections, words.negative_ground_truths, *reach.tolist(),
        )  # fmt: skip
        labels = words.labels if run.choices.labels is None else run.guess.labels
        classes = min(1, labels) if run.choices.agnostic else labels
        vars(self).update(totals=totals, _run=run, _head=head, _labels=labels, _classes=classes, _rows=rows)

    @cached_property
    def labels(self) -> Tensor:
        first = self._run.layout.labels
        return torch.from_numpy(self._head[first : first + self._labels])

    @cached_property
    def means(self) -> Tensor:
        layout, ties = self._run.layout, self._run.choices.ties
        means = self._head[len(Words._fields) : layout.labels].view(np.float64)
        return torch.from_numpy(means.reshape(len(ties), -1))

    @cached_property
    def positives(self) -> Tensor:
        return self._run.positives_of(self._classes)

    @cached_property
    def ordered(self) -> Ordered:
        order = self._run.order_of(self.totals.within_limits)
        return Ordered(order if self._rows is None else self._rows[order], self._run.offsets_of(self._classes))

    @cached_property
    def curves(self) -> Curves:
        return self._run.curves_of(self._classes)


def _note(run: Enqueued, words: Words) -> None:
    """The next run on the device will have room for as many classes."""
    found = words.labels if run.choices.labels is None else run.guess.labels
    classes_seen.setdefault(run.out.device, deque(maxlen=REMEMBERED)).append(found)


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
            to_device(torch.from_numpy(_rows_of(images, table[:, column], len(rows))), device)
            for column, rows in ((_DETECTIONS, records.detections), (_GROUND_TRUTHS, records.ground_truths))
        )
        chosen = to_device(torch.from_numpy(np.ascontiguousarray(images, np.int64)), device)
        tables = records.detections[detections], records.ground_truths[ground_truths], records.images[chosen]
        return cls(Records(*tables), detections)


def _rows_of(images: Rows, lengths: Rows, total: int) -> Rows:
    """The rows of some images, one image after another, in a table of ``total`` rows."""
    if (lengths < 0).any() or lengths.sum() != total:
        raise _rows_error()
    starts, counts = (np.cumsum(lengths) - lengths)[images], lengths[images]
    before = np.cumsum(counts) - counts
    rows: Rows = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return rows
