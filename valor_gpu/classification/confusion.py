"""The confusion matrix, with examples of each cell, and the metrics that are made of it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.checks import check_choice
from valor_gpu.classification.class_counts import whole_numbers
from valor_gpu.classification.confusion_base import PairMetric
from valor_gpu.classification.examples import shown
from valor_gpu.classification.pair_counts import PairExamples
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.reduce.confusion_plot import plot_confusion
from valor_gpu.reduce.histogram_metrics import quick
from valor_gpu.reduce.ratios import NO_KAPPA, NO_MATTHEWS, Ratio, cohen_kappa, matthews, normalized
from valor_gpu.result import Result

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import PairOptions
    from valor_gpu.stats.intervals import Bootstrap

NORMALIZE = ("none", "true", "pred", "all", None)
KAPPA_WEIGHTS = {"none": 0, None: 0, "linear": 1, "quadratic": 2}


class ConfusionMatrix(PairMetric):
    """Counts how often each true class was predicted as each class; rows are true classes.

    With ``max_examples`` it also names the first samples of each cell, in order of arrival. Of equal largest scores the
    lowest class is predicted. Without data all counts are 0; a fraction 0 / 0, of a class that is never true (or never
    predicted), is 0 in ``compute`` and NaN in :meth:`result`.

    Source: scikit-learn, ``confusion_matrix`` and, for labels, ``multilabel_confusion_matrix``; with examples:
    ConfusionMatrixWithExamples of valor-lite.

    Args:
        normalize: divide by the sum of the row (``true``), of the column (``pred``) or of everything (``all``);
            ``none`` or None keeps counts.

    Example:
        >>> import torch
        >>> metric = ConfusionMatrix(num_classes=3, max_examples=2)
        >>> metric.update(torch.tensor([2, 1, 0, 1]), torch.tensor([2, 1, 0, 0]))
        >>> metric.compute()
        tensor([[1, 1, 0],
                [0, 1, 0],
                [0, 0, 1]])
        >>> metric.examples()[0, 1]
        [3]
    """

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        *,
        normalize: str | None = None,
        **kwargs: Unpack[PairOptions],
    ) -> None:
        check_choice("normalize", normalize, NORMALIZE)
        self.normalize = normalize
        super().__init__(num_classes, num_labels, **kwargs)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns counts, or float32 fractions with 0 for 0 / 0: ``[C, C]``, multilabel ``[L, 2, 2]``.

        Counts are int64; sums of weights that are no whole numbers are float64.
        """
        matrix = self._counted()
        if self.normalize not in ("none", None):
            return normalized(matrix, self.normalize).nan_to_num(0.0).float()
        counts = whole_numbers(matrix)
        return counts.clone() if counts is matrix else counts

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns ``confusion_matrix`` in float64, NaN for 0 / 0, and with ``max_examples`` an array ``examples``.

        A row of ``examples`` is true class, predicted class and name of a sample (multilabel: the label before them).

        Args:
            intervals: as of other metrics; arrays have none.
        """
        with self.synced_state() as state:
            values: dict[str, Any] = {"confusion_matrix": normalized(self._matrix(state), self.normalize).cpu().numpy()}
            if isinstance(state, PairExamples):
                values["examples"] = self._example_table(state)
            reason = "the sum that it is divided by is 0"
            result = self._result_of(state, values, {"normalize": self.normalize}, reason, plot_confusion)
        return result if intervals is None else result.with_intervals(intervals)

    def plot(self, val: None = None, ax: Any = None) -> Any:
        """Draws the matrix of :meth:`result` and returns figure and axes; collective like it.

        Args:
            val: must be left out: only what the metric holds is drawn.
            ax: matplotlib axes, or None for new ones.
        """
        return self._draw(val, ax)

    def examples(self) -> dict[tuple[int, ...], list[int]]:
        """Returns the names of the first samples by (true, predicted) class; multilabel: (label, true, predicted).

        It is collective like ``compute``.

        Raises:
            InputError: ``max_examples`` is 0.
        """
        if not self.max_examples:
            raise InputError("max_examples must be above 0 for examples but is 0")
        examples: dict[tuple[int, ...], list[int]] = {}
        with self.synced_state() as state:
            assert isinstance(state, PairExamples)
            for *cell, name in self._example_table(state).tolist():
                examples.setdefault(tuple(cell), []).append(name)
        return examples

    def _example_table(self, state: PairExamples) -> NDArray[np.int64]:
        cells, names = shown(state.picked, self.max_examples)
        return np.stack((*np.unravel_index(cells, self._matrix(state).shape), names), 1)


class MatthewsCorrCoef(PairMetric):
    """Computes the Matthews correlation of true and predicted classes, from -1 to 1; multilabel pools the labels.

    It does not exist where all samples are of one class or were predicted as one: ``compute`` gives 0 then, as
    scikit-learn does (torchmetrics gives other numbers for such binary inputs), ``result`` NaN with a reason.

    Source: Gorodkin, Computational Biology and Chemistry 28, 2004.

    Example:
        >>> import torch
        >>> metric = MatthewsCorrCoef()
        >>> metric.update(torch.tensor([0, 1, 0, 0]), torch.tensor([1, 1, 0, 0]))
        >>> metric.compute()
        tensor(0.5774)
    """

    higher_is_better = True
    plot_lower_bound = -1.0
    plot_upper_bound = 1.0

    def _ratio(self, matrix: Tensor) -> Ratio:
        return matthews(matrix.sum(0) if matrix.ndim == 3 else matrix)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the value, float32 ``[]``."""
        return self._ratio(self._counted()).value(0.0).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the value in float64 with its signature and counts.

        Args:
            intervals: also give the intervals of the numbers, from so many replicates, or by all choices of a
                bootstrap. See docs/guides/intervals.md for the numbers that have one.

        Raises:
            InputError: ``intervals`` is given, and samples have weights.
        """
        with self.synced_state() as state:
            values = {"MatthewsCorrCoef": self._number(quick(self._matrix(state)))}
            result = self._result_of(state, values, {}, NO_MATTHEWS, None)
        return result if intervals is None else result.with_intervals(intervals)

    def _number(self, matrix: Any) -> float:
        return float(self._ratio(matrix).value())


class CohenKappa(PairMetric):
    """Computes Cohen's kappa, the agreement of target and prediction beyond chance: 1 is full agreement, 0 is chance.

    It is for the binary and the multiclass task. NaN where chance agrees fully: all samples are of one class and were
    predicted as it.

    Source: Cohen, Educational and Psychological Measurement 20, 1960; with weights: Psychological Bulletin 70, 1968.

    Args:
        weights: how far apart classes i and j are: ``none`` or None all alike, ``linear`` their distance, ``quadratic``
            its square.

    Example:
        >>> import torch
        >>> metric = CohenKappa(num_classes=2)
        >>> metric.update(torch.tensor([0, 1, 0, 0]), torch.tensor([1, 1, 0, 0]))
        >>> metric.compute()
        tensor(0.5000)
    """

    higher_is_better = True
    plot_lower_bound = -1.0
    plot_upper_bound = 1.0

    def __init__(
        self, num_classes: int | None = None, *, weights: str | None = None, **kwargs: Unpack[PairOptions]
    ) -> None:
        check_choice("weights", weights, KAPPA_WEIGHTS)
        if kwargs.get("num_labels") is not None:
            raise InputError("num_labels must be left out: Cohen's kappa takes one label per sample")
        self.weights = weights
        super().__init__(num_classes, **kwargs)

    def _ratio(self, matrix: Tensor) -> Ratio:
        return cohen_kappa(matrix, KAPPA_WEIGHTS[self.weights])

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns the value, float32 ``[]``."""
        return self._ratio(self._counted()).value(math.nan).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the value in float64 with its signature and counts.

        Args:
            intervals: also give the intervals of the numbers, from so many replicates, or by all choices of a
                bootstrap. See docs/guides/intervals.md for the numbers that have one.

        Raises:
            InputError: ``intervals`` is given, and samples have weights.
        """
        with self.synced_state() as state:
            values = {"CohenKappa": self._number(quick(self._matrix(state)))}
            result = self._result_of(state, values, {"weights": self.weights}, NO_KAPPA, None)
        return result if intervals is None else result.with_intervals(intervals)

    def _number(self, matrix: Any) -> float:
        return float(self._ratio(matrix).value())
