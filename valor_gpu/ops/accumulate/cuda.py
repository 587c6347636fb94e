"""Accumulates detection records on CUDA: everything is enqueued at once, and one copy brings the numbers back.

How many labels there are, whether an image came twice and whether float32 holds the scores is not known on the host.
So a run guesses, the kernels say whether the guess holds, and only where it does not does another run follow.
Design: docs/design/005-accumulation-on-cuda.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import check_not_capturing, launching
from valor_gpu.ops.accumulate.run import Enqueued, Guess, Records, Rows, Words, classes_seen, enqueue
from valor_gpu.ops.accumulate.types import AccumulateChoices, Accumulated, Ordered, Totals

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
    choices.shape.check_tables(detections, ground_truths, images)
    check_not_capturing("compute reads numbers back and must not run")
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
            raise _rows_error()
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
        raise _rows_error()


def _rows_error() -> InputError:
    return InputError("images must name all rows of detections and ground_truths but name others")


# ---------------------------------------------------------------------------------------------------- what came of it


def _read(run: Enqueued) -> tuple[Words, Rows]:
    """What the kernels report, and all that the host reads: the one place that waits."""
    size = run.layout.positives  # what lies before them
    host = torch.empty(size, dtype=torch.int64, pin_memory=run.out.is_cuda)
    with launching(run.out.device) as stream:
        native.function("valor_cuda", "valor_read_back_cuda", "ppqp")(
            host.data_ptr(), run.out.data_ptr(), 8 * size, stream
        )
    head: Rows = host.numpy()
    return Words(*head[: len(Words._fields)].tolist()), head


def _result(
    run: Enqueued, words: Words, head: Rows, choices: AccumulateChoices, images: int, chosen: _Chosen | None
) -> Accumulated:
    start = len(Words._fields)
    found = words.labels if choices.labels is None else run.guess.labels
    device = run.out.device
    classes_seen[device] = max(found, classes_seen.get(device, 0))
    classes = min(1, found) if choices.agnostic else found
    means = head[start : start + run.means].view(np.float64).reshape(len(choices.ties), -1)
    labels = head[start + run.means : start + run.means + found].copy()
    order = run.order_of(words.within_limits)
    kept = images if chosen is None else len(chosen.records.images)
    reach = np.array([words.detections_reach, words.ground_truths_reach], np.int32).view(np.float32)
    return Accumulated(
        labels=torch.from_numpy(labels),
        positives=run.positives_of(classes),
        totals=Totals(
            kept, images - kept, words.detections, words.ground_truths, words.ignored, words.within_limits,
            words.negative_detections, words.negative_ground_truths, *reach.tolist(),
        ),
        ordered=Ordered(order if chosen is None else chosen.rows[order], run.offsets_of(classes)),
        curves=run.curves_of(classes),
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
