"""Scored documents of queries, as metrics of retrieval take them, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from valor_gpu.checks import check_dense, check_same_device
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.ops.error_codes import NAN_SCORE, NO_ERROR, TARGET, first_error

_INDEX_TYPES = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8)
UNJUDGED = -1.0
"""Target of an unjudged document in a state; that of an ignored one is NaN."""


@dataclass(frozen=True)
class DocumentRule:
    """What a metric takes as targets.

    Attributes:
        graded: whether they are grades of at least 0, else 0 and 1.
        ignore_index: the target of documents that are left out, or None.
        unjudged_index: the target of documents that nobody has judged, or None.
    """

    graded: bool = False
    ignore_index: int | None = None
    unjudged_index: int | None = None

    def __post_init__(self) -> None:
        for name in ("ignore_index", "unjudged_index"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
                raise InputError(f"{name} must be an int or None but got {value!r}")
        if self.unjudged_index is not None and self.unjudged_index == self.ignore_index:
            raise InputError(f"unjudged_index must differ from ignore_index but both are {self.ignore_index}")


def need_of(rule: DocumentRule) -> str:
    """What a target must be, for messages."""
    plain = "a finite grade of at least 0" if rule.graded else "0 or 1"
    others = (("ignore_index", rule.ignore_index), ("unjudged_index", rule.unjudged_index))
    return " or ".join([plain, *(f"{name}={value}" for name, value in others if value is not None)])


class DocumentBatch(NamedTuple):
    """Documents, in new tensors.

    Attributes:
        indexes: int64 ``[N]``, the query of each.
        preds: float64 ``[N]``.
        target: float64 ``[N]``; NaN: ignored, ``UNJUDGED``: unjudged.
        error: int64 ``[]``, the code of the first bad value.
    """

    indexes: Tensor
    preds: Tensor
    target: Tensor
    error: Tensor


def document_batch(preds: Values, target: Values, indexes: Values, rule: DocumentRule) -> DocumentBatch:
    """Checks and copies a batch.

    Args:
        preds: scores of any floating dtype and shape.
        target: bools, integers or floats in the shape of ``preds``.
        indexes: integers in the shape of ``preds``.
        rule: of the metric.

    Raises:
        InputError: an argument is of another shape, dtype or device.
    """
    if indexes is None:
        raise InputTypeError("indexes must be integers, the query of each document, but got None")
    given = {
        "preds": as_values("preds", preds),
        "target": as_values("target", target),
        "indexes": as_values("indexes", indexes),
    }
    _check(given)
    scores, grades, queries = (each.detach().reshape(-1) for each in given.values())
    wide = scores.to(torch.float64, copy=True)
    marked, bad = _marked(grades, rule)
    nan = wide.isnan()
    if rule.ignore_index is not None:
        nan &= ~marked.isnan()
    return DocumentBatch(queries.to(torch.int64, copy=True), wide, marked, _first(nan, bad))


def _check(given: dict[str, Tensor]) -> None:
    preds, target, indexes = given.values()
    for name, each in given.items():
        check_dense(name, each)
    if not preds.is_floating_point() and preds.numel():
        raise InputError(f"preds must be floating point but got {preds.dtype}")
    if target.is_complex():
        raise InputError(f"target must be bools, integers or floats but got {target.dtype}")
    if indexes.dtype not in _INDEX_TYPES and indexes.numel():
        raise InputError(f"indexes must be integers but got {indexes.dtype}")
    shapes = [list(each.shape) for each in given.values()]
    if preds.shape != target.shape or preds.shape != indexes.shape:
        raise InputError(f"preds, target and indexes must have one shape but got {shapes[0]}, {shapes[1]}, {shapes[2]}")
    if not preds.ndim:
        raise InputError("preds must have at least one dimension but got a single number")
    check_same_device(tuple(given), tuple(given.values()))


def _marked(grades: Tensor, rule: DocumentRule) -> tuple[Tensor, Tensor]:
    """Targets of the state, and which are bad."""
    values = grades.to(torch.float64, copy=True)
    bad = ~((values >= 0) & values.isfinite()) if rule.graded else ~((values == 0) | (values == 1))
    for index, mark in ((rule.unjudged_index, UNJUDGED), (rule.ignore_index, float("nan"))):
        if index is not None:
            here = grades == index
            values, bad = values.masked_fill(here, mark), bad & ~here
    return values, bad


def _first(nan: Tensor, bad: Tensor) -> Tensor:
    if nan.is_cuda or torch.compiler.is_compiling() or bool((nan | bad).any()):
        return first_error([(nan, NAN_SCORE), (bad, TARGET)])
    return torch.tensor(NO_ERROR)


def wrong_targets(target: Tensor, rule: DocumentRule) -> Tensor:
    """Which targets of a state are none that ``rule`` leaves, bool ``[N]``."""
    good = (target >= 0) & target.isfinite() if rule.graded else (target == 0) | (target == 1)
    good |= (target == UNJUDGED) & (rule.unjudged_index is not None)
    good |= target.isnan() & (rule.ignore_index is not None)
    return ~good
