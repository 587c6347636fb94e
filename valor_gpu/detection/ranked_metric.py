"""Base classes of Valor's metrics: what they all count, and the ranking that most of them start from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from valor_gpu.checks import check_choice, check_number, check_type
from valor_gpu.detection.overlap_metric import OverlapMetric
from valor_gpu.detection.overlap_state import OverlapRecords
from valor_gpu.detection.rankings import Evaluated, Ranking, classes_of, evaluated, once
from valor_gpu.errors import InputError
from valor_gpu.ops.overlaps.op import MATCHINGS, rank_overlaps
from valor_gpu.result import Result, Signature, grid_choice
from valor_gpu.stats.intervals import Bootstrap
from valor_gpu.stats.resample import Resampled, refusing

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from valor_gpu.options import MetricOptions

IOU_THRESHOLDS = tuple(x / 100 for x in range(50, 100, 5))
"""0.50, 0.55, ..., 0.95: those that Valor averages over."""

SCORE_THRESHOLDS = tuple(x / 100 for x in range(5, 100, 5))
"""0.05, 0.10, ..., 0.95: those of Valor's curves."""

NO_GROUND_TRUTH = "the label has no ground truth"
NO_GROUND_TRUTHS = "there is no ground truth"

_ARRAYS = (
    "intervals are of single numbers but a result of {name} has arrays alone: ask mAP, mAR, AP or AR, or"
    " MeanAveragePrecision, for result(intervals=...)"
)


class DetectionMetric(OverlapMetric):
    """Base class of the metrics over pairs that overlap.

    Args:
        kwargs: ``angle_unit`` and ``angle_direction`` of rotated boxes, as in :class:`MeanAveragePrecision`, and
            keyword arguments of :class:`valor_gpu.metric.Metric`.
    """

    plot_lower_bound = 0.0

    def plot(self, val: None = None, ax: Any = None) -> Any:
        """Draws :meth:`result` and returns figure and axes; collective like it.

        Args:
            val: must be left out: only what the metric holds is drawn.
            ax: matplotlib axes, or None for new ones.

        Raises:
            InputError: ``val`` is given, or results of this metric have no picture.
            MissingExtraError: matplotlib is not installed.
        """
        if val is not None:
            raise InputError(f"val must be left out: plot draws what the {type(self).__name__} holds")
        axes = self.result().plot(ax=ax)
        return axes.figure, axes

    def result(self, intervals: int | Bootstrap | None = None) -> Result:
        """Returns the numbers of ``compute`` with signature and counts.

        Args:
            intervals: also give the interval of each number: replicates of the bootstrap of images, or a
                :class:`valor_gpu.stats.Bootstrap`.
        """
        raise NotImplementedError

    def _result_of(
        self,
        images: Evaluated,
        values: Mapping[str, Any],
        choices: Mapping[str, Any],
        reasons: Mapping[str, str] | None = None,
        plotter: Callable[..., Any] | None = None,
        state: Callable[[], Resampled] | None = None,
    ) -> Result:
        """The result of ``values``, with counts; reasons of arrays without NaN are left out.

        Args:
            images: that count.
            values: numbers and arrays by name.
            choices: for the signature.
            reasons: why numbers are NaN.
            plotter: of :class:`Result`.
            state: of :class:`Result`; None: intervals are refused, since there are arrays alone.
        """
        signature = Signature({"metric": type(self).__name__, **self._geometry_choices(), **choices})
        missing = {name: text for name, text in (reasons or {}).items() if "/" in name or _has_nan(values[name])}
        kept = state or refusing(_ARRAYS.format(name=type(self).__name__))
        analysis = partial(self._analysis, images, dict(signature))
        return Result(values, signature, counts_of(images), missing, plotter, state=kept, analysis=analysis)

    def _analysis(self, images: Evaluated, choices: Mapping[str, Any]) -> Any:
        """What answers questions about the errors of images, by the matching of the metric."""
        from valor_gpu.detection.overlap_analysis import OverlapAnalysis, result_of_images

        overlaps, ids = images.overlaps, images.names.tolist()
        classes = {label: str(label) for label in classes_of(overlaps).tolist()}
        rule, part = str(choices.get("matching", MATCHINGS[0])), partial(result_of_images, self, overlaps, ids)
        return OverlapAnalysis(overlaps, ids, classes, rule, choices, part)

    def _geometry_choices(self) -> dict[str, Any]:
        config = self._identity.config
        return dict(config) if isinstance(config, Mapping) else {}


class RankedMetric(DetectionMetric):
    """Base class of the metrics over ranked detections.

    Args:
        matching: ``valor``: a detection is compared with the one ground truth of its label that has the largest IoU,
            and has no second choice. ``doc``: in order of score, a detection takes the best free ground truth of its
            label whatever the IoU, as the text of Valor's document has it. See :class:`AP`.
    """

    higher_is_better = True
    plot_upper_bound: float | None = 1.0
    _by_rank = True
    """Whether scores order the detections alone, and no number asks for their values."""

    def __init__(self, box_format: str, iou_type: str, matching: str, **kwargs: Unpack[MetricOptions]) -> None:
        check_choice("matching", matching, MATCHINGS)
        self.matching = matching
        super().__init__(box_format, iou_type, **kwargs)

    def _ranking(self, state: OverlapRecords) -> Ranking:
        images = evaluated(state)
        overlaps = images.overlaps
        ranked, classes, derived = once(
            images.derived, ("ranking", self.matching),
            lambda: (rank_overlaps(overlaps, self.matching), classes_of(overlaps), dict[Any, Any]()),
        )  # fmt: skip
        return Ranking(images, ranked, classes.clone(), derived)  # results hold the classes

    def _resampled(self, state: OverlapRecords, ranking: Ranking) -> Callable[[], Resampled]:
        """What a result of :meth:`_numbers` has as ``state``."""

        def repeated() -> Resampled:
            from valor_gpu.detection.repeated_images import repeated_images

            return repeated_images(state, ranking, self._numbers, self._by_rank)

        return repeated

    def _numbers(self, ranking: Ranking) -> dict[str, Any]:
        """Single numbers by name, those of labels in mappings."""
        raise NotImplementedError


def counts_of(images: Evaluated) -> dict[str, int]:
    """How much there was of everything."""
    overlaps = images.overlaps
    return {
        "images": len(images.names),
        "repeated_images": images.repeated,
        "ground_truths": len(overlaps.gt_labels),
        "detections": len(overlaps.labels),
        "detections_of_no_score": int((overlaps.scores <= 0).sum()),
        "overlapping_pairs": len(overlaps.ious),
    }


def by_label(classes: Tensor, values: Tensor) -> dict[str, float]:
    """Label, as text, to its number."""
    return dict(zip(map(str, classes.tolist()), values.tolist()))


def missing_labels(name: str, values: Mapping[str, float]) -> dict[str, str]:
    """The reason of each number of a mapping that does not exist for want of a ground truth."""
    return {f"{name}/{label}": NO_GROUND_TRUTH for label, number in values.items() if math.isnan(number)}


def threshold_names(prefix: str, thresholds: Sequence[float]) -> list[str]:
    """``map_50`` for 0.5, as torchmetrics has it: six digits, all of them where six would give one name twice.

    Example:
        >>> threshold_names("map", [0.5, 1 / 3]), threshold_names("map", [0.1, 0.10000001])
        (['map_50', 'map_33.3333'], ['map_10', 'map_10.000001'])
    """
    names = [f"{prefix}_{100 * threshold:.6g}" for threshold in thresholds]
    if len(set(names)) == len(names):
        return names
    return [f"{prefix}_{(100 * Decimal(repr(threshold))).normalize():f}" for threshold in thresholds]


def read_iou_thresholds(values: Sequence[float], name: str = "iou_thresholds") -> list[float]:
    """The numbers as floats; raises unless all are above 0, at most 1 and different."""
    numbers = read_thresholds(name, values)
    for number in numbers:
        if number == 0:
            raise InputError(f"{name} must be above 0 but got 0: pairs that do not overlap are no matches")
    return numbers


def read_thresholds(name: str, values: Sequence[float]) -> list[float]:
    """The numbers as floats; raises unless there is one at least, and all are different and lie in [0, 1]."""
    check_type(name, values, (list, tuple, np.ndarray))
    for value in values:
        check_number(f"a number in {name}", value, 0, 1)
    numbers = [float(value) for value in values]
    if not numbers or len(set(numbers)) < len(numbers):
        raise InputError(f"{name} must hold at least one number and no number twice but got {numbers}")
    return numbers


def reached_by(scores: Tensor, thresholds: Sequence[float]) -> Tensor:
    """Score thresholds, float64 ``[S]``, such that a float32 score reaches the threshold that it equals.

    In float32 0.9 is 0.89999998: a threshold is taken in float32 where some score equals it there.

    Args:
        scores: float64 ``[D]``, of any precision before.
        thresholds: S numbers.
    """
    exact = torch.tensor(thresholds, dtype=torch.float64, device=scores.device)
    rounded = exact.float().double()
    # Not isin, which sorts all scores to look few numbers up.
    given = torch.stack([(scores == number).any() for number in rounded])
    return torch.where(given, torch.minimum(rounded, exact), exact)


def grids(**thresholds: Sequence[float]) -> dict[str, Any]:
    """Thresholds by name as a signature shows them."""
    return {name: grid_choice(numbers) for name, numbers in thresholds.items()}


def _has_nan(value: Any) -> bool:
    return bool(np.isnan(value).any())
