"""Instance masks as users hold them, in any form: tensors on the device of the labels, or run lengths on the host."""

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
from valor_gpu.inputs._mask_forms import has_polygons, runs_of, sizes_of
from valor_gpu.inputs.masks import Masks
from valor_gpu.inputs.values import as_values
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.runs.cpu import from_masks
from valor_gpu.ops.runs.op import Runs

_DTYPES = (torch.bool, torch.uint8)
Sizes = list[tuple[int, int] | None]


@dataclass(frozen=True, eq=False)
class InstanceMasks:
    """Masks of one side of a batch.

    Attributes:
        dense: bool or uint8 ``[N_i, H_i, W_i]`` of each image; None where an image of either side has run lengths.
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
        return _joined(self.dense)


def instance_masks(preds: Any, target: Any, batch: MatchBatch) -> tuple[InstanceMasks, InstanceMasks]:
    """Reads key ``masks`` of both sides of a batch given as lists of dicts.

    An image has a dense tensor ``[N, H, W]`` on the device of the labels, or a list as :meth:`Masks.of` takes it, of N
    run lengths or polygons, or :class:`Masks`. Polygons of a list need key ``size`` beside ``masks``, the height and
    width of the image. All masks of an image have one size. An image without detections or ground truths may have any
    empty tensor or list. :class:`Masks` of dense masks or words go to the device of the labels and are used as tensors.

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
            raise InputError(
                f"{side} must be a sequence of dicts, one per image, but got dict: masks and keypoints come as lists,"
                " only boxes may be padded"
            )
        given.append([_masks_of(item, f"{side}[{i}]", n, device) for i, (item, n) in enumerate(zip(items, counts))])
        sizes.append([_size_of(masks, f"{side}[{i}]['masks']") for i, masks in enumerate(given[-1])])
    for i, (size, gt_size) in enumerate(zip(*sizes)):
        if size is not None and gt_size is not None and size != gt_size:
            raise InputError(f"target[{i}]['masks'] must have the size of preds[{i}]['masks'], {list(size)},"
                             f" but got {list(gt_size)}")  # fmt: skip
    common: Sizes = [a if a is not None else b for a, b in zip(*sizes)]
    if not any(isinstance(masks, Runs) for side in given for masks in side):
        return _dense(given[0], lengths[0], common, device), _dense(given[1], lengths[1], common, device)
    return InstanceMasks(None, _joined(given[0]), lengths[0]), InstanceMasks(None, _joined(given[1]), lengths[1])


def _masks_of(item: Any, place: str, count: int, device: torch.device) -> Tensor | Runs | None:
    """The checked masks of an image; None without any."""
    if "masks" not in item:
        raise InputError(f"{place} must have key 'masks' but has {sorted(item)}")
    masks, name = item["masks"], f"{place}['masks']"
    if isinstance(masks, np.ndarray):
        masks = as_values(name, masks)
    if isinstance(masks, Tensor):
        return None if masks.numel() == 0 == count else _checked(masks, name, count, device)
    check_type(name, masks, (Tensor, np.ndarray, list, tuple, Masks))
    if len(masks) != count:
        raise InputError(f"{name} must have one mask for each of the {count} labels but has {len(masks)}")
    if not count:
        return None
    if not isinstance(masks, Masks):
        return _listed(masks, item, place)
    if masks.form == "runs":
        return masks.runs()
    dense = masks.dense()
    # A copy where torch cannot share the array: one that is read-only or runs backwards.
    tensor = dense if isinstance(dense, Tensor) else torch.from_numpy(np.require(dense, requirements=["C", "W"]))
    return _checked(tensor.to(device), name, count, device)


def _checked(masks: Tensor, name: str, count: int, device: torch.device) -> Tensor:
    if masks.ndim != 3 or masks.shape[0] != count:
        extra = masks.ndim == 4 and masks.shape[1] == 1  # as torchvision's Mask R-CNN gives probabilities
        hint = "" if not extra else ": masks.squeeze(1)" + (" > 0.5" if masks.is_floating_point() else "")
        raise InputError(
            f"{name} must have shape [{count}, H, W], one mask for each label, but got {list(masks.shape)}{hint}"
        )
    if masks.dtype not in _DTYPES:
        raise InputError(f"{name} must be bool or uint8 but is {masks.dtype}: threshold logits or probabilities first")
    if masks.layout is not torch.strided or masks.device != device:
        raise InputError(
            f"{name} must be dense and on {device} like the labels but is {masks.layout} on {masks.device}"
        )
    return masks if type(masks) is Tensor else masks.detach()  # of these dtypes only a subclass has what to detach


def _listed(masks: Sequence[Any], item: Any, place: str) -> Runs:
    """The masks of a list."""
    sizes, size_name = None, f"{place}['size']"
    # Where all are run lengths, a key of that name may be something else, as in the targets of DETR.
    if has_polygons(masks) and item.get("size") is not None:
        size = item["size"]
        sizes = sizes_of(size.tolist() if isinstance(size, Tensor) else size, len(masks), size_name)
    return runs_of(masks, sizes, "coco", f"{place}['masks']", size_name)


def _size_of(masks: Tensor | Runs | None, name: str) -> tuple[int, int] | None:
    """Height and width of the masks of an image, None without masks."""
    if masks is None:
        return None
    if isinstance(masks, Tensor):
        return int(masks.shape[1]), int(masks.shape[2])
    first, *others = sizes = [(height, width) for height, width in masks.sizes.tolist()]
    if others.count(first) < len(others):
        i = next(i for i, size in enumerate(sizes) if size != first)
        raise InputError(f"{name}[{i}] must have the size of {name}[0], {list(first)}, but got {list(sizes[i])}")
    return first


def _dense(
    masks: Sequence[Tensor | Runs | None], lengths: list[int], sizes: Sizes, device: torch.device
) -> InstanceMasks:
    """Tensors of all images; one without masks has the size of the other side, so that nobody looks at it."""
    tensors = [
        m if isinstance(m, Tensor) else torch.zeros((0, *(size or (0, 0))), dtype=torch.uint8, device=device)
        for m, size in zip(masks, sizes)
    ]
    return InstanceMasks(tensors, None, lengths)


def _joined(masks: Sequence[Tensor | Runs | None]) -> Runs:
    """The masks of all images as run lengths."""
    parts = [from_masks(m.cpu().numpy()) if isinstance(m, Tensor) else m for m in masks]
    return Runs.join([part for part in parts if part is not None])
