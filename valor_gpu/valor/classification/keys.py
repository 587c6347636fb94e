"""The rows of one label key, and what must hold of scores and keys before anything is counted."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.valor.columns import Columns, Rows

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class KeyRows:
    """One label key: its labels are 0 to C - 1, the datums of the evaluation 0 to D - 1.

    Attributes:
        key: the label key.
        values: its label values, C.
        datums: place of each datum in ``Columns.datums``, ``[D]``.
        true_datum, true_label: int64 ``[G]``, ground truths in ascending order of datum and label.
        datum, label, score: ``[R]``, each label of a prediction, in the order in which they came.
    """

    key: str
    values: list[str]
    datums: Integers
    true_datum: Integers
    true_label: Integers
    datum: Integers
    label: Integers
    score: NDArray[np.float64]

    @property
    def num_datums(self) -> int:
        """D."""
        return len(self.datums)

    def keep(self, rows: NDArray[np.bool_]) -> KeyRows:
        """Without the rows of predictions that the mask leaves out."""
        return replace(self, datum=self.datum[rows], label=self.label[rows], score=self.score[rows])

    @cached_property
    def merged(self) -> KeyRows:
        """Several scores of one label and datum (a label map makes them) as one: the largest, at the first place."""
        codes = self.datum * len(self.values) + self.label
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        if len(starts) == len(codes):
            return self
        first = order[starts]
        places = np.argsort(first)
        score = np.maximum.reduceat(self.score[order], starts)[places]
        first = first[places]
        return replace(self, datum=self.datum[first], label=self.label[first], score=score)

    @cached_property
    def is_true(self) -> NDArray[np.bool_]:
        """Whether the label of each row is a ground truth of its datum, bool ``[R]``."""
        classes = len(self.values)
        only = np.full(self.num_datums, -1, np.int64)
        only[self.true_datum] = self.true_label
        found: NDArray[np.bool_] = only[self.datum] == self.label
        if len(self.true_datum) > np.count_nonzero(only >= 0):
            truths = self.true_datum * classes + self.true_label
            found |= np.isin(self.datum * classes + self.label, truths)
        return found

    @cached_property
    def true_pairs(self) -> Integers:
        """How many ground truths equal each row, ``[R]``."""
        classes = len(self.values)
        truths, counts = np.unique(self.true_datum * classes + self.true_label, return_counts=True)
        found = np.zeros(len(self.datum), np.int64)
        codes = (self.datum * classes + self.label)[self.is_true]
        found[self.is_true] = counts[np.searchsorted(truths, codes)]
        return found

    @cached_property
    def false_pairs(self) -> Integers:
        """How many ground truths of the datum of each row are of another label, ``[R]``."""
        truths = np.bincount(self.true_datum, minlength=self.num_datums)
        found: Integers = truths[self.datum] - self.true_pairs
        return found

    @cached_property
    def has_truth(self) -> NDArray[np.bool_]:
        """Whether each datum has a ground truth of the key, bool ``[D]``."""
        found = np.zeros(self.num_datums, np.bool_)
        found[self.true_datum] = True
        return found

    @cached_property
    def winner(self) -> Integers:
        """The row of the largest score of each datum, of equal scores the first; -1 without rows. ``[D]``."""
        best = np.full(self.num_datums, -np.inf)
        np.maximum.at(best, self.datum, self.score)
        rows = np.flatnonzero(self.score == best[self.datum])[::-1]
        winner = np.full(self.num_datums, -1, np.int64)
        winner[self.datum[rows]] = rows  # the last to be written is the first row
        return winner


def empty_rows(key: str) -> KeyRows:
    """A label key without datums, labels and rows."""
    none = np.zeros(0, np.int64)
    return KeyRows(key, [], none, none, none, none, none, np.zeros(0))


def split_keys(
    columns: Columns, datums: NDArray[np.bool_] | None = None, *, every_label: bool = False, repeated: bool = False
) -> Iterator[KeyRows]:
    """The rows of each label key, keys in the order in which they came.

    Args:
        columns: rows of datums that are left out must be gone already.
        datums: which datums there are; default: all.
        every_label: also labels without rows.
        repeated: a ground truth that a datum has twice is there twice.
    """
    kept = np.arange(len(columns.datums)) if datums is None else np.flatnonzero(datums)
    place = np.full(len(columns.datums), -1, np.int64)
    place[kept] = np.arange(len(kept))
    keys = list(dict.fromkeys(key for key, _ in columns.labels))
    key_codes = {key: code for code, key in enumerate(keys)}
    key_of_label = np.array([key_codes[key] for key, _ in columns.labels], np.int64)
    sides = [_by_key(rows, key_of_label, len(keys)) for rows in (columns.groundtruths, columns.predictions)]
    for code, key in enumerate(keys):
        truths, rows = (side[code] for side in sides)
        used = np.zeros(len(columns.labels), np.bool_)
        used[truths.label] = used[rows.label] = True
        labels = np.flatnonzero(key_of_label == code if every_label else used)
        if len(labels) == 0:
            continue
        local = np.full(len(columns.labels), -1, np.int64)
        local[labels] = np.arange(len(labels))
        pairs = np.sort(place[truths.datum] * len(labels) + local[truths.label])
        pairs = pairs if repeated else np.unique(pairs)
        yield KeyRows(
            key=key,
            values=[columns.labels[label][1] for label in labels],
            datums=kept,
            true_datum=pairs // len(labels),
            true_label=pairs % len(labels),
            datum=place[rows.datum],
            label=local[rows.label],
            score=rows.score,
        )


def _by_key(rows: Rows, key_of_label: Integers, keys: int) -> list[Rows]:
    if keys == 1:
        return [rows]
    codes = key_of_label[rows.label]
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(keys + 1))
    return [rows.take(order[start:end]) for start, end in itertools.pairwise(ends)]


def check_sums(columns: Columns, tolerance: float) -> None:
    """Raises unless the scores of every datum and label key sum to 1, give or take ``tolerance``."""
    for rows in split_keys(columns):
        sums = np.bincount(rows.datum, rows.score, minlength=rows.num_datums)
        listed = np.bincount(rows.datum, minlength=rows.num_datums) > 0
        bad = np.flatnonzero(listed & ~(np.abs(sums - 1) <= tolerance))
        if len(bad):
            raise InputError(
                f"predictions must have scores that sum to 1 for each datum and label key but those of key "
                f"{rows.key!r} of datum {columns.datums[bad[0]]!r} sum to {sums[bad[0]]:.9g}"
            )


def check_bounds(columns: Columns, tolerance: float) -> None:
    """Raises unless every score lies in [0, 1], give or take ``tolerance``."""
    rows = columns.predictions
    bad = np.flatnonzero((rows.score < -tolerance) | (rows.score > 1 + tolerance))
    if len(bad):
        raise InputError(
            f"predictions must have scores in [0, 1] but got {rows.score[bad[0]]:.9g} for {_row(columns, bad[0])}"
        )


def check_once(columns: Columns) -> None:
    """Raises unless every datum has at most one score of each label."""
    rows = columns.predictions
    codes = rows.datum.astype(np.int64) * len(columns.labels) + rows.label
    ordered = np.sort(codes)
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(again):
        first, second = np.flatnonzero(codes == again[0])[:2]
        raise InputError(
            f"predictions must have one score of each label of a datum but got {rows.score[first]:.9g} and "
            f"{rows.score[second]:.9g} for {_row(columns, first)}"
        )


def _row(columns: Columns, place: np.int64) -> str:
    """The label and the datum of a row of predictions, for messages."""
    rows = columns.predictions
    return f"{': '.join(columns.labels[rows.label[place]])} of datum {columns.datums[rows.datum[place]]!r}"


def check_keys(columns: Columns) -> None:
    """Raises unless ground truths and predictions of every datum that has both are of the same label keys."""
    keys = {key: code for code, key in enumerate(dict.fromkeys(key for key, _ in columns.labels))}
    key_of_label = np.array([keys[key] for key, _ in columns.labels], np.int64)
    if not keys:
        return
    true, found = (
        np.unique(rows.datum.astype(np.int64) * len(keys) + key_of_label[rows.label])
        for rows in (columns.groundtruths, columns.predictions)
    )
    one_sided = np.setxor1d(true, found, assume_unique=True)
    bad = one_sided[np.isin(one_sided // len(keys), np.intersect1d(true // len(keys), found // len(keys)))]
    if len(bad):
        datum = bad[0] // len(keys)
        names = [[key for key, code in keys.items() if datum * len(keys) + code in side] for side in (true, found)]
        raise InputError(
            f"ground truth label keys must match prediction label keys but datum {columns.datums[datum]!r} has "
            f"ground truths of {names[0]} and predictions of {names[1]}"
        )
