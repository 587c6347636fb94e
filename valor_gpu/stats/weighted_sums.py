"""Sums of columns over drawn units."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.stats.draws import Draws


def weighted_sums(values: NDArray[Any], draws: Draws) -> NDArray[Any]:
    """Computes weighted sums of columns, ``[C, L]`` of the dtype of ``values``.

    Units are added one after another, so that the bits do not depend on the machine.

    Args:
        values: float64 or int64 ``[U, C]``.
        draws: of U units.
    """
    weights = draws.array()
    sums = np.zeros((values.shape[1], draws.count), values.dtype)
    for value, weight in zip(values, weights):
        sums += value[:, None] * weight
    return sums
