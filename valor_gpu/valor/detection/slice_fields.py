"""Deals datums and rows out to slices: by the values of a field, or by bins of them."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_choice, check_type
from valor_gpu.errors import InputError
from valor_gpu.valor.columns import Columns, Mask, Pair, Rows
from valor_gpu.valor.detection.scene import EvaluatedData
from valor_gpu.valor.filters import Field
from valor_gpu.valor.filters.fields import DATUM_FIELDS, FIELDS, GEOMETRIES, check_key, field_values, place_of
from valor_gpu.valor.filters.names import choose
from valor_gpu.valor.filters.values import is_geometry, read_value

Codes = NDArray[np.int64]
SIDES = ("both", "groundtruths", "predictions")
_PREFIXES = {"metadata.": "datum.metadata", "datum.metadata.": "datum.metadata",
             "annotation.metadata.": "annotation.metadata"}  # fmt: skip
_NAMES = tuple(name for name in FIELDS if ".metadata" not in name and name not in GEOMETRIES)
_ORDERED = (bool, int, float, str, datetime, time, timedelta)


@dataclass(frozen=True)
class SliceField:
    """A field that slices go by.

    Attributes:
        name: one of ``filters.FIELDS``.
        key: of metadata.
        edges: between the bins of its values, ascending; None: each value is a slice.
    """

    name: str
    key: str | None = None
    edges: tuple[Any, ...] | None = None

    @classmethod
    def read(cls, name: Field | str, edges: Sequence[Any] | None) -> SliceField:
        """A field from what a user gives.

        Args:
            name: a field of ``valor_gpu.valor.filters``; or its name, of metadata with the key: ``metadata.weather``
                (of datums), ``annotation.metadata.pose``, ``label.value``, ``annotation.geometry.area``.
            edges: numbers or moments, ascending.

        Raises:
            InputError: no such field, one without values, or edges that do not ascend.
        """
        check_type("field", name, (Field, str))
        if isinstance(name, Field):
            found, key = name.name, name.key
        else:
            prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
            found, key = (_PREFIXES[prefix], name.removeprefix(prefix)) if prefix else (name, None)
        found = {"label.score": "score"}.get(found, found)
        if key is None:
            choose("field", found, (*_NAMES, *(f"{prefix}<key>" for prefix in _PREFIXES)))
        return cls(found, key, None if edges is None else _read_edges(edges))

    @property
    def of_datums(self) -> bool:
        """Whether datums have it."""
        return self.name in DATUM_FIELDS

    def check_there(self, rows: Rows, columns: Columns) -> None:
        """Raises when no datum or annotation of a side has such metadata."""
        check_key(self.name, self.key, rows, columns)


def _read_edges(edges: Sequence[Any]) -> tuple[Any, ...]:
    check_type("edges", edges, (list, tuple, np.ndarray))
    found = tuple(read_value("edges", edge) for edge in edges)
    try:
        ascending = len(found) > 0 and all(low < high for low, high in pairwise(found)) and found[0] == found[0]
    except TypeError:
        ascending = False
    if not ascending:
        raise InputError(f"edges must be one or more numbers or moments that ascend but got {list(edges)!r}")
    return found


@dataclass
class SliceCodes:
    """Numbers of slices, given out as their values come; both sides share one.

    Attributes:
        field: what slices go by.
        codes: of each value; of bins their place among the edges.
    """

    field: SliceField
    codes: dict[Any, int] = dataclasses.field(default_factory=dict)

    def of(self, rows: Rows, columns: Columns) -> NDArray[np.int64]:
        """The number of the slice of each row.

        Args:
            rows: of one side; or one row a datum.
            columns: both sides.

        Raises:
            InputError: values that are no names of slices, or that do not compare with the edges.
        """
        values, index = field_values(self.field.name, self.field.key, rows, columns)
        listed = values.tolist() if isinstance(values, np.ndarray) else values
        assert isinstance(listed, Sequence)
        kinds = self._value if self.field.edges is None else self._bin
        codes = [self.codes.setdefault(kinds(value), len(self.codes)) for value in listed]
        return np.array(codes, np.int64).reshape(-1)[index]

    def _value(self, value: Any) -> Any:
        """Something that is equal for values of one slice; True is not 1."""
        if value is None or value != value:
            return None
        if isinstance(value, _ORDERED):
            return isinstance(value, bool), value
        what = "a geometry" if is_geometry(value) else repr(value)
        raise InputError(f"{self._place} must hold numbers, texts, flags or moments to slice by but holds {what}")

    def _bin(self, value: Any) -> Any:
        if value is None or value != value:
            return None
        try:
            return bisect.bisect_right(self.field.edges or (), value)
        except TypeError:
            raise InputError(
                f"{self._place} must compare with edges {self.field.edges!r} but holds {value!r}"
            ) from None

    @property
    def _place(self) -> str:
        return place_of(self.field.name, self.field.key)

    def ordered(self) -> tuple[list[Any], NDArray[np.int64]]:
        """Names of slices in their order, None last, and the place of each code."""
        known = [code for code in self.codes if code is not None]
        try:
            known.sort()
        except TypeError:  # such as texts and numbers: by type
            known.sort(key=lambda code: (type(code[1]).__name__, code[1]))
        listed = known + [None] * (None in self.codes)
        places = {code: place for place, code in enumerate(listed)}
        return [self._name(code) for code in listed], np.array([places[code] for code in self.codes], np.int64)

    def _name(self, code: Any) -> Any:
        if code is None:
            return None
        if self.field.edges is None:
            return code[1]
        ends = (None, *self.field.edges, None)
        return ends[code], ends[code + 1]


class Deal(NamedTuple):
    """The slice of each datum, of each row of ground truths and of predictions, -1 for none; None: all share them."""

    datums: Codes | None
    groundtruths: Codes | None
    predictions: Codes | None


@dataclass(frozen=True)
class Dealt:
    """Data of an evaluation, dealt out to slices.

    Attributes:
        data: of the evaluation.
        values: name of each slice.
        deal: the slice of each datum and row.
    """

    data: EvaluatedData
    values: list[Any]
    deal: Deal

    def masks(self, place: int) -> tuple[Mask, Mask, Mask]:
        """The datums, ground truths and predictions of a slice."""
        kept = [mask if codes is None else codes == place for codes, mask in zip(self.deal, self.data.masks)]
        return kept[0], kept[1], kept[2]

    @cached_property
    def counts(self) -> tuple[Codes, Codes, Codes]:
        """Datums, ground truths and predictions of each slice."""
        size, columns = len(self.values), self.data.scene.columns
        shared = [np.full(size, np.count_nonzero(mask)) for mask in self.data.masks]
        counts = [
            whole if codes is None else np.bincount(codes[codes >= 0], minlength=size)
            for codes, whole in zip(self.deal, shared)
        ]
        if self.deal[0] is None:
            sides = zip(self.deal[1:], (columns.groundtruths, columns.predictions))
            cells = [
                codes[codes >= 0] * len(columns.datums) + rows.datum[codes >= 0]
                for codes, rows in sides
                if codes is not None
            ]
            counts[0] = np.bincount(np.unique(np.concatenate(cells)) // len(columns.datums), minlength=size)
        return counts[0], counts[1], counts[2]

    @cached_property
    def labels(self) -> tuple[list[set[Pair]], list[set[Pair]]]:
        """Labels of ground truths and of predictions of each slice."""
        columns, size = self.data.scene.columns, len(self.values)
        count, found = len(columns.labels), []
        for codes, rows, mask in zip(self.deal[1:], (columns.groundtruths, columns.predictions), self.data.masks[1:]):
            if codes is None:
                found.append([columns.labels_of(rows.take(mask))] * size)
                continue
            sets: list[set[Pair]] = [set() for _ in range(size)]
            for cell in np.unique(codes[codes >= 0] * count + rows.label[codes >= 0]).tolist():
                sets[cell // count].add(columns.labels[cell % count])
            found.append(sets)
        return found[0], found[1]


def deal_slices(data: EvaluatedData, field: SliceField, side: str | None) -> Dealt:
    """Deals the data of an evaluation out to slices.

    Args:
        data: of the evaluation.
        field: the field whose values name the slices.
        side: of fields of annotations, labels and scores: whose rows are dealt out.

    Raises:
        InputError: a side that the field does not have.
    """
    check_choice("side", side, (None, *SIDES))
    if field.of_datums:
        if side is not None:
            raise InputError(f"side must be None with a field of datums, which both sides share, but got {side!r}")
        return _deal_datums(data, SliceCodes(field))
    if field.name == "score" and side not in (None, "predictions"):
        raise InputError(f"side must be 'predictions' with score, which ground truths do not have, but got {side!r}")
    return _deal_rows(data, SliceCodes(field), side or ("predictions" if field.name == "score" else "both"))


def _deal_datums(data: EvaluatedData, codes: SliceCodes) -> Dealt:
    columns, (datums, truths, rows) = data.scene.columns, data.masks
    codes.field.check_there(columns.groundtruths, columns)
    every = np.arange(len(columns.datums), dtype=np.int32)
    found = codes.of(Rows(every, every, every, np.zeros(0)), columns)
    values, places = _kept(codes, [found[datums]])
    place = np.where(datums, places[found], -1)
    gt_place, row_place = place[columns.groundtruths.datum], place[columns.predictions.datum]
    return Dealt(data, values, Deal(place, np.where(truths, gt_place, -1), np.where(rows, row_place, -1)))


def _deal_rows(data: EvaluatedData, codes: SliceCodes, side: str) -> Dealt:
    columns = data.scene.columns
    found: list[Codes | None] = []
    for name, rows in ((SIDES[1], columns.groundtruths), (SIDES[2], columns.predictions)):
        if side in ("both", name):
            codes.field.check_there(rows, columns)
        found.append(codes.of(rows, columns) if side in ("both", name) else None)
    used = [of[mask] for of, mask in zip(found, data.masks[1:]) if of is not None]
    values, places = _kept(codes, used)
    truths, rows_ = (None if of is None else np.where(mask, places[of], -1) for of, mask in zip(found, data.masks[1:]))
    return Dealt(data, values, Deal(None, truths, rows_))


def _kept(codes: SliceCodes, used: Sequence[Codes]) -> tuple[list[Any], Codes]:
    """Names of the slices that have rows, and the place of each code among them; -1 of others."""
    values, places = codes.ordered()
    there = np.zeros(len(values), np.bool_)
    for found in used:
        there[places[found]] = True
    number = np.where(there, np.cumsum(there) - 1, -1)
    return [value for value, kept in zip(values, there.tolist()) if kept], number[places]
