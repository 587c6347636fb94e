"""Slices of objects rather than images: by size or by aspect ratio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valor_gpu.checks import check_choice
from valor_gpu.errors import InputError

ATTRIBUTES = ("size", "aspect_ratio")
"""``size``: the area that area ranges are about, in square pixels; ``aspect_ratio``: width over height of the box."""


def check_bins(attribute: str, bins: Sequence[Any]) -> list[tuple[float, float]]:
    """Returns bins as pairs of numbers.

    Args:
        attribute: one of :data:`ATTRIBUTES`.
        bins: pairs (low, high) at or above 0; both ends belong to a bin. They may overlap.

    Raises:
        InputError: another attribute, no bin, or a bin that is no such pair.

    Example:
        >>> check_bins("aspect_ratio", [(0, 0.5), (0.5, 2)])
        [(0.0, 0.5), (0.5, 2.0)]
    """
    check_choice("attribute", attribute, ATTRIBUTES)
    if not len(bins):
        raise InputError("bins must hold at least one pair (low, high) but hold none")
    pairs = []
    for given in bins:
        try:
            low, high = map(float, given)
        except (TypeError, ValueError):
            raise InputError(f"bins must be pairs (low, high) of numbers but one is {given!r:.60}") from None
        if not 0 <= low <= high:
            raise InputError(f"bins must be pairs (low, high) with 0 <= low <= high but one is ({low:g}, {high:g})")
        pairs.append((low, high))
    return pairs
