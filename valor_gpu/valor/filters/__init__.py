"""Filters: conditions on datums, annotations, labels and scores, joined by and, or and not.

A condition compares a field: ``datum_uid``, ``datum_metadata[name]``, ``annotation_metadata[name]``, ``label_key``,
``label_value``, ``score``, or a geometry of an annotation, its area or its kind. It is evaluated once for each datum,
annotation or label, then spread over the rows. Where the field is missing (no such metadata, a score of ground truths)
every comparison is false; only ``isnull`` is true. What each comparison means is in docs/valor.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from valor_gpu.checks import check_type
from valor_gpu.errors import InputError
from valor_gpu.valor.columns import Columns, Rows
from valor_gpu.valor.filters.conditions import OPERATORS, And, Condition, Expression, Mask, Not, Or
from valor_gpu.valor.filters.fields import DATUM_FIELDS, FIELDS, check_key
from valor_gpu.valor.filters.trees import expressions

__all__ = [
    "FIELDS",
    "OPERATORS",
    "And",
    "Condition",
    "Expression",
    "Field",
    "Filter",
    "Not",
    "Or",
    "annotation_box",
    "annotation_geometry",
    "annotation_metadata",
    "annotation_polygon",
    "annotation_raster",
    "datum_metadata",
    "datum_uid",
    "label_key",
    "label_value",
    "score",
]


class Field:
    """A field to compare: ``==``, ``!=``, ``<`` and so on make a :class:`Condition`.

    Example:
        >>> datum_metadata["weather"] == "rain"
        Condition(op='eq', field='datum.metadata', value='rain', key='weather')
        >>> annotation_geometry.area < 32 * 32
        Condition(op='lt', field='annotation.geometry.area', value=1024, key=None)
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, key: str | None = None) -> None:
        self.name, self.key = name, key

    def _condition(self, op: str, value: Any = None) -> Condition:
        return Condition(op, self.name, value, self.key)

    def __eq__(self, value: object) -> Condition:  # type: ignore[override]
        return self._condition("eq", value)

    def __ne__(self, value: object) -> Condition:  # type: ignore[override]
        return self._condition("ne", value)

    def __gt__(self, value: Any) -> Condition:
        return self._condition("gt", value)

    def __ge__(self, value: Any) -> Condition:
        return self._condition("gte", value)

    def __lt__(self, value: Any) -> Condition:
        return self._condition("lt", value)

    def __le__(self, value: Any) -> Condition:
        return self._condition("lte", value)

    def contains(self, value: Any) -> Condition:
        """The field holds ``value``: part of a text, or member of a list."""
        return self._condition("contains", value)

    def isin(self, values: Iterable[Any]) -> Condition:
        """The field is one of ``values``."""
        return self._condition("isin", values)

    def isnull(self) -> Condition:
        """The field is missing."""
        return self._condition("isnull")

    def isnotnull(self) -> Condition:
        """The field is there."""
        return self._condition("isnotnull")

    def intersects(self, geometry: Any) -> Condition:
        """The geometry has a point in common with another: an object of ``valor_gpu.valor``, or a GeoJSON dict."""
        return self._condition("intersects", geometry)

    def inside(self, geometry: Any) -> Condition:
        """The geometry lies in another one, whose boundary belongs to it."""
        return self._condition("inside", geometry)

    def outside(self, geometry: Any) -> Condition:
        """The geometry has no point in common with another."""
        return self._condition("outside", geometry)

    @property
    def area(self) -> Field:
        """The area of the geometry in square pixels, of a raster its number of pixels."""
        return Field(f"{self.name}.area", self.key)

    @property
    def type(self) -> Field:
        """The kind of an annotation's geometry: ``box``, ``polygon``, ``multipolygon`` or ``raster``."""
        return Field(f"{self.name}.type", self.key)


class _Metadata:
    """Fields by the name of the metadata."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getitem__(self, key: str) -> Field:
        return Field(self._name, key)


datum_uid = Field("datum.uid")
datum_metadata = _Metadata("datum.metadata")
annotation_metadata = _Metadata("annotation.metadata")
annotation_box = Field("annotation.bounding_box")
annotation_polygon = Field("annotation.polygon")
annotation_raster = Field("annotation.raster")
annotation_geometry = Field("annotation.geometry")
label_key = Field("label.key")
label_value = Field("label.value")
score = Field("score")


@dataclass(frozen=True)
class Filter:
    """What an evaluation keeps.

    Args:
        datums: of both sides; may compare ``datum_uid`` and ``datum_metadata``.
        groundtruths: rows of ground truths.
        predictions: rows of predictions. What is left need not sum to 1.

    Example:
        >>> night = Filter(datums=datum_metadata["time"] == "night", predictions=score >= 0.1)
    """

    datums: Expression | None = None
    groundtruths: Expression | None = None
    predictions: Expression | None = None

    def __post_init__(self) -> None:
        for name in ("datums", "groundtruths", "predictions"):
            check_type(name, getattr(self, name), (Expression, type(None)))
        other = (set() if self.datums is None else self.datums.fields()) - set(DATUM_FIELDS)
        if other:
            raise InputError(f"datums must compare datum.uid and datum.metadata only but compares {sorted(other)}")

    @classmethod
    def from_dict(cls, tree: Mapping[str, Any]) -> Filter:
        """From a dict of ``datums``, ``groundtruths`` and ``predictions``, in the form of Valor's client.

        Each is a tree of ``{"op": "and", "args": [...]}``, ``{"op": "not", "args": expression}`` and conditions
        ``{"op": "gt", "lhs": {"name": "datum.metadata", "key": "hour"}, "rhs": {"type": "integer", "value": 3}}``. The
        type may be left out; ``lhs`` may be the name alone, beside ``lhs_key``. ``annotations`` and ``labels`` hold for
        both sides; ``label.score`` is ``score``.

        Raises:
            InputError: another key, operator or field, another number of expressions in ``not`` than one, a condition
                without ``rhs`` whose operator needs one, or a value that is none of its type; the message names the
                place in the tree.

        Example:
            >>> tree = {"op": "eq", "lhs": {"name": "label.key"}, "rhs": {"value": "k"}}
            >>> Filter.from_dict({"groundtruths": tree}).groundtruths
            Condition(op='eq', field='label.key', value='k', key=None)
        """
        return cls(**expressions(tree))

    def masks(self, columns: Columns) -> tuple[Mask, Mask, Mask]:
        """Which datums, rows of ground truths and rows of predictions pass.

        Raises:
            InputError: a key of metadata that nothing has, or values that do not compare.
        """
        for expression, rows in (
            (self.datums, columns.groundtruths),
            (self.groundtruths, columns.groundtruths),
            (self.predictions, columns.predictions),
        ):
            for condition in () if expression is None else expression.conditions():
                check_key(condition.field, condition.key, rows, columns)
        every = np.arange(len(columns.datums), dtype=np.int32)
        datums = np.ones(len(every), np.bool_)
        if self.datums is not None:
            datums = self.datums.mask(Rows(every, every, every, np.zeros(0)), columns)
        sides = []
        for expression, rows in ((self.groundtruths, columns.groundtruths), (self.predictions, columns.predictions)):
            keep = datums[rows.datum]
            sides.append(keep if expression is None else keep & expression.mask(rows, columns))
        return datums, sides[0], sides[1]
