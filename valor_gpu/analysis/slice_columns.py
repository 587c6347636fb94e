"""Columns about images: joined to the images of a result, and dealt out to slices. Imports no torch."""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu._frozen import frozen
from valor_gpu.analysis.image_names import agreeing_names, id_text, names_of_images
from valor_gpu.analysis.images import ImageNumbers
from valor_gpu.checks import near_names
from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs.value_tables import Columns, plain_value

Ints = NDArray[np.int64]

ID_COLUMNS = ("image_id", "image", "file_name")
"""Columns that may say which image a row is of; the first of them that a table has is used."""
_MISSING = "none"
"""What a crossing calls a value that is missing."""


@frozen
class Dealt:
    """Slices of the images by a column, or by several at once.

    Attributes:
        column: name; of a crossing the names, joined by ``", "``.
        values: label of each slice, ascending, None for images without a value, which come last.
        groups: ascending positions of the images of each slice.
    """

    column: str
    values: Sequence[str | None]
    groups: Sequence[Ints]

    def codes(self, images: int) -> Ints:
        """Returns the place of the slice of each image, int64 ``[I]``."""
        codes = np.zeros(images, np.int64)
        for place, group in enumerate(self.groups):
            codes[group] = place
        return codes


# ------------------------------------------------------------------------------------------------------ joining a table


def joined_columns(analysis: ImageNumbers, columns: Columns, names: Sequence[str]) -> Columns:
    """Returns columns of a table, with the value of each image in the order of their positions.

    Args:
        analysis: whose images they are.
        columns: of :func:`valor_gpu.inputs.value_tables.read_columns`.
        names: of the columns that are wanted.

    Raises:
        InputError: there is no such column, an image has no row, a row is of no image, or an image has two rows.
    """
    for name in names:
        if name not in columns:
            known = [each for each in columns if each not in ID_COLUMNS]
            raise InputError(
                f"columns must be among {', '.join(map(repr, known)) or 'none'}, which table has, but got {name!r}"
                f"{near_names(name, known)}"
            )
    places = _places_of_images(analysis, columns)
    return {name: [columns[name][place] for place in places] for name in names}


def _places_of_images(analysis: ImageNumbers, columns: Columns) -> Sequence[int]:
    """The row of each image."""
    column = next((name for name in ID_COLUMNS if name in columns), None)
    if analysis.image_ids is None and column != "image_id":
        rows = len(next(iter(columns.values()), ()))
        if rows != analysis.images:
            raise InputError(
                f"table must have a row for each of {analysis.images} images, in the order of their arrival, but has"
                f" {rows}: the metric knows no ids of images"
            )
        return np.argsort(np.argsort(analysis.arrival())).tolist()  # type: ignore[no-any-return]
    if column is None:
        raise InputError(
            f"table must have a column {', '.join(map(repr, ID_COLUMNS[:-1]))} or {ID_COLUMNS[-1]!r}, which says of"
            f" which image a row is, but has {', '.join(map(repr, columns)) or 'none'}"
        )
    named, keys = agreeing_names(column, columns[column], names_of_images(analysis, column))
    return _matched(named, keys, column, analysis.image_ids is None)


def _matched(rows: Sequence[Any], keys: Sequence[Any], column: str, by_place: bool) -> list[int]:
    """The place in ``rows`` of each key; numbers match their texts."""
    places: dict[str, int] = {}
    for place, value in enumerate(rows):
        if value is None:
            raise InputError(f"table must have {column} in every row but row {place} has none")
        if (text := id_text(value)) in places:
            raise InputError(
                f"table must have one row for each image but {column} {value!r} is in rows {places[text]} and {place}"
            )
        places[text] = place
    texts = [id_text(key) for key in keys]
    known = set(texts)
    unknown = [rows[place] for text, place in places.items() if text not in known]
    if unknown:
        how = (
            ": image_id must count images from 0 as they came, since the metric knows no ids"
            if by_place
            else (f", where the result has {', '.join(map(repr, keys[:3]))}{', ...' if len(keys) > 3 else ''}")
        )
        raise InputError(
            f"table must have rows of images of the result alone but {len(unknown)} of {len(rows)} are of none, the"
            f" first is {column} {unknown[0]!r}{how}"
        )
    lacking = [key for key, text in zip(keys, texts) if text not in places]
    if lacking:
        raise InputError(
            f"table must have a row for every image but {len(lacking)} of {len(keys)} are missing, the first is"
            f" {column} {lacking[0]!r}"
        )
    return [places[text] for text in texts]


# ----------------------------------------------------------------------------------------------------- dealing out rows


def dealt(column: str, values: Sequence[Any], edges: Sequence[Any] | None = None) -> Dealt:
    """Deals images out by the value of a column.

    Args:
        column: name.
        values: of each image, None for missing.
        edges: ascending; a slice then is a bin of values from one edge to below the next. What lies below the first
            edge, and what lies at or above the last, has a bin of its own.

    Raises:
        InputError: edges do not ascend, or a value does not compare with them.

    Example:
        >>> found = dealt("hour", [3, 14, None, 6], [6, 12])
        >>> found.values, [group.tolist() for group in found.groups]
        (['below 6', '6 to below 12', '12 or above', None], [[0], [3], [1], [2]])
    """
    plain = [plain_value(value) for value in values]
    if edges is None:
        keys: list[Any] = [None if value is None else _named(column, value) for value in plain]
        labels = {key: key for key in keys}
        order = _ordered(column, [key for key in labels if key is not None])
    else:
        known = read_edges(column, edges)
        keys = [None if value is None else _bin(column, value, known) for value in plain]
        labels = {place: bin_label(place, known) for place in range(len(known) + 1)}
        order = sorted({key for key in keys if key is not None})
    codes = {key: code for code, key in enumerate([*order, None])}
    places = np.array([codes[key] for key in keys], np.int64)
    present = np.unique(places).tolist()
    named = [None if code == len(order) else labels[order[code]] for code in present]
    return Dealt(column, named, _grouped(places))


def crossed(parts: Sequence[Dealt], images: int) -> Dealt:
    """Deals images out by several columns at once; a slice is a combination of values that some image has.

    Args:
        parts: slices of each column, of the same images.
        images: how many there are.

    Example:
        >>> found = crossed([dealt("weather", ["rain", "sun", "rain"]), dealt("hour", [6, 6, 9])], 3)
        >>> found.column, found.values
        ('weather, hour', ['rain, 6', 'rain, 9', 'sun, 6'])
    """
    codes = np.stack([part.codes(images) for part in parts], 1)
    rows, places = np.unique(codes, axis=0, return_inverse=True)
    values: list[str | None] = [
        ", ".join(_MISSING if (value := part.values[code]) is None else value for part, code in zip(parts, row))
        for row in rows.tolist()
    ]
    return Dealt(", ".join(part.column for part in parts), values, _grouped(places.reshape(-1)))


def _grouped(codes: Ints) -> list[Ints]:
    """Ascending positions of each code that is there, codes ascending."""
    if not len(codes):
        return []
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def label_of(value: Any) -> str:
    """Returns the label of a value: a text as it is, without spaces around it; a whole number without fraction.

    Example:
        >>> label_of(" rain "), label_of(6.0), label_of(0.5), label_of(True)
        ('rain', '6', '0.5', 'True')
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _named(column: str, value: Any) -> str:
    if not isinstance(value, Hashable):
        raise InputTypeError(f"table[{column!r}] must hold numbers, texts, flags or moments but holds {value!r}")
    return label_of(value)


def _ordered(column: str, labels: list[str]) -> list[str]:
    """Labels ascending: numbers by size, others as texts."""
    numbers = {label: _number(label) for label in labels}
    if all(number is not None for number in numbers.values()):
        return sorted(labels, key=lambda label: (numbers[label], label))
    return sorted(labels)


def _number(text: Any) -> float | None:
    try:
        found = float(text)
    except (TypeError, ValueError):
        return None
    return found if found == found else None


def read_edges(column: str, edges: Any) -> list[Any]:
    """Returns the edges of the bins of a column as plain values; raises unless they ascend."""
    if isinstance(edges, (str, bytes)) or not hasattr(edges, "__iter__"):
        raise InputTypeError(f"bins[{column!r}] must be a sequence of edges but is {edges!r}")
    found = [plain_value(edge) for edge in edges]
    try:
        ascending = bool(found) and None not in found and all(low < high for low, high in pairwise(found))
    except TypeError:
        ascending = False
    if not ascending:
        raise InputError(f"bins[{column!r}] must be one or more edges that ascend but got {list(edges)!r}")
    return found


def _bin(column: str, value: Any, edges: Sequence[Any]) -> int:
    """The place of a value among the edges; the text of a number is one."""
    number = _number(value) if isinstance(value, str) and not isinstance(edges[0], str) else value
    try:
        return bisect.bisect_right(edges, number)
    except TypeError:
        raise InputError(
            f"table[{column!r}] must hold values that compare with the bins {list(edges)!r} but holds {value!r}"
        ) from None


def bin_label(place: int, edges: Sequence[Any]) -> str:
    """Returns the label of a bin.

    Args:
        place: 0 for what lies below the first edge.
        edges: ascending.
    """
    if not place:
        return f"below {label_of(edges[0])}"
    if place == len(edges):
        return f"{label_of(edges[-1])} or above"
    return f"{label_of(edges[place - 1])} to below {label_of(edges[place])}"


def check_bins(bins: Mapping[str, Any] | None, columns: Sequence[str]) -> Mapping[str, Any]:
    """Returns the bins; raises where they are of a column that is not asked for."""
    if bins is None:
        return {}
    if not isinstance(bins, Mapping):
        raise InputTypeError(f"bins must be a mapping of columns to edges but is {type(bins).__name__}")
    for name in bins:
        if name not in columns:
            raise InputError(f"bins must be of the columns {', '.join(map(repr, columns))} but got {name!r}")
    return bins
