"""Plans of the metrics of classification for CUDA tensors: one native call that clears, counts and merges."""

from __future__ import annotations

import struct

import torch

from valor_gpu import native
from valor_gpu.classification.plans import SEEN, batch_words, has_labels, has_scores
from valor_gpu.cuda_plans import Call, cuda_plan
from valor_gpu.inputs.scores import Task
from valor_gpu.ops.dtypes import INT_TYPES
from valor_gpu.plans import Field, Form, Plan

_BATCH_WORDS = 8  # kSize of BatchWords in csrc/cuda/updates.h


def class_counts_plan(form: Form, task: Task, top_k: int) -> Plan | None:
    """The plan of the counts of classes, float64 ``[4, C]``; None if the checked path has to look at the form.

    Args:
        form: what comes.
        task: what is predicted.
        top_k: multiclass: a target among so many largest scores is predicted.
    """
    if task.kind != "multiclass" or (form.preds in INT_TYPES and top_k > 1):
        return None
    call = native.update_function("valor_cuda", "valor_add_class_counts_cuda", "pp")
    return _class_plan(call, form, task, top_k, Field("counts", torch.float64, (4, task.classes)), 3 * task.classes)


def _class_plan(call: Call | None, form: Form, task: Task, top_k: int, table: Field, counts: int) -> Plan | None:
    """A plan of so many counts, which end in ``table``."""
    if not (has_scores(form, task) or has_labels(form)):
        return None
    rows = form.target_shape.numel()
    scratch = _BATCH_WORDS + counts + (0 if form.preds in INT_TYPES else -(-rows // 2))  # predicted classes are int32
    words = batch_words(form, task, activates=False) + struct.pack("2q", top_k, scratch)
    return cuda_plan(call, words, (table, SEEN), scratch)
