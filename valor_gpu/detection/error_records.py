"""Pairs of a detection and a ground truth of any class beside the records of MeanAveragePrecision: what errors need."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from valor_gpu._frozen import replaced
from valor_gpu.detection.extended import ExtendedRecords, JointRecords, PartRecords
from valor_gpu.detection.geometry import Geometry, Overlapping, UprightBoxes
from valor_gpu.detection.overlap_state import check_pairs, spread
from valor_gpu.detection.record_checks import RecordChoices
from valor_gpu.detection.records import DetectionRecords
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops._launch import check_not_capturing
from valor_gpu.ops.assign.match_batch import AGNOSTIC, MAX_ROWS, MatchBatch, MatchRule, Pairs
from valor_gpu.state import State, check_elements, check_rows, joined

_BACKGROUND = 0.1
_HIGHEST = 1 - 1e-10
"""To which matching lowers IoU thresholds, as cocoeval does."""

Stored = tuple[MatchBatch, Tensor]
"""A batch with pairs, and their error code."""


def lowest_iou(errors: bool | float, iou_thresholds: Sequence[float], iou_type: Sequence[str]) -> float | None:
    """Returns the IoU from which on pairs are kept, None to keep none.

    Raises:
        InputError: the argument ``errors`` is out of range, or not defined for keypoints.
        InputTypeError: it is neither a bool nor a number; those of NumPy are.
    """
    given: Any = errors.item() if isinstance(errors, np.generic) else errors
    if given is False:
        return None
    least = min(iou_thresholds)
    needed = f"True, False or a number above 0 and at most {least:g}, the lowest of iou_thresholds"
    if not isinstance(given, Real):
        raise InputTypeError(f"errors must be {needed}, but got {given!r}")
    if "keypoints" in iou_type:
        raise InputError(f"errors must be False but got {given!r}: kinds of errors are not defined for keypoints")
    if not least > 0:
        raise InputError(f"errors must be False where iou_thresholds has {least:g} but got {given!r}")
    if isinstance(given, bool):
        return min(_BACKGROUND, least)
    if not 0 < cast(float, given) <= least:
        raise InputError(f"errors must be {needed}, but got {given!r}")
    return min(float(given), _HIGHEST)


@dataclass(frozen=True)
class PairColumns(State):
    """Part of records that keep pairs of T geometries: 4 bytes a detection and 12 a pair, for each geometry.

    Attributes:
        pair_counts: int32 ``[D, T]``, pairs of each detection.
        pair_ground_truths: int32 ``[P]``, the ground truth of each pair, by its place in the image. The pairs of a
            detection follow one another, geometry after geometry.
        pair_ious: float64 ``[P]``, descending in a detection and geometry, of equal ones the later ground truth first.
    """

    pair_counts: Tensor = joined()
    pair_ground_truths: Tensor = joined()
    pair_ious: Tensor = joined()

    def pairs_of(self, index: int) -> dict[str, Tensor]:
        """Returns the fields of geometry ``index`` alone."""
        number = self.pair_counts.shape[1]
        if number == 1:
            return {name: getattr(self, name) for name in _COLUMNS}
        places = torch.arange(self.pair_counts.numel(), device=self.pair_counts.device) % number
        own = places.repeat_interleave(self.pair_counts.reshape(-1), output_size=len(self.pair_ious)) == index
        counts = self.pair_counts[:, index : index + 1].contiguous()
        return dict(zip(_COLUMNS, (counts, self.pair_ground_truths[own], self.pair_ious[own])))

    def check(self, rule: RecordChoices) -> None:
        """Raises :class:`InputError` unless the pairs are such as ``update`` leaves."""
        super().check(rule)
        self._check_rows()
        lowest = cast(float, rule.lowest)
        good = self.pair_ious.isfinite() & (self.pair_ious >= lowest)
        check_elements("pair_ious", self.pair_ious, good, f"be finite and at least {lowest:g}")
        columns = self.pair_counts[:, 0], self.pair_ground_truths, self.pair_ious
        check_pairs(cast(Any, self).images[:, 4:6], *columns, prefix="pair_")

    def _check_rows(self) -> None:
        """Raises unless every pair belongs to a detection."""
        counts, pairs = self.pair_counts, len(self.pair_ious)
        check_rows("pair_counts", counts, len(cast(Any, self).detections), "detections")
        check_elements("pair_counts", counts, (counts >= 0) & (counts <= pairs), f"count from 0 to {pairs} pairs")
        check_rows("pair_ious", self.pair_ious, int(counts.sum()), "pair_counts")
        check_rows("pair_ground_truths", self.pair_ground_truths, pairs, "pair_ious")


_COLUMNS = ("pair_counts", "pair_ground_truths", "pair_ious")


@dataclass(frozen=True)
class ErrorRecords(PairColumns, DetectionRecords):
    """Plain records and pairs."""


@dataclass(frozen=True)
class ExtendedErrorRecords(PairColumns, ExtendedRecords):
    """Extended records and pairs."""


@dataclass(frozen=True)
class PartErrorRecords(PairColumns, PartRecords):
    """Records of one geometry out of several, and its pairs."""


@dataclass(frozen=True)
class JointErrorRecords(PairColumns, JointRecords):
    """Records of several geometries side by side, and the pairs of each."""

    def part(self, index: int, number: int) -> PartErrorRecords:
        """The records of geometry ``index`` of ``number``."""
        columns = {name: value for name, value in self.tensors().items() if name not in _COLUMNS}
        return PartErrorRecords(**JointRecords(**columns).part(index, number).tensors(), **self.pairs_of(index))

    def check(self, rule: RecordChoices) -> None:
        """Raises :class:`InputError` unless the records of every geometry are such as ``update`` leaves."""
        self._check_rows()
        JointRecords.check(self, rule)


_KINDS: dict[type[DetectionRecords], type[DetectionRecords]] = {
    DetectionRecords: ErrorRecords,
    ExtendedRecords: ExtendedErrorRecords,
    JointRecords: JointErrorRecords,
    PartRecords: PartErrorRecords,
}


def with_columns(records: DetectionRecords, columns: Mapping[str, Tensor]) -> DetectionRecords:
    """Returns records of the kind that also has the fields of :class:`PairColumns`."""
    return _KINDS[type(records)](**records.tensors(), **columns)


def no_pairs(records: DetectionRecords, geometries: int) -> DetectionRecords:
    """Returns the state without data, of ``records`` without data, that keeps pairs of so many geometries."""
    counts = torch.empty((0, geometries), dtype=torch.int32)
    columns = (counts, torch.empty(0, dtype=torch.int32), torch.empty(0, dtype=torch.float64))
    return with_columns(records, dict(zip(_COLUMNS, columns)))


# --------------------------------------------------------------------------------------------------------- of a batch


class Links(NamedTuple):
    """The pairs of a batch without room for others: int32 ``[D]``, int32 ``[P]``, float64 ``[P]``."""

    counts: Tensor
    ground_truths: Tensor
    ious: Tensor

    @classmethod
    def of(cls, pairs: Pairs) -> Links:
        """Leaves out what of each room is not used; waits for the device."""
        total = int(pairs.counts.sum())
        if total == len(pairs.similarities):
            return cls(pairs.counts, pairs.ground_truths, pairs.similarities)
        used = spread(pairs.offsets[:-1], pairs.counts.long(), total)
        return cls(pairs.counts, pairs.ground_truths[used], pairs.similarities[used])

    def stored(self) -> Pairs:
        """The pairs as matching takes them."""
        return Pairs(_ends(self.counts), self.counts, self.ground_truths, self.ious)


class FoundPairs(NamedTuple):
    """The pairs of a batch by the name of their geometry.

    Attributes:
        links: of any classes.
        stored: what matching takes, of geometries whose pairs it would find once more otherwise.
    """

    links: dict[str, Links]
    stored: dict[str, Stored]


def find_pairs(
    geometries: Mapping[str, Geometry],
    batch: MatchBatch,
    shapes: Sequence[Any],
    lowest: float,
    error: Tensor | None,
) -> FoundPairs:
    """Returns the pairs of a batch, of any classes; on a GPU the host waits for the device.

    Args:
        geometries: by name, of type :class:`Overlapping`.
        batch: tensors without gaps.
        shapes: what each geometry needs beside the batch.
        lowest: the lowest IoU.
        error: on a GPU, the code that is lowered to the first error.
    """
    check_not_capturing("update of a metric with errors=True waits for the device and must not run")
    rule = MatchRule.make([lowest], [(-math.inf, math.inf)], [MAX_ROWS], AGNOSTIC)
    found = FoundPairs({}, {})
    for (name, kind), own in zip(geometries.items(), shapes):
        made, problem = cast(Overlapping, kind).pairs(batch, own, rule)
        if error is not None:
            torch.minimum(error, problem, out=error)
        links = found.links[name] = Links.of(cast(Pairs, made.pairs))
        if not isinstance(kind, UprightBoxes):  # boxes are matched as they are, and say how far they reach
            found.stored[name] = replaced(made, pairs=links.stored()), problem
    return found


def stored_by_class(stored: Mapping[str, Stored]) -> dict[str, Stored]:
    """Returns batches whose pairs have one label; does not synchronise with the device.

    Args:
        stored: batches whose pairs follow one another without room between them.
    """
    return {name: (replaced(batch, pairs=_of_class(batch)), problem) for name, (batch, problem) in stored.items()}


def _of_class(batch: MatchBatch) -> Pairs:
    pairs = cast(Pairs, batch.pairs)
    total, device = len(pairs.similarities), pairs.counts.device
    labels, gt_labels = (torch.cat([t.reshape(-1) for t in side]).long() for side in (batch.labels, batch.gt_labels))
    sizes, gt_sizes = to_device(batch.lengths, device)
    first = (gt_sizes.cumsum(0) - gt_sizes).repeat_interleave(sizes, output_size=len(labels))
    rows = torch.arange(len(labels), device=device).repeat_interleave(pairs.counts, output_size=total)
    same = labels[rows] == gt_labels[first[rows] + pairs.ground_truths]
    order = torch.sort(2 * rows + ~same, stable=True).indices  # those of the class lead the room of their detection
    counts = _ends(same)[pairs.offsets].diff().int()
    return Pairs(pairs.offsets, counts, pairs.ground_truths[order], pairs.similarities[order])


def _ends(counts: Tensor) -> Tensor:
    """int64 ``[N + 1]``: 0, and the sums of the first counts."""
    ends = counts.new_zeros(len(counts) + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, dtype=torch.int64, out=ends[1:])
    return ends


def joint_columns(links: Sequence[Links]) -> dict[str, Tensor]:
    """Returns the fields of :class:`PairColumns` of a batch, of geometries in order."""
    counts = torch.stack([each.counts for each in links], 1)
    if len(links) == 1:
        return dict(zip(_COLUMNS, (counts, *links[0][1:])))
    places = torch.arange(counts.numel(), device=counts.device).reshape(counts.shape)
    owners = [
        places[:, index].repeat_interleave(each.counts, output_size=len(each.ious)) for index, each in enumerate(links)
    ]
    order = torch.sort(torch.cat(owners), stable=True).indices
    columns = (torch.cat([each[field] for each in links])[order] for field in (1, 2))
    return dict(zip(_COLUMNS, (counts, *columns)))


# ------------------------------------------------------------------------------------------------------- some images

_Records = TypeVar("_Records", bound=DetectionRecords)


def part_of_images(records: DetectionRecords, images: Tensor) -> DetectionRecords:
    """Returns the records of some images, with what numbers and errors are computed from and no more.

    Args:
        records: of one geometry.
        images: int64 ``[N]``, rows of the table of images.
    """
    rows, gt_rows = (_rows(records.images[:, column], images) for column in (4, 5))
    by_class = getattr(records, "class_detections", records.detections[:0])
    plain = PartRecords(
        records.detections[rows], records.ground_truths[gt_rows], records.images[images],
        torch.empty((0, 1), dtype=torch.float64, device=rows.device), by_class[rows] if len(by_class) else by_class,
    )  # fmt: skip
    if not isinstance(records, PairColumns):
        return plain
    pairs = _rows(records.pair_counts[:, 0].long(), rows)
    columns = (records.pair_counts[rows], records.pair_ground_truths[pairs], records.pair_ious[pairs])
    return with_columns(plain, dict(zip(_COLUMNS, columns)))


def _rows(sizes: Tensor, groups: Tensor) -> Tensor:
    """int64: the rows of groups, one group after another."""
    wanted = sizes[groups]
    return spread((sizes.cumsum(0) - sizes)[groups], wanted, int(wanted.sum()))
