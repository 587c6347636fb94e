"""Definition in plain torch of the op in :mod:`valor_gpu.ops.rank_sums.op`, which also serves CUDA tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.ops.rank_sums.cpu import RANK_SUMS

_WORD = 32


def rank_sums(preds: Tensor, target: Tensor, pairs: bool) -> Tensor:
    """See :func:`valor_gpu.ops.rank_sums.op.rank_sums`."""
    sums = preds.new_zeros((preds.shape[1], len(RANK_SUMS)), dtype=torch.int64)
    for column, (x, y) in enumerate(zip(preds.unbind(1), target.unbind(1))):
        nan = (x.isnan() | y.isnan()).sum()
        sums[column, 0] = nan
        if len(x) and not int(nan):
            sums[column, 1:] = _of_columns(x + 0.0, y + 0.0, pairs)
    return sums


def _of_columns(x: Tensor, y: Tensor, pairs: bool) -> Tensor:
    """The sums without NaN; -0.0 is 0.0 by now."""
    (groups_x, sizes_x), (groups_y, sizes_y) = (_groups(side) for side in (x, y))
    products = _ranks(groups_x, sizes_x) * _ranks(groups_y, sizes_y)
    cubes = [word for sizes in (sizes_x, sizes_y) for word in _words(sizes * sizes, sizes)]
    numbers = [(sizes_x > 0).sum(), (sizes_y > 0).sum(), (sizes_x**2).sum(), (sizes_y**2).sum(), *cubes]
    numbers += _words(products, torch.ones_like(products))
    return torch.stack([*numbers, *(_pairs(groups_x, groups_y) if pairs else 2 * [torch.zeros_like(numbers[0])])])


def _groups(values: Tensor) -> tuple[Tensor, Tensor]:
    """For each row the place of its value among the different ones, and how many rows each of these has."""
    _, groups, sizes = values.unique(sorted=True, return_inverse=True, return_counts=True)
    return groups, sizes


def _ranks(groups: Tensor, sizes: Tensor) -> Tensor:
    """Twice the mid-rank of each row, less the number of rows and 1."""
    return (2 * sizes.cumsum(0) - sizes - len(groups))[groups]


def _words(numbers: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """The sum of products in two words."""
    low = numbers & ((1 << _WORD) - 1)
    return ((numbers >> _WORD) * factors).sum(), (low * factors).sum()


def _pairs(groups_x: Tensor, groups_y: Tensor) -> tuple[Tensor, Tensor]:
    """Concordant and discordant pairs of rows."""
    rows = len(groups_x)
    key = groups_x * rows + groups_y
    order = key.argsort()
    discordant = _inversions(groups_y[order])
    tied = [_tied(groups) for groups in (groups_x, groups_y, key)]
    return rows * (rows - 1) // 2 - tied[0] - tied[1] + tied[2] - discordant, discordant


def _tied(groups: Tensor) -> Tensor:
    sizes = groups.unique(return_counts=True)[1]
    found: Tensor = (sizes * (sizes - 1) // 2).sum()
    return found


def _inversions(values: Tensor) -> Tensor:
    """Pairs whose first number is larger, from sorted halves of ever larger blocks."""
    width, found = 1, values.new_zeros(())
    size = 1 << (len(values) - 1).bit_length()
    blocks = torch.cat((values, values.new_full((size - len(values),), len(values))))  # the largest, at the end
    while width < size:
        halves = blocks.reshape(-1, 2, width)
        first, second = halves[:, 0].contiguous(), halves[:, 1].contiguous()
        found = found + (width - torch.searchsorted(first, second, right=True)).sum()
        width *= 2
        blocks = blocks.reshape(-1, width).sort(dim=1).values
    return found
