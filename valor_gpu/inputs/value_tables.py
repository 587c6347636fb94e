"""Tables about images as columns of plain values: files, frames, mappings and lists of rows. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from contextlib import nullcontext
from typing import Any

import numpy as np

from valor_gpu.errors import InputError, InputTypeError
from valor_gpu.inputs._array_tables import PARQUET, _parquet
from valor_gpu.inputs._table import Format
from valor_gpu.inputs._text_tables import JSON_LINES, _objects
from valor_gpu.inputs.files import InputFile
from valor_gpu.inputs.tables import _format

Columns = dict[str, list[Any]]
_TIMES = "mM"
"""Kinds of numpy's spans and moments."""
_MISSING = ("NAType", "NaTType")
"""Types of what pandas has in a place without a value."""


def read_columns(table: Any) -> Columns:
    """Reads the columns of a table; what is missing is None.

    Args:
        table: a DataFrame of pandas or polars, a table of pyarrow, a mapping of columns, a list of mappings (a key that
            a row lacks is missing in it), or the path of a file ``.csv``, ``.tsv``, ``.jsonl``, ``.parquet`` or
            ``.npz``. The values of CSV are texts, of which an empty one is missing.

    Raises:
        InputError: columns differ in length, a name comes twice, or a file is damaged.
        InputTypeError: ``table`` is none of these.
        MissingExtraError: Parquet without pyarrow.

    Example:
        >>> read_columns([{"image_id": 7, "weather": "rain"}, {"image_id": 9}])
        {'image_id': [7, 9], 'weather': ['rain', None]}
    """
    if isinstance(table, (str, os.PathLike, InputFile)):
        columns = _of_file(table if isinstance(table, InputFile) else InputFile(table))
    elif isinstance(table, Sequence):
        columns = _of_rows("table", table)
    else:
        columns = _of_frame(table)
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"table must have columns of one length but has {lengths}")
    return {name: list(map(plain_value, column)) for name, column in columns.items()}


def _in_microseconds(times: Any) -> Any:
    """Moments or spans of numpy in the finest unit that Python has: it gives finer ones as whole numbers."""
    return times.astype(f"{times.dtype.kind}8[us]")


def plain_value(value: Any) -> Any:
    """Returns a value as a plain one of Python, None where it is missing: None, NaN, an empty text.

    Example:
        >>> plain_value(float("nan")), plain_value(""), plain_value(3)
        (None, None, 3)
    """
    if hasattr(value, "item") and not getattr(value, "shape", ()):
        times = isinstance(value, np.generic) and value.dtype.kind in _TIMES
        value = (_in_microseconds(value) if times else value).item()
    if value is None or type(value).__name__ in _MISSING or (isinstance(value, float) and value != value):
        return None
    return None if isinstance(value, str) and not value.strip() else value


def _of_frame(table: Any) -> Columns:
    """The columns of what has them by name."""
    names: Any = list(table) if isinstance(table, Mapping) else getattr(table, "column_names", None)
    if names is None or callable(names):
        names = getattr(table, "columns", None)
    if names is None or callable(names) or not hasattr(table, "__getitem__"):
        raise InputTypeError(
            "table must be a frame, a mapping of columns, a list of rows or the path of a file but is"
            f" {type(table).__name__}"
        )
    names = list(names)
    _check_once("table", list(map(str, names)))
    return {str(name): _listed(str(name), table[name]) for name in names}


def _check_once(name: str, columns: Sequence[str]) -> None:
    """Raises where two columns have one name, as the number 1 and the text 1 have."""
    repeated = next((column for column in columns if columns.count(column) > 1), None)
    if repeated is not None:
        raise InputError(f"{name} must name each column once but has {repeated!r} {columns.count(repeated)} times")


def _listed(name: str, column: Any) -> list[Any]:
    if isinstance(column, np.ndarray) and column.dtype.kind in _TIMES:
        column = _in_microseconds(column)
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    if isinstance(column, (str, bytes, Mapping, Set)) or not hasattr(column, "__iter__"):
        raise InputTypeError(f"table[{name!r}] must be a column of values but is {column!r}")
    return list(column)


def _of_rows(name: str, rows: Sequence[Any]) -> Columns:
    """The columns of mappings; a key that a row lacks is None in it."""
    for place, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InputTypeError(f"{name}[{place}] must be a mapping of columns but is {type(row).__name__}")
    names = dict.fromkeys(key for row in rows for key in row)
    _check_once(name, list(map(str, names)))
    return {str(key): [row.get(key) for row in rows] for key in names}


def _of_file(file: InputFile) -> Columns:
    with nullcontext() if file.is_stream else file.unchanged():
        kind = _format(file)
        if kind is JSON_LINES:
            return _of_rows(file.name, [row for _, row in _objects(file)])
        if kind is PARQUET:
            with _parquet(file) as opened:
                return _of_frame(opened.read())
        return _of_texts(kind, file)


def _of_texts(kind: Format, file: InputFile) -> Columns:
    names = kind.names(file)
    columns = [name.strip() for name in names]
    _check_once(file.name, columns)
    return dict(zip(columns, kind.read(file, names, ()).texts))
