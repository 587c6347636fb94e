"""Rotated boxes and convex quadrilaterals: pairwise IoU, and the pairs of a batch for matching.

Intersections are exact convex polygon clipping in float64 (Sutherland and Hodgman 1974) with the origin of one of the
two as origin. Sine, cosine and every other step are the same on all devices, so that no bit differs between them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.assign.match_batch import MatchBatch, MatchRule
from valor_gpu.ops.boxes.op import check_box_sets
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, raise_error
from valor_gpu.ops.pairs.cpu import Found, stored
from valor_gpu.ops.pairs.cuda import access_on
from valor_gpu.ops.pairs.rows import (
    BATCH_FIELDS,
    SCHEMA,
    device_of,
    find_stored,
    run_fake,
    run_on_cpu,
    run_on_cuda,
    to_batch,
)
from valor_gpu.ops.pairs.rows_cpu import Kernels, Side, Table, prepare_side
from valor_gpu.ops.rotated import cpu as _rotated_cpu
from valor_gpu.ops.rotated import pairs_reference as _rotated_pairs_reference
from valor_gpu.ops.rotated import reference as definition
from valor_gpu.ops.rotated.cpu import (
    ANGLE_DIRECTIONS,
    ANGLE_UNITS,
    DEGREES_CLOCKWISE,
    RADIANS,
    RADIANS_CLOCKWISE,
    ROTATED_FORMATS,
    SHAPE,
    columns_of,
    format_code,
)


def rotated_box_iou(
    boxes1: Tensor,
    boxes2: Tensor,
    *,
    box_format: str = "cxcywha",
    angle_unit: str = "degrees",
    angle_direction: str = "counterclockwise",
    crowd: Tensor | None = None,
) -> Tensor:
    """IoU of every rotated box of ``boxes1`` with every one of ``boxes2``: exact convex clipping in float64.

    Rows become float64 first. Equal boxes of positive area have IoU exactly 1, boxes of area 0 have IoU 0 with all, and
    no finite row gives NaN. Boxes whose edges are parallel to the axes have the IoU of :func:`box_iou` of their float64
    ``cxcywh`` or ``xyxy``, to the last bit but never above 1. Exchanging the two sides changes no bit, nor does an
    angle that is exactly 360 degrees larger. In degrees these are Detectron2's ``RotatedBoxes`` and torchvision's
    ``CXCYWHR``; MMRotate's boxes are in radians and clockwise. The IoU has no gradient.

    Args:
        boxes1: float16, bfloat16, float32 or float64 ``[N, 5]`` or ``[N, 8]``.
        boxes2: likewise with M rows, on the same device.
        box_format: ``cxcywha``, centre, width, height (at least 0) and angle; or ``xyxyxyxy``, the corners of a convex
            quadrilateral one after another in either direction. Both sides have this format.
        angle_unit: ``degrees`` or ``radians``, of ``cxcywha``.
        angle_direction: ``counterclockwise`` or ``clockwise``, as seen in the image, where y grows downwards.
        crowd: bool ``[M]``: IoU with a crowd region is intersection over the area of the box of ``boxes1``.

    Returns:
        float64 ``[N, M]``.

    Raises:
        InputError: on other shapes, dtypes or devices, a sparse tensor, or naming the first row that is not finite, has
            a negative width or height, or whose corners are not those of a convex quadrilateral by more than rounding.
            On CUDA this check synchronises with the device.

    Example:
        >>> square = torch.tensor([[0.0, 0.0, 2.0, 2.0, 0.0]])
        >>> rotated_box_iou(square, torch.tensor([[0.0, 0.0, 2.0, 2.0, 45.0], [1.0, 0.0, 2.0, 2.0, 90.0]]))
        tensor([[0.7071, 0.3333]], dtype=torch.float64)
    """
    code = checked_format(box_format, angle_unit, angle_direction)
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        check_type(name, boxes, Tensor)
    check_box_sets(boxes1, boxes2, crowd, columns_of(code))
    iou, error = _IOU(boxes1.detach(), boxes2.detach(), crowd, code)
    raise_error(error, _describe_row)
    return iou  # type: ignore[no-any-return]


def pairwise_iou(boxes1: Tensor, boxes2: Tensor, crowd: Tensor, code: int) -> Tensor:
    """IoU float64 ``[N, M]`` of rows that were accepted before; one that is none has IoU 0.

    Args:
        boxes1: ``[N, 5]`` or ``[N, 8]``.
        boxes2: likewise with M rows.
        crowd: bool ``[M]``.
        code: the quad format.
    """
    return _IOU(boxes1, boxes2, crowd, code)[0]  # type: ignore[no-any-return]


def in_degrees(boxes: Tensor, code: int) -> Tensor:
    """Rows in format ``DEGREES`` that are the same boxes to the last bit; corners stay as they are.

    Args:
        boxes: float64 ``[N, 5]`` or ``[N, 8]``.
        code: the quad format.
    """
    factor = (57.29577951308232 if code in (RADIANS, RADIANS_CLOCKWISE) else 1.0) * (
        -1.0 if code in (DEGREES_CLOCKWISE, RADIANS_CLOCKWISE) else 1.0
    )
    return boxes if factor == 1.0 else torch.cat((boxes[:, :4], boxes[:, 4:] * factor), 1)


def checked_format(box_format: str, angle_unit: str, angle_direction: str) -> int:
    """Returns the code of a format; raises :class:`InputError` for names that are none."""
    check_choice("box_format", box_format, ROTATED_FORMATS)
    check_choice("angle_unit", angle_unit, ANGLE_UNITS)
    check_choice("angle_direction", angle_direction, ANGLE_DIRECTIONS)
    if box_format != "cxcywha":
        for name, value, usual in (
            ("angle_unit", angle_unit, ANGLE_UNITS[0]), ("angle_direction", angle_direction, ANGLE_DIRECTIONS[0])
        ):  # fmt: skip
            if value != usual:
                raise InputError(f"{name} must be {usual!r} but got {value!r}: only box_format='cxcywha' has angles")
    return format_code(box_format, angle_unit, angle_direction)


def _describe_row(code: int) -> str:
    """The message of a code whose image is 0: the argument and the row."""
    return describe_box(code).replace("preds[0]['boxes']", "boxes1").replace("target[0]['boxes']", "boxes2")


# ------------------------------------------------------------------------------------------------------ rotated_iou


def _iou_by_reference(boxes1: Tensor, boxes2: Tensor, crowd: Tensor | None, code: int) -> tuple[Tensor, Tensor]:
    """The definition: valor_gpu/ops/rotated/reference.py for every pair."""
    (quads1, error1), (quads2, error2) = (
        definition.load_rows(b, code, 0, bool(side)) for side, b in enumerate((boxes1, boxes2))
    )
    crowds = [False] * len(quads2) if crowd is None else crowd.tolist()
    rows = [[definition.iou(a, b, flag) for b, flag in zip(quads2, crowds)] for a in quads1]
    iou = torch.tensor(rows, dtype=torch.float64, device=boxes1.device).reshape(len(quads1), len(quads2))
    return iou, torch.tensor(min(error1, error2), device=boxes1.device)


def _iou_fake(boxes1: Tensor, boxes2: Tensor, crowd: Tensor | None, code: int) -> tuple[Tensor, Tensor]:
    iou = boxes1.new_empty((boxes1.shape[0], boxes2.shape[0]), dtype=torch.float64)
    return iou, boxes1.new_empty((), dtype=torch.int64)


def _iou_on_cpu(boxes1: Tensor, boxes2: Tensor, crowd: Tensor | None, code: int) -> tuple[Tensor, Tensor]:
    error, threads = torch.tensor(NO_ERROR), torch.get_num_threads()
    load = native.function("valor_cpu", "valor_load_quads_cpu", "ppq")
    sides = _loaded(boxes1, boxes2, code, error, lambda words, rows: load(words, error.data_ptr(), threads))
    iou, arguments, _ = _iou_arguments(*sides, crowd)
    native.function("valor_cpu", "valor_quad_iou_cpu", "pqpqppq")(*arguments, threads)
    return iou, error


def _iou_on_cuda(boxes1: Tensor, boxes2: Tensor, crowd: Tensor | None, code: int) -> tuple[Tensor, Tensor]:
    with launching(boxes1.device) as stream:
        error = torch.full((), NO_ERROR, device=boxes1.device)
        load = native.function("valor_cuda", "valor_load_quads_cuda", "pqpp")
        sides = _loaded(boxes1, boxes2, code, error, lambda words, rows: load(words, rows, error.data_ptr(), stream))
        iou, arguments, _ = _iou_arguments(*sides, crowd)
        native.function("valor_cuda", "valor_quad_iou_cuda", "pqpqppp")(*arguments, stream)
    return iou, error


def _loaded(
    boxes1: Tensor, boxes2: Tensor, code: int, error: Tensor, load: Callable[[bytes, int], object]
) -> tuple[Side, Side]:
    """Loads both sides as one image each."""
    sides = []
    for target, boxes in enumerate((boxes1.contiguous(), boxes2.contiguous())):
        rows = boxes.shape[0]
        firsts = to_device(torch.tensor([0, rows]), boxes.device)
        table, access = Table(firsts.data_ptr(), 1, 0, rows), access_on(boxes.device)
        side, words = prepare_side(boxes, code, SHAPE.size, bool(target), table, access)
        load(words, rows)
        sides.append(side)
    return sides[0], sides[1]


def _iou_arguments(first: Side, second: Side, crowd: Tensor | None) -> tuple[Tensor, tuple[int, ...], Tensor | None]:
    """The matrix, what C functions take before threads or a stream, and the flags, which must live as long."""
    n, m = first.areas.shape[0], second.areas.shape[0]
    flags = None if crowd is None else crowd.contiguous()
    iou = first.areas.new_empty((n, m))
    at = 0 if flags is None else flags.data_ptr()
    return iou, (first.rows.data_ptr(), n, second.rows.data_ptr(), m, at, iou.data_ptr()), flags


_IOU = register(
    "rotated_iou(Tensor boxes1, Tensor boxes2, Tensor? crowd, int box_format) -> (Tensor, Tensor)",
    reference=_iou_by_reference,
    fake=_iou_fake,
    cpu=cpp(_iou_on_cpu),
    cuda=cuda(_iou_on_cuda),
)


# ---------------------------------------------------------------------------------------------------- rotated_pairs


def rotated_pairs(batch: MatchBatch, rule: MatchRule) -> tuple[MatchBatch, Tensor]:
    """Returns a batch of stored pairs for :func:`valor_gpu.ops.assign.op.assign`, and an error code.

    Pairs have a detection and a ground truth of its class (of any class with ``AGNOSTIC``) whose similarity reaches the
    lowest threshold, every pair of the class if that is at most 0. The similarity is that of :func:`rotated_box_iou`,
    against a crowd intersection over detection area. Areas are width x height, or that of the polygon. On CUDA every
    detection has room for all ground truths of its image, 12 bytes each, so that the host waits for nothing.

    Args:
        batch: tensors; ``boxes`` and ``gt_boxes`` have the columns of the quad format that ``box_format`` and
            ``gt_box_format`` name, see :func:`checked_format`.
        rule: of which thresholds and options are looked at.

    Returns:
        The batch without boxes, and int64 ``[]``, an error code.

    Raises:
        InputError: on CPU tensors, for the first row that is no box. On CUDA the error code is returned instead, since
            reading it would wait for the device.
    """
    return find_stored(_PAIRS, batch, rule)


def find_rotated_pairs(batch: MatchBatch, lowest: float) -> tuple[MatchBatch, int]:
    """As :func:`rotated_pairs` of the pairs of a class, with the error code as a number: on CUDA this waits for it.

    Args:
        batch: tensors, as there.
        lowest: the lowest threshold.

    Returns:
        The batch without boxes, and an error code.
    """
    found = Found(*_PAIRS(*(getattr(batch, name) for name in BATCH_FIELDS), lowest, False))
    return stored(batch, found), int(found.error)


def _pairs_on_cpu(*arguments: Any) -> Found:
    return run_on_cpu(arguments, SHAPE, _rotated_cpu.kernels())


def _pairs_on_cuda(*arguments: Any) -> Found:
    kernels = Kernels(
        native.function("valor_cuda", "valor_load_quads_cuda", "pqpp"),
        native.function("valor_cuda", "valor_rotated_pairs_cuda", "pqp"),
    )
    return run_on_cuda(arguments, SHAPE, kernels)


def _pairs_by_reference(*arguments: Any) -> Found:
    batch, lowest, agnostic = to_batch(*arguments)
    return _rotated_pairs_reference.run(batch, lowest, agnostic, device_of(batch))


_PAIRS = register(
    f"rotated_pairs{SCHEMA}",
    reference=_pairs_by_reference,
    fake=run_fake,
    cpu=cpp(_pairs_on_cpu),
    cuda=cuda(_pairs_on_cuda),
    launches=("rotated_iou",),
)
