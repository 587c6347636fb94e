"""The numbers of all labels of a detection at once, over the ops of overlaps; dicts are made of them elsewhere."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.ops.overlaps.op import Overlaps, Ranked, confuse_overlaps, rank_overlaps
from valor_gpu.reduce.overlap_counts import count_outcomes
from valor_gpu.reduce.overlap_curves import average_precision, average_recall, curve_101
from valor_gpu.reduce.overlap_kinds import Kind, exact_kinds
from valor_gpu.valor.classification.curves import THRESHOLDS
from valor_gpu.valor.detection.releases import CURVES, KINDS
from valor_gpu.valor.detection.request import DetectionRequest
from valor_gpu.valor.enums import MetricType

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Counts(NamedTuple):
    """True positives, false positives and false negatives, int64 ``[C, T, S]``."""

    tp: Integers
    fp: Integers
    fn: Integers


class KindTable(NamedTuple):
    """Of one kind, by label and score threshold of the curve: how many rows, and the first of them, -1 for none."""

    counts: list[list[int]]
    rows: list[list[list[int]]]


class DetectionNumbers:
    """Numbers of labels 0 to C - 1, computed when they are asked for and once.

    Args:
        overlaps: of all label keys.
        num_labels: C.
        request: what is asked for; T are its IoU thresholds, S its score thresholds.
        groups: int64 ``[I]``, the group of each datum, negative for none; None for one group of all.
        num_groups: N; the numbers beside those that ``grouped`` names are those of one group.
    """

    def __init__(
        self, overlaps: Overlaps, num_labels: int, request: DetectionRequest, groups: Tensor | None = None,
        num_groups: int = 1,
    ) -> None:  # fmt: skip
        self.overlaps, self.num_labels, self.request = overlaps, num_labels, request
        self.groups, self.num_groups = groups, num_groups

    @cached_property
    def _ranked(self) -> Ranked:
        return rank_overlaps(self.overlaps, self.request.matching)

    @cached_property
    def _classes(self) -> Tensor:
        return torch.arange(self.num_labels, device=self.overlaps.labels.device)

    @cached_property
    def _thresholds(self) -> Tensor:
        return torch.tensor(self.request.ious, dtype=torch.float64, device=self.overlaps.labels.device)

    @cached_property
    def ground_truths(self) -> Integers:
        """Ground truths of each label, int64 ``[C]``."""
        return np.bincount(self.overlaps.gt_labels.cpu().numpy(), minlength=self.num_labels)

    @cached_property
    def predictions(self) -> Integers:
        """Detections of each label, int64 ``[C]``."""
        return np.bincount(self.overlaps.labels.cpu().numpy(), minlength=self.num_labels)

    @cached_property
    def average_precision(self) -> Floats:
        """AP of each label and IoU threshold, float64 ``[C, T]``; NaN without ground truths."""
        rules = self.request.rules
        overlaps, ranked = self._positive() if rules.positive_only else (self.overlaps, self._ranked)
        values: Floats = self._precision_of(overlaps, ranked)[0]
        if rules.positive_only:  # valor_core divides 0 by 0
            positive = np.bincount(overlaps.labels.cpu().numpy(), minlength=self.num_labels)
            values[(self.predictions > 0) & (positive == 0)] = np.nan
        return values

    def _precision_of(self, overlaps: Overlaps, ranked: Ranked) -> Floats:
        found: Floats = average_precision(
            ranked, overlaps, self._classes, self._thresholds, groups=self.groups, num_groups=self.num_groups,
            order=self.request.rules.order,
        ).cpu().numpy()  # fmt: skip
        return found

    @cached_property
    def grouped_precision(self) -> Floats:
        """AP of each group, label and IoU threshold, float64 ``[N, C, T]``; NaN without ground truths."""
        return self._precision_of(self.overlaps, self._ranked)

    def grouped_outcomes(self) -> Counts:
        """Counts of each group at the thresholds of the request, int64 ``[N, C, T, S]``."""
        found = count_outcomes(
            self._ranked, self.overlaps, self._classes, self._thresholds, self.score_levels, groups=self.groups,
            num_groups=self.num_groups,
        )  # fmt: skip
        return Counts(*(getattr(found, name).cpu().numpy() for name in Counts._fields))

    def _positive(self) -> tuple[Overlaps, Ranked]:
        """Detections of positive score."""
        kept = self.overlaps.scores > 0
        return self.overlaps.take(kept), Ranked(*(column[kept] for column in self._ranked))

    @cached_property
    def recall(self) -> Floats:
        """AR of each label at the score that is asked for, float64 ``[C]``; NaN without ground truths."""
        if self.request.rules.positive_only:
            return np.asarray(self._recall_of_any_score().mean(1))
        return self.recalls((self.request.recall_score,))[:, 0]

    def _recall_of_any_score(self) -> Floats:
        overlaps, ranked = self.overlaps, self._ranked
        found = np.empty((self.num_labels, len(self.request.ious)))
        for place, iou in enumerate(self.request.ious):
            hits = (ranked.ious >= iou) & (overlaps.scores >= self.request.recall_score)
            labels = overlaps.gt_labels[ranked.best[hits].unique()]
            found[:, place] = torch.bincount(labels, minlength=self.num_labels).cpu().numpy()
        return _ratio(found, self.ground_truths[:, None])

    def recalls(self, scores: tuple[float, ...]) -> Floats:
        """AR at other scores, float64 ``[C, S]``; NaN without ground truths.

        Args:
            scores: S thresholds.
        """
        found: Floats = self.grouped_recalls(scores)[0]
        return found

    def grouped_recalls(self, scores: tuple[float, ...]) -> Floats:
        """AR of each group, float64 ``[N, C, S]``.

        Args:
            scores: S thresholds.
        """
        found: Floats = average_recall(
            self._ranked, self.overlaps, self._classes, self._thresholds, self._least(scores), groups=self.groups,
            num_groups=self.num_groups,
        ).cpu().numpy()  # fmt: skip
        return found

    def _least(self, scores: tuple[float, ...]) -> Tensor:
        """Thresholds, but that scores which count as none reach none of them."""
        least = np.nextafter(self.request.rules.least_score, np.inf)
        wanted = torch.tensor([max(score, least) for score in scores], dtype=torch.float64)
        return wanted.to(self._thresholds.device)

    @cached_property
    def counts(self) -> Counts:
        """At the thresholds of the request."""
        return Counts(*(column[0] for column in self.grouped_outcomes()))

    @cached_property
    def score_levels(self) -> Tensor:
        """The score thresholds of the request, but that scores which count as none reach none of them."""
        return self._least(self.request.scores)

    @cached_property
    def kinds(self) -> dict[str, KindTable]:
        """Observations of DetailedPrecisionRecallCurve, by outcome and name."""
        if self.request.duplicates:
            found = exact_kinds(self.overlaps, self._ranked, self.request.curve_iou, duplicates=True)
        else:
            found = KINDS[self.request.rules.kinds](self.overlaps, self._ranked, self.request.curve_iou)
        return {name: self._listed(kind) for name, kind in found.items()}

    def _listed(self, kind: Kind) -> KindTable:
        scores = self._curve_scores
        counts = kind.counts(self._classes, scores)
        shown = min(self.request.max_examples, int(counts.max()) if counts.numel() else 0)
        return KindTable(counts.tolist(), kind.first(self._classes, scores, shown).tolist())

    @cached_property
    def _curve_scores(self) -> Tensor:
        return torch.from_numpy(THRESHOLDS).to(self._thresholds)

    def curve(self, outcome: str) -> Integers:
        """How many observations of PrecisionRecallCurve there are, int64 ``[C, S]``.

        Args:
            outcome: ``tp`` or ``fp``.
        """
        kinds = [kind for name, kind in self._curve_kinds.items() if name.partition("/")[0] == outcome]
        counts = torch.stack([kind.counts(self._classes, self._curve_scores) for kind in kinds])
        found: Integers = counts.sum(0).cpu().numpy()
        return found

    @cached_property
    def _curve_kinds(self) -> dict[str, Kind]:
        rules = self.request.rules
        detailed = rules.curve == "api" and MetricType.DetailedPrecisionRecallCurve in self.request.metrics
        find = KINDS["exact"] if detailed else CURVES[rules.curve]
        return find(self.overlaps, self._ranked, self.request.curve_iou)

    @cached_property
    def curve_points(self) -> tuple[Floats, Floats]:
        """Precision and score at the recalls 0 to 1 by 0.01, float64 ``[C, T, 101]``; 0 without ground truths."""
        order = self.request.rules.order
        found = curve_101(self._ranked, self.overlaps, self._classes, self._thresholds, order=order)
        return np.nan_to_num(found[0].cpu().numpy()), found[1].cpu().numpy()

    @cached_property
    def partners(self) -> Tensor:
        """The ground truth that each detection is paired off with at each IoU, int64 ``[T, D]``; -1 for none."""
        return confuse_overlaps(self.overlaps, self.request.ious, dissolve=self.request.rules.dissolve)


def _ratio(part: NDArray[np.generic], whole: Integers) -> Floats:
    found: Floats = np.where(whole > 0, part / np.maximum(whole, 1), np.nan)
    return found
