"""Sums over the ranks of pairs of columns, from which Spearman's and Kendall's coefficients follow.

Definition in plain torch: ``valor_gpu/ops/rank_sums/reference.py``. Every sum is a whole number, so that no order of
the rows, number of threads or device changes a bit of a coefficient.
"""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.checks import check_dtype, check_same_device, check_shape
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp
from valor_gpu.ops._library import by_reference, register
from valor_gpu.ops.rank_sums import reference
from valor_gpu.ops.rank_sums.cpu import MOST_ROWS, RANK_SUMS, run


def rank_sums(preds: Tensor, target: Tensor, *, pairs: bool = True) -> Tensor:
    """Computes sums over the ranks of two columns of numbers, for each pair of columns.

    A rank is twice the mid-rank, less the number of rows and 1: a whole number, 0 in the middle. The number of rows is
    at most 2^31 - 1. -0.0 and 0.0 are equal.

    Args:
        preds: float32 or float64 ``[N, D]``, any values.
        target: likewise, of the same dtype.
        pairs: also count concordant and discordant pairs of rows, which takes about as long as the rest.

    Returns:
        int64 ``[D, 13]``, for each pair of columns: rows with NaN, and unless there are none nothing but zeros;
        different values of ``preds`` and of ``target``; of the sizes of groups of equal values in both the sums of
        squares, and the sums of cubes; the sum of products of ranks; concordant and discordant pairs. Sums of cubes
        and products are two words each, ``high * 2^32 + low``. Names: :data:`valor_gpu.ops.rank_sums.cpu.RANK_SUMS`.

    Raises:
        InputError: shapes, dtypes or devices that do not fit, or too many rows.

    Example:
        >>> preds, target = torch.tensor([[1.0], [2.0], [2.0], [4.0]]), torch.tensor([[1.0], [3.0], [2.0], [4.0]])
        >>> dict(zip(RANK_SUMS, rank_sums(preds, target)[0].tolist()))["concordant"]
        5
    """
    check_shape("preds", preds, (None, None))
    check_dtype("preds", preds, (torch.float32, torch.float64))
    check_shape("target", target, tuple(preds.shape))
    check_dtype("target", target, (preds.dtype,))
    check_same_device(("preds", "target"), (preds, target))
    if len(preds) > MOST_ROWS:
        raise InputError(f"preds must have at most {MOST_ROWS:,} rows but has {len(preds):,}")
    return _RANK_SUMS(preds, target, pairs)  # type: ignore[no-any-return]


def _fake(preds: Tensor, target: Tensor, pairs: bool) -> Tensor:
    return preds.new_empty((preds.shape[1], len(RANK_SUMS)), dtype=torch.int64)


def _rank_sums_cpu(preds: Tensor, target: Tensor, pairs: bool) -> Tensor:
    columns = [side.t().contiguous() for side in (preds, target)]
    sums = _fake(preds, target, pairs)
    first, second, out = (tensor.data_ptr() for tensor in (*columns, sums))
    shape, double = (preds.shape[1], preds.shape[0]), preds.dtype == torch.float64
    run(first, second, out, shape, double, pairs, torch.get_num_threads())
    return sums


_RANK_SUMS = register(
    "rank_sums(Tensor preds, Tensor target, bool pairs) -> Tensor",
    reference=reference.rank_sums,
    fake=_fake,
    cpu=cpp(_rank_sums_cpu),
    cuda=by_reference("sorts and searches of torch do the work"),
)
