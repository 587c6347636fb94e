"""Plans of the metrics of exact sums: small batches in one native call. See valor_gpu.plans."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops.moments.kinds import Kind
from valor_gpu.ops.moments.launches import NUMBER_TYPES, task_words
from valor_gpu.plans import Field, Form, Plan, Step, applicable, is_plain, native_plan
from valor_gpu.regression.sums_state import Rule, width_of
from valor_gpu.regression.whole_numbers import held_by_float64

_PACK = struct.Struct("10Q").pack
_MEAN, _MEAN_CALL = struct.Struct("3q").pack, struct.Struct("3Q").pack
_EVENTS = struct.Struct("3q2d2q").pack
_address = Tensor.data_ptr


def moments_plan(form: Form, rule: Rule, shape: torch.Size, limbs: int, inferred: bool) -> Plan | None:
    """The plan of exact sums; None if the checked path has to look at the form.

    Args:
        form: what comes.
        rule: of the state.
        shape: of the rows, ``[N]`` or ``[N, D]``.
        limbs: of a sum.
        inferred: whether the state has as many outputs as the first batch.
    """
    if rule.keep_rows or not {form.preds, form.target} <= NUMBER_TYPES.keys():
        return None
    columns = shape[1] if len(shape) == 2 else 1
    add = _adding(task_words((form.preds, form.target), shape, rule.kind, rule.parameter, limbs), rule, columns, limbs)
    if add is None:
        return None
    ranged = rule.kind == Kind.VARIANCE and not inferred
    wholes = torch.int64 in (form.preds, form.target)
    places, own = torch.arange(columns), width_of(form.preds, form.target)
    ends = _ends(columns, ranged)
    nothing = [torch.zeros(size, dtype=torch.int64) for size in ((columns, rule.kind.sums, limbs), (columns, 4))]
    seen = [own]  # what the last update left, mostly the same again

    def plan(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step | None:
        if base["narrowest"] is not seen[0]:
            seen[0] = torch.minimum(base["narrowest"], own)
        sums, counts = base["sums"], base["counts"]
        if inferred:  # one block, or none
            sums, counts = (sums[-1], counts[-1]) if sums else nothing
        if wholes and not (_held(preds) and _held(target)):
            return None
        if (sides := ends(base)) is None or (new := add(sums, counts, preds, target, sides)) is None:
            return None
        new_sums, new_counts = new
        if not inferred:
            made = {"sums": new_sums, "counts": new_counts, "narrowest": seen[0]}
            return Step({**made, "lowest": sides[2], "highest": sides[3].neg_()} if ranged else made)
        if base["sums"]:
            return Step({"sums": [new_sums], "counts": [new_counts], "narrowest": seen[0]})
        return Step({"narrowest": seen[0]}, (("outputs_seen", places), ("sums", new_sums), ("counts", new_counts)))

    return plan


def events_plan(form: Form, threshold: float, dimension: int | None = None) -> Plan | None:
    """The plan of counts of events, numbers that reach a threshold, int64 ``[5]``; None as above.

    Args:
        form: what comes.
        threshold: compared in the dtype of each side.
        dimension: whose positions have counts of their own, int64 ``[S, 5]``, which are appended.
    """
    call = native.update_function("valor_cpu", "valor_add_events_cpu")
    types = (form.preds, form.target)
    if call is None or form.preds_shape != form.target_shape or not {*types} <= _COMPARED:
        return None
    least = (torch.tensor(threshold, dtype=dtype).double().item() for dtype in types)
    shape = form.preds_shape
    words = (*(NUMBER_TYPES[dtype] for dtype in types), shape.numel(), *least)
    if dimension is None:
        return native_plan(call, _EVENTS(*words, 0, 0), (Field("events", torch.int64, (5,)),))
    if dimension >= len(shape):
        return None
    steps, inner = shape[dimension], math.prod(shape[dimension + 1 :])
    return native_plan(call, _EVENTS(*words, steps, inner), (), {"events": torch.empty((steps, 5), dtype=torch.int64)})


def mean_of_sum(state: dict[str, Any], mark: str, differences: bool = False) -> Tensor | None:
    """The mean of the rows of the only sum of a state, rounded once, ``[]``; None where Python has to look at it.

    Args:
        state: ``__dict__`` of the metric, with ``sums`` and ``counts``.
        mark: the field that is 0 where float64 came.
        differences: whether the sum is the difference of two.
    """
    call = native.update_function("valor_cpu", "valor_mean_of_sum_cpu")
    sums, counts = state["sums"], state["counts"]
    # A metric may be given another method ``state``, which says what compute reads.
    if call is None or type(sums) is not Tensor or "state" in state or not applicable(state):
        return None
    shape = sums.shape
    if shape[:-1] != ((2,) if differences else (1, 1)) or not (_fits(sums, shape) and _fits(counts, (1, 4))):
        return None
    wide = state[mark].item() == 0
    mean = torch.empty((), dtype=torch.float64 if wide else torch.float32)
    addresses = _MEAN_CALL(_address(sums), _address(counts), _address(mean))
    return None if call(_MEAN(shape[-1], differences, wide), addresses) else mean


_COMPARED = {torch.float32, torch.float64}  # of others, torch chooses the dtype in which it compares


def _adding(words: bytes, rule: Rule, columns: int, limbs: int) -> Callable[..., tuple[Tensor, Tensor] | None] | None:
    """What adds a batch to sums and counts, and to ends in memory of its own: gives new ones; None without it."""
    call = native.update_function("valor_cpu", "valor_add_moments_cpu")
    if call is None:
        return None
    of_sums, of_counts = (columns, rule.kind.sums, limbs), (columns, 4)

    def add(
        sums: Tensor, counts: Tensor, preds: Tensor, target: Tensor, ends: tuple[Tensor, ...]
    ) -> tuple[Tensor, Tensor] | None:
        if not (_fits(sums, of_sums) and _fits(counts, of_counts)):
            return None
        new = torch.empty_like(sums), torch.empty_like(counts)
        low, high, *made = ends
        try:
            addresses = [*map(_address, (preds, target, sums, counts, low, high, *new, *made))]
        except RuntimeError:  # a tensor of torch.func without memory of its own
            return None
        return None if not all(addresses) or call(words, _PACK(*addresses)) else new

    return add


def _held(side: Tensor) -> bool:
    try:
        return held_by_float64(side)
    except RuntimeError:  # a tensor of torch.func, whose numbers nobody may read
        return False


def _ends(columns: int, ranged: bool) -> Callable[[Mapping[str, Any]], tuple[Tensor, ...] | None]:
    """What gives the least and largest targets of a state, and memory for new ones; None if they do not fit."""
    idle = tuple(torch.zeros(columns, dtype=torch.float64) for _ in range(4))  # written by all, read by nobody

    def ends(base: Mapping[str, Any]) -> tuple[Tensor, ...] | None:
        if not ranged:
            return idle
        low, high = base["lowest"], base["highest"]
        if not all(_fits(end, (columns,), torch.float64) for end in (low, high)):
            return None
        return low, -high, torch.empty_like(low), torch.empty_like(high)  # kept with the other sign: both merge by min

    return ends


def _fits(tensor: Any, shape: tuple[int, ...], dtype: torch.dtype = torch.int64) -> bool:
    """Whether native code may read a tensor of a state, which users can replace."""
    fits = type(tensor) is Tensor and tensor.dtype is dtype and tensor.shape == shape
    return fits and tensor.is_cpu and is_plain(tensor)
