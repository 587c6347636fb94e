"""Edges between which charts count scores, of a run that goes on and of a run that has ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

BINS = 20
MOST_BARS = 11
"""Whole scores that have a bar each."""


def whole_scores(info: Mapping[str, Any]) -> list[float] | None:
    """Returns the scores of an evaluator that have a bar each; None where its scale is not a short one of whole scores.

    Args:
        info: of the evaluator: ``kind``, ``low``, ``high``.

    Example:
        >>> whole_scores({"kind": "quality", "low": 1.0, "high": 5.0})
        [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    low, high = info["low"], info["high"]
    if info["kind"] == "pairwise":
        return [0.0, 0.5, 1.0]
    if low is None or high is None or not 2 <= high - low < MOST_BARS:
        return None
    if not (float(low).is_integer() and float(high).is_integer()):
        return None
    return [float(low) + i for i in range(int(high - low) + 1)]


def edges_around(values: Sequence[float]) -> list[float]:
    """Returns the edges of bins around evenly spaced scores; what lies between two of them counts for the nearer one.

    Example:
        >>> edges_around([0.0, 0.5, 1.0])
        [0.0, 0.25, 0.75, 1.0]
    """
    half = (values[1] - values[0]) / 2
    return [values[0], *(value + half for value in values[:-1]), values[-1]]


def even_edges(start: float, stop: float) -> list[float] | None:
    """Returns the edges of :data:`BINS` bins of one width; None where float numbers cannot tell so many apart."""
    width = stop - start
    if not width > 0 or not math.isfinite(width):
        return None
    edges = [*(start + width * i / BINS for i in range(BINS)), stop]
    return edges if len(set(edges)) > BINS else None


def chart_edges(info: Mapping[str, Any]) -> list[float] | None:
    """Returns the edges between which the chart of an evaluator counts; None where only all scores tell them.

    Args:
        info: of the evaluator: ``kind``, ``low``, ``high``, ``pooled``.

    Example:
        >>> chart_edges({"kind": "quality", "low": 1.0, "high": 5.0, "pooled": False})
        [1.0, 1.5, 2.5, 3.5, 4.5, 5.0]
    """
    if info["pooled"] or info["kind"] == "safety":
        return None
    values = whole_scores(info)
    if values is not None:
        return edges_around(values)
    low, high = info["low"], info["high"]
    return None if low is None or high is None else even_edges(float(low), float(high))
