"""Masks as run lengths, the form in which every mask of the CPU path travels. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from valor_gpu.errors import InputError

MAX_PIXELS = 2**31 - 1
"""Most pixels of a mask: run lengths have 32 bits."""


@dataclass(frozen=True, eq=False)
class Runs:
    """Masks as run lengths, column by column: a run of zeros, which may be 0 long, then ones, zeros and so on.

    This is the order of COCO's RLE. ``take``, ``join`` and ``empty`` are for numpy arrays.

    Attributes:
        counts: int32 ``[R]``, the runs of all masks. Those of one mask add up to its height x width.
        offsets: int64 ``[N + 1]``: the runs of mask i are ``counts[offsets[i]:offsets[i + 1]]``. A mask without runs
            has no pixel set.
        sizes: int32 ``[N, 2]``: height and width, whose product is at most ``MAX_PIXELS``.

    Example:
        >>> runs = Runs(np.array([1, 2, 3, 4], np.int32), np.array([0, 3, 4]), np.array([[2, 3], [2, 2]], np.int32))
        >>> len(runs), runs.take([1, 0]).counts.tolist()
        (2, [4, 1, 2, 3])
    """

    counts: Any
    offsets: Any
    sizes: Any

    def __len__(self) -> int:
        return int(self.sizes.shape[0])

    def take(self, rows: Any) -> Runs:
        """Returns the masks at ``rows``, in their order.

        Args:
            rows: integers from -N to N - 1, or bool ``[N]``.
        """
        chosen = np.arange(len(self))[np.asarray(rows, None if len(rows) else np.int64)]
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths)
        return Runs(self.counts[places], offsets, self.sizes[chosen])

    @classmethod
    def join(cls, parts: Sequence[Runs]) -> Runs:
        """Returns the masks of all parts, one part after another; of no part, no masks."""
        parts = [*parts, cls.empty(np.zeros((0, 2), np.int32))]
        offsets = np.zeros(1 + sum(map(len, parts)), np.int64)
        np.cumsum(np.concatenate([np.diff(part.offsets) for part in parts]), out=offsets[1:])
        counts, sizes = (np.concatenate([getattr(part, name) for part in parts]) for name in ("counts", "sizes"))
        return cls(counts, offsets, sizes)

    @classmethod
    def empty(cls, sizes: Any) -> Runs:
        """Returns masks without a pixel set: each is one run of zeros.

        Args:
            sizes: integers ``[N, 2]``: heights and widths.

        Raises:
            InputError: naming the first size that :func:`check_sizes` rejects.
        """
        checked = check_sizes(sizes)
        pixels = checked[:, 0] * checked[:, 1]
        return cls(pixels, np.arange(len(pixels) + 1, dtype=np.int64), checked)


def check_sizes(sizes: Any) -> Any:
    """Returns heights and widths as int32 ``[N, 2]``.

    Args:
        sizes: integers ``[N, 2]``.

    Raises:
        InputError: on another shape or dtype, or naming the first mask with a negative height or width, or with more
            than ``MAX_PIXELS`` pixels.
    """
    given = np.asarray(sizes)
    if given.ndim and len(given) == 0 and given.dtype.kind not in "iu":
        given = np.zeros((0, 2), np.int32)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        raise InputError(
            f"sizes must be integers [N, 2], heights and widths, but got {given.dtype} {list(given.shape)}"
        )
    low, high = given.min(1, initial=0) < 0, given.max(1, initial=0) > MAX_PIXELS
    wide = given.astype(np.int64)
    bad = low | high | (wide[:, 0] * np.where(low | high, 0, wide[:, 1]) > MAX_PIXELS)
    if bad.any():
        first = int(bad.argmax())
        raise InputError(
            f"sizes[{first}] must be at least 0 x 0 and have at most {MAX_PIXELS} pixels but is"
            f" {given[first, 0]} x {given[first, 1]}"
        )
    return np.ascontiguousarray(given, np.int32)
