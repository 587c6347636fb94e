"""Instance masks as users hold them: dense tensors on any device, or run lengths of COCO."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.ops._runs_cpu import decode_strings, from_masks
from valor_gpu.ops.match_batch import MatchBatch
from valor_gpu.ops.runs import Runs, check_sizes

_DTYPES = (torch.bool, torch.uint8)
Sizes = list[tuple[int, int] | None]


@dataclass(frozen=True, eq=False)
class InstanceMasks:
    """Masks of one side of a batch.

    Attributes:
        dense: bool or uint8 ``[N_i, H_i, W_i]`` of each image; None where an image came as run lengths.
        coded: otherwise the masks of all images, numpy arrays.
        lengths: masks of each image.
    """

    dense: list[Tensor] | None
    coded: Runs | None
    lengths: list[int]

    @functools.cached_property
    def runs(self) -> Runs:
        """The masks of all images as run lengths; dense ones on a GPU are waited for."""
        if self.dense is None:
            assert self.coded is not None
            return self.coded
        return Runs.join([from_masks(masks.cpu().numpy()) for masks in self.dense])


def instance_masks(preds: Any, target: Any, batch: MatchBatch) -> tuple[InstanceMasks, InstanceMasks]:
    """Reads key ``masks`` of both sides of a batch given as lists of dicts.

    An image has a dense tensor ``[N, H, W]`` on the device of the labels, or a list of N run lengths
    ``{"size": [H, W], "counts": ...}`` whose counts are COCO's string, as ``str`` or ``bytes``, or a list of ints. All
    masks of an image have one size. An image without detections or ground truths may have any empty tensor or list.

    Args:
        preds: the detections.
        target: the ground truths.
        batch: their labels.

    Raises:
        InputError: naming the image and key, what is needed and what came.
    """
    device = batch.labels[0].device if batch.labels else torch.device("cpu")
    given, sizes = [], []
    lengths: list[list[int]] = batch.lengths.tolist()
    for side, items, counts in zip(("preds", "target"), (preds, target), lengths):
        if isinstance(items, Mapping):
            raise InputError(f"{side} must be a list of dicts, one per image, where they have masks, but got dict")
        given.append([_masks_of(item, f"{side}[{i}]", n, device) for i, (item, n) in enumerate(zip(items, counts))])
        sizes.append([_size_of(masks, f"{side}[{i}]['masks']") for i, masks in enumerate(given[-1])])
    for i, (size, gt_size) in enumerate(zip(*sizes)):
        if size is not None and gt_size is not None and size != gt_size:
            raise InputError(f"target[{i}]['masks'] must have the size of preds[{i}]['masks'], {list(size)},"
                             f" but got {list(gt_size)}")  # fmt: skip
    common: Sizes = [a if a is not None else b for a, b in zip(*sizes)]
    if all(isinstance(masks, Tensor) or not len(masks) for side in given for masks in side):
        return _dense(given[0], lengths[0], common, device), _dense(given[1], lengths[1], common, device)
    return _coded("preds", given[0], lengths[0]), _coded("target", given[1], lengths[1])


def _masks_of(item: Any, place: str, count: int, device: torch.device) -> Any:
    """The checked masks of an image: a tensor, or a list of dicts."""
    if "masks" not in item:
        raise InputError(f"{place} must have key 'masks' but has {sorted(item)}")
    masks, name = item["masks"], f"{place}['masks']"
    check_type(name, masks, (Tensor, list, tuple))
    if isinstance(masks, Tensor) and masks.numel() == 0 == count:
        return []
    if not isinstance(masks, Tensor):
        if len(masks) != count:
            raise InputError(f"{name} must have one mask for each of the {count} labels but has {len(masks)}")
        return masks
    if masks.ndim != 3 or masks.shape[0] != count:
        raise InputError(
            f"{name} must have shape [{count}, H, W], one mask for each label, but got {list(masks.shape)}"
        )
    if masks.dtype not in _DTYPES:
        raise InputError(f"{name} must be bool or uint8 but is {masks.dtype}: threshold logits or probabilities first")
    if masks.layout is not torch.strided or masks.device != device:
        raise InputError(
            f"{name} must be dense and on {device} like the labels but is {masks.layout} on {masks.device}"
        )
    return masks.detach()


def _size_of(masks: Any, name: str) -> tuple[int, int] | None:
    """Height and width of the masks of an image, None without masks."""
    if isinstance(masks, Tensor):
        return int(masks.shape[1]), int(masks.shape[2])
    sizes = [_coded_size(mask, f"{name}[{i}]") for i, mask in enumerate(masks)]
    for i, size in enumerate(sizes):
        if size != sizes[0]:
            raise InputError(f"{name}[{i}] must have the size of {name}[0], {list(sizes[0])}, but got {list(size)}")
    return sizes[0] if sizes else None


def _coded_size(mask: Any, name: str) -> tuple[int, int]:
    check_type(name, mask, Mapping)  # type: ignore[type-abstract]
    for key in ("size", "counts"):
        if key not in mask:
            raise InputError(f"{name} must have keys 'size' and 'counts' but has {sorted(map(str, mask))}")
    size: Any = mask["size"]
    numbers: Sequence[Any] = size if isinstance(size, (list, tuple)) else ()
    if len(numbers) != 2 or any(isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0 for n in numbers):
        raise InputError(f"{name}['size'] must be two integers of at least 0, height and width, but got {size!r}")
    return int(numbers[0]), int(numbers[1])


def _dense(masks: list[Any], lengths: list[int], sizes: Sizes, device: torch.device) -> InstanceMasks:
    """Tensors of all images; one without masks has the size of the other side, so that nobody looks at it."""
    none = [torch.zeros((0, *(size or (0, 0))), dtype=torch.uint8, device=device) for size in sizes]
    return InstanceMasks([m if isinstance(m, Tensor) else e for m, e in zip(masks, none)], None, lengths)


def _coded(side: str, masks: list[Any], lengths: list[int]) -> InstanceMasks:
    parts = []
    for i, image in enumerate(masks):
        if isinstance(image, Tensor):
            parts.append(from_masks(image.cpu().numpy()))
        else:
            parts += [_decoded(mask, f"{side}[{i}]['masks'][{j}]") for j, mask in enumerate(image)]
    return InstanceMasks(None, Runs.join(parts), lengths)


def _decoded(mask: Mapping[str, Any], name: str) -> Runs:
    """The runs of one mask."""
    counts, place = mask["counts"], f"{name}['counts']"
    sizes = check_sizes([_coded_size(mask, name)])
    if isinstance(counts, (str, bytes)):
        text = counts if isinstance(counts, bytes) else counts.encode("ascii", "replace")
        return decode_strings(text, np.array([0, len(text)]), sizes, lambda _: place)
    check_type(place, counts, (str, bytes, list, tuple))
    return _uncompressed(counts, sizes, place)


def _uncompressed(counts: Sequence[Any], sizes: Any, name: str) -> Runs:
    for value in counts:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise InputError(f"{name} must be integers of at least 0 but has {value!r}")
    height, width = sizes[0].tolist()
    if (total := sum(map(int, counts))) != height * width:
        raise InputError(f"{name} must add up to {height} x {width} pixels, {height * width}, but add up to {total}")
    return Runs(np.array(counts, np.int32), np.array([0, len(counts)]), sizes)
