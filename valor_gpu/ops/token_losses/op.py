"""Losses of tokens, summed: minus the logarithm of the probability that logits give to the right class of each row.

Definition in plain torch: ``valor_gpu/ops/token_losses/reference.py``. Design: docs/design/037-token-losses.md.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_dtype, check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.error_codes import LAST_ROW, NAN_SCORE, NO_ERROR, value_kind, value_place, value_row
from valor_gpu.ops.targets.op import MAX_COLUMNS, target_words
from valor_gpu.ops.token_losses import reference
from valor_gpu.ops.token_losses.reference import FRACTION, FRACTION_UNIT, IMPOSSIBLE, WHOLE

MAX_ROWS = 2**31 - 1


class TokenLosses(NamedTuple):
    """Sums over the tokens of a batch.

    Attributes:
        sums: int64 ``[4]``: tokens (rows whose target is not ignored); the whole parts of their losses in nats; the
            rest of them in units of 2^-28; and tokens of probability 0, whose loss of 2^30 nats or more is in neither.
        error: int64 ``[]``, an error code, see :func:`describe_token`; unless it is ``NO_ERROR`` the sums mean nothing.
    """

    sums: Tensor
    error: Tensor


def sum_token_losses(preds: Tensor, target: Tensor, *, ignore_index: int | None = None) -> TokenLosses:
    """Sums the losses of tokens in one read of the logits; nothing of their size is written.

    The loss of a row is ``-log(softmax(row)[target])`` in nats. Whole numbers of 2^-28 are summed, so that neither the
    order of the rows nor a split of them changes a bit.

    Args:
        preds: logits, float16, bfloat16, float32 or float64 ``[..., V]``: log-probabilities, or what differs from them
            by a constant for each row. Below inf, and not all of a row -inf. Up to three dimensions are read where they
            lie, whatever their strides; more are copied unless they can be seen as three.
        target: any integer dtype ``[...]``, from 0 to V - 1.
        ignore_index: rows with this target are left out, and their logits not looked at.

    Returns:
        TokenLosses. The error of a loss is at most 2e-7 of 1 + loss, for float64 logits 4e-9.

    Raises:
        InputError: on another shape, dtype or device. A bad value is in ``error``, so that the host does not
            synchronise with the device.

    Example:
        >>> sums = sum_token_losses(torch.tensor([[0.0, 0.0], [0.0, 90.0]]), torch.tensor([1, 0])).sums
        >>> round(total_loss(sums.tolist()), 6)  # log(2) + 90
        90.693147
    """
    _check(preds, target)
    return TokenLosses(*_SUM_TOKEN_LOSSES(preds, target, ignore_index))


def total_loss(sums: Sequence[int]) -> float:
    """The sum of the losses in nats, inf if a token has probability 0.

    Args:
        sums: of :class:`TokenLosses`, as numbers.
    """
    return math.inf if sums[IMPOSSIBLE] else sums[WHOLE] + sums[FRACTION] / FRACTION_UNIT


def describe_token(code: int, shape: Sequence[int] | None = None) -> str:
    """Returns the message of an error code: the place of the first bad value, and what it must be.

    Args:
        code: the error code.
        shape: of the target, at least one dimension; None where it is no longer known, for the row among all rows.

    Example:
        >>> describe_token((3 << 32 | 7) << 4 | NAN_SCORE, (2, 2))
        'preds[1, 1, 7] must be below inf, not NaN, and not all of its row -inf'
    """
    row = value_row(code)
    place: list[int] = []
    for size in reversed(shape or (LAST_ROW + 1,)):
        row, index = divmod(row, size)
        place.insert(0, index)
    at = ", ".join(map(str, place)) + (" or later" if value_row(code) == LAST_ROW else "")
    if value_kind(code) == NAN_SCORE:
        return f"preds[{at}, {value_place(code)}] must be below inf, not NaN, and not all of its row -inf"
    return f"target[{at}] must be an index of the last dimension of preds"


def _check(preds: Tensor, target: Tensor) -> None:
    check_dtype("preds", preds, FLOAT_TYPES)
    check_dtype("target", target, INT_TYPES)
    if preds.ndim < 2 or preds.shape[:-1] != target.shape:
        need = f"preds must have the dimensions of target, {list(target.shape)}, and one of classes"
        raise InputError(f"{need} but has shape {list(preds.shape)}")
    if not 0 < preds.shape[-1] <= MAX_COLUMNS:
        raise InputError(f"preds must have 1 to {MAX_COLUMNS} classes but has shape {list(preds.shape)}")
    if target.numel() > MAX_ROWS:
        raise InputError(f"target must have at most {MAX_ROWS} elements but has {target.numel()}")
    check_same_device(("preds", "target"), (preds, target))


def _task(preds: Tensor, target: Tensor, ignore_index: int | None) -> tuple[bytes, tuple[Tensor, Tensor]]:
    """The TokenTask of csrc/core/token_losses.h, and the tensors that must outlive it."""
    rows = preds[None] if preds.ndim == 2 else preds.flatten(0, -3)
    target = target.reshape(-1).contiguous()
    words = struct.pack("7q", rows.data_ptr(), FLOAT_TYPES[rows.dtype], target.numel(), rows.shape[1], *rows.stride())
    return words + target_words(target, rows.shape[-1], ignore_index), (rows, target)


def _outputs(target: Tensor) -> tuple[Tensor, Tensor]:
    sums = torch.zeros(4, dtype=torch.int64, device=target.device)
    return sums, torch.full((), NO_ERROR, device=target.device)


def _sum_token_losses_cpu(preds: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    sums, error = _outputs(target)
    if target.numel():
        words, _held = _task(preds, target, ignore_index)
        call = native.function("valor_cpu", "valor_sum_token_losses_cpu", "pppq")
        call(words, sums.data_ptr(), error.data_ptr(), torch.get_num_threads())
    return sums, error


def _sum_token_losses_cuda(preds: Tensor, target: Tensor, ignore_index: int | None) -> tuple[Tensor, Tensor]:
    with launching(target.device) as stream:
        sums, error = _outputs(target)
        if target.numel():
            words, _held = _task(preds, target, ignore_index)
            call = native.function("valor_cuda", "valor_sum_token_losses_cuda", "pppp")
            call(words, sums.data_ptr(), error.data_ptr(), stream)
    return sums, error


_SUM_TOKEN_LOSSES = register(
    "sum_token_losses(Tensor preds, Tensor target, int? ignore_index) -> (Tensor, Tensor)",
    reference=reference.sum_token_losses,
    fake=reference.sum_token_losses_fake,
    cpu=cpp(_sum_token_losses_cpu),
    cuda=cuda(_sum_token_losses_cuda),
)
