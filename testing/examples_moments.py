"""Predictions and targets of regression, for the op that sums them exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from testing.datasets import BoxDataset
from valor_gpu.ops.moments.kinds import NARROW, WIDE, Kind

Arguments = tuple[Any, ...]
PARAMETERS = {Kind.PINBALL: 0.3, Kind.MINKOWSKI: 2.5, Kind.TWEEDIE: 1.5}
"""A parameter of the kinds that have one."""
_POWERS = {Kind.MINKOWSKI: (1.0, 1.5, 2.0, 2.7, 3.0, 4.0, 7.0), Kind.TWEEDIE: (-1.5, 0.0, 1.0, 1.3, 2.0, 2.6, 3.0)}
"""Those with formulas of their own, and others."""


def wild(rng: np.random.Generator, shape: tuple[int, ...], low: int = -1074, high: int = 1023) -> Tensor:
    """float64 of both signs, every exponent from ``low`` to ``high`` as likely."""
    return torch.from_numpy(np.ldexp(rng.uniform(-1, 1, shape), rng.integers(low, high + 1, shape)))


def pair(rng: np.random.Generator, kind: Kind, shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Normally distributed numbers; of kinds that want numbers above 0, the size of these and 0.01 more."""
    sides = [torch.from_numpy(rng.standard_normal(shape)) for _ in range(2)]
    if kind in (Kind.TWEEDIE, Kind.SQUARED_LOG):
        sides = [side.abs() + 0.01 for side in sides]
    if not dtype.is_floating_point:
        sides = [(side * 20).abs() + 1 for side in sides]
    return sides[0].to(dtype), sides[1].to(dtype)


def examples(quick: bool) -> Iterator[tuple[str, Arguments]]:
    """Arguments of ``moments``."""
    rng = np.random.default_rng(53)
    for kind in Kind:
        parameter = PARAMETERS.get(kind, 0.0)
        for shape in ((0,), (1,), (7,), (2061,), (0, 3), (300, 3), (5, 19)):
            dtype = (torch.float32, torch.float64)[len(shape) - 1]
            yield f"{kind.name}, {shape}", (*pair(rng, kind, shape, dtype), int(kind), parameter, WIDE)
        yield f"{kind.name}, narrow", (*pair(rng, kind, (1030,), torch.float64), int(kind), parameter, NARROW)
        for power in _POWERS.get(kind, ()):
            for dtype in (torch.float32, torch.float64):
                p, t = pair(rng, kind, (1030,), dtype)
                t[::9] = p[::9]
                t[::17] = 0.0 if kind == Kind.MINKOWSKI or power < 2 else 1.0
                yield f"{kind.name}, power {power}, {dtype}", (p, t, int(kind), power, WIDE)
        yield from _rough(rng, kind, parameter)
    dtypes = (torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
    for dtype, other in zip(dtypes, (*dtypes[1:], torch.bool)):
        sides = pair(rng, Kind.PRODUCTS, (1500,), dtype)[0], pair(rng, Kind.PRODUCTS, (1500,), other)[1]
        yield f"{dtype}, {other}", (*sides, int(Kind.PRODUCTS), 0.0, WIDE)
    yield from _columns(rng)
    yield from () if quick else _large(rng)


def _columns(rng: np.random.Generator) -> Iterator[tuple[str, Arguments]]:
    """Columns that fill groups of two, four and eight, or do not, some more than one block's; numbers of all sizes."""
    for kind, limbs in ((Kind.SQUARED, WIDE), (Kind.WEIGHTED, NARROW), (Kind.VARIANCE, WIDE), (Kind.PRODUCTS, NARROW)):
        for shape, dtype in (((1300, 2), torch.float32), ((520, 4), torch.float16), ((259, 9), torch.float32)):
            yield f"{kind.name}, {shape}, {limbs}", (*pair(rng, kind, shape, dtype), int(kind), 0.0, limbs)
        yield f"{kind.name}, wild columns", (wild(rng, (300, 8)), wild(rng, (300, 8)), int(kind), 0.0, limbs)


def _rough(rng: np.random.Generator, kind: Kind, parameter: float) -> Iterator[tuple[str, Arguments]]:
    """Every exponent; zeros with signs, NaN and infinities; numbers without a term."""
    p, t = wild(rng, (1100,)), wild(rng, (1100,))
    p[::7] *= 2.0**-300
    if kind in (Kind.TWEEDIE, Kind.SQUARED_LOG):
        p, t = p.abs() + 5e-324, t.abs() + 5e-324
    yield f"{kind.name}, wild", (p, t, int(kind), parameter, WIDE)
    yield f"{kind.name}, wild and narrow", (p, t, int(kind), parameter, NARROW)
    special = torch.tensor([0.0, -0.0, 1.0, 5e-324, torch.nan, torch.inf, 1.7e308, -1.7e308, -torch.inf, 0.5])
    first = 3 if kind in (Kind.TWEEDIE, Kind.SQUARED_LOG) else 0
    p, t = (side.reshape(-1) for side in torch.meshgrid(special[first:], special[first:], indexing="ij"))
    if kind in (Kind.TWEEDIE, Kind.SQUARED_LOG):
        p, t = p.abs(), t.abs()
    for limbs in (WIDE, NARROW):
        yield f"{kind.name}, special, {limbs}", (p.double(), t.double(), int(kind), parameter, limbs)
    if kind in (Kind.TWEEDIE, Kind.SQUARED_LOG):
        p, t = pair(rng, kind, (50, 2), torch.float32)
        p[40:], t[30, 1] = -3.0, -2.0
        yield f"{kind.name}, no term", (p, t, int(kind), parameter, WIDE)


def _large(rng: np.random.Generator) -> Iterator[tuple[str, Arguments]]:
    for kind in (Kind.SQUARED, Kind.PRODUCTS, Kind.VARIANCE):
        for dtype in (torch.float32, torch.float64):
            yield f"{kind.name}, {dtype}, large", (*pair(rng, kind, (150_000,), dtype), int(kind), 0.0, WIDE)
        yield f"{kind.name}, columns", (*pair(rng, kind, (9000, 33), torch.float32), int(kind), 0.0, WIDE)


def load(scene: BoxDataset) -> Arguments:
    """10^6 rows of float32, whatever the scene."""
    return (*pair(np.random.default_rng(2), Kind.PRODUCTS, (1_000_000,), torch.float32), int(Kind.PRODUCTS), 0.0, WIDE)
