"""Pairs of rotated boxes on the CPU over addresses and sizes, for numpy arrays and tensors alike. No torch."""

from __future__ import annotations

from valor_gpu import native
from valor_gpu.ops.assign.cpu import NUMPY, Access
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import describe_box, raise_error
from valor_gpu.ops.pairs import rows_cpu as _row_pairs_cpu
from valor_gpu.ops.pairs.cpu import Found, stored
from valor_gpu.ops.pairs.rows_cpu import Kernels, Shape

QUAD_BYTES = 128
"""Size of Quad in csrc/core/quads.h."""

CORNERS, DEGREES, DEGREES_CLOCKWISE, RADIANS, RADIANS_CLOCKWISE, CHECKED_CORNERS = range(6)
"""What a row holds, QuadFormat in csrc/core/quads.h; checked corners were accepted before."""

ROTATED_FORMATS = ("xyxyxyxy", "cxcywha")
"""Four corners one after another; or centre, width, height and angle."""

ANGLE_UNITS, ANGLE_DIRECTIONS = ("degrees", "radians"), ("counterclockwise", "clockwise")


def format_code(box_format: str, angle_unit: str = "degrees", angle_direction: str = "counterclockwise") -> int:
    """Returns the code of a format by its names.

    Args:
        box_format: one of ``ROTATED_FORMATS``.
        angle_unit: one of ``ANGLE_UNITS``.
        angle_direction: one of ``ANGLE_DIRECTIONS``, as seen in the image.

    Example:
        >>> format_code("cxcywha", "radians", "clockwise") == RADIANS_CLOCKWISE
        True
    """
    if box_format == "xyxyxyxy":
        return CORNERS
    return DEGREES + 2 * ANGLE_UNITS.index(angle_unit) + ANGLE_DIRECTIONS.index(angle_direction)


def columns_of(code: int) -> int:
    """Returns how many numbers a row of format ``code`` has."""
    return 8 if code in (CORNERS, CHECKED_CORNERS) else 5


SHAPE = Shape(columns_of, QUAD_BYTES)
"""Rows ``[N, 5]`` or ``[N, 8]``, and their quadrilaterals."""


def kernels() -> Kernels:
    """The C functions of the CPU."""
    return Kernels(
        native.function("valor_cpu", "valor_load_quads_cpu", "ppq"),
        native.function("valor_cpu", "valor_rotated_pairs_cpu", "ppq"),
    )


def rotated_pairs(batch: MatchBatch, lowest: float, agnostic: bool = False) -> MatchBatch:
    """Returns a batch of stored pairs; see :func:`valor_gpu.ops.rotated.op.rotated_pairs`.

    Args:
        batch: numpy arrays; ``boxes`` and ``gt_boxes`` have the columns of the quad format that ``box_format`` and
            ``gt_box_format`` name.
        lowest: the lowest threshold.
        agnostic: see :class:`valor_gpu.ops.pairs.cpu.Search`.

    Raises:
        InputError: for the first row that is no box.
        NativeError: the C++ library is not there; ask :func:`valor_gpu.native.usable` first.

    Example:
        >>> import numpy as np
        >>> batch = MatchBatch(np.array([[1], [1]]), [np.array([[5.0, 5, 8, 4, 30]])], [np.ones(1)], [np.zeros(1, int)],
        ...                    gt_boxes=[np.array([[5.0, 5, 8, 4, 30]])], gt_labels=[np.zeros(1, int)],
        ...                    box_format=DEGREES, gt_box_format=DEGREES)
        >>> rotated_pairs(batch, 0.5).pairs.similarities.tolist()
        [1.0]
    """
    found = run(batch, lowest, agnostic, NUMPY)
    raise_error(found.error, describe_box)
    return stored(batch, found)


def run(batch: MatchBatch, lowest: float, agnostic: bool, access: Access) -> Found:
    """Finds the pairs, and leaves the error code in the result, an int."""
    return _row_pairs_cpu.run(batch, lowest, agnostic, access, SHAPE, kernels())
