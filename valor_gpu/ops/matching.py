"""COCO greedy matching of ragged batches of boxes, in all thresholds and area ranges at once.

Definition: pycocotools ``COCOeval.evaluateImg`` (Dollar and Lin, 2015). Row layouts of the outputs:
docs/design/001-detection-records.md.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.ops import _matching_cuda, _matching_reference
from valor_gpu.ops._launch import cpp, cuda
from valor_gpu.ops._library import register
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, raise_error

PADDING_BUCKET = 255
IMAGE_COLUMNS = (
    "ID", "HAS_ID", "TRUTH_HASH", "RECORD_HASH", "DETECTIONS", "TRUTHS",
    "NEGATIVE_SIZES", "REACHES",
)  # fmt: skip
CROWD, IGNORED, ID_ZERO = 1, 2, 4
FREE = 1
AGNOSTIC, HASHED, CHECK_SCORES, USER_INPUT, WANT_MATCHES = 1, 2, 4, 8, 16

MAX_ROWS = 2**31 - 1
"""Most detections and ground truths of an image: kernels number them in 32 bits."""

_LISTS = ("boxes", "scores", "labels", "areas", "flags", "true_boxes", "true_labels", "true_flags", "true_areas",
          "counts", "image_ids")  # fmt: skip
_WIDTHS = (4, 1, 1, 1, 1, 4, 1, 1, 1)  # values per row of the first nine

Words = bytes | NDArray[np.int64]


@dataclass(frozen=True)
class MatchRule:
    """The choices of a matching run.

    Attributes:
        thresholds: float64 ``[T]`` IoU thresholds on the CPU, any order, lowered to ``1 - 1e-10`` as cocoeval does.
        area_ranges: float64 ``[A, 2]`` on the CPU, square pixels, both ends included.
        limits: int64 ``[M]`` ascending max-detection limits on the CPU, 1 <= M < 255.
        options: a sum of ``AGNOSTIC``, ``HASHED``, ``CHECK_SCORES``, ``USER_INPUT`` and ``WANT_MATCHES``.
    """

    thresholds: Tensor
    area_ranges: Tensor
    limits: Tensor
    options: int = 0

    @classmethod
    def make(
        cls,
        thresholds: Sequence[float],
        area_ranges: Sequence[Sequence[float]],
        limits: Sequence[int],
        options: int = 0,
    ) -> MatchRule:
        """Builds a rule from numbers; raises :class:`InputError` on empty, unsorted or non-finite ones."""
        ious = torch.as_tensor(thresholds, dtype=torch.float64).reshape(-1)
        areas = torch.as_tensor(area_ranges, dtype=torch.float64)
        tops = torch.as_tensor(limits, dtype=torch.int64).reshape(-1)
        if ious.numel() == 0 or not bool(ious.isfinite().all()):
            raise InputError(f"iou_thresholds must hold at least one finite number but got {list(thresholds)}")
        if areas.ndim != 2 or areas.shape[0] == 0 or areas.shape[1] != 2 or bool(areas.isnan().any()):
            raise InputError(f"area_ranges must be pairs [low, high] but got {area_ranges}")
        if not 0 < tops.numel() < PADDING_BUCKET or tops.tolist() != sorted(tops.tolist()) or int(tops[0]) < 0:
            raise InputError(
                f"max_detection limits must be 1 to {PADDING_BUCKET - 1} ascending numbers but got {len(limits)}:"
                f" {list(limits)[:8]}"
            )
        return cls(ious.clamp(max=1 - 1e-10), areas.contiguous(), tops, options)

    @property
    def lane_bytes(self) -> int:
        """Bytes of one bit field: ceil(T * A / 8)."""
        return (self.thresholds.shape[0] * self.area_ranges.shape[0] + 7) // 8

    @property
    def detection_bytes(self) -> int:
        """Bytes of a row of ``detections``."""
        return 13 + 2 * self.lane_bytes

    @property
    def truth_bytes(self) -> int:
        """Bytes of a row of ``truths``."""
        return 4 + (self.area_ranges.shape[0] + 2 + 7) // 8


@dataclass(frozen=True)
class DetectionBatch:
    """Images whose boxes are to be matched: every list holds one tensor per image, or one tensor for all images.

    Attributes:
        boxes: ``[D_i, 4]`` floating, contiguous, one dtype; likewise ``true_boxes`` ``[G_i, 4]``.
        scores: ``[D_i]`` floating.
        labels: ``[D_i]`` integer; likewise ``true_labels`` ``[G_i]``.
        lengths: int64 ``[2, I]`` on the CPU: D_i, then G_i.
        true_flags: empty, or ``[G_i]`` integer: 0 or ``CROWD`` (with ``USER_INPUT``), else sums of the truth flags.
        true_areas: empty, or ``[G_i]`` floating, square pixels.
        areas: empty, or ``[D_i]`` float64 areas of the detections, else width x height.
        flags: empty, or ``[D_i]`` uint8: ``FREE``.
        image_ids: empty, or one int64 ``[I]`` CPU tensor, or I one-element int64 tensors.
        counts: int64 ``[I]`` valid rows of padded detections, on the device; likewise ``true_counts``.
        box_format: code of the format, see ``ops.native_types.BOX_FORMATS``; likewise ``true_box_format``.
    """

    boxes: list[Tensor]
    scores: list[Tensor]
    labels: list[Tensor]
    true_boxes: list[Tensor]
    true_labels: list[Tensor]
    lengths: Tensor
    true_flags: list[Tensor] = field(default_factory=list)
    true_areas: list[Tensor] = field(default_factory=list)
    areas: list[Tensor] = field(default_factory=list)
    flags: list[Tensor] = field(default_factory=list)
    image_ids: list[Tensor] = field(default_factory=list)
    counts: Tensor | None = None
    true_counts: Tensor | None = None
    box_format: int = 0
    true_box_format: int = 0


class Matched(NamedTuple):
    """What matching leaves: three row tables, matches int32 ``[D, L]`` when wanted (-1: none), and an error code."""

    detections: Tensor
    truths: Tensor
    images: Tensor
    matches: Tensor
    error: Tensor


def match_boxes(batch: DetectionBatch, rule: MatchRule) -> Matched:
    """Matches the detections of every image against its ground truths.

    Detections of an (image, label) cell are taken by descending score, then input order. In each lane one takes the
    free ground truth of largest IoU at or above the threshold, the later on ties; ground truths that count come
    before ignored ones; a crowd may be matched again. IoU is float64 ``intersection / union`` of xywh boxes, converted
    in the dtype of the boxes but at least float32; against a crowd it is intersection over detection area.

    Args:
        batch: the images, validated for shape by the caller.
        rule: thresholds, area ranges, limits and options.

    Returns:
        Row tables of detections, truths and images.

    Raises:
        InputError: on CPU tensors, for the first row whose values cannot be matched. On CUDA the error code is
            returned instead, since reading it would wait for the device.
    """
    matched = Matched(
        *_OP(
            batch.boxes, batch.scores, batch.labels, batch.areas, batch.flags, batch.true_boxes, batch.true_labels,
            batch.true_flags, batch.true_areas, batch.image_ids, batch.counts, batch.true_counts, batch.lengths,
            rule.thresholds, rule.area_ranges, rule.limits, [batch.box_format, batch.true_box_format], rule.options,
        )
    )  # fmt: skip
    if not matched.error.is_cuda:
        raise_error(matched.error, describe_box)
    return matched


def _allocate(like: Tensor, rows: tuple[Any, Any, int], thresholds: int, areas: int, options: int) -> Matched:
    """Output tensors on the device of ``like`` for so many detections, truths and images; error is not set."""
    detections, truths, images = rows
    lanes = thresholds * areas
    new, byte = like.new_empty, torch.uint8
    matches = new((detections if options & WANT_MATCHES else 0, lanes), dtype=torch.int32)
    return Matched(
        new((detections, 13 + 2 * ((lanes + 7) // 8)), dtype=byte),
        new((truths, 4 + (areas + 9) // 8), dtype=byte),
        new((images, len(IMAGE_COLUMNS)), dtype=torch.int64),
        matches.fill_(-1) if options & WANT_MATCHES else matches,
        new((), dtype=torch.int64),
    )


def _check_sizes(rows: tuple[int, int, int], lengths: Tensor) -> None:
    """Raises unless every image has fewer rows than 32 bits can number; images are looked at only where one might."""
    if rows[0] + rows[1] > MAX_ROWS and (largest := int(lengths.sum(0).max())) > MAX_ROWS:
        raise InputError(f"an image must have at most {MAX_ROWS} detections and ground truths but one has {largest}")


def _by_value(image_ids: list[Tensor]) -> bool:
    """Whether the ids are one CPU tensor, to be read here, not tensors whose addresses a kernel reads."""
    return len(image_ids) == 1 and not image_ids[0].is_cuda


def segment_table(
    lists: Sequence[list[Tensor]], image_ids: list[Tensor], counts: Sequence[Tensor | None], lengths: Tensor
) -> Words:
    """The Segment table of csrc/core/matching.h, field by field, as int64 words.

    Python integers are the fastest way for a batch of a training loop, whose tensors are many and small; numpy for one
    tensor of thousands of images.
    """
    by_value = _by_value(image_ids)
    if any(len(tensors) == lengths.shape[1] > 1 for tensors in lists):
        return _table_of_tensors(lists, image_ids, by_value, lengths)
    sizes = lengths.numpy()
    firsts = np.cumsum(sizes, axis=1) - sizes
    table = np.zeros((18, lengths.shape[1]), np.int64)
    starts = [firsts[0]] * 5 + [firsts[1]] * 4
    for row, (tensors, start, width) in enumerate(zip(lists, starts, _WIDTHS)):
        if tensors:
            table[row] = tensors[0].data_ptr() + start * (tensors[0].element_size() * width)
    every = 8 * np.arange(lengths.shape[1])
    if by_value:
        table[9] = image_ids[0].numpy()
    elif image_ids:
        table[10] = image_ids[0].data_ptr() + every
    table[11] = bool(image_ids)
    for row, count in zip((14, 15), counts):
        if count is not None:
            table[row] = count.data_ptr() + every
    table[12:14], table[16:18] = sizes, firsts
    return table


def _table_of_tensors(lists: Sequence[list[Tensor]], image_ids: list[Tensor], by_value: bool, lengths: Tensor) -> Words:
    sizes = lengths.tolist()
    images = len(sizes[0])
    zeros = [0] * images
    firsts = [[0, *accumulate(size)][:images] for size in sizes]
    words: list[int] = []
    for row, (tensors, width) in enumerate(zip(lists, _WIDTHS)):
        if len(tensors) == images:
            words += map(Tensor.data_ptr, tensors)
        elif tensors:
            base, step = tensors[0].data_ptr(), tensors[0].element_size() * width
            words += [base + step * first for first in firsts[row > 4]]
        else:
            words += zeros
    words += image_ids[0].tolist() if by_value else zeros
    words += zeros if by_value or not image_ids else map(Tensor.data_ptr, image_ids)
    words += [int(bool(image_ids))] * images + sizes[0] + sizes[1] + zeros + zeros + firsts[0] + firsts[1]
    return struct.pack(f"{len(words)}q", *words)


def address(words: Words) -> int | bytes:
    """What ctypes takes as the address of ``words``."""
    return words if isinstance(words, bytes) else words.ctypes.data


def rule_words(rule: Sequence[Tensor], formats: list[int], options: int, lists: Sequence[list[Tensor]]) -> bytes:
    """The Rule of csrc/core/matching.h: addresses and sizes of ``rule``, formats, options and dtype codes."""
    boxes, scores, labels, _, _, true_boxes, true_labels, true_flags, true_areas = lists

    def code(tensors: list[Tensor], codes: dict[torch.dtype, int]) -> int:
        return codes[tensors[0].dtype] if tensors else 0

    words = [word for tensor in rule for word in (tensor.data_ptr(), tensor.shape[0])]
    words += [*formats, options, code(boxes, FLOAT_TYPES), code(scores, FLOAT_TYPES), code(labels, INT_TYPES)]
    words += [code(true_boxes, FLOAT_TYPES), code(true_labels, INT_TYPES), code(true_flags, INT_TYPES)]
    words.append(code(true_areas, FLOAT_TYPES))
    return struct.pack(f"{len(words)}q", *words)


def _match_boxes_cpu(
    boxes: list[Tensor], scores: list[Tensor], labels: list[Tensor], areas: list[Tensor], flags: list[Tensor],
    true_boxes: list[Tensor], true_labels: list[Tensor], true_flags: list[Tensor], true_areas: list[Tensor],
    image_ids: list[Tensor], counts: Tensor | None, true_counts: Tensor | None, lengths: Tensor,
    thresholds: Tensor, area_ranges: Tensor, limits: Tensor, formats: list[int], options: int,
) -> Matched:  # fmt: skip
    lists = [_whole(x) for x in (boxes, scores, labels, areas, flags, true_boxes, true_labels, true_flags, true_areas)]
    ids = _whole([x.reshape(-1) for x in image_ids]) if len(image_ids) > 1 else image_ids
    lengths = lengths.contiguous()
    rows = (sum(map(len, lists[2])), sum(map(len, lists[6])), lengths.shape[1])
    _check_sizes(rows, lengths)
    out = _allocate(lengths, rows, thresholds.shape[0], area_ranges.shape[0], options)
    batch = [x[0].data_ptr() if x else 0 for x in lists]
    batch += [x[0].element_size() * width if x else 0 for x, width in zip(lists, _WIDTHS)]
    batch += [lengths.data_ptr(), ids[0].data_ptr() if ids else 0]
    batch += [0 if count is None else count.data_ptr() for count in (counts, true_counts)]
    native.function("valor_cpu", "valor_match_boxes_cpu", "pqppppppq")(
        struct.pack("22q", *batch), lengths.shape[1],
        rule_words((thresholds, area_ranges, limits), formats, options, lists), out.detections.data_ptr(),
        out.truths.data_ptr(), out.images.data_ptr(), out.matches.data_ptr(), out.error.data_ptr(),
        torch.get_num_threads(),
    )  # fmt: skip
    return out


def _whole(tensors: list[Tensor]) -> list[Tensor]:
    """One tensor for all images, or none."""
    return [torch.cat([t.reshape(-1, 4) if t.ndim == 2 else t for t in tensors])] if len(tensors) > 1 else tensors


def _match_boxes_cuda(*arguments: Any) -> Matched:
    lists: tuple[list[Tensor], ...] = arguments[:9]
    image_ids, counts, true_counts, lengths, thresholds, area_ranges, limits, formats, options = arguments[9:]
    padded = [count for count in (counts, true_counts) if count is not None]
    ids = [] if _by_value(image_ids) else image_ids
    _matching_cuda.check_one_device(dict(zip(_LISTS, (*lists, padded, ids))))
    rows = (sum(map(len, lists[2])), sum(map(len, lists[6])), lengths.shape[1])
    _check_sizes(rows, lengths)
    out = _allocate(lists[0][0], rows, thresholds.shape[0], area_ranges.shape[0], options)
    out.error.fill_(NO_ERROR)
    table = segment_table(lists, image_ids, (counts, true_counts), lengths)
    numbers = (thresholds, area_ranges, limits)
    words = rule_words(numbers, formats, options, lists)
    _matching_cuda.launch(table, address(table), lengths.shape[1], words, numbers, out)
    return out


def _match_boxes_fake(*arguments: object) -> Matched:
    lengths, thresholds, area_ranges = arguments[12:15]
    assert isinstance(lengths, Tensor) and isinstance(thresholds, Tensor) and isinstance(area_ranges, Tensor)
    assert isinstance(arguments[17], int)
    context = torch.library.get_ctx()
    rows = (context.new_dynamic_size(), context.new_dynamic_size(), lengths.shape[1])
    return _allocate(lengths, rows, thresholds.shape[0], area_ranges.shape[0], arguments[17])


_OP = register(
    "match_boxes(Tensor[] boxes, Tensor[] scores, Tensor[] labels, Tensor[] areas, Tensor[] flags, Tensor[] true_boxes,"
    " Tensor[] true_labels, Tensor[] true_flags, Tensor[] true_areas, Tensor[] image_ids, Tensor? counts,"
    " Tensor? true_counts, Tensor lengths, Tensor thresholds, Tensor area_ranges, Tensor limits, int[] formats,"
    " int options) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    reference=_matching_reference.match_boxes,
    fake=_match_boxes_fake,
    cpu=cpp(_match_boxes_cpu),
    cuda=cuda(_match_boxes_cuda),
)
