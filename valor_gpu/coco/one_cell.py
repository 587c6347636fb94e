"""A single (image, category) cell from annotation objects, as subclasses of COCOeval reach it. No torch at import."""

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
        most: detections taken.
        strict: the convention.
    """

    area_range: Sequence[float]
    area_ranges: Sequence[Sequence[float]]
    thresholds: Sequence[float]
    most: int
    strict: bool

    def bounds(self) -> tuple[float, float]:
        """The range, both ends included."""
        if self.strict:
            return self.area_range[0], self.area_range[1]
        low, high = half_open([self.area_range, *self.area_ranges])[0]
        return low, high


def box_ious(found: Sequence[Annotation], truths: Sequence[Annotation]) -> NDArray[np.float64]:
    """float64 ``[D, G]``, in Fortran order as pycocotools gives it."""
    import torch

    from valor_gpu.ops.boxes import box_iou

    crowd = torch.tensor([bool(_field(t, "iscrowd")) for t in truths])
    boxes = [torch.from_numpy(_finite_boxes(side)) for side in (found, truths)]
    return np.asfortranarray(box_iou(boxes[0], boxes[1], box_format="xywh", crowd=crowd).numpy())


def by_score(annotations: Sequence[Annotation], most: int) -> list[Annotation]:
    """At most ``most`` detections by descending score, list order on ties, NaN last."""
    scores = [_field(a, "score") for a in annotations]
    numbers = [i for i, score in enumerate(scores) if score == score]
    order = sorted(numbers, key=scores.__getitem__, reverse=True)  # reverse keeps the order of ties
    order += [i for i, score in enumerate(scores) if score != score]
    return [annotations[i] for i in order[:most]]


def evaluate_cell(truths: list[Annotation], found: list[Annotation], ious: Any, rule: CellRule) -> dict[str, Any]:
    """The fields of ``COCOeval.evaluateImg`` that matching decides; ``_ignore`` is set in the ground truths.

    Args:
        truths: ground truths with ``ignore``, in list order.
        found: detections.
        ious: ``[D, G]`` by descending score and list order, or [].
        rule: how to match.
    """
    low, high = rule.bounds()
    for truth in truths:
        truth["_ignore"] = int(bool(truth["ignore"] or _outside(truth, low, high)))
    flags = [truth["_ignore"] for truth in truths]
    order = sorted(range(len(truths)), key=flags.__getitem__)
    truths, found = [truths[i] for i in order], by_score(found, rule.most)
    match = _Match(len(rule.thresholds), truths, found, rule.strict)
    if len(ious) and found:
        match.run(ious[:, order], [min(float(t), 1 - 1e-10) for t in rule.thresholds])
    outside = [_outside(d, low, high) for d in found]
    if any(outside):
        match.ignored |= (match.found == 0) & np.array(outside)
    return {
        "dtIds": [d["id"] for d in found],
        "gtIds": [t["id"] for t in truths],
        "dtMatches": match.found,
        "gtMatches": match.truths,
        "dtScores": [d["score"] for d in found],
        "gtIgnore": np.array([t["_ignore"] for t in truths]),
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
        at = int(bad.argmax())
        raise InputError(f"annotation id {annotations[at].get('id')}: bbox must be finite but got {boxes[at].tolist()}")
    return boxes


class _Match:
    """Greedy matching of one cell, each of T thresholds on its own.

    ``found [T, D]`` and ``truths [T, G]`` are float64 ids, 0 for no match; ``ignored`` bool ``[T, D]``: matched an
    ignored ground truth. Ground truths come with those that count first, detections by descending score.
    """

    def __init__(
        self, thresholds: int, truths: Sequence[Annotation], found: Sequence[Annotation], strict: bool
    ) -> None:
        self._annotations = truths, found
        self._crowd = [bool(_field(t, "iscrowd")) for t in truths]
        self._strict = strict
        self.found = np.zeros((thresholds, len(found)))
        self.truths = np.zeros((thresholds, len(truths)))
        self.ignored = np.zeros((thresholds, len(found)), bool)

    def _shown(self, annotation: Annotation) -> Any:
        number = annotation["id"]
        return number if self._strict or number != 0 else ZERO_SHOWN

    def run(self, ious: NDArray[np.float64], limits: Sequence[float]) -> None:
        """Match by IoU ``[D, G]`` at each of ``limits``."""
        near = ~(ious < min(limits))
        near |= np.isnan(ious).any(1, keepdims=True)  # from an overridden computeIoU: all that follows a NaN matches
        truths, found = self._annotations
        ignored = [bool(t["_ignore"]) for t in truths]
        taken = [[False] * len(truths) for _ in limits]
        for d in np.flatnonzero(near[: len(found)].any(1)).tolist():
            values = [(g, ious[d, g]) for g in np.flatnonzero(near[d]).tolist()]
            number = self._shown(found[d])
            for t, limit in enumerate(limits):
                best = self._best(values, limit, taken[t], ignored)
                if best >= 0:
                    self.found[t, d], self.ignored[t, d] = self._shown(truths[best]), ignored[best]
                    self.truths[t, best] = number
                    taken[t][best] = number > 0 or not self._strict

    def _best(
        self, values: Sequence[tuple[int, float]], limit: float, taken: Sequence[bool], ignored: Sequence[bool]
    ) -> int:
        """The free ground truth of largest IoU at or above ``limit``, the later on ties; -1 for none."""
        best = -1
        for g, iou in values:
            if taken[g] and not self._crowd[g]:
                continue
            if best >= 0 and ignored[g] and not ignored[best]:
                break
            if not iou < limit:
                best, limit = g, iou
        return best
