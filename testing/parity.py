"""Compares what a kernel gave with what the reference gives, bit for bit."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree


def differences(got: Any, expected: Any) -> str:
    """Where two nested results of one op differ, in shape, dtype or bits; empty when they do not. NaN equals NaN."""
    mine, shape = pytree.tree_flatten(got)
    theirs, other_shape = pytree.tree_flatten(expected)
    if len(mine) != len(theirs):
        return f"{shape} instead of {other_shape}"
    places = (_difference(a, b) for a, b in zip(mine, theirs))
    return "; ".join(f"output {i}: {text}" for i, text in enumerate(places) if text)


def _difference(got: Any, expected: Any) -> str:
    if not isinstance(expected, torch.Tensor):
        return "" if got == expected else f"{got!r} instead of {expected!r}"
    got, expected = got.cpu(), expected.cpu()
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return f"{got.dtype} {list(got.shape)} instead of {expected.dtype} {list(expected.shape)}"
    unequal = ~_same_bits(got, expected)
    if not bool(unequal.any()):
        return ""
    place = tuple(unequal.nonzero()[0].tolist())
    return (
        f"{int(unequal.sum())} of {unequal.numel()} values, first at {list(place)}:"
        f" {got[place].item()!r} instead of {expected[place].item()!r}"
    )


def _same_bits(got: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    if not got.is_floating_point():
        return got == expected
    equal = (got == expected) & (got.signbit() == expected.signbit())
    return equal | (got.isnan() & expected.isnan())
