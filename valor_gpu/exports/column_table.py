"""ColumnTable: a table that analyses return, and the forms in which users take it. Imports no torch."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from valor_gpu.checks import check_int
from valor_gpu.errors import InputError
from valor_gpu.exports.leaves import json_value
from valor_gpu.exports.texts import choice_text, utf8

if TYPE_CHECKING:
    import pandas
    import pyarrow

Table = TypeVar("Table", bound="ColumnTable")

_SHOWN = 20
"""Rows that the text and the HTML of a table show."""


class ColumnTable:
    """Columns of equal length, in order, with the choices that made them.

    A number that does not exist is NaN; a value that a row does not have is None. Integers of which some are missing
    are a ``numpy.ma.MaskedArray``.

    Attributes:
        columns: name to column.
        choices: name to choice.

    Args:
        columns: name to sequence or array; texts, numbers, bools, None where a value is missing.
        choices: what the table depends on.

    Raises:
        InputError: columns differ in length.

    Example:
        >>> table = ColumnTable({"image_id": [7, 9], "f1": [1.0, 0.5]}, {"iou": 0.5})
        >>> len(table), table["f1"][1], table.rows()[0]
        (2, 0.5, {'image_id': 7, 'f1': 1.0})
        >>> print(table.sort_by("f1"))
        image_id      f1
               9  0.5000
               7  1.0000
        2 rows
        iou:0.5
    """

    def __init__(self, columns: Mapping[str, Any], choices: Mapping[str, Any] | None = None) -> None:
        self.columns = dict(columns)
        self.choices = dict(choices or {})
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise InputError(f"columns must have one length but have {lengths}")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            raise InputError(f"there is no column {name!r}: the table has {', '.join(self.columns)}")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def rows(self) -> list[dict[str, Any]]:
        """Returns a dict of plain Python values per row."""
        return [dict(zip(self.columns, values)) for values in zip(*map(_plain, self.columns.values()))]

    def head(self: Table, count: int = 10) -> Table:
        """Returns the first ``count`` rows."""
        check_int("count", count, 0)
        return self.take(np.arange(min(count, len(self))))

    def sort_by(self: Table, name: str, descending: bool = False) -> Table:
        """Returns the rows in the order of a column; equal ones as they came, NaN and missing values last.

        Raises:
            InputError: there is no such column.

        Example:
            >>> table = ColumnTable({"image_id": [7, 8, 9], "f1": [0.5, float("nan"), 1.0]})
            >>> table.sort_by("f1", descending=True)["image_id"]
            [9, 7, 8]
        """
        values = _plain(self[name])
        unknown = [value is None or value != value for value in values]
        known = [row for row, missing in enumerate(unknown) if not missing]
        order = sorted(known, key=values.__getitem__, reverse=descending)
        return self.take(np.array([*order, *np.flatnonzero(unknown)], np.int64))

    def take(self: Table, rows: NDArray[np.int64]) -> Table:
        """Returns the rows at these positions, in their order."""
        taken = copy.copy(self)
        taken.columns = {
            name: column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows.tolist()]
            for name, column in self.columns.items()
        }
        return taken

    def to_dict(self) -> dict[str, Any]:
        """Returns the columns as lists that ``json.dumps(..., allow_nan=False)`` takes: NaN becomes None."""
        return {name: json_value(column) for name, column in self.columns.items()}

    def to_json(self, indent: int | None = None) -> str:
        """Returns strict JSON of :meth:`to_dict`.

        Args:
            indent: spaces of each level; None: all on one line.
        """
        import json

        return json.dumps(self.to_dict(), allow_nan=False, indent=indent)

    def to_pandas(self) -> pandas.DataFrame:
        """Returns a DataFrame; ``attrs`` has the choices. Integers of which some are missing are of dtype ``Int64``.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        from valor_gpu.exports.frames import imported

        module = imported("pandas", "pandas", f"{type(self).__name__}.to_pandas")
        columns = {
            name: module.arrays.IntegerArray(column.data, np.ma.getmaskarray(column))
            if _is_masked(column)
            else _texts_of_utf8(column)
            for name, column in self.columns.items()
        }
        frame: pandas.DataFrame = module.DataFrame(columns)
        frame.attrs = json_value(self.choices)
        return frame

    def to_arrow(self) -> pyarrow.Table:
        """Returns a table of pyarrow: what is missing is null, NaN stays; ``schema.metadata`` has the choices as JSON.

        Raises:
            MissingExtraError: pyarrow is not installed.
        """
        import json

        from valor_gpu.exports.frames import imported

        arrow = imported("pyarrow", "arrow", f"{type(self).__name__}.to_arrow")
        columns = {
            name: arrow.array(column.data, mask=np.ma.getmaskarray(column))
            if _is_masked(column)
            else arrow.array(_texts_of_utf8(column), from_pandas=False)
            for name, column in self.columns.items()
        }
        metadata = {name: json.dumps(value) for name, value in json_value(self.choices).items()}
        table: pyarrow.Table = arrow.table(columns).replace_schema_metadata(metadata or None)
        return table

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes :meth:`to_arrow` as Parquet, in one step.

        Raises:
            MissingExtraError: pyarrow is not installed.
            OSError: the file cannot be written; an older one stays as it is.
        """
        from valor_gpu.exports.files import write_bytes
        from valor_gpu.exports.frames import imported

        table = self.to_arrow()
        sink = imported("pyarrow", "arrow", f"{type(self).__name__}.to_parquet").BufferOutputStream()
        imported("pyarrow.parquet", "arrow", f"{type(self).__name__}.to_parquet").write_table(table, sink)
        write_bytes(path, sink.getvalue())

    def to_csv(self, path: str | os.PathLike[str], guard: bool = True) -> None:
        """Writes the table as CSV, UTF-8, in one step, as ``csv.writer`` does, with line feeds.

        A missing value is empty, NaN is ``nan``, and floats have the fewest digits that give the same bits.

        Args:
            path: of the file.
            guard: put an apostrophe before a text that a spreadsheet would run as a formula; Parquet has it as it is.

        Raises:
            OSError: the file cannot be written; an older one stays as it is.
        """
        from valor_gpu.exports.csv_text import csv_text
        from valor_gpu.exports.files import write_text

        write_text(path, csv_text(self.columns, guard))

    def _repr_html_(self) -> str:
        """Table for notebooks: the first rows, how many there are, and the choices."""
        from valor_gpu.exports.html import table_html

        return table_html(self._shown(), len(self), self._notes())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_counted(len(self))}: {', '.join(self.columns)})"

    def __str__(self) -> str:
        from valor_gpu.exports.table_text import table_text

        return table_text(self._shown(), len(self), self._notes())

    def _shown(self) -> dict[str, Sequence[Any]]:
        """The first rows as plain Python values."""
        return {name: _plain(column[:_SHOWN]) for name, column in self.columns.items()}

    def _notes(self) -> list[str]:
        choices = "|".join(f"{name}:{choice_text(value)}" for name, value in self.choices.items())
        return [note for note in (_counted(len(self)), choices) if note]


def _counted(rows: int) -> str:
    return f"{rows:,} row{'s' * (rows != 1)}"


def _plain(column: Any) -> list[Any]:
    """A column as plain Python values."""
    return column.tolist() if isinstance(column, np.ndarray) else list(column)


def _texts_of_utf8(column: Any) -> Any:
    """The column, its texts without lone surrogates, which Arrow cannot hold."""
    if isinstance(column, np.ndarray) and column.dtype != object:
        return column
    known = {value: utf8(value).decode() for value in set(filter(_is_text, column))}
    changed = any(old != new for old, new in known.items())
    return [known[value] if _is_text(value) else value for value in column] if changed else column


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_masked(column: Any) -> bool:
    return isinstance(column, np.ma.MaskedArray)
