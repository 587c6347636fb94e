"""Pairs of upright boxes on the CPU over addresses and sizes, for numpy arrays and tensors alike. No torch."""

from __future__ import annotations

from valor_gpu import native
from valor_gpu.ops.assign.cpu import NUMPY
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import describe_box, raise_error
from valor_gpu.ops.pairs import rows_cpu as _row_pairs_cpu
from valor_gpu.ops.pairs.cpu import stored
from valor_gpu.ops.pairs.rows_cpu import Kernels, Shape

SHAPE = Shape(lambda _: 4, 32)
"""Rows ``[N, 4]``, and Box of csrc/core/boxes.h."""


def kernels() -> Kernels:
    """The C functions of the CPU."""
    return Kernels(
        native.function("valor_cpu", "valor_load_boxes_cpu", "ppq"),
        native.function("valor_cpu", "valor_box_pairs_cpu", "ppq"),
    )


def box_pairs(batch: MatchBatch, lowest: float, agnostic: bool = False) -> MatchBatch:
    """Returns a batch of stored pairs; see :func:`valor_gpu.ops.box_pairs.op.box_pairs`.

    Args:
        batch: numpy arrays; ``boxes`` and ``gt_boxes`` have the formats ``box_format`` and ``gt_box_format``.
        lowest: the lowest threshold.
        agnostic: see :class:`valor_gpu.ops.pairs.cpu.Search`.

    Raises:
        InputError: for the first row that is not finite.
        NativeError: the C++ library is not there; ask :func:`valor_gpu.native.usable` first.

    Example:
        >>> import numpy as np
        >>> box, label = np.array([[0.0, 0.0, 4.0, 2.0]]), np.zeros(1, int)
        >>> batch = MatchBatch(np.array([[1], [1]]), [box], [np.ones(1)], [label], gt_boxes=[box / 2],
        ...                    gt_labels=[label])
        >>> box_pairs(batch, 0.1).pairs.similarities.tolist()
        [0.25]
    """
    found = _row_pairs_cpu.run(batch, lowest, agnostic, NUMPY, SHAPE, kernels())
    raise_error(found.error, describe_box)
    return stored(batch, found)
