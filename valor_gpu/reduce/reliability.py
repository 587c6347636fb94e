"""Calibration errors and reliability data from sums over bins of confidence. Imports no torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from valor_gpu.reduce.ratios import Ratio, root, where

Sums = NDArray[np.float64]

STEPS = 2**24
"""Confidences from 0 to 1 are rounded to 1 / STEPS, the resolution of float32 below 1."""

NO_CONFIDENCE = "no sample has such a confidence"
BIASED_ERROR = "the error is biased upward, more so in a replicate, and not smooth where it is 0"
"""Why an error of calibration has no interval."""

_ERRORS = {"l1": "expected_error", "max": "maximum_error", "l2": "root_mean_square_error"}


def bin_edges(n_bins: int, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """The edges ``[B + 1]`` of equal bins from 0 to 1, each the number of ``dtype`` nearest to k / B.

    They are the same everywhere: those of ``torch.linspace`` differ by a unit in the last place from one kind of
    processor to another.

    Example:
        >>> bin_edges(5).tolist()
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    return (np.arange(n_bins + 1) / n_bins).astype(dtype)


def with_ones_in_last_bin(sums: Any) -> Any:
    """Sums ``[B]`` of the bins, the last of which is closed, from sums ``[B + 1]`` whose last are of exactly 1.

    Args:
        sums: counts, confidences or hits; an array, or a tensor on any device.

    Example:
        >>> with_ones_in_last_bin(np.array([1.0, 2.0, 4.0])).tolist()
        [1.0, 6.0]
    """
    joined = sums[:-1] + 0  # a copy, of arrays and of tensors
    joined[-1:] += sums[-1:]
    return joined


def calibration_error(count: Any, confidence: Any, correct: Any, norm: str) -> Any:
    """The distance of accuracy from confidence over bins, NaN without samples.

    Args:
        count: one for each bin, samples or sums of their weights; arrays, or tensors on any device.
        confidence: sums of confidences.
        correct: samples that are right.
        norm: ``l1``, ``max`` or ``l2``.

    Example:
        >>> float(calibration_error(np.array([2.0, 0.0]), np.array([1.5, 0.0]), np.array([2.0, 0.0]), "l1"))
        0.25
    """
    gap = abs(Ratio(correct, count).value(0.0) - Ratio(confidence, count).value(0.0))
    samples = count.sum()
    if norm == "max":
        return where(samples > 0, gap.max(), math.nan)
    error = Ratio(((gap**2 if norm == "l2" else gap) * count).sum(), samples).value()
    return root(error) if norm == "l2" else error


def reliability_values(
    count: Sums, confidence: Sums, correct: Sums, norm: str, separate_ones: bool = False
) -> dict[str, Any]:
    """What a result of ``CalibrationError`` holds: the errors and, of every bin, edges, means and count.

    Args:
        count: ``[B + 1]``, of the bins and, last, of confidences of exactly 1.
        confidence: ``[B + 1]``, sums of confidences.
        correct: ``[B + 1]``, samples that are right.
        norm: as in :func:`calibration_error`.
        separate_ones: keep the bin of exactly 1 apart, as torchmetrics does; else it is part of the last bin.
    """
    edges = bin_edges(len(count) - 1)
    lower, upper = (edges, np.append(edges[1:], 1.0)) if separate_ones else (edges[:-1], edges[1:])
    if not separate_ones:
        count, confidence, correct = map(with_ones_in_last_bin, (count, confidence, correct))
    values: dict[str, Any] = {"CalibrationError": float(calibration_error(count, confidence, correct, norm))}
    values.update({name: float(calibration_error(count, confidence, correct, kind)) for kind, name in _ERRORS.items()})
    values.update(bin_lower=lower, bin_upper=upper)
    for name, sums in (("confidence", confidence), ("accuracy", correct)):
        values[name] = Ratio(sums, count).value()
    return {**values, "count": count}


def missing_values(values: dict[str, Any]) -> list[str]:
    """Names of what is NaN, or holds NaN."""
    return [name for name, value in values.items() if bool(np.isnan(value).any())]
