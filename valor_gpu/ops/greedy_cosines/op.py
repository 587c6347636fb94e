"""Greedy matching of the tokens of pairs of texts by the cosine of their embeddings.

Definition in plain torch: ``valor_gpu/ops/greedy_cosines/reference.py``. Design: docs/design/038-bert-score.md.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_same_device, check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.dtypes import FLOAT_TYPES
from valor_gpu.ops.error_codes import NO_ERROR, value_place, value_row
from valor_gpu.ops.greedy_cosines import reference
from valor_gpu.ops.greedy_cosines.reference import LANES

_MAX_TOKENS = 2**31 - 1


class GreedyCosines(NamedTuple):
    """Of every token the largest cosine with a token of the other text.

    Attributes:
        preds: float32 ``[P]``, from -1 to 1; -2 where the reference has no token.
        target: float32 ``[R]``, from -1 to 1; -2 where the prediction has no token.
        error: int64 ``[]``, an error code, see :func:`describe_vector`; unless ``NO_ERROR`` the rest means nothing.
    """

    preds: Tensor
    target: Tensor
    error: Tensor


def greedy_cosines(preds: Tensor, target: Tensor, offsets: Tensor) -> GreedyCosines:
    """Finds of every token the largest cosine with a token of the other text of its pair.

    The cosines of a pair are never written. They are computed in float32, with the same bits on every device.

    Args:
        preds: embeddings ``[P, size]`` of the tokens of all predictions, float16, bfloat16, float32 or float64.
        target: embeddings ``[R, size]`` of the tokens of all references, likewise. None has a length below 1e-18 or
            above 1e18.
        offsets: int64 ``[2, N + 1]`` on the CPU: the tokens of pair n are ``preds[offsets[0, n] : offsets[0, n + 1]]``
            and ``target[offsets[1, n] : offsets[1, n + 1]]``.

    Returns:
        GreedyCosines, on the device of ``preds``, without synchronising.

    Raises:
        InputError: on another shape, dtype or device. A vector without direction is in ``error``.

    Example:
        >>> preds, target = torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.tensor([[0.0, 5.0]])
        >>> greedy_cosines(preds, target, torch.tensor([[0, 2], [0, 1]])).preds
        tensor([0.8000, 1.0000])
    """
    check_shape("preds", preds, (None, None))
    check_shape("target", target, (None, preds.shape[1]))
    for name, side in (("preds", preds), ("target", target)):
        check_dtype(name, side, FLOAT_TYPES)
        if len(side) > _MAX_TOKENS:
            raise InputError(f"{name} must have at most {_MAX_TOKENS} rows but has {len(side)}")
    check_same_device(("preds", "target"), (preds, target))
    _check_offsets(offsets, (len(preds), len(target)))
    found = _GREEDY_COSINES(_wide(preds), _wide(target), offsets)
    return GreedyCosines(*found)


def describe_vector(code: int) -> str:
    """Returns the message of an error code: which vector has no direction.

    Example:
        >>> describe_vector((3 << 32 | 1) << 4 | 2)
        'target must have vectors of a length from 1e-18 to 1e18 but that of token 3 has not'
    """
    side = ("preds", "target")[value_place(code)]
    return f"{side} must have vectors of a length from 1e-18 to 1e18 but that of token {value_row(code)} has not"


def _check_offsets(offsets: Tensor, tokens: tuple[int, int]) -> None:
    check_shape("offsets", offsets, (2, None))
    check_dtype("offsets", offsets, (torch.int64,))
    good = offsets.is_cpu and offsets.shape[1] > 0
    good = good and bool((offsets[:, 0] == 0).all()) and bool((offsets.diff(dim=1) >= 0).all())
    if not good or offsets[:, -1].tolist() != list(tokens):
        raise InputError(f"offsets must be on the CPU and ascend from 0 to {list(tokens)} but are {offsets.tolist()}")


def _wide(vectors: Tensor) -> Tensor:
    """float32, contiguous, with zeros up to a multiple of the lanes."""
    missing = -vectors.shape[1] % LANES
    return (torch.nn.functional.pad(vectors, (0, missing)) if missing else vectors).float().contiguous()


def _task(preds: Tensor, target: Tensor, offsets: Tensor) -> tuple[bytes, tuple[Tensor, ...]]:
    """The CosineTask of csrc/core/greedy_cosines.h, and the tensors that must outlive it: best ones first."""
    best = [torch.empty(len(side), dtype=torch.float32, device=side.device) for side in (preds, target)]
    inverse = [torch.empty_like(side) for side in best]
    offsets = offsets.contiguous()
    firsts = offsets if preds.is_cpu else to_device(offsets, preds.device)
    held = (*best, *inverse, preds, target, firsts)
    places = [tensor.data_ptr() for tensor in (preds, target, firsts[0], firsts[1], *best, *inverse)]
    return struct.pack("12q", *places, len(preds), len(target), offsets.shape[1] - 1, preds.shape[1]), held


def _greedy_cosines_cpu(preds: Tensor, target: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    words, held = _task(preds, target, offsets)
    error = torch.full((), NO_ERROR)
    native.function("valor_cpu", "valor_greedy_cosines_cpu", "ppq")(words, error.data_ptr(), torch.get_num_threads())
    return held[0], held[1], error


def _greedy_cosines_cuda(preds: Tensor, target: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    with launching(preds.device) as stream:
        words, held = _task(preds, target, offsets)
        error = torch.full((), NO_ERROR, device=preds.device)
        native.function("valor_cuda", "valor_greedy_cosines_cuda", "ppp")(words, error.data_ptr(), stream)
    return held[0], held[1], error


_GREEDY_COSINES = register(
    "greedy_cosines(Tensor preds, Tensor target, Tensor offsets) -> (Tensor, Tensor, Tensor)",
    reference=reference.greedy_cosines,
    fake=reference.greedy_cosines_fake,
    cpu=cpp(_greedy_cosines_cpu),
    cuda=cuda(_greedy_cosines_cuda),
)
