"""Plans of the metrics of classification for CUDA tensors: one native call that clears, counts and merges."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.classification.forms import LIGHTEST, SEEN, batch_words, has_columns, has_labels, has_maps, has_scores
from valor_gpu.cuda_plans import Call, cuda_plan
from valor_gpu.inputs.scores import Task
from valor_gpu.ops._library import disabled
from valor_gpu.ops.activation.cuda import READINGS
from valor_gpu.ops.dtypes import INT_TYPES
from valor_gpu.ops.score_histogram.op import tables_on
from valor_gpu.plans import Field, Form, Plan, Step

_BATCH_WORDS = 8  # kSize of BatchWords in csrc/cuda/updates.h


def class_counts_plan(form: Form, task: Task, top_k: int, least: Callable[[torch.dtype], float]) -> Plan | None:
    """Returns the plan of class counts, float64 ``[4, C]``; None if the checked path has to look at the form.

    Args:
        form: of the arguments of ``update``.
        task: of the metric.
        top_k: multiclass: a target among so many largest scores is predicted.
        least: binary and multilabel: the number from which on scores of a dtype are positive.
    """
    table = Field("counts", torch.float64, (4, task.classes))
    if task.kind != "multiclass":
        return _element_plan(form, task, least, table, False)
    if form.preds in INT_TYPES and top_k > 1:
        return None
    call = native.update_function("valor_cuda", "valor_add_class_counts_cuda", "pp")
    return _class_plan(call, form, task, top_k, table, 3 * task.classes, ("count_labels", "count_top"))


def pairs_plan(form: Form, task: Task, least: Callable[[torch.dtype], float]) -> Plan | None:
    """Returns the plan of a confusion matrix, float64 ``[C, C]`` or ``[L, 2, 2]``; arguments as above."""
    if task.kind != "multiclass":
        table = Field("matrix", torch.float64, (task.classes, 2, 2))
        return _element_plan(form, task, least, table, True)
    call = native.update_function("valor_cuda", "valor_add_class_pairs_cuda", "pp")
    table = Field("matrix", torch.float64, (task.classes, task.classes))
    return _class_plan(call, form, task, 1, table, task.classes**2, ("count_pairs", "confuse_scores"))


def histogram_plan(form: Form, task: Task, thresholds: Tensor) -> Plan | None:
    """Returns the plan of a score histogram at ascending thresholds, float64 on the CPU."""
    call = native.update_function("valor_cuda", "valor_add_histogram_cuda", "pp")
    if call is None or disabled("score_histogram") or not has_scores(form, task):
        return None
    table = Field("counts", torch.float64, (2, task.classes, len(thresholds) + 1))
    return _threshold_plan(call, form, task, thresholds, (table, SEEN, LIGHTEST), False)


def _class_plan(
    call: Call | None, form: Form, task: Task, top_k: int, table: Field, counts: int, ops: tuple[str, str]
) -> Plan | None:
    """Returns the plan of ``counts`` numbers for ``table``; ``ops`` are the op of labels and that of scores."""
    maps = has_maps(form, task) and top_k == 1
    if call is None or not (maps or has_scores(form, task) or has_labels(form)):
        return None
    hard = form.preds in INT_TYPES
    if any(map(disabled, ("predict_maps", ops[0]) if maps else ops[:1] if hard else ops)):
        return None
    pixels = form.target_shape[1:].numel() if maps else 0
    rows = form.target_shape.numel()
    scratch = _BATCH_WORDS + counts + (0 if hard else -(-rows // 2))  # predicted classes are int32
    words = batch_words(form, task, activates=False) + struct.pack("3q", top_k, pixels, scratch)
    return cuda_plan(call, words, (table, SEEN), scratch)


def _element_plan(
    form: Form, task: Task, least: Callable[[torch.dtype], float], table: Field, matrices: bool
) -> Plan | None:
    call = native.update_function("valor_cuda", "valor_add_element_counts_cuda", "pp")
    if (
        call is None
        or disabled("score_histogram")
        or not (has_scores(form, task) or (has_labels(form) and has_columns(form, task)))
    ):
        return None
    bound = 1.0 if form.preds in INT_TYPES else least(form.preds)
    return _threshold_plan(call, form, task, torch.tensor([bound], dtype=torch.float64), (table, SEEN), matrices)


def _threshold_plan(
    call: Call, form: Form, task: Task, thresholds: Tensor, fields: tuple[Field, ...], matrices: bool
) -> Plan | None:
    """Returns the plan that counts scores, or labels as scores, at thresholds; None if no kernel activates them."""
    hard, per_class = form.preds in INT_TYPES, task.kind == "multiclass"
    usual = "softmax" if per_class else "sigmoid"
    how = "none" if hard else usual if task.activation == "auto" else task.activation
    if how != "none" and (form.preds == torch.float64 or how != usual):
        return None
    assert form.device is not None
    numbers, tables = tables_on(thresholds, form.preds == torch.float64, form.device)
    rows = form.target_shape.numel() // (1 if per_class else task.classes)
    scratch = _BATCH_WORDS + 2 * task.classes * (len(thresholds) + 1)
    scratch += -(-rows * task.classes // 2) if hard else 0  # labels as float32
    scratch += rows + 1 if how == "softmax" else 0  # its shares: two float32 each
    scratch += -(-rows // 8) if per_class else 0  # flags: a byte each
    words = batch_words(form, task) + struct.pack(
        "7q", len(thresholds), tables.data_ptr(), numbers.ctypes.data, READINGS[how],
        how != "none" and task.activation == "auto", matrices, scratch,
    )  # fmt: skip
    plan = cuda_plan(call, words, fields, scratch)

    def kept(base: Mapping[str, Any], preds: Tensor, target: Tensor, _held: Any = (numbers, tables)) -> Step | None:
        return plan(base, preds, target)

    return kept
