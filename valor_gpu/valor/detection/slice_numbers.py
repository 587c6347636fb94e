"""Numbers of many slices of a detection, a block of slices in one pass."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from valor_gpu.ops.overlaps.op import Overlaps
from valor_gpu.valor.detection.numbers import Counts, DetectionNumbers, Floats
from valor_gpu.valor.detection.overlap_split import split_overlaps
from valor_gpu.valor.detection.request import DetectionRequest
from valor_gpu.valor.detection.scene import DetectionScene
from valor_gpu.valor.detection.slices import Deal
from valor_gpu.valor.enums import MetricType

Codes = NDArray[np.int64]

_CELLS = 1 << 22  # numbers of a table, about 300 MB for all that are counted at once
_METRICS = {
    MetricType.AP,
    MetricType.AR,
    MetricType.mAP,
    MetricType.mAR,
    MetricType.APAveragedOverIOUs,
    MetricType.mAPAveragedOverIOUs,
    MetricType.ARAveragedOverScores,
    MetricType.mARAveragedOverScores,
    MetricType.Counts,
    MetricType.Precision,
    MetricType.Recall,
    MetricType.F1,
}
_PRESETS = (None, "valor-api", "valor-lite")


def counts_all(request: DetectionRequest) -> bool:
    """Whether all that is asked for comes from tables of all slices; else each slice is evaluated by itself."""
    return request.compat in _PRESETS and set(request.metrics) <= _METRICS


class _Block(DetectionNumbers):
    """Numbers of some slices."""

    def __init__(
        self, overlaps: Overlaps, num_labels: int, request: DetectionRequest, groups: Codes, count: int
    ) -> None:
        place = torch.from_numpy(groups).to(overlaps.labels.device)
        super().__init__(overlaps, num_labels, request, place, count)
        self._recalls: dict[tuple[float, ...], Floats] = {}

    def recalls_of(self, scores: tuple[float, ...]) -> Floats:
        """AR of each slice, computed once."""
        if scores not in self._recalls:
            self._recalls[scores] = self.grouped_recalls(scores)
        return self._recalls[scores]

    @cached_property
    def outcomes(self) -> Counts:
        """Counts of each slice."""
        return self.grouped_outcomes()

    @cached_property
    def rows(self) -> tuple[Codes, Codes]:
        """Ground truths and detections of each slice and label, int64 ``[N, C]``."""
        found = []
        groups = self.groups
        assert groups is not None
        for labels, sizes in zip((self.overlaps.gt_labels, self.overlaps.labels), self.overlaps.sizes.flip(0)):
            cells = groups.repeat_interleave(sizes) * self.num_labels + labels
            table = torch.bincount(cells, minlength=self.num_groups * self.num_labels)
            found.append(table.view(self.num_groups, -1).cpu().numpy())
        return found[0], found[1]


class _SliceNumbers(DetectionNumbers):
    """Numbers of one slice out of those of its block."""

    def __init__(self, block: _Block, place: int) -> None:
        super().__init__(block.overlaps, block.num_labels, block.request)
        self._block, self._place = block, place
        self.average_precision = block.grouped_precision[place]
        self.ground_truths, self.predictions = (table[place] for table in block.rows)

    def recalls(self, scores: tuple[float, ...]) -> Floats:
        """AR at scores, float64 ``[C, S]``."""
        found: Floats = self._block.recalls_of(scores)[self._place]
        return found

    @cached_property
    def counts(self) -> Counts:
        """At the thresholds of the request."""
        return Counts(*(column[self._place] for column in self._block.outcomes))


class SliceTables:
    """Numbers of all slices.

    Args:
        scene: what the filter of the evaluation left.
        request: what is asked for.
        deal: the slice of each datum and row of the scene.
        count: number of slices.
    """

    def __init__(self, scene: DetectionScene, request: DetectionRequest, deal: Deal, count: int) -> None:
        self._request, self._num_labels, self._count = request, len(scene.columns.labels), count
        cells = self._num_labels * len(request.ious) * max(len(request.scores), 1)
        self._step = max(1, _CELLS // max(cells, 1))
        if deal.datums is not None:
            self._overlaps, self._groups = scene.overlaps, deal.datums
        else:
            device = scene.overlaps.labels.device
            gts, rows = (None if of is None else torch.from_numpy(of).to(device) for of in deal[1:])
            self._overlaps, groups = split_overlaps(scene.overlaps, rows, gts, count)
            self._groups = groups.cpu().numpy()
        self._blocks: dict[int, _Block] = {}

    def numbers(self, place: int) -> DetectionNumbers:
        """The numbers of a slice."""
        number, inner = divmod(place, self._step)
        if number not in self._blocks:
            self._blocks[number] = self._block(number * self._step)
        return _SliceNumbers(self._blocks[number], inner)

    def _block(self, first: int) -> _Block:
        count = min(self._step, self._count - first)
        overlaps, groups = self._overlaps, self._groups
        if count < self._count:
            here = (groups >= first) & (groups < first + count)
            overlaps = overlaps.take(datums=torch.from_numpy(here).to(overlaps.labels.device))
            groups = groups[here] - first
        return _Block(overlaps, self._num_labels, self._request, groups, count)
