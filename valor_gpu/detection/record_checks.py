"""Checks of detection records from elsewhere: what kernels index by, and what matching never leaves."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.ops.accumulate.record_rows import detection_scores, ground_truth_bit
from valor_gpu.ops.assign.match_batch import PADDING_BUCKET, MatchRule
from valor_gpu.state import check_elements

_HAS_ID, _DETECTIONS, _GROUND_TRUTHS, _NEGATIVE, _REACH = 1, 4, 5, slice(6, 7), slice(7, 8)


class RecordChoices(NamedTuple):
    """What records depend on.

    Attributes:
        rule: thresholds, area ranges and limits of the matching.
        boxes: whether boxes or similarities are kept.
        rematched: whether records of matching class by class are kept.
        parts: geometries whose records stand side by side.
        lowest: IoU from which on pairs of any class are kept; None: none are.
    """

    rule: MatchRule
    boxes: bool = False
    rematched: bool = False
    parts: int = 1
    lowest: float | None = None


def check_images(images: Tensor, detections: int, ground_truths: int) -> None:
    """Raises :class:`InputError` unless the rows that images count are those of the tables.

    Args:
        images: int64 ``[I, 8]``.
        detections: rows of the table of detections.
        ground_truths: rows of the table of ground truths.
    """
    has_id = images[:, _HAS_ID]
    check_elements("images", images, (has_id == 0) | (has_id == 1), "say by 0 or 1 in column 1 whether it has an id")
    for name, column, rows in (
        ("detections", _DETECTIONS, detections),
        ("ground_truths", _GROUND_TRUTHS, ground_truths),
    ):
        sizes = images[:, column]
        need = f"count from 0 to {rows} {name} in column {column}"
        check_elements("images", images, (sizes >= 0) & (sizes <= rows), need)
        if (total := int(sizes.sum())) != rows:
            raise InputError(f"state field {name} must have {total} rows, as images say, but has {rows}")
    negative, sizes = images[:, _NEGATIVE].contiguous().view(torch.int32), images[:, [_DETECTIONS, _GROUND_TRUTHS]]
    good = ((negative >= 0) & (negative <= sizes)).all(1)
    check_elements("images", images, good, "count at most the rows of the image in column 6")
    reach = images[:, _REACH].contiguous().view(torch.float32)
    check_elements("images", images, (reach >= 0).all(1), "hold two sizes in column 7")


def check_detections(name: str, rows: Tensor, rule: MatchRule) -> None:
    """Raises :class:`InputError` unless rows of detections have a score, a known limit and no spare bits.

    Args:
        name: the field.
        rows: uint8 ``[D, 13 + 2B]``.
        rule: thresholds, area ranges and limits of the matching.
    """
    check_elements(name, rows, ~detection_scores(rows).isnan(), "hold a score that is not NaN in bytes 0 to 7")
    limit, limits = rows[:, 12], rule.limits.shape[0]
    known = (limit <= limits) | (limit == PADDING_BUCKET)
    check_elements(name, rows, known, f"hold a limit from 0 to {limits}, or {PADDING_BUCKET}, in byte 12")
    settings, size = rule.thresholds.shape[0] * rule.area_ranges.shape[0], rule.setting_bytes
    spare = 0xFF & ~((1 << (settings - 8 * (size - 1))) - 1)
    clean = ((rows[:, 12 + size] | rows[:, 12 + 2 * size]) & spare) == 0
    check_elements(name, rows, clean, f"have no bits beyond the {settings} settings")


def check_ground_truths(rows: Tensor, areas: int) -> None:
    """Raises :class:`InputError` unless every row of ground truths counts, is ignored or is padding.

    Args:
        rows: uint8 ``[G, 4 + ceil((A + 2) / 8)]``.
        areas: A.
    """
    real, ignored = real_rows(rows, areas), ground_truth_bit(rows, areas + 1)
    counts, spare = torch.zeros_like(real), torch.zeros_like(real)
    for index in range(areas):
        counts |= ground_truth_bit(rows, index)
    for index in range(areas + 2, 8 * (rows.shape[1] - 4)):
        spare |= ground_truth_bit(rows, index)
    good = ~spare & (real | ~(ignored | counts)) & ~(ignored & counts)
    check_elements("ground_truths", rows, good, "hold the bits of one that counts, is ignored or is padding")


def real_rows(rows: Tensor, areas: int) -> Tensor:
    """Which rows of ground truths are no padding, bool ``[G]``."""
    return ground_truth_bit(rows, areas)


def check_boxes(name: str, boxes: Tensor, real: Tensor, crowd: bool) -> None:
    """Raises :class:`InputError` unless boxes of rows that are no padding are finite, and crowd flags 0 or 1.

    Args:
        name: the field.
        boxes: float64 ``[N, W]``, or ``[N, W + 1]`` with a crowd flag.
        real: bool ``[N]``, which rows are no padding.
        crowd: whether the last column is a crowd flag.
    """
    good = boxes.isfinite().all(1)
    if crowd:
        good &= (boxes[:, -1] == 0) | (boxes[:, -1] == 1)
    check_elements(name, boxes, good | ~real, "be finite, with a crowd flag of 0 or 1")
