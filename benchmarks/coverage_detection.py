"""The 5,000 images of the val2017-scale data set as a population: AP and AR of two models, also of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.coverage_native import ClassRecords, class_numbers
from benchmarks.coverage_pools import Floats, Pool, Random
from testing.datasets import CASES, BoxDataset, make
from valor_gpu.detection import MeanAveragePrecision

FREQUENT = 20
"""Classes of the smaller mean: those with most ground truths."""
CLASS_STEP = 8
"""Every so-manieth class is studied on its own."""
_THRESHOLDS = (1 << 10) - 1
_BATCH = 64


class Images(Pool):
    """Means and classes of two models; the second lacks a tenth of the first's kind of detections, drawn anew."""

    family = "detection"

    def __init__(self, images: int = 5000) -> None:
        data = [make(CASES["val2017"], None if images == 5000 else images, seed) for seed in (0, 1)]
        self.units = len(data[0].image_ids)
        kept = np.random.default_rng(2).random(len(data[1].dt_score)) >= 0.1
        self.records = [records_of(data[0], np.ones(len(data[0].dt_score), bool)), records_of(data[1], kept)]
        truths = np.diff(self.records[0].gt_starts)
        self._classes = np.flatnonzero(truths)[::CLASS_STEP]
        self._frequent = np.argsort(-truths, kind="stable")[:FREQUENT]
        means = ("mAP, 80 classes", f"mAP, {FREQUENT} classes", "mAR, 80 classes")
        first = (*means, *(f"class AP {c}" for c in self._classes))
        self.names = (*first, *(f"{name}, difference" for name in first))

    def numbers(self, drawn: NDArray[np.int64], weights: NDArray[np.uint8]) -> Floats:
        units, copies = np.unique(drawn, return_inverse=True)
        summed = np.zeros((len(units), weights.shape[1]), np.uint8)
        np.add.at(summed, copies, weights)
        found = [self._numbers(*class_numbers(_of_units(one, units, self.units), summed)) for one in self.records]
        return np.concatenate([found[0], found[1] - found[0]])

    def estimates(self, rng: Random, n: int, sets: int) -> Floats:
        weights = np.stack([np.bincount(rng.integers(0, self.units, n), minlength=self.units) for _ in range(sets)], 1)
        return self.numbers(np.arange(self.units), weights.astype(np.uint8))

    def supports(self, drawn: NDArray[np.int64]) -> list[int | None]:
        counts = np.bincount(drawn, minlength=self.units)
        one = self.records[0]
        images = [np.unique(one.gt_units[one.gt_starts[c] : one.gt_starts[c + 1]]) for c in self._classes]
        means = len(self.names) // 2 - len(self._classes)
        return [*[None] * means, *(int(counts[some].sum()) for some in images)] * 2

    def _numbers(self, precision: Floats, recall: Floats) -> Floats:
        means = (_mean(precision), _mean(precision[self._frequent]), _mean(recall))
        return np.concatenate([np.stack(means), precision[self._classes]])


def _mean(classes: Floats) -> Floats:
    """Mean over the classes that exist."""
    there = ~np.isnan(classes)
    return np.asarray(np.where(there, classes, 0).sum(0) / there.sum(0))


def records_of(data: BoxDataset, kept: NDArray[np.bool_]) -> ClassRecords:
    """What the metric keeps of the images, by class and score; all areas, 100 detections."""
    metric = MeanAveragePrecision(box_format="xywh", class_metrics=True)
    images = len(data.image_ids)
    rows = {"dt": np.flatnonzero(kept), "gt": np.arange(len(data.gt_image))}
    cuts = {side: np.searchsorted(getattr(data, f"{side}_image")[r], np.arange(images + 1)) for side, r in rows.items()}

    def columns(side: str, image: int, **names: str) -> dict[str, Any]:
        mine = rows[side][cuts[side][image] : cuts[side][image + 1]]
        return {name: torch.from_numpy(getattr(data, f"{side}_{field}")[mine]) for name, field in names.items()}

    for first in range(0, images, _BATCH):
        batch = range(first, min(first + _BATCH, images))
        metric.update(
            [columns("dt", i, boxes="box", scores="score", labels="category") for i in batch],
            [
                {**columns("gt", i, boxes="box", labels="category", iscrowd="crowd", area="area"), "image_id": i}
                for i in batch
            ],
        )
    return _decoded(metric.state())


def _decoded(state: Any) -> ClassRecords:
    """Fields of the tables of docs/design/001-detection-records.md."""
    rows, gts, images = (np.asarray(part) for part in (state.detections, state.ground_truths, state.images))
    score = rows[:, :8].copy().view(np.float64)[:, 0]
    label = rows[:, 8:12].copy().view(np.int32)[:, 0]
    matched, ignored = (rows[:, at : at + 2].copy().view(np.uint16)[:, 0] & _THRESHOLDS for at in (13, 18))
    image, gt_image = (np.repeat(np.arange(len(images)), images[:, column]).astype(np.int32) for column in (4, 5))
    order = np.flatnonzero(rows[:, 12] < 3)
    order = order[np.lexsort((image[order], -score[order], label[order]))]
    gt_label = gts[:, :4].copy().view(np.int32)[:, 0]
    counted = np.flatnonzero(gts[:, 4] & 1)
    counted = counted[np.argsort(gt_label[counted], kind="stable")]
    classes = np.arange(int(max(label.max(), gt_label.max())) + 2)
    true = (matched & ~ignored)[order]
    return ClassRecords(
        np.searchsorted(label[order], classes), image[order], true, ignored[order],
        np.searchsorted(gt_label[counted], classes), gt_image[counted],
    )  # fmt: skip


def _of_units(records: ClassRecords, units: NDArray[np.int64], total: int) -> ClassRecords:
    """The records of some images, whose positions become 0 .. U - 1."""
    position = np.full(total, -1, np.int32)
    position[units] = np.arange(len(units), dtype=np.int32)
    places, gt_places = position[records.units], position[records.gt_units]
    kept, gt_kept = places >= 0, gt_places >= 0
    ends = (np.concatenate([[0], np.cumsum(mask)]) for mask in (kept, gt_kept))
    starts, gt_starts = (end[edges] for end, edges in zip(ends, (records.starts, records.gt_starts)))
    return ClassRecords(
        starts, places[kept], records.matched[kept], records.ignored[kept], gt_starts, gt_places[gt_kept]
    )
