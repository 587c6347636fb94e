"""Pairwise intersection over union of boxes."""

from __future__ import annotations

import typing
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_choice, check_dense, check_dtype, check_same_device, check_shape, check_type
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import to_device, upload
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.native_types import BOX_FORMATS
from valor_gpu.ragged import Ragged

_UPLOADED_WORDS = 500  # of offsets that travel in the parameters of a kernel, so that a CUDA graph can capture it
_MAX_COLUMNS = (1 << 31) - 1  # the kernel counts them in 32 bits, and goes past the end by the width of a grid


@typing.overload
def box_iou(boxes1: Tensor, boxes2: Tensor, *, box_format: str = ..., crowd: Tensor | None = ...) -> Tensor: ...
@typing.overload
def box_iou(boxes1: Ragged, boxes2: Ragged, *, box_format: str = ..., crowd: Tensor | None = ...) -> Ragged: ...
def box_iou(
    boxes1: Tensor | Ragged, boxes2: Tensor | Ragged, *, box_format: str = "xyxy", crowd: Tensor | None = None
) -> Tensor | Ragged:
    """IoU of every box of ``boxes1`` with every box of ``boxes2``, equal to pycocotools to the last bit.

    Boxes become xywh in their own dtype (at least float32), then float64, in which all else is computed. Boxes that
    do not overlap have IoU 0, also if their area is 0 or negative. A NaN coordinate is passed over by minimum and
    maximum, as in pycocotools; filter such boxes before. The IoU has no gradient.

    Args:
        boxes1: float16, bfloat16, float32 or float64 ``[N, 4]``, or a :class:`Ragged` of such segments.
        boxes2: ``[M, 4]`` on the same device, of any of these dtypes; Ragged if ``boxes1`` is.
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``, of both.
        crowd: bool, one flag for each row of ``boxes2`` (of ``boxes2.values`` if Ragged): IoU with a crowd region is
            intersection over the area of the box of ``boxes1``.

    Returns:
        float64 ``[N, M]``; or a Ragged whose segment s is float64 ``[n_s * m_s]``, row by row.

    Raises:
        InputError: on a shape, dtype, device or number of segments other than the above, or a sparse tensor.

    Example:
        >>> box_iou(torch.tensor([[0.0, 0.0, 2.0, 2.0]]), torch.tensor([[1.0, 0.0, 3.0, 2.0], [0.0, 0.0, 2.0, 2.0]]))
        tensor([[0.3333, 1.0000]], dtype=torch.float64)
    """
    check_choice("box_format", box_format, BOX_FORMATS)
    check_type("boxes1", boxes1, (Tensor, Ragged))
    check_type("boxes2", boxes2, type(boxes1) if isinstance(boxes1, Ragged) else Tensor)
    code = BOX_FORMATS.index(box_format)
    if isinstance(boxes1, Ragged) and isinstance(boxes2, Ragged):
        if len(boxes1) != len(boxes2):
            raise InputError(f"boxes2 must have {len(boxes1)} segments like boxes1 but has {len(boxes2)}")
        check_box_sets(boxes1.values, boxes2.values, crowd, 4)
        lengths = boxes1.lengths * boxes2.lengths
        offsets = _offsets((boxes1.lengths, boxes2.lengths, lengths))
        return Ragged(_OP(boxes1.values.detach(), boxes2.values.detach(), offsets, crowd, code), lengths)
    assert isinstance(boxes1, Tensor) and isinstance(boxes2, Tensor)
    check_box_sets(boxes1, boxes2, crowd, 4)
    n, m = boxes1.shape[0], boxes2.shape[0]
    values: Tensor = _OP(boxes1.detach(), boxes2.detach(), torch.tensor([[0, n], [0, m], [0, n * m]]), crowd, code)
    return values.view(n, m)


def check_box_sets(boxes1: Tensor, boxes2: Tensor, crowd: Tensor | None, width: int) -> None:
    """Raises :class:`InputError` unless these are two sets of boxes of ``width`` numbers, and flags of the second."""
    for name, boxes in (("boxes1", boxes1), ("boxes2", boxes2)):
        check_shape(name, boxes, (None, width))
        check_dtype(name, boxes, FLOAT_TYPES)
        check_dense(name, boxes)
    check_same_device(("boxes1", "boxes2"), (boxes1, boxes2))
    if crowd is not None:
        check_type("crowd", crowd, Tensor)
        check_dense("crowd", crowd)
        check_shape("crowd", crowd, (boxes2.shape[0],))
        check_dtype("crowd", crowd, (torch.bool,))
        check_same_device(("boxes1", "crowd"), (boxes1, crowd))


def _offsets(lengths: Sequence[Tensor]) -> Tensor:
    """int64 ``[3, S + 1]``: where each segment begins among the rows of boxes1, of boxes2 and the pairs."""
    return torch.nn.functional.pad(torch.stack(list(lengths)).cumsum(1), (1, 0))


def to_xywh(boxes: Tensor, box_format: int) -> Tensor:
    """Boxes as float64 ``[N, 4]`` xywh, converted in their own dtype (at least float32) by the steps of torchvision.

    Args:
        boxes: floating ``[N, 4]``.
        box_format: index into ``BOX_FORMATS``.

    Example:
        >>> to_xywh(torch.tensor([[1.0, 1.0, 3.0, 2.0]]), BOX_FORMATS.index("xyxy"))
        tensor([[1., 1., 2., 1.]], dtype=torch.float64)
    """
    x, y, w, h = (boxes if boxes.dtype == torch.float64 else boxes.float()).unbind(1)
    if BOX_FORMATS[box_format] == "cxcywh":
        x, y, w, h = x - 0.5 * w, y - 0.5 * h, x + 0.5 * w, y + 0.5 * h
    if BOX_FORMATS[box_format] != "xywh":
        w, h = w - x, h - y
    return torch.stack((x, y, w, h), 1).double()


def _pairwise(boxes1: Tensor, boxes2: Tensor, crowd: Tensor) -> Tensor:
    """IoU ``[n, m]`` of xywh boxes by the steps of bbIou in pycocotools' maskApi.c."""
    x1, y1, w1, h1 = boxes1[:, None].unbind(2)  # [n, 1]
    x2, y2, w2, h2 = boxes2[None].unbind(2)  # [1, m]
    width = torch.fmin(w1 + x1, w2 + x2) - torch.fmax(x1, x2)
    height = torch.fmin(h1 + y1, h2 + y2) - torch.fmax(y1, y2)
    intersection = width * height
    area = w1 * h1
    union = torch.where(crowd, area, area + w2 * h2 - intersection)
    return torch.where((width <= 0) | (height <= 0), 0.0, intersection / union)


def _box_iou_reference(
    boxes1: Tensor, boxes2: Tensor, offsets: Tensor, crowd: Tensor | None, box_format: int
) -> Tensor:
    """The definition: bbIou of pycocotools' maskApi.c over each segment of :func:`_offsets`."""
    first, second = to_xywh(boxes1, box_format), to_xywh(boxes2, box_format)
    if crowd is None:
        crowd = torch.zeros(second.shape[0], dtype=torch.bool, device=second.device)
    rows1, rows2, pairs = offsets.tolist()
    out = first.new_empty(pairs[-1])
    for s, (start, stop) in enumerate(pairwise(pairs)):
        columns = slice(rows2[s], rows2[s + 1])
        iou = _pairwise(first[rows1[s] : rows1[s + 1]], second[columns], crowd[columns])
        out[start:stop] = iou.flatten()
    return out


def _box_iou_fake(boxes1: Tensor, boxes2: Tensor, offsets: Tensor, crowd: Tensor | None, box_format: int) -> Tensor:
    one_segment = offsets.shape[1] == 2
    pairs = boxes1.shape[0] * boxes2.shape[0] if one_segment else torch.library.get_ctx().new_dynamic_size()
    return boxes1.new_empty(pairs, dtype=torch.float64)


def _box_iou_cpu(boxes1: Tensor, boxes2: Tensor, offsets: Tensor, crowd: Tensor | None, box_format: int) -> Tensor:
    call = native.function("valor_cpu", "valor_box_iou_cpu", "ppiiippqpq")
    return _run(call, boxes1, boxes2, offsets, crowd, box_format, int(offsets[2, -1]), torch.get_num_threads())


def _box_iou_cuda(boxes1: Tensor, boxes2: Tensor, offsets: Tensor, crowd: Tensor | None, box_format: int) -> Tensor:
    call = native.function("valor_cuda", "valor_box_iou_cuda", "ppiiippqpqqp")
    pairs = int(offsets[2, -1])
    if boxes2.shape[0] > _MAX_COLUMNS and (most := int(offsets[1].diff().max())) > _MAX_COLUMNS:
        raise InputError(f"boxes2 must have fewer than 2^31 rows in an image on a GPU but one has {most}")
    with launching(boxes1.device) as stream:
        few = offsets.numel() <= _UPLOADED_WORDS
        table = upload(offsets.flatten().numpy(), boxes1.device) if few else to_device(offsets, boxes1.device)
        table = table.view(offsets.shape)
        return _run(call, boxes1, boxes2, table, crowd, box_format, pairs, boxes1.shape[0], pairs, stream)


def _run(
    call: native.Function,
    boxes1: Tensor,
    boxes2: Tensor,
    table: Tensor,
    crowd: Tensor | None,
    box_format: int,
    pairs: int,
    *last: int,
) -> Tensor:
    """Calls a C function with the fields of BoxPairs in csrc/core/boxes.h, then ``last``."""
    boxes1, boxes2, table = boxes1.contiguous(), boxes2.contiguous(), table.contiguous()
    crowd = None if crowd is None else crowd.contiguous()
    out = boxes1.new_empty(pairs, dtype=torch.float64)
    call(
        *(boxes1.data_ptr(), boxes2.data_ptr(), FLOAT_TYPES[boxes1.dtype], FLOAT_TYPES[boxes2.dtype], box_format),
        *(0 if crowd is None else crowd.data_ptr(), table.data_ptr(), table.shape[1] - 1, out.data_ptr()),
        *last,
    )
    return out


_OP = register(
    "box_iou(Tensor boxes1, Tensor boxes2, Tensor offsets, Tensor? crowd, int box_format) -> Tensor",
    reference=_box_iou_reference,
    fake=_box_iou_fake,
    cpu=cpp(_box_iou_cpu),
    cuda=cuda(_box_iou_cuda),
)
