"""Outcomes of detections by class, bin of the score and setting, added to tables of a fixed size.

Row layouts: docs/design/001-detection-records.md. Design: docs/design/036-binned-detections.md.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_int, check_number, check_same_device, check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import disabled, register
from valor_gpu.ops.accumulate.record_rows import detection_scores

HITS, COUNTED = 0, 1
"""Rows of a bin."""

MAX_OCTAVES, MAX_BITS = 64, 12

_Arguments = tuple[Tensor, Tensor, Tensor, Tensor, int, int]


def bin_count(octaves: int, bits: int) -> int:
    """B, how many bins there are.

    Args:
        octaves: powers of two below 1 that have bins of their own: scores under 2^-octaves share bin 0.
        bits: every power of two has 2^bits bins; scores of 1 and above share the last one.
    """
    return (octaves << bits) + 2


def count_outcomes(
    detections: Tensor, classes: Tensor, counts: Tensor, recalled: Tensor, octaves: int, bits: int
) -> tuple[Tensor, Tensor]:
    """Adds the outcomes of detections to two tables, and returns the sums.

    Args:
        detections: uint8 ``[D, 13 + 2 ceil(S / 8)]``, rows that matching leaves.
        classes: int32 ``[D]``, the class of each row; a negative one counts nowhere, nor does a row beyond every
            max-detection limit.
        counts: int64 ``[C, B, 2, S]``: in each setting ``HITS``, the true positives, and ``COUNTED``, true and false
            positives, of the bin of the score; B as :func:`bin_count` says.
        recalled: int64 ``[C, M, S]``: true positives by the first max-detection limit that they are within.
        octaves: from 1 to 64.
        bits: from 0 to 12.

    Returns:
        ``counts`` and ``recalled`` with the detections, in fresh memory.

    Raises:
        InputError: on another shape, dtype or device.

    Example:
        >>> score = torch.tensor([0.75], dtype=torch.float64).view(torch.uint8)
        >>> row = torch.cat((score, torch.tensor([0, 0, 0, 0, 0, 1, 0], dtype=torch.uint8)))[None]  # matched
        >>> tables = torch.zeros((1, bin_count(1, 0), 2, 1)).long(), torch.zeros((1, 1, 1)).long()
        >>> counts, recalled = count_outcomes(row, torch.zeros(1, dtype=torch.int32), *tables, 1, 0)
        >>> counts[0, :, HITS, 0]  # below 0.5, from 0.5 on, from 1 on
        tensor([0, 1, 0])
    """
    arguments = _checked(detections, classes, counts, recalled, octaves, bits)
    return _OP(*arguments)  # type: ignore[no-any-return]


class Addition:
    """Adds outcomes to tables in place, as :func:`count_outcomes` does to copies of them, and can take them back.

    Args:
        detections: as of :func:`count_outcomes`.
        classes: likewise.
        counts: likewise, contiguous.
        recalled: likewise, contiguous.
        octaves: likewise.
        bits: likewise.

    Raises:
        InputError: on another shape, dtype, device or layout.
    """

    def __init__(
        self, detections: Tensor, classes: Tensor, counts: Tensor, recalled: Tensor, octaves: int, bits: int
    ) -> None:
        self._arguments = _checked(detections, classes, counts, recalled, octaves, bits)
        if not (counts.is_contiguous() and recalled.is_contiguous()):
            raise InputError("counts and recalled must be contiguous but are not")
        self._statuses: list[int] = []

    def run(self) -> None:
        """Adds."""
        on_cuda = self._arguments[0].is_cuda
        available = native.available("valor_cuda" if on_cuda else "valor_cpu")
        if available and not (on_cuda and disabled("count_outcomes")):
            (_add_cuda if on_cuda else _add_cpu)(*self._arguments, statuses=self._statuses)
        else:
            _add_reference(*self._arguments)
            self._statuses.append(0)

    def undo(self) -> None:
        """Takes back what :meth:`run` added, if it did, wherever it was interrupted."""
        if self._statuses == [0]:
            detections, classes, counts, recalled, octaves, bits = self._arguments
            zeros = torch.zeros_like(counts), torch.zeros_like(recalled)
            added = count_outcomes(detections, classes, *zeros, octaves, bits)
            self._statuses.clear()
            counts -= added[0]
            recalled -= added[1]


def _checked(
    detections: Tensor, classes: Tensor, counts: Tensor, recalled: Tensor, octaves: int, bits: int
) -> _Arguments:
    for name, value, most in (("octaves", octaves, MAX_OCTAVES), ("bits", bits, MAX_BITS)):
        check_int(name, value, int(name == "octaves"))
        check_number(name, value, 0, most)
    check_shape("counts", counts, (None, bin_count(octaves, bits), 2, None))
    settings = counts.shape[3]
    check_shape("recalled", recalled, (counts.shape[0], None, settings))
    check_shape("detections", detections, (None, 13 + 2 * -(-settings // 8)))
    check_shape("classes", classes, (len(detections),))
    tensors = {"detections": detections, "classes": classes, "counts": counts, "recalled": recalled}
    for (name, tensor), dtype in zip(tensors.items(), (torch.uint8, torch.int32, torch.int64, torch.int64)):
        check_dtype(name, tensor, (dtype,))
    check_same_device(tuple(tensors), tuple(tensors.values()))
    return detections, classes, counts, recalled, octaves, bits


def _bins(scores: Tensor, octaves: int, bits: int) -> Tensor:
    """The bin of each float64 score: the bits of positive floats, as integers, have their order."""
    above = scores.view(torch.int64).clamp(min=0) - ((1023 - octaves) << 52)
    return torch.where(above < 0, 0, 1 + (above >> (52 - bits))).clamp(max=bin_count(octaves, bits) - 1)


def _bits_of(field: Tensor, settings: int) -> Tensor:
    """int64 ``[D, S]``: 0 and 1 of a bit field ``[D, B]``."""
    shifts = torch.arange(8, device=field.device)
    return (field[:, :, None].long() >> shifts & 1).flatten(1)[:, :settings]


def _add_reference(
    detections: Tensor, classes: Tensor, counts: Tensor, recalled: Tensor, octaves: int, bits: int
) -> None:
    size, bucket = -(-counts.shape[3] // 8), detections[:, 12].long()
    kept = (classes >= 0) & (classes < counts.shape[0]) & (bucket < recalled.shape[1])
    rows, k = detections[kept], classes[kept].long()
    counted = 1 - _bits_of(rows[:, 13 + size :], counts.shape[3])
    hits = _bits_of(rows[:, 13 : 13 + size], counts.shape[3]) * counted
    cells = k * counts.shape[1] + _bins(detection_scores(rows), octaves, bits)
    counts.view(-1, *counts.shape[2:]).index_add_(0, cells, torch.stack((hits, counted), 1))
    recalled.view(-1, recalled.shape[2]).index_add_(0, k * recalled.shape[1] + bucket[kept], hits)


def _words(arguments: _Arguments) -> bytes:
    """The OutcomeTask of csrc/core/score_bins.h."""
    detections, classes, counts, recalled, octaves, bits = arguments
    return struct.pack(
        "10q", detections.data_ptr(), classes.data_ptr(), len(detections), counts.shape[0], *recalled.shape[1:],
        octaves, bits, counts.data_ptr(), recalled.data_ptr(),
    )  # fmt: skip


def _add_cpu(detections: Tensor, classes: Tensor, *rest: Any, statuses: list[int] | None = None) -> None:
    add = native.once_function("valor_cpu", "valor_count_outcomes_cpu", "p")
    arguments = (detections.contiguous(), classes.contiguous(), *rest)
    add([_words(arguments)], [] if statuses is None else statuses)


def _add_cuda(detections: Tensor, classes: Tensor, *rest: Any, statuses: list[int] | None = None) -> None:
    add = native.once_function("valor_cuda", "valor_count_outcomes_cuda", "pp")
    with launching(detections.device) as stream:
        arguments = (detections.contiguous(), classes.contiguous(), *rest)
        add([_words(arguments), stream], [] if statuses is None else statuses)


def _on_copies(add: Callable[..., None]) -> Callable[..., tuple[Tensor, Tensor]]:
    @functools.wraps(add)
    def added(
        detections: Tensor, classes: Tensor, counts: Tensor, recalled: Tensor, octaves: int, bits: int
    ) -> tuple[Tensor, Tensor]:
        tables = [table.clone(memory_format=torch.contiguous_format) for table in (counts, recalled)]
        add(detections, classes, *tables, octaves, bits)
        return tables[0], tables[1]

    return added


def _count_outcomes_fake(
    detections: Tensor, classes: Tensor, counts: Tensor, recalled: Tensor, octaves: int, bits: int
) -> tuple[Tensor, Tensor]:
    return counts.new_empty(counts.shape), recalled.new_empty(recalled.shape)


_count_outcomes_cuda = _on_copies(_add_cuda)
_OP = register(
    "count_outcomes(Tensor detections, Tensor classes, Tensor counts, Tensor recalled, int octaves, int bits)"
    " -> (Tensor, Tensor)",
    reference=_on_copies(_add_reference),
    fake=_count_outcomes_fake,
    cpu=cpp(_on_copies(_add_cpu)),
    cuda=cuda(_count_outcomes_cuda),
)
