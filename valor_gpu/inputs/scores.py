"""Scores or hard labels with their target, to one :class:`ScoreBatch`: tasks, shapes and logits end here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_dense, check_same_device
from valor_gpu.errors import InputError
from valor_gpu.inputs.values import Values, as_values
from valor_gpu.ops.activation.op import ACTIVATIONS, decided, decision, probabilities
from valor_gpu.ops.dtypes import FLOAT_TYPES, INT_TYPES

_NO_CLASS = torch.iinfo(torch.int64).min  # what a target becomes that is no whole number: out of range everywhere


@dataclass(frozen=True)
class Task:
    """What is predicted; :meth:`of` finds it from the arguments of a metric.

    Attributes:
        kind: ``binary``, ``multiclass`` or ``multilabel``.
        classes: columns of the scores; 1 in the binary task.
        ignore_index: target value that leaves out a row (multiclass) or one element.
        activation: how scores become probabilities, see :meth:`ScoreBatch.probabilities`.
    """

    kind: str
    classes: int
    ignore_index: int | None = None
    activation: str = "auto"

    @classmethod
    def of(
        cls,
        num_classes: int | None = None,
        num_labels: int | None = None,
        ignore_index: int | None = None,
        activation: str = "auto",
    ) -> Task:
        """Multiclass with ``num_classes``, multilabel with ``num_labels``, binary with neither.

        Raises:
            InputError: both are given, ``num_classes`` is below 2, ``num_labels`` below 1, or another argument is of
                the wrong type.

        Example:
            >>> Task.of(num_labels=5)
            Task(kind='multilabel', classes=5, ignore_index=None, activation='auto')
        """
        if num_classes is not None and num_labels is not None:
            raise InputError("num_classes and num_labels exclude each other but both were given")
        for name, size, least in (("num_classes", num_classes, 2), ("num_labels", num_labels, 1)):
            if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < least):
                raise InputError(f"{name} must be an int of at least {least} but got {size!r}")
        if ignore_index is not None and (isinstance(ignore_index, bool) or not isinstance(ignore_index, int)):
            raise InputError(f"ignore_index must be an int or None but got {ignore_index!r}")
        if ignore_index is not None and not -(2**63) <= ignore_index < 2**63:
            raise InputError(f"ignore_index must fit in int64 but got {ignore_index}")
        check_choice("activation", activation, ACTIVATIONS)
        kind = "multiclass" if num_classes is not None else "multilabel" if num_labels is not None else "binary"
        return cls(kind, num_classes or num_labels or 1, ignore_index, activation)

    def config(self) -> dict[str, Any]:
        """The choices as JSON values, as a metric hands them to :class:`~valor_gpu.metric.Metric`."""
        choices = {"task": self.kind, "classes": self.classes, "ignore_index": self.ignore_index}
        return {**choices, "activation": self.activation}


@dataclass(frozen=True)
class ScoreBatch:
    """N rows of C columns; C is 1 in the binary task.

    Attributes:
        task: what the columns are.
        preds: scores ``[N, C]`` of any float dtype, or in the multiclass task maps ``[B, C, S]`` of N = B * S pixels as
            they came; or hard labels: integer ``[N]`` class indices in the multiclass task, integer ``[N, C]`` of 0
            and 1 in the others.
        target: integer ``[N]`` class indices in the multiclass task, ``[N, C]`` of 0 and 1 in the others. Values are
            not checked here: the ops do that in the same read.
        weight: float64 ``[N]`` or None.
    """

    task: Task
    preds: Tensor
    target: Tensor
    weight: Tensor | None = None

    @property
    def hard(self) -> bool:
        """Whether ``preds`` are labels and no scores."""
        return not self.preds.is_floating_point()

    @property
    def scores(self) -> Tensor:
        """The scores ``[N, C]`` as they came; those of maps are turned around.

        Raises:
            InputError: ``preds`` are hard labels.
        """
        if self.hard:
            raise InputError(f"preds must be scores of a floating dtype but got labels of {self.preds.dtype}")
        return self.preds if self.preds.ndim == 2 else _flat(self.preds)

    def probabilities(self) -> Tensor:
        """The scores ``[N, C]`` after the activation of the task, in their own dtype; nothing waits on CUDA.

        ``auto``: if any score of the batch that counts lies outside [0, 1], all of them are logits: softmax over the
        classes in the multiclass task, else the sigmoid of each (the rule of torchmetrics,
        ``normalize_logits_if_needed``). Scores whose target is ``ignore_index`` do not count. The guess fails for a
        batch of logits that all lie in [0, 1]; ``none``, ``sigmoid`` and ``softmax`` do not guess.

        Raises:
            InputError: ``preds`` are hard labels.
        """
        return self.activated(self.scores)

    def decided(self) -> tuple[Tensor, Tensor]:
        """:meth:`probabilities`, and what ``auto`` decided, see :func:`valor_gpu.ops.activation.op.decision`.

        Raises:
            InputError: ``preds`` are hard labels.
        """
        scores, how = self.scores, self.task.activation
        outside = decision(self.preds, self.target, self.task.ignore_index, how)
        return decided(scores, self.target, how, outside), outside

    def activated(self, scores: Tensor) -> Tensor:
        """``scores [M, C]`` after the activation that is that of this batch, of which they are a part.

        Raises:
            InputError: ``preds`` are hard labels.
        """
        return probabilities(self.preds, self.target, self.task.ignore_index, self.task.activation, part=scores)


def score_batch(preds: Values, target: Values, task: Task, sample_weight: Values | None = None) -> ScoreBatch:
    """Reads one batch of a classification metric. Nothing is copied unless there are further dimensions.

    Args:
        preds: a tensor, numpy array or lists of numbers. Multiclass: scores ``[N, C, ...]`` of any float dtype, or
            class indices ``[N, ...]`` of an integer dtype. Multilabel: scores, or 0 and 1 of an integer dtype,
            ``[N, L, ...]``; binary: the same, ``[N, ...]``.
        target: multiclass: class indices ``[N, ...]``; else 0 and 1 in the shape of ``preds``. Floats must be whole
            numbers.
        task: what is predicted.
        sample_weight: ``[N]``, or one weight for every row after flattening: ``[N, ...]``.

    Returns:
        The batch, further dimensions flattened; in the multilabel task they are moved before the labels.

    Raises:
        InputError: a shape, dtype or device does not fit; the message names the argument.

    Example:
        >>> batch = score_batch(torch.rand(4, 3, 8, 8), torch.zeros(4, 8, 8, dtype=torch.long), Task.of(num_classes=3))
        >>> batch.preds.shape, batch.scores.shape, batch.target.shape
        (torch.Size([4, 3, 64]), torch.Size([256, 3]), torch.Size([256]))
    """
    if not (isinstance(preds, Tensor) and isinstance(target, Tensor)):
        preds, target = as_values("preds", preds), as_values("target", target)
    for name, value in (("preds", preds), ("target", target)):
        check_dense(name, value)
        if value.dtype not in FLOAT_TYPES and value.dtype not in INT_TYPES:
            raise InputError(f"{name} must be floating point or integer but is {value.dtype}")
    check_same_device(("preds", "target"), (preds, target))
    _check_shapes(preds, target, task)
    rows = target.shape if task.kind != "multilabel" else (target.shape[0], *target.shape[2:])
    weight = None if sample_weight is None else _weights(sample_weight, tuple(rows), preds)
    target = _holding(task.ignore_index, _whole_numbers(target))
    if task.kind == "multiclass":
        preds = preds.reshape(-1) if preds.ndim == target.ndim else _maps(preds)
        target = target.reshape(-1)
    elif task.kind == "multilabel":
        preds, target = _flat(preds), _flat(target)
    else:
        preds, target = preds.reshape(-1, 1), target.reshape(-1, 1)
    return ScoreBatch(task, preds.detach(), target, weight)


def _flat(tensor: Tensor) -> Tensor:
    """``[N, C, ...]`` to ``[M, C]``."""
    return tensor if tensor.ndim == 2 else tensor.movedim(1, -1).reshape(-1, tensor.shape[1])


def _maps(tensor: Tensor) -> Tensor:
    """``[B, C, ...]`` to ``[B, C, S]``, or ``[B, C]`` as it is."""
    return tensor if tensor.ndim == 2 else tensor.reshape(*tensor.shape[:2], math.prod(tensor.shape[2:]))


def _check_shapes(preds: Tensor, target: Tensor, task: Task) -> None:
    shapes = f"but got preds {preds.dtype} {list(preds.shape)} and target {list(target.shape)}"
    if task.kind != "multiclass":
        need = "[N, ...]" if task.kind == "binary" else f"[N, {task.classes}, ...]"
        fits = preds.ndim >= 1 if task.kind == "binary" else preds.ndim >= 2 and preds.shape[1] == task.classes
        if not fits or preds.shape != target.shape:
            hint = ""
            if task.kind == "binary" and preds.ndim == target.ndim + 1:
                channels = preds.shape[1]
                hint = f"; give num_classes={channels} for scores of classes"
                hint = "; preds.squeeze(1) takes the channel of one off" if channels == 1 else hint
            raise InputError(f"preds and target must both have shape {need} in the {task.kind} task {shapes}{hint}")
        return
    if preds.is_floating_point():
        fits = preds.ndim >= 2 and preds.shape[1] == task.classes
        fits = fits and (preds.shape[0], *preds.shape[2:]) == tuple(target.shape)
    else:
        fits = preds.ndim >= 1 and preds.shape == target.shape
    if not fits:
        several = preds.is_floating_point() and preds.shape == target.shape and preds.ndim >= 2
        hint = (
            f"; give num_labels={preds.shape[1]} for several labels per sample, or target.argmax(1)" if several else ""
        )
        need = f"preds must be scores [N, {task.classes}, ...] or integer labels [N, ...] and target [N, ...]"
        raise InputError(f"{need} in the multiclass task {shapes}{hint}")


def _whole_numbers(target: Tensor) -> Tensor:
    """``target`` as integers; of a float that is no whole number, a value that no op takes."""
    if not target.is_floating_point():
        return target
    whole = target.long()
    return torch.where(whole == target, whole, _NO_CLASS)


def _holding(ignore_index: int | None, target: Tensor) -> Tensor:
    """``target``, wide enough for ``ignore_index``: to torch, -1 equals 255 of uint8."""
    if ignore_index is None or target.dtype == torch.bool:
        return target
    limits = torch.iinfo(target.dtype)
    return target if limits.min <= ignore_index <= limits.max else target.long()


def _weights(given: Values, rows: tuple[int, ...], preds: Tensor) -> Tensor:
    """float64, one for each row after flattening."""
    weight = as_values("sample_weight", given)
    check_dense("sample_weight", weight)
    check_same_device(("preds", "sample_weight"), (preds, weight))
    if weight.dtype not in FLOAT_TYPES and weight.dtype not in INT_TYPES:
        raise InputError(f"sample_weight must be floating point or integer but is {weight.dtype}")
    if tuple(weight.shape) not in (rows, rows[:1]):
        need = " or ".join(str(list(shape)) for shape in dict.fromkeys((rows[:1], rows)))
        raise InputError(f"sample_weight must have shape {need} but got {list(weight.shape)}")
    weight = weight.detach().double()
    return weight.reshape(-1, *(1,) * (len(rows) - weight.ndim), *weight.shape[1:]).expand(rows).reshape(-1)
