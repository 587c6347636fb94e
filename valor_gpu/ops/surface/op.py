"""Distances between the boundaries of label maps and of masks, by image and class.

Definition in plain torch: ``valor_gpu/ops/surface/reference.py``. Design: docs/design/015-surface-distances.md.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.checks import check_choice, check_dtype, check_int, check_number, check_same_device
from valor_gpu.errors import InputError
from valor_gpu.ops._launch import cpp, cuda, launching
from valor_gpu.ops._library import register
from valor_gpu.ops.surface import reference

METRICS = ("euclidean", "chessboard", "taxicab")
"""Names of SurfaceMetric in csrc/core/surface.h, in its order."""

MAX_PIXELS = 2**31 - 1
"""Most pixels of an image."""

PIXELS, NEAR = range(2)
"""Columns of :attr:`SurfaceDistances.counts`."""

SUM, LARGEST, PERCENTILE = range(3)
"""Columns of :attr:`SurfaceDistances.statistics`."""

_WORKSPACE_BYTES = 1 << 28  # of a CUDA device, unless one image needs more; classes take turns in it
_MAX_PAIRS = 2**15 - 1  # of image and class: blockIdx.y counts their sides


class SurfaceDistances(NamedTuple):
    """What :func:`surface_distances` found for B images and C' classes; side 0 looks from ``preds`` to ``target``.

    Attributes:
        counts: int64 ``[B, C', 2, 2]``, of each side the boundary pixels, and those whose distance to the other
            boundary is at most the tolerance.
        statistics: float64 ``[B, C', 2, 3]``, of each side the sum, the largest and the percentile of the distances
            of its boundary pixels to the other boundary; NaN where one of the boundaries is empty.
    """

    counts: Tensor
    statistics: Tensor


def surface_distances(
    preds: Tensor,
    target: Tensor,
    num_classes: int,
    *,
    first_class: int = 0,
    metric: str = "euclidean",
    spacing: Sequence[float] | None = None,
    percentile: float = 95.0,
    tolerance: float = 0.0,
) -> SurfaceDistances:
    """Statistics of the distances from each boundary pixel of a class to the nearest one of the other side.

    A pixel of a class is a boundary pixel if a neighbour along an axis (4 neighbours in an image, 6 in a volume) is not
    of the class or lies outside of the image. Distances are those of ``scipy.ndimage.distance_transform_edt`` (and
    ``_cdt``) between centres of pixels, exact; with spacing 1 they are roots of integers. Sums have one order, so that
    every kernel gives the same bits.

    Args:
        preds: int32 ``[B, H, W]`` or ``[B, D, H, W]``, class indices; what is no class from 0 to C - 1 belongs to none.
            Or bool ``[B, C, H, W]`` or ``[B, C, D, H, W]``, a mask of each class, which may overlap.
        target: likewise; one side may be labels and the other masks.
        num_classes: C.
        first_class: classes before it are left out.
        metric: one of ``METRICS``. Chessboard is the largest of the distances along the axes, taxicab their sum.
        spacing: distance of neighbouring pixels along each axis of the image, in its order; None for 1.
        percentile: from 0 to 100, as numpy.percentile (linear).
        tolerance: in units of ``spacing``.

    Returns:
        SurfaceDistances of the classes from ``first_class`` on.

    Raises:
        InputError: on another shape, dtype or device, or an argument out of range.

    Example:
        >>> import torch
        >>> preds, target = torch.zeros(2, 1, 5, 5, dtype=torch.int32)
        >>> preds[0, 1, 1], target[0, 4, 1] = 1, 1
        >>> found = surface_distances(preds, target, 2, first_class=1, tolerance=2.0)
        >>> found.statistics[0, 0, 0].tolist(), found.counts[0, 0].tolist()
        ([3.0, 3.0, 3.0], [[1, 0], [1, 0]])
    """
    check_int("num_classes", num_classes, 1)
    check_int("first_class", first_class)
    if first_class >= num_classes:
        raise InputError(f"first_class must be below num_classes={num_classes} but got {first_class}")
    size = _check_sides(preds, target, num_classes)
    check_choice("metric", metric, METRICS)
    check_number("percentile", percentile, 0, 100)
    check_number("tolerance", tolerance, 0)
    distances = check_spacing(spacing, len(size))
    rule = [METRICS.index(metric), first_class, num_classes]
    numbers = [*distances, percentile / 100, float(tolerance)]
    return SurfaceDistances(*_OP(preds, target, rule, numbers))


def check_spacing(spacing: Sequence[float] | None, axes: int) -> list[float]:
    """The spacing as one number of each axis; raises unless they are finite and above 0."""
    if spacing is None:
        return [1.0] * axes
    if len(spacing) != axes:
        raise InputError(f"spacing must have {axes} numbers, one of each axis, but got {list(spacing)}")
    for number in spacing:
        check_number("spacing", number)
        if not 1e-100 < float(number) < 1e100:  # so that squares are numbers
            raise InputError(f"spacing must be above 1e-100 and below 1e100 but got {number}")
    return [float(number) for number in spacing]


def _size(name: str, side: Tensor, num_classes: int) -> tuple[int, ...]:
    """Images and the size of one."""
    check_dtype(name, side, (torch.int32, torch.bool))
    masks = side.dtype == torch.bool
    if side.ndim - masks not in (3, 4) or (masks and side.shape[1] != num_classes):
        need = f"[B, {num_classes}, H, W] or [B, {num_classes}, D, H, W]" if masks else "[B, H, W] or [B, D, H, W]"
        raise InputError(f"{name} must have shape {need} but got {list(side.shape)}")
    return (side.shape[0], *side.shape[1 + masks :])


def _check_sides(preds: Tensor, target: Tensor, num_classes: int) -> tuple[int, ...]:
    sizes = _size("preds", preds, num_classes), _size("target", target, num_classes)
    if sizes[0] != sizes[1]:
        raise InputError(
            f"preds and target must have images of one shape but got {list(preds.shape)} and {list(target.shape)}"
        )
    check_same_device(("preds", "target"), (preds, target))
    if torch.Size(sizes[0][1:]).numel() > MAX_PIXELS:
        raise InputError(f"preds must have at most {MAX_PIXELS} pixels an image but has shape {list(preds.shape)}")
    return sizes[0][1:]


# ------------------------------------------------------------------------------------------------------------ kernels


def _task(preds: Tensor, target: Tensor, rule: Sequence[int], numbers: Sequence[float]) -> bytes:
    """The SurfaceTask of csrc/core/surface.h."""
    metric, first, classes = rule
    *spacing, quantile, tolerance = numbers
    size = preds.shape[-len(spacing) :]
    unit = all(number == 1 for number in spacing)
    sides = [word for side in (preds, target) for word in (side.data_ptr(), side.dtype == torch.bool)]
    thick = [1] * (3 - len(size))  # a 2-D image is one plane
    return struct.pack(
        "13q5d", *sides, preds.shape[0], classes, first, *thick, *size, len(size) == 3, metric, unit,
        *thick, *spacing, quantile, tolerance,
    )  # fmt: skip


def _on_cpu(preds: Tensor, target: Tensor, rule: list[int], numbers: list[float]) -> tuple[Tensor, Tensor]:
    preds, target = preds.contiguous(), target.contiguous()
    counts, statistics = reference.fake(preds, target, rule, numbers)
    if counts.numel():
        native.function("valor_cpu", "valor_surface_distances_cpu", "pppq")(
            _task(preds, target, rule, numbers), counts.data_ptr(), statistics.data_ptr(), torch.get_num_threads()
        )
    return counts, statistics


def _on_cuda(preds: Tensor, target: Tensor, rule: list[int], numbers: list[float]) -> tuple[Tensor, Tensor]:
    preds, target = preds.contiguous(), target.contiguous()
    axes, pairs = len(numbers) - 2, len(preds) * (rule[2] - rule[1])
    *planes, rows, columns = preds.shape[-axes:]
    lines, pixels = math.prod(planes) * rows, math.prod(planes) * rows * columns
    if pixels == 0 or pairs == 0:
        counts, statistics = reference.fake(preds, target, rule, numbers)
        return counts.zero_(), statistics.fill_(math.nan)
    with launching(preds.device) as stream:
        counts, statistics = reference.fake(preds, target, rule, numbers)
        words = (columns + 31) // 32
        # Arrays of each side of a pair: bits, starts, steps, costs and distances.
        sizes = [lines * words, lines + 1, pixels, pixels if math.prod(planes) > 1 else 0, pixels]
        wide = [4, 4, 4, 8, 8]
        fit = _WORKSPACE_BYTES // sum(2 * size * width for size, width in zip(sizes, wide))
        at_once = min(max(fit, 1), pairs, _MAX_PAIRS)
        types = {4: torch.int32, 8: torch.int64}
        space = [
            torch.empty(2 * at_once * size, dtype=types[width], device=preds.device) for size, width in zip(sizes, wide)
        ]
        native.function("valor_cuda", "valor_surface_distances_cuda", "ppppppqppp")(
            _task(preds, target, rule, numbers), *(part.data_ptr() for part in space), at_once, counts.data_ptr(),
            statistics.data_ptr(), stream,
        )  # fmt: skip
    return counts, statistics


_OP = register(
    "surface_distances(Tensor preds, Tensor target, int[] rule, float[] numbers) -> (Tensor, Tensor)",
    reference=reference.surface_distances,
    fake=reference.fake,
    cpu=cpp(_on_cpu),
    cuda=cuda(_on_cuda),
)
