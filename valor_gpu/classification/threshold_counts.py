"""Counts at score thresholds, as in Valor's PrecisionRecallCurve and Counts, and Valor's detailed curve.

Valor: docs/metrics.md (MIT) and valor_core; docs/valor.md says where its code and its document differ. The dicts of its
curves are made by :mod:`valor_gpu.valor.result_curves`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from valor_gpu.checks import check_type
from valor_gpu.classification.score_metric import Histogram, ScoreMetric, ScoreRecords
from valor_gpu.classification.softmax_errors import check_ranked
from valor_gpu.classification.threshold_grid import threshold_grid
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import Task
from valor_gpu.ops.labels.op import first_in_cells
from valor_gpu.ops.score_histogram.op import score_histogram
from valor_gpu.ops.targets.op import read_target
from valor_gpu.reduce import ratios
from valor_gpu.reduce.histogram_metrics import CountsAtThresholds, threshold_counts
from valor_gpu.reduce.ratios import Outcomes
from valor_gpu.result import Result, grid_choice
from valor_gpu.stats.counts import ResampledCounts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap

VALOR_THRESHOLDS = tuple(x / 100 for x in range(5, 100, 5))
"""0.05, 0.10, ..., 0.95: the score thresholds of Valor's curves."""

KINDS = ("tp/all", "tn/all", "fp/misclassifications", "fn/misclassifications", "fn/no_predictions")
"""What a sample can be to a class at a threshold, in Valor's words."""

_TP, _TN, _FP, _CONFUSED, _NONE = range(len(KINDS))


def count_ratios(counts: CountsAtThresholds) -> dict[str, Tensor]:
    """``precision``, ``recall``, ``accuracy`` and ``f1_score`` at thresholds, float64, NaN where 0 is divided by 0.

    Example:
        >>> counts = threshold_counts(torch.tensor([[0, 1, 0, 1], [1, 1, 1, 1]]))
        >>> {name: [round(n, 2) for n in numbers.tolist()] for name, numbers in count_ratios(counts).items()}
        {'precision': [0.67, 0.5, 1.0], 'recall': [1.0, 0.5, 0.5], 'accuracy': [0.75, 0.5, 0.75], \
'f1_score': [0.8, 0.5, 0.67]}
    """
    tp, fp, fn, tn = counts
    outcomes = Outcomes(tp, tp + fp, tp + fn, tp + fp + fn + tn)
    functions = {"precision": ratios.precision, "recall": ratios.recall, "accuracy": ratios.agreement}
    return {name: f(outcomes).value() for name, f in functions.items()} | {"f1_score": ratios.f_beta(outcomes).value()}


class Detailed(NamedTuple):
    """Outcomes of every class at every threshold by kind, with samples to look at.

    Attributes:
        counts: int64 ``[5, C, T]``, in the order of ``KINDS``.
        examples: int64 ``[5, C, T, k]``, the first rows of each, -1 where there are fewer.
        error: int64 ``[]``, see :mod:`valor_gpu.ops.error_codes`.
    """

    counts: Tensor
    examples: Tensor
    error: Tensor


def detailed_counts(
    scores: Tensor, target: Tensor, thresholds: Tensor, *, ignore_index: int | None = None, max_examples: int = 1
) -> Detailed:
    """Of every class and threshold: right and wrong samples, why they are wrong, and the first of each.

    A sample whose score of a class reaches the threshold (``score >= t``) is one of its ``tp`` or ``fp``, else of its
    ``tn`` or ``fn``; a false negative is a misclassification if another score of the sample reaches the threshold, and
    else has no prediction. A score of -inf stands for a class that was not predicted.

    Args:
        scores: floating ``[N, C]``.
        target: integers ``[N]`` class indices, or ``[N, C]`` of 0 and 1.
        thresholds: float64 ``[T]``, ascending.
        ignore_index: target value that leaves out a row, or one element of ``[N, C]``.
        max_examples: k, examples to keep of each kind, class and threshold.

    Returns:
        Counts and examples on the device of ``scores``. For the examples, the scores are read once per threshold.

    Example:
        >>> scores = torch.tensor([[0.75, 0.25], [0.5, 0.25], [0.25, 0.75]])
        >>> result = detailed_counts(scores, torch.tensor([0, 1, 0]), torch.tensor([0.4, 0.6]).double())
        >>> dict(zip(KINDS, result.counts[:, 0].tolist()))
        {'tp/all': [1, 1], 'tn/all': [0, 1], 'fp/misclassifications': [1, 0], 'fn/misclassifications': [1, 1], \
'fn/no_predictions': [0, 0]}
        >>> result.examples[:, 0, 0, 0].tolist()
        [0, -1, 1, 2, -1]
    """
    if ignore_index is not None and target.ndim == 2:
        scores = torch.where(target == ignore_index, -math.inf, scores)  # no reason for another label to be missed
    result = score_histogram(scores, target, thresholds, ignore_index=ignore_index)
    tp, fp, fn, tn = (part.long() for part in threshold_counts(result.histogram))
    best = scores.amax(1, keepdim=True).expand(scores.shape) if len(scores) else scores
    none = threshold_counts(score_histogram(best, target, thresholds, ignore_index=ignore_index).histogram)[2].long()
    counts = torch.stack((tp, tn, fp, fn - none, none))
    return Detailed(counts, _examples(scores, target, thresholds, ignore_index, max_examples), result.error)


def _examples(
    scores: Tensor, target: Tensor, thresholds: Tensor, ignore_index: int | None, max_examples: int
) -> Tensor:
    """int64 ``[5, C, T, k]``."""
    classes = scores.shape[1]
    labels = read_target(target, classes, ignore_index)
    columns = torch.arange(classes, device=scores.device)
    counted = labels.kept if target.ndim == 2 else labels.kept[:, None]
    positive = labels.values == 1 if target.ndim == 2 else labels.values[:, None] == columns
    reached = torch.bucketize(scores.double().contiguous(), thresholds.to(scores.device), out_int32=True, right=True)
    max_reached = reached.amax(1, keepdim=True) if len(reached) else reached
    examples = []
    for t in range(len(thresholds)):
        missed = torch.where(max_reached > t, _CONFUSED, _NONE)
        kind = torch.where(reached > t, torch.where(positive, _TP, _FP), torch.where(positive, missed, _TN))
        cells = torch.where(counted, kind * classes + columns, -1)
        rows = first_in_cells(cells.reshape(-1), len(KINDS) * classes, max_examples)
        examples.append(torch.where(rows < 0, rows, rows // classes).reshape(len(KINDS), classes, max_examples))
    return torch.stack(examples, 2)


class ThresholdCounts(ScoreMetric):
    """Counts tp, fp, fn and tn of every class at score thresholds (``score >= t``), and computes their ratios.

    These are the numbers of Valor's PrecisionRecallCurve and, with ``hardmax``, of its Counts. Every class is a binary
    problem by itself, whose positives are the samples with it as target. With ``hardmax`` only the largest score of a
    sample can reach a threshold; a target that does not is a false negative. A ratio 0 / 0 is NaN (precision where no
    score reaches the threshold, recall without positives). Valor's curve, which has -1 there, is made by
    ``valor_gpu.valor.threshold_curve`` from the result.

    Source: Valor, docs/metrics.md, Precision-Recall Curves.

    Args:
        thresholds: ascending numbers, by default 0.05, 0.10, ..., 0.95; or an int of at least 2: thresholds evenly
            spaced from 0 to 1.
        score_dtype: scores of a wider dtype are rounded to it, thresholds too, so that equal numbers stay equal. Half
            precision scores stay half in a wider one: of those, 0.1 (0.09998) does not reach a threshold of 0.1.

    Example:
        >>> metric = ThresholdCounts(num_classes=2, thresholds=[0.4, 0.6])
        >>> metric.update(torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1, 0]))
        >>> result = metric.compute()
        >>> result["tp"].tolist(), result["fn"].tolist(), result["precision"].tolist()
        ([[1.0, 1.0], [1.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]], [[0.5, 1.0], [0.5, 0.0]])
    """

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        thresholds: int | ArrayLike | Tensor = VALOR_THRESHOLDS,
        hardmax: bool = False,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        check_type("hardmax", hardmax, bool)
        if hardmax and num_classes is None:
            raise InputError("hardmax needs num_classes")
        task = Task.of(num_classes, num_labels, ignore_index, activation)
        super().__init__(task, thresholds, None, score_dtype, hardmax, **kwargs)

    def compute(self) -> dict[str, Tensor]:
        """Returns float64 ``tp``, ``fp``, ``fn``, ``tn``, ``precision``, ``recall``, ``accuracy`` and ``f1_score``.

        Shapes are ``[C, T]``, in the binary task ``[T]``; NaN where 0 is divided by 0.
        """
        return self._values(self.state())

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the arrays of ``compute`` with ``thresholds``, signature and counts.

        Args:
            intervals: as of other metrics; arrays have none.
        """
        with self.synced_state() as state:
            values = {name: part.cpu().numpy() for name, part in self._values(state).items()}
            missing = [name for name, part in values.items() if np.isnan(part).any()]
            values["thresholds"] = np.asarray(self.levels)
            reasons = dict.fromkeys(missing, "0 is divided by 0 at these thresholds")
            counts = self._counts(state)
            rows = ResampledCounts(np.array([[counts["samples"]]]), None)
            result = Result(values, self._signature(), counts, reasons, state=rows)
        return result if intervals is None else result.with_intervals(intervals)

    def _values(self, state: Histogram) -> dict[str, Tensor]:
        counts = threshold_counts(state.counts)
        values = {**counts._asdict(), **count_ratios(counts)}
        return {name: part[0] for name, part in values.items()} if self.task.kind == "binary" else values


class DetailedPrecisionRecallCurve(ScoreMetric):
    """Counts correct and wrong samples of every class and threshold by cause, with examples, as Valor's curve does.

    False negatives have two causes: a misclassification, where another class reaches the threshold, or no prediction.
    The scores of all samples are kept, and shared with exact ROC AUC and curves in a collection. A score that equals a
    threshold reaches it. In the binary task there is no other class, so that every false negative has no prediction.
    Kinds without samples count 0 and have no example. ``valor_gpu.valor.detailed_curve`` makes Valor's dict.

    Source: Valor, docs/metrics.md, DetailedPrecisionRecallCurve.

    Args:
        thresholds: as in :class:`ThresholdCounts`: ascending numbers, or how many evenly spaced ones from 0 to 1, at
            least 2; by default 0.05, 0.10, ..., 0.95.
        max_examples: how many examples to give of each kind, class and threshold: the first in order of updates (and of
            ranks), by their running index.
        score_dtype: dtype in which scores are kept, and to which thresholds are rounded; scores of float64 that float32
            would change need ``torch.float64``.

    Raises:
        InputError: an argument is out of range; the message names it. ``compute`` raises it for data with weights.

    Example:
        >>> metric = DetailedPrecisionRecallCurve(num_classes=2, thresholds=[0.4, 0.6])
        >>> metric.update(torch.tensor([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]), torch.tensor([0, 1, 0]))
        >>> curve = metric.compute()
        >>> curve["fn/misclassifications"].tolist(), curve["fn/misclassifications/examples"][0, 1].tolist()
        ([[1, 1], [0, 0]], [2])
    """

    def __init__(
        self,
        num_classes: int | None = None,
        num_labels: int | None = None,
        thresholds: int | ArrayLike | Tensor = VALOR_THRESHOLDS,
        max_examples: int = 1,
        ignore_index: int | None = None,
        activation: str = "auto",
        score_dtype: torch.dtype = torch.float32,
        **kwargs: Unpack[TaskOptions],
    ) -> None:
        if isinstance(max_examples, bool) or not isinstance(max_examples, int) or max_examples < 0:
            raise InputError(f"max_examples must be an int of at least 0 but got {max_examples!r}")
        task = Task.of(num_classes, num_labels, ignore_index, activation)
        super().__init__(task, None, None, score_dtype, False, **kwargs)
        self.levels, self._limits = threshold_grid(thresholds, score_dtype)
        self.max_examples = max_examples

    def compute(self) -> dict[str, Tensor]:
        """Returns int64 counts ``[C, T]`` of each kind, and example indices ``[C, T, k]``, -1 for none.

        Kinds are ``tp/all``, ``tn/all``, ``fp/misclassifications``, ``fn/misclassifications`` and
        ``fn/no_predictions``; the examples of ``tp/all`` are ``tp/all/examples``. An index counts samples in the order
        of updates.
        """
        return self._values(self._detailed(self.state()))

    def plot(self, val: None = None, ax: Any = None) -> Any:
        """Raises :class:`InputError`: counts by kind at every threshold have no picture.

        Args:
            val: must be left out.
            ax: matplotlib axes.
        """
        return self._draw(val, ax)

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the arrays of ``compute`` with ``thresholds``, signature and counts.

        Args:
            intervals: as of other metrics; arrays have none.
        """
        with self.synced_state() as state:
            arrays = {name: part.cpu().numpy() for name, part in self._values(self._detailed(state)).items()}
            signature = self._signature(thresholds=grid_choice(self.levels), max_examples=self.max_examples)
            counts = self._counts(state)
            rows = ResampledCounts(np.array([[counts["samples"]]]), None)
            result = Result({**arrays, "thresholds": np.asarray(self.levels)}, signature, counts, state=rows)
        return result if intervals is None else result.with_intervals(intervals)

    def _detailed(self, state: ScoreRecords) -> Detailed:
        if len(state.weight):
            raise InputError("sample_weight must be left out where examples are counted")
        result = detailed_counts(
            self._probabilities(state), state.target, self._limits,
            ignore_index=self.task.ignore_index, max_examples=self.max_examples,
        )  # fmt: skip
        check_ranked(result.error)
        return result

    def _values(self, detailed: Detailed) -> dict[str, Tensor]:
        examples = {f"{kind}/examples": rows for kind, rows in zip(KINDS, detailed.examples)}
        return {**dict(zip(KINDS, detailed.counts)), **examples}
