"""Sums of losses of probabilities on the CPU in one native call, for the updates of batches of any size."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from valor_gpu import native
from valor_gpu.classification.forms import SEEN, batch_words, has_scores
from valor_gpu.inputs.scores import Task
from valor_gpu.ops.activation.op import has_memory
from valor_gpu.plans import MAX_ELEMENTS, Field, Form, Plan, Step, native_plan
from valor_gpu.reduce.reliability import bin_edges

LARGEST = sys.maxsize
"""Most elements of a batch that a plan takes: it uses all cores."""

_THREADED = 1 << 16  # elements from which on a batch is worth two threads


class LossRule(NamedTuple):
    """Says which losses are summed, and between which limits.

    Attributes:
        n_bins: squared errors, and sums over so many bins of probability; 0: logarithms.
        lowest: the least that a logarithm is taken for.
        highest: the most.
        keeps: whether the loss and the target of every row are kept as well.
    """

    n_bins: int
    lowest: float = 0.0
    highest: float = math.inf
    keeps: bool = False


def loss_plan(form: Form, task: Task, rule: LossRule) -> Plan | None:
    """The plan of sums of losses, without weights; None if the checked path has to look at the form.

    Args:
        form: what comes.
        task: what is predicted.
        rule: what is summed.
    """
    elements = form.preds_shape.numel()
    if not has_scores(form, task) or (rule.keeps and elements > MAX_ELEMENTS):  # a plan holds rows as templates
        return None
    return _plan(form, task, rule)


def row_losses(
    scores: Tensor, target: Tensor, weight: Tensor | None, task: Task, rule: LossRule, fields: Mapping[str, Tensor]
) -> Step | None:
    """Adds a batch that has been checked to the fields of a state; None where the library cannot read it.

    Args:
        scores: floating ``[N, C]``.
        target: integer ``[N]``.
        weight: float64 ``[N]``, or None.
        task: its activation is ``none``, or one that has been decided.
        rule: what is summed.
        fields: of the state without data.
    """
    held = [each.contiguous() for each in (scores, target, weight) if each is not None]
    if not scores.is_cpu or not all(len(each) and has_memory(each) for each in held):
        return None
    if task.kind == "binary":
        held[0] = held[0].reshape(-1)
    form = Form(held[0].dtype, held[0].shape, held[1].dtype, held[1].shape)
    plan = _plan(form, task, rule, held[2] if weight is not None else None)
    return None if plan is None else plan(fields, held[0], held[1])


def _plan(form: Form, task: Task, rule: LossRule, weight: Tensor | None = None) -> Plan | None:
    function = native.update_function("valor_cpu", "valor_add_row_losses_cpu")
    if function is None:
        return None
    cells, rows = rule.n_bins + 1, form.target_shape.numel()
    wide = np.float64 if form.preds == torch.float64 else np.float32
    edges = torch.from_numpy(bin_edges(max(rule.n_bins, 1), wide).astype(np.float64))
    words = batch_words(form, task) + struct.pack(
        "q2d3q", rule.n_bins > 0, rule.lowest, rule.highest, edges.data_ptr(), rule.n_bins,
        0 if weight is None else weight.data_ptr(),
    )  # fmt: skip
    fields = [Field("sums", torch.float64, (4,)), SEEN]
    if rule.n_bins:
        fields.append(Field("bins", torch.float64, (3, task.classes, cells)))
    kept = {}
    if rule.keeps:
        kept = {"losses": torch.empty(rows, dtype=torch.float64), "target": torch.empty(rows, dtype=torch.int64)}
    alone = struct.pack("2q", 1, rule.keeps)
    threaded = form.preds_shape.numel() >= _THREADED

    def call(given: bytes, addresses: bytes) -> int:
        rest = struct.pack("2q", torch.get_num_threads(), rule.keeps) if threaded else alone
        return function(given + rest, addresses)

    plan = native_plan(call, words, fields, kept)

    held = (edges, weight)  # whose addresses the words hold

    def holding(base: Mapping[str, Tensor], preds: Tensor, target: Tensor, _held: object = held) -> Step | None:
        return plan(base, preds, target)

    return holding
