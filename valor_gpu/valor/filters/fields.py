"""The fields that conditions compare and slices go by, and their values."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from valor_gpu.errors import InputError
from valor_gpu.valor.filters.geometries import Geometries, annotation_kinds, of_annotations, of_metadata
from valor_gpu.valor.filters.values import read_value

if TYPE_CHECKING:
    from valor_gpu.valor.columns import Columns, Rows

DATUM_FIELDS = ("datum.uid", "datum.metadata", "datum.metadata.area")
GEOMETRIES = ("annotation.geometry", "annotation.bounding_box", "annotation.polygon", "annotation.raster")
AREAS = (*(f"{name}.area" for name in GEOMETRIES), "datum.metadata.area", "annotation.metadata.area")
KIND = "annotation.geometry.type"
FIELDS = (
    "datum.uid", "datum.metadata", "annotation.metadata", "label.key", "label.value", "score", *GEOMETRIES, KIND,
    *AREAS,
)  # fmt: skip

Values = Sequence[Any] | NDArray[np.float64] | Geometries
Index = NDArray[np.int32] | slice


def place_of(field: str, key: str | None) -> str:
    """A field as messages name it."""
    return field if key is None else f"{field} {key}"


def field_values(field: str, key: str | None, rows: Rows, columns: Columns) -> tuple[Values, Index]:
    """The values of a field, each once, and where those of the rows are.

    Args:
        field: one of ``FIELDS``.
        key: of metadata.
        rows: of one side.
        columns: both sides.

    Returns:
        Objects, None for missing; or numbers, NaN for missing; or the geometries of annotations. And an index that
        makes values of rows of them.

    Raises:
        InputError: a value of metadata that is none of its type, or annotations without geometries.
    """
    if field == "score":
        return rows.score, slice(None)
    if field == "datum.uid":
        return columns.datums, rows.datum
    if field in ("label.key", "label.value"):
        return [label[field == "label.value"] for label in columns.labels], rows.label
    if ".metadata" in field:
        entries, index = _metadata(field, rows, columns)
        place = place_of(field, key)
        values = [read_value(place, (entry or {}).get(str(key))) for entry in entries]
        return (of_metadata(place, values).areas() if field in AREAS else values), index
    if field == KIND:
        return annotation_kinds(rows), rows.annotation
    found = of_annotations(rows, field.removesuffix(".area"))
    return (found.areas() if field in AREAS else found), rows.annotation


def _metadata(field: str, rows: Rows, columns: Columns) -> tuple[Sequence[Any], NDArray[np.int32]]:
    of_datums = field.startswith("datum.")
    return (columns.datum_metadata, rows.datum) if of_datums else (rows.metadata, rows.annotation)


def check_key(field: str, key: str | None, rows: Rows, columns: Columns) -> None:
    """Raises when no datum or annotation has such metadata; there may be a typing error.

    Args:
        field: one of ``FIELDS``.
        key: of metadata; None is never wrong.
        rows: of one side; without rows nothing is wrong.
        columns: both sides.
    """
    if key is None or len(rows) == 0:
        return
    entries = _metadata(field, rows, columns)[0]
    if any(key in entry for entry in entries if entry):
        return
    known = sorted({key for entry in entries for key in entry or ()})
    near = difflib.get_close_matches(key, known) or known
    raise InputError(
        f"{field} {key!r} must be a key that some {field.split('.')[0]} has but none has it; there is "
        f"{', '.join(map(repr, near)) or 'no metadata'}"
    )
