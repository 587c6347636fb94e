"""Rows of annotation columns grouped by image, with images and categories as positions. No torch, no loop over rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.coco.ids import Ids, positions, sorted_unique
from valor_gpu.inputs.coco import Annotations

Rows = NDArray[np.int64]


@frozen
class Side:
    """The ground truths or the detections of an evaluation, N rows, image after image.

    Attributes:
        columns: the annotations that the rows come from.
        rows: int64 ``[N]`` row numbers in ``columns``; None when all of them are taken in their own order.
        labels: int32 ``[N]`` positions in the sorted category ids; 0 when categories are not used.
        lengths: int64 ``[I]`` rows of each image, in the order of the layout.
    """

    columns: Annotations
    rows: Rows | None
    labels: NDArray[np.int32]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, name: str) -> NDArray[Any]:
        """Column ``name`` of the rows: contiguous, and the column itself where that will do."""
        column: NDArray[Any] = getattr(self.columns, name)
        taken = column if self.rows is None else column.take(self.rows, axis=0)
        return np.require(taken, requirements=["C", "W"])

    def row(self, index: int) -> int:
        """The row in ``columns`` behind row ``index`` of this side."""
        return index if self.rows is None else int(self.rows[index])


@frozen
class Layout:
    """Both sides, with the same order of images.

    Attributes:
        ground_truths: columns, row numbers, labels and lengths of the ground truths.
        detections: the same of the detections.
        images: int64 ``[I]``: which of the sorted image ids the i-th image of the layout is.
    """

    ground_truths: Side
    detections: Side
    images: NDArray[np.int64]

    def lengths(self) -> NDArray[np.int64]:
        """int64 ``[2, I]``: detections and ground truths of each image."""
        return np.stack((self.detections.lengths, self.ground_truths.lengths))

    def image_positions(self) -> NDArray[np.int64]:
        """int64 ``[I]``: where each of the sorted image ids lies in the layout."""
        index = np.empty_like(self.images)
        index[self.images] = np.arange(len(index))
        return index


def lay_out(
    ground_truths: Annotations,
    detections: Annotations,
    images: Ids,
    categories: Ids,
    use_categories: bool,
    strict: bool,
    eligible: Eligible = (None, None),
) -> Layout:
    """The rows to evaluate, image after image.

    Detections that come image after image stay where they are, whatever the order of the images; else images are
    taken by ascending id. Rows of one image and category keep their order.

    Args:
        ground_truths: ground truth columns.
        detections: detection columns.
        images: ascending image ids.
        categories: category ids; ascending when ``use_categories``, else any, also repeated.
        use_categories: whether categories are kept apart.
        strict: the last annotation of an id stands for all of that id, as in pycocotools.
        eligible: bool ``[N]`` of each side, rows that may be taken; None: all. They are told before others stand for
            them.
    """
    selected = [
        _select(side, images, categories, use_categories, strict, may)
        for side, may in zip((ground_truths, detections), eligible)
    ]
    runs = _runs(selected[1][1])
    heads = selected[1][1][runs]
    if len(heads) <= len(images) and not np.bincount(heads, minlength=1).max() > 1:
        rest = np.ones(len(images), bool)
        rest[heads] = False
        order = np.concatenate((heads, np.flatnonzero(rest))).astype(np.int64, copy=False)
    else:
        order = np.arange(len(images))
    image_positions = np.empty(len(images), np.int32)
    image_positions[order] = np.arange(len(images), dtype=np.int32)
    sides = [
        _by_image(columns, *columns_of, image_positions)
        for columns, columns_of in zip((ground_truths, detections), selected)
    ]
    return Layout(sides[0], sides[1], order)


Eligible = tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]
_Selected = tuple[Rows | None, NDArray[np.int32], NDArray[np.int32]]


def _select(
    columns: Annotations,
    images: Ids,
    categories: Ids,
    use_categories: bool,
    strict: bool,
    eligible: NDArray[np.bool_] | None,
) -> _Selected:
    """(row numbers or None for all, image positions, labels) of the rows to evaluate."""
    known = sorted_unique(categories)
    image_index = _positions_by_runs(columns.image_id, images)
    labels = positions(columns.category_id, known)
    rows = None
    if strict and columns.repeated_ids:
        taken = (image_index >= 0) & ((labels >= 0) | (not use_categories))
        first = np.flatnonzero(taken if eligible is None else taken & eligible)
        rows = columns.last_of_id()[first[stable_order(image_index[first], len(images))]]
        image_index, labels, eligible = image_index[rows], labels[rows], None
    keep = (image_index >= 0) & (labels >= 0)
    keep = keep if eligible is None else keep & eligible
    if not keep.all():
        rows = np.flatnonzero(keep) if rows is None else rows[keep]
        image_index, labels = image_index[keep], labels[keep]
    if use_categories:
        return rows, image_index, labels
    order = _by_category(labels, known, categories)
    return order if rows is None else rows[order], image_index[order], np.zeros(len(order), np.int32)


def _by_category(labels: NDArray[np.int32], known: Ids, categories: Ids) -> Rows:
    """Rows category by category in the order of ``categories``, the rows of a repeated category repeated."""
    order = stable_order(labels, len(known))
    bounds = np.searchsorted(labels[order], np.arange(len(known) + 1))
    blocks = [order[bounds[c] : bounds[c + 1]] for c in positions(categories, known)]
    return np.concatenate([np.zeros(0, np.int64), *blocks])


def _by_image(
    columns: Annotations,
    rows: Rows | None,
    images: NDArray[np.int32],
    labels: NDArray[np.int32],
    image_positions: NDArray[np.int32],
) -> Side:
    """A side whose images follow each other as ``image_positions`` says."""
    position = image_positions[images]
    lengths = np.bincount(position, minlength=len(image_positions)).astype(np.int64)
    if bool((position[1:] >= position[:-1]).all()):
        return Side(columns, rows, labels, lengths)
    order = stable_order(position, len(image_positions))
    return Side(columns, order if rows is None else rows.take(order), labels.take(order), lengths)


def stable_order(keys: NDArray[np.int32], size: int) -> Rows:
    """int64 ``[N]``: a stable order of ``keys``, all in 0 .. ``size`` - 1.

    numpy sorts 16-bit integers by radix, ten times as fast as wider ones.

    Example:
        >>> stable_order(np.array([2, 0, 2, 1], np.int32), 3).tolist()
        [1, 3, 0, 2]
    """
    order = np.argsort((keys & 0xFFFF).astype(np.uint16), kind="stable")
    if size > 1 << 16:
        order = order[np.argsort((keys >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def chosen_rows(side: Side, chosen: NDArray[np.bool_]) -> Side:
    """The chosen rows of a side, bool ``[N]``."""
    rows = np.flatnonzero(chosen) if side.rows is None else side.rows[chosen]
    image = np.repeat(np.arange(len(side.lengths)), side.lengths)[chosen]
    lengths = np.bincount(image, minlength=len(side.lengths)).astype(np.int64)
    return Side(side.columns, rows, side.labels[chosen], lengths)


def select_rows(side: Side, images: Rows, labels: NDArray[np.int32] | None = None) -> tuple[Side, Rows]:
    """Returns the rows of some images of a side, and their places in it.

    Args:
        side: ground truths or detections.
        images: int64 ``[I']`` positions of images, in the order wanted.
        labels: int32 ``[K]``, the new label of each label, -1: its rows are left out; None: labels stay.
    """
    lengths: NDArray[np.int64] = side.lengths[images]
    firsts: NDArray[np.int64] = side.lengths.cumsum() - side.lengths
    begins: Any = firsts[images] - (lengths.cumsum() - lengths)
    rows: Rows = np.repeat(begins, lengths) + np.arange(int(lengths.sum()))
    taken = Side(side.columns, rows if side.rows is None else side.rows[rows], side.labels[rows], lengths)
    if labels is None:
        return taken, rows
    taken = replace(taken, labels=labels[taken.labels])
    kept = taken.labels >= 0
    return chosen_rows(taken, kept), rows[kept]


def _runs(values: NDArray[Any]) -> Rows:
    """Where each run of equal values begins."""
    if not len(values):
        return np.zeros(0, np.int64)
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(values[1:] != values[:-1]) + 1))


def _positions_by_runs(ids: Ids, wanted: Ids) -> NDArray[np.int32]:
    """:func:`positions`, looked up once for each run of equal ids where runs are long."""
    runs = _runs(ids)
    if 4 * len(runs) > len(ids):
        return positions(ids, wanted)
    return np.repeat(positions(ids[runs], wanted), np.diff(runs, append=len(ids)))
