"""Plans of the metrics of classification: small batches in one native call, without weights. See valor_gpu.plans."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.classification import cuda_plans
from valor_gpu.classification.forms import LIGHTEST, SEEN, batch_words, has_columns, has_labels, has_scores, seen_types
from valor_gpu.inputs.scores import Task
from valor_gpu.ops.activation.op import activated
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.plans import Field, Form, Plan, Step, native_plan
from valor_gpu.reduce.reliability import bin_edges

_Call = Callable[[bytes, bytes], int]


def class_counts_plan(form: Form, task: Task, top_k: int, least: Callable[[torch.dtype], float]) -> Plan | None:
    """The plan of the counts of classes, float64 ``[4, C]``; None if the checked path has to look at the form.

    Args:
        form: what comes.
        task: what is predicted.
        top_k: multiclass: a target among so many largest scores is predicted.
        least: binary and multilabel: the number from which on scores of a dtype are positive.
    """
    if not form.on_cpu:
        return cuda_plans.class_counts_plan(form, task, top_k, least)
    call = native.update_function("valor_cpu", "valor_add_class_counts_cpu")
    fields = (Field("counts", torch.float64, (4, task.classes)), SEEN)
    if task.kind == "multiclass":
        return None if form.preds in INT_TYPES and top_k > 1 else _class_plan(call, form, task, top_k, fields)
    return _element_plan(form, task, least, False, fields)


def pairs_plan(form: Form, task: Task, least: Callable[[torch.dtype], float]) -> Plan | None:
    """The plan of a confusion matrix, float64 ``[C, C]`` or ``[L, 2, 2]``; arguments as above."""
    if not form.on_cpu:
        return cuda_plans.pairs_plan(form, task, least)
    call = native.update_function("valor_cpu", "valor_add_class_pairs_cpu")
    shape = (task.classes,) * 2 if task.kind == "multiclass" else (task.classes, 2, 2)
    fields = (Field("matrix", torch.float64, shape), SEEN)
    if task.kind == "multiclass":
        return _class_plan(call, form, task, 1, fields)
    return _element_plan(form, task, least, True, fields)


def exact_match_plan(form: Form, task: Task, least: Callable[[torch.dtype], float]) -> Plan | None:
    """The plan of samples all of whose elements are right; arguments as above."""
    call = native.update_function("valor_cpu", "valor_add_exact_match_cpu")
    multiclass = task.kind == "multiclass"
    if call is None or not (has_scores(form, task) or (has_labels(form) and (multiclass or has_columns(form, task)))):
        return None
    bound = 1.0 if multiclass or form.preds in INT_TYPES else least(form.preds)
    words = batch_words(form, task, activates=not multiclass) + struct.pack("dq", bound, form.target_shape[0])
    fields = (Field("sums", torch.float64, (2,)), Field("seen", torch.int64, (5,)))
    return native_plan(call, words, fields, activate=_activation(task))


def label_rankings_plan(form: Form, task: Task) -> Plan | None:
    """The plan of how scores rank the labels of samples; arguments as above."""
    call = native.update_function("valor_cpu", "valor_add_label_rankings_cpu")
    if call is None or not has_scores(form, task):
        return None
    fields = (Field("sums", torch.float64, (4,)), Field("seen", torch.int64, (3,)))
    return native_plan(call, batch_words(form, task, activates=False), fields)


def records_plan(form: Form, task: Task, score_dtype: torch.dtype, target_dtype: torch.dtype) -> Plan | None:
    """The plan of a state that keeps scores ``[N, C]`` and targets of these dtypes, and no weights.

    Scores have ``score_dtype`` or a narrower dtype, none of whose numbers it changes.
    """
    call = native.update_function("valor_cpu", "valor_add_records_cpu")
    if call is None or not form.on_cpu or not has_scores(form, task):
        return None
    words = batch_words(form, task, activates=False) + struct.pack(
        "2q", INT_TYPES[target_dtype], FLOAT_TYPES[score_dtype]
    )
    rows = form.target_shape if task.kind != "binary" else (form.target_shape.numel(), 1)
    scores = torch.empty((rows[0], task.classes), dtype=score_dtype)
    none, kept = torch.empty(0, dtype=torch.float64), torch.empty(rows, dtype=target_dtype)
    own, seen = seen_types(form.preds), [torch.empty(0)]  # what the last update left, mostly the same again
    plan = native_plan(call, words, (), {"scores": scores, "target": kept})

    def unweighted(base: Mapping[str, Any], preds: Tensor, target: Tensor) -> Step | None:
        weights = base["weight"]
        if weights and len(weights[-1]):  # the checked path says why not
            return None
        step = plan(base, preds, target)
        if step is None:
            return None
        if base["score_types"] is not seen[0]:
            seen[0] = torch.minimum(base["score_types"], own)
        return Step({"score_types": seen[0]}, (*step.rows, ("weight", none)))

    return unweighted


def histogram_plan(form: Form, task: Task, thresholds: Tensor) -> Plan | None:
    """The plan of counts of scores between ascending thresholds, float64 on the CPU."""
    if not form.on_cpu:
        return cuda_plans.histogram_plan(form, task, thresholds)
    call = native.update_function("valor_cpu", "valor_add_histogram_cpu")
    if call is None or not has_scores(form, task):
        return None
    bounds = thresholds.contiguous()
    words = batch_words(form, task) + struct.pack("2q", bounds.data_ptr(), len(bounds))
    shape = (2, task.classes, len(bounds) + 1)
    fields = (Field("counts", torch.float64, shape), SEEN, LIGHTEST)
    return _keeping(bounds, native_plan(call, words, fields, activate=_activation(task)))


def reliability_plan(form: Form, task: Task, n_bins: int) -> Plan | None:
    """The plan of bins of confidence."""
    call = native.update_function("valor_cpu", "valor_add_reliability_cpu")
    if call is None or not has_scores(form, task):
        return None
    wide = np.float64 if form.preds == torch.float64 and task.kind == "binary" else np.float32
    edges = torch.from_numpy(bin_edges(n_bins, wide).astype(np.float64))
    words = batch_words(form, task) + struct.pack("2q", edges.data_ptr(), n_bins)
    names = ("count", "confidence", "correct")
    fields = (*(Field(name, torch.float64, (n_bins + 1,)) for name in names), SEEN)
    return _keeping(edges, native_plan(call, words, fields, activate=_activation(task)))


def hinge_plan(form: Form, task: Task, columns: int, squared: bool) -> Plan | None:
    """The plan of hinge losses, one for each sample or one for each of its classes."""
    call = native.update_function("valor_cpu", "valor_add_hinge_cpu")
    if call is None or not has_scores(form, task):
        return None
    words = batch_words(form, task) + struct.pack("2q", columns, squared)
    fields = (Field("sums", torch.float64, (2, columns)), Field("total", torch.float64, ()), SEEN)
    return native_plan(call, words, fields, activate=_activation(task))


def _class_plan(call: _Call | None, form: Form, task: Task, top_k: int, fields: tuple[Field, ...]) -> Plan | None:
    if call is None or not (has_scores(form, task) or has_labels(form)):
        return None
    return native_plan(call, batch_words(form, task, activates=False) + struct.pack("q", top_k), fields)


def _element_plan(
    form: Form, task: Task, least: Callable[[torch.dtype], float], matrix: bool, fields: tuple[Field, ...]
) -> Plan | None:
    call = native.update_function("valor_cpu", "valor_add_element_counts_cpu")
    if call is None or not (has_scores(form, task) or (has_labels(form) and has_columns(form, task))):
        return None
    bound = 1.0 if form.preds in INT_TYPES else least(form.preds)
    return native_plan(
        call, batch_words(form, task) + struct.pack("dq", bound, matrix), fields, activate=_activation(task)
    )


def _keeping(held: Tensor, plan: Plan) -> Plan:
    """``plan``, whose words hold the address of a tensor."""

    def kept(base: Mapping[str, Any], preds: Tensor, target: Tensor, _held: Tensor = held) -> Step | None:
        return plan(base, preds, target)

    return kept


def _activation(task: Task) -> Callable[[Tensor], Tensor]:
    sigmoid = task.activation == "sigmoid" or (task.activation == "auto" and task.kind != "multiclass")
    how, columns = "sigmoid" if sigmoid else "softmax", (-1, task.classes)
    return lambda scores: activated(scores.reshape(columns), how)  # of the binary task, in one column
