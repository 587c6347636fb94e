"""Errors of logits whose softmax does not exist."""

from __future__ import annotations

from torch import Tensor

from valor_gpu.ops.error_codes import NAN_SCORE, Names, describe_value, raise_error, value_kind, value_row


def check_ranked(error: Tensor, pooled: int = 1) -> None:
    """Raises :class:`InputError` if scores that ``update`` took are NaN after their activation.

    Args:
        error: int64 ``[]``, of an op of ranks.
        pooled: how many elements of each sample ``pool`` made rows of their own.
    """

    def describe(code: int) -> str:
        if value_kind(code) != NAN_SCORE:
            return describe_value(code, Names(2))
        return f"{softmax_need(value_row(code) // pooled)} (the row is counted over all updates)"

    raise_error(error, describe)


def softmax_need(row: int) -> str:
    """What a row of logits must be whose softmax would be NaN."""
    return f"preds[{row}] must have a finite largest score where its softmax is taken"
