"""Terms of rows one by one, as the exact sums add them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.ops.moments.kinds import Kind
from valor_gpu.ops.moments.reference import _terms

Columns = NDArray[np.float64]


def row_terms(preds: Columns, target: Columns, kind: Kind, parameter: float) -> Columns:
    """Returns the term of each row of a kind with one sum.

    Args:
        preds: ``[N]``.
        target: ``[N]``.
        kind: of the sums.
        parameter: of the kind.

    Returns:
        float64 ``[N, 1]``.
    """
    p, t = (torch.from_numpy(np.ascontiguousarray(side))[:, None] for side in (preds, target))
    numbers, ((first, *second),), _ = _terms(p, t, kind, parameter)
    found = numbers[first] * numbers[second[0]] if second else numbers[first]
    return np.asarray(found.numpy())
