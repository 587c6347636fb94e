"""Tests of the form of classification arguments, and the words that describe a batch to native code."""

from __future__ import annotations

import struct

import torch

from valor_gpu.inputs.scores import Task
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES
from valor_gpu.plans import Field, Form

SEEN = Field("seen", torch.int64, (4,))
LIGHTEST = Field("lightest", torch.float64, ())
UNSEEN = 127  # largest int8, which merging by the minimum never keeps

_ACTIVATIONS = {"none": 0, "auto": 1, "sigmoid": 2, "softmax": 2}  # Activation in csrc/cpu/small_batch.h


def seen_types(dtype: torch.dtype | None = None, device: torch.device | str = "cpu") -> torch.Tensor:
    """Returns ``score_types`` of a state that keeps scores: of one update, or of none.

    Args:
        dtype: in which the scores came.
        device: of the state.

    Example:
        >>> seen_types(torch.float32)
        tensor([127, 127,   0, 127], dtype=torch.int8)
    """
    marks = torch.full((len(FLOAT_TYPES),), UNSEEN, dtype=torch.int8, device=device)
    if dtype is not None:
        marks[FLOAT_TYPES[dtype]].zero_()  # no copy from the host, for which CUDA would wait
    return marks


def has_scores(form: Form, task: Task) -> bool:
    """Whether the form is one of scores, without dimensions behind the classes."""
    if form.preds not in FLOAT_TYPES or form.target not in INT_TYPES:
        return False
    if task.kind == "multiclass":
        return len(form.target_shape) == 1 and form.preds_shape == (*form.target_shape, task.classes)
    return form.preds_shape == form.target_shape and has_columns(form, task)


def has_maps(form: Form, task: Task) -> bool:
    """Whether the form is one of scores ``[B, C, ...]`` of pixels, multiclass."""
    typed = form.preds in FLOAT_TYPES and form.target in INT_TYPES and task.kind == "multiclass"
    images, pixels = form.target_shape[:1], form.target_shape[1:]
    return typed and len(pixels) > 0 and form.preds_shape == (*images, task.classes, *pixels)


def has_labels(form: Form) -> bool:
    """Whether the form is one of hard labels, of any shape."""
    same = form.preds_shape == form.target_shape and len(form.target_shape) > 0
    return same and form.preds in INT_TYPES and form.target in INT_TYPES


def has_columns(form: Form, task: Task) -> bool:
    """Whether the target has a column for each label, or in the binary task any shape."""
    shape = form.target_shape
    return len(shape) > 0 if task.kind == "binary" else len(shape) == 2 and shape[1] == task.classes


def batch_words(form: Form, task: Task, activates: bool = True) -> bytes:
    """Packs a SmallBatch of csrc/cpu/small_batch.h."""
    hard, ignores, per_element = form.preds in INT_TYPES, task.ignore_index is not None, task.kind != "multiclass"
    elements = form.target_shape.numel()
    return struct.pack(
        "10q",
        INT_TYPES[form.preds] if hard else FLOAT_TYPES[form.preds], hard,
        elements // task.classes if per_element else elements,
        _ACTIVATIONS[task.activation] if activates else 0,
        0, INT_TYPES[form.target], per_element, task.classes, ignores, task.ignore_index or 0,
    )  # fmt: skip
