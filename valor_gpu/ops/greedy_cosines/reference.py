"""Definition in plain torch of the op in :mod:`valor_gpu.ops.greedy_cosines.op`.

The cosine of two vectors is their dot product, times 1 / length of the first, times 1 / length of the second, from -1
to 1, in float32. Element d belongs to lane d mod 32 of a sum; the upper half of the lanes joins the lower until one is
left.
"""

from __future__ import annotations

import torch
from torch import Tensor

from valor_gpu.ops.error_codes import NAN_SCORE, first_error

LANES = 32
_LEAST, _MOST = 2.0**-120, 2.0**120  # squares of a vector that has a direction


def greedy_cosines(preds: Tensor, target: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """See :func:`valor_gpu.ops.greedy_cosines.op.greedy_cosines`."""
    squares = [_dot(side, side) for side in (preds, target)]
    columns = [~((each > _LEAST) & (each < _MOST)) for each in squares]
    rows = max(len(preds), len(target))
    bad = torch.stack([torch.nn.functional.pad(each, (0, rows - len(each))) for each in columns], 1)
    # By float64: the square root of float32 that torch takes from MKL is not always the nearest number.
    inverse = [1.0 / each.double().sqrt().float() for each in squares]
    best = [preds.new_empty(len(side)) for side in (preds, target)]
    for (a, b), (a_end, b_end) in zip(offsets.T[:-1].tolist(), offsets.T[1:].tolist()):
        dots = _dot(preds[a:a_end, None], target[None, b:b_end])
        cosines = (dots * inverse[0][a:a_end, None] * inverse[1][b:b_end]).clamp(-1, 1)
        cosines = torch.nn.functional.pad(cosines, (0, 1, 0, 1), value=-2.0)  # of a text without tokens
        best[0][a:a_end], best[1][b:b_end] = cosines.amax(1)[:-1], cosines.amax(0)[:-1]
    return best[0], best[1], first_error([(bad, NAN_SCORE)])


def greedy_cosines_fake(preds: Tensor, target: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Shapes and dtypes of ``greedy_cosines``."""
    return preds.new_empty(len(preds)), target.new_empty(len(target)), preds.new_empty((), dtype=torch.int64)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Sums of products over the last dimension, a multiple of the lanes."""
    shape = torch.broadcast_shapes(a.shape, b.shape)[:-1]
    lanes = a.new_zeros((*shape, LANES))
    for x, y in zip(a.split(LANES, -1), b.split(LANES, -1)):
        lanes = lanes + x * y
    while (half := lanes.shape[-1] // 2) > 0:
        lanes = lanes[..., :half] + lanes[..., half:]
    return lanes[..., 0]
