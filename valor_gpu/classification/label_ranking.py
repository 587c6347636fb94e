"""Coverage error, ranking average precision and ranking loss of labels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from valor_gpu.classification.plans import label_rankings_plan
from valor_gpu.classification.resampled_classes import refused_sums
from valor_gpu.classification.task_metric import TaskMetric
from valor_gpu.computed import gives_own_memory
from valor_gpu.errors import InputError
from valor_gpu.inputs.scores import Task, score_batch
from valor_gpu.inputs.values import Values
from valor_gpu.ops.score_histogram.op import histogram_of
from valor_gpu.plans import Form, Plan, Planner, pair_planner
from valor_gpu.reduce.label_ranking import label_rankings
from valor_gpu.result import Result, Signature
from valor_gpu.state import ROUNDING, State, check_elements, check_sums, summed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import TaskOptions
    from valor_gpu.stats.intervals import Bootstrap

_NOTHING = torch.zeros(0, dtype=torch.float64)
_MOST = 1 << 18  # elements of a planned batch: one core takes a third of the time that torch takes on one


@dataclass(frozen=True)
class RankingSums(State):
    """Sums over samples.

    Attributes:
        sums: float64 ``[4]``: coverage, precision and loss of :func:`valor_gpu.reduce.label_ranking.label_rankings`,
            and the samples; each times the weight of the sample.
        seen: int64 ``[3]``: samples, elements whose target is ``ignore_index``, and samples of such elements alone.
    """

    sums: Tensor = summed()
    seen: Tensor = summed()

    def check(self, rule: Task) -> None:
        """Raises :class:`InputError` unless the sums are possible for so many samples."""
        check_sums("sums", self.sums)
        check_sums("seen", self.seen)
        weight = self.sums[3] * (1 + ROUNDING)
        bounds = torch.stack((weight * rule.classes, weight, weight, weight))
        check_elements("sums", self.sums, self.sums <= bounds, "be at most that of so many samples")
        limits = self.seen[0] * torch.tensor([1, rule.classes, 1], device=self.seen.device)
        check_elements("seen", self.seen, self.seen <= limits, "count at most what the samples have")


class LabelRanking(TaskMetric[RankingSums]):
    """Base of the metrics of how scores rank the labels of a sample; they share one ``update`` in a collection.

    Args:
        num_labels: L: scores and target ``[N, L, ...]``; further positions are further samples.
        ignore_index: elements with this target are left out, as if the sample had not these labels.
    """

    update_family = "label rankings"
    plot_lower_bound = 0.0
    _marked = False  # only the order of scores counts
    _row: ClassVar[int]

    def __init__(self, num_labels: int, ignore_index: int | None = None, **kwargs: Unpack[TaskOptions]) -> None:
        if num_labels is None:
            raise InputError("num_labels must be an int of at least 1 but got None")
        task = Task.of(None, num_labels, ignore_index)
        empty = RankingSums(torch.zeros(4, dtype=torch.float64), torch.zeros(3, dtype=torch.int64))
        config = {"task": task.kind, "classes": task.classes, "ignore_index": ignore_index}
        super().__init__(task, empty, config, **kwargs)

    def _planner(self) -> Planner:
        return pair_planner(self.__dict__, ("task", "_identity"), self._plan, _MOST)

    def _plan(self, form: Form) -> Plan | None:
        return label_rankings_plan(form, self.task)

    def update(self, preds: Values, target: Values, sample_weight: Values | None = None) -> None:
        """Adds a batch.

        Args:
            preds: scores ``[N, L, ...]`` of any floating dtype; only their order counts.
            target: 0 and 1 (relevant) in the shape of ``preds``.
            sample_weight: ``[N]`` or ``[N, ...]``, one for each sample; from 0 to 1e60.

        Raises:
            InputError: naming the argument and position. On CUDA, bad values (NaN scores, other targets) are raised by
                ``compute`` instead, since ``update`` does not synchronise with the device.
        """
        batch = score_batch(preds, target, self.task, sample_weight)
        scores, ignored = batch.scores, self.task.ignore_index
        error = histogram_of(scores, batch.target, _NOTHING, ignore_index=ignored, weight=batch.weight).error
        deferred = self._raise_or_defer(error)
        counted = torch.ones_like(batch.target, dtype=torch.bool) if ignored is None else batch.target != ignored
        rankings = label_rankings(scores, batch.target == 1, counted)
        ranked = counted.any(1)
        weight = ranked.double() if batch.weight is None else torch.where(ranked, batch.weight, 0.0)
        parts = torch.stack((*rankings, torch.ones_like(weight)))
        sums = torch.where(weight > 0, parts * weight, 0.0)
        samples = torch.ones_like(ranked, dtype=torch.int64).sum()
        seen = torch.stack((samples, (~counted).sum(), samples - ranked.sum()))
        # Plans add samples in order, so running sums give their bits; there are none without samples.
        total = sums.cumsum(1)[:, -1] if len(ranked) else sums.sum(1)
        self._add(RankingSums(total, seen), deferred)

    @gives_own_memory
    def compute(self) -> Tensor:
        """Returns float32 ``[]``, NaN without samples."""
        sums = self.state().sums
        return (sums[self._row] / sums[3]).float()

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the number in float64 and the samples behind it.

        Args:
            intervals: must be None: only sums over samples are kept.

        Raises:
            InputError: ``intervals`` is given.
        """
        with self.synced_state() as state:
            sums, (samples, ignored, empty) = state.sums.tolist(), state.seen.tolist()
            name = type(self).__name__
            values = {name: sums[self._row] / sums[3] if sums[3] > 0 else math.nan}
            signature = Signature({"metric": name, **self._identity.config})
            counts = {"samples": samples, "ignored": ignored, "all_ignored": empty}
            reasons = {} if sums[3] > 0 else {name: "no sample has weight"}
        result = Result(values, signature, counts, reasons, state=lambda: refused_sums(name))
        return result if intervals is None else result.with_intervals(intervals)


class MultilabelCoverageError(LabelRanking):
    """Computes the coverage error: how many of its best labels a sample needs, on average, to have all relevant ones.

    It is the largest rank of a relevant label, where the rank of a label is the number of labels whose score is at
    least its own, and 0 for a sample without relevant labels; the best possible is the mean number of relevant labels.
    Samples of ignored elements alone are left out and counted as ``all_ignored``.

    Source: Tsoumakas, Katakis and Vlahavas, Mining multi-label data (2010); scikit-learn, ``coverage_error``.

    Example:
        >>> metric = MultilabelCoverageError(num_labels=3)
        >>> metric.update(torch.tensor([[0.75, 0.5, 1.0], [1.0, 0.2, 0.1]]), torch.tensor([[1, 0, 0], [0, 0, 1]]))
        >>> metric.compute()
        tensor(2.5000)
    """

    higher_is_better = False
    _row = 0


class MultilabelRankingAveragePrecision(LabelRanking):
    """Computes the label ranking average precision: of the labels ranked above a relevant one, how many are relevant.

    It is the mean over samples of the mean over relevant labels; a label ranks above another if its score is at least
    as high. A sample without relevant labels, or with relevant ones alone, counts 1. Samples of ignored elements alone
    are left out and counted as ``all_ignored``.

    Source: Tsoumakas, Katakis and Vlahavas, Mining multi-label data (2010); scikit-learn,
    ``label_ranking_average_precision_score``.

    Example:
        >>> metric = MultilabelRankingAveragePrecision(num_labels=3)
        >>> metric.update(torch.tensor([[0.75, 0.5, 1.0], [1.0, 0.2, 0.1]]), torch.tensor([[1, 0, 0], [0, 0, 1]]))
        >>> metric.compute()
        tensor(0.4167)
    """

    higher_is_better = True
    plot_upper_bound = 1.0
    _row = 1


class MultilabelRankingLoss(LabelRanking):
    """Computes the label ranking loss: the fraction of pairs of a relevant and another label in the wrong order.

    A pair of equal scores is in the wrong order (torchmetrics goes by the order of the labels). A sample without pairs
    counts 0. Samples of ignored elements alone are
    left out and counted as ``all_ignored``.

    Source: Tsoumakas, Katakis and Vlahavas, Mining multi-label data (2010); scikit-learn, ``label_ranking_loss``.

    Example:
        >>> metric = MultilabelRankingLoss(num_labels=3)
        >>> metric.update(torch.tensor([[0.75, 0.5, 1.0], [1.0, 0.2, 0.1]]), torch.tensor([[1, 0, 0], [0, 0, 1]]))
        >>> metric.compute()
        tensor(0.7500)
    """

    higher_is_better = False
    plot_upper_bound = 1.0
    _row = 2
