"""Packing of dense masks to one bit per pixel."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_shape
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register

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
    return PackedMasks(*_OP(masks))


def _num_words(masks: Tensor) -> int:
    return (masks.shape[1] * masks.shape[2] + WORD_BITS - 1) // WORD_BITS


def _pack_masks_reference(masks: Tensor) -> tuple[Tensor, Tensor]:
    """The definition: the attributes of :class:`PackedMasks`."""
    pixels = (masks != 0).flatten(1)  # [N, P]
    padded = torch.nn.functional.pad(pixels, (0, WORD_BITS * _num_words(masks) - pixels.shape[1]))
    bits = padded.view(masks.shape[0], _num_words(masks), WORD_BITS).long()
    words = (bits << torch.arange(WORD_BITS, device=masks.device)).sum(2)
    return words, pixels.sum(1)


def _pack_masks_fake(masks: Tensor) -> tuple[Tensor, Tensor]:
    words = masks.new_empty((masks.shape[0], _num_words(masks)), dtype=torch.int64)
    return words, masks.new_empty(masks.shape[0], dtype=torch.int64)


def _pack_masks_cpu(masks: Tensor) -> tuple[Tensor, Tensor]:
    call = native.function("valor_cpu", "valor_pack_masks_cpu", "pqqppq")
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
        native.function("valor_cuda", "valor_pack_masks_cuda", "pqqppp")(
            masks.data_ptr(), masks.shape[0], masks.shape[1] * masks.shape[2], words.data_ptr(),
            area.zero_().data_ptr(), stream,
        )  # fmt: skip
    return words, area


_OP = register(
    "pack_masks(Tensor masks) -> (Tensor, Tensor)",
    reference=_pack_masks_reference,
    fake=_pack_masks_fake,
    cpu=cpp(_pack_masks_cpu),
    cuda=cuda(_pack_masks_cuda),
)
