"""Pixels of a segmentation by label key, summed over datums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.ops.mask_counts.cpu import GROUP_BYTES, count_mask_sets
from valor_gpu.ops.mask_counts.reference import MaskCounts, MaskSet
from valor_gpu.valor.columns import Columns, Rows
from valor_gpu.valor.mask_columns import Masks

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_LOOSE = 1 << 20  # counts of pairs that wait to be summed, 16 MB


@dataclass
class KeyPixels:
    """One label key: its labels are 0 to L - 1.

    Attributes:
        key: the label key.
        values: its label values, L.
        labelled: whether each label has an annotation of a ground truth, bool ``[L]``.
        counts: int64 ``[3, L]``: right, predicted and true pixels of each label.
        pixels: of all datums that have an annotation of the key.
        agreeing: pixels where the labels of both sides are the same, or none on either.
        overlap: pixels of several labels, in ground truths and in predictions.
        overlap_datums: datums that have such pixels, likewise.
    """

    key: str
    values: list[str]
    labelled: Mask
    counts: Integers
    pixels: int = 0
    agreeing: int = 0
    overlap: Integers = field(default_factory=lambda: np.zeros(2, np.int64))
    overlap_datums: Integers = field(default_factory=lambda: np.zeros(2, np.int64))
    _pairs: list[tuple[Integers, Integers]] = field(default_factory=list)
    _loose: int = 0

    def add(self, labels: Integers, found: MaskCounts, pixels: int) -> None:
        """Adds a datum.

        Args:
            labels: of the key, of each label of the datum.
            found: its counts.
            pixels: its size.
        """
        self.pixels += pixels
        self.counts[:, labels] += found.counts
        self.agreeing += found.agreeing
        overlap = np.array([found.gt_overlap, found.overlap])
        self.overlap += overlap
        self.overlap_datums += overlap > 0
        if found.pairs is not None:
            rows, columns = np.nonzero(found.pairs)
            places = np.append(labels, len(self.values))
            codes = places[rows] * (len(self.values) + 1) + places[columns]
            self._add_pairs(codes, found.pairs[rows, columns])

    def add_background(self, pixels: int) -> None:
        """Adds a datum of which a filter kept no annotation."""
        self.pixels += pixels
        self.agreeing += pixels
        self._add_pairs(np.array([(len(self.values) + 1) ** 2 - 1]), np.array([pixels]))

    def _add_pairs(self, codes: Integers, numbers: Integers) -> None:
        self._pairs.append((codes, numbers))
        self._loose += len(codes)
        if self._loose > _LOOSE:
            self._pairs, self._loose = [self.pairs()], 0

    def pairs(self) -> tuple[Integers, Integers]:
        """Codes ``a * (L + 1) + b`` of true label a and predicted label b, ascending, L for none, and their pixels."""
        if not self._pairs:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        codes, places = np.unique(np.concatenate([codes for codes, _ in self._pairs]), return_inverse=True)
        numbers = np.zeros(len(codes), np.int64)
        np.add.at(numbers, places, np.concatenate([numbers for _, numbers in self._pairs]))
        return codes, numbers


class _Grouped(NamedTuple):
    """Rows of one side in the order of datum and key."""

    rows: Rows
    order: Integers
    codes: Integers

    @classmethod
    def of(cls, rows: Rows, codes: Integers) -> _Grouped:
        order = np.argsort(codes, kind="stable")
        return cls(rows, order, codes[order])

    def at(self, code: int) -> tuple[list[Mask], NDArray[np.int32]]:
        """Masks and labels of a datum and key, in the order in which they came."""
        first, end = np.searchsorted(self.codes, [code, code + 1])
        chosen = self.order[first:end]
        return [self.rows.masks[place] for place in self.rows.annotation[chosen].tolist()], self.rows.label[chosen]


def count_keys(
    columns: Columns, datums: Mask, truths: Mask, rows: Mask, *, exclusive: bool, pairs: bool, every_label: bool
) -> list[KeyPixels]:
    """Pixels of each label key, keys in the order in which they came.

    Args:
        columns: of all datums, with masks.
        datums: which datums a filter keeps. A datum counts for the keys that any of its annotations has, also where
            the filter leaves these out: its pixels are then of no label.
        truths: which rows of ground truths it keeps.
        rows: which rows of predictions it keeps.
        exclusive: of masks that overlap the first keeps the pixel.
        pairs: also count pairs of labels.
        every_label: also labels without rows.
    """
    keys = list(dict.fromkeys(key for key, _ in columns.labels))
    codes_of_keys = {key: code for code, key in enumerate(keys)}
    key_of_label = np.array([codes_of_keys[key] for key, _ in columns.labels], np.int64)
    every = [_codes(side, key_of_label, len(keys)) for side in (columns.groundtruths, columns.predictions)]
    kept = [side.take(mask) for side, mask in ((columns.groundtruths, truths), (columns.predictions, rows))]
    places = np.unique(np.concatenate([codes[datums[codes // max(len(keys), 1)]] for codes in every]))
    found, local = _empty_keys(columns, keys, key_of_label, kept, every_label)
    sides = [_Grouped.of(side, _codes(side, key_of_label, len(keys))) for side in kept]
    sizes = datum_pixels(columns)
    waiting = _Waiting(exclusive, pairs, any(isinstance(side.masks, Masks) for side in kept))
    for code in places.tolist():
        pixels = int(sizes[code // len(keys)])
        one, used = _mask_set(*sides[0].at(code), *sides[1].at(code))
        if len(used) == 0:
            found[code % len(keys)].add_background(pixels)
        else:
            waiting.add(one, local[used], found[code % len(keys)], pixels)
    waiting.count()
    return [key for key in found if key.values]


class _Waiting:
    """Sets of masks that are counted together, before drawn ones take more than ``GROUP_BYTES``.

    Args:
        exclusive: of masks that overlap the first keeps the pixel.
        pairs: also count pairs of labels.
        drawn: whether masks are drawn from outlines, so that they take memory until they are counted.
    """

    def __init__(self, exclusive: bool, pairs: bool, drawn: bool) -> None:
        self._exclusive, self._pairs, self._drawn = exclusive, pairs, drawn
        self._sets: list[MaskSet] = []
        self._ends: list[tuple[KeyPixels, Integers, int]] = []
        self._bytes = 0

    def add(self, one: MaskSet, labels: Integers, key: KeyPixels, pixels: int) -> None:
        """Adds the masks of a datum and key; see :meth:`KeyPixels.add`."""
        self._sets.append(one)
        self._ends.append((key, labels, pixels))
        if self._drawn:
            self._bytes += sum(mask.nbytes for mask in (*one.gt_masks, *one.masks))
            if self._bytes >= GROUP_BYTES:
                self.count()

    def count(self) -> None:
        """Counts what waits."""
        counted = count_mask_sets(self._sets, exclusive=self._exclusive, pairs=self._pairs)
        for counts, (key, labels, pixels) in zip(counted, self._ends):
            key.add(labels, counts, pixels)
        self._sets, self._ends, self._bytes = [], [], 0


def _codes(rows: Rows, key_of_label: Integers, keys: int) -> Integers:
    codes: Integers = rows.datum.astype(np.int64) * keys + key_of_label[rows.label]
    return codes


def _empty_keys(
    columns: Columns, keys: list[str], key_of_label: Integers, kept: list[Rows], every_label: bool
) -> tuple[list[KeyPixels], Integers]:
    """Keys without pixels, and the place of each label in its key."""
    labelled, used = np.zeros((2, len(columns.labels)), np.bool_)
    labelled[kept[0].label] = True
    for side in kept:
        used[side.label] = True
    local = np.full(len(columns.labels), -1, np.int64)
    found = []
    for code, key in enumerate(keys):
        labels = np.flatnonzero((key_of_label == code) & (used | every_label))
        local[labels] = np.arange(len(labels))
        values = [columns.labels[label][1] for label in labels.tolist()]
        found.append(KeyPixels(key, values, labelled[labels], np.zeros((3, len(labels)), np.int64)))
    return found, local


def _mask_set(
    gt_masks: list[Mask], gt_labels: NDArray[np.int32], masks: list[Mask], labels: NDArray[np.int32]
) -> tuple[MaskSet, Integers]:
    """A set whose labels are counted from 0, and which labels these are."""
    used, places = np.unique(np.concatenate([gt_labels, labels]), return_inverse=True)
    codes = places.tolist()
    return MaskSet(gt_masks, codes[: len(gt_masks)], masks, codes[len(gt_masks) :], len(used)), used


def datum_pixels(columns: Columns) -> Integers:
    """Pixels of each datum, int64 ``[datums]``."""
    sizes = np.zeros(len(columns.datums), np.int64)
    for datum, size in _sizes(columns):
        sizes[datum] = size
    return sizes


def _sizes(columns: Columns) -> Iterator[tuple[int, int]]:
    for side in (columns.groundtruths, columns.predictions):
        for datum, annotation in zip(side.datum.tolist(), side.annotation.tolist()):
            masks = side.masks
            yield datum, masks.pixels(annotation) if isinstance(masks, Masks) else masks[annotation].size
