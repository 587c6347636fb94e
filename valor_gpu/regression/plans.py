"""Plans of the metrics of exact sums: small batches in one native call. See valor_gpu.plans."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
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
    if rule.keep_rows or not {form.preds, form.target} <= NUMBER_TYPES.keys():
        return None
    columns = shape[1] if len(shape) == 2 else 1
    add = _adding(task_words((form.preds, form.target), shape, rule.kind, rule.parameter, limbs), rule, columns, limbs)
    if add is None:
        return None
    ranged = rule.kind == Kind.VARIANCE and not inferred
    places, own = torch.arange(columns), width_of(form.preds, form.target)
    nothing = [torch.zeros(size, dtype=torch.int64) for size in ((columns, rule.kind.sums, limbs), (columns, 4))]
    seen = [own]  # what the last update left, mostly the same again

    def plan(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step | None:
        if base["narrowest"] is not seen[0]:
            seen[0] = torch.minimum(base["narrowest"], own)
        sums, counts = base["sums"], base["counts"]
        if inferred:  # one block, or none
            sums, counts = (sums[-1], counts[-1]) if sums else nothing
        if (found := add(sums, counts, preds, target)) is None:
            return None
        new_sums, new_counts, ends = found
        if not inferred:
            made = {"sums": new_sums, "counts": new_counts, "narrowest": seen[0]}
            if ranged:
                made["lowest"] = torch.minimum(base["lowest"], ends[0])
                made["highest"] = torch.minimum(base["highest"], -ends[1])
            return Step(made)
        if base["sums"]:
            return Step({"sums": [new_sums], "counts": [new_counts], "narrowest": seen[0]})
        return Step({"narrowest": seen[0]}, (("outputs_seen", places), ("sums", new_sums), ("counts", new_counts)))

    return plan


def _adding(words: bytes, rule: Rule, columns: int, limbs: int) -> Callable[..., tuple[Tensor, ...] | None] | None:
    """What adds a batch to sums and counts: gives new ones, and the ends ``[2, D]`` of the batch; None without it."""
    call = native.update_function("valor_cpu", "valor_add_moments_cpu")
    if call is None:
        return None
    of_sums, of_counts = (columns, rule.kind.sums, limbs), (columns, 4)
    none = torch.full((2, columns), torch.inf, dtype=torch.float64)
    none[1] = -torch.inf
    no_ends, step = none.data_ptr(), none.itemsize * columns

    def add(
        sums: Tensor, counts: Tensor, preds: Tensor, target: Tensor, _held: Tensor = none
    ) -> tuple[Tensor, ...] | None:
        if not (_fits(sums, of_sums) and _fits(counts, of_counts)):
            return None
        new, ends = (torch.empty_like(sums), torch.empty_like(counts)), torch.empty_like(none)
        try:
            addresses = [*map(_address, (preds, target, sums, counts))]
        except RuntimeError:  # a tensor of torch.func without memory of its own
            return None
        after = *map(_address, new), (there := ends.data_ptr()), there + step
        if not all(addresses) or call(words, _PACK(*addresses, no_ends, no_ends + step, *after)):
            return None
        return *new, ends

    return add


def _fits(tensor: Any, shape: tuple[int, ...]) -> bool:
    """Whether native code may read a tensor of a state, which users can replace."""
    fits = type(tensor) is Tensor and tensor.dtype is torch.int64 and tensor.shape == shape
    return fits and tensor.is_cpu and is_plain(tensor)
