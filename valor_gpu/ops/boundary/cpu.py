"""Boundaries of masks as run lengths on the CPU, over numpy arrays. No torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.checks import check_number
from valor_gpu.ops.runs.cpu import collected, run_words
from valor_gpu.ops.runs.op import Runs

_MASKS_PER_HELPER = 64  # waking a thread for fewer takes longer than it saves


def distances(sizes: Any, ratio: float) -> NDArray[np.int32]:
    """Width of the boundary of masks in pixels, int32 ``[N]``: ``ratio`` x diagonal, half to even, at least 1.

    Args:
        sizes: integers ``[N, 2]``: heights and widths.
        ratio: from 0 to 1.

    Raises:
        InputError: ``ratio`` is no number from 0 to 1.

    Example:
        >>> distances(np.array([[480, 640], [5, 5]]), 0.02).tolist()
        [16, 1]
    """
    check_number("ratio", ratio, 0, 1)
    wide = np.asarray(sizes, np.int64)
    found: NDArray[np.int32] = np.maximum(np.rint(ratio * np.sqrt((wide * wide).sum(1))), 1).astype(np.int32)
    return found


def boundary_runs(runs: Runs, ratio: float = 0.02) -> Runs:
    """Returns the boundary of each mask: its pixels without the erosion by a square of 2 d + 1 pixels.

    d is ``ratio`` x the diagonal of the image, rounded, at least 1; outside of the image nothing is set. This is the
    mask minus d erosions by 3 x 3 pixels of boundary-iou-api (Cheng et al. 2021), from runs to runs.

    Args:
        runs: numpy arrays.
        ratio: from 0 to 1.

    Returns:
        Masks of the same sizes, of fewest runs.

    Raises:
        InputError: ``ratio`` is no number from 0 to 1, or arrays that are no runs.

    Example:
        >>> block = Runs(np.array([6, 3, 2, 3, 2, 3, 6], np.int32), np.array([0, 7]), np.array([[5, 5]], np.int32))
        >>> boundary_runs(block).counts.tolist()
        [6, 3, 2, 1, 1, 1, 2, 3, 6]
    """
    return boundary_at(runs, distances(runs.sizes, ratio))


def boundary_at(runs: Runs, wide: NDArray[np.int32]) -> Runs:
    """Returns the boundary of each mask, ``wide`` pixels of it, int32 ``[N]``, at least 1."""
    words, kept = run_words(runs)
    threads = min(native.threads(), 1 + len(kept) // _MASKS_PER_HELPER)
    function = native.function("valor_cpu", "valor_boundary_runs_cpu", "ppppq")
    return collected(kept.sizes, lambda offsets, made: function(words, wide.ctypes.data, offsets, made, threads))
