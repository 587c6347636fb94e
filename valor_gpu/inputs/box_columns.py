"""Columns of detections and ground truths as users hold them: checked, joined, of one dtype, box format and device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from valor_gpu.checks import check_dense, check_type
from valor_gpu.errors import InputError
from valor_gpu.inputs.values import as_values
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.boxes.op import to_xywh
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.native_types import BOX_FORMATS

Item = Mapping[str, Any]
Columns = dict[tuple[str, str], list[Tensor]]
"""Tensors by side (``preds`` or ``target``) and key; empty for a key that nothing has."""

REQUIRED = {"preds": ("boxes", "scores", "labels"), "target": ("boxes", "labels")}
FLAG, AREA = "iscrowd", "area"
"""Optional keys of ``target``; Open Images flags its ground truths by ``is_group_of`` instead."""


@dataclass(frozen=True)
class BoxLayout:
    """What a row of boxes holds.

    Attributes:
        width: numbers per row.
        code: code of the format of plain tensors, as kernels know it.
        own: codes of the formats that a tv_tensor may have, by name.
    """

    width: int
    code: int
    own: Mapping[str, int]


UPRIGHT = {name: BoxLayout(4, i, {own: j for j, own in enumerate(BOX_FORMATS)}) for i, name in enumerate(BOX_FORMATS)}
"""Layouts of boxes whose edges are parallel to the axes, by format."""

_DEVICE, _DTYPE, _LAYOUT = attrgetter("device"), attrgetter("dtype"), attrgetter("layout")
_KINDS: dict[str, tuple[str, Mapping[torch.dtype, int]]] = {
    "boxes": ("floating point or integer", FLOAT_TYPES),
    "scores": ("floating point", FLOAT_TYPES),
    "labels": ("integer", INT_TYPES),
    "iscrowd": ("integer or bool", INT_TYPES),
    "is_group_of": ("integer or bool", INT_TYPES),
    "area": ("floating point or integer", {**FLOAT_TYPES, **INT_TYPES}),
}


def read_column(items: Sequence[Item], side: str, key: str) -> list[Tensor]:
    """The tensors of ``key``, one of each item; raises :class:`InputError` for an item without one."""
    try:
        column = [item[key] for item in items]
    except (KeyError, TypeError, IndexError):
        for i, item in enumerate(items):
            check_type(f"{side}[{i}]", item, Mapping)  # type: ignore[type-abstract]
            if key not in item:
                raise InputError(f"{side}[{i}] must have key {key!r} but has {sorted(item)}") from None
        raise
    if set(map(type, column)) != {Tensor}:
        return [as_values(f"{side}[{i}][{key!r}]", value) for i, value in enumerate(column)]
    return column


def check_shapes(column: list[Tensor], side: str, key: str, sizes: list[int], width: int) -> None:
    """Raises for the first tensor whose shape has not one row per label, boxes one of ``width`` numbers."""
    for i, (tensor, size) in enumerate(zip(column, sizes)):
        if tensor.numel() != (width * size if key == "boxes" else size) or (
            key == "boxes" and size and tuple(tensor.shape) != (size, width)
        ):
            need = f"[{size}, {width}]" if key == "boxes" else f"[{size}]"
            raise InputError(f"{side}[{i}][{key!r}] must have shape {need}, one row for each of its {size} labels,"
                             f" but got {list(tensor.shape)}")  # fmt: skip


def check_devices(columns: Mapping[tuple[str, str], list[Tensor]]) -> bool:
    """Whether the batch lies on a GPU; raises unless its tensors are dense and lie on one device.

    On the CPU joining finds a tensor of another device or layout than the others of its column, so that the first of
    each column is enough.
    """
    devices = {column[0].device for column in columns.values() if column}
    if len(devices) == 1 and next(iter(devices)).type == "cpu":
        return False
    filled = {name: column for name, column in columns.items() if column}
    if filled:
        _check_one_device(filled)
    for (side, key), column in filled.items():
        _check_dense(column, side, key)
    return bool(filled)


def _check_dense(column: list[Tensor], side: str, key: str) -> None:
    if set(map(_LAYOUT, column)) != {torch.strided}:
        for i, value in enumerate(column):
            check_dense(f"{side}[{i}][{key!r}]", value)


def _check_one_device(columns: Mapping[tuple[str, str], list[Tensor]]) -> None:
    name, first = next((name, column[0].device) for name, column in columns.items())
    for (side, key), column in columns.items():
        if set(map(_DEVICE, column)) == {first}:
            continue
        for i, tensor in enumerate(column):
            if tensor.device != first:
                raise InputError(
                    f"{side}[{i}][{key!r}] must be on {first} like {name[0]}[0][{name[1]!r}] but is on {tensor.device}"
                )


def match_batch(columns: Columns, lengths: Tensor, layout: BoxLayout | None, flag: str, **others: Any) -> MatchBatch:
    """The batch of checked columns.

    Args:
        columns: all of ``REQUIRED``, the flag and ``AREA``.
        lengths: int64 ``[2, I]`` on the CPU.
        layout: of boxes; those with a format of their own keep it. None: no boxes.
        flag: key of the flags of ground truths.
        others: fields of :class:`MatchBatch` that are not columns.
    """
    (boxes, code), (gt_boxes, gt_code) = (
        ([], 0) if layout is None else box_column(columns[side, "boxes"], side, layout) for side in REQUIRED
    )
    areas = _uniform(columns["target", AREA], "target", AREA)
    return MatchBatch(
        lengths,
        boxes,
        _uniform(columns["preds", "scores"], "preds", "scores"),
        _uniform(columns["preds", "labels"], "preds", "labels"),
        gt_boxes=gt_boxes,
        gt_labels=_uniform(columns["target", "labels"], "target", "labels"),
        gt_flags=_uniform(columns["target", flag], "target", flag),
        gt_areas=[t.double() for t in areas] if areas and areas[0].dtype not in FLOAT_TYPES else areas,
        box_format=code,
        gt_box_format=gt_code,
        **others,
    )


def box_column(column: list[Tensor], side: str, layout: BoxLayout) -> tuple[list[Tensor], int]:
    """Boxes of one dtype and format.

    Where images differ, upright boxes become xywh in float64, each in its own dtype; others, and integers, become
    float64.
    """
    if set(map(type, column)) <= {Tensor}:
        codes = [layout.code]
    else:
        codes = [_own_format(t, layout, f"{side}[{i}]['boxes']") for i, t in enumerate(column)]
    if len(set(codes)) > 1 or _mixed(column):
        codes = codes if len(codes) == len(column) else codes * len(column)
        _check_kind(column, side, "boxes")
        if layout.width != 4:
            return [t.double() for t in column], _one_code(codes, side)
        exact = [t if t.is_floating_point() else t.double() for t in column]
        return [to_xywh(t.reshape(-1, 4), c) for t, c in zip(exact, codes)], BOX_FORMATS.index("xywh")
    return _uniform(column, side, "boxes", layout.width), codes[0] if codes else layout.code


def _one_code(codes: list[int], side: str) -> int:
    """The code of all images; raises :class:`InputError` where one differs."""
    for i, code in enumerate(codes):
        if code != codes[0]:
            raise InputError(f"{side}[{i}]['boxes'] must be in the format of {side}[0]['boxes'] but is in another")
    return codes[0]


def _mixed(column: list[Tensor]) -> bool:
    """Whether tensors that hold something differ in dtype."""
    return len(set(map(_DTYPE, column))) > 1 and len({t.dtype for t in column if t.numel()}) > 1


def _own_format(boxes: Tensor, layout: BoxLayout, name: str) -> int:
    """Format code of a tv_tensor, by its ``format`` attribute; that of the layout for any other tensor."""
    own = getattr(boxes, "format", None)
    if own is None:
        return layout.code
    word = str(getattr(own, "value", own)).lower()
    if word not in layout.own:
        raise InputError(f"{name} must be in format {', '.join(layout.own)} but is in {word}")
    return layout.own[word]


def _check_kind(column: list[Tensor], side: str, key: str) -> None:
    kind, allowed = _KINDS[key]
    for i, tensor in enumerate(column):
        whole = key == "boxes" and tensor.dtype in INT_TYPES and tensor.dtype is not torch.bool
        if tensor.numel() and tensor.dtype not in allowed and not whole:
            raise InputError(f"{side}[{i}][{key!r}] must be {kind} but is {tensor.dtype}")


def _uniform(column: list[Tensor], side: str, key: str, width: int = 4) -> list[Tensor]:
    """Contiguous tensors of one dtype that kernels read: on the CPU one for all images, elsewhere as they come.

    On the CPU joining costs less than looking at each of many tensors; on a GPU it would cost a launch.
    """
    if not column:
        return column
    if len(column) == 1:
        ready = _is_whole(column[0], width if key == "boxes" else None)
    else:
        ready = column[0].is_cuda and len(set(map(_DTYPE, column))) == 1 and all(map(Tensor.is_contiguous, column))
        ready = ready and not any(map(Tensor.is_neg, column))
    whole = column if ready else [_joined(column, side, key, width)]
    if whole[0].dtype not in _KINDS[key][1]:
        _check_kind(column, side, key)
        if key == "boxes":
            return [t.double() for t in whole]  # integers up to 2^53 stay as they are
        whole = [t.to(next(iter(_KINDS[key][1]))) for t in whole]  # only empty tensors get here
    return whole


def _is_whole(tensor: Tensor, width: int | None) -> bool:
    """Whether kernels can read the one tensor of a column where it lies: numbers, or rows of ``width`` of them."""
    shape = tensor.shape
    fits = len(shape) == 1 if width is None else len(shape) == 2 and shape[1] == width
    return fits and tensor.layout is torch.strided and tensor.is_contiguous() and not tensor.is_neg()


def _joined(column: list[Tensor], side: str, key: str, width: int) -> Tensor:
    """One tensor, whose dtype is that of the tensors that hold something: an empty one may be of any."""
    whole = _concatenated(column, side, key, width)
    if whole.dtype is column[0].dtype and column[0].numel():
        return whole
    filled = [t for t in column if t.numel()]
    if all(t.dtype is whole.dtype for t in filled):
        return whole
    return _concatenated(filled, side, key, width)


def _concatenated(column: list[Tensor], side: str, key: str, width: int) -> Tensor:
    if key == "area" and len(set(map(_DTYPE, column))) > 1:
        column = [t.double() for t in column]  # joining integers with float32 would round them
    try:
        whole = torch.cat(column)
        if whole.layout is not torch.strided:
            _check_dense(column, side, key)
        fits = key != "boxes" or whole.shape[1:] == (width,) or whole.numel() == 0
    except RuntimeError:  # a device or layout that differs, or shapes such as [N] and [N, 1] together
        _check_dense(column, side, key)
        _check_one_device({(side, key): column})
        fits = False
    if fits:
        return whole
    if key == "boxes":
        check_shapes(column, side, key, [t.numel() // width for t in column], width)
    return torch.cat([t.reshape(-1, width) if key == "boxes" else t.reshape(-1) for t in column])
