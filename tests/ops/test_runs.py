"""Run lengths of masks: choosing, joining and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from valor_gpu.errors import InputError
from valor_gpu.ops.runs.op import MAX_PIXELS, Runs, check_sizes


def runs_of(*masks: tuple[tuple[int, int], list[int]]) -> Runs:
    """Runs of (size, counts) each."""
    offsets = np.cumsum([0, *(len(counts) for _, counts in masks)])
    sizes = np.array([size for size, _ in masks], np.int32).reshape(-1, 2)
    return Runs(np.array([n for _, counts in masks for n in counts], np.int32), offsets, sizes)


def listed(runs: Runs) -> list[tuple[tuple[int, ...], list[int]]]:
    """What :func:`runs_of` takes."""
    assert (runs.counts.dtype, runs.offsets.dtype, runs.sizes.dtype) == (np.int32, np.int64, np.int32)
    assert runs.offsets[0] == 0 and runs.offsets[-1] == len(runs.counts) and runs.sizes.shape == (len(runs), 2)
    return [
        (tuple(size), runs.counts[first:end].tolist())
        for size, first, end in zip(runs.sizes.tolist(), runs.offsets, runs.offsets[1:])
    ]


MASKS: Any = [((2, 3), [1, 2, 3]), ((4, 1), []), ((1, 1), [0, 1]), ((5, 5), [25])]


@pytest.mark.parametrize(
    "rows", [[], [0], [3, 1, 1, 0], [-1], [True, False, False, True], np.array([2, 0]), np.zeros(4, bool)]
)
def test_take_keeps_order_and_repetitions(rows: Any) -> None:
    chosen = np.arange(4)[np.asarray(rows, None if len(rows) else int)]
    assert listed(runs_of(*MASKS).take(rows)) == [MASKS[i] for i in chosen]


def test_join_puts_parts_one_after_another() -> None:
    assert listed(Runs.join([])) == []
    assert listed(Runs.join([runs_of(*MASKS[:1]), runs_of(), runs_of(*MASKS[1:])])) == MASKS


def test_empty_masks_are_one_run_of_zeros() -> None:
    assert listed(Runs.empty([[2, 3], [0, 7], [1, MAX_PIXELS]])) == [
        ((2, 3), [6]), ((0, 7), [0]), ((1, MAX_PIXELS), [MAX_PIXELS])
    ]  # fmt: skip
    assert listed(Runs.empty([])) == []


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([[1, 1], [-1, 2]], r"sizes\[1\] must be at least 0 x 0 .* but is -1 x 2"),
        ([[65536, 32768]], r"sizes\[0\] must be .* at most 2147483647 pixels but is 65536 x 32768"),
        ([[2**62, 4]], r"sizes\[0\] .* but is 4611686018427387904 x 4"),
        (np.array([[2**64 - 1, 1]], np.uint64), r"sizes\[0\] .* but is 18446744073709551615 x 1"),
        ([1, 2], r"sizes must be integers \[N, 2\], heights and widths, but got int64 \[2\]"),
        ([[1.0, 2.0]], r"sizes must be integers .* but got float64 \[1, 2\]"),
    ],
)
def test_sizes_that_are_none_are_named(sizes: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_sizes(sizes)
