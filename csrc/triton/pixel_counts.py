"""Class logits to counts: the largest logit of each pixel and the histogram of the outcomes, in one kernel."""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

PIXELS_PER_TILE = 1024
MOST_BINS = 4096
MOST_PIXELS = 2**31 - 2**20  # of an image: their numbers are 32 bits wide, also in the last tile of a program
_WANTED_PROGRAMS = 1056  # 8 for each of 132 multiprocessors
_LAST_ROW = (1 << 27) - 1


@triton.jit
def _key(bits: tl.tensor, MAGNITUDE: tl.constexpr, INFINITY: tl.constexpr, SIGN: tl.constexpr) -> tl.tensor:
    """An integer that ascends as torch.argmax ranks: -0.0 equals 0.0, every NaN lies above all numbers."""
    sign = bits >> SIGN
    magnitude = bits & MAGNITUDE
    return tl.where(magnitude > INFINITY, MAGNITUDE, (magnitude ^ sign) - sign)


@triton.jit
def _largest(
    logits: tl.tensor, there: tl.tensor, classes: tl.tensor, channel_stride: tl.tensor,
    MAGNITUDE: tl.constexpr, INFINITY: tl.constexpr, SIGN: tl.constexpr, KEY: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """The channel of the largest logit of each pixel, of equal ones the first."""
    best = _key(tl.load(logits, mask=there, other=0).to(KEY), MAGNITUDE, INFINITY, SIGN)
    guess = tl.zeros(there.shape, tl.int32)
    for channel in range(1, classes):
        logits += channel_stride
        key = _key(tl.load(logits, mask=there, other=0).to(KEY), MAGNITUDE, INFINITY, SIGN)
        guess = tl.where(key > best, channel, guess)
        best = tl.maximum(key, best)
    return guess


@triton.jit
def valor_count_logits_kernel(
    logits: tl.tensor, target: tl.tensor, tables: tl.tensor, error: tl.tensor,
    classes: tl.tensor, channel_stride: tl.tensor, rows: tl.tensor, columns: tl.tensor,
    image_stride: tl.tensor, row_stride: tl.tensor, pixel_stride: tl.tensor,
    target_image_stride: tl.tensor, target_row_stride: tl.tensor, target_pixel_stride: tl.tensor,
    table_stride: tl.tensor, ignore: tl.tensor, code_pixels: tl.tensor, last_row: tl.tensor,
    programs: tl.tensor, rounds: tl.tensor,
    IGNORES: tl.constexpr, PAIRS: tl.constexpr, MAGNITUDE: tl.constexpr, INFINITY: tl.constexpr, SIGN: tl.constexpr,
    KEY: tl.constexpr, BINS: tl.constexpr, BLOCK: tl.constexpr,
) -> None:  # fmt: skip
    """Program ``image * programs + part`` counts ``rounds`` tiles of BLOCK pixels of one image.

    Bins are those of the table with PAIRS; else right pixels by class, then wrong ones by prediction and by truth. The
    bin after them takes pixels that do not count.
    """
    image = (tl.program_id(0) // programs).to(tl.int64)
    part = tl.program_id(0) % programs
    pixels = rows * columns
    none = classes * classes if PAIRS else 3 * classes
    counts = tl.zeros([BINS], tl.int32)
    first_bad = tl.full([], 0, tl.int32) + pixels
    for turn in range(rounds):
        pixel = (part * rounds + turn) * BLOCK + tl.arange(0, BLOCK)
        there = pixel < pixels
        row, column = (pixel // columns).to(tl.int64), (pixel % columns).to(tl.int64)
        truth_at = image * target_image_stride + row * target_row_stride + column * target_pixel_stride
        truth = tl.load(target + truth_at, mask=there, other=0).to(tl.int64)
        kept = there
        if IGNORES:
            kept = there & (truth != ignore)
        good = kept & (truth >= 0) & (truth < classes)
        first_bad = tl.minimum(first_bad, tl.min(tl.where(kept & ~good, pixel, pixels), axis=0))
        true = tl.where(good, truth, 0).to(tl.int32)
        at = image * image_stride + row * row_stride + column * pixel_stride
        guess = _largest(logits + at, there, classes, channel_stride, MAGNITUDE, INFINITY, SIGN, KEY)
        if PAIRS:
            counts += tl.histogram(tl.where(good, true * classes + guess, none), BINS)
        else:
            right = true == guess
            counts += tl.histogram(tl.where(good, tl.where(right, guess, classes + guess), none), BINS)
            counts += tl.histogram(tl.where(good & ~right, 2 * classes + true, none), BINS)
    bin = tl.arange(0, BINS)
    table = tables + image * table_stride + bin
    some, wide = (bin < none) & (counts > 0), counts.to(tl.int64)
    tl.atomic_add(table, wide, mask=some)
    if not PAIRS:
        tl.atomic_add(table + classes, wide, mask=some & (bin < classes))
        tl.atomic_add(table + 2 * classes, wide, mask=some & (bin < classes))
    if first_bad < pixels:
        flat = image * pixels + first_bad
        code_row = tl.minimum(flat // code_pixels, last_row)
        tl.atomic_min(error, ((code_row << 32) | (flat % code_pixels)) << 4 | 1)


def bins_of(classes: int, pairs: bool) -> int:
    """Bins of the histogram, a power of 2."""
    return int(triton.next_power_of_2((classes if pairs else 3) * classes + 1))


def count_logits(
    logits: Tensor, target: Tensor, tables: Tensor, error: Tensor, placed: list[list[int]], channel_stride: int,
    code_pixels: int, ignore_index: int | None, pairs: bool, constants: Sequence[int],
) -> None:  # fmt: skip
    """Adds to ``tables`` and lowers ``error``.

    Args:
        logits: their bits as integers, so that the order is exact.
        target: any integer dtype.
        tables: int64 ``[3 or C, C]``, or one for each image.
        error: int64 ``[]``.
        placed: sizes of images, rows and columns, then the strides of both.
        channel_stride: between the logits of a pixel.
        code_pixels: pixels of what an error code calls a row.
        ignore_index: a value of the target.
        pairs: which tables.
        constants: all bits but the sign, and the bits of infinity.
    """
    (images, rows, columns), steps, target_steps = placed
    classes = tables.shape[-1]
    tiles = triton.cdiv(rows * columns, PIXELS_PER_TILE)
    rounds = min(max(tiles * images // _WANTED_PROGRAMS, 1), 1024)
    programs = triton.cdiv(tiles, rounds)
    table_stride = tables.stride(0) if tables.ndim == 3 else 0
    wide = logits.element_size() == 8
    valor_count_logits_kernel[(images * programs,)](
        logits, target, tables, error, classes, channel_stride, rows, columns, *steps, *target_steps,
        table_stride, ignore_index or 0, code_pixels, _LAST_ROW, programs, rounds,
        IGNORES=ignore_index is not None, PAIRS=pairs, MAGNITUDE=constants[0], INFINITY=constants[1],
        SIGN=8 * logits.element_size() - 1, KEY=tl.int64 if wide else tl.int32, BINS=bins_of(classes, pairs),
        BLOCK=PIXELS_PER_TILE, enable_fp_fusion=False,
    )  # fmt: skip
