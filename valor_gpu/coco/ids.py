"""Sets of image, category and annotation ids as arrays. No torch; numpy.unique and isin would import numpy.ma."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.inputs.text_ids import plain_text

Ids = NDArray[np.int64]

_TABLE_BYTES_PER_ROW = 4
_SMALL_TABLE = 1 << 16


def sorted_unique(values: Any) -> NDArray[Any]:
    """What ``numpy.unique`` gives.

    Example:
        >>> sorted_unique([7, 3, 7]).tolist()
        [3, 7]
    """
    ordered = np.sort(np.asarray(values), axis=None)
    unique: NDArray[Any] = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return unique


def sorted_ids(name: str, values: Any) -> list[Any]:
    """What ``numpy.unique`` gives, as a list, without the array, in which every text would be as long as the longest.

    Args:
        name: of the parameter.
        values: integers or texts, or one of them.

    Raises:
        InputError: there are both.

    Example:
        >>> [str(text) for text in sorted_ids("imgIds", ["b", "B", "b"])]
        ['B', 'b']
    """
    if isinstance(values, str):
        values = [values]
    if not isinstance(values, (list, tuple, np.ndarray)) or not any(isinstance(value, str) for value in values):
        return list(sorted_unique(values))
    odd = next((value for value in values if not isinstance(value, str)), None)
    if odd is not None:
        raise InputError(f"params.{name} must be integers or texts, not both, but has {odd!r:.60} beside texts")
    texts = sorted({plain_text(value) for value in values})
    return [text if text.endswith("\0") else np.str_(text) for text in texts]  # numpy's text would lose its end


def members(ids: Ids, known: Any) -> NDArray[np.bool_]:
    """Bool ``[N]``: whether each id is one of ``known``, integers in any order.

    Example:
        >>> members(np.array([7, 3, 9]), [9, 7]).tolist()
        [True, False, True]
    """
    return positions(ids, sorted_unique(np.asarray(known, np.int64))) >= 0


def positions(ids: Ids, wanted: Ids) -> NDArray[np.int32]:
    """int32 ``[N]``: the place of each id in ``wanted`` (ascending, no repeats), -1 where it is absent.

    Example:
        >>> positions(np.array([7, 3, 9]), np.array([3, 7])).tolist()
        [1, 0, -1]
    """
    if not len(wanted) or not len(ids):
        return np.full(len(ids), -1, np.int32)
    low, span = int(wanted[0]), int(wanted[-1]) - int(wanted[0]) + 1
    if span > _TABLE_BYTES_PER_ROW * len(ids) + _SMALL_TABLE:
        index = np.searchsorted(wanted, ids)
        index[index == len(wanted)] = 0
        return np.where(wanted[index] == ids, index, -1).astype(np.int32)
    table = np.full(span + 1, -1, np.int32)
    table[wanted - low] = np.arange(len(wanted), dtype=np.int32)
    if ids.min() >= low and ids.max() <= wanted[-1]:
        return table.take(ids - low)
    inside = (ids >= low) & (ids <= wanted[-1])
    return table.take(np.where(inside, ids - low, span))
