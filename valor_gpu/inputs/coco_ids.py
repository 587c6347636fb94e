"""Ids of COCO records, integers or texts: of one kind in a file and its results, with common codes. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from valor_gpu.errors import InputError
from valor_gpu.inputs._coco_records import Columns, shown
from valor_gpu.inputs.coco_columns import Annotations, Dataset
from valor_gpu.inputs.text_ids import Codes, IdTexts, TextIds, codes_of, recode, shown_ids, union

_LISTS = {"image_id": ("images", "image_ids"), "category_id": ("categories", "category_ids")}
"""Where a dataset lists what records name by a field: the array, and the attribute of its codes."""


def texts_of(columns: Columns, field: str) -> TextIds | None:
    """The texts of a column whose ids are texts; None where they are integers."""
    texts = columns.get(f"{field} texts")
    return None if texts is None else TextIds(tuple(texts.tolist()))


def row_ids(rows: Annotations, name: str, chosen: Any = slice(None)) -> list[Any]:
    """``image_id`` or ``category_id`` of the chosen rows as their file has them."""
    return shown_ids(getattr(rows, name)[chosen], getattr(rows.texts, name))


def row_codes(rows: Annotations, name: str, ids: Sequence[Any]) -> Codes:
    """int64 ``[n]``: what stands for each of ``ids`` in a column of ``rows``; -1 of a text that no row has."""
    return codes_of(ids, getattr(rows.texts, name))


def listed_ids(data: Dataset, name: str) -> list[Any]:
    """Ids of the images or of the categories that a dataset lists, in its order, repeated ones kept."""
    return shown_ids(getattr(data, _LISTS[name][1]), getattr(data.annotations.texts, name))


def joined(data: Dataset, images: TextIds | None, categories: TextIds | None) -> Dataset:
    """A dataset whose records and lists have common codes; both are what the lists hold.

    Raises:
        InputError: records name images or categories by ids of another kind than those of the lists; says where.
    """
    if images is None and categories is None and data.annotations.texts == (None, None):
        return data
    lists = replace(
        data, annotations=replace(data.annotations.take(np.zeros(0, np.int64)), texts=IdTexts(images, categories))
    )
    whole, rows = aligned(lists, data.annotations)
    return replace(whole, annotations=rows)


def aligned(
    data: Dataset, rows: Annotations, image_ids: Sequence[Any] = (), category_ids: Sequence[Any] = ()
) -> tuple[Dataset, Annotations]:
    """A dataset, and records on it, with common codes.

    Args:
        data: the dataset.
        rows: its own records, or results on it.
        image_ids: texts that need a code besides.
        category_ids: likewise.

    Raises:
        InputError: a record names its image or category by an id of another kind than the dataset does.
    """
    if (
        data.annotations.texts == (None, None)
        and rows.texts == (None, None)
        and not any(map(_has_text, (image_ids, category_ids)))
    ):
        return data, rows
    merged = []
    for name, more in (("image_id", image_ids), ("category_id", category_ids)):
        numbers = _are_numbers(data, rows, name)
        of_more = TextIds.of(v for v in more if isinstance(v, str)) if _has_text(more) and not numbers else None
        merged.append(union([getattr(data.annotations.texts, name), getattr(rows.texts, name), of_more]))
    texts = IdTexts(*merged)
    old = data.annotations.texts
    images = recode(data.image_ids, old.image_id, texts.image_id)
    categories = recode(data.category_ids, old.category_id, texts.category_id)
    annotations = _recoded(data.annotations, texts)
    return replace(data, image_ids=images, category_ids=categories, annotations=annotations), _recoded(rows, texts)


def _has_text(values: Sequence[Any]) -> bool:
    return bool(len(values)) and isinstance(values[0], str)


def _recoded(rows: Annotations, texts: IdTexts) -> Annotations:
    image_id, category_id = (recode(getattr(rows, n), getattr(rows.texts, n), getattr(texts, n)) for n in _LISTS)
    sizes = rows.images
    if sizes is not None:
        sizes = replace(sizes, ids=recode(sizes.ids, sizes.texts, texts.image_id), texts=texts.image_id)
    return replace(rows, image_id=image_id, category_id=category_id, images=sizes, texts=texts)


def _are_numbers(data: Dataset, rows: Annotations, name: str) -> bool:
    """Whether ids are integers; raises for the first row whose id is of another kind than those of ``data``."""
    many, attribute = _LISTS[name]
    there = len(getattr(data, attribute)) > 0
    has = rows.has(name)
    known, given = getattr(data.annotations.texts, name), getattr(rows.texts, name)
    in_data, in_rows = there or bool(data.annotations.has(name).any()), bool(has.any())
    if not (in_data and in_rows) or (known is None) == (given is None):
        return (in_data and known is None) or (in_rows and given is None)
    row = int(has.argmax())
    need = "a 64-bit integer" if known is None else "a text"
    of = f"ids of the {many}" if there else f"{name} of the annotations"
    got = shown(row_ids(rows, name, [row])[0])
    raise InputError(f"{rows.place(row)}.{name} must be {need}, as the {of} of {data.where} are, but got {got}")
