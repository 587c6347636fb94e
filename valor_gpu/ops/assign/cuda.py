"""Launches ``assign`` on CUDA: tables of images in kernel parameters, constants that stay on the device, workspace.

Everything here can be captured in a CUDA graph: nothing synchronises with the device or pins memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops import _device_tables
from valor_gpu.ops._launch import launching
from valor_gpu.ops.assign import cpu as _assign_cpu
from valor_gpu.ops.assign.match_batch import (
    COLUMNS,
    DETECTIONS,
    GROUND_TRUTHS,
    IMAGE_COLUMNS,
    MAX_ROWS,
    TYPED,
    MatchBatch,
    Matched,
    MatchRule,
    Pairs,
    allocate,
    check_sizes,
)
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR

_DEVICE = attrgetter("device")
_CODES = {**FLOAT_TYPES, **INT_TYPES}
_DTYPES = {"uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64}
_IMAGES_BY_VALUE = 16  # likewise in csrc/cuda/assign.cu, which rejects a call that disagrees
_NUMBERS_BY_VALUE = 64
_SINGLES = ("counts", "gt_counts")


def run(batch: MatchBatch, rule: MatchRule, error: Tensor | None = None) -> Matched:
    """Matches a batch on its device, without waiting for it; see :func:`valor_gpu.ops.assign.op.assign`.

    Args:
        batch: the images.
        rule: the choices of the run.
        error: int64 ``[]`` on that device, lowered to the first error of the batch; None for a new one.
    """
    device = check_one_device(_tensors(batch))
    images, each = batch.lengths.shape[1], _equal(batch)
    if each is None:
        sizes = batch.lengths.tolist()
        rows = (sum(sizes[0]), sum(sizes[1]), images)
    else:
        sizes, rows = [], (each[0] * images, each[1] * images, images)
    check_sizes(rows, batch.lengths)
    _check_rows(batch, rows, rule)
    out = allocate(lambda shape, dtype: torch.empty(shape, dtype=_DTYPES[dtype], device=device), rows, rule)
    out = out._replace(error=out.error.fill_(NO_ERROR) if error is None else error)
    if images:
        _launch(batch, rule, each, sizes, out)
    return out


class PlainWords(NamedTuple):
    """Holds checked upright boxes on one device, as csrc/core/plain_boxes.h has them.

    Attributes:
        words: int64 in bytes: the fields below, then the Segments ``[fields, I]``, or the Batch of images with equal
            rows, as csrc/core/match_batch.h has them.
        images: how many there are, I; likewise ``detections`` and ``ground_truths`` of all of them.
        each: detections of every image, -1 where Segments tell; likewise ``gt_each``.
        most: detections of the image with most of them; 0 where only the device knows.
        boxes_type: code of the dtype of a column, 0 for one that is absent; likewise the other types.
        keep_boxes: where the copy of a column begins in memory of ``keep_bytes`` bytes, -1 for one that is absent;
            likewise the other columns.
    """

    words: bytes
    images: int
    detections: int
    ground_truths: int
    each: int
    gt_each: int
    most: int
    boxes_type: int
    scores_type: int
    labels_type: int
    gt_boxes_type: int
    gt_labels_type: int
    gt_flags_type: int
    gt_areas_type: int
    keep_boxes: int
    keep_gt_boxes: int
    keep_flags: int
    keep_areas: int
    keep_bytes: int

    @property
    def types(self) -> tuple[int, ...]:
        """Returns the codes of the dtypes, in the order of ``TYPED``."""
        return self[7:14]

    @classmethod
    def of(cls, words: bytes) -> PlainWords:
        """Returns the boxes of a head and the words behind it."""
        return cls(words, *_HEAD.unpack_from(words))


_HEAD = Struct(f"{len(PlainWords._fields) - 1}q")


class PlainTables(NamedTuple):
    """Holds what :func:`assign_plain` makes on the device of the boxes.

    Attributes:
        detections: row table, as that of ``Matched``; likewise ``ground_truths`` and ``images``.
        error: int64 ``[]``, the error code with that of the boxes.
        kept: uint8 ``[keep_bytes]``, copies of boxes, flags and areas, or None.
    """

    detections: Tensor
    ground_truths: Tensor
    images: Tensor
    error: Tensor
    kept: Tensor | None


def assign_plain(
    boxes: PlainWords, rule: MatchRule, box_format: int, error: Tensor, keep: bool = False
) -> PlainTables | None:
    """Returns the row tables and the new error, as :func:`run` does, by one call of the library.

    Args:
        boxes: the images.
        rule: thresholds, area ranges, limits and options without ``WANT_MATCHES``.
        box_format: code of the format of all boxes.
        error: int64 ``[]`` on the device of the boxes, which stays as it is.
        keep: also copy boxes, flags and areas.

    Returns:
        None where an image is too large for it.
    """
    detections, ground_truths, images = boxes.detections, boxes.ground_truths, boxes.images
    if detections + ground_truths > MAX_ROWS:
        return None
    device, served, uint8 = error.device, array("q", (0,)), torch.uint8
    by_value = boxes.each >= 0 or images <= _IMAGES_BY_VALUE
    table = None if by_value else torch.empty(images * _table_fields(), dtype=torch.int64, device=device)
    out = PlainTables(
        torch.empty(detections, rule.detection_bytes, dtype=uint8, device=device),
        torch.empty(ground_truths, rule.ground_truth_bytes, dtype=uint8, device=device),
        error.new_empty(images, len(IMAGE_COLUMNS)), torch.empty_like(error),
        torch.empty(boxes.keep_bytes, dtype=uint8, device=device) if keep else None,
    )  # fmt: skip
    words = rule.plain_words(boxes.types, box_format)
    with launching(device) as stream:
        native.function("valor_cuda", "valor_assign_plain_cuda")(
            boxes.words, words, _address(table), out.detections.data_ptr(), out.ground_truths.data_ptr(),
            out.images.data_ptr(), error.data_ptr(), out.error.data_ptr(), _address(out.kept), _address(served), stream,
        )  # fmt: skip
    return out if served[0] else None


def check_one_device(columns: Mapping[str, Sequence[Tensor]]) -> torch.device:
    """The device of all tensors; raises :class:`InputError` that names one which lies elsewhere.

    Args:
        columns: tensors by the name of the argument that holds them; one argument at least holds some.
    """
    name, first = next((name, tensors[0]) for name, tensors in columns.items() if tensors)
    place: Any = Tensor.get_device if first.is_cuda else _DEVICE  # the first is the faster one, but only for CUDA
    places = {place(first)}
    for tensors in columns.values():
        places.update(map(place, tensors))
    if len(places) > 1:
        for other, tensors in columns.items():
            for i, tensor in enumerate(tensors):
                check_same_device((f"{name}[0]", f"{other}[{i}]"), (first, tensor))
    return first.device


def _check_rows(batch: MatchBatch, rows: tuple[int, int, int], rule: MatchRule) -> None:
    """Raises where a tensor for all images has not the rows that the lengths give, or stored pairs lack a column."""
    if batch.room or batch.gt_room:
        raise InputError(f"room must be 0 on CUDA, where counts tell padding, but is {batch.room or batch.gt_room}")
    for name, column in COLUMNS.items():
        need = rows[int(column.side != DETECTIONS)]
        if len(tensors := getattr(batch, name)) == 1 and tensors[0].shape[0] != need:
            raise InputError(f"{name} must have {need} rows, as lengths say, but has {tensors[0].shape[0]}")
    by_side = dict(zip((DETECTIONS, GROUND_TRUTHS), rows))
    _assign_cpu.check_present(batch, by_side)
    if batch.pairs is not None:
        present = {name for name in COLUMNS if getattr(batch, name)}
        _assign_cpu.check_pairs(batch.pairs, present, by_side, rule)


def _tensors(batch: MatchBatch) -> dict[str, Sequence[Tensor]]:
    """What has to lie on one device, by name."""
    tensors = {name: getattr(batch, name) for name in COLUMNS}
    tensors |= {name: [getattr(batch, name)] for name in _SINGLES if getattr(batch, name) is not None}
    if batch.pairs is not None:
        tensors |= {f"pairs.{name}": [value] for name, value in vars(batch.pairs).items()}
    return tensors if _by_value(batch.image_ids) else {**tensors, "image_ids": batch.image_ids}


def _by_value(image_ids: Sequence[Tensor]) -> bool:
    """Whether the ids are one CPU tensor, to be read here, not tensors whose addresses a kernel reads."""
    return len(image_ids) == 1 and not image_ids[0].is_cuda


class _Plan(NamedTuple):
    """How the images reach the kernel.

    Attributes:
        table: host words: a table of images, or of images with equal rows the words of their batch.
        equal: two words, the rows of each image; None with a table.
        words: what the kernel has to know of the plan; the first is the size of the workspace, in bytes.
    """

    table: array[int] | NDArray[np.int64]
    equal: array[int] | None
    words: array[int]


def _launch(
    batch: MatchBatch, rule: MatchRule, each: tuple[int, int] | None, sizes: list[list[int]], out: Matched
) -> None:
    device, images = out.detections.device, batch.lengths.shape[1]
    with launching(device) as stream:
        words, stored = _rule_words(batch, rule), _pair_words(batch.pairs)
        keep, plan = _plan(batch, each, sizes, words, device)
        table = numbers = scratch = None
        if plan.words[0]:
            scratch = torch.empty(plan.words[0], dtype=torch.uint8, device=device)
        if plan.equal is None and images > _IMAGES_BY_VALUE:
            table = _device_tables.upload(np.frombuffer(plan.table, np.int64), device)
        if sum(part.size for part in (rule.thresholds, rule.area_ranges, rule.limits)) > _NUMBERS_BY_VALUE:
            numbers = _device_tables.constant(rule.numbers(), device)
        native.function("valor_cuda", "valor_assign_cuda")(
            _address(plan.table), _address(table), images, _address(plan.equal), _address(plan.words), words,
            _address(numbers), _address(stored), *map(Tensor.data_ptr, out), _address(scratch), stream,
        )  # fmt: skip
        del keep


def _address(words: array[int] | NDArray[np.int64] | Tensor | None) -> int:
    if words is None:
        return 0
    if isinstance(words, Tensor):
        return words.data_ptr()
    return words.buffer_info()[0] if isinstance(words, array) else words.ctypes.data


def _rule_words(batch: MatchBatch, rule: MatchRule) -> bytes:
    """The Rule of csrc/core/match_batch.h with its numbers, for the dtypes of ``batch``."""
    columns = {name: getattr(batch, name) for name in TYPED}
    types = {name: _CODES[tensors[0].dtype] if tensors else 0 for name, tensors in columns.items()}
    return rule.words(types, batch.box_format, batch.gt_box_format)


def _pair_words(pairs: Pairs | None) -> array[int] | None:
    """The Pairs of csrc/core/match_batch.h."""
    return None if pairs is None else array("q", [*map(Tensor.data_ptr, vars(pairs).values()), len(pairs.similarities)])


def _plan(
    batch: MatchBatch, each: tuple[int, int] | None, sizes: list[list[int]], rule_words: bytes, device: torch.device
) -> tuple[Tensor | None, _Plan]:
    """The plan, and what it holds the address of; ``sizes`` are read only where the images are not of ``each`` size."""
    images = batch.lengths.shape[1]
    native_plan = native.function("valor_cuda", "valor_plan_assign_cuda")
    found, stored = array("q", bytes(24)), int(batch.pairs is not None)
    if each is not None:
        equal = array("q", each)
        native_plan(0, images, _address(equal), rule_words, stored, 0, _address(found))
        ids = batch.image_ids[0] if batch.image_ids else None
        if ids is not None and ids.device != device:
            ids = _device_tables.upload(ids.contiguous().numpy(), device)
        return ids, _Plan(_batch_words(batch, images, ids), equal, found)
    segments = segment_table(batch, sizes)
    table = array("q", bytes(8 * _table_fields() * images))
    native_plan(_address(segments), images, 0, rule_words, stored, _address(table), _address(found))
    return None, _Plan(table, None, found)


def _equal(batch: MatchBatch) -> tuple[int, int] | None:
    """The rows of each image, if all have as many and every column is one tensor: these need no table.

    Lengths that are one column, expanded, say so whatever the number of images is.
    """
    lengths = batch.lengths
    if lengths.shape[1] == 0 or any(len(getattr(batch, name)) > 1 for name in (*COLUMNS, "image_ids")):
        return None
    if lengths.stride(1) != 0 and bool((lengths != lengths[:, :1]).any()):
        return None
    detections, ground_truths = lengths[:, 0].tolist()
    return detections, ground_truths


def _batch_words(batch: MatchBatch, images: int, ids: Tensor | None) -> array[int]:
    """The Batch of csrc/core/match_batch.h, without lengths and pairs."""
    words = {name: getattr(batch, name).data_ptr() for name in _SINGLES if getattr(batch, name) is not None}
    for name, column in COLUMNS.items():
        for tensor in getattr(batch, name):
            words[name] = tensor.data_ptr()
            words[f"stride_{name}"] = tensor.element_size() * column.width
    if ids is not None:
        words["image_ids"] = ids.data_ptr()
    return array("q", bytes(native.struct("valor_cuda", "Batch")(**words, images=images)))


def _table_fields() -> int:
    """KImageFields in csrc/cuda/assign_plan.h: the fields of an image in the table of a plan."""
    return len(native.fields("valor_cuda", "Segment")) + 2


def segment_table(batch: MatchBatch, sizes: list[list[int]]) -> array[int] | NDArray[np.int64]:
    """The Segments of csrc/core/match_batch.h, field by field, int64 ``[fields, I]``.

    Python integers are the fastest way for a batch of a training loop, whose tensors are many and small; numpy for one
    tensor of thousands of images.
    """
    images, places = len(sizes[0]), native.fields("valor_cuda", "Segment")
    if any(len(getattr(batch, name)) == images > 1 for name in COLUMNS):
        fields, zeros = _fields_of_tensors(batch, sizes), [0] * images
        words: list[int] = []
        for name in places:
            words += fields.get(name, zeros)
        return array("q", words)
    arrays = _fields_of_arrays(batch)
    table = np.zeros((len(places), images), np.int64)
    for name, values in arrays.items():
        table[places[name]] = values
    return table


def _fields_of_arrays(batch: MatchBatch) -> dict[str, Any]:
    sizes = batch.lengths.numpy()
    firsts = np.cumsum(sizes, axis=1) - sizes
    every = 8 * np.arange(batch.lengths.shape[1])
    fields: dict[str, Any] = _sizes(sizes, firsts)
    for name, column in COLUMNS.items():
        for tensor in getattr(batch, name)[:1]:
            first = firsts[int(column.side != DETECTIONS)]
            fields[name] = tensor.data_ptr() + first * (tensor.element_size() * column.width)
    fields |= _fields_of_ids(batch, len(every))
    for name in _SINGLES:
        if (count := getattr(batch, name)) is not None:
            fields[name] = count.data_ptr() + every
    return fields


def _sizes(sizes: Any, firsts: Any) -> dict[str, Any]:
    names = ("detections", "ground_truths", "first_detection", "first_ground_truth")
    return dict(zip(names, (*sizes, *firsts)))


def _fields_of_tensors(batch: MatchBatch, sizes: list[list[int]]) -> dict[str, Any]:
    images = len(sizes[0])
    firsts = [[0, *accumulate(size)][:images] for size in sizes]
    fields: dict[str, Any] = _sizes(sizes, firsts)
    for name, column in COLUMNS.items():
        tensors = getattr(batch, name)
        if len(tensors) == images:
            fields[name] = map(Tensor.data_ptr, tensors)
        elif tensors:
            base, step = tensors[0].data_ptr(), tensors[0].element_size() * column.width
            fields[name] = [base + step * first for first in firsts[int(column.side != DETECTIONS)]]
    for name in _SINGLES:
        if (count := getattr(batch, name)) is not None:
            base = count.data_ptr()
            fields[name] = range(base, base + 8 * images, 8)
    return fields | _fields_of_ids(batch, images)


def _fields_of_ids(batch: MatchBatch, images: int) -> dict[str, Any]:
    ids = batch.image_ids
    if not ids:
        return {}
    known = {"has_id": [1] * images}
    if _by_value(ids):
        return {**known, "id": ids[0].tolist()}
    if len(ids) == images:
        return {**known, "id_address": [*map(Tensor.data_ptr, ids)]}
    base = ids[0].data_ptr()
    return {**known, "id_address": range(base, base + 8 * images, 8)}
