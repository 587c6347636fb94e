"""Detections and ground truths as users hold them, to one :class:`MatchBatch`: every box format ends here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_dense, check_type
from valor_gpu.errors import InputError
from valor_gpu.ops.boxes import to_xywh
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES, to_device
from valor_gpu.ops.match_batch import MatchBatch
from valor_gpu.ops.native_types import BOX_FORMATS

Item = Mapping[str, Any]
_INT64 = torch.iinfo(torch.int64)
_DEVICE, _DTYPE, _LAYOUT = attrgetter("device"), attrgetter("dtype"), attrgetter("layout")
Name = tuple[str, str]  # side and key of a column
_KINDS: dict[str, tuple[str, Mapping[torch.dtype, int]]] = {
    "boxes": ("floating point", FLOAT_TYPES),
    "scores": ("floating point", FLOAT_TYPES),
    "labels": ("integer", INT_TYPES),
    "iscrowd": ("integer or bool", INT_TYPES),
    "area": ("floating point or integer", {**FLOAT_TYPES, **INT_TYPES}),
}


def detection_batch(preds: Any, target: Any, box_format: str) -> MatchBatch:
    """Reads a batch given as two lists of dicts (one per image), or as two dicts of padded tensors.

    Lists: ``preds[i]`` holds ``boxes [D, 4]``, ``scores [D]``, ``labels [D]``; ``target[i]`` holds ``boxes [G, 4]``,
    ``labels [G]`` and optionally ``iscrowd [G]`` (0 or 1), ``area [G]`` (square pixels; not positive: of the box) and
    ``image_id``. Dicts: the same keys padded to ``[B, N, ...]``, ``image_id [B]``, and ``counts [B]``, the valid rows.
    Boxes of class ``torchvision.tv_tensors.BoundingBoxes`` are read in their own format.

    Args:
        preds: the detections.
        target: the ground truths.
        box_format: ``xyxy``, ``xywh`` or ``cxcywh``, of plain tensors.

    Raises:
        InputError: naming the image and key, what is needed and what came.
    """
    if isinstance(preds, Mapping) and isinstance(target, Mapping):
        return _from_padded(preds, target, box_format)
    return _from_lists(preds, target, box_format)


def _from_lists(preds: Any, target: Any, box_format: str) -> MatchBatch:
    for name, value in (("preds", preds), ("target", target)):
        if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
            raise InputError(f"{name} must be a sequence of dicts, or a dict of padded tensors like the other,"
                             f" but got {type(value).__name__}")  # fmt: skip
    if len(preds) != len(target):
        raise InputError(f"target must have one dict per image like preds, {len(preds)} but has {len(target)}")
    columns, lengths = {}, []
    for side, items, keys in _required(preds, target):
        for key in keys:
            columns[side, key] = _column(items, side, key)
        sizes = list(map(Tensor.numel, columns[side, "labels"]))
        for key in keys[:-1]:
            _check_sizes(columns[side, key], side, key, sizes)
        lengths.append(sizes)
    optional = {key: _optional_column(target, key, lengths[1]) for key in ("iscrowd", "area")}
    on_gpu = _check_devices(columns | {("target", key): column for key, column in optional.items()})
    rows = torch.from_numpy(np.array(lengths, np.int64))
    return _batch(columns, optional, rows, _image_ids(target, on_gpu), box_format)


def _required(preds: Any, target: Any) -> tuple[tuple[str, Any, tuple[str, ...]], ...]:
    return ("preds", preds, ("boxes", "scores", "labels")), ("target", target, ("boxes", "labels"))


def _column(items: Sequence[Item], side: str, key: str) -> list[Tensor]:
    try:
        column = [item[key] for item in items]
    except (KeyError, TypeError, IndexError):
        for i, item in enumerate(items):
            check_type(f"{side}[{i}]", item, Mapping)  # type: ignore[type-abstract]
            if key not in item:
                raise InputError(f"{side}[{i}] must have key {key!r} but has {sorted(item)}") from None
        raise
    if set(map(type, column)) != {Tensor}:
        for i, value in enumerate(column):
            check_type(f"{side}[{i}][{key!r}]", value, Tensor)
    return column


def _optional_column(items: Sequence[Item], key: str, sizes: list[int]) -> list[Tensor]:
    """The tensors of a key that items may lack; zeros stand for a missing one, an empty list for none at all."""
    if not any(key in item for item in items):
        return []
    if not all(key in item for item in items):
        at = next(i for i, item in enumerate(items) if key in item)
        like = items[at][key]
        check_type(f"target[{at}][{key!r}]", like, Tensor)
        items = [item if key in item else {key: like.new_zeros(size)} for item, size in zip(items, sizes)]
    column = _column(items, "target", key)
    _check_sizes(column, "target", key, sizes)
    return column


def _check_sizes(column: list[Tensor], side: str, key: str, sizes: list[int]) -> None:
    """Raises unless every tensor has one row per label; an empty one may have any shape, like ``torch.tensor([])``."""
    width = 4 if key == "boxes" else 1
    if list(map(Tensor.numel, column)) != (sizes if width == 1 else [4 * size for size in sizes]):
        _check_shapes(column, side, key, sizes)


def _check_shapes(column: list[Tensor], side: str, key: str, sizes: list[int]) -> None:
    """Raises for the first tensor whose shape has not one row per label."""
    for i, (tensor, size) in enumerate(zip(column, sizes)):
        if tensor.numel() != (4 * size if key == "boxes" else size) or (
            key == "boxes" and size and tuple(tensor.shape) != (size, 4)
        ):
            need = f"[{size}, 4]" if key == "boxes" else f"[{size}]"
            raise InputError(f"{side}[{i}][{key!r}] must have shape {need}, one row for each of its {size} labels,"
                             f" but got {list(tensor.shape)}")  # fmt: skip


def _check_devices(columns: Mapping[Name, list[Tensor]]) -> bool:
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


def _check_one_device(columns: Mapping[Name, list[Tensor]]) -> None:
    name, first = next((name, column[0].device) for name, column in columns.items())
    for (side, key), column in columns.items():
        if set(map(_DEVICE, column)) == {first}:
            continue
        for i, tensor in enumerate(column):
            if tensor.device != first:
                raise InputError(
                    f"{side}[{i}][{key!r}] must be on {first} like {name[0]}[0][{name[1]!r}] but is on {tensor.device}"
                )


def _image_ids(target: Sequence[Item], on_gpu: bool) -> list[Tensor]:
    """The ids as one CPU tensor, or, for a batch on a GPU, as one-element device tensors that nobody waits for."""
    ids: list[Any] = [item.get("image_id") for item in target]
    if not on_gpu and (joined := _joined_ids(ids)) is not None:
        return [joined]
    kinds = set(map(type, ids))
    if kinds == {type(None)}:
        return []
    if kinds == {int} and all(_INT64.min <= value <= _INT64.max for value in ids):
        return [torch.tensor(ids)]
    missing = [i for i, value in enumerate(ids) if value is None]
    if missing:
        raise InputError(f"target[{missing[0]}] must have key 'image_id' since other images of the batch have one")
    for i, value in enumerate(ids):
        one = isinstance(value, Tensor) and value.numel() == 1 and value.dtype in INT_TYPES
        if not one and (isinstance(value, bool) or not isinstance(value, int)):
            got = f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise InputError(
                f"target[{i}]['image_id'] must be an int or an integer tensor of one element but got {got}"
            )
        if isinstance(value, int) and not _INT64.min <= value <= _INT64.max:
            raise InputError(f"target[{i}]['image_id'] must fit in int64 but is {value}")
    if on_gpu and all(isinstance(value, Tensor) and value.is_cuda for value in ids):
        return [value.long() for value in ids]
    return [torch.tensor([int(value) for value in ids])]


def _joined_ids(ids: list[Any]) -> Tensor | None:
    """int64 ``[I]`` of the usual ids, one-element CPU tensors; None for any other."""
    try:
        joined = torch.cat(ids)
    except (TypeError, RuntimeError, ValueError):
        return None
    usual = joined.dtype == torch.int64 and joined.ndim == 1 and joined.is_cpu
    return joined if usual and list(map(Tensor.numel, ids)) == [1] * len(ids) else None


def _from_padded(preds: Item, target: Item, box_format: str) -> MatchBatch:
    columns: dict[tuple[str, str], list[Tensor]] = {}
    for side, item, keys in _required(preds, target):
        for key in keys:
            columns[side, key] = _column([item], side, key)
    images = columns["preds", "labels"][0].shape[:1].numel()
    optional = {key: [target[key]] for key in ("iscrowd", "area") if key in target}
    for (side, key), (tensor,) in {**columns, **{("target", k): v for k, v in optional.items()}}.items():
        rows = columns[side, "labels"][0].shape
        need = (images, *rows[1:2], *((4,) if key == "boxes" else ()))
        if len(rows) == 1:
            raise InputError(f"{side} must be a dict of padded tensors [B, N, ...], or a list of dicts, but is the dict"
                             f" of one image: put it in a list")  # fmt: skip
        if len(rows) != 2 or tuple(tensor.shape) != need:
            raise InputError(f"{side}[{key!r}] must have shape [B, N{', 4' if key == 'boxes' else ''}] = {list(need)}"
                             f" but got {list(tensor.shape)}")  # fmt: skip
    _check_devices({**columns, **{("target", key): column for key, column in optional.items()}})
    counts = [_counts(item, side, images) for item, side in ((preds, "preds"), (target, "target"))]
    padded = [columns[side, "labels"][0].shape[1] for side in ("preds", "target")]
    if not columns["preds", "labels"][0].is_cuda:
        return _cut_padding(columns, optional, counts, padded, target, box_format)
    flat = {name: [tensor.flatten(0, 1)] for name, (tensor,) in columns.items()}
    extra = {key: [tensor.flatten(0, 1)] for key, (tensor,) in optional.items()}
    lengths = torch.tensor([[size] * images for size in padded])
    batch = _batch(flat, extra, lengths, _padded_ids(target, images, True), box_format)
    device = columns["preds", "labels"][0].device
    changes = {
        name: None if count is None else count if count.is_cuda else to_device(count, device)
        for name, count in zip(("counts", "gt_counts"), counts)
    }
    return MatchBatch(**{**vars(batch), **changes})


def _counts(item: Item, side: str, images: int) -> Tensor | None:
    if "counts" not in item:
        return None
    counts = item["counts"]
    check_type(f"{side}['counts']", counts, Tensor)
    if counts.dtype not in INT_TYPES or tuple(counts.shape) != (images,):
        raise InputError(f"{side}['counts'] must be integers of shape [{images}] but got {counts.dtype}"
                         f" {list(counts.shape)}")  # fmt: skip
    return counts.long()  # type: ignore[no-any-return]


def _padded_ids(target: Item, images: int, on_gpu: bool) -> list[Tensor]:
    ids = target.get("image_id")
    if ids is None:
        return []
    check_type("target['image_id']", ids, Tensor)
    if ids.dtype not in INT_TYPES or tuple(ids.shape) != (images,):
        raise InputError(f"target['image_id'] must be integers of shape [{images}] but got {ids.dtype}"
                         f" {list(ids.shape)}")  # fmt: skip
    return [ids.long() if on_gpu else ids.long().cpu()]


def _cut_padding(
    columns: Mapping[tuple[str, str], list[Tensor]],
    optional: Mapping[str, list[Tensor]],
    counts: list[Tensor | None],
    padded: list[int],
    target: Item,
    box_format: str,
) -> MatchBatch:
    """On the CPU the counts are at hand, so that no padding row needs a record."""
    images = columns["preds", "labels"][0].shape[0]
    kept, lengths = {}, []
    for side, count, size in zip(("preds", "target"), counts, padded):
        length = torch.full((images,), size) if count is None else count.cpu()
        wrong = ((length < 0) | (length > size)).nonzero()
        if len(wrong):
            raise InputError(f"{side}['counts'][{int(wrong[0])}] must lie between 0 and {size}"
                             f" but is {int(length[wrong[0]])}")  # fmt: skip
        kept[side] = torch.arange(size) < length[:, None]
        lengths.append(length)
    flat = {(side, key): [tensor[kept[side]]] for (side, key), (tensor,) in columns.items()}
    extra = {key: [tensor[kept["target"]]] for key, (tensor,) in optional.items()}
    return _batch(flat, extra, torch.stack(lengths), _padded_ids(target, images, False), box_format)


def _batch(
    columns: Mapping[tuple[str, str], list[Tensor]],
    optional: Mapping[str, list[Tensor]],
    lengths: Tensor,
    image_ids: list[Tensor],
    box_format: str,
) -> MatchBatch:
    boxes, code = _boxes(columns["preds", "boxes"], "preds", box_format)
    gt_boxes, true_code = _boxes(columns["target", "boxes"], "target", box_format)
    area = _uniform(optional.get("area", []), "target", "area")
    if area and area[0].dtype not in FLOAT_TYPES:
        area = [t.double() for t in area]
    return MatchBatch(
        lengths,
        boxes,
        _uniform(columns["preds", "scores"], "preds", "scores"),
        _uniform(columns["preds", "labels"], "preds", "labels"),
        gt_boxes=gt_boxes,
        gt_labels=_uniform(columns["target", "labels"], "target", "labels"),
        gt_flags=_uniform(optional.get("iscrowd", []), "target", "iscrowd"),
        gt_areas=area,
        image_ids=image_ids,
        box_format=code,
        gt_box_format=true_code,
    )


def _boxes(column: list[Tensor], side: str, box_format: str) -> tuple[list[Tensor], int]:
    """Boxes of one dtype and format; where images differ, xywh in float64, each converted in its own dtype."""
    code = BOX_FORMATS.index(box_format)
    if set(map(type, column)) <= {Tensor}:
        codes = [code]
    else:
        codes = [_own_format(t, code, f"{side}[{i}]['boxes']") for i, t in enumerate(column)]
    if len(set(codes)) > 1 or _mixed(column):
        codes = codes if len(codes) == len(column) else codes * len(column)
        _check_kind(column, side, "boxes")
        return [to_xywh(t.reshape(-1, 4), c) for t, c in zip(column, codes)], BOX_FORMATS.index("xywh")
    return _uniform(column, side, "boxes"), codes[0] if codes else code


def _mixed(column: list[Tensor]) -> bool:
    """Whether tensors that hold something differ in dtype."""
    return len(set(map(_DTYPE, column))) > 1 and len({t.dtype for t in column if t.numel()}) > 1


def _own_format(boxes: Tensor, code: int, name: str) -> int:
    """Format code of a tv_tensor, by its ``format`` attribute; ``code`` for any other tensor."""
    own = getattr(boxes, "format", None)
    if own is None:
        return code
    word = str(getattr(own, "value", own)).lower()
    if word not in BOX_FORMATS:
        raise InputError(f"{name} must be in format {', '.join(BOX_FORMATS)} but is in {word}")
    return BOX_FORMATS.index(word)


def _check_kind(column: list[Tensor], side: str, key: str) -> None:
    kind, allowed = _KINDS[key]
    for i, tensor in enumerate(column):
        if tensor.numel() and tensor.dtype not in allowed:
            raise InputError(f"{side}[{i}][{key!r}] must be {kind} but is {tensor.dtype}")


def _uniform(column: list[Tensor], side: str, key: str) -> list[Tensor]:
    """Contiguous tensors of one dtype that kernels read: on the CPU one for all images, elsewhere as they come.

    On the CPU joining costs less than looking at each tensor; on a GPU it would cost a launch.
    """
    if not column:
        return column
    if column[0].is_cuda and len(set(map(_DTYPE, column))) == 1 and all(map(Tensor.is_contiguous, column)):
        whole = column
    else:
        whole = [_joined(column, side, key)]
    if whole[0].dtype not in _KINDS[key][1]:
        _check_kind(column, side, key)
        whole = [t.to(next(iter(_KINDS[key][1]))) for t in whole]  # only empty tensors get here
    return whole


def _joined(column: list[Tensor], side: str, key: str) -> Tensor:
    if key == "area" and len(set(map(_DTYPE, column))) > 1:
        column = [t.double() for t in column]  # joining integers with float32 would round them
    try:
        whole = torch.cat(column)
        if whole.layout is not torch.strided:
            _check_dense(column, side, key)
        fits = key != "boxes" or whole.shape[1:] == (4,) or whole.numel() == 0
    except RuntimeError:  # a device or layout that differs, or shapes such as [N] and [N, 1] together
        _check_dense(column, side, key)
        _check_one_device({(side, key): column})
        fits = False
    if fits:
        return whole
    if key == "boxes":
        _check_shapes(column, side, key, [t.numel() // 4 for t in column])
    return torch.cat([t.reshape(-1, 4) if key == "boxes" else t.reshape(-1) for t in column])
