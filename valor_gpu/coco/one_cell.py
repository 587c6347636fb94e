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
    order = np.argsort([-_field(a, "score") for a in annotations], kind="stable")
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
    order = np.argsort([t["_ignore"] for t in truths], kind="stable")
    truths, found = [truths[i] for i in order], by_score(found, rule.most)
    ignored = np.array([t["_ignore"] for t in truths])
    match = _Match(rule, truths, found)
    if len(ious):
        match.run(ious[:, order])
    outside = np.array([_outside(d, low, high) for d in found], bool)
    return {
        "dtIds": [d["id"] for d in found],
        "gtIds": [t["id"] for t in truths],
        "dtMatches": match.found,
        "gtMatches": match.truths,
        "dtScores": [d["score"] for d in found],
        "gtIgnore": ignored,
        "dtIgnore": match.ignored | ((match.found == 0) & outside),
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
    """Greedy matching of one cell, each threshold on its own.

    ``found [T, D]`` and ``truths [T, G]`` are float64 ids, 0 for no match; ``ignored`` bool ``[T, D]``: matched an
    ignored ground truth. Ground truths come with those that count first, detections by descending score.
    """

    def __init__(self, rule: CellRule, truths: Sequence[Annotation], found: Sequence[Annotation]) -> None:
        self._strict = rule.strict
        self._limits = [min(float(t), 1 - 1e-10) for t in rule.thresholds]
        self._true_ids, self._found_ids = ([self._shown(a["id"]) for a in side] for side in (truths, found))
        self._crowd = [bool(_field(t, "iscrowd")) for t in truths]
        self._ignored = [bool(t["_ignore"]) for t in truths]
        self._taken = [[False] * len(truths) for _ in self._limits]
        self.found = np.zeros((len(self._limits), len(found)))
        self.truths = np.zeros((len(self._limits), len(truths)))
        self.ignored = np.zeros(self.found.shape, bool)

    def _shown(self, number: Any) -> Any:
        return number if self._strict or number != 0 else ZERO_SHOWN

    def run(self, ious: NDArray[np.float64]) -> None:
        """Match by IoU ``[D, G]``."""
        near = ~(ious < min(self._limits))
        near |= np.isnan(ious).any(1, keepdims=True)  # from an overridden computeIoU: all that follows a NaN matches
        for d in np.flatnonzero(near[: len(self._found_ids)].any(1)).tolist():
            values = [(g, ious[d, g]) for g in np.flatnonzero(near[d]).tolist()]
            number = self._found_ids[d]
            for t, limit in enumerate(self._limits):
                best = self._best(values, limit, self._taken[t])
                if best < 0:
                    continue
                self.found[t, d], self.ignored[t, d] = self._true_ids[best], self._ignored[best]
                self.truths[t, best] = number
                self._taken[t][best] = number > 0 or not self._strict

    def _best(self, values: Sequence[tuple[int, float]], limit: float, taken: Sequence[bool]) -> int:
        """The free ground truth of largest IoU at or above ``limit``, the later on ties; -1 for none."""
        best = -1
        for g, iou in values:
            if taken[g] and not self._crowd[g]:
                continue
            if best >= 0 and self._ignored[g] and not self._ignored[best]:
                break
            if not iou < limit:
                best, limit = g, iou
        return best
