"""Base class of all metrics of classification: the task, the error of a bad value, and plots."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_type
from valor_gpu.compat.torchmetrics.task_arguments import TaskType
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import Task
from valor_gpu.metric import Metric, S
from valor_gpu.ops.error_codes import Names, describe_value, raise_or_defer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions


class TaskMetric(Metric[S], metaclass=TaskType):
    """A metric of one :class:`~valor_gpu.inputs.scores.Task`. ``torch.compile(fullgraph=True)`` takes its ``update``.

    Its ``Args`` also describe what most constructors of its subclasses take.

    Args:
        task: what is predicted.
        empty: the state without data.
        config: the choices that ``update`` depends on, as JSON values.
        num_classes: C, in the multiclass task: scores ``[N, C, ...]`` or labels ``[N, ...]``, one class per sample.
        num_labels: L, in the multilabel task: scores or labels ``[N, L, ...]``. With neither, the task is binary.
        threshold: binary and multilabel: scores above it are positive, compared in their own dtype.
        ignore_index: samples (multilabel: elements) with this target are left out.
        activation: binary and multilabel: ``auto`` applies the sigmoid to each batch with a counted score outside
            [0, 1], so that another split of logits can give another number; ``sigmoid`` always does, ``none`` never.
        validate_args: has no effect: values are always checked.
        multidim_average: ``global``, for metrics that have one value for all data.

    Raises:
        InputError: an argument is out of range, or does not belong to the task; the message names it.

    Where ``update`` decides by ``activation="auto"`` whether a batch holds probabilities or logits, the last two
    numbers of the state's ``seen`` are its marks: batches taken for logits, and all that were decided about.

    Attributes:
        validate_args: True: values are always checked.
        multidim_average: ``global``: all elements count alike; ``samplewise``: a value for each sample.
    """

    traceable = True
    task: Task
    validate_args: ClassVar[bool] = True
    multidim_average: str = "global"
    takes_own_task: ClassVar[bool] = False
    """Whether ``task`` is an argument of the class itself, which no class of one task stands behind."""
    seen: Tensor
    _marked: ClassVar[bool] = True
    """Whether ``seen``, where the state has it, ends in marks."""
    _plan_methods: ClassVar[tuple[str, ...]] = ("update", "_add", "_raise_or_defer")

    def __init__(
        self,
        task: Task,
        empty: S,
        config: dict[str, Any],
        /,
        *,
        validate_args: bool = True,
        multidim_average: str = "global",
        **kwargs: Unpack[MetricOptions],
    ) -> None:
        check_type("validate_args", validate_args, bool)
        if multidim_average != "global":
            kind = type(self).__name__
            raise InputError(
                f"multidim_average must be 'global' but got {multidim_average!r}: {kind} has one value for all data"
            )
        self.__dict__.update(task=task, _state_rule=task)  # quicker than torch.nn.Module sets attributes
        super().__init__(empty, config, **kwargs)

    @property
    def num_classes(self) -> int | None:
        """C in the multiclass task, else None."""
        return self.task.classes if self.task.kind == "multiclass" else None

    @property
    def num_labels(self) -> int | None:
        """L in the multilabel task, else None."""
        return self.task.classes if self.task.kind == "multilabel" else None

    @property
    def plot_legend_name(self) -> str | None:  # type: ignore[override]
        """Word before the number of a class or label in the legend of ``plot``; None in the binary task."""
        return {"multiclass": "Class", "multilabel": "Label"}.get(self.task.kind)

    @property
    def ignore_index(self) -> int | None:
        """The target value that is left out."""
        return self.task.ignore_index

    def _check_error(self) -> None:
        super()._check_error()
        if self._may_mix:
            self._warn_of_mixed_batches()

    @property
    def _may_mix(self) -> bool:
        """Whether the state has marks and batches that may have set them."""
        return self.task.activation == "auto" and "seen" in self._merge and self._marked

    def _warn_of_mixed_batches(self) -> None:
        """Warns where some batches were taken for probabilities and others for logits."""
        logits, batches = self.seen.tolist()[-2:]
        if 0 < logits < batches:
            names = ("softmax",) if self.task.kind == "multiclass" else ("sigmoid",)
            warnings.warn(
                f"{type(self).__name__} took {logits} of {batches} batches for logits, since a score lay outside"
                f" [0, 1], and the others for probabilities, so that its number depends on the split: give"
                f" activation={names[0]!r} for logits, activation='none' for probabilities",
                UserWarning,
                stacklevel=4,
            )

    def _raise_or_defer(self, error: Tensor) -> Tensor | None:
        """Raises the error of a CPU tensor at once; on CUDA, and in a compiled program, returns it for ``_add``.

        Raises:
            InputError: the word, on the CPU, names a bad value.
        """
        return error if torch.compiler.is_compiling() else raise_or_defer(error, self._describe)

    def _draw(self, val: None, ax: Any, what: str | None = None) -> Any:
        """Draws :meth:`result`; returns figure and axes, as ``plot`` of torchmetrics does. Collective.

        Raises:
            InputError: ``val`` is given: only what the metric holds is drawn; or its result has no picture.
            MissingExtraError: matplotlib is not installed.
        """
        if val is not None:
            raise InputError(f"val must be left out: plot draws {what or f'what the {type(self).__name__} holds'}")
        axes = self.result().plot(ax=ax)
        return axes.figure, axes

    def _describe(self, error: int) -> str:
        """The place of a bad value, and what it must be."""
        return describe_value(error, Names(self.task.classes, self.task.kind != "multiclass"))

    def _describe_error(self, code: int) -> str:
        return f"{self._describe(code)} (the row is counted within its batch)"


class ProbabilityMetric(TaskMetric[S]):
    """Base of the metrics of probabilities, or of the predictions and confidences that they make.

    Args:
        num_classes: C, in the multiclass task; left out in the binary one.
        ignore_index: samples with this target are left out.
        activation: ``auto`` applies softmax or sigmoid to every batch with a counted score outside [0, 1]: another
            split of logits can give another number; ``none``, ``softmax`` and ``sigmoid`` do not guess.
    """


def check_multidim(average: str) -> str:
    """``average`` if it is ``global`` or ``samplewise``.

    Raises:
        InputError: it is neither.
    """
    check_choice("multidim_average", average, ("global", "samplewise"))
    return average
