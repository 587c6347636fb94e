"""Numbers of detection records in replicates: the same function over tables in which images stand several times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from valor_gpu.detection.records import DetectionRecords
from valor_gpu.detection.repeated_images import flat_numbers, rows_of_groups
from valor_gpu.ops.accumulate.record_rows import ground_truth_bit, ground_truth_labels
from valor_gpu.ops.assign.image_order import choose_images
from valor_gpu.ops.assign.match_batch import IMAGE_COLUMNS
from valor_gpu.reduce.resampled_detection import CLASS_FAMILY, cluster_codes
from valor_gpu.reduce.swapped_detection import BUCKET, interleaved, ranked_rows
from valor_gpu.reduce.table_units import KeptImages, table_units
from valor_gpu.stats.arranged import ArrangedUnits
from valor_gpu.stats.draws import Draws
from valor_gpu.stats.resample import LOST_CLASSES, Resampled, holders
from valor_gpu.stats.units import Units

_PADDING = 255
_ID, _HAS_ID, _DETECTIONS, _GROUND_TRUTHS = map(IMAGE_COLUMNS.index, ("ID", "HAS_ID", "DETECTIONS", "GROUND_TRUTHS"))


class RepeatedRecords(Resampled):
    """Images of detection records, to be drawn anew.

    An image that is drawn k times stands for k adjacent copies; nothing is matched again.

    Args:
        records: the state.
        numbers: gives the numbers of such records by name, those of classes in a mapping ``map_per_class``; every row
            of their images counts, in order.
        name: gives the name that results have for a label.
    """

    family = "detection"
    unit = "images"
    chunk = 16

    def __init__(
        self,
        records: DetectionRecords,
        numbers: Callable[[DetectionRecords], Mapping[str, Any]],
        name: Callable[[int], str] = str,
    ) -> None:
        table = records.images.cpu().numpy()
        order = choose_images(table, True)
        self._records, self._numbers, self._name = records, numbers, name
        self._images = KeptImages(table, order)
        self._order = torch.from_numpy(order).to(records.images.device)
        self._keys = table[order, _ID].tolist() if bool(table[order, _HAS_ID].all()) else None
        self.units = len(order)
        whole = repeat_records(records, self._order)
        self._names = list(flat_numbers(numbers(whole)))
        counting = ground_truth_bit(whole.ground_truths, 0)
        images = torch.arange(self.units, device=self._order.device)
        images = images.repeat_interleave(whole.images[:, _GROUND_TRUTHS], output_size=len(counting))[counting]
        labels = ground_truth_labels(whole.ground_truths)[counting]
        self._pairs = torch.stack((labels, images), 1).unique(dim=0)
        found, self._classes = self._pairs[:, 0].unique(return_inverse=True)
        self._held = [f"map_per_class/{name(label)}" for label in found.tolist()]

    def replicates(self, draws: Draws) -> dict[str, NDArray[np.float64]]:
        """See :class:`Resampled`."""
        weights = torch.from_numpy(draws.array().astype(np.int64)).to(self._order.device)
        found = {name: np.full(draws.count, np.nan) for name in self._names}
        lost = np.zeros(draws.count)
        for column in range(draws.count):
            times = weights[:, column]
            repeated = repeat_records(self._records, self._order.repeat_interleave(times))
            held = self._pairs[times[self._pairs[:, 1]] > 0, 0]
            lost[column] = len(self._held) - len(held.unique())
            for name, value in flat_numbers(self._numbers(repeated)).items():
                found[name][column] = value
        means = [name for name in found if not name.startswith("map_per_class/")]
        return found | {name + LOST_CLASSES: lost for name in means if len(self._held) > 1}

    def family_of(self, name: str) -> str:
        """See :class:`Resampled`: numbers of classes are a family of their own."""
        return CLASS_FAMILY if name.startswith("map_per_class/") else self.family

    def range_of(self, name: str) -> tuple[float, float]:
        """See :class:`Resampled`: precision and recall are fractions."""
        return 0.0, 1.0

    def supports(self, clusters: NDArray[np.int64] | None = None) -> dict[str, int]:
        """See :class:`Resampled`."""
        pairs = self._classes.cpu().numpy(), self._pairs[:, 1].cpu().numpy()
        counts = dict(zip(self._held, holders(*pairs, len(self._held), clusters)))
        classes = (name for name in self._names if name.startswith("map_per_class/"))
        return {name: counts.get(name, 0) for name in classes}

    def clusters(self, given: Mapping[Any, Any] | Sequence[Any]) -> NDArray[np.int64]:
        """See :class:`Resampled`; a sequence is in the order of ascending ids."""
        return cluster_codes(given, self._keys, self.units)

    def identities(self) -> Units:
        """See :class:`Resampled`: images by their ids, or by the order in which they arrived."""
        return table_units([self._images])

    def swapping(self, other: Resampled) -> Resampled | None:
        """See :class:`Resampled`; the images are ordered as they are here, one of this model before the other's."""
        if not isinstance(other, RepeatedRecords):
            return None
        order = interleaved(self.identities(), other.identities())
        ties = all(bool((np.diff(order[order // self.units == model]) > 0).all()) for model in (0, 1))
        sides = [_ranked(repeat_records(each._records, each._order), ties) for each in (self, other)]
        images = torch.cat([side.images for side in sides])
        images[torch.from_numpy(order), _ID] = torch.arange(len(order), device=images.device)
        images[:, _HAS_ID] = 1
        detections, ground_truths = (
            torch.cat([getattr(side, name) for side in sides]) for name in ("detections", "ground_truths")
        )
        records = DetectionRecords(detections, ground_truths, images)
        return ArrangedUnits(RepeatedRecords(records, self._numbers, self._name), order)


def _ranked(records: DetectionRecords, ties: bool) -> DetectionRecords:
    """Records of images in order whose scores are ranks among those of a label; ``ties`` leaves equal ones equal."""
    rows, place = records.detections.cpu().numpy(), None if ties else np.arange(len(records.detections))
    ranked = ranked_rows(rows, rows[:, BUCKET] < _PADDING, units=place)
    return replace(records, detections=torch.from_numpy(ranked).to(records.detections.device))


def repeat_records(records: DetectionRecords, images: Tensor) -> DetectionRecords:
    """Returns the records of images in order.

    Args:
        records: of all images.
        images: int64 ``[N]``, rows of the images table; one may come again.
    """
    detections, _ = rows_of_groups(records.images[:, _DETECTIONS], images)
    ground_truths, _ = rows_of_groups(records.images[:, _GROUND_TRUTHS], images)
    return DetectionRecords(
        records.detections[detections], records.ground_truths[ground_truths], records.images[images]
    )
