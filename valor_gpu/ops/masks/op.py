"""Dense masks: packing to one bit per pixel, and the pairs of a batch for matching."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_shape
from valor_gpu.ops._device_tables import upload
from valor_gpu.ops._launch import cpp, cuda, launching, on_host
from valor_gpu.ops._library import disabled, register
from valor_gpu.ops.assign.cuda import check_one_device
from valor_gpu.ops.assign.match_batch import AGNOSTIC, MatchBatch, MatchRule
from valor_gpu.ops.error_codes import NO_ERROR
from valor_gpu.ops.masks import cpu as _dense_pairs_cpu
from valor_gpu.ops.masks import reference as _dense_pairs_reference
from valor_gpu.ops.masks.cpu import Layer, Plan, mask_words, overlap_words, plan, result
from valor_gpu.ops.pairs import cuda as _pairs_cuda
from valor_gpu.ops.pairs.cpu import Columns, Found, Search, columns, first_rows, stored
from valor_gpu.ops.pairs.cuda import access_on

WORD_BITS = 64


class PackedMasks(NamedTuple):
    """Masks at one bit per pixel.

    Attributes:
        words: int64 ``[N, ceil(H * W / 64)]``; bit i of word j is pixel ``64 * j + i`` in row-major order, and bits
            beyond the last pixel are 0.
        area: int64 ``[N]``, pixels that are set.
    """

    words: Tensor
    area: Tensor


def pack_masks(masks: Tensor) -> PackedMasks:
    """Packs masks to 64 pixels per word and counts their pixels, reading them once.

    Args:
        masks: bool or uint8 ``[N, H, W]``; every value but 0 is set.

    Returns:
        The words and areas, on the device of ``masks``.

    Raises:
        InputError: on a shape or dtype other than the above.

    Example:
        >>> packed = pack_masks(torch.tensor([[[True, False, True], [True, False, False]]]))
        >>> packed.words.tolist(), packed.area.tolist()
        ([[13]], [3])
    """
    check_shape("masks", masks, (None, None, None))
    check_dtype("masks", masks, (torch.bool, torch.uint8))
    return PackedMasks(*_PACK(masks))


def _num_words(masks: Tensor) -> int:
    return (masks.shape[1] * masks.shape[2] + WORD_BITS - 1) // WORD_BITS


def _pack_masks_reference(masks: Tensor) -> tuple[Tensor, Tensor]:
    """The definition: the attributes of :class:`PackedMasks`."""
    return _dense_pairs_reference.packed(masks), (masks != 0).flatten(1).sum(1)


def _pack_masks_fake(masks: Tensor) -> tuple[Tensor, Tensor]:
    words = masks.new_empty((masks.shape[0], _num_words(masks)), dtype=torch.int64)
    return words, masks.new_empty(masks.shape[0], dtype=torch.int64)


def _pack_masks_cpu(masks: Tensor) -> tuple[Tensor, Tensor]:
    call = native.function("valor_cpu", "valor_pack_masks_cpu")
    masks = masks.contiguous()
    words, area = _pack_masks_fake(masks)
    pixels = masks.shape[1] * masks.shape[2]
    num_masks, threads = masks.shape[0], torch.get_num_threads()
    call(masks.data_ptr(), num_masks, pixels, words.data_ptr(), area.data_ptr(), threads)
    return words, area


def _pack_masks_cuda(masks: Tensor) -> tuple[Tensor, Tensor]:
    masks = masks.contiguous()
    words, area = _pack_masks_fake(masks)
    with launching(masks.device) as stream:
        native.function("valor_cuda", "valor_pack_masks_cuda")(
            masks.data_ptr(), masks.shape[0], masks.shape[1] * masks.shape[2], words.data_ptr(),
            area.zero_().data_ptr(), stream,
        )  # fmt: skip
    return words, area


_PACK = register(
    "pack_masks(Tensor masks) -> (Tensor, Tensor)",
    reference=_pack_masks_reference,
    fake=_pack_masks_fake,
    cpu=cpp(_pack_masks_cpu),
    cuda=cuda(_pack_masks_cuda),
)


# ------------------------------------------------------------------------------------------------------- dense_pairs


def dense_pairs(
    batch: MatchBatch, masks: Sequence[Tensor], gt_masks: Sequence[Tensor], rule: MatchRule,
    boundaries: tuple[Sequence[Tensor], Sequence[Tensor]] | None = None, error: Tensor | None = None,
) -> tuple[MatchBatch, Tensor]:  # fmt: skip
    """Returns a batch of stored pairs for :func:`valor_gpu.ops.assign.op.assign`, and an error code.

    Pairs have a detection and a ground truth of its class (of any class with ``AGNOSTIC``) whose similarity reaches the
    lowest threshold, every pair of the class if that is at most 0. The similarity is pixels in both masks over pixels
    in any, against a crowd over those of the detection, 0 where no pixel is in both; with ``boundaries`` the smaller
    one of masks and boundaries, against a crowd that of masks (Boundary IoU, Cheng et al. 2021). Areas are pixels.

    Every mask is read once. Memory beside the inputs and outputs: 4 bytes for each detection and ground truth of an
    image, 16 for each ground truth, and the packed ground truths, an eighth of their bytes but at most
    ``PACKED_BYTES`` or those of one image; on the CPU a packed mask for each thread. The host does not wait for CUDA.

    Args:
        batch: tensors; boxes are not read.
        masks: bool or uint8 ``[D_i, H_i, W_i]`` of each image, on the device of the batch; every value but 0 is set.
        gt_masks: likewise ``[G_i, H_i, W_i]``.
        rule: of which thresholds and options are looked at.
        boundaries: boundaries of ``masks`` and of ``gt_masks``, in the same forms.
        error: int64 ``[]`` on that device, an error code that is returned as it is, which saves a launch on CUDA; None
            for a new one.

    Returns:
        The batch without boxes, and the error code: no value of a mask is an error.

    Raises:
        InputError: naming the first image whose masks have another shape, dtype or device, or another size than its
            ground truths.
    """
    lowest, agnostic = float(rule.thresholds.min()), bool(rule.options & AGNOSTIC)
    columns = (getattr(batch, name) for name in _BATCH_FIELDS)
    contours = ([], []) if boundaries is None else tuple(map(list, boundaries))
    arguments = (list(masks), list(gt_masks), *contours, *columns, lowest, agnostic)
    found = Found(*(_pairs_on_cuda(*arguments, error=error) if _direct(arguments) else _PAIRS(*arguments)))
    return stored(batch, found), found.error if error is None else error


_PLAIN = {Tensor}


def _direct(arguments: tuple[Any, ...]) -> bool:
    """Whether the CUDA kernel can be called without the dispatcher, which is slow for lists of tensors.

    Every tensor is checked, as by :func:`valor_gpu.ops.assign.op.assign`.
    """
    tensors = list(chain.from_iterable(value for value in arguments if isinstance(value, list)))
    if not tensors or set(map(type, tensors)) != _PLAIN or not tensors[0].is_cuda:
        return False
    return on_host("valor_cuda") and not disabled("dense_pairs")


_BATCH_FIELDS = ("labels", "gt_labels", "gt_flags", "lengths", "counts", "gt_counts")


class _Given(NamedTuple):
    """Arguments of the op."""

    sides: list[tuple[list[Tensor], list[Tensor]]]
    batch: MatchBatch
    lowest: float
    agnostic: bool

    @classmethod
    def of(cls, *arguments: Any) -> _Given:
        masks, gt_masks, boundaries, gt_boundaries, *columns, lowest, agnostic = arguments
        sides = [(masks, gt_masks), *([(boundaries, gt_boundaries)] if boundaries or gt_boundaries else [])]
        return cls(sides, MatchBatch(**dict(zip(_BATCH_FIELDS, columns))), lowest, agnostic)


def _pairs_on_cpu(*arguments: Any) -> Found:
    sides, batch, lowest, agnostic = _Given.of(*arguments)
    found = _dense_pairs_cpu.run(batch, sides, lowest, agnostic, access_on(torch.device("cpu")))
    return found._replace(error=torch.tensor(found.error))


def _pairs_on_cuda(*arguments: Any, error: Tensor | None = None) -> Found:
    sides, batch, lowest, agnostic = _Given.of(*arguments)
    device = check_one_device({
        "labels": batch.labels, "gt_labels": batch.gt_labels, "gt_flags": batch.gt_flags,
        **{name: x for side in sides for name, x in zip(("masks", "gt_masks"), side)},
        "counts": [c for c in (batch.counts, batch.gt_counts) if c is not None],
    })  # fmt: skip
    access, firsts, images = access_on(device), first_rows(batch.lengths), int(batch.lengths.shape[1])
    with launching(device) as stream:
        given = columns(batch, [int(n) for n in firsts[:2, -1]], access)
        plans = [plan(batch.lengths, *side, access) for side in sides]
        table = upload(np.concatenate([x.reshape(-1) for x in (firsts, *(p.table for p in plans))]), device)
        layers = [
            _load_on_cuda(given, agnostic, planned, firsts, table, firsts.size + k * 5 * images, stream)
            for k, planned in enumerate(plans)
        ]
        search = Search(given, overlap_words(layers, table.data_ptr(), images, access), lowest, agnostic)
        launch = native.function("valor_cuda", "valor_dense_pairs_cuda")
        pairs = _pairs_cuda.find(search, firsts, table, access, launch, stream)
    return result(layers, pairs, torch.full((), NO_ERROR, device=device) if error is None else error)


def _load_on_cuda(
    given: Columns, agnostic: bool, planned: Plan, firsts: Any, table: Tensor, place: int, stream: int
) -> Layer:
    """Reads all masks, group by group: ``table`` begins with ``firsts``, and has :attr:`Plan.table` at ``place``."""
    access, images = access_on(table.device), firsts.shape[1] - 1
    found = Layer.room([int(n) for n in firsts[:, -1]], access)
    packed, spans = access.empty((planned.packed,), "int64"), access.empty((int(firsts[1, -1]), 2), "int64")
    tables = [table.data_ptr() + 8 * (place + images * k) for k in range(5)]
    task = mask_words(found, tables, packed, spans, images, access)
    batch = Search(given, task, 0.0, agnostic).words(table.data_ptr(), images, access)
    call = native.function("valor_cuda", "valor_dense_overlaps_cuda")
    for first, end in planned.groups:
        rows = [n for side in (1, 0) for n in (int(firsts[side, first]), int(firsts[side, end] - firsts[side, first]))]
        call(ctypes.addressof(batch), ctypes.addressof(task), *rows, stream)
    return found


def _pairs_by_reference(*arguments: Any) -> Found:
    sides, batch, lowest, agnostic = _Given.of(*arguments)
    device = sides[0][0][0].device if sides[0][0] else torch.device("cpu")
    return _dense_pairs_reference.run(batch, sides, lowest, agnostic, device)


def _pairs_fake(*arguments: Any) -> Found:
    given = _Given.of(*arguments)
    masks = given.sides[0][0]
    return _pairs_cuda.fake(masks[0] if masks else given.batch.lengths)


_PAIRS = register(
    "dense_pairs(Tensor[] masks, Tensor[] gt_masks, Tensor[] boundaries, Tensor[] gt_boundaries, Tensor[] labels,"
    " Tensor[] gt_labels, Tensor[] gt_flags, Tensor lengths, Tensor? counts, Tensor? gt_counts, float lowest,"
    " bool agnostic) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    reference=_pairs_by_reference,
    fake=_pairs_fake,
    cpu=cpp(_pairs_on_cpu),
    cuda=cuda(_pairs_on_cuda),
)
