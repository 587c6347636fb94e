"""What is doubtful about pixels that were left out for their label."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def ignored_doubt(true: NDArray[np.int64], ignored: int, value: int, option: str) -> str:
    """Says that leaving out a label may have left out what should count; empty where nothing hints at that.

    The background may be left out of any data, and a label that is no class where two classes or more are left.

    Args:
        true: int64 ``[C]``, pixels of each class in the ground truth that were not left out.
        ignored: how many were left out.
        value: their label.
        option: what the user gave, for example ``ignore_index=255``.

    Example:
        >>> ignored_doubt(np.array([600, 0]), 400, 255, "ignore_index=255").partition(":")[0]
        'ignore_index=255 leaves out 400 of 1,000 pixels and the others are all of class 0'
    """
    left = np.flatnonzero(true)
    if not ignored or len(true) < 2:
        return ""
    start = f"{option} leaves out {ignored:,} of {ignored + int(true.sum()):,} pixels"
    if not len(left):
        return f"{start}, so that nothing is counted"
    if len(left) == 1 and value != 0:
        only = f"{start} and the others are all of class {left[0]}"
        if left[0] or 0 < value < len(true):
            return only
        return f"{only}: where {value} is the foreground of a mask, it must be 1"
    if value == len(true) and not true[0]:
        return f"{start} and none is of class 0: where labels run from 1 to {value}, they must begin with 0"
    return ""
