"""Plans of the metrics of classification: small batches in one native call, without weights. See valor_gpu.plans."""

from __future__ import annotations

import struct

import torch

from valor_gpu import native
from valor_gpu.inputs.scores import Task
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.plans import Field, Form, Plan, native_plan

_SEEN = Field("seen", torch.int64, (2,))


def class_counts_plan(form: Form, task: Task, top_k: int) -> Plan | None:
    """The plan of the counts of classes; None if the checked path has to look at the form."""
    call = native.update_function("valor_cpu", "valor_add_class_counts_cpu", "pp")
    if call is None or not _multiclass(form, task) or (form.preds in INT_TYPES and top_k > 1):
        return None
    code, hard = _class_type(form)
    words = struct.pack("4q", code, hard, form.target_shape.numel(), top_k) + _target_words(form, task)
    return native_plan(call, words, (Field("counts", torch.float64, (4, task.classes)), _SEEN))


def _multiclass(form: Form, task: Task) -> bool:
    """Whether the form is one of scores ``[N, C]`` and classes ``[N]``, or of classes of any shape."""
    if task.kind != "multiclass" or form.target not in INT_TYPES:
        return False
    if form.preds in FLOAT_TYPES:
        return form.preds_shape == (*form.target_shape, task.classes) and len(form.target_shape) == 1
    return form.preds in INT_TYPES and form.preds_shape == form.target_shape and len(form.target_shape) > 0


def _class_type(form: Form) -> tuple[int, bool]:
    """Code of the dtype of predictions, and whether they are hard labels."""
    hard = form.preds in INT_TYPES
    return INT_TYPES[form.preds] if hard else FLOAT_TYPES[form.preds], hard


def _target_words(form: Form, task: Task) -> bytes:
    """The Target of csrc/core/targets.h without its address."""
    ignores = task.ignore_index is not None
    per_element = task.kind != "multiclass"
    return struct.pack("6q", 0, INT_TYPES[form.target], per_element, task.classes, ignores, task.ignore_index or 0)
