"""Softmax and sigmoid of float64 scores over NumPy arrays, by the C++ library. No torch import.

Their exponential is the nearest double, so that they have the same bits on every processor; those of NumPy and of torch
differ in the last bit from one to another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from valor_gpu import native


def activated(scores: NDArray[np.float64], how: str) -> NDArray[np.float64]:
    """Probabilities ``[N, C]`` of logits ``[N, C]``.

    Args:
        scores: float64; a row with NaN, or whose largest is infinite, has a softmax of NaN.
        how: ``softmax`` over the classes, or ``sigmoid`` of each.

    Example:
        >>> activated(np.array([[0.0, 0.0], [-1000.0, 0.0]]), "softmax").tolist()
        [[0.5, 0.5], [0.0, 1.0]]
    """
    scores = np.ascontiguousarray(scores)
    found = np.empty(scores.shape)
    native.function("valor_cpu", "valor_activate_cpu", "pqqqpq")(
        scores.ctypes.data, *scores.shape, how == "softmax", found.ctypes.data, native.threads()
    )
    return found
