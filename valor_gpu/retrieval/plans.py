"""Batches of scored documents, and states of them in narrow types, in one native call. See :mod:`valor_gpu.plans`."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.inputs.documents import DocumentRule
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.ops.queries.cpu import FLOAT_TARGET
from valor_gpu.plans import Planner, Step, is_plain

_ARGUMENTS = ("preds", "target", "indexes")
_TARGET_TYPES = INT_TYPES | {dtype: FLOAT_TARGET + code for dtype, code in FLOAT_TYPES.items()}
_INDEX_TYPES = {dtype: code for dtype, code in INT_TYPES.items() if dtype != torch.bool}
_MOST_MARK = 128  # every integer up to it is a number of every type of targets but bool, uint8 and int8

_ONE_THREAD = 1 << 15  # rows below which native code takes no second thread, kLeastSlice there
LEAST_NARROWED = 512
"""Documents from which narrow types save more than it takes to make them."""

_PLAN = struct.Struct("6q2d").pack
_CALL = struct.Struct("8Q").pack
_NARROW = struct.Struct("7Q").pack
_address, _new = Tensor.data_ptr, torch.empty


def documents_planner(state: dict[str, Any]) -> Planner:
    """The planner of ``update(preds, target, indexes)`` for batches of any size on the CPU.

    Args:
        state: ``__dict__`` of the metric.
    """
    call = native.update_function("valor_cpu", "valor_add_documents_cpu")
    rule: DocumentRule = state["_state_rule"]
    plans: dict[tuple[torch.dtype, ...], bytes | None] = {}
    # Methods of a tensor take two thirds of the time of torch.empty with a dtype.
    new_scores, new_indexes = (torch.empty(0, dtype=dtype).new_empty for dtype in (torch.float64, torch.int64))

    def step(base: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Step | None:
        if kwargs or len(args) != 3:
            args = _named(args, kwargs)
        preds, target, indexes = args
        if not (type(preds) is type(target) is type(indexes) is Tensor) or call is None:
            return None
        form = preds.dtype, target.dtype, indexes.dtype
        try:
            words = plans[form]
        except KeyError:
            words = plans[form] = _words(form, rule)
        if words is None or state["_state_rule"] is not rule or not base["error"].is_cpu:
            return None
        read = _addresses(preds, target, indexes)
        if read is None:
            return None
        rows = preds.numel()
        scores, grades, where = new_scores(rows), new_scores(rows), new_indexes(rows)
        threads = 1 if rows < _ONE_THREAD else torch.get_num_threads()
        if call(words, _CALL(rows, threads, *read, _address(scores), _address(grades), _address(where))):
            return None
        return Step({}, (("indexes", where), ("preds", scores), ("target", grades)))

    return step


def _addresses(preds: Tensor, target: Tensor, indexes: Tensor) -> tuple[int, int, int] | None:
    """Where the values lie; None where native code cannot read them as they are, or there are none."""
    shape = preds.shape
    if not shape or shape != target.shape or shape != indexes.shape:
        return None
    if not (preds.is_cpu and target.is_cpu and indexes.is_cpu):
        return None
    if not (is_plain(preds) and is_plain(target) and is_plain(indexes)):
        return None
    try:
        found = _address(preds), _address(target), _address(indexes)
    except RuntimeError:  # a tensor of torch.func without memory of its own
        return None
    return found if all(found) else None


def _named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The arguments however they were given; None three times where there is anything else."""
    given = {**dict(zip(_ARGUMENTS, args)), **kwargs}
    if len(given) != len(args) + len(kwargs) or given.keys() != {*_ARGUMENTS}:
        return None, None, None
    return given["preds"], given["target"], given["indexes"]


def _words(form: tuple[torch.dtype, ...], rule: DocumentRule) -> bytes | None:
    """A DocumentsPlan of csrc/cpu/documents.cpp; None if the checked path has to look at these dtypes."""
    preds, target, indexes = form
    if preds not in FLOAT_TYPES or target not in _TARGET_TYPES or indexes not in _INDEX_TYPES:
        return None
    marks = [rule.ignore_index, rule.unjudged_index]
    least, most = (0, 1) if target == torch.bool else _ends(target)
    if any(mark is not None and not least <= mark <= most for mark in marks):
        return None
    types = FLOAT_TYPES[preds], _TARGET_TYPES[target], _INDEX_TYPES[indexes]
    held = [mark is not None for mark in marks]
    return _PLAN(*types, rule.graded, *held, *(float(mark or 0) for mark in marks))


def _ends(dtype: torch.dtype) -> tuple[int, int]:
    """The least and largest index that a plan takes: comparisons of torch round or wrap others."""
    if dtype.is_floating_point:
        return -_MOST_MARK, _MOST_MARK
    info = torch.iinfo(dtype)
    return max(info.min, -_MOST_MARK), min(info.max, _MOST_MARK)


def narrowed(preds: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Returns scores as float32 and targets as int8 where no number changes, which halves what a ranking reads.

    Args:
        preds: float64 ``[N]``, without NaN.
        target: float64 ``[N]``, likewise.
    """
    if len(preds) < LEAST_NARROWED:
        return preds, target
    call = native.update_function("valor_cpu", "valor_narrow_documents_cpu")
    dense = is_plain(preds) and is_plain(target)
    if call is None or not (preds.is_cpu and target.is_cpu and dense):
        scores, grades = preds.float(), target.to(torch.int8)
        # In one tensor, so that the host waits once for a GPU.
        same_scores, same_grades = torch.stack(((scores == preds).all(), (grades == target).all())).tolist()
        return scores if same_scores else preds, grades if same_grades else target
    scores, grades = _new(len(preds), dtype=torch.float32), _new(len(preds), dtype=torch.int8)
    lossless = _new(2, dtype=torch.int64)
    addresses = (_address(tensor) for tensor in (preds, target, scores, grades, lossless))
    if call(b"", _NARROW(len(preds), torch.get_num_threads(), *addresses)):
        return preds, target
    same_scores, same_grades = lossless.tolist()
    return scores if same_scores else preds, grades if same_grades else target
