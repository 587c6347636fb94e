"""Plans of the metrics of exact sums: small batches in one native call. See valor_gpu.plans."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.ops.moments.kinds import Kind
from valor_gpu.ops.moments.launches import NUMBER_TYPES, task_words
from valor_gpu.plans import Form, Plan, Step, is_plain
from valor_gpu.regression.sums_state import Rule, width_of

_PACK = struct.Struct("10Q").pack
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
    call = native.update_function("valor_cpu", "valor_add_moments_cpu")
    if call is None or rule.keep_rows or form.preds not in NUMBER_TYPES or form.target not in NUMBER_TYPES:
        return None
    columns = shape[1] if len(shape) == 2 else 1
    words = task_words((form.preds, form.target), shape, rule.kind, rule.parameter, limbs)
    no_sums = torch.zeros((columns, rule.kind.sums, limbs), dtype=torch.int64)
    no_counts = torch.zeros((columns, 4), dtype=torch.int64)
    none = torch.full((2, columns), torch.inf, dtype=torch.float64)
    none[1] = -torch.inf
    no_ends, step_ends = none.data_ptr(), 8 * columns
    ranged = rule.kind == Kind.VARIANCE and not inferred
    places, own = torch.arange(columns), width_of(form.preds, form.target)
    seen = [own]  # what the last update left, mostly the same again

    def add(old: tuple[Tensor, Tensor], preds: Tensor, target: Tensor) -> tuple[Tensor, ...] | None:
        if not (_like(old[0], no_sums) and _like(old[1], no_counts)):
            return None
        new, ends = [*map(torch.empty_like, old)], torch.empty_like(none)
        there = ends.data_ptr()
        try:
            addresses = [*map(_address, (preds, target, *old))]
        except RuntimeError:  # a tensor of torch.func without memory of its own
            return None
        after = *map(_address, new), there, there + step_ends
        if not all(addresses) or call(words, _PACK(*addresses, no_ends, no_ends + step_ends, *after)):
            return None
        return (*new, *((ends[0], -ends[1]) if ranged else ()))

    def plan(base: Mapping[str, Any], preds: Tensor, target: Tensor, _held: Tensor = none) -> Step | None:
        if base["narrowest"] is not seen[0]:
            seen[0] = torch.minimum(base["narrowest"], own)
        sums, counts = base["sums"], base["counts"]
        if not inferred:
            found = add((sums, counts), preds, target)
            if found is None:
                return None
            made = dict(zip(("sums", "counts"), found), narrowest=seen[0])
            if ranged:
                made["lowest"] = torch.minimum(base["lowest"], found[2])
                made["highest"] = torch.minimum(base["highest"], found[3])
            return Step(made)
        if len(sums) > 1:
            return None
        found = add((sums[0], counts[0]) if sums else (no_sums, no_counts), preds, target)
        if found is None:
            return None
        if sums:
            return Step({"sums": [found[0]], "counts": [found[1]], "narrowest": seen[0]})
        return Step({"narrowest": seen[0]}, (("outputs_seen", places), ("sums", found[0]), ("counts", found[1])))

    return plan


def _like(tensor: Any, model: Tensor) -> bool:
    """Whether native code may read a tensor of a state, which users can replace."""
    fits = type(tensor) is Tensor and tensor.dtype is torch.int64 and tensor.shape == model.shape
    return fits and tensor.is_cpu and is_plain(tensor)
