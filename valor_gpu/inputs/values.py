"""Tensors from what else holds numbers."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError

Values: TypeAlias = ArrayLike | Tensor
"""Numbers as metrics take them: a tensor, a numpy array or lists of Python numbers."""


def as_values(name: str, values: Any) -> Tensor:
    """A tensor as it is; a numpy array or lists of Python numbers as one on the CPU.

    An array is copied only where torch cannot share it: one that is read-only, or whose rows are not dense.

    Raises:
        InputTypeError: ``values`` are none of these.
        InputError: an array or lists hold no numbers, or lists are of several lengths.

    Example:
        >>> as_values("preds", [0.5, 1])
        tensor([0.5000, 1.0000])
    """
    if isinstance(values, Tensor):
        return values
    check_type(name, values, (Tensor, np.ndarray, list, tuple))
    if isinstance(values, np.ndarray):
        values = np.require(values, requirements=["C", "W"])
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} must hold numbers, in rows of one length, but torch says: {error}") from None
