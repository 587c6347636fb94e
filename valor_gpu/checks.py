"""Argument checks with one wording: the argument, what is needed, what came. No torch import."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from valor_gpu.errors import InputError, InputTypeError

if TYPE_CHECKING:
    import torch


def check_choice(name: str, value: object, allowed: Collection[object]) -> None:
    """Raise unless ``value`` is one of ``allowed``."""
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))} but got {value!r}")


def check_type(name: str, value: object, kind: type | tuple[type, ...]) -> None:
    """Raise unless ``value`` is an instance of ``kind``."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise InputTypeError(f"{name} must be {' or '.join(k.__name__ for k in kinds)} but got {type(value).__name__}")


def check_shape(name: str, tensor: torch.Tensor, shape: Sequence[int | None]) -> None:
    """Raise unless ``tensor`` has ``shape``; None stands for any size.

    Example:
        >>> import torch
        >>> check_shape("boxes", torch.zeros(3, 4), (None, 4))
    """
    got = tuple(tensor.shape)
    if len(got) != len(shape) or any(want is not None and want != have for want, have in zip(shape, got)):
        wanted = ", ".join("N" if size is None else str(size) for size in shape)
        raise InputError(f"{name} must have shape [{wanted}] but got {list(got)}")


def check_dtype(name: str, tensor: torch.Tensor, dtypes: Collection[torch.dtype]) -> None:
    """Raise unless the dtype of ``tensor`` is one of ``dtypes``."""
    if tensor.dtype not in dtypes:
        raise InputError(f"{name} must have dtype {' or '.join(map(str, dtypes))} but got {tensor.dtype}")


def check_same_device(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
    """Raise unless all ``tensors`` lie on the device of the first."""
    for name, tensor in zip(names[1:], tensors[1:]):
        if tensor.device != tensors[0].device:
            raise InputError(f"{name} must be on {tensors[0].device} like {names[0]} but is on {tensor.device}")
