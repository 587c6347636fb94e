"""Thresholds as users give them: evenly spaced ones, ascending numbers, or bins in the order of floats."""

from __future__ import annotations

import functools

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from valor_gpu.errors import InputError
from valor_gpu.reduce.histogram_metrics import MAX_EVEN_THRESHOLDS, float_order_thresholds

_SHOWN = 8  # thresholds in a message
_SHARED = 4096  # most thresholds that metrics share


def threshold_plan(
    thresholds: int | ArrayLike | Tensor | None, bins: int | None, dtype: torch.dtype
) -> tuple[list[float], Tensor]:
    """Thresholds as given (none of bins) and as compared, float64 ``[T]``; both are empty where scores are kept."""
    if bins is None:
        return ([], torch.zeros(0, dtype=torch.float64)) if thresholds is None else threshold_grid(thresholds, dtype)
    if thresholds is not None:
        raise InputError("thresholds and bins exclude each other but both were given")
    return [], float_order_thresholds(bins)


def threshold_grid(thresholds: int | ArrayLike | Tensor, dtype: torch.dtype) -> tuple[list[float], Tensor]:
    """Thresholds as numbers, and float64 ``[T]`` on the CPU, rounded to ``dtype`` as scores are.

    Args:
        thresholds: a number of evenly spaced ones from 0 to 1, at least 2; or ascending ones; or a tensor or array
            without dimensions, a single threshold.
        dtype: dtype of the scores.

    Raises:
        InputError: they are not finite, or do not ascend in ``dtype``.

    Example:
        >>> threshold_grid(3, torch.float32)
        ([0.0, 0.5, 1.0], tensor([0.0000, 0.5000, 1.0000], dtype=torch.float64))
    """
    if isinstance(thresholds, bool) or (isinstance(thresholds, int) and not 2 <= thresholds <= MAX_EVEN_THRESHOLDS):
        need = "an int of at least 2 (and at most 2^24), or ascending numbers,"
        raise InputError(f"thresholds must be {need} but got {thresholds}")
    if isinstance(thresholds, int):
        shared = thresholds <= _SHARED and not torch._C._len_torch_dispatch_stack()
        levels, grid = (_even_grid if shared else _even_grid.__wrapped__)(thresholds, dtype)
        return list(levels), grid
    values = np.asarray(
        thresholds.detach().double().cpu() if isinstance(thresholds, Tensor) else thresholds, np.float64
    )
    if isinstance(thresholds, (Tensor, np.ndarray)) and values.ndim == 0:  # as compute gives a single one
        values = values.reshape(1)
    return _grid(values, dtype)


@functools.lru_cache(maxsize=8)
def _even_grid(count: int, dtype: torch.dtype) -> tuple[list[float], Tensor]:
    """Evenly spaced thresholds; metrics share the tensor, which nothing changes in place."""
    return _grid(np.linspace(0.0, 1.0, count), dtype)


def _grid(values: NDArray[np.float64], dtype: torch.dtype) -> tuple[list[float], Tensor]:
    """Thresholds as numbers, and as a tensor in ``dtype`` and then float64; raises unless they ascend."""
    grid = torch.from_numpy(values).to(dtype).double()
    if grid.ndim != 1 or len(grid) == 0 or not bool(grid.isfinite().all()) or bool((grid.diff() <= 0).any()):
        name = str(dtype).removeprefix("torch.")
        got = (
            values.tolist() if values.size <= _SHOWN else f"{values.size:,}, from {values.min():g} to {values.max():g}"
        )
        raise InputError(f"thresholds must be finite and ascend in {name} but got {got}")
    return values.tolist(), grid
