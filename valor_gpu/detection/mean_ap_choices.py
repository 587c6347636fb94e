"""What the numbers of MeanAveragePrecision depend on beside its records, and how they are taken from these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from torch import Tensor

from valor_gpu._frozen import frozen
from valor_gpu.detection.extended import ExtendedRecords, PartRecords
from valor_gpu.detection.records import DetectionRecords
from valor_gpu.ops.accumulate.op import accumulate
from valor_gpu.ops.accumulate.types import AccumulateChoices, Accumulated, RecordShape
from valor_gpu.ops.error_codes import describe_box
from valor_gpu.ops.keypoints.coco_sigmas import COCO_SIGMAS
from valor_gpu.provenance import differences
from valor_gpu.reduce.coco_summary import CocoSummary, summary_picks
from valor_gpu.result import grid_choice


def describe_error(code: int) -> str:
    """The message of the error code of an update."""
    return f"{describe_box(code)} (the image is counted within its batch)"


def mean_ap_deviations(signature: Mapping[str, Any]) -> list[str]:
    """Returns what the signature of a result has that is not COCO's: grids, limits, mean, sigmas, order of ties."""
    keypoints = signature.get("iou_type") == "keypoints"
    usual = {
        "iou_thresholds": grid_choice(np.linspace(0.5, 0.95, 10)),
        "rec_thresholds": grid_choice(np.linspace(0.0, 1.0, 101)),
        "max_detection_thresholds": [20] if keypoints else [1, 10, 100],
        "average": "macro",
        "tie_order": "image",
        **({"sigmas": list(COCO_SIGMAS)} if keypoints else {}),
    }
    return differences({name: signature[name] for name in usual}, usual)


@lru_cache(maxsize=64)
def _accumulation(
    iou_thresholds: tuple[float, ...], limits: tuple[int, ...], areas: tuple[str, ...], recalls: tuple[float, ...],
    shape: RecordShape, *flags: Any,
) -> AccumulateChoices:  # fmt: skip
    picks = tuple(summary_picks(iou_thresholds, limits, areas).values())
    return AccumulateChoices(shape, np.array(recalls), picks, *flags)


@frozen
class MeanApChoices:
    """Choices of a metric at one moment, which no later change of the metric changes.

    Attributes:
        iou_type: names of geometries.
        iou_thresholds: T numbers.
        rec_thresholds: R numbers.
        limits: M max-detection limits, ascending.
        areas: A names of area ranges, ``all`` first.
        shape: T, A and M.
        pooled: whether classes are pooled.
        rematched: whether records of matching class by class are kept beside pooled ones.
        by_image: whether equal scores rank by the image key, not by arrival.
        config: other choices that the signature tells.
        lowest: IoU from which on pairs of any class are kept; None: none are.
    """

    iou_type: tuple[str, ...]
    iou_thresholds: Sequence[float]
    rec_thresholds: Sequence[float]
    limits: Sequence[int]
    areas: tuple[str, ...]
    shape: RecordShape
    pooled: bool
    rematched: bool
    by_image: bool
    config: Mapping[str, Any]
    lowest: float | None

    @property
    def axes(self) -> tuple[Sequence[float], Sequence[int], Sequence[str]]:
        """Thresholds, limits and areas."""
        return self.iou_thresholds, self.limits, self.areas

    def of(self, agnostic: bool, full: bool = False, ties: tuple[str, ...] = ("given",)) -> AccumulateChoices:
        """Returns the choices of an accumulation, made once."""
        grids = tuple(self.iou_thresholds), tuple(self.limits), self.areas, tuple(self.rec_thresholds)
        return _accumulation(*grids, self.shape, self.by_image, agnostic, full, ties)

    def accumulate(
        self, records: DetectionRecords, choices: AccumulateChoices, error: Tensor | None = None
    ) -> Accumulated:
        """Accumulates records; raises :class:`InputError` where ``error`` holds a code."""
        return accumulate(
            records.detections, records.ground_truths, records.images, choices, error, describe_error
        )  # fmt: skip

    def scalars(self, found: Accumulated) -> dict[str, float]:
        """Returns the scalars of :meth:`summary` without a look at the arrays."""
        return dict(zip(summary_picks(*self.axes), found.means.numpy()[0].tolist()))

    def summary(self, found: Accumulated) -> CocoSummary:
        """The numbers of what was accumulated."""
        return CocoSummary(found.curves, *self.axes, found.means.numpy()[0])

    def class_summary(self, records: DetectionRecords, pooled: CocoSummary, error: Tensor | None = None) -> CocoSummary:
        """The summary whose classes are the labels; ``pooled`` unless classes were matched on their own."""
        if self.rematched and isinstance(records, (ExtendedRecords, PartRecords)):
            return self.summary(self.accumulate(records.by_class(), self.of(False), error))
        return pooled

    def signature(self) -> dict[str, Any]:
        """Returns the choices that the signature of a result names."""
        grids = {name: grid_choice(getattr(self, name)) for name in ("iou_thresholds", "rec_thresholds")}
        tie_order = "image" if self.by_image else "arrival"
        return {"metric": "MeanAveragePrecision", **self.config, **grids, "tie_order": tie_order}
