"""Sums of values over drawn units."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native
from valor_gpu.errors import InputError
from valor_gpu.stats._draws_cpu import add_weighted, add_weighted_integers
from valor_gpu.stats.draws import Draws

_LANES, _MOST_BYTES = 64, 8 << 20
"""Replicates that the kernels take side by side; weights in memory at a time."""
_MOST_WEIGHT = 255


def weighted_sums(values: NDArray[Any], draws: Draws) -> NDArray[Any]:
    """Computes the sums over resampled units of their values.

    A unit that is drawn w times adds w times its value. Sums of float64 add unit after unit, in their order; integers
    add to int64, which is exact in any order. Weights take at most 8 MB at a time.

    Args:
        values: float64 or integers ``[U, C]``; a unit without a value has 0.
        draws: of the units.

    Returns:
        float64 or int64 ``[C, L]``.

    Raises:
        InputError: there are other units, integers whose sums could exceed 2**63, or :meth:`Draws.array` raises.

    Example:
        >>> weighted_sums(np.array([[1.0], [2.0], [4.0]]), Draws(3, 4)).tolist()
        [[10.0, 7.0, 6.0, 9.0]]
    """
    values = np.asarray(values)
    if values.ndim != 2 or len(values) != draws.units:
        raise InputError(f"values must be [{draws.units}, C], a row a unit, but has shape {list(values.shape)}")
    whole = values.dtype.kind in "biu"
    if whole and _largest(values) * max(draws.units, 1) * _MOST_WEIGHT >= 1 << 63:
        raise InputError(f"values must be below 2**63 in sums but one of {draws.units:,} is {_largest(values):,}")
    values = values.astype(np.int64 if whole else np.float64, copy=False)
    sums = np.zeros((values.shape[1], draws.count), values.dtype)
    lanes = max(_LANES, _MOST_BYTES // max(draws.units, 1) // _LANES * _LANES)
    for first in range(0, draws.count, lanes):
        part = replace(draws, first=draws.first + first, count=min(lanes, draws.count - first))
        sums[:, first : first + lanes] = _weighted(values, part.array())
    return sums


def _largest(values: NDArray[Any]) -> int:
    """The largest size of integers."""
    return max(abs(int(values.max(initial=0))), abs(int(values.min(initial=0))))


def _weighted(values: NDArray[Any], weights: NDArray[np.uint8]) -> NDArray[Any]:
    if not native.usable("valor_cpu"):
        return _weighted_defined(values, weights)
    sums = np.zeros((values.shape[1], weights.shape[1]), values.dtype)
    (add_weighted_integers if values.dtype == np.int64 else add_weighted)(values, weights, sums)
    return sums


def _weighted_defined(values: NDArray[Any], weights: NDArray[np.uint8]) -> NDArray[Any]:
    """The definition of sums; ``cumsum`` adds in order, where ``sum`` would not."""
    sums = np.zeros((values.shape[1], weights.shape[1]), values.dtype)
    for column in range(values.shape[1] if len(values) else 0):
        for lane in range(weights.shape[1]):
            sums[column, lane] = np.cumsum(weights[:, lane] * values[:, column])[-1]
    return sums
