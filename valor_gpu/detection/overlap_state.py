"""The state of Valor's detection metrics: detections and ground truths by image, and the pairs that overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from valor_gpu.digests import DataHashes
from valor_gpu.errors import InputError
from valor_gpu.ops._device_tables import to_device
from valor_gpu.ops.assign.match_batch import MatchBatch
from valor_gpu.ops.error_codes import NO_ERROR, describe_box, pack_box, raise_error
from valor_gpu.ops.overlaps.op import Overlaps
from valor_gpu.row_digests import multiset_hash, row_hashes
from valor_gpu.state import State, array_of, check_elements, check_rows, joined

_SCORES, _CROWD, _COUNTS, _GT_COUNTS = 2, 7, 8, 9  # kinds of errors in valor_gpu/ops/error_codes.py
_KINDS = {
    _SCORES: ("preds", "scores", "must be finite"),
    _CROWD: ("target", "iscrowd", "must be 0, since Valor's metrics have no crowds: leave such ground truths out"),
}


@dataclass(frozen=True)
class OverlapRecords(State):
    """Images as they came: rows of an image follow one another, pairs of a detection too.

    20 bytes per detection, 8 per ground truth, 12 per pair, 32 per image.

    Attributes:
        labels: int64 ``[D]``.
        scores: float64 ``[D]``, finite.
        counts: int32 ``[D]``, pairs of each detection.
        ground_truths: int32 ``[P]``, the ground truth of each pair, by its place in the image.
        ious: float64 ``[P]``, above 0 and at most 1 but for rounding, descending in each detection, of equal ones the
            later ground truth first.
        gt_labels: int64 ``[G]``.
        images: int64 ``[I, 4]``: 1 or 0 for an id or none, the id, and how many detections and ground truths.
    """

    labels: Tensor = joined()
    scores: Tensor = joined()
    counts: Tensor = joined()
    ground_truths: Tensor = joined()
    ious: Tensor = joined()
    gt_labels: Tensor = joined()
    images: Tensor = joined()
    hashed: ClassVar[str | None] = "images"

    def hashes(self) -> DataHashes:
        """Returns the hashes of :func:`overlap_hashes`."""
        return overlap_hashes(self)

    @classmethod
    def none(cls) -> OverlapRecords:
        """The records of no image."""
        rows = {torch.int64: ("labels", "gt_labels"), torch.int32: ("counts", "ground_truths"),
                torch.float64: ("scores", "ious")}  # fmt: skip
        columns = {name: torch.empty(0, dtype=dtype) for dtype, names in rows.items() for name in names}
        return cls(**columns, images=torch.empty((0, 4), dtype=torch.int64))

    @classmethod
    def of(cls, batch: MatchBatch, found: Tensor) -> OverlapRecords:
        """The records of a batch, without its padding; on a GPU the host waits for the device once.

        Args:
            batch: tensors with pairs of every label, without gaps; flags of ground truths are those of crowds.
            found: int64 ``[]``, the error code of the pairs, on the device of the batch.

        Raises:
            InputError: for the first error of the pairs, score that is not finite, crowd, or count out of range.
        """
        pairs, device = batch.pairs, found.device
        assert pairs is not None
        lengths = to_device(batch.lengths, device)
        given = zip((batch.counts, batch.gt_counts), lengths)
        sizes = torch.stack([length if count is None else count for count, length in given])
        scores = _joined(batch.scores, device).double()
        rows, gt_rows, num_pairs, code = torch.cat((
            sizes.sum(1), pairs.counts.sum().reshape(1), _first_error(batch, scores, lengths, sizes, found).reshape(1),
        )).tolist()  # fmt: skip
        raise_error(code, _describe)
        columns = {"labels": _joined(batch.labels, device).long(), "scores": scores, "counts": pairs.counts}
        starts, gt_labels = pairs.offsets[:-1], _joined(batch.gt_labels, device).long()
        if rows < len(scores):
            kept = spread(_starts(lengths[0]), sizes[0], rows)
            columns, starts = {name: column[kept] for name, column in columns.items()}, starts[kept]
        if gt_rows < len(gt_labels):
            gt_labels = gt_labels[spread(_starts(lengths[1]), sizes[1], gt_rows)]
        links = {"ground_truths": pairs.ground_truths, "ious": pairs.similarities}
        if num_pairs < len(pairs.similarities):
            used = spread(starts, columns["counts"].long(), num_pairs)
            links = {name: column[used] for name, column in links.items()}
        ids = _joined(batch.image_ids, device) if batch.image_ids else torch.zeros_like(sizes[0])
        named = torch.full_like(sizes[0], bool(batch.image_ids))
        return cls(**columns, **links, gt_labels=gt_labels, images=torch.stack((named, ids, *sizes), 1))

    @cached_property
    def derived(self) -> dict[Any, Any]:
        """What metrics with one state have computed from it, for the next of them."""
        return {}

    def overlaps(self) -> Overlaps:
        """The columns as ranking takes them, ground truths by their place among all."""
        sizes = self.images[:, 2:].T.contiguous()
        counts = self.counts.long()
        first = _starts(sizes[1]).repeat_interleave(sizes[0], output_size=len(self.labels))
        first = first.repeat_interleave(counts, output_size=len(self.ious))
        return Overlaps(
            sizes, self.labels, self.scores, self.gt_labels, counts, self.ground_truths.long() + first, self.ious
        )  # fmt: skip

    def check(self, rule: Any) -> None:
        """Raises :class:`InputError` unless the columns are such as :meth:`of` leaves."""
        named, sizes = self.images[:, 0], self.images[:, 2:]
        check_elements("images", self.images, (named == 0) | (named == 1), "say by 0 or 1 whether it has an id")
        columns = {"labels": self.labels, "gt_labels": self.gt_labels}
        for name, column, size in zip(columns, columns.values(), sizes.unbind(1)):
            good = (size >= 0) & (size <= len(column))
            check_elements("images", self.images, good, f"count from 0 to {len(column)} rows of {name}")
            check_rows(name, column, int(size.sum()), "images")
        for name in ("scores", "counts"):
            check_rows(name, getattr(self, name), len(self.labels), "labels")
        check_elements("scores", self.scores, self.scores.isfinite(), "be finite")
        good = (self.counts >= 0) & (self.counts <= len(self.ious))
        check_elements("counts", self.counts, good, f"count from 0 to {len(self.ious)} pairs")
        check_rows("ious", self.ious, int(self.counts.sum()), "counts")
        check_rows("ground_truths", self.ground_truths, len(self.ious), "ious")
        # The IoU of equal boxes far from the origin exceeds 1 by what their corners lose to rounding.
        check_elements("ious", self.ious, (self.ious > 0) & self.ious.isfinite(), "be above 0 and finite")
        check_pairs(sizes, self.counts, self.ground_truths, self.ious)


def check_pairs(sizes: Tensor, counts: Tensor, ground_truths: Tensor, ious: Tensor, prefix: str = "") -> None:
    """Raises unless the pairs of a detection are of different ground truths of its image, and in order.

    Args:
        sizes: int64 ``[I, 2]``, detections and ground truths of each image.
        counts: integer ``[D]``, pairs of each detection.
        ground_truths: integer ``[P]``, places in the image.
        ious: float64 ``[P]``.
        prefix: of the names of the fields in messages.
    """
    room = sizes[:, 1].repeat_interleave(sizes[:, 0], output_size=len(counts))
    detections = torch.arange(len(room), device=room.device)
    room, detections = (x.repeat_interleave(counts, output_size=len(ious)) for x in (room, detections))
    places, name = ground_truths.long(), f"{prefix}ground_truths"
    check_elements(name, places, (places >= 0) & (places < room), "be a place in the image")
    later = ious[1:], places[1:]
    good = (later[0] < ious[:-1]) | ((later[0] == ious[:-1]) & (later[1] < places[:-1]))
    first = torch.ones_like(room[:1], dtype=torch.bool)
    good = torch.cat((first, good | (detections[1:] != detections[:-1])))
    need = "descend in a detection, of equal ones the later ground truth first"
    check_elements(f"{prefix}ious", ious, good, need)
    pairs = torch.stack((detections, places), 1)
    if len(torch.unique(pairs, dim=0)) < len(pairs):
        raise InputError(f"state field {name} must hold one once for each detection but repeats one")


def _describe(code: int) -> str:
    return describe_box(code, _KINDS)


def _joined(parts: Sequence[Tensor], device: torch.device) -> Tensor:
    """One new tensor of all parts."""
    if not parts:
        return torch.empty(0, dtype=torch.int64, device=device)
    return to_device(torch.cat([part.reshape(-1) for part in parts]), device)


def _starts(sizes: Tensor) -> Tensor:
    return sizes.cumsum(0) - sizes


def spread(starts: Tensor, sizes: Tensor, total: int) -> Tensor:
    """int64 ``[total]``: from each start on, as many indices as its size says."""
    shift = (starts - _starts(sizes)).repeat_interleave(sizes, output_size=total)
    return shift + torch.arange(total, device=starts.device)


def _first_error(batch: MatchBatch, scores: Tensor, lengths: Tensor, sizes: Tensor, found: Tensor) -> Tensor:
    """int64 ``[]``: the smallest error code; on the CPU nothing is counted where nothing is wrong."""
    codes = [found]
    for side, (count, kind) in enumerate(((batch.counts, _COUNTS), (batch.gt_counts, _GT_COUNTS))):
        if count is not None:
            wrong = (count < 0) | (count > lengths[side])
            codes.append(_code(wrong, torch.ones_like(count), torch.ones_like(count), kind))
    flagged = [(~scores.isfinite(), 0, _SCORES)]
    if batch.gt_flags:
        flagged.append((_joined(batch.gt_flags, found.device) != 0, 1, _CROWD))
    for wrong, side, kind in flagged:
        if found.is_cuda or bool(wrong.any()):
            codes.append(_code(wrong, lengths[side], sizes[side], kind))
    return torch.stack(codes).amin()


def _code(wrong: Tensor, lengths: Tensor, sizes: Tensor, kind: int) -> Tensor:
    """int64 ``[]``: the code of the first row that is wrong and no padding."""
    images = torch.arange(len(lengths), device=wrong.device).repeat_interleave(lengths, output_size=len(wrong))
    rows = torch.arange(len(wrong), device=wrong.device) - _starts(lengths)[images]
    codes: Any = pack_box(cast(Any, images), cast(Any, rows), kind)
    codes = torch.where(wrong & (rows < sizes[images]), codes, NO_ERROR)
    first: Tensor = torch.cat((codes, codes.new_full((1,), NO_ERROR))).amin()
    return first


def overlap_hashes(state: OverlapRecords) -> DataHashes:
    """Returns the hashes of images with their labels, scores and overlaps.

    Each detection counts with the id of its image, its label and score, and its overlaps with ground truths of the
    image, in their order; each ground truth with the id of its image and its label.
    """
    images = array_of(state.images)
    sides = [np.repeat(images[:, :2], images[:, column], axis=0) for column in (2, 3)]
    counts = array_of(state.counts).astype(np.int64)
    ends = counts.cumsum()
    place = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    pairs = row_hashes([place, array_of(state.ground_truths), array_of(state.ious)], 0, len(place))
    sums = [np.concatenate([np.zeros(1, np.uint64), half.cumsum(dtype=np.uint64)]) for half in pairs]
    truths = {"image": sides[1], "label": array_of(state.gt_labels)}
    predictions = {
        "image": sides[0],
        "label": array_of(state.labels),
        "score": array_of(state.scores),
        "overlaps": np.stack([half[ends] - half[ends - counts] for half in sums], 1),
    }
    seen = multiset_hash("images", {"image": images})
    hashes = multiset_hash("truths", truths, seen), multiset_hash("predictions", predictions, seen)
    return DataHashes("images", *hashes)
