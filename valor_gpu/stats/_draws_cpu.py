"""Calls the C++ kernels of resampling with numpy arrays; :mod:`valor_gpu.stats.draws` has the definitions."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native

if TYPE_CHECKING:
    from valor_gpu.stats.draws import Draws


def draw_weights(draws: Draws) -> NDArray[np.uint8] | None:
    """Returns weights uint8 ``[drawn, L]``, None where one of them does not fit."""
    weights = np.empty((draws.drawn, draws.count), np.uint8)
    fits = np.ones(1, np.int64)
    run = native.function("valor_cpu", "valor_draw_weights_cpu")
    run(_words(draws), weights.ctypes.data, fits.ctypes.data, native.threads())
    return weights if fits[0] else None


def draw_cells(draws: Draws, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns resampled counts, int64 ``[cells, L]``, of counts that add up to the units."""
    found = np.zeros((len(counts), draws.count), np.int64)
    run = native.function("valor_cpu", "valor_draw_cells_cpu")
    counts = np.ascontiguousarray(counts, np.int64)
    run(_words(draws), counts.ctypes.data, len(counts), found.ctypes.data, native.threads())
    return found


def add_weighted(values: NDArray[np.float64], weights: NDArray[np.uint8], sums: NDArray[np.float64]) -> None:
    """Adds ``weights[u, l] * values[u, c]`` of all units, one after another, to ``sums[c, l]``."""
    run = native.function("valor_cpu", "valor_add_weighted_cpu")
    values, (units, columns) = np.ascontiguousarray(values), values.shape
    lanes = weights.shape[1]
    run(values.ctypes.data, units, columns, weights.ctypes.data, lanes, sums.ctypes.data, native.threads())


def add_weighted_integers(values: NDArray[np.int64], weights: NDArray[np.uint8], sums: NDArray[np.int64]) -> None:
    """Adds ``weights[u, l] * values[u, c]`` of all units to ``sums[c, l]``."""
    run = native.function("valor_cpu", "valor_add_weighted_integers_cpu")
    values, (units, columns) = np.ascontiguousarray(values), values.shape
    lanes = weights.shape[1]
    run(values.ctypes.data, units, columns, weights.ctypes.data, lanes, sums.ctypes.data, native.threads())


def _words(draws: Draws) -> bytes:
    """The DrawsCall of csrc/cpu/draws.cpp."""
    from valor_gpu.stats.draws import KINDS

    kind = KINDS.index(draws.kind)
    return struct.pack("3qQ2q", draws.drawn, draws.count, draws.first, draws.seed & _SEED, kind, draws.groups)


_SEED = (1 << 64) - 1
