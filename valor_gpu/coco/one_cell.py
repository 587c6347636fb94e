"""A single (image, category) cell from annotation objects, as subclasses of COCOeval reach it. No torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.params import half_open
from valor_gpu.errors import InputError

Annotation = dict[str, Any]
ZERO_SHOWN = -1
"""Stands for id 0 in ``dtMatches`` and ``gtMatches`` of the corrected convention, where 0 says "no match"."""


@dataclass(frozen=True)
class CellRule:
    """How a cell is matched.

    Attributes:
        area_range: [low, high] square pixels.
        area_ranges: all ranges, among which the corrected convention closes those that meet once.
        thresholds: ``[T]`` IoU thresholds.
        max_detections: how many detections are taken.
        strict: the convention.
    """

    area_range: Sequence[float]
    area_ranges: Sequence[Sequence[float]]
    thresholds: Sequence[float]
    max_detections: int
    strict: bool

    def bounds(self) -> tuple[float, float]:
        """The range, both ends included."""
        if self.strict:
            return self.area_range[0], self.area_range[1]
        low, high = half_open([self.area_range, *self.area_ranges])[0]
        return low, high


def box_ious(detections: Sequence[Annotation], ground_truths: Sequence[Annotation]) -> NDArray[np.float64]:
    """float64 ``[D, G]``, in Fortran order as pycocotools gives it."""
    from valor_gpu.coco.engine import engine_on

    boxes = [_finite_boxes(side) for side in (detections, ground_truths)]
    crowd = np.array([bool(_field(t, "iscrowd")) for t in ground_truths])
    sizes = np.array([[len(detections)], [len(ground_truths)]], np.int64)
    pairs = engine_on().box_iou(boxes[0], boxes[1], crowd, sizes)
    return np.asfortranarray(pairs.reshape(len(detections), len(ground_truths)))


def by_score(annotations: Sequence[Annotation], max_detections: int) -> list[Annotation]:
    """At most ``max_detections`` detections by descending score, list order on ties, NaN last."""
    scores = [_field(a, "score") for a in annotations]
    numbers = [i for i, score in enumerate(scores) if score == score]
    order = sorted(numbers, key=scores.__getitem__, reverse=True)  # reverse keeps the order of ties
    order += [i for i, score in enumerate(scores) if score != score]
    return [annotations[i] for i in order[:max_detections]]


def evaluate_cell(
    ground_truths: list[Annotation], detections: list[Annotation], ious: Any, rule: CellRule
) -> dict[str, Any]:
    """The fields of ``COCOeval.evaluateImg`` that matching decides; ``_ignore`` is set in the ground truths.

    Args:
        ground_truths: annotation objects with ``ignore``, in list order.
        detections: annotation objects with ``score``, in list order.
        ious: ``[D, G]`` by descending score and list order, or [].
        rule: how to match.
    """
    low, high = rule.bounds()
    for gt in ground_truths:
        gt["_ignore"] = int(bool(gt["ignore"] or _outside(gt, low, high)))
    flags = [gt["_ignore"] for gt in ground_truths]
    order = sorted(range(len(ground_truths)), key=flags.__getitem__)
    ground_truths, detections = [ground_truths[i] for i in order], by_score(detections, rule.max_detections)
    match = _Match(len(rule.thresholds), ground_truths, detections, rule.strict)
    if len(ious) and detections:
        match.run(ious[:, order], [min(float(t), 1 - 1e-10) for t in rule.thresholds])
    outside = [_outside(d, low, high) for d in detections]
    if any(outside):
        match.ignored |= (match.dt_matches == 0) & np.array(outside)
    return {
        "dtIds": [d["id"] for d in detections],
        "gtIds": [t["id"] for t in ground_truths],
        "dtMatches": match.dt_matches,
        "gtMatches": match.gt_matches,
        "dtScores": [d["score"] for d in detections],
        "gtIgnore": np.array([t["_ignore"] for t in ground_truths]),
        "dtIgnore": match.ignored,
    }


def _field(annotation: Mapping[str, Any], name: str) -> Any:
    """A value that evaluation needs, or :class:`InputError` with the id of the annotation that lacks it."""
    try:
        return annotation[name]
    except KeyError:
        keys = ", ".join(annotation)
        raise InputError(f"annotation id {annotation.get('id')} must have {name} but has only {keys}") from None


def _outside(annotation: Mapping[str, Any], low: float, high: float) -> bool:
    area = _field(annotation, "area")
    return bool(area < low or area > high)


def _finite_boxes(annotations: Sequence[Annotation]) -> NDArray[np.float64]:
    """float64 ``[N, 4]`` boxes."""
    boxes = np.array([_field(a, "bbox") for a in annotations], np.float64).reshape(-1, 4)
    bad = ~np.isfinite(boxes).all(1)
    if bad.any():
        index = int(bad.argmax())
        raise InputError(
            f"annotation id {annotations[index].get('id')}: bbox must be finite but got {boxes[index].tolist()}"
        )
    return boxes


class _Match:
    """Greedy matching of one cell, each of T thresholds on its own.

    ``dt_matches [T, D]`` and ``gt_matches [T, G]`` are float64 ids, 0 for no match; ``ignored`` bool ``[T, D]`` says
    which detections matched an ignored ground gt. Ground truths that count come first, detections are sorted by
    descending score.
    """

    def __init__(
        self, thresholds: int, ground_truths: Sequence[Annotation], detections: Sequence[Annotation], strict: bool
    ) -> None:
        self._annotations = ground_truths, detections
        self._crowd = [bool(_field(t, "iscrowd")) for t in ground_truths]
        self._strict = strict
        self.dt_matches = np.zeros((thresholds, len(detections)))
        self.gt_matches = np.zeros((thresholds, len(ground_truths)))
        self.ignored = np.zeros((thresholds, len(detections)), bool)

    def _shown(self, annotation: Annotation) -> Any:
        number = annotation["id"]
        return number if self._strict or number != 0 else ZERO_SHOWN

    def run(self, ious: NDArray[np.float64], limits: Sequence[float]) -> None:
        """Matches by IoU ``[D, G]`` at each of ``limits``."""
        near = ~(ious < min(limits))
        near |= np.isnan(ious).any(1, keepdims=True)  # from an overridden computeIoU: all that follows a NaN matches
        ground_truths, detections = self._annotations
        ignored = [bool(t["_ignore"]) for t in ground_truths]
        taken = [[False] * len(ground_truths) for _ in limits]
        for d in np.flatnonzero(near[: len(detections)].any(1)).tolist():
            values = [(g, ious[d, g]) for g in np.flatnonzero(near[d]).tolist()]
            number = self._shown(detections[d])
            for t, limit in enumerate(limits):
                best = self._best(values, limit, taken[t], ignored)
                if best >= 0:
                    self.dt_matches[t, d], self.ignored[t, d] = self._shown(ground_truths[best]), ignored[best]
                    self.gt_matches[t, best] = number
                    taken[t][best] = number > 0 or not self._strict

    def _best(
        self, values: Sequence[tuple[int, float]], limit: float, taken: Sequence[bool], ignored: Sequence[bool]
    ) -> int:
        """The free ground gt of largest IoU at or above ``limit``, the later on ties; -1 for none."""
        best = -1
        for g, iou in values:
            if taken[g] and not self._crowd[g]:
                continue
            if best >= 0 and ignored[g] and not ignored[best]:
                break
            if not iou < limit:
                best, limit = g, iou
        return best
