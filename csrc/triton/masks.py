"""Packing of dense masks, one byte per pixel, to one bit per pixel."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

WORDS_PER_PROGRAM = 64


@triton.jit
def pack_masks_kernel(
    masks: tl.tensor,
    words: tl.tensor,
    area: tl.tensor,
    pixels: tl.tensor,
    num_words: tl.tensor,
    blocks: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Program ``mask * blocks + block`` packs BLOCK words of one mask and adds their bits to its area."""
    program = tl.program_id(0).to(tl.int64)
    mask = program // blocks
    word = (program % blocks) * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    # Halves of 32 pixels, because 32-bit shifts and sums are native on a device and 64-bit ones are not.
    half = tl.arange(0, 2)[None, :, None]
    bit = tl.arange(0, 32)[None, None, :]
    pixel = word[:, None, None] * 64 + half * 32 + bit  # [BLOCK, 2, 32]
    value = tl.load(masks + mask * pixels + pixel, mask=pixel < pixels, other=0)
    on = (value != 0).to(tl.int32)
    halves = tl.sum(on << bit, axis=2).to(tl.uint32, bitcast=True).to(tl.int64)  # [BLOCK, 2]
    packed = tl.sum(halves << (tl.arange(0, 2)[None, :].to(tl.int64) * 32), axis=1)  # [BLOCK]
    tl.store(words + mask * num_words + word, packed, mask=word < num_words)
    count = tl.sum(tl.sum(tl.sum(on, axis=2), axis=1), axis=0)
    tl.atomic_add(area + mask, count.to(tl.int64))


def pack_masks(masks: Tensor, words: Tensor, area: Tensor) -> None:
    """Fill ``words`` int64 ``[N, ceil(P / 64)]`` and add to ``area`` int64 ``[N]`` from ``masks`` uint8 ``[N, P]``."""
    num_masks, pixels = masks.shape
    num_words = words.shape[1]
    blocks = triton.cdiv(num_words, WORDS_PER_PROGRAM)
    if num_masks * blocks:
        pack_masks_kernel[(num_masks * blocks,)](
            masks, words, area, pixels, num_words, blocks, BLOCK=WORDS_PER_PROGRAM, enable_fp_fusion=False
        )
