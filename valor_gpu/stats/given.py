"""Rows that a user gives, as arrays of numpy: lists, arrays, and tensors of any device and dtype. Imports no torch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from valor_gpu.errors import InputError


def host_array(given: ArrayLike) -> NDArray[Any]:
    """Returns an array of the given; of a tensor without its gradient, and float32 of bfloat16, which numpy has not.

    Example:
        >>> import torch
        >>> host_array(torch.tensor([0.5, 0.25], dtype=torch.bfloat16, requires_grad=True))
        array([0.5 , 0.25], dtype=float32)
    """
    tensor: Any = given
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
        tensor = tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor
    return np.asarray(tensor)


def float_rows(name: str, given: ArrayLike) -> NDArray[np.float64]:
    """Returns float64 of the given, NaN where it is None.

    Raises:
        InputError: it holds other things than numbers, or a number that no float holds.
    """
    try:
        found = host_array(given)
    except ValueError:  # lists of different lengths in a list
        raise InputError(f"{name} must hold numbers but holds lists of different lengths") from None
    if found.dtype.kind in "biufO":
        try:
            return found.astype(np.float64)
        except OverflowError:  # an int that no float holds
            raise InputError(f"{name} must hold numbers of at most 1.8e308 but holds a larger one") from None
        except (TypeError, ValueError):
            pass
    raise InputError(f"{name} must hold numbers but has dtype {found.dtype}")
