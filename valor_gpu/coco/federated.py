"""LVIS' federated ground truths: which rows are evaluated, and which unmatched detections do not count. No torch.

An image is annotated exhaustively only for some categories: those of its ground truths, unless
``not_exhaustive_category_ids`` lists them, and those that it certainly lacks, ``neg_category_ids``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.coco.ids import Ids, members, positions, sorted_unique
from valor_gpu.coco.layout import Eligible, Layout, Side, chosen_rows, lay_out
from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import shown
from valor_gpu.inputs.coco import Annotations, Dataset
from valor_gpu.inputs.text_ids import TextIds, codes_of, shown_ids
from valor_gpu.ops.assign.match_batch import UNMATCHED_IGNORED

_IMAGE_FIELDS = ("neg_category_ids", "not_exhaustive_category_ids")


def best_of_images(image_ids: Ids, scores: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Rows of results that LVIS keeps, image after image in the order in which the images first occur.

    Args:
        image_ids: int64 ``[N]``.
        scores: ``[N]``; NaN ranks last.
        limit: most rows of an image, those of highest score, of equal scores the first; negative: no limit.

    Returns:
        int64 row numbers: of an image with more than ``limit`` rows by descending score, else in their own order.

    Example:
        >>> best_of_images(np.array([8, 5, 8, 8, 5]), np.array([0.1, 0.2, 0.9, 0.1, 0.3]), 2).tolist()
        [2, 0, 1, 4]
    """
    if limit < 0:
        return np.arange(len(image_ids), dtype=np.int64)
    known = sorted_unique(image_ids)
    group = positions(image_ids, known)
    first = np.full(len(known), len(image_ids))
    np.minimum.at(first, group, np.arange(len(image_ids)))
    order_of_group = np.empty(len(known), np.int64)
    order_of_group[np.argsort(first)] = np.arange(len(known))
    place = order_of_group[group]
    sizes = np.bincount(place, minlength=len(known))
    crowded = (sizes > limit)[place]
    order = np.lexsort((np.where(crowded, -scores, 0.0), place))
    starts = sizes.cumsum() - sizes
    ranks = np.arange(len(order)) - np.repeat(starts, sizes)
    return order[ranks < limit]


@dataclass(frozen=True, eq=False)
class FederatedRows:
    """The rows to evaluate.

    Attributes:
        layout: ground truths, and detections of the categories that their image was searched for.
        flags: uint8 ``[D]``: ``UNMATCHED_IGNORED`` where the image is not annotated exhaustively.
        lists: of the images, those of categories that are not there and of those not all of which are marked, each
            int64 ``[N, 2]``: place of the image and of the category; in no order.
    """

    layout: Layout
    flags: NDArray[np.uint8]
    lists: tuple[NDArray[np.int64], NDArray[np.int64]]


def federated_rows(
    ground_truths: Dataset,
    detections: Annotations,
    images: Ids,
    categories: Ids,
    use_categories: bool,
    strict: bool = True,
) -> FederatedRows:
    """Lays out the rows that LVIS evaluates.

    Args:
        ground_truths: columns and image objects.
        detections: columns of the detections.
        images: ascending image ids.
        categories: category ids; ascending when ``use_categories``, else any.
        use_categories: whether categories are kept apart.
        strict: the last annotation of an id stands for all of that id.

    Raises:
        InputError: an image is not there, or lacks one of its lists of categories.
    """
    lists = _lists_of_images(ground_truths, images)
    rows = ground_truths.annotations
    eligible: Eligible = (None, None)
    if len(categories):  # lvis-api asks for areas between 0 and infinity, both left out, when it asks for categories
        eligible = _with_area(rows), _with_area(detections)
    annotations = replace(rows, iscrowd=np.zeros(len(rows), np.bool_))  # nothing is a crowd in LVIS
    layout = lay_out(annotations, detections, images, categories, use_categories, strict, eligible)
    known = sorted_unique(categories)
    found, true = (_codes(side, layout.images, known) for side in (layout.detections, layout.ground_truths))
    texts = rows.texts.category_id
    negative, partial = (_codes_of_lists(lists[name], known, texts) for name in _IMAGE_FIELDS)
    searched = members(found, np.concatenate((true, negative)))
    layout = replace(layout, detections=chosen_rows(layout.detections, searched))
    flags = members(found[searched], partial) * np.uint8(UNMATCHED_IGNORED)
    pairs = (np.stack(np.divmod(np.unique(codes), max(len(known), 1)), 1) for codes in (negative, partial))
    return FederatedRows(layout, flags, (next(pairs), next(pairs)))


def _with_area(rows: Annotations) -> NDArray[np.bool_] | None:
    """Bool ``[N]``: rows with an area between 0 and infinity, None for all; NaN stays, to be reported."""
    left_out = (rows.area <= 0) | (rows.area == np.inf)
    return ~left_out if left_out.any() else None


def _lists_of_images(ground_truths: Dataset, images: Ids) -> dict[str, list[Sequence[Any]]]:
    """The lists of categories of each image, in the order of ``images``."""
    texts = ground_truths.annotations.texts
    objects: dict[Any, tuple[int, dict[str, Any]]] = {}
    for row, image in enumerate(ground_truths.images or ()):
        objects[image["id"]] = row, image
    lists: dict[str, list[Sequence[Any]]] = {name: [] for name in _IMAGE_FIELDS}
    is_id = _is_id if texts.category_id is None else _is_text
    for number in shown_ids(images, texts.image_id):
        if number not in objects:
            raise InputError(f"params.img_ids must be ids of images but got {shown(number)}")
        row, image = objects[number]
        for name, values in lists.items():
            given = image.get(name)
            if not isinstance(given, (list, tuple)) or not all(map(is_id, given)):
                place = f"{ground_truths.where}: images[{row}]"
                raise InputError(f"{place}.{name} must be a list of category ids but got {given!r:.60}")
            values.append(given)
    return lists


def _is_id(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and -(2**63) <= int(value) < 2**63


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _codes(side: Side, images: NDArray[np.int64], known: Ids) -> NDArray[np.int64]:
    """int64 ``[N]``: position of the image among the sorted ids x number of categories + position of the category."""
    ids = side.columns.category_id if side.rows is None else side.columns.category_id.take(side.rows)
    return np.repeat(images, side.lengths) * max(len(known), 1) + positions(ids, known)


def _codes_of_lists(lists: Sequence[Sequence[Any]], known: Ids, texts: TextIds | None) -> NDArray[np.int64]:
    """The same for the categories listed with each image, those that are not evaluated left out."""
    places = positions(codes_of(list(chain.from_iterable(lists)), texts), known)
    images = np.repeat(np.arange(len(lists)), [len(values) for values in lists])
    codes: NDArray[np.int64] = images * max(len(known), 1) + places
    return codes[places >= 0]
