"""Arguments that COCO's metrics of detection share, and their numbers in the form of torchmetrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.ops.assign.match_batch import PADDING_BUCKET

AREA_RANGES = {"all": (0.0, 1e10), "small": (0.0, 1024.0), "medium": (1024.0, 9216.0), "large": (9216.0, 1e10)}
"""COCO's area ranges in square pixels, both ends included: an area of 1024 is small and medium."""

MAX_DETECTIONS = 2**31 - 1


def check_levels(name: str, values: Sequence[float] | None, default: NDArray[np.float64]) -> list[float]:
    """``values`` as floats, numbers in [0, 1], or ``default``; raises :class:`InputError` that calls them ``name``."""
    if values is None:
        return [float(v) for v in default]
    check_type(name, values, (list, tuple, np.ndarray))
    if any(isinstance(v, str) for v in values):
        raise InputError(f"{name} must hold numbers but got {list(values)}")
    numbers = [float(v) for v in values]
    if not numbers or not all(map(math.isfinite, numbers)):
        raise InputError(f"{name} must hold at least one finite number but got {numbers}")
    if not all(0 <= number <= 1 for number in numbers):
        raise InputError(f"{name} must lie between 0 and 1 but got {numbers}")
    return numbers


def check_limits(values: Sequence[int] | None, default: list[int]) -> list[int]:
    """Max-detection limits, ascending; raises :class:`InputError` unless they are different positive ints."""
    if values is None:
        return default
    check_type("max_detection_thresholds", values, (list, tuple))
    if not values or any(isinstance(v, bool) or not isinstance(v, int) or v < 1 for v in values):
        raise InputError(f"max_detection_thresholds must hold at least one positive int but got {list(values)}")
    if len(set(values)) < len(values) or len(values) >= PADDING_BUCKET or max(values) > MAX_DETECTIONS:
        raise InputError(f"max_detection_thresholds must hold 1 to {PADDING_BUCKET - 1} different numbers up to"
                         f" {MAX_DETECTIONS} but got {len(values)}: {values[:4]} ...")  # fmt: skip
    return sorted(values)


def peer_numbers(values: Mapping[str, float]) -> dict[str, Tensor]:
    """Returns float32 numbers as torchmetrics does, -1 for a number that does not exist.

    Example:
        >>> peer_numbers({"map": 0.5, "map_small": float("nan")})
        {'map': tensor(0.5000), 'map_small': tensor(-1.)}
    """
    numbers = np.array([*values.values()], np.float64)
    return dict(zip(values, peer_number(numbers).unbind()))


def peer_number(value: float | NDArray[np.float64]) -> Tensor:
    """float32 as torchmetrics gives it, -1 for a number that does not exist."""
    return torch.from_numpy(np.where(np.isnan(value), -1.0, value).astype(np.float32))
